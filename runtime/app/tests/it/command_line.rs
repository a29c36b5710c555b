//! The program as its users meet it: real bundle, real pictures, real files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use orco_runtime::bundle::Bundle;
use orco_state::pack::UnverifiedPack;
use orco_state::state::State;
use serde_json::{Value, json};

use crate::support::{self, Device, argument, assert_refused, copy_all, shots, text, workspace};

#[test]
fn a_learned_class_survives_a_restart() {
    let device = Device::new();
    let before = device.json(&["info"]);
    let report = device
        .learn(&[("rubber-duck", &shots("learn", "rubber-duck")), ("traffic-cone", &shots("learn", "traffic-cone"))]);
    // Each shot is left out of its class in turn, so this is what other pictures will show, not what was stored.
    assert!(report["new_accuracy"].as_f64().unwrap() >= 0.8, "{report}");
    assert!(report["expected"]["learned"].as_f64().unwrap() >= 0.8, "{report}");
    assert!(report["old_accuracy"]["after"].as_f64().unwrap() > 0.85, "{report}");
    let after = device.json(&["info"]);
    assert_eq!(after["sessions"], 1, "several classes in one call are one session");
    assert_eq!(after["learned_classes"], 2);
    assert_eq!(after["free_targets"].as_u64().unwrap() + 2, before["free_targets"].as_u64().unwrap());
    let listed = device.json(&["list"]);
    let last = listed["classes"].as_array().unwrap().last().unwrap();
    assert_eq!((last["label"].as_str(), last["exemplars"].as_u64()), (Some("traffic-cone"), Some(5)));
    let mut right = 0;
    for class in ["rubber-duck", "traffic-cone"] {
        for picture in fs::read_dir(shots("try", class)).unwrap() {
            let path = picture.unwrap().path();
            let found = device.json(&["classify", path.to_str().unwrap()]);
            right += usize::from(found["images"][0]["matches"][0]["label"] == class);
        }
    }
    assert!(right >= 12, "only {right} of 16 other pictures were recognised");
    let second = device.learn(&[("cactus", &shots("learn", "cactus"))]);
    assert!(second["classes"].as_array().unwrap().iter().any(|class| class["label"] == "rubber-duck"));
    assert_eq!(device.json(&["info"])["sessions"], 2);
}

#[test]
fn what_was_learned_can_be_added_to_renamed_and_forgotten() {
    let device = Device::new();
    let fresh = device.json(&["list"]);
    device.learn(&[("duck", &shots("learn", "rubber-duck")), ("cone", &shots("learn", "traffic-cone"))]);
    device.json(&["add", &argument("duck", &shots("try", "rubber-duck"))]);
    device.json(&["rename", "duck", "rubber duck"]);
    let listed = device.json(&["list"]);
    let classes = listed["classes"].as_array().unwrap();
    let duck = classes.iter().find(|class| class["label"] == "rubber duck").unwrap();
    assert_eq!(duck["exemplars"], 13);
    for taken in ["cone", "apple"] {
        let refused = device.command(&["rename", "rubber duck", taken]).output().unwrap();
        assert_refused(&refused, &format!("\"{taken}\" exists already"));
        assert!(!text(&refused.stderr).contains("shots"), "whoever renames has none: {}", text(&refused.stderr));
    }
    device.refused(&["rename", "rubber duck", "cone"], "\"cone\" exists already");
    device.refused(&["rename", "nobody", "x"], "no class has the label \"nobody\"");
    device.refused(&["forget", "apple"], "\"apple\" came with the bundle");
    device.refused(&["add", &argument("mug", &shots("learn", "mug"))], "no class has the label \"mug\"");
    device.json(&["forget", "rubber duck"]);
    device.json(&["forget", "cone"]);
    assert_eq!(fresh, device.json(&["list"]));
}

#[test]
fn a_balance_that_is_set_again_changes_nothing() {
    let device = Device::new();
    assert_eq!(device.json(&["balance", "keep-base"])["changed"], true);
    let before = device.state_bytes();
    assert_eq!(device.json(&["balance", "keep-base"]), json!({ "balance": "keep-base", "changed": false }));
    let said = text(&device.command(&["balance", "keep-base"]).output().unwrap().stdout);
    assert_eq!(said, "nothing to do: the balance is keep-base already\n");
    assert_eq!(before, device.state_bytes());
}

#[test]
fn a_relative_folder_for_states_is_ignored() {
    let device = Device::new();
    let home = device.folder.path();
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco"));
    command.arg("--bundle").arg(&device.bundle).args(["balance", "keep-base"]).current_dir(home);
    command.env_remove("ORCO_STATE").env("HOME", home).env("XDG_STATE_HOME", "relative");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(home.join(".local/state/orco").is_dir() && !home.join("relative").exists());
}

