//! Disks that are full or read-only, for real.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A file system in memory, while it lives.
struct Mounted {
    path: PathBuf,
    _folder: TempDir,
}

impl Mounted {
    /// `None` where this user may not mount.
    fn new(options: &str) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder.path()).output();
        let path = folder.path().to_owned();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self { path, _folder: folder })
    }

    fn remount(&self, options: &str) {
        let done = Command::new("mount").args(["-o", options]).arg(&self.path).status().unwrap();
        assert!(done.success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).status();
    }
}

fn orco(state: &Path, arguments: &[&str]) -> Output {
    let bundle = workspace().join("models/cifar100-edge");
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco"));
    command.arg("--bundle").arg(bundle).arg("--state").arg(state).args(arguments).env_remove("RUST_LOG");
    command.output().unwrap()
}

fn done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn refused(output: &Output, expected: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(expected) && !said.contains("panicked"), "{said}");
}

fn listed(state: &Path) -> String {
    let output = orco(state, &["list"]);
    done(&output);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn full_and_read_only_disks_are_reported_and_nothing_is_lost() {
    let Some(mounted) = Mounted::new("size=16m") else {
        let _ = writeln!(std::io::stderr(), "skipped: full and read-only disks (mounting needs root)");
        return;
    };
    let state = mounted.path.join("state");
    let shots = |class: &str| format!("{class}={}", workspace().join("examples/shots/learn").join(class).display());
    done(&orco(&state, &["learn", &shots("mug")]));
    let before = listed(&state);
    let ballast = mounted.path.join("ballast");
    let full = fs::write(&ballast, vec![1; 16 << 20]);
    assert_eq!(full.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    for change in [&["learn", &shots("cactus")][..], &["rename", "mug", "beaker"], &["forget", "mug"], &["undo"]] {
        refused(&orco(&state, change), "what was known before is unchanged");
        assert_eq!(listed(&state), before, "{change:?}");
    }
    // A little room, too little for a state.
    fs::remove_file(&ballast).unwrap();
    fs::write(&ballast, vec![1; 10 << 20]).unwrap();
    refused(&orco(&state, &["rename", "mug", "beaker"]), "No space left on device");
    assert_eq!(listed(&state), before);
    assert!(fs::read_dir(&state).unwrap().all(|entry| !entry.unwrap().file_name().to_string_lossy().contains("new")));
    fs::remove_file(&ballast).unwrap();
    mounted.remount("remount,ro");
    for change in [&["learn", &shots("cactus")][..], &["rename", "mug", "beaker"], &["forget", "mug", "--purge"]] {
        refused(&orco(&state, change), "Read-only file system");
        assert_eq!(listed(&state), before, "{change:?}");
    }
    mounted.remount("remount,rw");
    done(&orco(&state, &["rename", "mug", "beaker"]));
    assert!(listed(&state).contains("beaker"));
}

/// A device that classifies, lists and says what it is writes not a byte.
#[test]
fn a_device_at_rest_writes_nothing() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let mug = workspace().join("examples/shots/try/mug/1.jpg");
    let shots = format!("mug={}", workspace().join("examples/shots/learn/mug").display());
    let look = || {
        done(&orco(&state, &["classify", mug.to_str().unwrap()]));
        for verb in ["list", "info", "history"] {
            done(&orco(&state, &[verb]));
        }
    };
    look();
    assert!(!state.exists(), "looking made the folder");
    done(&orco(&state, &["learn", &shots]));
    let files = || {
        let entries = fs::read_dir(&state).unwrap().map(Result::unwrap);
        let mut files: Vec<_> = entries
            .map(|entry| {
                let facts = entry.metadata().unwrap();
                (entry.file_name(), facts.len(), facts.modified().unwrap(), std::os::unix::fs::MetadataExt::ino(&facts))
            })
            .collect();
        files.sort();
        files
    };
    let before = (files(), fs::metadata(&state).unwrap().modified().unwrap());
    look();
    assert_eq!(before, (files(), fs::metadata(&state).unwrap().modified().unwrap()));
}
