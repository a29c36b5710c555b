//! Disks that are full or read-only, for real.

use std::fs;
use std::path::Path;
use std::process::Output;

use orco_trials::skipped;
use orco_trials::tmpfs::TmpfsMount;
use tempfile::TempDir;

use crate::support::service::Service;
use crate::support::{self, argument, assert_refused, shipped, shots, text};

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
    let state = mounted.path().join("state");
    let [mug, duck, cactus] = ["mug", "rubber-duck", "cactus"].map(|class| argument(class, &shots("learn", class)));
    done(&orco(&state, &["learn", &mug, &duck]));
    let before = listed(&state);
    let ballast = mounted.path().join("ballast");
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
    mounted.remount("ro");
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
    mounted.remount("rw");
    done(&orco(&state, &["rename", "mug", "beaker"]));
    assert!(listed(&state).contains("beaker"));
}

#[test]
fn a_change_whose_head_finds_no_room_is_not_called_undone() {
    // Room for a state without an aligned head, which takes 2 MB.
    let Some(mounted) = TmpfsMount::new("size=1m") else {
        return skipped("alignment on a full disk (mounting needs root)");
    };
    let state = mounted.path().join("state");
    let learned = orco(&state, &["learn", &argument("mug", &shots("learn", "mug"))]);
    let said = text(&learned.stderr);
    assert_eq!(learned.status.code(), Some(3), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(
        errors.len() == 1 && errors[0].starts_with("error: the change is made, but the head was not aligned"),
        "{said}"
    );
    assert!(errors[0].ends_with("No space left on device (os error 28); `orco align` tries again"), "{said}");
    assert!(listed(&state).contains("mug"));
}

/// All that an earlier start has made is there: answering takes no more.
#[test]
fn a_service_starts_again_where_its_disk_is_full_or_read_only() {
    let Some(mounted) = TmpfsMount::new("size=16m") else {
        return skipped("services on full and read-only disks (mounting needs root)");
    };
    let [state, token, sightings] = ["state", "token", "sightings"].map(|name| mounted.path().join(name));
    let is_live = || {
        let arguments = ["--engine", "rten", "serve", "--listen", "127.0.0.1:0"];
        let mut command = support::orco(&shipped(), &state, &arguments);
        command.arg("--token-file").arg(&token).arg("--sightings").arg(&sightings);
        Service::of(command).ask("GET", "/v2/health/live", "", b"").0 == 200
    };
    assert!(is_live());
    // As where the disk became full within a line.
    let list = sightings.join("sightings.csv");
    let whole = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("{whole}1800000001-1,2027-01-15T08")).unwrap();
    mounted.fill();
    assert!(is_live(), "the disk is full");
    mounted.remount("ro");
    assert!(is_live(), "the disk is read-only");
}

#[test]
fn a_service_whose_disk_takes_no_more_files_is_not_ready() {
    let Some(mounted) = TmpfsMount::new("size=64m,nr_inodes=8") else {
        return skipped("disks without files to come (mounting needs root)");
    };
    let serve = || {
        let arguments = ["--engine", "rten", "serve", "--listen", "127.0.0.1:0"];
        Service::of(support::orco(&shipped(), &mounted.path().join("state"), &arguments))
    };
    let ready = |service: &Service| service.ask("GET", "/v2/health/ready", "", b"").0;
    assert_eq!(ready(&serve()), 200);
    let count = (0..8).take_while(|number| fs::write(mounted.path().join(number.to_string()), b"").is_ok()).count();
    assert!(count < 8, "there are inodes left");
    let service = serve();
    assert_eq!(ready(&service), 503);
    let status = service.json("GET", "/api/v1/status", &serde_json::Value::Null);
    let problem = status["problems"][0].as_str().unwrap();
    assert!(problem.starts_with("nothing can be learned: ") && problem.ends_with("takes no more files"), "{problem}");
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
