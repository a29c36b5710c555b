//! Test programs: built by Cargo, which says where they are, and run without it, some beside one another.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::environment::workspace;
use crate::environment::{Environment, cargo};

/// A test program.
#[derive(Debug, PartialEq)]
pub struct Program {
    /// Name of its target.
    pub name: String,
    /// The program.
    pub file: PathBuf,
    /// Folder of its package, in which Cargo runs tests.
    pub package: PathBuf,
}

/// Has Cargo build test programs, with variables for this alone; nothing if they cannot be built.
///
/// # Errors
/// If Cargo does not start.
pub fn build(
    arguments: &str,
    variables: &[(&str, &str)],
    environment: &Environment,
) -> Result<Option<Vec<Program>>, Box<dyn Error>> {
    let mut command = cargo();
    command.args(arguments.split_whitespace()).args(["--no-run", "--message-format=json-render-diagnostics"]);
    command.current_dir(workspace()).stdin(Stdio::null()).stderr(Stdio::inherit());
    environment.apply(&mut command);
    let output = command.envs(variables.iter().copied()).output()?;
    Ok(output.status.success().then(|| listed(&String::from_utf8_lossy(&output.stdout))))
}

/// The test programs in Cargo's messages, one JSON object a line.
fn listed(messages: &str) -> Vec<Program> {
    let program = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let text = |pointer: &str| Some(message.pointer(pointer)?.as_str()?.to_owned());
        message.pointer("/profile/test")?.as_bool().filter(|test| *test)?;
        let manifest = PathBuf::from(text("/manifest_path")?);
        Some(Program {
            name: text("/target/name")?,
            file: text("/executable")?.into(),
            package: manifest.parent()?.to_owned(),
        })
    };
    messages.lines().filter_map(program).collect()
}

impl Program {
    /// The program with its package's folder as its own, and the variables of the environment.
    pub fn command(&self, environment: &Environment) -> Command {
        let mut command = Command::new(&self.file);
        command.current_dir(&self.package).stdin(Stdio::null());
        environment.apply(&mut command);
        command
    }

    /// Package and target, for people.
    fn title(&self) -> String {
        let package = self.package.file_name().unwrap_or_default().to_string_lossy();
        format!("{package}: {}", self.name)
    }
}

/// The programs that take longest: they start first, so that none of them is left alone at the end.
const LONGEST: [&str; 8] = [
    "trainer: command",
    "app: browser",
    "trainer: align",
    "app: command_line",
    "tests: onnx_export",
    "tests: image_bombs",
    "trainer: distributed",
    "lab: rival",
];
/// Most programs that run at a time: memory does not grow with cores, and each of those that train holds libtorch.
const MAX_AT_ONCE: usize = 8;

/// How many test programs run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// One after the other.
    One,
    /// Twice as many as there are cores, but no more than [`MAX_AT_ONCE`]: they wait for a part of their time.
    Cores,
}

/// Runs test programs. What each said is shown when it ends; after a failure none is started.
///
/// Returns the programs that failed.
///
/// # Errors
/// If one of them does not start.
pub fn run(
    mut programs: Vec<Program>,
    at_once: AtOnce,
    variables: &[(&str, &str)],
    environment: &Environment,
) -> Result<Vec<String>, Box<dyn Error>> {
    let count = match at_once {
        AtOnce::One => 1,
        AtOnce::Cores => thread::available_parallelism().map_or(1, |cores| (usize::from(cores) * 2).min(MAX_AT_ONCE)),
    };
    programs.sort_by_key(|program| {
        let title = program.title();
        LONGEST.iter().position(|long| *long == title).unwrap_or(LONGEST.len())
    });
    let waiting = Mutex::new(VecDeque::from(programs));
    let (stop, failed) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let next = || {
        let stopped = stop.load(Ordering::Relaxed);
        waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop_front().filter(|_| !stopped)
    };
    let work = || -> io::Result<()> {
        while let Some(program) = next() {
            let begin = Instant::now();
            let mut command = program.command(environment);
            if count > 1 {
                // OpenMP's threads would wait for each other's cores at every barrier.
                command.env("OMP_NUM_THREADS", "1");
            }
            command.envs(variables.iter().copied());
            let output = command.output().inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            show(&program.title(), begin, &output)?;
            if !output.status.success() {
                stop.store(true, Ordering::Relaxed);
                let failure = format!("{} ({})", program.title(), output.status);
                failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(failure);
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic"))
    })?;
    Ok(failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// What a program said, as one piece.
fn show(title: &str, begin: Instant, output: &Output) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "\n--- {title}, {:.1} s", begin.elapsed().as_secs_f64())?;
    out.write_all(&output.stdout)?;
    out.write_all(&output.stderr)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_among_the_messages() {
        let message = |name: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/tests/Cargo.toml","target":{{"name":"{name}"}},"#
            ) + &format!(r#""profile":{{"test":{test}}},"executable":{executable}}}"#)
        };
        let messages = [
            message("orco_core", false, "null"),
            message("orco", false, r#""/t/orco""#),
            message("views", true, r#""/t/views-1""#),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let views = Program { name: "views".into(), file: "/t/views-1".into(), package: "/w/tests".into() };
        assert_eq!(views.title(), "tests: views");
        assert_eq!(listed(&messages.join("\n")), [views]);
    }

    #[cfg(unix)]
    #[test]
    fn a_failure_is_named_and_the_last_to_start() {
        let program = |name: &str| Program { name: name.into(), file: name.into(), package: "/".into() };
        for at_once in [AtOnce::One, AtOnce::Cores] {
            let run = |names: &[&str]| {
                let programs = names.iter().map(|name| program(name)).collect();
                run(programs, at_once, &[], &Environment::default())
            };
            assert!(run(&["true", "true", "true"]).unwrap().is_empty());
            let failed = run(&["false"; 500]).unwrap();
            // Those beside it may have been started meanwhile.
            assert!((1..500).contains(&failed.len()) && (at_once == AtOnce::Cores || failed.len() == 1));
            assert_eq!(failed[0], ": false (exit status: 1)");
            assert!(run(&["orco-no-such-program"]).is_err());
        }
    }
}
