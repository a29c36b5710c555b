//! Kept shots: they follow the state, and a new bundle learns from them what the old one knew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use orco_runtime::bundle::Bundle;
use orco_runtime::image_rs::{Rgb, RgbImage};
use orco_runtime::state::history::ChangeKind;
use serde_json::Value;

use crate::support::service::Service;
use crate::support::{self, Device, argument, assert_refused, copy_folder, shots, text, workspace};

/// Kept pictures with what is in them, by the name of their file, in all folders of them.
fn pictures(device: &Device) -> BTreeMap<PathBuf, Vec<u8>> {
    let folders = fs::read_dir(device.state()).into_iter().flatten().map(|entry| entry.unwrap().path());
    let kept = folders.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("kept-"));
    let files = kept.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    let pictures = files.filter(|path| path.extension().is_some_and(|ending| ending == "png"));
    pictures.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// The only folder of kept pictures.
fn kept(device: &Device) -> PathBuf {
    let mut folders: Vec<PathBuf> = pictures(device).keys().map(|path| path.parent().unwrap().to_owned()).collect();
    folders.dedup();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders.remove(0)
}

/// Learns a class from the sample pictures of `shown` and keeps them.
fn learn_and_keep(device: &Device, label: &str, shown: &str) {
    device.json(&["learn", "--keep-shots", &argument(label, &shots("learn", shown))]);
}

fn accuracy(device: &Device, label: &str, shown: &str) -> usize {
    let pictures: Vec<String> = (1..=3)
        .map(|index| shots("try", shown).join(format!("{index}.jpg")))
        .filter(|path| path.exists())
        .map(|path| path.display().to_string())
        .collect();
    let arguments: Vec<&str> = std::iter::once("classify").chain(pictures.iter().map(String::as_str)).collect();
    let answers = device.json(&arguments);
    answers["images"].as_array().unwrap().iter().filter(|image| image["matches"][0]["label"] == label).count()
}

#[test]
fn the_page_shows_kept_pictures_of_shots_that_no_service_took() {
    let device = Device::new();
    learn_and_keep(&device, "mug", "mug");
    let serve = |more: &[&str]| {
        let arguments = [&["--engine", "rten", "serve", "--listen", "127.0.0.1:0"][..], more].concat();
        Service::of(device.command(&arguments))
    };
    let stored = |service: &Service| {
        let classes = service.json("GET", "/api/v1/classes", &Value::Null);
        let mug = classes["classes"].as_array().unwrap().iter().find(|class| class["label"] == "mug").unwrap();
        mug["stored"].as_array().unwrap().clone()
    };
    let service = serve(&[]);
    let shown = stored(&service);
    assert_eq!(shown.len(), 5);
    for shot in shown {
        assert_eq!(shot["thumbnail"], true, "{shot}");
        let place = format!("/api/v1/classes/mug/shots/{}.jpg", shot["id"].as_str().unwrap());
        let (status, picture) = service.ask("GET", &place, "", b"");
        assert!(status == 200 && picture.starts_with(b"\xff\xd8"), "{status}");
    }
    let picture = fs::read(shots("learn", "mug").join("1.jpg")).unwrap();
    let (_, answer) = service.ask("POST", "/api/v1/classify?why=true", "image/jpeg", &picture);
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let why = answer["why"].as_array().unwrap();
    assert!(why.iter().any(|like| like["label"] == "mug" && like["thumbnail"].is_string()), "{answer}");
    drop(service);
    let service = serve(&["--no-thumbnails"]);
    assert!(stored(&service).iter().all(|shot| shot["thumbnail"] == false), "nobody wants small pictures");
}

