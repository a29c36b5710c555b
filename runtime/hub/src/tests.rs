//! What unit tests share: where files of the checkout lie, which no package has.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Path of a file or folder of the checkout. None in a package of the registry, where the test that asks for it cannot
/// be made; a line says so.
pub(crate) fn path_in_checkout(path: &str, test: &str) -> Option<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Cargo puts it into every package. In the checkout, a file that is not where it was is no reason to skip a test.
    if package.join("Cargo.toml.orig").exists() {
        // Past the test harness, which would keep it to itself. A package has no orco-trials.
        let _ = writeln!(io::stderr(), "skipped: {test} (a package has no {path})");
        return None;
    }
    Some(package.join("../..").join(path))
}
