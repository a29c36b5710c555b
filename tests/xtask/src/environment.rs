//! What Cargo and the programs it starts are told about the native libraries.

use std::env;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

/// Where the system's loader looks for shared libraries first.
const LOADER_PATH: &str = if cfg!(target_os = "macos") { "DYLD_LIBRARY_PATH" } else { "LD_LIBRARY_PATH" };

/// Names a Python with Home Assistant's core, for the tests of what brokers are told.
#[cfg(unix)]
pub const HOME_ASSISTANT: &str = "ORCO_HOME_ASSISTANT";

/// Where programs are looked for.
const PATH: &str = "PATH";

/// Environment variables to set for a command.
#[derive(Debug, Default)]
pub struct Environment {
    variables: Vec<(&'static str, OsString)>,
    /// Variables that list folders, and the folder to search before those that they list.
    search: Vec<(&'static str, PathBuf)>,
}

impl Environment {
    /// Adds the file of ONNX Runtime, which the runtime loads when it starts.
    pub fn with_onnx_runtime(self, file: PathBuf) -> Self {
        // Its telemetry counts, and calls home, unless it is told not to.
        self.with("ORT_DYLIB_PATH", file).with("ORT_DISABLE_TELEMETRY", "1")
    }

    /// Adds the folder of libtorch, for tch to link against and for the loader to search.
    pub fn with_libtorch(mut self, folder: PathBuf) -> Self {
        // Build scripts run in other folders than ours.
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        self.search.push((LOADER_PATH, folder.join("lib")));
        self.with("LIBTORCH", folder)
            // tch asks for one exact version, but works with its neighbours.
            .with("LIBTORCH_BYPASS_VERSION_CHECK", "1")
    }

    /// Says that what some tests need of Debian is there, so that they fail where they cannot start it.
    pub fn with_package(self, variable: &'static str) -> Self {
        self.with(variable, "1")
    }

    /// Puts the program on the path, where Cargo looks for its subcommands.
    pub fn with_program(mut self, program: &Path) -> Self {
        let program = std::path::absolute(program).unwrap_or(program.to_owned());
        self.search.extend(program.parent().map(|folder| (PATH, folder.to_owned())));
        self
    }

    /// Adds a variable.
    pub fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Sets the variables for the command.
    pub fn apply(&self, command: &mut Command) {
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        for name in [LOADER_PATH, PATH] {
            let folders = self.search.iter().filter(|(of, _)| *of == name);
            let before = env::var_os(name);
            let path = folders.fold(None, |rest, (_, folder)| {
                let rest: Option<OsString> = rest.or_else(|| before.clone());
                Some(prepended(folder, rest.as_deref()))
            });
            command.envs(path.map(|path| (name, path)));
        }
    }

    /// The variables as a shell takes them: `NAME=value`, quoted where needed.
    pub fn assignments(&self) -> impl Iterator<Item = String> {
        let variables = self.variables.iter().map(|(name, value)| {
            let value = quoted(&value.to_string_lossy());
            format!("{name}={value}")
        });
        let search = self.search.iter().map(|(name, folder)| {
            let folder = quoted(&folder.to_string_lossy());
            format!("{name}={folder}${{{name}:+:${name}}}")
        });
        variables.chain(search)
    }
}

/// The Cargo that started this program, or the one on the path.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What Cargo says of this package is not for others: ring's build script reads it, and all that stands on ring
    // would be built anew whenever somebody goes from `cargo xtask` to `cargo` or back.
    let is_of_this_package = |name: &OsString| {
        ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|start| name.to_string_lossy().starts_with(start))
    };
    env::vars_os().map(|(name, _)| name).filter(is_of_this_package).for_each(|name| {
        command.env_remove(name);
    });
    command
}

/// The path that this environment variable names, unless it is empty.
pub fn path_from_variable(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The user's own copy of a library or a program, which this environment variable names.
pub fn own_copy(variable: &str) -> Option<PathBuf> {
    path_from_variable(variable).map(found_everywhere)
}

/// A path that leads to the same file from every folder, for Cargo runs tests in those of their packages. A name alone
/// that is not here is left to whoever looks it up, as the loader does with one of a library.
fn found_everywhere(own: PathBuf) -> PathBuf {
    let is_looked_up = own.components().count() == 1 && !own.exists();
    if is_looked_up { own } else { std::path::absolute(&own).unwrap_or(own) }
}

/// The exit code to pass on; a command killed by a signal counts as 128 and its number, as in a
/// shell.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let code = status.code().or(signal.map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    ExitCode::from(code)
}

