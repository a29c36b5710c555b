//! Unit tests of the page's scripts, `page/tests`, run by Node's test runner. Node is Debian's (`apt-get install
//! nodejs`); where it is not installed, they are skipped and say so.

use std::path::{Path, PathBuf};
use std::process::Command;

use orco_trials::missing;

#[test]
fn the_scripts_of_the_page_pass_their_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page/tests");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().ends_with(".test.js")).collect();
    assert!(!files.is_empty());
    // Folders are given to the runner in another way by every release of Node; files are not.
    let output = match Command::new("node").arg("--test").args(&files).env_remove("NODE_OPTIONS").output() {
        Ok(output) => output,
        Err(error) => return missing("ORCO_NODE", "the scripts of the page", &format!("node does not start: {error}")),
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
}