#[test]
fn a_session_beyond_the_forgetting_budget_is_refused_and_changes_nothing() {
    let mut trial = orco_trials::trial!(12, "sessions");
    let device = Device::new();
    let (duck, cone) =
        (argument("duck", &shots("learn", "rubber-duck")), argument("cone", &shots("learn", "traffic-cone")));
    device.json(&["learn", &duck]);
    let before = device.state_bytes();
    device.refused(
        &["learn", &cone, "--forgetting-budget", "0"],
        "more than the forgetting budget of 0 percentage points",
    );
    assert_eq!(before, device.state_bytes());
    trial.count(1);
    // A budget below the weight of one sample of a class allows what a session usually costs.
    let report = device.json(&["learn", &cone, "--forgetting-budget", "5", "--verbose"]);
    let number = |of: &Value, name: &str| of[name].as_f64().unwrap_or(f64::NAN);
    let lost = |since: &Value| number(since, "first") - number(since, "now");
    let classes = report["classes"].as_array().unwrap();
    assert!(classes.iter().any(|class| lost(&class["since"]) > 0.05), "no class lost a sample");
    let base = &report["forgetting"]["base"];
    assert!(number(base, "samples") >= 100.0 && lost(base) <= 0.05, "{base}");
    trial.count(1);
}

#[test]
fn the_forgetting_budget_holds_over_all_sessions_and_undoing_gives_it_back() {
    let mut trial = orco_trials::trial!(12, "sessions");
    let device = Device::new();
    let base = |report: &Value| -> Vec<(f64, f64, f64, f64)> {
        let number = |class: &Value, name: &str| class[name].as_f64().unwrap_or(f64::NAN);
        let classes = report["classes"].as_array().unwrap().iter().take(60);
        let since = |class: &Value| ["first", "now"].map(|name| number(&class["since"], name));
        let shares = |class: &Value| ["before", "after"].map(|name| number(class, name));
        classes
            .map(|class| (since(class), shares(class)))
            .map(|([first, now], [before, after])| (first, now, before, after))
            .collect()
    };
    let total = |report: &Value| base(report).iter().map(|(first, now, ..)| first - now).fold(0.0, f64::max);
    let mut totals = Vec::new();
    let lessons =
        ["rubber-duck", "traffic-cone", "dumbbell", "mug"].map(|class| argument(class, &shots("learn", class)));
    let mut first = Vec::new();
    for lesson in &lessons[..3] {
        let report = device.json(&["learn", lesson, "--verbose"]);
        totals.push(total(&report));
        trial.count(1);
        let at_first: Vec<f64> = base(&report).iter().map(|(first, ..)| *first).collect();
        if first.is_empty() {
            assert!(base(&report).iter().all(|(first, now, before, after)| (first, now) == (before, after)));
            first = at_first.clone();
        }
        assert_eq!(first, at_first, "what the bundle's head recognises does not change");
    }
    // What three sessions cost counts against the fourth, whatever that one costs by itself.
    let spent = totals[2];
    assert!(spent > 0.0, "the sessions cost nothing: {totals:?}");
    let before = device.state_bytes();
    device.refused(&["learn", &lessons[3], "--forgetting-budget", "0"], "over all sessions since the bundle");
    assert_eq!(before, device.state_bytes());
    let report = device.json(&["learn", &lessons[3], "--verbose"]);
    let learned = report["classes"][60].as_object().unwrap();
    assert!(learned["since"]["first"].as_f64().unwrap() > 0.5, "{learned:?}");
    // Going back takes the losses back as well.
    let undone = device.json(&["undo", "3"]);
    assert_eq!(total(&undone), totals[0]);
    let again = device.json(&["learn", &lessons[1]]);
    assert_eq!(total(&again), totals[1]);
    assert!(device.saved().state.first_recognitions.iter().all(|origin| origin.shots == 5));
}

#[test]
fn hidden_files_are_no_shots() {
    let device = Device::new();
    let folder = device.folder.path().join("duck");
    fs::create_dir(&folder).unwrap();
    for shot in fs::read_dir(shots("learn", "rubber-duck")).unwrap().map(|entry| entry.unwrap().path()) {
        fs::copy(&shot, folder.join(shot.file_name().unwrap())).unwrap();
    }
    for hidden in ["._1.jpg", ".DS_Store", "Thumbs.db", ".2.png"] {
        fs::write(folder.join(hidden), b"no picture").unwrap();
    }
    device.json(&["learn", &argument("duck", &folder)]);
    device.json(&["add", &argument("duck", &folder)]);
    assert_eq!(device.saved().state.exemplars.len(), 10);
    let pack = device.export("duck", &["--thumbnails", folder.to_str().unwrap()]);
    assert_eq!(UnverifiedPack::read(&fs::read(pack).unwrap()).unwrap().content().unwrap().thumbnails.len(), 5);
    let only = device.folder.path().join("hidden");
    fs::create_dir(&only).unwrap();
    fs::write(only.join("._1.jpg"), b"no picture").unwrap();
    device.refused(&["learn", &argument("cone", &only)], "holds no pictures");
}