/// Becomes the command, so that signals reach it and its exit code is ours.
///
/// # Errors
/// If it cannot be started.
#[cfg(unix)]
pub fn hand_over(mut command: Command) -> Result<ExitCode, Box<dyn Error>> {
    use std::os::unix::process::CommandExt;
    let error = command.exec();
    Err(format!("cargo could not be started: {error}").into())
}

/// Runs the command and passes its exit code on.
///
/// # Errors
/// If it cannot be started.
#[cfg(not(unix))]
pub fn hand_over(mut command: Command) -> Result<ExitCode, Box<dyn Error>> {
    let status = command.status().map_err(|error| format!("cargo could not be started: {error}"))?;
    Ok(exit_code(status))
}

/// A word that a shell reads back as it is.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn prepended(folder: &Path, rest: Option<&OsStr>) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    // An empty entry would stand for the current folder.
    if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    path
}

/// Removes a folder and all that is in it, if it is there.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The folder of the workspace, two above this package.
pub fn workspace() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn an_exit_code_is_passed_on() {
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(exit_code(ExitStatus::from_raw(101 << 8)), ExitCode::from(101));
        assert_eq!(exit_code(ExitStatus::from_raw(9)), ExitCode::from(137));
    }

    #[test]
    fn cargo_is_not_told_of_this_package() {
        let cargo = cargo();
        let removed: Vec<&OsStr> =
            cargo.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME"] {
            assert!(env::var_os(name).is_none() || removed.contains(&OsStr::new(name)), "{name}: {removed:?}");
        }
    }

    #[test]
    fn folder_goes_before_the_rest() {
        let folder = Path::new("/t/lib");
        assert_eq!(prepended(folder, None), "/t/lib");
        assert_eq!(prepended(folder, Some(OsStr::new(""))), "/t/lib");
        assert_eq!(prepended(folder, Some(OsStr::new("/a:/b"))), "/t/lib:/a:/b");
    }

    #[test]
    fn every_program_is_on_the_path() {
        let programs = ["/deny/cargo-deny", "/nextest/cargo-nextest"].map(Path::new);
        let environment = programs.iter().fold(Environment::default(), |all, program| all.with_program(program));
        let mut command = Command::new("cargo");
        environment.apply(&mut command);
        let path = command.get_envs().find_map(|(name, value)| value.filter(|_| name == PATH)).unwrap();
        assert!(path.to_str().unwrap().starts_with("/nextest:/deny:"), "{path:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn assignments_are_for_a_shell() {
        let environment = Environment::default()
            .with_onnx_runtime("/it's mine/lib.so".into())
            .with_libtorch("/t-1.0".into())
            .with_program(Path::new("/deny/cargo-deny"))
            .with_program(Path::new("/nextest/cargo-nextest"));
        let assignments: Vec<_> = environment.assignments().collect();
        let expected = [
            r"ORT_DYLIB_PATH='/it'\''s mine/lib.so'",
            "ORT_DISABLE_TELEMETRY=1",
            "LIBTORCH=/t-1.0",
            "LIBTORCH_BYPASS_VERSION_CHECK=1",
            "LD_LIBRARY_PATH=/t-1.0/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",
            "PATH=/deny${PATH:+:$PATH}",
            "PATH=/nextest${PATH:+:$PATH}",
        ];
        assert_eq!(assignments, expected);
    }

    #[test]
    fn a_copy_of_ones_own_is_found_from_every_folder() {
        let found = |own: &str| found_everywhere(own.into());
        let here = env::current_dir().unwrap();
        assert_eq!(found("own/libonnxruntime.so"), here.join("own/libonnxruntime.so"));
        assert_eq!(found("src"), here.join("src"));
        assert_eq!(found("/own/axe.min.js"), Path::new("/own/axe.min.js"));
        assert_eq!(found("libonnxruntime.so"), Path::new("libonnxruntime.so"));
    }
}
