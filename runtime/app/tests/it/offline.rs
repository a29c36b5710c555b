//! Nothing leaves the device, and nothing is written outside of the state's folder: seen through ptrace.

#![cfg(target_os = "linux")]

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;

use orco_runtime::encoder::library;
use orco_trials::skipped;
use tempfile::TempDir;

use crate::support::trace::{Event, Trace, trace};
use crate::support::{Device, argument, shots, text};

/// Variables that name folders in which programs leave things.
const HOMES: [&str; 7] =
    ["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"];

/// Runs a command under watch, with folders of its own for everything that a program may leave somewhere. Returns what
/// it did, what it said, and what it left in those folders.
fn watched(command: &mut Command, folder: &Path) -> (Trace, String, Vec<PathBuf>) {
    let homes = HOMES.map(|name| (name, folder.join(name)));
    for (name, home) in &homes {
        fs::create_dir_all(home).unwrap();
        command.env(name, home);
    }
    // As on a device: what Cargo and its tests set would hide what the program itself does.
    command.env_remove("ORT_DISABLE_TELEMETRY");
    let said = folder.join("said");
    let output = fs::File::create(&said).unwrap();
    command.stdout(output.try_clone().unwrap()).stderr(output);
    let trace = trace(command).unwrap_or_else(|error| panic!("{command:?} cannot be watched: {error}"));
    let left = homes.iter().flat_map(|(_, home)| fs::read_dir(home).unwrap()).map(|entry| entry.unwrap().path());
    (trace, text(&fs::read(&said).unwrap()), left.collect())
}

/// Runs a command of the program, which must succeed, make no socket, and write into the state's folder alone.
fn assert_offline(device: &Device, arguments: &[&str], library: Option<&Path>) {
    let folder = TempDir::new().unwrap();
    let mut command = device.command(arguments);
    command.env("ORT_DYLIB_PATH", library.unwrap_or(Path::new("/nowhere")));
    let (trace, said, left) = watched(&mut command, folder.path());
    assert_eq!(trace.code, Some(0), "{arguments:?}: {said}");
    let state = device.folder.path().canonicalize().unwrap().join("state");
    let outside = trace.outside(&[&state]);
    assert!(outside.is_empty(), "{arguments:?}: {outside:?}");
    assert!(left.is_empty(), "{arguments:?} left {left:?}");
}

#[test]
fn nothing_is_written_outside_the_state_and_no_socket_is_made() {
    let mut trial = orco_trials::trial!(16, "watched commands");
    // The tests' own cache is found through HOME, which the program gets another one of.
    let library = library::locate().and_then(|path| library::check(&path).ok());
    if library.is_none() {
        skipped("watching the program with ONNX Runtime, of which no library was found");
    }
    let picture = shots("try", "mug").join("1.jpg");
    let duck = argument("duck", &shots("learn", "rubber-duck"));
    for engine in ["onnxruntime", "rten"] {
        if engine == "onnxruntime" && library.is_none() {
            continue;
        }
        let device = Device::new();
        let commands: [&[&str]; 5] = [
            &["learn", &duck],
            &["classify", picture.to_str().unwrap()],
            &["info"],
            &["list"],
            &["forget", "duck", "--purge"],
        ];
        for command in commands {
            assert_offline(&device, &[command, &["--engine", engine]].concat(), library.as_deref());
            trial.count(1);
        }
    }
}

/// Checks the watching itself: it sees what a program writes, into which folder, whatever the path, and its sockets.
#[test]
fn the_watch_sees_writes_and_sockets() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let device = Device::new();
    let picture = shots("try", "mug").join("1.jpg");
    // A file that the program was told to write outside of its state.
    let report = root.join("report.json");
    let mut command = device.command(&["classify", picture.to_str().unwrap(), "--json", report.to_str().unwrap()]);
    let (trace, said, _) = watched(&mut command, &root);
    assert_eq!(trace.code, Some(0), "{said}");
    assert!(trace.outside(&[]).contains(&&Event::Change(report.clone())), "{:?}", trace.events);
    assert!(trace.outside(&[&root]).is_empty(), "{:?}", trace.events);
    // The state's own files.
    let duck = argument("duck", &shots("learn", "rubber-duck"));
    let (trace, said, _) = watched(&mut device.command(&["learn", &duck]), &root);
    assert_eq!(trace.code, Some(0), "{said}");
    let state = device.folder.path().canonicalize().unwrap().join("state");
    assert!(trace.outside(&[]).contains(&&Event::Change(state.clone())), "{:?}", trace.events);
    assert!(trace.outside(&[]).len() > trace.outside(&[&state]).len());
    // This program again, as one with threads that does everything once.
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "offline::child_that_writes_and_opens_a_socket", "--nocapture"])
        .env("ORCO_WATCHED", &root);
    let (trace, said, _) = watched(&mut command, &root);
    assert_eq!(trace.code, Some(0), "{said}");
    let change = |path: &str| Event::Change(root.join(path));
    for event in [Event::Socket, change("folder"), change("folder/file"), change("folder/other"), change("gone")] {
        assert!(trace.events.contains(&event), "{event:?} was not seen: {:?}", trace.events);
    }
    let read = Event::Change(root.join("folder/read"));
    assert!(!trace.events.contains(&read), "reading counts as writing");
}

/// Does nothing unless `ORCO_WATCHED` names a folder.
#[test]
fn child_that_writes_and_opens_a_socket() {
    let Some(root) = std::env::var_os("ORCO_WATCHED").map(PathBuf::from) else { return };
    std::thread::spawn(move || {
        fs::create_dir(root.join("folder")).unwrap();
        let _ = fs::read(root.join("folder/read"));
        fs::write(root.join("folder/../folder/file"), "x").unwrap();
        fs::rename(root.join("folder/file"), root.join("folder/other")).unwrap();
        let _ = fs::remove_file(root.join("gone"));
        drop(UdpSocket::bind("127.0.0.1:0"));
    })
    .join()
    .unwrap();
}
