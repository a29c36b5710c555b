//! Tests in a process of their own.

use std::env;
use std::process::Command;

/// Runs the test that is called `name` in a process of its own: torch has one random generator in each process, and a
/// test that counts on what it draws next must not have others draw from it meanwhile.
pub(crate) fn alone(name: &str, test: impl FnOnce()) {
    const CHILD: &str = "ORCO_TEST_ALONE";
    if env::var_os(CHILD).is_some() {
        return test();
    }
    let mut command = Command::new(env::current_exe().unwrap());
    let output =
        command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").env("OMP_NUM_THREADS", "1").output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
