//! What comes from files reaches a terminal without what it would obey, and JSON as it is.

use std::fs;
use std::time::Duration;

use orco_runtime::bundle::Bundle;
use orco_runtime::store::Store;
use orco_state::history::{ChangeKind, HistoryChange, HistoryLimits};
use orco_state::state::Class;

use crate::support::{self, Device, shots, text};

/// Clears the screen, turns the direction, begins a line of its own, and has no width.
const EVIL: &str = "mug\u{1b}[2J\u{9b}31m\u{202e}gum\nfake: line\u{200b}";

/// Whether a terminal shows what it gets, and does nothing else.
fn is_harmless(printed: &str) -> bool {
    printed.chars().all(|c| c == '\n' || !(c.is_control() || "\u{202e}\u{200b}".contains(c)))
}

/// A device whose state, written by other means, has such a label.
fn device() -> Device {
    let device = Device::new();
    let bundle = Bundle::open(&device.bundle).unwrap();
    device.learn(&[("mug", &shots("learn", "mug"))]);
    let saved = device.saved();
    let mut next = saved.state.clone();
    next.classes[0] = Class { label: EVIL.into(), ..next.classes[0].clone() };
    let saved = saved.successor(
        next,
        &HistoryChange::new(ChangeKind::Rename, 1).labels(["mug", EVIL]),
        HistoryLimits::default(),
    );
    let store = Store::new(device.state());
    let locked = store.lock(Duration::ZERO).unwrap();
    locked.load(&bundle).unwrap();
    locked.save(&bundle, &saved).unwrap();
    drop(locked);
    device
}

#[test]
fn labels_from_a_state_are_written_out_on_terminals_and_true_in_json() {
    let device = device();
    let picture = shots("learn", "mug").join("1.jpg");
    for arguments in [&["list"][..], &["history"], &["classify", picture.to_str().unwrap()], &["undo"]] {
        let said = device.command(arguments).output().unwrap();
        assert!(said.status.success(), "{arguments:?}: {}", text(&said.stderr));
        let printed = text(&said.stdout) + text(&said.stderr).as_str();
        assert!(is_harmless(&printed), "{arguments:?}: {printed:?}");
        assert!(!printed.lines().any(|line| line.starts_with("fake: line")), "{arguments:?}: {printed:?}");
        if arguments[0] != "undo" {
            assert!(printed.contains("mug\\u{1b}[2J"), "{arguments:?}: {printed:?}");
        }
    }
    let device = self::device();
    let listed = device.json(&["list"]);
    assert_eq!(listed["classes"].as_array().unwrap().last().unwrap()["label"], EVIL);
    let forgotten = device.command(&["forget", "no\u{1b}[2Jbody"]).output().unwrap();
    assert!(!forgotten.status.success() && is_harmless(&text(&forgotten.stderr)), "{forgotten:?}");
}

#[test]
fn names_of_files_are_written_out_in_errors() {
    let device = Device::new();
    let folder = device.folder.path().join("dir\u{1b}]0;title\u{7}");
    fs::create_dir(&folder).unwrap();
    let picture = folder.join("broken\u{202e}.jpg");
    fs::write(&picture, b"nothing").unwrap();
    let path = picture.to_str().unwrap();
    for arguments in [
        &["classify", path][..],
        &["import", path],
        &["learn", &support::argument("mug", &folder)],
        &["list", "--json", picture.join("x").to_str().unwrap()],
    ] {
        let said = device.command(arguments).output().unwrap();
        assert!(!said.status.success(), "{arguments:?}");
        let printed = text(&said.stderr);
        assert!(is_harmless(&printed) && printed.contains("\\u{1b}]0;title\\u{7}"), "{arguments:?}: {printed:?}");
    }
    let said = Device::on(folder).command(&["info"]).output().unwrap();
    let printed = text(&said.stderr);
    assert!(is_harmless(&printed) && printed.contains("\\u{1b}]0;title\\u{7}"), "{printed:?}");
}

#[test]
fn a_line_break_in_the_name_of_a_picture_begins_no_line() {
    let device = Device::new();
    let picture = device.folder.path().join("a\nb.jpg");
    fs::copy(shots("learn", "mug").join("1.jpg"), &picture).unwrap();
    for region in [&["--top", "3"][..], &["--region", "left=0,0,0.5,1"]] {
        let said = device.command(&[&["classify", picture.to_str().unwrap()], region].concat()).output().unwrap();
        let printed = text(&said.stdout);
        assert!(printed.lines().count() == 1 && printed.contains("/a\\u{a}b.jpg"), "{printed:?}");
    }
    let found = device.json(&["classify", picture.to_str().unwrap()]);
    assert_eq!(found["images"][0]["image"], picture.to_str().unwrap());
}
