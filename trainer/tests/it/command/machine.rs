//! What the program finds on a machine, and how it ends on one that lacks something.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use orco_runtime::encoder::library;
use orco_trials::succeeds;

use super::{arguments, program, recipe, words};
use crate::support::{epochs, error_text, failure};

/// A recipe of a very small network on few synthetic objects, which needs no data, and the command line that pretrains
/// it.
#[cfg(unix)]
fn synthetic_arguments(folder: &Path, run: &str) -> Vec<String> {
    crate::support::recipe(folder, &[]);
    let (recipe, run) = (folder.join("recipe.toml"), folder.join(run));
    words(&[&"pretrain", &recipe, &"--run", &run, &"--threads", &"1", &"--device", &"cpu"])
}

#[test]
fn the_doctor_reports() {
    let output = succeeds(&mut program(&["doctor".to_owned()]));
    let report = String::from_utf8(output.stdout).unwrap();
    for subject in ["libtorch", "CUDA", "threads", "precision", "ONNX Runtime", "memory", "disk"] {
        assert!(report.lines().any(|line| line.starts_with(subject)), "{subject} in {report}");
    }
}

/// ONNX Runtime, which the doctor starts, would begin a database below the cache folder.
#[test]
fn onnx_runtime_leaves_nothing_in_the_users_folders() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(&["doctor".to_owned()]);
    command.env_remove("ORT_DISABLE_TELEMETRY");
    for name in ["HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "TMPDIR"] {
        command.env(name, folder.path());
    }
    // It is found through these folders, too.
    command.envs(library::locate().map(|path| ("ORT_DYLIB_PATH", path)));
    let said = String::from_utf8_lossy(&succeeds(&mut command).stdout).into_owned();
    assert!(library::locate().is_none() || said.contains("telemetry off"), "{said}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// libtorch forgets its CUDA half for good if it is asked for anything of CUDA's before that is loaded.
#[test]
fn the_cuda_half_of_libtorch_is_taken_in() {
    let Some(torch) = std::env::var_os("ORCO_CUDA_TORCH") else {
        orco_trials::skipped("loading CUDA (ORCO_CUDA_TORCH names no PyTorch 2.11 with CUDA)");
        return;
    };
    let libraries = Path::new(&torch).join("lib");
    assert!(libraries.join("libtorch_cuda.so").is_file(), "{} holds no libtorch_cuda.so", libraries.display());
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_orco-train"));
    let output = doctor.arg("doctor").env("LD_LIBRARY_PATH", &libraries).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find(|line| line.starts_with("CUDA")).unwrap();
    assert!(line.contains("is loaded, but") || line.contains("device(s)"), "{said}");
}

#[test]
fn a_device_that_is_not_there_is_one_sentence() {
    if orco_trainer::platform::device::cuda_devices().is_ok() {
        orco_trials::skipped("this machine has a CUDA device");
        return;
    }
    let folder = recipe(1, 1);
    let mut arguments = arguments(folder.path(), "run");
    *arguments.last_mut().unwrap() = "cuda".into();
    let output = program(&arguments).output().unwrap();
    let said = error_text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("error: no CUDA device can be used: libtorch_cuda.so was found neither"), "{said}");
    assert!(!folder.path().join("run").exists(), "a refused run leaves no folder");
}

/// A limit on the size of files stands for a disk that is full: writes fail half-way.
#[cfg(unix)]
#[test]
fn a_full_disk_keeps_the_last_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let arguments = synthetic_arguments(folder.path(), "run");
    succeeds(program(&arguments).args(["--until", "1"]));
    let checkpoint = run.join("pretrain.safetensors");
    let before = fs::read(&checkpoint).unwrap();
    assert!(before.len() > 100_000, "{}", before.len());
    let limited = Command::new("sh")
        .args(["-c", "ulimit -f 60; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_orco-train")])
        .args(&arguments)
        .output()
        .unwrap();
    let said = failure(&limited);
    assert!(said.starts_with("error: phase 1: cannot save the checkpoint; the one before it is kept: "), "{said}");
    assert!(said.contains("pretrain.safetensors") && said.contains("File too large"), "{said}");
    assert!(fs::read(&checkpoint).unwrap() == before, "the checkpoint was harmed");
    let is_partial = |name: std::ffi::OsString| name.to_string_lossy().ends_with("partial");
    let mut names = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.any(is_partial), "a half-written file takes room");
    succeeds(&mut program(&arguments));
    assert_eq!(epochs(&run), 2);
}

