//! Tests of the package, which is put together from what Cargo built: its example teaches two classes, and
//! `test_orco.py` tests the rest. Without a python3 with numpy they are skipped and say so. Where ORCO_MATURIN names
//! maturin, the wheel that it builds is tested, too.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use orco_trials::{skipped, succeeds};

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
        let installed = Self::empty()?;
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

    /// The wheel of maturin, as pip would unpack it.
    fn of_wheel() -> Option<Self> {
        let Some(maturin) = std::env::var_os("ORCO_MATURIN") else {
            skipped("the Python package's wheel (ORCO_MATURIN names no maturin)");
            return None;
        };
        let installed = Self::empty()?;
        let wheels = installed.folder.path().join("dist");
        let mut command = Command::new(maturin);
        command.args(["build", "--release", "--out"]).arg(&wheels).current_dir(PACKAGE);
        succeeds(command.env("CARGO_NET_OFFLINE", "true"));
        let wheel = fs::read_dir(wheels).unwrap().next().unwrap().unwrap().path();
        let into = installed.folder.path();
        succeeds(installed.python(&["-m", "zipfile", "-e"]).arg(wheel).arg(into));
        Some(installed)
    }

    /// A folder without the package, if there is a Python that can run it.
    fn empty() -> Option<Self> {
        // Set up for the tests of the exported networks, numpy among it.
        let packages = std::env::var_os("ORCO_ONNX_CHECKER").map(PathBuf::from);
        let installed = Self { folder: tempfile::tempdir().unwrap(), packages };
        let asked = installed.python(&["-c", "import numpy"]).output();
        let can = asked.is_ok_and(|output| output.status.success());
        if !can {
            skipped("the Python package (there is no python3 with numpy; `cargo xtask test` sets it up)");
        }
        can.then_some(installed)
    }

    /// Runs `tests/test_orco.py`, which must succeed.
    fn run_tests(&self) {
        let tests = Path::new(PACKAGE).join("tests/test_orco.py");
        let mut command = self.python(&[]);
        let repository = Path::new(REPOSITORY).canonicalize().unwrap();
        succeeds(command.arg(tests).arg("--verbose").env("ORCO_REPOSITORY", repository));
    }

    fn python(&self, arguments: &[&str]) -> Command {
        let paths = [Some(self.folder.path()), self.packages.as_deref()];
        let paths = std::env::join_paths(paths.into_iter().flatten()).unwrap();
        let mut command = Command::new("python3");
        command.args(arguments).env("PYTHONPATH", paths).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
        command
    }
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
    let printed = String::from_utf8(succeeds(&mut command).stdout).unwrap();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 22, "{printed}");
    assert!(lines[0].starts_with("learned; ") && lines[0].ends_with("; room for 38 more things"), "{printed}");
    assert_eq!(lines[11], "undone; room for 40 more things");
    let labelled =
        |lines: &[&str], label: &str| lines.iter().filter(|line| line.contains(&format!(".jpg: {label} ("))).count();
    assert!(labelled(&lines[1..6], "duck") >= 3 && labelled(&lines[6..11], "cône") >= 3, "{printed}");
    assert_eq!(labelled(&lines[12..], "duck") + labelled(&lines[12..], "cône"), 0, "{printed}");
}

#[test]
fn what_python_asks_is_answered() {
    let Some(installed) = Installed::fresh() else { return };
    installed.run_tests();
}

#[test]
fn the_wheel_holds_all_that_the_package_needs() {
    let Some(installed) = Installed::of_wheel() else { return };
    let files = ["_orco.pyi", "options.py", "output.py", "py.typed"]
        .map(|name| installed.folder.path().join("orco").join(name));
    assert!(files.iter().all(|file| file.is_file()), "{files:?}");
    let licenses = installed.folder.path().join(concat!("orco-", env!("CARGO_PKG_VERSION"), ".dist-info/licenses"));
    let text = |path: PathBuf| fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        assert_eq!(text(licenses.join(name)), text(Path::new(REPOSITORY).join(name)));
    }
    installed.run_tests();
}
