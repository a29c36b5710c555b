//! The script that lays mini-ImageNet out.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// The trainer's own reader (`dataset/session_lists.rs`) takes a byte order mark and backslashes, too.
#[test]
fn lists_from_windows_are_read() {
    const READ: &str = "import pathlib, runpy, sys\n\
                        print(*sorted(runpy.run_path(sys.argv[1])['files_in'](pathlib.Path(sys.argv[2]))))";
    let lists = tempfile::tempdir().unwrap();
    for session in 1..10 {
        let path = format!("MINI-ImageNet\\train\\n01\\{session}.jpg\r\n");
        let text = if session == 1 { format!("\u{feff}{path}") } else { path.replace('\\', "/") };
        fs::write(lists.path().join(format!("session_{session}.txt")), text).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/mini-imagenet-split.py");
    let read = match Command::new("python3").args(["-c", READ]).arg(script).arg(lists.path()).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return orco_trials::skipped("the layout of mini-ImageNet (there is no python3)");
        }
        read => read.unwrap(),
    };
    let names: Vec<String> = (1..10).map(|session| format!("{session}.jpg")).collect();
    let error = String::from_utf8_lossy(&read.stderr);
    assert_eq!(String::from_utf8_lossy(&read.stdout).trim_end(), names.join(" "), "{error}");
}
