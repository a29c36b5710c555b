//! Training beside other work: its threads stop spinning while they wait for one another.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use orco_runtime::threads::usable_threads;

use crate::support::synthetic;

/// A program that is ended when the test ends, however it ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run without end of a small network, whose log says what its threads do.
fn training(folder: &Path) -> Command {
    let path = synthetic(folder, &[("data", "train_per_class", 22), ("pretrain", "epochs", 1_000_000)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco-train"));
    command.arg("pretrain").arg(&path).arg("--run").arg(folder.join("run")).args(["--device", "cpu"]);
    command.env("RUST_LOG", "debug").env_remove("GOMP_SPINCOUNT").env_remove("OMP_WAIT_POLICY").stderr(Stdio::piped());
    command
}

/// Reads the log until a line holds one of the texts: which one.
fn said(command: &mut Command, texts: &[&str]) -> Option<usize> {
    let mut running = Running(command.spawn().unwrap());
    let log = BufReader::new(running.0.stderr.take().unwrap());
    log.lines().map_while(Result::ok).find_map(|line| texts.iter().position(|text| line.contains(text)))
}

#[test]
fn threads_sleep_beside_busy_ones() {
    let counted = fs::read_to_string("/proc/thread-self/schedstat").is_ok_and(|text| text != "0 0 0\n");
    if !counted {
        orco_trials::skipped("this system does not count how long threads wait for a core");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let done = AtomicBool::new(false);
    let found = thread::scope(|scope| {
        // One more than there are cores, so that some thread always waits for one.
        for _ in 0..=usable_threads() {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let found = said(&mut training(folder.path()), &["threads wait Asleep", "it is not libgomp"]);
        done.store(true, Ordering::Relaxed);
        found
    });
    assert!(found.is_some(), "the training ended or failed");
}

#[test]
fn a_wait_policy_of_the_environment_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let command = &mut training(folder.path());
    let found = said(command.env("OMP_WAIT_POLICY", "passive"), &["OMP_WAIT_POLICY says how", "epoch 1/"]);
    assert_eq!(found, Some(0));
}
