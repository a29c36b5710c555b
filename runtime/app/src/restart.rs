//! Restarts the program in its own process, to set an environment variable: a program with several threads must not
//! set one, since another thread may be reading it. An emulator or a library of `LD_PRELOAD` may have started threads
//! before `main`, and without `/proc` the number of threads is unknown.

/// Starts this program again with a variable, instead of this process. Comes back where the variable is set so already,
/// and where the system does not start it.
#[cfg(unix)]
pub fn restart_with_variable(name: &str, value: &str) {
    use std::env;
    use std::ffi::OsString;
    use std::os::unix::process::CommandExt;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    if env::var_os(name).is_some_and(|set| set == value) {
        return;
    }
    let called = env::args_os().next().unwrap_or_else(|| OsString::from("orco"));
    let program = env::current_exe().unwrap_or_else(|_| PathBuf::from(&called));
    let mut trial = Command::new(&program);
    trial.arg("--version").env(name, value).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // What the system cannot start, it may take for a shell's script, and then there is no way back.
    if trial.status().is_ok_and(|status| status.success()) {
        let failed = Command::new(&program).arg0(called).args(env::args_os().skip(1)).env(name, value).exec();
        log::debug!("{} does not start again: {failed}", program.display());
    }
}

/// Other systems let the environment be set while threads run.
#[cfg(not(unix))]
pub fn restart_with_variable(_: &str, _: &str) {}
