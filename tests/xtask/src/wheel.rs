//! The Python wheel. maturin builds it, with licences of the crates inside (`licenses/NOTICE`) and a bill of materials
//! (`sboms/orco.cdx.json`); auditwheel says for which systems it is. `cargo xtask test wheel` tries it as a user has
//! it: pip installs it into a clean environment, where the example and the tests run and mypy compares the stubs with
//! what is compiled. Needs network, for numpy and, the first time, for these programs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;
use zip::ZipArchive;

use crate::cache::Cache;
use crate::debian_root::failed;
use crate::environment::{cargo, remove_folder, workspace};
use crate::metadata::Metadata;
use crate::package::build_date::BuildDate;
use crate::package::program::{CHECKOUT, compile_alike, host};
use crate::package::{notice, sbom};
use crate::process::{must_run, output};

/// Python packages that build and check wheels, as pip takes them.
const TOOLS: [&str; 3] = ["maturin==1.16.0", "auditwheel==6.8.2", "mypy==2.4.1"];
/// The package, in the workspace.
const PACKAGE: &str = "runtime/bindings/python";
/// Licences of the crates inside, beside `pyproject.toml` while maturin builds; git ignores it.
const NOTICE: &str = "NOTICE";
/// Name of the bill of materials.
const BILL: &str = "orco.cdx.json";
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
    check_members(&members(&wheel)?, &workspace().to_string_lossy())?;
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
    let metadata = Metadata::read()?;
    let target = metadata.target_folder()?;
    let (folder, stage) = (target.join("wheels"), target.join("wheel"));
    remove_folder(&folder)?;
    fs::create_dir_all(&stage)?;
    let package = workspace().join(PACKAGE);
    // cargo-about asks for what Cargo has, and maturin for all crates.
    must_run(cargo().args(["fetch", "--locked"]).current_dir(workspace()))?;
    let (triple, bill, notice) = (host()?, stage.join(BILL), package.join(NOTICE));
    let date = BuildDate::find()?;
    sbom::write(&metadata, &package, &triple, &date, Vec::new(), &bill)?;
    let mut maturin = Command::new(tools.join("bin/maturin"));
    maturin.args(["build", "--release", "--locked", "--auditwheel", "check", "--out"]).arg(&folder);
    maturin.arg("--sbom-include").arg(&bill);
    // maturin sorts the files, and gives each this date.
    compile_alike(&mut maturin, &triple, "release", &target, &date)?;
    notice::write(&package, &triple, None, &notice)?;
    let built = must_run(maturin.current_dir(&package));
    // Whoever calls maturin without us would get one of another day.
    fs::remove_file(&notice)?;
    built?;
    let wheel = fs::read_dir(&folder)?.next().ok_or("maturin left no wheel")??.path();
    check_tag(tools, &wheel)?;
    Ok(wheel)
}

/// The files in a wheel, by their names.
///
/// # Errors
/// If it cannot be read.
pub fn members(wheel: &Path) -> Result<BTreeMap<String, Vec<u8>>, Box<dyn Error>> {
    let mut archive = ZipArchive::new(BufReader::new(File::open(wheel)?))?;
    let names: Vec<String> = archive.file_names().map(|name| name.map(Cow::into_owned)).collect::<Result<_, _>>()?;
    let mut members = BTreeMap::new();
    for name in names {
        let mut content = Vec::new();
        archive.by_name(&name)?.read_to_end(&mut content)?;
        members.insert(name, content);
    }
    Ok(members)
}

