//! Runs a test in a process of its own.

use std::env;
use std::process::Command;

/// Runs the test that is called `name` in a process of its own, with one thread of OpenMP.
///
/// For what belongs to a process: torch has one random generator in each, and a test that counts on what it draws next
/// must not have others draw from it meanwhile.
///
/// # Panics
/// If the test fails there.
pub fn alone(name: &str, test: impl FnOnce()) {
    alone_with(name, |_| (), test);
}

/// As [`alone`]: `prepare` makes the process ready before it starts, by a variable of its environment for example.
///
/// # Panics
/// As for [`alone`].
pub fn alone_with(name: &str, prepare: impl FnOnce(&mut Command), test: impl FnOnce()) {
    const CHILD: &str = "ORCO_TEST_ALONE";
    if env::var_os(CHILD).is_some() {
        return test();
    }
    let mut command = Command::new(env::current_exe().expect("the test program's path"));
    command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").env("OMP_NUM_THREADS", "1");
    prepare(&mut command);
    let output = command.output().expect("the test program starts again");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
