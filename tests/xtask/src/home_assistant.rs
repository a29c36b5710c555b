//! A Python with Home Assistant's core, which needs a newer one than most machines have: in a Debian of its own, with a
//! script that enters it.

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::debian_root::{DebianRoot, PROXIES, bootstrap, failed, of_this_machine};
use crate::environment::{HOME_ASSISTANT, own_copy, path_from_variable, quoted, workspace};
use crate::error::SetupCause;
use crate::metadata::target_folder;
use crate::process::must_run;

/// What is installed by pip. The script `home_assistant.py` of the tests uses what this release has.
const WHEELS: [&str; 2] = ["homeassistant==2026.2.3", "paho-mqtt==2.1.0"];
/// The first Debian whose Python is new enough.
const RELEASE: &str = "trixie";
/// Python, and what builds the wheels that are published as sources alone.
const PACKAGES: [&str; 4] = ["python3-venv", "python3-dev", "gcc", "libc6-dev"];
/// Where the packages lie in there.
const VENV: &str = "/opt/home-assistant";
/// Names pip's file of certificate authorities, where it has one of its own.
const AUTHORITIES: &str = "PIP_CERT";
/// Variables that say where pip's index is, and whom to trust.
const INDEX: [&str; 2] = [AUTHORITIES, "PIP_INDEX_URL"];
/// The script's name.
const SCRIPT: &str = "home-assistant-python";

/// The program to call as Python: the one that ORCO_HOME_ASSISTANT names, else a script in the target folder that
/// enters the Debian in the cache, which is made there if it is not. That needs root, and mmdebstrap or debootstrap.
///
/// # Errors
/// If it cannot be made.
pub fn python() -> Result<PathBuf, Box<dyn Error>> {
    if let Some(own) = own_copy(HOME_ASSISTANT) {
        return Ok(own);
    }
    let (cache, folder) = (Cache::of_user()?, format!("debian-{RELEASE}-{}", WHEELS[0].replace("==", "-")));
    let root = cache.path(&folder);
    cache.install(&folder, &["opt/home-assistant/bin/python", "opt/home-assistant/bin/hass"], |kept, scratch| {
        eprintln!("Making a Debian {RELEASE} with {} in {}", WHEELS.join(" and "), root.display());
        bootstrap(RELEASE, kept, scratch).map_err(failed(kept))?;
        fill(&DebianRoot::at(kept)).map_err(failed(kept))
    })?;
    // It names this checkout, while the Debian serves all of them.
    let target = target_folder()?;
    fs::create_dir_all(&target)?;
    let script = target.join(SCRIPT);
    write_script(&script, &DebianRoot::at(&root)).map_err(SetupCause::file(&script))?;
    Ok(script)
}

fn fill(root: &DebianRoot) -> Result<(), Box<dyn Error>> {
    root.install(&PACKAGES)?;
    must_run(&mut root.command(&[], &["python3", "-m", "venv", VENV]))?;
    let pip = format!("{VENV}/bin/pip");
    // In there pip trusts whom this machine trusts, and takes the same way out.
    let authorities = path_from_variable(AUTHORITIES);
    let shared: Vec<&Path> = authorities.iter().filter_map(|file| file.parent()).collect();
    let words = [&[pip.as_str(), "install", "--no-cache-dir", "--quiet"][..], &WHEELS].concat();
    must_run(root.command(&shared, &words).envs(of_this_machine(&INDEX)).envs(of_this_machine(&PROXIES)))
}

/// A script that enters the root, which sees the checkout, and hands its arguments to Python.
fn write_script(script: &Path, root: &DebianRoot) -> std::io::Result<()> {
    let python = format!("{VENV}/bin/python");
    let command = root.command(&[workspace()], &[&python]);
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quoted(&value?.to_string_lossy()))));
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| quoted(&word.to_string_lossy()));
    let line: Vec<String> = variables.chain(words).collect();
    fs::write(script, format!("#!/bin/sh\nexec env -i {} \"$@\"\n", line.join(" ")))?;
    fs::set_permissions(script, fs::Permissions::from_mode(0o755))
}