/// Demands the licences of us and of others, the bill of materials, and that nothing names the checkout's folder.
fn check_members(members: &BTreeMap<String, Vec<u8>>, checkout: &str) -> Result<(), Box<dyn Error>> {
    let folder = format!("orco-{}.dist-info", env!("CARGO_PKG_VERSION"));
    let text = |name: &str| {
        let name = format!("{folder}/{name}");
        let content = members.get(&name).ok_or_else(|| format!("the wheel lacks {name}"))?;
        Ok::<_, Box<dyn Error>>(String::from_utf8_lossy(content))
    };
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        text(&format!("licenses/{licence}"))?;
    }
    let notice = text(&format!("licenses/{NOTICE}"))?;
    if !notice.contains("\n- pyo3 ") {
        return Err(format!("{NOTICE} does not name pyo3").into());
    }
    let bill: Value = serde_json::from_str(&text(&format!("sboms/{BILL}"))?)?;
    let components = bill["components"].as_array().ok_or("the bill of materials lists no components")?;
    if !components.iter().any(|component| component["name"] == "pyo3") {
        return Err("the bill of materials does not list pyo3".into());
    }
    let others: Vec<&String> =
        members.keys().filter(|name| name.contains("/sboms/") && !name.ends_with(BILL)).collect();
    if !others.is_empty() {
        return Err(format!("the wheel has further bills of materials, of which we know nothing: {others:?}").into());
    }
    // A checkout whose path begins the name that replaces it, such as /orco, cannot be told from that name.
    let is_told = !CHECKOUT.starts_with(checkout);
    let names_it = |content: &[u8]| is_told && content.windows(checkout.len()).any(|part| part == checkout.as_bytes());
    match members.iter().find(|(_, content)| names_it(content)) {
        Some((name, _)) => Err(format!("{name} names the folder that it was built in, {checkout}").into()),
        None => Ok(()),
    }
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

    #[test]
    fn a_wheel_without_licences_or_bill_or_with_a_folder_is_refused() {
        let folder = format!("orco-{}.dist-info", env!("CARGO_PKG_VERSION"));
        let whole: BTreeMap<String, Vec<u8>> = [
            ("licenses/LICENSE-MIT", "MIT"),
            ("licenses/LICENSE-APACHE", "Apache"),
            ("licenses/NOTICE", "others\n\nMIT\n- pyo3 0.30.0\n"),
            ("sboms/orco.cdx.json", r#"{"components": [{"name": "pyo3"}]}"#),
        ]
        .map(|(name, content)| (format!("{folder}/{name}"), content.as_bytes().to_vec()))
        .into();
        check_members(&whole, "/home/me/orco").unwrap();
        for name in whole.keys() {
            let mut less = whole.clone();
            less.remove(name);
            assert_eq!(
                check_members(&less, "/home/me/orco").unwrap_err().to_string(),
                format!("the wheel lacks {name}")
            );
        }
        for (name, content) in [("licenses/NOTICE", "others"), ("sboms/orco.cdx.json", r#"{"components": []}"#)] {
            let mut wrong = whole.clone();
            wrong.insert(format!("{folder}/{name}"), content.into());
            assert!(check_members(&wrong, "/home/me/orco").unwrap_err().to_string().contains("pyo3"), "{name}");
        }
        let mut leaking = whole.clone();
        leaking.insert("orco/_orco.abi3.so".into(), b"\0/home/me/orco/runtime/src\0".into());
        let error = check_members(&leaking, "/home/me/orco").unwrap_err().to_string();
        assert!(error.starts_with("orco/_orco.abi3.so names the folder"), "{error}");
        let mut more = whole;
        more.insert(format!("{folder}/sboms/orco-python.cyclonedx.json"), b"{}".into());
        assert!(check_members(&more, "/home/me/orco").unwrap_err().to_string().contains("further bills"));
    }

    #[test]
    fn a_wheel_is_read_member_by_member() {
        use std::io::Write;
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut zip = zip::ZipWriter::new(file.reopen().unwrap());
        for (name, content) in [("orco/b.py", "b"), ("orco/a.py", "a")] {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(content.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
        let expected = [("orco/a.py".to_owned(), b"a".to_vec()), ("orco/b.py".to_owned(), b"b".to_vec())];
        assert_eq!(members(file.path()).unwrap(), BTreeMap::from(expected));
    }
}