#[test]
fn pictures_follow_the_state() {
    let device = Device::new();
    device.learn(&[("cactus", &shots("learn", "cactus"))]);
    assert!(pictures(&device).is_empty(), "nobody asked for it");
    learn_and_keep(&device, "mug", "mug");
    let mug = pictures(&device);
    assert_eq!(mug.len(), 5);
    let info = device.json(&["info"]);
    assert_eq!((&info["kept_shots"], &info["kept_pictures"]), (&5.into(), &5.into()));
    assert_eq!(info["kept_bytes"], mug.values().map(Vec::len).sum::<usize>());
    let each = info["kept_bytes_each"].as_u64().unwrap();
    assert!(mug.values().all(|bytes| bytes.len() as u64 <= each));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert!(mug.keys().all(|path| mode(path) == 0o600));
        assert_eq!(mode(&kept(&device)), 0o700);
    }
    device.json(&["rename", "mug", "beaker"]);
    device.json(&["forget", "beaker"]);
    assert_eq!(pictures(&device), mug, "undoing may bring it back");
    device.json(&["undo"]);
    let added =
        device.command(&["add", &argument("beaker", &shots("try", "mug"))]).env("ORCO_KEEP_SHOTS", "1").output();
    assert!(added.unwrap().status.success());
    let more = pictures(&device);
    assert!(more.len() > mug.len());
    device.json(&["undo"]);
    // A picture that belongs to no shot goes with the next change, what is not ours stays.
    let stray = kept(&device).join(format!("{}.png", "0".repeat(64)));
    let foreign = kept(&device).join("holiday.txt");
    [&stray, &foreign].into_iter().for_each(|path| fs::write(path, b"x").unwrap());
    assert_eq!(device.json(&["info"])["kept_bytes"], more.values().map(Vec::len).sum::<usize>(), "it counts the stray");
    device.json(&["forget", "beaker", "--purge"]);
    assert!(pictures(&device).is_empty(), "purged, and still there");
    assert!(!stray.exists() && foreign.exists());
    learn_and_keep(&device, "mug", "mug");
    device.json(&["--history", "0", "forget", "mug"]);
    assert!(pictures(&device).is_empty(), "nothing can bring them back");
}

#[test]
fn a_refused_change_keeps_no_picture() {
    let device = Device::new();
    learn_and_keep(&device, "mug", "mug");
    let before = pictures(&device);
    let folder = device.folder.path().join("shots");
    copy_folder(&shots("learn", "cactus"), &folder);
    fs::write(folder.join("z.jpg"), b"no picture").unwrap();
    let output = device.command(&["learn", "--keep-shots", &argument("cactus", &folder)]).output().unwrap();
    assert_refused(&output, "z.jpg is neither");
    assert_eq!(pictures(&device), before);
    // The same pictures under another label share the files, and a refused change must not take them.
    let two = [argument("tea", &shots("learn", "mug")), argument("broken", &folder)];
    let output = device.command(&["learn", "--keep-shots", &two[0], &two[1]]).output().unwrap();
    assert_refused(&output, "z.jpg is neither");
    assert_eq!(pictures(&device), before);
}