#[test]
fn too_many_shots_are_refused_before_any_is_read() {
    let device = Device::new();
    let folder = device.folder.path().join("many");
    fs::create_dir(&folder).unwrap();
    // No pictures at all: looking at the first would be another error.
    (0..1001).for_each(|number| fs::write(folder.join(format!("{number}.jpg")), b"").unwrap());
    let sentence = "the class \"mug\" would have 1001 shots, but a class may have at most 1000";
    device.refused(&["learn", &argument("mug", &folder)], sentence);
    fs::remove_file(folder.join("1000.jpg")).unwrap();
    device.refused(&["learn", &argument("mug", &folder)], "0.jpg is empty; ");
    device.json(&["learn", &argument("mug", &shots("learn", "mug"))]);
    device.refused(&["add", &argument("mug", &folder)], "would have 1005 shots");
    device.refused(&["add", &argument("nobody", &folder)], "no class has the label \"nobody\"");
}

#[test]
fn labels_are_compared_in_one_normal_form() {
    let device = Device::new();
    let folder = shots("learn", "mug");
    device.json(&["learn", &argument("cafe\u{301}", &folder)]);
    assert_eq!(device.saved().state.classes[0].label, "caf\u{e9}");
    device.refused(&["learn", &argument("caf\u{e9}", &folder)], "exists already");
    device.json(&["add", &argument("cafe\u{301}", &folder)]);
    device.json(&["rename", "cafe\u{301}", "A\u{30a}rhus"]);
    let pack = device.export("A\u{30a}rhus", &[]);
    device.refused(&["import", pack.to_str().unwrap()], "exists already");
    device.refused(&["import", pack.to_str().unwrap(), "--as", "mug\u{200b}"], "characters that cannot be seen");
    device.json(&["import", pack.to_str().unwrap(), "--as", "u\u{308}ber"]);
    for label in ["mug\u{200b}", "\u{feff}mug", "mu\u{202e}g", "mug\u{1b}[31m", "mu\u{ad}g"] {
        device.refused(&["learn", &argument(label, &folder)], "cannot be used");
        device.refused(&["rename", "\u{c5}rhus", label], "cannot be used");
    }
    device.json(&["forget", "A\u{30a}rhus", "--purge"]);
    device.json(&["forget", "u\u{308}ber"]);
    assert!(device.saved().state.classes.is_empty());
}

#[test]
fn the_same_shots_give_the_same_bytes_in_any_order() {
    let mut trial = orco_trials::trial!(28, "states compared");
    let (one, two) = (Device::new(), Device::new());
    one.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    let renamed = two.folder.path().join("reversed");
    fs::create_dir(&renamed).unwrap();
    for number in 1..=5 {
        let from = shots("learn", "rubber-duck").join(format!("{number}.jpg"));
        fs::copy(from, renamed.join(format!("{}.jpg", 9 - number))).unwrap();
    }
    two.learn(&[("duck", &renamed)]);
    let state = one.saved().state;
    assert_eq!(state.classes.len(), 1);
    assert_eq!(state, two.saved().state);
    trial.count(1);
}

