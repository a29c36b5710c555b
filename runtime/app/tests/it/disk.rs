//! Disks that are full or read-only, for real.

use std::fs;
use std::path::Path;
use std::process::Output;

use orco_trials::skipped;
use tempfile::TempDir;

use crate::support::{self, TmpfsMount, argument, assert_refused, shipped, shots, text};

fn orco(state: &Path, arguments: &[&str]) -> Output {
    support::orco(&shipped(), state, arguments).output().unwrap()
}

fn done(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn listed(state: &Path) -> String {
    let output = orco(state, &["list"]);
    done(&output);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn full_and_read_only_disks_are_reported_and_nothing_is_lost() {
    let mut trial = orco_trials::trial!(5, "changes on a full or read-only disk");
    let Some(mounted) = TmpfsMount::new("size=16m") else {
        skipped("full and read-only disks (mounting needs root)");
        return;
    };
    /// A page of the file system in memory.
    const ROOM: u64 = 4096;
    let state = mounted.path.join("state");
    let [mug, duck, cactus] = ["mug", "rubber-duck", "cactus"].map(|class| argument(class, &shots("learn", class)));
    done(&orco(&state, &["learn", &mug, &duck]));
    let before = listed(&state);
    let ballast = mounted.path.join("ballast");
    let full = fs::write(&ballast, vec![1; 16 << 20]);
    assert_eq!(full.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    for change in [&["learn", &cactus][..], &["rename", "mug", "beaker"], &["forget", "mug"], &["undo"]] {
        assert_refused(&orco(&state, change), "what was known before is unchanged");
        assert_eq!(listed(&state), before, "{change:?}");
        trial.count(1);
    }
    // A little room, too little for a state.
    let filled = fs::metadata(&ballast).unwrap().len();
    assert!(fs::metadata(state.join("slot-a")).unwrap().len() > ROOM, "a state is larger than the room");
    fs::OpenOptions::new().write(true).open(&ballast).unwrap().set_len(filled - ROOM).unwrap();
    assert_refused(&orco(&state, &["rename", "mug", "beaker"]), "No space left on device");
    assert_eq!(listed(&state), before);
    assert!(fs::read_dir(&state).unwrap().all(|entry| !entry.unwrap().file_name().to_string_lossy().contains("new")));
    fs::remove_file(&ballast).unwrap();
    mounted.remount("remount,ro");
    for change in [&["learn", &cactus][..], &["rename", "mug", "beaker"], &["forget", "mug", "--purge"]] {
        assert_refused(&orco(&state, change), "Read-only file system");
        assert_eq!(listed(&state), before, "{change:?}");
        trial.count(1);
    }
    // Nobody can change the state meanwhile: it is backed up as it is.
    let elsewhere = TempDir::new().unwrap();
    let (backup, restored) = (elsewhere.path().join("backup"), elsewhere.path().join("restored"));
    done(&orco(&state, &["backup", backup.to_str().unwrap()]));
    done(&orco(&restored, &["restore", backup.to_str().unwrap()]));
    assert_eq!(listed(&restored), before);
    mounted.remount("remount,rw");
    done(&orco(&state, &["rename", "mug", "beaker"]));
    assert!(listed(&state).contains("beaker"));
}

/// A device that classifies, lists and says what it is writes not a byte.
#[test]
fn a_device_at_rest_writes_nothing() {
    let mut trial = orco_trials::trial!(7, "commands");
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let picture = shots("try", "mug").join("1.jpg");
    let mut look = || {
        done(&orco(&state, &["classify", picture.to_str().unwrap()]));
        for verb in ["list", "info", "history"] {
            done(&orco(&state, &[verb]));
            trial.count(1);
        }
    };
    look();
    assert!(!state.exists(), "looking made the folder");
    done(&orco(&state, &["learn", &argument("mug", &shots("learn", "mug"))]));
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
