//! What a build script tells its program of the commit that it is built from.

use std::path::Path;
use std::process::Command;

/// Sets `ORCO_COMMIT` and `ORCO_CHANGED_FILES` for the program, where git keeps its sources. Files count as changed if
/// they lie in one of these places, as seen from the package.
pub fn tell(places: &[&str]) {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where the package is");
    let ask = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git").current_dir(Path::new(&folder)).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // A copy that lies inside another project's folder is not of that project's commit.
    if ask(&["ls-files", "--error-unmatch", "Cargo.toml"]).is_none() {
        return;
    }
    let commit = ask(&["rev-parse", "HEAD"]);
    let changed = ask(&[&["status", "--porcelain", "--"], places].concat());
    if let (Some(commit), Some(changed)) = (commit, changed) {
        println!("cargo:rustc-env=ORCO_COMMIT={}", commit.trim());
        println!("cargo:rustc-env=ORCO_CHANGED_FILES={}", changed.lines().count());
    }
}