#[test]
fn a_new_bundle_learns_everything_again_and_the_old_state_comes_back() {
    let mut device = Device::with_earlier_bundle();
    let two = [argument("mug", &shots("learn", "mug")), argument("duck", &shots("learn", "rubber-duck"))];
    device.json(&["learn", "--keep-shots", &two[0], &two[1]]);
    learn_and_keep(&device, "apple", "toy-brick");
    device.json(&["add", "--keep-shots", &argument("umbrella", &shots("learn", "cactus"))]);
    device.json(&["balance", "favour-new"]);
    let entries = device.json(&["history"])["entries"].clone();
    assert_eq!(entries.as_array().unwrap().last().unwrap()["change"], "set the balance to favour-new");
    let (before, kept_before) = (device.saved(), pictures(&device));
    device.refused_keeping(&["upgrade"], "belongs to this bundle, earlier, already");
    let bundles = [device.bundle.clone(), support::shipped()];
    device.bundle.clone_from(&bundles[1]);
    device.refused_keeping(&["list"], "`orco upgrade` learns its classes again on this bundle");

    let upgraded = device.json(&["upgrade", "--seed", "1"]);
    let classes = upgraded["upgraded"].as_array().unwrap();
    let labels: Vec<&str> = classes.iter().map(|class| class["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["mug", "duck", "apple", "umbrella"]);
    assert!(classes.iter().all(|class| class["pictures"] == 5 && class["shots"] == 5));
    assert_eq!(classes[0]["merged"], false);
    assert!(classes[0]["before"].is_number() && classes[0]["after"].is_number());
    assert_eq!((&classes[2]["merged"], &upgraded["from"]), (&true.into(), &"earlier".into()));
    let warned = upgraded["warnings"].as_array().unwrap();
    assert!(warned.iter().any(|said| said.as_str().unwrap().contains("no answer names apple")), "{warned:?}");
    let after = device.saved();
    let known: Vec<(&str, u32)> = after.state.classes.iter().map(|class| (&class.label[..], class.session)).collect();
    assert_eq!(known, [("mug", 1), ("duck", 1), ("umbrella", 2)]);
    assert_eq!(after.state.exemplars.len(), 20);
    assert_eq!(after.state.balance, before.state.balance);
    assert_eq!(after.history.entries().len(), 1);
    assert_eq!(after.history.entries()[0].kind, ChangeKind::Upgrade);
    assert_eq!(device.json(&["info"])["kept_shots"], 20);
    assert!(accuracy(&device, "duck", "rubber-duck") > 0);
    device.refused_keeping(&["undo"], "`orco upgrade --undo`");
    // The new pictures are the old ones, bit for bit.
    let bytes = |pictures: &BTreeMap<PathBuf, Vec<u8>>, times: usize| {
        let mut all: Vec<Vec<u8>> = pictures.values().flat_map(|bytes| vec![bytes.clone(); times]).collect();
        all.sort();
        all
    };
    assert_eq!(bytes(&pictures(&device), 1), bytes(&kept_before, 2));

    // Back to the bit, and forth again.
    device.refused_keeping(&["upgrade", "--undo"], "belongs to this bundle, cifar100-edge, already");
    device.bundle.clone_from(&bundles[0]);
    device.json(&["upgrade", "--undo"]);
    assert_eq!(device.saved(), before);
    device.json(&["undo"]);
    device.json(&["redo"]);
    device.bundle.clone_from(&bundles[1]);
    device.json(&["upgrade", "--undo"]);
    assert_eq!(device.saved(), after);
    // A change goes on from there, and what was kept aside goes when that is wanted, or when a class is purged.
    device.json(&["rename", "mug", "beaker"]);
    device.json(&["forget", "beaker", "--purge"]);
    assert_eq!(pictures(&device).len(), 15);
    assert!(!text(&all_bytes(&device.state())).contains("beaker"));
    device.bundle.clone_from(&bundles[0]);
    device.refused_keeping(&["upgrade", "--undo"], "no state of this bundle, earlier, was kept aside");
    let refused = text(&device.command(&["upgrade", "--undo"]).output().unwrap().stderr);
    assert!(refused.trim_end().ends_with("nothing was changed"), "no bundle's state can be brought back: {refused}");
}

/// All that the files below a folder hold.
fn all_bytes(folder: &Path) -> Vec<u8> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { all_bytes(&path) } else { fs::read(path).unwrap() }).collect()
}

#[test]
fn without_pictures_the_refusal_says_what_to_do() {
    let mut device = Device::with_earlier_bundle();
    device.learn(&[("mug", &shots("learn", "mug"))]);
    device.learn(&[("apple", &shots("learn", "toy-brick"))]);
    device.bundle = support::shipped();
    device.refused(&["list"], "--keep-shots keeps them next time");
    device.refused(&["upgrade"], "no pictures of the shots were kept");
    // The new bundle brings the other one itself.
    assert_eq!(device.json(&["upgrade", "--give-up-unkept"])["dropped"], serde_json::json!(["mug"]));
}

