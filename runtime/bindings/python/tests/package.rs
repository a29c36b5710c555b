//! The package, put together from what Cargo built: its example teaches two classes, and `test_orco.py` tries the rest.
//! Where there is no python3 with numpy, that is said, and nothing is tested.

#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// The package in a folder of its own, where Python finds it.
struct Installed {
    folder: tempfile::TempDir,
    /// The folder with numpy, unless Python finds that by itself.
    packages: Option<PathBuf>,
}

impl Installed {
    fn fresh() -> Option<Self> {
        // Set up for the tests of the exported networks, numpy among it.
        let packages = std::env::var_os("ORCO_ONNX_CHECKER").map(PathBuf::from);
        let installed = Self { folder: tempfile::tempdir().unwrap(), packages };
        let asked = installed.python(&["-c", "import numpy"]).output();
        if !asked.is_ok_and(|output| output.status.success()) {
            // Written past the harness's capture, so that it is seen.
            let said = "skipped: the Python package (there is no python3 with numpy; `cargo xtask test` sets it up)";
            let _ = writeln!(std::io::stderr(), "{said}");
            return None;
        }
        let package = installed.folder.path().join("orco");
        fs::create_dir(&package).unwrap();
        for file in fs::read_dir(Path::new(PACKAGE).join("python/orco")).unwrap().map(Result::unwrap) {
            if file.path().is_file() {
                fs::copy(file.path(), package.join(file.file_name())).unwrap();
            }
        }
        let built = std::env::current_exe().unwrap().parent().unwrap().join(format!(
            "{}_orco{}",
            std::env::consts::DLL_PREFIX,
            std::env::consts::DLL_SUFFIX
        ));
        fs::copy(&built, package.join("_orco.abi3.so")).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
        Some(installed)
    }

    fn python(&self, arguments: &[&str]) -> Command {
        let paths = [Some(self.folder.path()), self.packages.as_deref()];
        let paths = std::env::join_paths(paths.into_iter().flatten()).unwrap();
        let mut command = Command::new("python3");
        command.args(arguments).env("PYTHONPATH", paths).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
        command
    }
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = [&output.stdout[..], &output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
    output
}

#[test]
fn the_example_teaches() {
    let Some(installed) = Installed::fresh() else { return };
    let (shots, state) = (Path::new(REPOSITORY).join("examples/shots"), installed.folder.path().join("state"));
    let example = Path::new(REPOSITORY).join("examples/python/teach.py");
    let mut command = installed.python(&[]);
    command.arg(example).arg(Path::new(REPOSITORY).join("models/cifar100-edge")).arg(state);
    for (label, class) in [("duck", "rubber-duck"), ("cône", "traffic-cone")] {
        command.arg(format!("{label}={}", shots.join("learn").join(class).display()));
        command.args((1..=5).map(|number| shots.join("try").join(class).join(format!("{number}.jpg"))));
    }
    let said = String::from_utf8(succeeds(&mut command).stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 22, "{said}");
    assert!(lines[0].starts_with("learned; ") && lines[0].ends_with("; 38 free targets left"), "{said}");
    assert_eq!(lines[11], "undone; 40 free targets left");
    let labelled =
        |lines: &[&str], label: &str| lines.iter().filter(|line| line.contains(&format!(".jpg: {label} ("))).count();
    assert!(labelled(&lines[1..6], "duck") >= 3 && labelled(&lines[6..11], "cône") >= 3, "{said}");
    assert_eq!(labelled(&lines[12..], "duck") + labelled(&lines[12..], "cône"), 0, "{said}");
}

#[test]
fn what_python_asks_is_answered() {
    let Some(installed) = Installed::fresh() else { return };
    let tests = Path::new(PACKAGE).join("tests/test_orco.py");
    let mut command = installed.python(&[]);
    succeeds(command.arg(tests).arg("--verbose").env("ORCO_REPOSITORY", Path::new(REPOSITORY).canonicalize().unwrap()));
}
