//! Engines: which one is taken, and what happens where ONNX Runtime's library or further threads are missing.

#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use orco_runtime::encoder::library;
use orco_trials::skipped;
use orco_trials::threads::without_threads;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::service::Service;
use crate::support::{Device, argument, assert_refused, orco, shipped, shots, text};

/// A library that says it is ONNX Runtime of some release, and has nothing else of it.
fn fake(folder: &Path, version: &str) -> PathBuf {
    let text = r#"
        #[repr(C)]
        pub struct Base { api: extern "C" fn(u32) -> *const u8, version: extern "C" fn() -> *const u8 }
        extern "C" fn api(_: u32) -> *const u8 { std::ptr::null() }
        extern "C" fn version() -> *const u8 { concat!("VERSION", "\0").as_ptr() }
        static BASE: Base = Base { api, version };
        #[unsafe(no_mangle)]
        pub extern "C" fn OrtGetApiBase() -> *const Base { &BASE }
    "#;
    library_of(folder, &format!("fake-{version}"), &text.replace("VERSION", version))
}

/// A shared library of that source.
fn library_of(folder: &Path, name: &str, text: &str) -> PathBuf {
    let source = folder.join(format!("{name}.rs"));
    let library = folder.join(format!("lib{name}.so"));
    fs::write(&source, text).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "--crate-name", "fake", "--crate-type", "cdylib", "-C", "strip=symbols", "-o"]);
    let output = command.arg(&library).arg(&source).output().expect("rustc is there where tests are built");
    assert!(output.status.success(), "{}", text_of(&output));
    library
}

fn text_of(output: &Output) -> String {
    text(&output.stdout) + text(&output.stderr).as_str()
}

/// What does not load: each file with what is said about it.
fn broken(folder: &Path) -> Vec<(PathBuf, &'static str)> {
    let old = fake(folder, "1.28.2");
    let whole = fs::read(&old).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let mut other_processor = whole.clone();
    // e_machine: AArch64, or x86-64 there.
    other_processor[18] = if cfg!(target_arch = "aarch64") { 62 } else { 183 };
    let mut program = whole.clone();
    // e_type: an executable.
    program[16] = 2;
    let pipe = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let own = std::env::current_exe().unwrap();
    vec![
        (folder.join("nothing"), "it cannot be read: No such file or directory"),
        (folder.to_owned(), "it is not a regular file"),
        (pipe, "it is not a regular file"),
        ("/dev/zero".into(), "it is not a regular file"),
        (file("empty", b""), "it is no shared library"),
        (file("text", b"INPUT(libonnxruntime.so.1)\n"), "it is no shared library"),
        (file("zeros", &[0; 8192]), "it is no shared library"),
        (file("other_processor", &other_processor), "it was built for another processor"),
        (file("program", &program), "it is an ELF file, but no shared library"),
        (file("header", &whole[..64]), "it was cut short"),
        (file("short", &whole[..whole.len() - 1]), "it was cut short"),
        (own, "it cannot be loaded"),
        (old, "it is release 1.28.2, and 1.28.3 or newer is needed"),
        // New enough by its word, but without the interface.
        (fake(folder, "1.99.0"), "it is not ONNX Runtime"),
        (fake(folder, "1.9.0"), "it is release 1.9.0, and 1.28.3 or newer is needed"),
    ]
}

#[test]
fn a_library_that_cannot_be_used_is_named_and_rten_takes_over() {
    let mut trial = orco_trials::trial!(14, "unusable libraries");
    let device = Device::new();
    let folder = TempDir::new().unwrap();
    let usual = device.json(&["info", "--engine", "rten"]);
    for (library, expected) in broken(folder.path()) {
        let run = |engine: &str| {
            let mut command = device.command(&["info", "--engine", engine]);
            command.env("ORT_DYLIB_PATH", &library).output().unwrap()
        };
        let output = run("auto");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{}: {said}", library.display());
        let named = said.contains(expected) && said.contains(&*library.to_string_lossy());
        assert!(named && said.contains("rten takes over"), "no \"{expected}\" in: {said}");
        // The answer names the engine, and the reason.
        let engine = usual["engine"].as_str().unwrap();
        let answer = text(&output.stdout);
        assert!(answer.contains(&format!("{engine}, for everything:")) && answer.contains(expected), "{answer}");
        assert_refused(&run("onnxruntime"), expected);
        trial.count(1);
        // Who does not need it is not told.
        let silent = run("rten");
        assert!(silent.status.success() && silent.stderr.is_empty(), "{}", text_of(&silent));
    }
}