#[test]
fn whoever_upgrades_with_fewer_than_three_classes_is_told_what_answers_name() {
    let mut device = Device::with_earlier_bundle();
    let [mug, cactus, dumbbell] = ["mug", "cactus", "dumbbell"].map(|class| argument(class, &shots("learn", class)));
    device.json(&["learn", "--align", "never", &mug, &cactus, &dumbbell]);
    device.bundle = support::shipped();
    let upgraded = device.command(&["upgrade", "--give-up-unkept"]).output().unwrap();
    assert!(upgraded.status.success(), "{}", text(&upgraded.stderr));
    let said = text(&upgraded.stdout);
    assert!(said.contains("given up, since no picture of them was kept: mug, cactus, dumbbell"), "{said}");
    let base = Bundle::open(&device.bundle).unwrap().base_model.classes.len();
    let told = format!("from now on answers name the {base} classes that came with the bundle, too");
    assert!(said.contains(&told), "{said}");
}

#[test]
fn a_class_that_the_new_bundle_brings_needs_no_pictures() {
    let mut device = Device::with_earlier_bundle();
    learn_and_keep(&device, "mug", "mug");
    device.learn(&[("apple", &shots("learn", "toy-brick"))]);
    device.bundle = support::shipped();
    let upgraded = device.json(&["upgrade", "--seed", "1"]);
    assert_eq!(upgraded["dropped"], serde_json::json!([]));
    let warnings = upgraded["warnings"].as_array().unwrap();
    assert!(warnings[0].as_str().unwrap().contains("of 5 of the 5 shots of \"apple\""), "{warnings:?}");
    let known: Vec<String> = device.saved().state.classes.into_iter().map(|class| class.label).collect();
    assert_eq!(known, ["mug"]);
}

#[test]
fn what_is_missing_or_damaged_is_a_warning_and_never_a_lost_state() {
    let mut device = Device::with_earlier_bundle();
    learn_and_keep(&device, "mug", "mug");
    device.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    let names: Vec<PathBuf> = pictures(&device).into_keys().collect();
    let bytes = fs::read(&names[0]).unwrap();
    fs::write(&names[0], &bytes[..bytes.len() / 2]).unwrap();
    fs::remove_file(&names[1]).unwrap();
    let before = device.saved();
    let bundle = std::mem::replace(&mut device.bundle, support::shipped());
    device.refused_keeping(&["upgrade"], "no picture is kept, or none can be used, of the shots of \"duck\"");
    let upgraded = device.json(&["upgrade", "--force"]);
    let warnings = upgraded["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].as_str().unwrap().contains("a shot of \"mug\", is damaged"), "{warnings:?}");
    assert!(warnings[1].as_str().unwrap().contains("of 1 of the 5 shots of \"mug\""), "{warnings:?}");
    assert_eq!(upgraded["dropped"], serde_json::json!(["duck"]));
    assert_eq!(upgraded["upgraded"][0]["pictures"], 3);
    assert_eq!(device.saved().state.exemplars.len(), 3);
    device.bundle = bundle;
    device.json(&["upgrade", "--undo"]);
    assert_eq!(device.saved(), before);
}

#[test]
fn a_state_that_was_kept_aside_without_pictures_is_discarded() {
    let mut device = Device::with_earlier_bundle();
    device.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    device.json(&["forget", "duck"]);
    device.bundle = support::shipped();
    device.json(&["upgrade"]);
    let aside = || {
        let folders = fs::read_dir(device.state()).unwrap().map(|entry| entry.unwrap().path());
        folders.filter(|folder| folder.join("state").exists()).count()
    };
    assert_eq!(aside(), 1);
    // As the service keeps it of a shot.
    let small = device.state().join(format!("thumbnails/{}.jpg", "5".repeat(64)));
    fs::create_dir(small.parent().unwrap()).unwrap();
    fs::write(&small, b"small").unwrap();
    assert_eq!(device.json(&["upgrade", "--discard-old"])["discarded"], true);
    assert_eq!(aside(), 0);
    assert!(!small.exists(), "a small picture is left");
    assert_eq!(device.json(&["upgrade", "--discard-old"])["discarded"], false);
}

