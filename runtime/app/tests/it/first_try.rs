//! What somebody does who has read nothing: whole folders, pictures of all kinds, from any folder, and back again.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Device, argument, orco, shots, text, workspace};

fn labels(device: &Device) -> Vec<String> {
    device.saved().state.classes.into_iter().map(|class| class.label).collect()
}

#[test]
fn folders_name_the_classes_and_words_are_those_of_people() {
    let device = Device::new();
    let folders = ["cactus", "mug"].map(|class| shots("learn", class).display().to_string());
    let learn = |options: &[&str]| {
        let output = device.command(&["learn", &folders[0], &folders[1]]).args(options).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let said = learn(&[]);
    assert_eq!(labels(&device), ["cactus", "mug"]);
    assert!(said.contains("room for 38 more things") && said.contains("classes known before: "), "{said}");
    assert!(!said.contains("target") && !said.contains("loss ") && !said.contains("0.0 %"), "{said}");
    device.json(&["undo"]);
    let said = learn(&["--verbose"]);
    assert!(said.contains("stored samples of old classes recognised: "), "{said}");
    let nameless = device.command(&["learn", "/"]).output().unwrap();
    assert_eq!(nameless.status.code(), Some(2));
    assert!(text(&nameless.stderr).contains("expected LABEL=FOLDER or FOLDER"), "{}", text(&nameless.stderr));
    let missing = device.folder.path().join("missing").display().to_string();
    device.refused(&["learn", &missing], "cannot read the folder");
}

#[test]
fn the_session_on_the_front_page_is_what_the_program_prints() {
    let drawn = fs::read_to_string(workspace().join("examples/session.svg")).unwrap();
    let lesson = drawn.split_once("$ orco learn ").unwrap().1.split_once("class=\"caption\"").unwrap().0;
    let lines = lesson.lines().filter_map(|line| line.strip_prefix("<text x=")?.split(['<', '>']).nth(1));
    let device = Device::on(workspace().join("models/everyday"));
    let duck = argument("rubber-duck", &shots("learn", "rubber-duck"));
    let printed = text(&device.command(&["learn", &duck]).output().unwrap().stdout);
    // All but how long it took.
    let untimed = |line: &str| {
        let is_timed = line.starts_with("learned ");
        line.split(" in ").next().filter(|_| is_timed).unwrap_or(line).to_owned()
    };
    let (shown, said): (Vec<_>, Vec<_>) = (lines.map(untimed).collect(), printed.lines().map(untimed).collect());
    assert_eq!(shown, said, "tests/renderer/session.py draws it anew");
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_need_not_have_a_name_that_is_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use crate::support::copy_folder;

    let device = Device::new();
    let folder = device.folder.path().join(OsStr::from_bytes(b"Tassen-gr\xfcn"));
    copy_folder(&shots("learn", "mug"), &folder);
    let nameless = device.command(&["learn"]).arg(&folder).output().unwrap();
    assert_eq!(nameless.status.code(), Some(2));
    assert!(text(&nameless.stderr).contains("write LABEL=FOLDER"), "{}", text(&nameless.stderr));
    for (verb, class) in [("learn", "mug"), ("add", "cactus")] {
        copy_folder(&shots("learn", class), &folder);
        let named = [OsStr::new("mug="), folder.as_os_str()].join(OsStr::new(""));
        let output = device.command(&[verb]).arg(named).output().unwrap();
        assert!(output.status.success(), "{verb}: {}", text(&output.stderr));
    }
    assert_eq!(labels(&device), ["mug"]);
}

#[test]
fn a_folder_with_an_equals_sign_in_its_name_needs_a_label() {
    let device = Device::new();
    let folder = device.folder.path().join("class=mug");
    crate::support::copy_folder(&shots("learn", "mug"), &folder);
    let folder = folder.display().to_string();
    let alone = device.command(&["learn", &folder]).output().unwrap();
    assert_eq!(alone.status.code(), Some(2));
    assert!(text(&alone.stderr).contains("the folder's name holds \"=\""), "{}", text(&alone.stderr));
    device.json(&["learn", &format!("mug={folder}")]);
    assert_eq!(labels(&device), ["mug"]);
}

#[test]
fn the_folder_in_which_somebody_is_names_its_class() {
    let device = Device::new();
    let folder = device.folder.path().join("mug");
    crate::support::copy_folder(&shots("learn", "mug"), &folder);
    let output = device.command(&["learn", "."]).current_dir(&folder).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(labels(&device), ["mug"]);
}

#[test]
fn files_beside_the_folders_of_classes_and_folders_beside_pictures_are_told() {
    let device = Device::new();
    let root = device.folder.path().join("shots");
    let path = |name: &str| root.join(name).display().to_string();
    crate::support::copy_folder(&shots("learn", "mug"), &root.join("mug"));
    crate::support::copy_folder(&shots("learn", "cactus"), &root.join("mug/more"));
    for name in ["mug/@eaDir", "mug/__MACOSX", "mug/.thumbnails"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    fs::write(root.join("notes.txt"), b"notes").unwrap();
    fs::write(root.join("cups.zip"), b"PK").unwrap();
    let learned = device.command(&["learn", &path("cups.zip"), &path("mug"), &path("notes.txt")]).output().unwrap();
    let said = text(&learned.stderr);
    assert!(learned.status.success() && labels(&device) == ["mug"], "{said}");
    assert!(said.contains("cups.zip is a file, not a folder of pictures, and passed over; unpack it\n"), "{said}");
    assert!(said.contains("notes.txt is a file, not a folder of pictures, and passed over\n"), "{said}");
    assert!(said.contains("mug holds 1 folder, passed over: "), "{said}");
    for alone in [path("cups.zip"), format!("cup={}", path("cups.zip"))] {
        device.refused(&["learn", &alone], "cups.zip is a file, not a folder of pictures; unpack it");
    }
    let named = format!("cup={}", path("notes.txt"));
    device.refused(&["learn", &path("mug"), &named], "notes.txt is a file, not a folder of pictures");
    device.refused(&["add", &named], "notes.txt is a file, not a folder of pictures");
}

#[test]
fn json_lists_the_classes_that_changed_and_all_of_them_where_asked() {
    let device = Device::new();
    let (mug, duck) = (argument("mug", &shots("learn", "mug")), argument("duck", &shots("learn", "rubber-duck")));
    let report = device.json(&["learn", &mug]);
    let classes = report["classes"].as_array().unwrap();
    assert!(classes.iter().any(|class| class["label"] == "mug") && classes.len() < 60, "{}", classes.len());
    assert!(classes.iter().all(|class| class["before"] != class["after"]), "{classes:?}");
    assert_eq!(report.get("losses"), None);
    let all = device.json(&["learn", &duck, "--verbose"]);
    assert_eq!(all["classes"].as_array().unwrap().len(), 62);
    assert!(all["losses"].is_array(), "{all}");
    for number in [&all["old_accuracy"]["before"], &all["old_accuracy"]["after"], &all["seconds"]] {
        assert!(number.to_string().len() <= 9, "{number}");
    }
}

#[test]
fn undoing_walks_back_through_changes_and_redoing_forth() {
    let device = Device::new();
    for (label, class) in [("duck", "rubber-duck"), ("mug", "mug")] {
        device.json(&["learn", &argument(label, &shots("learn", class))]);
    }
    device.json(&["rename", "duck", "bird"]);
    let newest = device.saved().state;
    let known = |verb: &str| {
        let done = device.json(&[verb]);
        assert_eq!(done["exact"], true, "{done}");
        labels(&device).join(" ")
    };
    assert_eq!(["undo", "undo", "undo"].map(known), ["duck mug", "duck", ""]);
    device.refused(&["undo"], "nothing can be undone");
    assert_eq!(["redo", "redo"].map(known), ["duck", "duck mug"]);
    let history = device.json(&["history"]);
    assert_eq!((&history["present"], &history["undo"], &history["redo"]), (&json!(2), &json!([1, 0]), &json!([3])));
    assert_eq!(known("redo"), "bird mug");
    assert_eq!(device.saved().state, newest, "the same bytes");
    device.refused(&["redo"], "nothing can be redone");
    // A change after undoing begins anew: what was undone is reached by its entry alone.
    device.json(&["undo"]);
    device.json(&["rename", "mug", "beaker"]);
    device.refused(&["redo"], "nothing can be redone");
    device.json(&["undo", "--to", "3"]);
    assert_eq!(labels(&device), ["bird", "mug"]);
}

#[test]
fn of_many_classes_the_first_are_named() {
    let device = Device::new();
    let folder = device.folder.path().join("one");
    fs::create_dir(&folder).unwrap();
    fs::copy(shots("learn", "mug").join("1.jpg"), folder.join("1.jpg")).unwrap();
    let classes: Vec<String> = (1..=12).map(|number| argument(&format!("thing {number}"), &folder)).collect();
    let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
    device.json(&[&["learn", "--take-anyway"], &classes[..]].concat());
    let history = text(&device.command(&["history"]).output().unwrap().stdout);
    assert!(history.contains("thing 9, thing 10, and 2 more  (now)\n"), "{history}");
}

#[test]
fn a_head_that_was_aligned_after_redoing_comes_back_with_the_next_redo() {
    let device = Device::new();
    device.json(&["learn", &argument("mug", &shots("learn", "mug")), "--align", "never"]);
    device.json(&["undo"]);
    device.json(&["redo"]);
    assert_eq!(device.json(&["align"])["aligned"], true);
    let aligned = device.saved().state;
    assert!(aligned.head.is_some());
    device.json(&["undo"]);
    assert_eq!(device.json(&["redo"])["exact"], true);
    assert_eq!(device.saved().state, aligned, "not as it was before it was aligned");
}

#[test]
fn pictures_in_other_formats_are_read_or_named_with_what_to_do() {
    let device = Device::new();
    let folder = device.folder.path().join("thing");
    fs::create_dir(&folder).unwrap();
    let heic = b"\0\0\0\x24ftypheic\0\0\0\0mif1heic";
    fs::write(folder.join("IMG_1.HEIC"), heic).unwrap();
    fs::write(folder.join("film.mov"), b"\0\0\0\x14ftypqt  ").unwrap();
    let thing = argument("thing", &folder);
    device.refused(&["learn", &thing], "IMG_1.HEIC is passed over, since HEIC files cannot be read: save it as JPEG");
    let webp = workspace().join("runtime/src/image/samples/lossy.webp");
    fs::copy(&webp, folder.join("from a chat")).unwrap();
    let misnamed = "from a chat is passed over, since misnamed files cannot be read: rename it so that it ends in .jpg";
    device.refused(&["learn", &thing], misnamed);
    fs::copy(&webp, folder.join("1.webp")).unwrap();
    for number in 2..=4 {
        fs::copy(shots("learn", "mug").join(format!("{number}.jpg")), folder.join(format!("{number}.JPG"))).unwrap();
    }
    let report = device.json(&["learn", &thing, "--take-anyway"]);
    let warnings: Vec<&str> = report["warnings"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    for (name, said) in [("IMG_1.HEIC", "HEIC files"), ("film.mov", "single pictures"), ("from a chat", "rename it")] {
        assert!(warnings.iter().any(|warning| warning.contains(name) && warning.contains(said)), "{warnings:?}");
    }
    let listed = device.json(&["list"]);
    assert_eq!(listed["classes"].as_array().unwrap().last().unwrap()["exemplars"], 4, "the WebP file is one of them");
    // So they are among pictures for a pack, and of the empty place, whatever these are worth.
    let pack = device.folder.path().join("thing.orcopack");
    let of_pack = ["export", "thing", "-o", pack.to_str().unwrap(), "--thumbnails", folder.to_str().unwrap()];
    for arguments in [&of_pack[..], &["scene", "learn", folder.to_str().unwrap()]] {
        let said = text(&device.command(arguments).output().unwrap().stderr);
        assert!(said.contains("IMG_1.HEIC is passed over"), "{arguments:?}: {said}");
    }
    // Nothing that can be read is a failure; one of two is said, and the other answered.
    let classify = |pictures: &[&Path]| -> Output {
        let pictures: Vec<&str> = pictures.iter().map(|path| path.to_str().unwrap()).collect();
        device.command(&[&["classify"], &pictures[..]].concat()).output().unwrap()
    };
    let refused = classify(&[&folder.join("IMG_1.HEIC")]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("is a HEIC file, which cannot be read"));
    let whole = text(&classify(&[&folder]).stderr);
    assert!(whole.contains("it is a folder; name the pictures in it, as FOLDER/*"), "{whole}");
    let piped = text(&classify(&[Path::new("-")]).stderr);
    assert!(piped.contains("pictures are read from files, not from standard input"), "{piped}");
    let some = classify(&[&folder.join("IMG_1.HEIC"), &webp]);
    assert!(!some.status.success() && text(&some.stdout).contains("lossy.webp: "), "{}", text(&some.stdout));
}

/// The program in a folder of its own, with folders for data that hold what the test puts there.
fn elsewhere(root: &Path, arguments: &[&str]) -> Command {
    let program = root.join("bin/orco");
    if !program.exists() {
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_orco"), &program).unwrap();
    }
    let usual = orco(Path::new("unused"), Path::new("unused"), &[]);
    let mut command = Command::new(program);
    command.args(arguments).arg("--state").arg(root.join("state")).current_dir(root);
    for (name, value) in usual.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("HOME", root.join("home")).env("XDG_DATA_HOME", root.join("data"));
    command.env("XDG_DATA_DIRS", root.join("system"));
    command
}

#[cfg(unix)]
#[test]
fn the_bundle_is_found_from_any_folder_and_where_it_was_looked_for_is_said() {
    let root = TempDir::new().unwrap();
    let run = |arguments: &[&str]| elsewhere(root.path(), arguments).output().unwrap();
    let missing = run(&["list"]);
    let said = text(&missing.stderr);
    assert!(
        !missing.status.success() && said.contains("no bundle was found; looked for in models/everyday, "),
        "{said}"
    );
    for place in ["bin/models", "share/orco/models", "data/orco/models", "system/orco/models", "ORCO_BUNDLE"] {
        assert!(said.contains(place), "{place}: {said}");
    }
    let bundle = |run: Output| -> Value {
        assert!(run.status.success(), "{}", text(&run.stderr));
        serde_json::from_slice::<Value>(&run.stdout).unwrap()["bundle"].clone()
    };
    let models = root.path().join("system/orco/models");
    fs::create_dir_all(&models).unwrap();
    for name in ["everyday", "cifar100-edge"] {
        std::os::unix::fs::symlink(workspace().join("models").join(name), models.join(name)).unwrap();
    }
    assert_eq!(bundle(run(&["info", "--json", "-"])), "everyday");
    assert_eq!(bundle(run(&["info", "--bundle", "cifar100-edge", "--json", "-"])), "cifar100-edge");
    let by_variable = elsewhere(root.path(), &["info", "--json", "-"]).env("ORCO_BUNDLE", "cifar100-edge").output();
    assert_eq!(bundle(by_variable.unwrap()), "cifar100-edge");
    let wrong = run(&["list", "--bundle", "/nowhere/garden"]);
    assert!(text(&wrong.stderr).contains("/nowhere/garden"), "{}", text(&wrong.stderr));
}
