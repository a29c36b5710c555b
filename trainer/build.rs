//! Tells the program which commit it is built from, where git keeps its sources; `run.json` passes it on.

use std::path::Path;
use std::process::Command;

fn main() {
    // What is compiled anyway: another commit of the same sources is no reason to compile again.
    for path in ["build.rs", "Cargo.toml", "src", "../Cargo.lock", "../runtime/src"] {
        println!("cargo:rerun-if-changed={path}");
    }
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
    let changed = ask(&["status", "--porcelain", "--", ".", "../runtime", "../Cargo.lock", "../Cargo.toml"]);
    if let (Some(commit), Some(changed)) = (commit, changed) {
        println!("cargo:rustc-env=ORCO_COMMIT={}", commit.trim());
        println!("cargo:rustc-env=ORCO_CHANGED_FILES={}", changed.lines().count());
    }
}