#[test]
fn bad_shots_are_refused_and_the_state_is_unchanged() {
    let device = Device::new();
    device.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    let folder = |name: &str| {
        let path = device.folder.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let empty = folder("empty");
    fs::write(empty.join("notes.txt"), "no picture").unwrap();
    device.refused(&["learn", &argument("x", &empty)], "holds no pictures");
    fs::create_dir(empty.join("mug")).unwrap();
    device.refused(&["learn", &argument("x", &empty)], "WebP), but 1 folder: give each by itself, as FOLDER/*");
    device.refused(&["learn", &argument("x", &empty.join("missing"))], "cannot read the folder");
    let broken = folder("broken");
    fs::copy(shots("learn", "mug").join("1.jpg"), broken.join("1.jpg")).unwrap();
    fs::write(broken.join("2.jpg"), "this is no picture").unwrap();
    device.refused(&["learn", &argument("x", &broken)], "2.jpg is neither a JPEG nor a PNG nor a WebP picture");
    let bytes = fs::read(shots("learn", "mug").join("2.jpg")).unwrap();
    fs::write(broken.join("2.jpg"), &bytes[..200]).unwrap();
    device.refused(&["learn", &argument("x", &broken)], "2.jpg is damaged");
    // All of a session are named, with the reason of each.
    let (other, pieces) = (folder("other"), broken.join("3.jpg"));
    fs::write(other.join("9.png"), "no picture").unwrap();
    fs::write(&pieces, &bytes[..300]).unwrap();
    let session = ["learn", &argument("x", &broken), &argument("y", &shots("learn", "mug")), &argument("z", &other)];
    let said = text(&device.command(&session).output().unwrap().stderr);
    let place = |name: &str| said.find(name).unwrap_or_else(|| panic!("{name} is not in: {said}"));
    assert!(place("2.jpg is damaged") < place("3.jpg is damaged"), "{said}");
    assert!(
        place("3.jpg is damaged") < place("9.png is neither a JPEG nor a PNG nor a WebP picture; nothing"),
        "{said}"
    );
    for number in 4..30 {
        fs::copy(&pieces, broken.join(format!("{number}.jpg"))).unwrap();
    }
    device.refused(&["learn", &argument("x", &broken)], "; and 18 more; nothing was changed");
    device.refused(&["learn", &argument("duck", &shots("learn", "mug"))], "\"duck\" exists already");
    let mug = shots("learn", "mug");
    device.refused(&["learn", &argument("apple", &mug)], "\"apple\" exists already");
    device.refused(&["learn", &argument("x", &mug), &argument("x", &mug)], "\"x\" is given twice");
    let one = folder("one");
    fs::copy(mug.join("1.jpg"), one.join("1.jpg")).unwrap();
    let free = device.json(&["info"])["free_targets"].as_u64().unwrap();
    let many: Vec<String> = (0..=free).map(|number| argument(&format!("class {number}"), &one)).collect();
    let arguments: Vec<&str> = std::iter::once("learn").chain(many.iter().map(String::as_str)).collect();
    device.refused(&arguments, &format!("only {free} are left; nothing was changed: learn fewer at once"));
    let damaged = broken.join("2.jpg");
    let output = device.command(&["classify", damaged.to_str().unwrap(), "/dev/zero"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("2.jpg is damaged") && said.contains("/dev/zero cannot be read: it is not a regular"),
        "{said}"
    );
    assert!(said.contains("2 of 2 pictures could not be classified"), "{said}");
    device.refused(
        &["learn", &argument("x", &mug), "--json", "/nowhere/report.json"],
        "cannot write /nowhere/report.json",
    );
    let usage = device.command(&["learn", "=no-label"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2), "{}", text(&usage.stderr));
}

#[test]
fn bad_bundles_are_refused() {
    let device = Device::with_own_bundle();
    let change = |name: &str, by: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        let path = device.bundle.join(name);
        let good = fs::read(&path).unwrap();
        fs::write(&path, by(good.clone())).unwrap();
        (path, good)
    };
    let restore = |(path, good): (PathBuf, Vec<u8>)| fs::write(path, good).unwrap();
    let other_version = change("manifest.toml", &|bytes| text(&bytes).replace("format = 1", "format = 7").into_bytes());
    device.refused(&["info"], "has format 7, but this program reads formats up to 2");
    restore(other_version);
    for name in ["learner.postcard", "backbone.onnx"] {
        let flipped = change(name, &|mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            bytes
        });
        device.refused(&["list"], &format!("{name} is damaged"));
        restore(flipped);
    }
    let cut = change("benchmark.postcard", &|bytes| bytes[..1000].to_vec());
    device.refused(&["demo"], "benchmark.postcard is damaged");
    restore(cut);
    // As in a package: the manifest lists it.
    let (path, whole) = change("benchmark.postcard", &|bytes| bytes);
    fs::remove_file(&path).unwrap();
    device.refused(&["demo"], "the demonstration needs a bundle with its benchmark");
    restore((path, whole));
    let no_toml = change("manifest.toml", &|_| b"format = = 1".to_vec());
    device.refused(&["info"], "is no valid manifest");
    restore(no_toml);
    device.json(&["info"]);
    fs::remove_file(device.bundle.join("learner.postcard")).unwrap();
    device.refused(&["info"], "cannot read");
    let nowhere = Device::on("/nowhere".into());
    nowhere.refused(&["info"], "is its folder an OrCo bundle?");
}

