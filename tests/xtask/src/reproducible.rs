//! `cargo xtask test reproducible`: the Debian package with its bill of materials and the Python wheel of one commit,
//! built twice, in clones whose folders and target folders have other names, are the same bytes.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::ValueEnum;

use crate::environment::{cargo, remove_folder, workspace};
use crate::metadata::target_folder;
use crate::process::{git, must_run};
use crate::wheel;

/// Clone and target folder of each build, within a temporary folder. The paths differ in length, and one target folder
/// lies in its clone, as usual.
const PLACES: [(&str, &str); 2] = [("one", "one/target"), ("somewhere/else/in/another-clone", "built")];
/// Where both are kept, in the target folder.
const KEPT: &str = "reproducible";

/// What is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The Debian package and its bill of materials
    Package,
    /// The Python wheel
    Wheel,
}

impl Part {
    /// Task of `cargo xtask` that builds it.
    fn task(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Wheel => "wheel",
        }
    }

    /// Where that leaves it, in the target folder.
    fn folder(self) -> &'static str {
        match self {
            Self::Package => "debian",
            Self::Wheel => "wheels",
        }
    }
}

/// Files by their names.
type Files = BTreeMap<String, Vec<u8>>;

/// Builds these parts twice, all of them if none is named, and compares them. What is not committed is not built. With
/// `same_folder`, both are built in the same folder: what differs then does not come from the names of folders.
///
/// # Errors
/// If something cannot be built, or differs: with the members that do.
pub fn run(parts: &[Part], same_folder: bool) -> Result<ExitCode, Box<dyn Error>> {
    let commit = git(&["rev-parse", "HEAD"])?.trim().to_owned();
    if !git(&["status", "--porcelain"])?.is_empty() {
        eprintln!("note: the commit {commit} is built, without what is not committed");
    }
    let is_chosen = |part: &&Part| parts.is_empty() || parts.contains(part);
    let chosen: Vec<Part> = Part::value_variants().iter().filter(is_chosen).copied().collect();
    let kept = target_folder()?.join(KEPT);
    remove_folder(&kept)?;
    let folder = tempfile::Builder::new().prefix("orco-reproducible-").tempdir()?;
    let mut built = Vec::new();
    let places = if same_folder { [PLACES[0]; PLACES.len()] } else { PLACES };
    for (number, (clone, target)) in (1..).zip(places) {
        let (clone, target) = (folder.path().join(clone), folder.path().join(target));
        eprintln!("=== {commit} in {}, {number} of {}", clone.display(), PLACES.len());
        clone_commit(&commit, &clone)?;
        let into = kept.join(number.to_string());
        fs::create_dir_all(&into)?;
        for part in &chosen {
            let mut xtask = cargo();
            xtask.args(["xtask", part.task()]).current_dir(&clone).env("CARGO_TARGET_DIR", &target);
            // The clone's own, not that of this checkout.
            must_run(xtask.env_remove("CARGO_BUILD_TARGET_DIR"))?;
            copy_files(&target.join(part.folder()), &into)?;
        }
        // Room for the next.
        remove_folder(&target)?;
        remove_folder(&clone)?;
        built.push(into);
    }
    let [one, other] = &*built else { return Err("there are not two builds".into()) };
    let differences = differences(one, other)?;
    if differences.is_empty() {
        println!("two builds of {commit} are the same bytes: {}", names(one)?.join(", "));
        return Ok(ExitCode::SUCCESS);
    }
    Err(format!("two builds of {commit}, kept in {}, differ:\n{}", kept.display(), differences.join("\n")).into())
}

/// Clones this repository, and checks the commit out.
fn clone_commit(commit: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
    must_run(Command::new("git").args(["clone", "--quiet", "--shared", "--no-checkout"]).arg(workspace()).arg(folder))?;
    must_run(Command::new("git").args(["checkout", "--quiet", "--detach", commit]).current_dir(folder))
}

/// Copies the files of a folder, not what is in folders below it.
fn copy_files(from: &Path, into: &Path) -> Result<(), Box<dyn Error>> {
    for name in names(from)? {
        fs::copy(from.join(&name), into.join(&name))?;
    }
    Ok(())
}

