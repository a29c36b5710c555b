//! Slots that cannot be read, and what else may lie in the place of a file of the store: every change is refused and
//! touches nothing; looking goes on with the other slot and says so.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use orco_runtime::bundle::Bundle;
use orco_runtime::store::Store;
use orco_trials::skipped;
use tempfile::TempDir;

use crate::support::user::{NOBODY, User, open_to_all};
use crate::support::{self, argument, changed_state, changes, copy_folder, fast_bundle, make_pipe, shots, text};

/// Runs the program as the user, with the engine that needs no other file.
fn run(user: &User, state: &Path, arguments: &[String]) -> Output {
    let mut command = user.command(state);
    command.args(arguments).env_clear().env("ORT_DYLIB_PATH", "/nowhere").stdin(Stdio::null());
    command.output().unwrap()
}

/// Why a slot cannot be read, or may not be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotObstacle {
    NoPermission,
    OfAnotherUser,
    /// It can be read, but a change would leave a file that its owner cannot read.
    OfAnotherUserForAll,
    Link,
    Pipe,
    Folder,
}

impl SlotObstacle {
    const ALL: [Self; 6] =
        [Self::NoPermission, Self::OfAnotherUser, Self::OfAnotherUserForAll, Self::Link, Self::Pipe, Self::Folder];

    fn needs_root(self) -> bool {
        matches!(self, Self::OfAnotherUser | Self::OfAnotherUserForAll)
    }

    fn apply(self, slot: &Path) {
        let kept = slot.with_extension("kept");
        match self {
            Self::NoPermission => fs::set_permissions(slot, fs::Permissions::from_mode(0o000)).unwrap(),
            Self::OfAnotherUser => chown(slot, Some(0), Some(0)).unwrap(),
            Self::OfAnotherUserForAll => {
                chown(slot, Some(0), Some(0)).unwrap();
                fs::set_permissions(slot, fs::Permissions::from_mode(0o644)).unwrap();
            }
            Self::Link => {
                fs::rename(slot, &kept).unwrap();
                symlink(&kept, slot).unwrap();
            }
            Self::Pipe => {
                fs::rename(slot, &kept).unwrap();
                make_pipe(slot);
            }
            Self::Folder => {
                fs::rename(slot, &kept).unwrap();
                fs::create_dir(slot).unwrap();
            }
        }
    }

    fn told(self) -> &'static str {
        match self {
            Self::NoPermission => "Permission denied",
            Self::OfAnotherUser | Self::OfAnotherUserForAll => "belongs to user 0",
            Self::Link => "it is a symbolic link",
            Self::Pipe => "it is not a regular file",
            Self::Folder => "it is a folder",
        }
    }
}

/// Everything about a file but when it was read.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    mode: u32,
    owner: u32,
    inode: u64,
    /// Of a regular file that may be read.
    bytes: Option<Vec<u8>>,
}

/// Everything about the files of a folder.
fn facts(folder: &Path) -> BTreeMap<String, Facts> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let facts = |entry: &fs::DirEntry| {
        let facts = fs::symlink_metadata(entry.path()).unwrap();
        let bytes = facts.is_file().then(|| fs::read(entry.path()).ok()).flatten();
        Facts { mode: facts.mode(), owner: facts.uid(), inode: facts.ino(), bytes }
    };
    entries.map(|entry| (entry.file_name().into_string().unwrap(), facts(&entry))).collect()
}