#[test]
fn a_damaged_slot_is_left_out_and_two_are_refused() {
    let device = Device::with_own_bundle();
    device.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    device.json(&["rename", "duck", "rubber duck"]);
    // What was learned went to both slots, its aligned head to the first, the new name to the second.
    let [newest, older] = ["slot-b", "slot-a"].map(|slot| device.state().join(slot));
    let good = fs::read(&newest).unwrap();
    let damage = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 4;
        fs::write(path, &bytes).unwrap();
        bytes
    };
    let damaged = damage(&newest);
    let output = device.command(&["list"]).output().unwrap();
    let (listed, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && listed.contains("duck") && !listed.contains("rubber duck"), "{listed}{said}");
    assert!(said.contains("slot-b is left out: its checksum does not match"), "{said}");
    assert_eq!(fs::read(&newest).unwrap(), damaged, "looking changed it");
    device.json(&["rename", "duck", "yellow duck"]);
    assert_eq!(fs::read(device.state().join("slot-b.bad-0")).unwrap(), damaged, "the damaged one is kept");
    assert_eq!(device.saved().state.classes[0].label, "yellow duck");
    damage(&newest);
    damage(&older);
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let both = [&newest, &older].map(|slot| format!("{}: its checksum does not match", path(slot)));
    both.iter().for_each(|copy| device.refused(&["list"], copy));
    device.refused(&["learn", &argument("mug", &shots("learn", "mug"))], "move slot-a* and slot-b* away");
    fs::write(&newest, &good).unwrap();
    assert_eq!(device.json(&["info"])["learned_classes"], 1);
}

#[test]
#[cfg(unix)]
fn a_state_that_cannot_have_a_folder_is_told_in_one_sentence() {
    let mug = argument("mug", &shots("learn", "mug"));
    let learn = |place: &str| support::orco(&support::shipped(), Path::new(place), &["learn", &mug]).output().unwrap();
    assert_refused(&learn("/dev/null/state"), "/dev/null is no folder; name the folder of the device's state");
    if Path::new("/proc/self").is_dir() {
        let refused = learn("/proc/state");
        assert_refused(&refused, "cannot make the folder /proc/state for the state: ");
        assert_refused(&refused, "nothing was changed: name a folder that this user can write, with --state DIR");
    }
}

#[test]
fn a_path_that_no_shell_expanded_is_refused() {
    let device = Device::new();
    for option in ["--state=~", "--state=~/state", "--json=~/report.json", "--public-key=~/key.pub"] {
        let refused = device.command(&["info", option]).output().unwrap();
        let place = option.split_once('=').unwrap().1;
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(&format!("no shell expanded ~ in {place}: give the whole path")), "{said}");
    }
    let typed = device.command(&["info", "--engine=x@y"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&typed.stderr).contains("x@y"), "it may be a password");
}

#[test]
fn a_backup_and_a_pack_go_into_files_and_not_into_one_called_like_standard_output() {
    let device = Device::new();
    device.learn(&[("mug", &shots("learn", "mug"))]);
    for arguments in [&["backup", "-"][..], &["export", "mug", "-o", "-"]] {
        device.refused(arguments, "cannot write -: standard output is for --json alone");
    }
}

#[test]
fn what_was_done_is_listed_and_can_be_taken_back() {
    let device = Device::new();
    let fresh = device.saved().state;
    device.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    let learned = device.saved().state;
    device.json(&["rename", "duck", "bird"]);
    device.json(&["forget", "bird"]);
    let entries = device.json(&["history"]);
    let told: Vec<&str> =
        entries["entries"].as_array().unwrap().iter().map(|entry| entry["change"].as_str().unwrap()).collect();
    assert_eq!(told, ["started", "learned duck", "renamed duck to bird", "forgot bird"]);
    assert!(entries["entries"][1]["seconds_since_1970"].as_u64().unwrap() > 1_700_000_000);
    let lines = |device: &Device, more: &[&str]| {
        let printed = device.command(&[&["history"], more].concat()).output().unwrap();
        let lines = text(&printed.stdout).lines().map(str::trim_start).map(str::to_owned).collect::<Vec<_>>();
        lines.into_iter().filter(|line| line.starts_with(|first: char| first.is_ascii_digit())).collect::<Vec<_>>()
    };
    let back = device.json(&["undo", "2"]);
    let shown = lines(&device, &[]);
    let ends = ["started", "learned duck  (now)", "renamed duck to bird  (undone)", "forgot bird  (undone)"];
    assert!(shown.iter().zip(ends).all(|(line, end)| line.ends_with(end)), "{shown:?}");
    // Undoing has no line of its own, but for those who ask for all, and below, where changes are counted.
    assert_eq!((shown.len(), lines(&device, &["--verbose"]).len()), (5, 6), "{shown:?}");
    assert_eq!((&back["exact"], &back["entry"]), (&Value::Bool(true), &Value::from(1)));
    assert_eq!(device.saved().state, learned, "undoing restores the bits");
    device.json(&["redo", "2"]);
    assert_eq!(device.saved().state, State { exemplars: device.saved().state.exemplars, sessions: 1, ..fresh.clone() });
    device.json(&["undo", "--to", "0"]);
    assert_eq!(device.saved().state, fresh);
    device.json(&["undo", "--to", "1"]);
    assert_eq!(device.saved().state, learned);
    device.refused(&["undo", "--to", "1"], "entry 1 is the present state");
    device.refused(&["undo", "99"], "only 1 change can be undone, not 99");
    device.refused(&["redo", "3"], "only 2 changes can be redone, not 3");
    device.refused(&["undo", "--to", "99"], "there is no entry 99");
    device.refused(&["undo", "--to", "7"], "entry 7 is the present state");
    device.json(&["rename", "duck", "bird", "--history", "1"]);
    assert_eq!(device.json(&["history"])["entries"].as_array().unwrap().len(), 2, "the oldest go first");
}