/// Names of the files of a folder, sorted.
fn names(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// What differs between the files of two folders, a line for each, and for each member of a package or a wheel.
fn differences(one: &Path, other: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let read = |folder: &Path| -> Result<Files, Box<dyn Error>> {
        names(folder)?.into_iter().map(|name| Ok((name.clone(), fs::read(folder.join(name))?))).collect()
    };
    let [of_one, of_other] = [read(one)?, read(other)?];
    let mut lines = Vec::new();
    for (name, line) in differing(&of_one, &of_other) {
        lines.push(line);
        if !(of_one.contains_key(&name) && of_other.contains_key(&name)) {
            continue;
        }
        let Some([of_one, of_other]) = both_members(&one.join(&name), &other.join(&name))? else { continue };
        let members = differing(&of_one, &of_other);
        if members.is_empty() {
            lines.push("  no member differs in its content: their order, times, owners or modes do".to_owned());
        }
        lines.extend(members.into_iter().map(|(_, line)| format!("  {line}")));
    }
    Ok(lines)
}

/// Members of both, where it is known how to read them.
fn both_members(one: &Path, other: &Path) -> Result<Option<[Files; 2]>, Box<dyn Error>> {
    let members = match one.extension().and_then(|ending| ending.to_str()) {
        Some("whl") => wheel::members,
        Some("deb") => of_package,
        _ => return Ok(None),
    };
    Ok(Some([members(one)?, members(other)?]))
}

/// What a Debian package installs, and what it tells dpkg.
fn of_package(deb: &Path) -> Result<Files, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    must_run(Command::new("dpkg-deb").arg("--raw-extract").args([deb, folder.path()]))?;
    let mut files = Files::new();
    gather(folder.path(), folder.path(), &mut files)?;
    Ok(files)
}

/// Adds all files below a folder, by their paths from the root on; of a link, where it leads.
fn gather(root: &Path, folder: &Path, files: &mut Files) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        let kind = fs::symlink_metadata(&path)?.file_type();
        if kind.is_dir() {
            gather(root, &path, files)?;
            continue;
        }
        let content =
            if kind.is_symlink() { fs::read_link(&path)?.into_os_string().into_vec() } else { fs::read(&path)? };
        files.insert(path.strip_prefix(root)?.to_string_lossy().into_owned(), content);
    }
    Ok(())
}

/// Names of files that are not the same in both, each with a line that says how.
fn differing(one: &Files, other: &Files) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, content) in one {
        let line = match other.get(name) {
            None => format!("{name}: only in the first"),
            Some(same) if same == content => continue,
            Some(changed) if changed.len() == content.len() => {
                let bytes = content.iter().zip(changed).filter(|(one, other)| one != other).count();
                format!("{name}: {bytes} of {} bytes differ", content.len())
            }
            Some(changed) => format!("{name}: {} bytes and {}", content.len(), changed.len()),
        };
        found.push((name.clone(), line));
    }
    let new = other.keys().filter(|name| !one.contains_key(*name));
    found.extend(new.map(|name| (name.clone(), format!("{name}: only in the second"))));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wheel_of(path: &Path, members: &[(&str, &str)]) {
        use std::io::Write;
        let mut zip = zip::ZipWriter::new(fs::File::create(path).unwrap());
        for (name, content) in members {
            zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(content.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
    }

    #[test]
    fn members_that_differ_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["1", "2"].map(|name| folder.path().join(name));
        for folder in [&one, &other] {
            fs::create_dir(folder).unwrap();
            wheel_of(&folder.join("same.whl"), &[("a", "a")]);
        }
        assert!(differences(&one, &other).unwrap().is_empty());
        wheel_of(&one.join("orco.whl"), &[("a", "same"), ("b.so", "abcd"), ("c", "longer"), ("d", "d")]);
        wheel_of(&other.join("orco.whl"), &[("a", "same"), ("b.so", "axcy"), ("c", "long"), ("e", "e")]);
        wheel_of(&one.join("order.whl"), &[("a", "a"), ("b", "b")]);
        wheel_of(&other.join("order.whl"), &[("b", "b"), ("a", "a")]);
        fs::write(one.join("orco.cdx.json"), "{}").unwrap();
        let lines = differences(&one, &other).unwrap();
        assert_eq!(lines[0], "orco.cdx.json: only in the first");
        assert!(lines[1].starts_with("orco.whl: "), "{lines:?}");
        let members =
            ["  b.so: 2 of 4 bytes differ", "  c: 6 bytes and 4", "  d: only in the first", "  e: only in the second"];
        assert_eq!(lines[2..6], members);
        assert!(lines[6].starts_with("order.whl: ") && lines[7].starts_with("  no member differs"), "{lines:?}");
        assert_eq!(lines.len(), 8);
    }

    #[test]
    fn files_below_folders_and_links_are_gathered() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("usr/bin")).unwrap();
        fs::write(folder.path().join("usr/bin/orco"), "program").unwrap();
        std::os::unix::fs::symlink("orco", folder.path().join("usr/bin/link")).unwrap();
        let mut files = Files::new();
        gather(folder.path(), folder.path(), &mut files).unwrap();
        let expected =
            [("usr/bin/link".to_owned(), b"orco".to_vec()), ("usr/bin/orco".to_owned(), b"program".to_vec())];
        assert_eq!(files, Files::from(expected));
    }
}
