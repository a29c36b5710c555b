//! Restarts the program in its own process.

/// Starts this program again with a variable, instead of this process: a program with several threads must not set one,
/// since another thread may be reading it. An emulator or a library of `LD_PRELOAD` may have started threads before
/// `main`, and without `/proc` the number of threads is unknown. Comes back where the variable is set so already, and
/// where the system does not start it.
pub fn restart_with_variable(name: &str, value: &str) {
    if std::env::var_os(name).is_none_or(|set| set != value) {
        restart(Some((name, value)));
    }
}

/// Starts this program again, instead of this process, with a variable more. Comes back where the system does not
/// start it.
#[cfg(unix)]
pub fn restart(variable: Option<(&str, &str)>) {
    use std::env;
    use std::ffi::OsString;
    use std::os::unix::process::CommandExt;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    let called = env::args_os().next().unwrap_or_else(|| OsString::from("orco"));
    let program = env::current_exe().unwrap_or_else(|_| PathBuf::from(&called));
    let mut trial = Command::new(&program);
    trial.arg("--version").envs(variable).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // What the system cannot start, it may take for a shell's script, and then there is no way back.
    if trial.status().is_ok_and(|status| status.success()) {
        let failed = Command::new(&program).arg0(called).args(env::args_os().skip(1)).envs(variable).exec();
        log::debug!("{} does not start again: {failed}", program.display());
    }
}

/// Other systems do not start a program in the place of another one, and let the environment be set while threads run.
#[cfg(not(unix))]
pub fn restart(_: Option<(&str, &str)>) {}