#[test]
fn a_purged_class_leaves_no_byte() {
    let mut trial = orco_trials::trial!(13, "stored views searched for");
    let device = Device::with_own_bundle();
    let secret = "a face nobody may know";
    device.learn(&[("duck", &shots("learn", "rubber-duck")), (secret, &shots("learn", "mug"))]);
    device.json(&["add", &argument(secret, &shots("try", "mug"))]);
    let state = device.saved().state;
    let class = (state.known_classes(&Bundle::open(&device.bundle).unwrap().base_model).count() - 1) as u32;
    // The stored numbers of every exemplar of the class, the first 64 bytes of each view.
    let view = state.exemplars.as_exemplars();
    let needles: Vec<Vec<u8>> = (0..view.len())
        .filter(|exemplar| view.classes[*exemplar] == class)
        .flat_map(|exemplar| (0..view.views).map(move |row| exemplar * view.views + row))
        .map(|row| view.values[row * view.inputs..][..64].to_vec())
        .collect();
    assert_eq!(needles.len(), 13 * view.views);
    let found = || -> Vec<String> {
        let mut found = Vec::new();
        for path in support::files_below(&device.state()) {
            let bytes = fs::read(&path).unwrap();
            let contains = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
            if contains(secret.as_bytes()) || needles.iter().any(|needle| contains(needle)) {
                found.push(path.strip_prefix(device.state()).unwrap().to_str().unwrap().to_owned());
            }
        }
        found.sort();
        found
    };
    // Copies in both slots, in the history, in a damaged slot that was set aside, and in a file that a killed save
    // left.
    let slot = device.state().join("slot-a");
    let mut bytes = fs::read(&slot).unwrap();
    bytes[95] ^= 1;
    fs::write(&slot, &bytes).unwrap();
    device.json(&["forget", secret]);
    fs::write(device.state().join(".slot-b.new-0123456789abcdef-0"), &bytes).unwrap();
    device.json(&["rename", "duck", "bird"]);
    // What the device shared, a pack that was fetched, and what a killed round left.
    let fleet = device.state().join("fleet");
    fs::create_dir_all(fleet.join("objects")).unwrap();
    let digest = "0".repeat(64);
    let shared = json!({ "label": secret, "content": digest, "pack": digest, "pictures": false });
    let progress = json!({ "learned": [], "pushed": [shared], "refused": [], "outcomes": [] });
    fs::write(fleet.join("progress.json"), progress.to_string()).unwrap();
    fs::write(fleet.join("objects").join(&digest), &needles[0]).unwrap();
    fs::write(fleet.join(".orco-0123456789abcdef"), progress.to_string()).unwrap();
    let in_fleet = ["fleet/.orco-0123456789abcdef".to_owned(), format!("fleet/objects/{digest}")];
    let in_fleet = in_fleet.iter().map(String::as_str).chain(["fleet/progress.json"]);
    assert_eq!(found(), in_fleet.chain(["slot-a", "slot-a.bad-0", "slot-b"]).collect::<Vec<_>>());
    device.refused(&["forget", "duck", "--purge"], "\"duck\" is called \"bird\" now");
    device.refused(&["forget", "nobody", "--purge"], "no class has or had the label \"nobody\"");
    device.refused(&["forget", "apple", "--purge"], "\"apple\" came with the bundle");
    device.json(&["forget", secret, "--purge"]);
    assert_eq!(found(), [""; 0]);
    trial.count(needles.len());
    // The power went before the fleet's files were written.
    fs::write(fleet.join("progress.json"), progress.to_string()).unwrap();
    device.json(&["forget", secret, "--purge"]);
    assert_eq!(found(), [""; 0]);
    device.refused(&["forget", secret, "--purge"], "no class has or had the label");
    let entries = device.json(&["history"]).to_string();
    assert!(entries.contains("(purged)") && !entries.contains(secret), "{entries}");
    // What is left of the past still comes back, without the class.
    device.json(&["undo", "--to", "1"]);
    let labels: Vec<String> = device.saved().state.classes.into_iter().map(|class| class.label).collect();
    assert_eq!(labels, ["duck"]);
    // A class that is known is forgotten and purged in one go.
    device.json(&["forget", "duck", "--purge"]);
    assert!(device.saved().state.classes.is_empty());
    device.refused(&["undo", "--to", "1"], "there is no entry 1");
}