/// A small file system of its own, which only a user with the right to mount can make.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_really_full_keeps_the_last_checkpoint() {
    let alone = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_orco-train")]);
        command
    };
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    fs::create_dir(&run).unwrap();
    if !alone("mount -t tmpfs tmpfs /mnt").output().is_ok_and(|output| output.status.success()) {
        orco_trials::skipped("this user may not mount a file system");
        return;
    }
    // Room for one checkpoint and half of the next.
    let script = "mount -t tmpfs -o size=\"$1\" tmpfs \"$2\"; shift; run=$1; shift; \"$0\" \"$@\" --until 1 || exit 9; \
        cp \"$run/pretrain.safetensors\" \"$run.before\"; \"$0\" \"$@\"; code=$?; \
        cmp \"$run/pretrain.safetensors\" \"$run.before\" || exit 8; exit $code";
    let size = {
        succeeds(program(&synthetic_arguments(folder.path(), "other")).args(["--until", "1"]));
        let bytes = fs::metadata(folder.path().join("other/pretrain.safetensors")).unwrap().len();
        (bytes + bytes / 2).to_string()
    };
    let output = alone(script).arg(size).arg(&run).args(synthetic_arguments(folder.path(), "run")).output().unwrap();
    let said = failure(&output);
    assert!(said.starts_with("error: phase 1: cannot save the checkpoint; the one before it is kept: "), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
}

/// A limit on the address space stands for a machine with too little memory.
#[cfg(target_os = "linux")]
#[test]
fn too_little_memory_is_one_sentence() {
    let folder = recipe(1, 1);
    let path = folder.path().join("recipe.toml");
    let text = fs::read_to_string(&path).unwrap();
    let mut table: toml::Table = text.parse().unwrap();
    table["split"].as_table_mut().unwrap().insert("holdout_per_class".into(), 480.into());
    table["backbone"].as_table_mut().unwrap().insert("width".into(), 128.into());
    table["pretrain"].as_table_mut().unwrap().insert("batch".into(), 800.into());
    table["pretrain"].as_table_mut().unwrap().insert("views".into(), 8.into());
    fs::write(&path, table.to_string()).unwrap();
    let output = with_little_memory().args(arguments(folder.path(), "run")).output().unwrap();
    let said = failure(&output);
    assert!(said.starts_with("error: phase 1: out of memory: libtorch could not get "), "{said}");
    assert!(said.ends_with(" more; lower pretrain.batch or pretrain.views"), "{said}");
    assert!(!error_text(&output).contains("panicked"), "{}", error_text(&output));
}

/// The program under a limit on the address space.
#[cfg(target_os = "linux")]
fn with_little_memory() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 4000000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_orco-train")]);
    command
}

/// It with a recipe of synthetic data, some of its values changed.
#[cfg(target_os = "linux")]
fn limited(changes: &[(&str, &str, i64)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    crate::support::synthetic(folder.path(), changes);
    let arguments = ["pretrain", "recipe.toml", "--run", "run", "--device", "cpu"];
    with_little_memory().args(arguments).current_dir(folder.path()).output().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn too_little_memory_outside_the_phases_is_one_sentence_too() {
    let said = failure(&limited(&[("backbone", "width", 1024)]));
    assert!(said.starts_with("error: out of memory: libtorch could not get "), "{said}");
    assert!(said.contains("; lower backbone.width, head.hidden"), "{said}");
    let output = limited(&[("data", "image_size", 1024), ("data", "train_per_class", 400)]);
    let said = failure(&output);
    assert_eq!(error_text(&output).lines().count(), 1, "{}", error_text(&output));
    assert!(said.contains(" images of 1024 x 1024 pixels take "), "{said}");
    assert!(said.contains("lower data.image_size"), "{said}");
}