/// A copy that was cut off: each length gets a sentence, none a signal.
#[test]
fn no_truncation_of_a_library_is_mapped() {
    let mut trial = orco_trials::trial!(14, "truncated libraries");
    let folder = TempDir::new().unwrap();
    let whole = fs::read(fake(folder.path(), "1.28.2")).unwrap();
    let cut = folder.path().join("cut.so");
    let mut refused = |length: usize| {
        trial.count(1);
        fs::write(&cut, &whole[..length]).unwrap();
        assert!(library::check(&cut).is_err(), "{length} of {} bytes pass", whole.len());
    };
    // Everywhere near the start and the end, and at a step that is no power of two in between.
    let near = |end: usize| end.saturating_sub(600)..end;
    (0..4200).chain((4200..whole.len()).step_by(997)).chain(near(whole.len())).for_each(&mut refused);
    fs::write(&cut, &whole).unwrap();
    library::check(&cut).unwrap_or_else(|error| panic!("the whole library is refused: {error}"));
    // The real one, by the real program.
    let Some(real) = library::locate().and_then(|path| library::check(&path).ok()) else {
        return skipped("cutting ONNX Runtime's library short, since none was found");
    };
    let device = Device::new();
    fs::copy(real, &cut).unwrap();
    let length = fs::metadata(&cut).unwrap().len();
    for length in [length - 1, length - 4096, length * 9 / 10, length / 2, length / 20, 4096, 1000, 64, 63, 1] {
        File::options().write(true).custom_flags(libc::O_CLOEXEC).open(&cut).unwrap().set_len(length).unwrap();
        let output = device.command(&["info", "--engine", "onnxruntime"]).env("ORT_DYLIB_PATH", &cut).output().unwrap();
        assert_refused(&output, if length < 64 { "it is no shared library" } else { "it was cut short" });
    }
}