#[test]
fn a_purge_that_was_cut_off_can_be_finished() {
    let mut trial = orco_trials::trial!(13, "slots");
    let device = Device::new();
    let secret = "a face nobody may know";
    device.learn(&[("duck", &shots("learn", "rubber-duck")), (secret, &shots("learn", "mug"))]);
    let newest = device.state().join("slot-b");
    let before = fs::read(&newest).unwrap();
    device.json(&["forget", secret, "--purge"]);
    // The power went between the two slots: the one written second is still that of before.
    fs::write(&newest, &before).unwrap();
    device.json(&["forget", secret, "--purge"]);
    for slot in ["slot-a", "slot-b"] {
        let bytes = fs::read(device.state().join(slot)).unwrap();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{slot}");
        trial.count(1);
    }
    device.refused(&["forget", secret, "--purge"], "no class has or had the label");
    assert_eq!(device.saved().state.classes.len(), 1);
}

#[test]
fn a_lost_state_is_no_fresh_one() {
    let device = Device::new();
    device.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    let [a, b] = ["slot-a", "slot-b"].map(|slot| device.state().join(slot));
    fs::rename(&a, device.state().join("slot-a.bad-0")).unwrap();
    fs::write(&b, b"rotten").unwrap();
    device.refused(&["list"], "slot-b: it is not a file of this kind");
    // Moved away by hand, as is advised, or by a restore that the power cut: the device starts anew, and says so.
    fs::rename(&b, device.state().join("slot-b.bad-1")).unwrap();
    let output = device.command(&["list"]).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("both copies of the state in"), "{said}");
    fs::rename(device.state().join("slot-b.bad-1"), &b).unwrap();
    // Without any sign of an earlier copy it may be a first save that was cut off; that is said.
    fs::remove_file(device.state().join("slot-a.bad-0")).unwrap();
    let said = text(&device.command(&["list"]).output().unwrap().stderr);
    assert!(said.contains("there is no other copy, so the device knows what the bundle knows"), "{said}");
}

#[test]
fn a_missing_copy_is_said_and_written_anew() {
    let device = Device::new();
    device.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    device.json(&["rename", "duck", "rubber duck"]);
    // The newer one: what was said to be renamed is not.
    fs::remove_file(device.state().join("slot-b")).unwrap();
    let output = device.command(&["list"]).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("slot-b is missing: the other copy is used"), "{said}");
    device.json(&["rename", "duck", "yellow duck"]);
    let output = device.command(&["list"]).output().unwrap();
    assert_eq!((text(&output.stderr), device.state().join("slot-b").exists()), (String::new(), true));
}