#[test]
fn what_cannot_be_read_is_never_changed_nor_set_aside() {
    let mut trial = orco_trials::trial!(17, "changes");
    let user = User::new(|folder| fast_bundle(folder).folder);
    let (pristine, pack) = changed_state(&user.bundle, user.folder.path());
    open_to_all(user.folder.path());
    let state = user.folder.path().join("state");
    let list = ["list".to_owned(), "--json".into(), "-".into()];
    let out = user.folder.path().join("out.orcopack");
    let export = ["export", "mug", "-o", out.to_str().unwrap()].map(str::to_owned);
    let (mut tried, mut looked) = (0, 0);
    for obstacle in SlotObstacle::ALL {
        if obstacle.needs_root() && !user.is_root {
            skipped(&format!("slots {obstacle:?} (giving files away needs root)"));
            continue;
        }
        // What was learned went to both slots, its aligned head to the first, the new name to the second.
        for (slot, other, label) in [("slot-a", "slot-b", "mug"), ("slot-b", "slot-a", "jug")] {
            copy_folder(&pristine, &state);
            for slot in ["slot-a", "slot-b", ".lock"] {
                fs::set_permissions(state.join(slot), fs::Permissions::from_mode(0o600)).unwrap();
            }
            user.give(&state);
            let apply = |slot: &str| {
                obstacle.apply(&state.join(slot));
                if user.is_root && !obstacle.needs_root() {
                    lchown(state.join(slot), Some(NOBODY), None).unwrap();
                }
            };
            apply(slot);
            let before = facts(&state);
            for change in changes(&pack) {
                let what = format!("{obstacle:?}, {slot}, {change:?}");
                let output = run(&user, &state, &change);
                let said = text(&output.stderr);
                assert_eq!(output.status.code(), Some(1), "{what}: {said}");
                assert!(
                    said.contains(slot) && said.contains(obstacle.told()) && !said.contains("panicked"),
                    "{what}: {said}"
                );
                assert!(facts(&state) == before, "{what}: something was changed");
                tried += 1;
                trial.count(1);
            }
            let output = run(&user, &state, &list);
            let (listed, said) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success(), "{obstacle:?}, {slot}: {said}");
            if obstacle == SlotObstacle::OfAnotherUserForAll {
                assert!(listed.contains("\"mug\""), "it can be read: {listed}");
                assert!(!said.contains("left out"), "{said}");
            } else {
                assert!(listed.contains(&format!("\"{label}\"")), "{obstacle:?}, {slot}: {listed}");
                let warned = format!("warning: {} is left out: it cannot be read", state.join(slot).display());
                assert!(
                    said.contains(&warned) && said.contains("give it back to this user (chown, chmod 600)"),
                    "{said}"
                );
                looked += 1;
                let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
                assert!(listed["warnings"][0].as_str().unwrap().contains(slot), "{listed}");
                // What leaves the device comes from the newest state or not at all.
                support::assert_refused(&run(&user, &state, &export), "nothing is done without it");
                assert!(!out.exists());
            }
            // Neither can be read: nothing is known, and that is no fresh device.
            if obstacle != SlotObstacle::OfAnotherUserForAll {
                apply(other);
                let output = run(&user, &state, &list);
                assert_eq!(output.status.code(), Some(1), "{obstacle:?}: {}", text(&output.stdout));
            }
            assert!(facts(&state).keys().all(|name| !name.contains(".bad-")), "{obstacle:?}");
        }
    }
    let _ = writeln!(
        std::io::stderr(),
        "store: {tried} changes of a state with a slot that cannot be read or belongs to another user, all refused \
         with every file as it was; {looked} looks, each of which said so"
    );
}