#[test]
fn a_bundle_that_recognises_clearly_worse_is_refused() {
    let mut device = Device::with_earlier_bundle();
    for class in ["mug", "cactus", "rubber-duck"] {
        learn_and_keep(&device, class, class);
    }
    // Noise in the place of what was learned: nobody can tell these classes apart.
    let mut random = orco_core::random::Random::new(5, "noise");
    for path in pictures(&device).into_keys() {
        let noise = RgbImage::from_fn(224, 224, |_, _| Rgb([0; 3].map(|_: u8| (256.0 * random.unit()) as u8)));
        noise.save(path).unwrap();
    }
    let before = device.saved();
    let bundle = std::mem::replace(&mut device.bundle, support::shipped());
    device.refused_keeping(&["upgrade"], "the new bundle would recognise clearly worse");
    assert_eq!(pictures(&device).len(), 15, "pictures of a refused upgrade are left");
    device.json(&["upgrade", "--force"]);
    device.json(&["upgrade", "--discard-old"]);
    assert_eq!(pictures(&device).len(), 15);
    device.bundle = bundle;
    device.refused_keeping(&["upgrade", "--undo"], "no state of this bundle");
    assert_eq!(before.state.classes.len(), 3);
}

#[test]
fn a_backup_moves_everything_to_another_device() {
    let device = Device::new();
    let file = device.folder.path().join("door.orcobackup");
    let file = file.to_str().unwrap();
    device.refused(&["backup", file], "nothing was learned");
    learn_and_keep(&device, "jug", "mug");
    device.json(&["rename", "jug", "mug"]);
    let written = device.json(&["backup", file]);
    assert_eq!((&written["pictures"], &written["learned_classes"]), (&5.into(), &1.into()));
    assert_eq!(written["bytes"], fs::metadata(file).unwrap().len());
    device.refused_keeping(&["backup", file], "there is a file of that name");
    device.json(&["backup", file, "--force"]);
    let nowhere = "cannot write /nowhere/x.orcobackup: No such file or directory (os error 2)";
    device.refused_keeping(&["backup", "/nowhere/x.orcobackup"], nowhere);
    let bundle = Bundle::open(&device.bundle).unwrap();
    assert_eq!(written["digest"].as_str().unwrap(), orco_runtime::manifest::hexadecimal(&bundle.digest));

    let other = Device::new();
    let restored = other.json(&["restore", file]);
    assert_eq!(restored["bundle"], "cifar100-edge");
    assert_eq!(other.saved(), device.saved());
    let names = |device: &Device| -> BTreeMap<String, Vec<u8>> {
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        pictures(device).into_iter().map(|(path, bytes)| (name(path), bytes)).collect()
    };
    assert_eq!(names(&other), names(&device));
    other.json(&["undo"]);
    other.json(&["forget", "jug", "--purge"]);
    other.learn(&[("cactus", &shots("learn", "cactus"))]);
    other.refused_keeping(&["restore", file], "knows something already");
    other.json(&["restore", file, "--force"]);
    assert_eq!(other.saved(), device.saved());
    assert_eq!(names(&other), names(&device));

    // Another backbone, for pictures of another size.
    let third = Device::on(workspace().join("models/everyday"));
    third.refused(&["restore", file], "it belongs to release");
    assert!(!third.state().exists(), "what was refused left a folder");
    third.json(&["restore", file, "--other-bundle"]);
    third.json(&["upgrade"]);
    assert_eq!(third.saved().state.classes[0].label, "mug");
    let damaged = device.folder.path().join("damaged");
    let bytes = fs::read(file).unwrap();
    for index in [0, 9, 12, 30, 60, 600, bytes.len() / 2, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        fs::write(&damaged, changed).unwrap();
        Device::new().refused(&["restore", damaged.to_str().unwrap()], "it is no backup that can be restored");
    }
}
