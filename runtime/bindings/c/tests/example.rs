//! The example in C, built with the system's compiler against the shared and the static library, teaches two classes.
//! Without a C compiler the tests are skipped and say so.

#![cfg(unix)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use orco_trials::{skipped, succeeds};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
/// What a static library of Rust needs of the system.
const SYSTEM: [&str; 4] = ["-lgcc_s", "-lpthread", "-ldl", "-lm"];

/// The folder of this test, in which Cargo has put the libraries.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn compiler(name: &str, default: &str) -> Option<Command> {
    let program = std::env::var_os(name).unwrap_or_else(|| default.into());
    let found = Command::new(&program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skipped(&format!("examples/c (there is no {}; {name} names one)", program.display()));
    }
    found.then(|| Command::new(program))
}

/// Builds the example; `link` are the linker's arguments.
fn build(program: &Path, link: &[OsString]) -> bool {
    let Some(mut compiler) = compiler("CC", "cc") else { return false };
    let source = Path::new(REPOSITORY).join("examples/c/teach.c");
    compiler.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
    compiler.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include")).arg(source).args(link).arg("-o").arg(program);
    succeeds(&mut compiler);
    true
}

/// The pictures of a class.
fn pictures(kind: &str, class: &str) -> Vec<PathBuf> {
    let folder = Path::new(REPOSITORY).join("examples/shots").join(kind).join(class);
    (1..=5).map(|number| folder.join(format!("{number}.jpg"))).collect()
}

/// Teaches ducks and cones with the program, and checks what it says of other pictures of them.
fn teaches(program: &Path) {
    const CLASSES: [(&str, &str); 2] = [("duck", "rubber-duck"), ("cône", "traffic-cone")];
    let state = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.arg(Path::new(REPOSITORY).join("models/cifar100-edge")).arg(state.path());
    for (label, class) in CLASSES {
        let shot = |path: PathBuf| format!("{label}={}", path.display());
        command.args(pictures("learn", class).into_iter().map(shot)).args(pictures("try", class));
    }
    let printed = String::from_utf8(succeeds(&mut command).stdout).unwrap();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 22, "{printed}");
    assert!(
        lines[0].starts_with("learned; ")
            && lines[0].ends_with(" % of the shots are recognised, room for 38 more things")
    );
    assert_eq!(lines[11], "undone; room for 40 more things");
    let labelled =
        |lines: &[&str], label: &str| lines.iter().filter(|line| line.contains(&format!(".jpg: {label} ("))).count();
    assert!(labelled(&lines[1..6], "duck") >= 3 && labelled(&lines[6..11], "cône") >= 3, "{printed}");
    assert_eq!(labelled(&lines[12..], "duck") + labelled(&lines[12..], "cône"), 0, "{printed}");
    // The other way round: what cannot be used is named, and nothing is learned.
    let refused = Command::new(program).args(["no-such-bundle", "state", "a=b"]).output().unwrap();
    let printed = String::from_utf8(refused.stderr).unwrap();
    assert!(
        refused.status.code() == Some(1) && printed.starts_with("cannot open: ") && printed.contains("no-such-bundle"),
        "{printed}"
    );
}

#[test]
fn the_example_teaches_with_the_shared_library() {
    let (folder, libraries) = (tempfile::tempdir().unwrap(), libraries());
    let program = folder.path().join("teach");
    let mut rpath = OsString::from("-Wl,-rpath,");
    rpath.push(&libraries);
    let shared = libraries.join(format!("{}orco{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
    assert!(shared.is_file(), "Cargo has not built {}", shared.display());
    if build(&program, &["-L".into(), libraries.into(), "-lorco".into(), rpath]) {
        teaches(&program);
    }
}

/// As CMake links it.
#[cfg(target_os = "linux")]
#[test]
fn a_program_linked_by_path_finds_the_shared_library_elsewhere() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (linked, program) = (folder.path().join("liborco.so"), folder.path().join("teach"));
    std::fs::copy(libraries().join("liborco.so"), &linked).unwrap();
    if build(&program, &[linked.clone().into()]) {
        std::fs::rename(&linked, elsewhere.path().join("liborco.so")).unwrap();
        let mut command = Command::new(&program);
        let usage = command.env("LD_LIBRARY_PATH", elsewhere.path()).output().unwrap();
        assert_eq!(usage.status.code(), Some(2), "{}", String::from_utf8_lossy(&usage.stderr));
    }
}

#[test]
fn the_example_teaches_with_the_static_library() {
    let (folder, library) = (tempfile::tempdir().unwrap(), libraries().join("liborco.a"));
    let program = folder.path().join("teach");
    assert!(library.is_file(), "Cargo has not built {}", library.display());
    if build(&program, &[&[library.into()][..], &SYSTEM.map(OsString::from)].concat()) {
        teaches(&program);
    }
}

#[test]
fn cpp_takes_the_header() {
    let Some(mut compiler) = compiler("CXX", "c++") else { return };
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/include/orco.h");
    succeeds(compiler.args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", header]));
}