#[test]
fn a_lock_file_is_neither_followed_nor_emptied_nor_waited_for() {
    let folder = TempDir::new().unwrap();
    let bundle = fast_bundle(folder.path());
    let (state, _) = changed_state(&bundle.folder, folder.path());
    let lock = state.join(".lock");
    assert_eq!(fs::metadata(&lock).unwrap().permissions().mode() & 0o777, 0o600, "others could hold the lock");
    let rename = |more: &[&str]| {
        let arguments = [&["rename", "mug", "beaker"], more].concat();
        support::orco(&bundle.folder, &state, &arguments).env("ORT_DYLIB_PATH", "/nowhere").output().unwrap()
    };
    let refused = |expected: &str, more: &[&str]| {
        let before = Store::new(&state).load(&bundle).unwrap();
        let output = rename(more);
        support::assert_refused(&output, expected);
        assert_eq!(Store::new(&state).load(&bundle).unwrap(), before);
    };
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    fs::remove_file(&lock).unwrap();
    symlink(&precious, &lock).unwrap();
    refused("it is a symbolic link", &[]);
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    fs::remove_file(&lock).unwrap();
    make_pipe(&lock);
    refused("it is not a regular file", &[]);
    refused("it is not a regular file", &["--wait", "60"]);
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    refused("it is a folder", &[]);
    fs::remove_dir(&lock).unwrap();
    if fs::metadata(&state).unwrap().uid() == 0 {
        fs::write(&lock, "").unwrap();
        chown(&lock, Some(NOBODY), None).unwrap();
        refused("belongs to user 65534", &[]);
        fs::remove_file(&lock).unwrap();
    }
    // Held by another process.
    let held = Store::new(&state).lock(Duration::ZERO).unwrap();
    refused("another process is changing the state", &[]);
    refused("another process is changing the state", &["--wait", "0.1"]);
    assert_eq!(rename(&["--wait", "soon"]).status.code(), Some(2));
    assert_eq!(rename(&["--wait", "-1"]).status.code(), Some(2));
    // Who waits gets it: by the option, and by the variable.
    let waits = |more: &[&str], variable: &str, to: &str| {
        let mut command = support::orco(&bundle.folder, &state, &[&["rename", "mug", to], more].concat());
        command.env("ORT_DYLIB_PATH", "/nowhere").env("ORCO_WAIT", variable).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children = [waits(&["--wait", "600"], "", "beaker"), waits(&[], "600", "glass")];
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(Store::new(&state).load(&bundle).unwrap().saved.state.classes[0].label, "mug");
    drop(held);
    // The one that comes second finds no "mug".
    let codes: Vec<_> = children.into_iter().map(|child| child.wait_with_output().unwrap().status.code()).collect();
    assert!(codes == [Some(0), Some(1)] || codes == [Some(1), Some(0)], "{codes:?}");
    let label = Store::new(&state).load(&bundle).unwrap().saved.state.classes[0].label.clone();
    assert_eq!(label, if codes[0] == Some(0) { "beaker" } else { "glass" });
}

#[test]
fn a_state_of_another_user_is_not_changed_by_root() {
    let folder = TempDir::new().unwrap();
    let bundle: Bundle = fast_bundle(folder.path());
    let (state, pack) = changed_state(&bundle.folder, folder.path());
    for name in ["slot-a", "slot-b", ".lock"] {
        if chown(state.join(name), Some(NOBODY), None).is_err() {
            skipped("states of another user (giving files away needs root)");
            return;
        }
    }
    let before = facts(&state);
    for change in changes(&pack) {
        let arguments: Vec<&str> = change.iter().map(String::as_str).collect();
        let output = support::orco(&bundle.folder, &state, &arguments).output().unwrap();
        support::assert_refused(&output, "slot-a belongs to user 65534");
        assert!(facts(&state) == before, "{change:?}");
    }
    let output = support::orco(&bundle.folder, &state, &["list"]).output().unwrap();
    assert!(output.status.success() && text(&output.stdout).contains("mug"), "{}", text(&output.stderr));
}

/// As on a fresh device whose service runs as a user of its own: what root would make there, that one could not read.
#[test]
fn root_makes_nothing_in_a_folder_of_another_user() {
    let user = User::new(|folder| fast_bundle(folder).folder);
    if !user.is_root {
        return skipped("folders of another user (giving one away needs root)");
    }
    let device = user.folder.path().join("device");
    fs::create_dir(&device).unwrap();
    fs::set_permissions(&device, fs::Permissions::from_mode(0o700)).unwrap();
    user.give(&device);
    let state = device.join("state");
    let mug = argument("mug", &shots("learn", "mug"));
    let [token, hub] = ["token", "hub"].map(|name| device.join(name).to_str().unwrap().to_owned());
    let is_empty = || fs::read_dir(&device).unwrap().count() == 0;
    let as_root = |arguments: &[&str]| {
        let arguments = [&["--engine", "rten"], arguments].concat();
        support::orco(&user.bundle, &state, &arguments).output().unwrap()
    };
    let learned = as_root(&["learn", &mug]);
    support::assert_refused(&learned, &format!("{} belongs to user 65534", device.display()));
    let said = text(&learned.stderr);
    assert!(said.contains("run this as that user (sudo -u "), "{said}");
    let code = format!("{}-{}", "0".repeat(32), "0".repeat(32));
    let sync = ["sync", "--hub", "http://127.0.0.1:9", "--code", &code];
    for service in [
        &["serve", "--listen", "127.0.0.1:0", "--token-file", &token][..],
        &["serve", "--listen", "127.0.0.1:0", "--phone"],
        &["hub", "--hub-folder", &hub, "run", "--listen", "127.0.0.1:0"],
        &sync,
    ] {
        support::assert_refused(&as_root(service), "belongs to user 65534, but new files here would belong to user 0");
        assert!(is_empty(), "{service:?}");
    }
    let doctor = as_root(&["doctor"]);
    assert!(text(&doctor.stdout).contains("root does not make it"), "{}", text(&doctor.stdout));
    assert!(is_empty(), "something was left behind");
    // The user itself may, and root where the folder is its own.
    let learned = run(&user, &state, &["learn".to_owned(), mug.clone()]);
    assert!(learned.status.success(), "{}", text(&learned.stderr));
    support::assert_refused(&as_root(&sync), "belongs to user 65534, but new files here would belong to user 0");
    assert!(!state.join("fleet").exists());
    fs::remove_dir_all(&state).unwrap();
    chown(&device, Some(0), Some(0)).unwrap();
    let learned = as_root(&["learn", &mug]);
    assert!(learned.status.success(), "{}", text(&learned.stderr));
}

#[test]
fn who_may_not_look_is_told_so_and_as_whom_to_run() {
    let user = User::new(|folder| fast_bundle(folder).folder);
    let closed = user.folder.path().join("closed");
    let own = user.folder.path().join("own");
    fs::create_dir(&own).unwrap();
    if user.is_root {
        user.give(&own);
    }
    let (state, backup) = (closed.join("state"), own.join("backup"));
    let mug = argument("mug", &shots("learn", "mug"));
    let learned = support::orco(&user.bundle, &state, &["--engine", "rten", "learn", &mug]).output().unwrap();
    assert!(learned.status.success(), "{}", text(&learned.stderr));
    let closed_to_all = fs::Permissions::from_mode(if user.is_root { 0o700 } else { 0o000 });
    fs::set_permissions(&closed, closed_to_all).unwrap();
    let hub = ["hub", "--hub-folder", closed.join("hub").to_str().unwrap(), "list"].map(str::to_owned);
    let back_up = ["backup", backup.to_str().unwrap()].map(str::to_owned);
    let learn = ["learn", &mug].map(str::to_owned);
    for (command, knows_owner) in [(&back_up[..], true), (&["list".to_owned()], true), (&learn, true), (&hub, false)] {
        let output = run(&user, &state, command);
        let said = text(&output.stderr);
        support::assert_refused(&output, "Permission denied");
        for wrong in ["nothing was learned", "there is no hub", "chown", "until somebody chooses again"] {
            assert!(!said.contains(wrong), "{command:?}: {said}");
        }
        if user.is_root && knows_owner {
            assert!(said.contains("run this as that user (sudo -u root orco ...)"), "{command:?}: {said}");
        }
    }
    let settings = ["--config", closed.join("orco.toml").to_str().unwrap(), "list"].map(str::to_owned);
    let pictures = ["learn".to_owned(), argument("duck", &closed.join("duck"))];
    for (command, advice) in [(&settings[..], "run this as a user who may"), (&pictures, "let this user read it")] {
        support::assert_refused(&run(&user, &own.join("state"), command), advice);
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}
