//! The rehearsal of a training on a lent machine: everything that `gpu/lease.sh` does here and there, on this machine.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the script in `folder`, which plays both machines; returns what it printed.
fn lease(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("gpu/lease.sh");
    let mut command = Command::new("bash");
    command.arg(script).args(arguments).current_dir(folder);
    command.env("LEASE_WORK", folder.join("there")).env("OUT", folder.join("out"));
    // So small that the program and the run travel in several pieces.
    command.env("PIECE", "2000000").env("FETCH_FILE", "300000").env("FETCH_FILES", "2");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(said.into()) } else { Err(said.into()) }
}

#[test]
fn a_run_travels_trains_detached_comes_back_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let endless = include_str!("../recipes/synthetic-tiny.toml").replacen("\nepochs = ", "\nepochs = 100", 1);
    fs::write(folder.join("recipe.toml"), endless).unwrap();
    for name in ["data", "out"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    let prepared = lease(folder, &["prepare", env!("CARGO_BIN_EXE_orco-train"), "recipe.toml", "data"]).unwrap();
    let pieces: usize = prepared.split(' ').next().unwrap().parse().unwrap();
    assert!(pieces > 1, "{prepared}");
    for piece in 0..pieces {
        let refused = lease(folder, &["start", "pretrain"]).unwrap_err();
        assert!(refused.contains("receive the others first"), "{refused}");
        lease(folder, &["receive", &piece.to_string()]).unwrap();
    }
    if !Path::new("/proc/driver/nvidia").exists() {
        let refused = lease(folder, &["start", "pretrain"]).unwrap_err();
        assert!(refused.contains("no GPU can be used here"), "{refused}");
    }
    let started = lease(folder, &["start", "pretrain", "--device", "cpu", "--threads", "1"]).unwrap();
    assert!(started.contains("libtorch") && started.contains("training started"), "{started}");
    let watched = lease(folder, &["watch", "6"]).unwrap();
    assert!(watched.contains("epoch 1/") && watched.contains("training goes on"), "{watched}");
    for refused in [["receive", "0"], ["start", "pretrain"]] {
        let refused = lease(folder, &refused).unwrap_err();
        assert!(refused.contains("a training runs already"), "{refused}");
    }
    let during = lease(folder, &["fetch", "0"]).unwrap();
    assert!(during.contains("group 0"), "{during}");
    let stopped = lease(folder, &["stop"]).unwrap();
    assert!(stopped.contains("training has ended"), "{stopped}");

    let groups = (0..).take_while(|group| lease(folder, &["fetch", &group.to_string()]).is_ok()).count();
    assert!(groups > 1, "{groups}");
    let mut fetched: Vec<String> =
        fs::read_dir(folder.join("out")).unwrap().map(|file| file.unwrap().path().display().to_string()).collect();
    let joined = |pieces: &[String], run: &str| {
        let arguments: Vec<&str> = ["join", run].into_iter().chain(pieces.iter().map(String::as_str)).collect();
        lease(folder, &arguments)
    };
    fetched.sort();
    let refused = joined(&fetched[..1], "run").and(joined(&fetched[1..], "run")).unwrap_err();
    assert!(refused.contains("missing or damaged") || refused.contains("run.sums"), "{refused}");
    joined(&fetched, "run").unwrap();
    let metrics = || fs::read_to_string(folder.join("run/metrics.jsonl")).unwrap().lines().count();
    let done = metrics();
    assert!(done >= 1);

    let arguments = ["pretrain", "recipe.toml", "--run", "run", "--device", "cpu", "--until"];
    let until = (done + 1).to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_orco-train"))
        .args(arguments)
        .arg(&until)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(metrics(), done + 1, "the run goes on where it was stopped");
}
