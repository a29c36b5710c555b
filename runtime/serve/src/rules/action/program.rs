//! Starts a program, and ends it where it takes too long.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{ACTION_TIMEOUT, Occurrence};

/// How often it is looked whether a program has ended.
const TICK: Duration = Duration::from_millis(20);

/// Starts a program without a shell; label and probability are in its environment.
pub(super) fn run(command: &[String], occurrence: &Occurrence, is_stopping: &dyn Fn() -> bool) -> Result<(), String> {
    let mut program = Command::new(&command[0]);
    // The program leads its own process group, so that `end` also reaches the processes that it starts.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut program, 0);
    let mut process = program
        .args(&command[1..])
        .env("ORCO_LABEL", &occurrence.label)
        .env("ORCO_PROBABILITY", occurrence.probability.map(|value| format!("{value:.3}")).unwrap_or_default())
        .env("ORCO_TIME", occurrence.time.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let deadline = Instant::now() + ACTION_TIMEOUT;
    loop {
        match process.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("it ended with {status}")),
            None if Instant::now() < deadline && !is_stopping() => std::thread::sleep(TICK),
            None => {
                end(&mut process);
                return Err(if is_stopping() {
                    "it was ended with the service".to_owned()
                } else {
                    format!("it was ended after {} s", ACTION_TIMEOUT.as_secs())
                });
            }
        }
    }
}

/// Ends a program, and what it has started: a script leaves most of its work to others.
fn end(process: &mut Child) {
    // Each of them may have ended by itself.
    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process_group};
        let _ = kill_process_group(Pid::from_child(process), Signal::KILL);
    }
    let _ = process.kill();
    let _ = process.wait();
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ends_with_the_service_is_not_said_to_have_taken_too_long() {
        let command = ["/bin/sleep", "60"].map(str::to_owned);
        let occurrence = Occurrence { label: "mug".into(), probability: None, time: 0, picture: None };
        let why = run(&command, &occurrence, &|| true).unwrap_err();
        assert_eq!(why, "it was ended with the service");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_program_has_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let number = folder.path().join("number");
        let script = format!("sleep 600 & echo $! > '{}'; wait", number.display());
        let command = ["/bin/sh".to_owned(), "-c".to_owned(), script];
        let occurrence = Occurrence { label: "mug".into(), probability: None, time: 0, picture: None };
        let written = || std::fs::read_to_string(&number).unwrap_or_default();
        run(&command, &occurrence, &|| written().ends_with('\n')).unwrap_err();
        let facts = format!("/proc/{}/stat", written().trim());
        // It stays as a zombie where the machine's first process collects none.
        let is_gone = || std::fs::read_to_string(&facts).map_or(true, |facts| facts.contains(") Z "));
        let end = Instant::now() + Duration::from_secs(60);
        while !is_gone() {
            assert!(Instant::now() < end, "it goes on");
            std::thread::sleep(TICK);
        }
    }
}
