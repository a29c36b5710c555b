//! `cargo xtask test wheel`: the Python wheel as a user has it. maturin builds it, auditwheel says for which systems it
//! is, pip installs it into a clean environment, where the example and the tests run and mypy compares the stubs with
//! what is compiled. Needs network, for numpy and, the first time, for these programs.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::cache::Cache;
use crate::debian_root::failed;
use crate::environment::{remove_folder, workspace};
use crate::metadata::target_folder;
use crate::process::{must_run, output};

/// Python packages that build and check wheels, as pip takes them.
const TOOLS: [&str; 3] = ["maturin==1.16.0", "auditwheel==6.8.2", "mypy==2.4.1"];
/// The package, in the workspace.
const PACKAGE: &str = "runtime/bindings/python";
/// Classifies a frame of the type that OpenCV's stubs give to frames (`MatLike`).
const OPENCV_PROGRAM: &str = "
from typing import Any
import numpy as np
from numpy.typing import NDArray
import orco

def classify(learner: orco.Learner, frame: NDArray[np.integer[Any] | np.floating[Any]]) -> orco.Answer:
    return learner.classify([frame[:, :, ::-1]])[0]
";

/// Builds the wheel and tries it.
///
/// # Errors
/// If something cannot be had, or is not as it should be.
pub fn test() -> Result<ExitCode, Box<dyn Error>> {
    let tools = tools()?;
    let wheel = build_with(&tools)?;
    let folder = tempfile::tempdir()?;
    let venv = folder.path().join("venv");
    must_run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let python = |tools: Option<&Path>| {
        let mut command = Command::new(venv.join("bin/python"));
        command.current_dir(folder.path()).env("PYTHONUTF8", "1").env("ORCO_REPOSITORY", workspace());
        match tools {
            Some(tools) => command.env("PYTHONPATH", tools),
            None => command.env_remove("PYTHONPATH"),
        };
        command
    };
    must_run(python(None).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).arg(&wheel))?;
    let shots = workspace().join("examples/shots");
    let mut example = python(None);
    example.arg(workspace().join("examples/python/teach.py")).arg(workspace().join("models/cifar100-edge"));
    example.arg(folder.path().join("state")).arg(format!("duck={}", shots.join("learn/rubber-duck").display()));
    let said = output(example.args((1..=5).map(|shot| shots.join(format!("try/rubber-duck/{shot}.jpg")))))?;
    if !said.contains(".jpg: duck (") {
        return Err(format!("the example recognises nothing: {said}").into());
    }
    must_run(python(None).arg(workspace().join(PACKAGE).join("tests/test_orco.py")))?;
    must_run(python(Some(&tools)).args(["-m", "mypy", "--strict", "--package", "orco"]))?;
    must_run(python(Some(&tools)).args(["-m", "mypy", "--strict"]).arg(workspace().join("examples/python/teach.py")))?;
    must_run(python(Some(&tools)).args(["-m", "mypy", "--strict", "-c", OPENCV_PROGRAM]))?;
    must_run(python(Some(&tools)).args(["-m", "mypy.stubtest", "orco"]))?;
    println!("{} can be installed, teaches, and is typed as its stubs say", wheel.display());
    Ok(ExitCode::SUCCESS)
}

/// The folder of the tools, in the cache; made there if it is not.
fn tools() -> Result<PathBuf, Box<dyn Error>> {
    let (cache, folder) = (Cache::of_user()?, format!("python-{}", TOOLS.join("-").replace("==", "-")));
    cache.install(&folder, &["bin/maturin", "auditwheel/main.py", "mypy/stubtest.py"], |kept, _| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(kept);
        must_run(pip.args(TOOLS)).map_err(failed(kept))
    })?;
    Ok(cache.path(&folder))
}

/// Builds the wheel and returns its path.
///
/// # Errors
/// If the tools cannot be had, it cannot be built, or its name promises other systems than auditwheel finds.
pub fn build() -> Result<PathBuf, Box<dyn Error>> {
    build_with(&tools()?)
}

/// Builds the wheel, alone in its folder.
fn build_with(tools: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let folder = target_folder()?.join("wheels");
    remove_folder(&folder)?;
    let mut maturin = Command::new(tools.join("bin/maturin"));
    maturin.args(["build", "--release", "--locked", "--auditwheel", "check", "--out"]).arg(&folder);
    must_run(maturin.current_dir(workspace().join(PACKAGE)).env_remove("RUSTC_WORKSPACE_WRAPPER"))?;
    let wheel = fs::read_dir(&folder)?.next().ok_or("maturin left no wheel")??.path();
    check_tag(tools, &wheel)?;
    Ok(wheel)
}

/// Demands a wheel for every Python from 3.10 on whose name promises the systems that auditwheel finds it is for.
fn check_tag(tools: &Path, wheel: &Path) -> Result<(), Box<dyn Error>> {
    let mut auditwheel = Command::new("python3");
    let found = output(auditwheel.args(["-m", "auditwheel", "show"]).arg(wheel).env("PYTHONPATH", tools))?;
    let name = wheel.file_stem().unwrap_or_default().to_string_lossy();
    let platform = promised(&name).ok_or_else(|| format!("{name} is not for cp310-abi3 and manylinux"))?;
    if platform.split('.').any(|tag| found.contains(&format!("\"{tag}\""))) {
        return Ok(());
    }
    Err(format!("{name} promises {platform}, but auditwheel says: {found}").into())
}

/// The systems that the name of a wheel promises, where it is for manylinux and for Python's stable interface.
fn promised(name: &str) -> Option<&str> {
    name.split_once("-cp310-abi3-").map(|(_, platform)| platform).filter(|platform| platform.starts_with("manylinux"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_systems_it_is_for() {
        assert_eq!(promised("orco-0.1.0-cp310-abi3-manylinux_2_34_x86_64"), Some("manylinux_2_34_x86_64"));
        assert_eq!(promised("orco-0.1.0-cp310-abi3-linux_x86_64"), None);
        assert_eq!(promised("orco-0.1.0-cp311-cp311-manylinux_2_34_x86_64"), None);
    }
}