#[test]
fn the_engine_follows_the_work_ahead() {
    let device = Device::new();
    let facts = device.json(&["info"]);
    assert!(facts["engine"].as_str().unwrap().starts_with("rten"), "{facts}");
    if library::locate().is_some() {
        // For many pictures both were measured, if there is memory for that; which one is faster is the machine's.
        match facts["engine_for_more"].as_str() {
            Some(more) => {
                assert!(facts["engine_reason"].as_str().unwrap().contains("kept"), "{facts}");
                assert!(more.starts_with("ONNX Runtime 1."), "{facts}");
                assert!(facts["engine_for_more_reason"].as_str().unwrap().contains("measured to be faster"), "{facts}");
            }
            None => {
                let reason = facts["engine_reason"].as_str().unwrap();
                let is_known = ["measured to be faster", "little memory is available"].map(|why| reason.contains(why));
                assert!(is_known.contains(&true), "{facts}");
            }
        }
    }
    let asked = device.json(&["info", "--engine", "rten"]);
    assert!(asked["engine_reason"].as_str().unwrap().contains("asked for"), "{asked}");
    let refused = device.command(&["info", "--engine", "onnx"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text_of(&refused));
    // From the environment, as the other options.
    let output = device.command(&["info"]).env("ORCO_ENGINE", "rten").output().unwrap();
    assert!(text(&output.stdout).contains("it was asked for"), "{}", text_of(&output));
    let from = facts["pictures_for_more"].as_u64().unwrap() as usize;
    let picture = shots("try", "mug").join("1.jpg");
    let classify = |pictures: usize, library: &Path| {
        let mut command = device.command(&["classify", "--json", "-"]);
        command.args(std::iter::repeat_n(&picture, pictures)).env("ORT_DYLIB_PATH", library);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
        (serde_json::from_slice::<Value>(&output.stdout).unwrap(), text(&output.stderr))
    };
    // Few pictures do not ask for ONNX Runtime, many do.
    let nowhere = Path::new("/nowhere");
    assert_eq!(classify(from - 1, nowhere).1, "");
    let (in_rten, said) = classify(from, nowhere);
    assert!(said.contains("rten takes over"), "{said}");
    let Some(library) = library::locate() else {
        return skipped("taking ONNX Runtime for many pictures, since no library was found");
    };
    let (in_onnx_runtime, said) = classify(from, &library);
    assert_eq!(said, "");
    // Both name the same classes, with the same scores but for rounding.
    for index in 0..3 {
        let of = |answer: &Value| answer["images"][0]["matches"][index].clone();
        let (one, other) = (of(&in_rten), of(&in_onnx_runtime));
        assert_eq!(one["label"], other["label"]);
        assert!((one["score"].as_f64().unwrap() - other["score"].as_f64().unwrap()).abs() < 1e-3, "{one} {other}");
    }
}

/// Threads that spin until the next picture comes would take half a core from everything else, and from a battery.
#[test]
fn between_pictures_a_service_with_onnx_runtime_rests() {
    const PICTURES: u32 = 20;
    /// Most that a picture may take, in milliseconds of a processor: threads that spin take about half of the pause.
    const MOST: f64 = 25.0;
    if library::locate().is_none() {
        return skipped("resting between pictures, since no ONNX Runtime was found");
    }
    let folder = TempDir::new().unwrap();
    let arguments = ["--engine", "onnxruntime", "serve", "--listen", "127.0.0.1:0"];
    let service = Service::of(orco(&shipped(), &folder.path().join("state"), &arguments));
    let picture = fs::read(shots("try", "mug").join("1.jpg")).unwrap();
    let ask = || assert_eq!(service.ask("POST", "/api/v1/classify", "image/jpeg", &picture).0, 200);
    (0..3).for_each(|_| ask());
    let before = processor_time(service.id());
    for _ in 0..PICTURES {
        thread::sleep(Duration::from_millis(100));
        ask();
    }
    let each = 1e3 * (processor_time(service.id()) - before) / f64::from(PICTURES);
    assert!(each < MOST, "{each} ms of a processor for each picture");
}

/// How long a process has had processors, in seconds. The kernel counts in hundredths of a second.
fn processor_time(process: u32) -> f64 {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // Behind the name in brackets, which may hold anything, user and system time are the 12th and the 13th.
    let numbers: Vec<&str> = line.rsplit(')').next().unwrap().split_whitespace().collect();
    [11, 12].iter().map(|&place: &usize| numbers[place].parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// A machine without ONNX Runtime is no fault: the answer says what computes, and nothing warns.
#[test]
fn nothing_warns_where_no_onnx_runtime_is_installed() {
    let device = Device::new();
    let folder = TempDir::new().unwrap();
    let mut command = device.command(&["info"]);
    // Nothing is named, and nothing is in the cache.
    let output = command.env_remove("ORT_DYLIB_PATH").env("ORCO_CACHE", folder.path()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text_of(&output));
    let answer = text(&output.stdout);
    assert!(answer.contains("for everything:") && answer.contains("no ONNX Runtime library was found"), "{answer}");
}

/// What is learned does not depend on whether there is an ONNX Runtime.
#[test]
fn the_same_shots_give_the_same_bytes_with_and_without_onnx_runtime() {
    let mut trial = orco_trials::trial!(28, "states compared");
    let duck = argument("duck", &shots("learn", "rubber-duck"));
    let state = |library: Option<&str>| {
        let device = Device::new();
        let mut command = device.command(&["learn", &duck]);
        if let Some(library) = library {
            command.env("ORT_DYLIB_PATH", library);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
        device.saved().state
    };
    assert!(state(None) == state(Some("/nowhere")));
    trial.count(1);
}

#[test]
fn without_threads_everything_works_on_one() {
    let mut trial = orco_trials::trial!(20, "engines");
    let picture = shots("try", "mug").join("1.jpg");
    let duck = argument("duck", &shots("learn", "rubber-duck"));
    let [usual, alone] = [Device::new(), Device::new()];
    let run = |device: &Device, arguments: &[&str], threads: bool| {
        let mut command = device.command(arguments);
        let output = if threads { command.output() } else { without_threads(&mut command).output() }.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text_of(&output));
        (text(&output.stdout), text(&output.stderr))
    };
    let have_onnx_runtime = library::locate().is_some();
    if !have_onnx_runtime {
        skipped("ONNX Runtime without threads, since no library was found");
    }
    for engine in ["rten", "onnxruntime"].into_iter().take(1 + usize::from(have_onnx_runtime)) {
        let classify = ["classify", picture.to_str().unwrap(), "--engine", engine];
        let (answer, said) = run(&alone, &classify, false);
        assert_eq!(answer, run(&usual, &classify, true).0);
        assert!(said.contains("computes on one"), "{said}");
        trial.count(1);
    }
    let (_, said) = run(&alone, &["learn", &duck], false);
    assert!(said.contains("working on one thread"), "{said}");
    run(&usual, &["learn", &duck], true);
    assert!(alone.saved().state == usual.saved().state, "the number of threads changes what is learned");
}

/// As in an emulator, which has threads of its own: the program cannot set its environment, and starts again with it.
#[test]
fn a_program_with_a_second_thread_at_its_start_is_limited_and_has_onnx_runtime() {
    let device = Device::new();
    let text = r#"
        #[used]
        #[unsafe(link_section = ".init_array")]
        static START: extern "C" fn() = start;
        extern "C" fn start() { std::thread::spawn(|| loop { std::thread::park() }); }
    "#;
    let preloaded = library_of(device.folder.path(), "thread", text);
    let picture = shots("try", "mug").join("1.jpg");
    let classified = |arguments: &[&str]| {
        let mut command =
            device.command(&[arguments, &["classify", picture.to_str().unwrap(), "--json", "-"]].concat());
        command.env("LD_PRELOAD", &preloaded).env_remove("ORT_DISABLE_TELEMETRY").env_remove("RTEN_NUM_THREADS");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text_of(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert!(classified(&["--threads", "1", "--engine", "rten"])["images"].is_array());
    if library::locate().is_none() {
        return skipped("ONNX Runtime beside other threads (its library is not found)");
    }
    assert!(classified(&["--threads", "2", "--engine", "onnxruntime"])["images"].is_array());
}