#[test]
fn state_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let device = Device::new();
    device.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    for slot in ["slot-a", "slot-b"] {
        let mode = fs::metadata(device.state().join(slot)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{slot}");
    }
    assert_eq!(fs::metadata(device.state()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn the_demonstration_learns_from_the_sample_pictures_and_says_what_it_is_sure_of() {
    let device = Device::on(workspace().join("models/everyday"));
    let samples = workspace().join("examples/shots");
    let result = device.json(&["demo", "--shots", samples.to_str().unwrap()]);
    assert_eq!(result["sessions"].as_array().unwrap().len(), 2);
    let [right, sure, total] = ["right", "sure", "total"].map(|count| result["pictures"][count].as_u64().unwrap());
    assert!(total == 48 && right >= 44 && (36..=total).contains(&sure), "{}", result["pictures"]);
    assert!(result["seconds"].as_f64().unwrap() > 0.0, "{}", result["seconds"]);
    // It is there to be gone on with, and nothing that a device knows is touched.
    assert_eq!(device.saved().state.classes.len(), 6);
    device.refused(&["demo", "--shots", samples.to_str().unwrap()], "knows something already");
    let own = Device::on(workspace().join("models/everyday"));
    let nothing = own.folder.path().join("nothing");
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco"));
    command.args(["demo", "--shots", nothing.to_str().unwrap(), "--bundle", own.bundle.to_str().unwrap()]);
    command.env("ORCO_STATE", device.state());
    command.env("ORCO_CONFIG", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/nothing.toml"));
    assert_refused(&command.output().unwrap(), "name their folder with --shots");
}

#[test]
fn a_demonstration_that_fails_late_says_that_the_state_was_changed() {
    let device = Device::with_short_benchmark();
    let samples = device.folder.path().join("samples");
    copy_all(&shots("learn", "mug"), &samples.join("learn/mug"));
    fs::create_dir_all(samples.join("try/mug")).unwrap();
    fs::write(samples.join("try/mug/1.jpg"), b"\xff\xd8 no more").unwrap();
    let demo = ["demo", "--shots", samples.to_str().unwrap(), "--json", "-"];
    let output = device.command(&demo).output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &result["changed"]), (Some(3), &true.into()), "{}", text(&output.stderr));
    assert_eq!(device.saved().state.classes.len(), 1);

    // Without a state of the user's, nothing of theirs is changed.
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco"));
    command.args(demo).arg("--bundle").arg(&device.bundle);
    command.env("ORCO_CONFIG", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/nothing.toml"));
    let output = command.output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &result["changed"]), (Some(1), &false.into()), "{}", text(&output.stderr));
}

#[test]
fn a_demonstration_says_what_answers_name_and_knows_labels_in_any_form() {
    let device = Device::with_short_benchmark();
    let samples = device.folder.path().join("samples");
    // An accent of its own, as some systems name folders.
    for (class, label) in [("traffic-cone", "co\u{302}ne"), ("mug", "mug"), ("cactus", "cactus")] {
        for part in ["learn", "try"] {
            copy_all(&shots(part, class), &samples.join(part).join(label));
        }
    }
    let output = device.command(&["demo", "--shots", samples.to_str().unwrap()]).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(said.contains("on other pictures; answers name 3 of 63 classes:"), "{said}");
    let row = said.lines().find(|line| line.starts_with("co\u{302}ne ")).unwrap_or_else(|| panic!("{said}"));
    assert!(!row.contains(" 0 of 8 "), "{said}");
}

#[cfg(feature = "serve")]
#[test]
fn a_camera_that_is_none_is_refused_without_its_password() {
    let device = Device::new();
    for wrong in ["htp://me:secret@door/1", "me:secret@door", "rtsp://me:sec\nret@door/1"] {
        for output in [
            device.command(&["serve", "--camera", wrong]).output().unwrap(),
            device.command(&["serve"]).env("ORCO_CAMERA", wrong).output().unwrap(),
        ] {
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains("is no camera") && !said.contains("sec") && !said.contains("ret@"), "{said}");
        }
    }
}

#[test]
fn without_options_the_bundle_for_real_cameras_is_taken() {
    let device = Device::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco"));
    command
        .args(["info", "--json", "-"])
        .current_dir(workspace())
        .env_remove("ORCO_BUNDLE")
        .env("ORCO_STATE", device.state());
    let output = command.output().unwrap();
    let facts: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(facts["bundle"].as_str(), Some("everyday"), "{}", text(&output.stderr));
}

/// The bundle with its own float backbone listed as the int8 one too: what matters here is which file is opened.
fn with_int8() -> Device {
    let device = Device::with_own_bundle();
    fs::copy(device.bundle.join("backbone.onnx"), device.bundle.join("backbone-int8.onnx")).unwrap();
    let manifest = device.bundle.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let line = text.lines().find(|line| line.starts_with("\"backbone.onnx\"")).unwrap();
    let listed = format!("{line}\n{}", line.replace("backbone.onnx", "backbone-int8.onnx"));
    fs::write(&manifest, text.replace(line, &listed)).unwrap();
    device
}

#[test]
fn the_int8_backbone_is_taken_where_the_bundle_has_one() {
    let picture = shots("try", "rubber-duck").join("1.jpg");
    let classify = ["classify", picture.to_str().unwrap(), "--backbone", "int8"];
    Device::new().refused(&classify, "carries no backbone-int8.onnx; take its float backbone");
    let device = with_int8();
    let info = device.json(&["info", "--backbone", "int8"]);
    assert_eq!((info["backbone_kind"].as_str(), info["weights"].as_str()), (Some("int8"), Some("f32")));
    assert_eq!(device.json(&classify)["images"], device.json(&classify[..2])["images"], "the same file twice");
    fs::write(device.bundle.join("backbone-int8.onnx"), b"damaged").unwrap();
    device.refused(&classify, "backbone-int8.onnx is damaged");
    device.json(&classify[..2]);
}
