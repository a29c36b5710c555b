//! Packs: classes that one device writes and others learn from.

use std::fs;
use std::path::Path;

use orco_runtime::manifest::{LABELS, LEARNER};
use orco_state::codec::{self, FileKind};
use orco_state::pack::{self, UnverifiedPack};
use orco_state::state::BaseModel;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::changed_bundle::replace;
use crate::support::{self, Device, argument, copied_bundle, key, shots};

/// Ten classes from the sample pictures: six from those for learning, four more from the others.
fn ten() -> Vec<(String, std::path::PathBuf)> {
    let classes = ["rubber-duck", "traffic-cone", "dumbbell", "mug", "toy-brick", "cactus"];
    let learn = classes.iter().map(|class| ((*class).to_owned(), shots("learn", class)));
    let more = classes[..4].iter().map(|class| (format!("other {class}"), shots("try", class)));
    learn.chain(more).collect()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn importing_ten_packs_equals_learning_the_ten_classes_in_one_session() {
    let classes = ten();
    let classes: Vec<(&str, &Path)> =
        classes.iter().map(|(label, folder)| (label.as_str(), folder.as_path())).collect();
    let together = Device::new();
    together.learn(&classes);
    // The classes come from two devices, one of which learned them in more than one session.
    let (first, second) = (Device::new(), Device::new());
    first.learn(&classes[..7]);
    classes[7..].iter().for_each(|class| drop(second.learn(std::slice::from_ref(class))));
    let packs: Vec<_> = (0..10).map(|n| (if n < 7 { &first } else { &second }).export(classes[n].0, &[])).collect();
    let importer = Device::new();
    let arguments: Vec<&str> = std::iter::once("import").chain(packs.iter().map(|pack| path(pack))).collect();
    let report = importer.json(&arguments);
    assert_eq!(report["classes"].as_array().unwrap().iter().filter(|class| class["before"].is_null()).count(), 10);
    assert_eq!(importer.json(&["list"]), together.json(&["list"]));
    for (label, _) in classes {
        let packs = [&importer, &together].map(|device| fs::read(device.export(label, &[])).unwrap());
        assert!(packs[0] == packs[1], "the exemplars of {label} differ");
    }
    // The head is the same, too: all scores of all pictures, to the last digit.
    let tried = ["rubber-duck", "traffic-cone", "dumbbell", "mug", "toy-brick", "cactus"];
    let pictures = tried.iter().flat_map(|class| fs::read_dir(shots("try", class)).unwrap());
    let pictures: Vec<String> = pictures.map(|entry| path(&entry.unwrap().path()).to_owned()).collect();
    let arguments: Vec<&str> = std::iter::once("classify").chain(pictures.iter().map(String::as_str)).collect();
    assert_eq!(importer.json(&arguments), together.json(&arguments));
}

#[test]
fn packs_can_be_imported_one_by_one_and_are_recognised() {
    let teacher = Device::new();
    teacher.learn(&[("duck", &shots("learn", "rubber-duck")), ("cone", &shots("learn", "traffic-cone"))]);
    let (duck, cone) =
        (teacher.export("duck", &["--device", "door 3", "--created", "a Tuesday"]), teacher.export("cone", &[]));
    let pupil = Device::new();
    let said = pupil.command(&["import", path(&duck)]).output().unwrap();
    assert!(said.status.success(), "{}", support::text(&said.stderr));
    let said = support::text(&said.stdout);
    assert!(said.starts_with("imported duck (5 shots, from door 3, a Tuesday) in "), "{said}");
    pupil.json(&["import", path(&cone)]);
    assert_eq!(pupil.json(&["info"])["sessions"], 2);
    let mut right = 0;
    for (label, class) in [("duck", "rubber-duck"), ("cone", "traffic-cone")] {
        for picture in fs::read_dir(shots("try", class)).unwrap() {
            let found = pupil.json(&["classify", path(&picture.unwrap().path())]);
            right += usize::from(found["images"][0]["matches"][0]["label"] == label);
        }
    }
    assert!(right >= 12, "only {right} of 16 pictures were recognised");
    // What was imported travels on.
    let third = Device::new();
    third.json(&["import", path(&pupil.export("duck", &[]))]);
    assert_eq!(third.json(&["info"])["learned_classes"], 1);
}

#[test]
fn what_cannot_be_exported_is_refused() {
    let device = Device::new();
    device.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    let out = device.folder.path().join("x.orcopack");
    device.refused(&["export", "apple", "-o", path(&out)], "\"apple\" came with the bundle");
    device.refused(&["export", "nobody", "-o", path(&out)], "no class has the label \"nobody\"");
    device.refused(
        &["export", "duck", "-o", "/nowhere/x.orcopack"],
        "cannot write /nowhere/x.orcopack: nothing can be written into the folder /nowhere: No such file",
    );
    device.refused(&["export", "duck", "-o", path(&out), "--device", "a\nb"], "no control characters");
    device.refused(&["export", "duck", "-o", path(&out), "--sign", "/nowhere/key"], "cannot read the key /nowhere/key");
    assert!(!out.exists());
    let left: Vec<_> = fs::read_dir(device.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["state"], "something was left behind");
}

#[test]
fn what_is_written_does_not_go_where_the_result_goes() {
    let device = Device::new();
    device.learn(&[("mug", &shots("learn", "mug"))]);
    let result = device.folder.path().join("x.json");
    let named = path(&result);
    for arguments in [&["export", "mug", "--force", "-o", named][..], &["backup", "--force", named]] {
        let arguments = [arguments, &["--json", named]].concat();
        device.refused(&arguments, "--json names that file, too");
        let said: Value = serde_json::from_slice(&fs::read(&result).unwrap()).unwrap();
        assert_eq!(said["changed"], false, "{said}");
    }
}

#[test]
fn what_cannot_be_imported_is_refused_and_changes_nothing() {
    let teacher = Device::new();
    teacher.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    let pack = teacher.export("duck", &[]);
    let good = fs::read(&pack).unwrap();
    teacher.refused(
        &["import", path(&pack)],
        "the label \"duck\" exists already; import this pack alone under another one with --as",
    );
    teacher.json(&["import", path(&pack), "--as", "second duck"]);
    let pupil = Device::new();
    pupil.refused(&["import", path(&pack), path(&pack)], "has the label \"duck\", too; import one of the two alone");
    pupil.refused(&["import", path(&pack), path(&pack), "--as", "x"], "--as gives one label, but there are 2 packs");
    pupil.refused(&["import", path(&pack), "--as", "apple"], "the label \"apple\" exists already");
    pupil.refused(
        &["import", path(&pack), "--as", "a\nb"],
        "starts or ends with white space, or holds \"=\", control characters",
    );
    pupil.refused(&["import", "/nowhere/x.orcopack"], "/nowhere/x.orcopack cannot be imported: it cannot be read");
    let file = |name: &str, bytes: &[u8]| {
        let path = pupil.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    pupil.refused(
        &["import", path(&file("flipped", &flipped))],
        "flipped cannot be imported: its checksum does not match",
    );
    // A good pack beside a damaged one is not learned either.
    pupil.refused(&["import", path(&pack), path(&file("cut", &good[..good.len() - 7]))], "its checksum does not match");
    pupil.refused(&["import", path(&file("empty", b""))], "cannot be imported: it is not a file of this kind");
    let picture = shots("learn", "mug").join("1.jpg");
    pupil.refused(&["import", path(&picture)], "cannot be imported: it is not a file of this kind");
    let newer = codec::seal(FileKind::Pack, 7, &[codec::open(FileKind::Pack, &good).unwrap().1]);
    let sentence = "it has format version 7, but this program reads versions up to 1";
    pupil.refused(&["import", path(&file("newer", &newer))], sentence);
    let mut liar = UnverifiedPack::read(&good).unwrap().content().unwrap();
    liar.thumbnails.push(pack::Thumbnail(b"no picture".to_vec()));
    let liar = file("liar", &pack::seal(&liar.to_be_signed(), ""));
    pupil.refused(&["import", path(&liar)], "thumbnail 1 is no JPEG picture");
    for (format, side, expected) in [
        (image::ImageFormat::Jpeg, 97, "thumbnail 1 has 97 x 1 pixels; a side may have at most 96"),
        (image::ImageFormat::Png, 9, "thumbnail 1 is no JPEG picture"),
    ] {
        let mut bytes = std::io::Cursor::new(Vec::new());
        image::RgbImage::new(side, 1).write_to(&mut bytes, format).unwrap();
        let mut liar = UnverifiedPack::read(&good).unwrap().content().unwrap();
        liar.thumbnails.push(pack::Thumbnail(bytes.into_inner()));
        let liar = file("liar", &pack::seal(&liar.to_be_signed(), ""));
        pupil.refused(&["import", path(&liar)], expected);
    }
    // One rule for labels, whatever the verb.
    let (long, refusal) = ("x".repeat(1025), "cannot be used: it is empty, \".\" or \"..\", longer than 1024 bytes");
    for label in ["a=b", "\u{202e}cba", "a\u{200f}", "a\u{2066}b", "a\tb", " ", &long] {
        pupil.refused(&["import", path(&pack), "--as", label], refusal);
        teacher.refused(&["rename", "duck", label], refusal);
    }
    teacher.json(&["rename", "duck", " goose "]);
    teacher.json(&["rename", "goose", "duck"]);
    pupil.json(&["import", path(&pack)]);
}

#[test]
fn a_pack_of_another_bundle_is_refused() {
    let folder = TempDir::new().unwrap();
    let other = copied_bundle(folder.path());
    let learner = fs::read(other.join(LEARNER)).unwrap();
    let mut base_model: BaseModel = codec::decode(FileKind::Learner, &learner).unwrap();
    base_model.targets.truncate(base_model.targets.len() - base_model.dimension);
    replace(&other, LEARNER, &codec::encode(FileKind::Learner, &base_model));
    let teacher = Device::on(other);
    teacher.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    let pack = teacher.export("duck", &[]);
    Device::new().refused(
        &["import", path(&pack)],
        "it was made with another bundle, or another export, called \"cifar100-edge\"",
    );
}

#[test]
fn a_bundle_whose_labels_cannot_be_seen_as_they_are_is_refused() {
    for (first, sentence) in [
        (["apple\u{200b}", "x"], "its label apple\\u{200b} holds characters that cannot be seen"),
        (["\u{1b}[31mapple", "x"], "its label \\u{1b}[31mapple holds"),
        (["caf\u{e9}", "cafe\u{301}"], "or is there twice"),
    ] {
        let folder = TempDir::new().unwrap();
        let other = copied_bundle(folder.path());
        let learner = fs::read(other.join(LEARNER)).unwrap();
        let mut base_model: BaseModel = codec::decode(FileKind::Learner, &learner).unwrap();
        base_model.classes.iter_mut().zip(first).for_each(|(class, label)| class.label = label.into());
        let listed: String = base_model.classes.iter().map(|class| class.label.clone() + "\n").collect();
        replace(&other, LEARNER, &codec::encode(FileKind::Learner, &base_model));
        replace(&other, LABELS, listed.as_bytes());
        Device::on(other).refused(&["list"], sentence);
    }
}

#[test]
fn a_pack_of_very_many_shots_is_refused_before_any_work() {
    let teacher = Device::new();
    teacher.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    let pack = teacher.export("duck", &[]);
    let mut content = UnverifiedPack::read(&fs::read(&pack).unwrap()).unwrap().content().unwrap();
    while content.exemplars.len() <= 20_000 {
        let all = content.exemplars.clone();
        content.exemplars.append(0, &all);
    }
    fs::write(&pack, pack::seal(&content.to_be_signed(), "")).unwrap();
    let pupil = Device::new();
    pupil.refused(&["import", path(&pack)], "shots, but a class may have at most 1000");
    assert!(pupil.state_files().is_empty());
    content.exemplars = content.exemplars.only(&(0..1001).collect::<Vec<_>>());
    fs::write(&pack, pack::seal(&content.to_be_signed(), "")).unwrap();
    pupil.refused(&["import", path(&pack)], "it holds 1001 shots");
    content.label = "duck\u{200b}".into();
    content.exemplars = content.exemplars.only(&[0, 1]);
    fs::write(&pack, pack::seal(&content.to_be_signed(), "")).unwrap();
    pupil.refused(&["import", path(&pack), "--as", "duck"], "holds characters that cannot be seen");
}

#[test]
fn with_a_public_key_only_packs_signed_with_its_secret_key_are_imported() {
    let folder = TempDir::new().unwrap();
    let (ours, theirs) = (key(folder.path(), "ours"), key(folder.path(), "theirs"));
    let bundle = copied_bundle(folder.path());
    support::sign(&bundle, &ours.key);
    let teacher = Device::new();
    teacher.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    let pack = |key: &support::Key| fs::read(teacher.export("duck", &["--sign", path(&key.secret)])).unwrap();
    let (signed, by_another_key) = (pack(&ours), pack(&theirs));
    let unsigned = fs::read(teacher.export("duck", &[])).unwrap();
    let mut pupil = Device::on(bundle);
    pupil.options = vec!["--public-key".into(), path(&ours.public).into()];
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    pupil.refused(&["import", path(&file("unsigned", &unsigned))], "it is not signed, but a public key is configured");
    pupil.refused(
        &["import", path(&file("by_another_key", &by_another_key))],
        "it is signed with another key than the configured one",
    );
    // The signature of one content on another, the checksum made right.
    let sealed = UnverifiedPack::read(&signed).unwrap();
    let mut altered = sealed.content().unwrap();
    altered.label = "swan".into();
    let altered = pack::seal(&altered.to_be_signed(), sealed.signature().unwrap());
    pupil.refused(&["import", path(&file("altered", &altered))], "it was altered after signing");
    let garbled = pack::seal(sealed.signed(), "no signature");
    pupil.refused(&["import", path(&file("garbled", &garbled))], "its signature is not one of minisign's");
    pupil.json(&["import", path(&file("signed", &signed))]);
    // Without a key a signed pack is a pack as any other.
    Device::new().json(&["import", path(&file("signed", &by_another_key))]);
    // `minisign` itself finds the signature right, where it is at hand.
    let (content, signature) =
        (file("content", sealed.signed()), file("content.minisig", sealed.signature().unwrap().as_bytes()));
    support::minisign(&["-V", "-p", path(&ours.public), "-m", path(&content), "-x", path(&signature)]);
}

#[test]
fn thumbnails_travel_only_where_the_owner_says_so() {
    let teacher = Device::new();
    let mugs = shots("learn", "mug");
    teacher.learn(&[("../mug", &mugs)]);
    let pack = teacher.folder.path().join("mug.orcopack");
    let export = |more: &[&str]| {
        teacher.json(&[&["export", "../mug", "--force", "-o", path(&pack)], more].concat());
        UnverifiedPack::read(&fs::read(&pack).unwrap()).unwrap().content().unwrap().thumbnails
    };
    assert!(export(&[]).is_empty(), "no picture leaves the device unasked");
    let thumbnails = export(&["--thumbnails", path(&mugs)]);
    assert_eq!(thumbnails.len(), 5);
    for pack::Thumbnail(bytes) in &thumbnails {
        let picture = orco_runtime::image::decode(bytes).unwrap();
        assert!(picture.width().max(picture.height()) <= 96 && bytes.len() < 10_000, "{:?}", picture.dimensions());
    }
    let pupil = Device::new();
    let out = pupil.folder.path().join("pictures");
    pupil.json(&["import", path(&pack), "--thumbnails-to", path(&out)]);
    // A label leads nowhere else.
    let folders: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [folder] = &folders[..] else { panic!("{folders:?}") };
    assert!(path(folder).contains("/___mug_"), "{folder:?}");
    let files: Vec<_> = (1..=5).map(|n| folder.join(format!("{n}.jpg"))).collect();
    #[cfg(unix)]
    for file in &files {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let written: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert_eq!(written, thumbnails.into_iter().map(|pack::Thumbnail(bytes)| bytes).collect::<Vec<_>>());
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_standard_output_is_told_in_one_sentence() {
    let device = Device::new();
    device.learn(&[("duck", &shots("learn", "rubber-duck"))]);
    for (arguments, expected) in [
        (&["list"][..], "error: cannot write to standard output: No space left on device (os error 28)\n"),
        (&["history"], "error: cannot write to standard output: No space left on device (os error 28)\n"),
        (&["list", "--json", "-"], "error: cannot write to standard output: No space left on device (os error 28)\n"),
        (&["rename", "duck", "swan"], "(os error 28); the change was made all the same\n"),
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = device.command(arguments).stdout(full).output().unwrap();
        let said = support::text(&output.stderr);
        let code = if arguments[0] == "rename" { 3 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.ends_with(expected) && said.lines().count() == 1, "{said}");
    }
    device.json(&["rename", "swan", "duck"]);
}

#[test]
fn empty_variables_count_as_unset_and_a_file_is_no_state() {
    let device = Device::new();
    let mut command = device.command(&["learn", &argument("duck", &shots("learn", "rubber-duck"))]);
    for name in ["ORCO_FORGETTING_BUDGET", "ORCO_HISTORY", "ORCO_HISTORY_BYTES", "ORCO_PUBLIC_KEY", "ORCO_BACKBONE"] {
        command.env(name, "");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", support::text(&output.stderr));
    let other = Device::new();
    fs::write(other.state(), "no folder").unwrap();
    let output = other.command(&["list"]).output().unwrap();
    assert!(support::text(&output.stderr).contains("state is no folder; name the folder"));
    assert_eq!(output.status.code(), Some(1));
}
