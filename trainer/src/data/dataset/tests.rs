//! Every data set that is a folder of images, opened as a run opens it, from small pictures made here.

use std::fs;
use std::path::Path;

use super::testing::write_picture;
use super::*;
use crate::config::{DataConfig, MeasureOn};

/// Classes, training and test images of each.
const CLASSES: usize = 4;
const EACH: usize = 9;
const TESTS: usize = 2;

/// Two base classes and two sessions of one, measured on held-out images.
fn recipe(data: &str) -> Recipe {
    let mut recipe: Recipe = toml::from_str(include_str!("../../../recipes/synthetic-tiny.toml")).unwrap();
    recipe.data = toml::from_str::<DataConfig>(data).unwrap();
    (recipe.split.base_classes, recipe.split.sessions, recipe.split.ways) = (2, 2, 1);
    (recipe.split.measure_on, recipe.split.holdout_per_class) = (MeasureOn::Holdout, 2);
    recipe.export.candidates_per_class = 6;
    recipe
}

/// The colour of an image: red is the class, green the number.
fn colour(class: usize, number: usize) -> [u8; 3] {
    [class as u8 * 60, number as u8 * 10, 128]
}

fn mini_imagenet(root: &Path) {
    fs::create_dir_all(root.join("split")).unwrap();
    for (list, first, count) in [("train", 0, EACH), ("test", EACH, TESTS)] {
        let mut lines = String::from("filename,label\n");
        for (class, number) in (0..CLASSES).flat_map(|class| (first..first + count).map(move |number| (class, number)))
        {
            let file = format!("n{class:08}{number:08}.jpg");
            write_picture(&root.join("images").join(&file), 40, 30, colour(class, number));
            lines += &format!("{file},n{class:08}\n");
        }
        fs::write(root.join("split").join(format!("{list}.csv")), lines).unwrap();
    }
}

fn cub200(root: &Path) {
    let (mut images, mut labels, mut split) = (String::new(), String::new(), String::new());
    for (index, (class, number)) in
        (0..CLASSES).flat_map(|class| (0..EACH + TESTS).map(move |number| (class, number))).enumerate()
    {
        let (index, file) = (index + 1, format!("{:03}.Bird_{class}/Bird_{number}.jpg", class + 1));
        write_picture(&root.join("images").join(&file), 30, 44, colour(class, number));
        images += &format!("{index} {file}\n");
        labels += &format!("{index} {}\n", class + 1);
        split += &format!("{index} {}\n", usize::from(number < EACH));
    }
    for (name, text) in [("images.txt", images), ("image_class_labels.txt", labels), ("train_test_split.txt", split)] {
        fs::write(root.join(name), text).unwrap();
    }
}

fn folders(root: &Path) {
    for (class, number) in (0..CLASSES).flat_map(|class| (0..EACH + TESTS).map(move |number| (class, number))) {
        let part = if number < EACH { "train" } else { "test" };
        write_picture(&root.join(format!("{part}/c{class}/{number:02}.png")), 20, 20, colour(class, number));
    }
}

fn flat(root: &Path) {
    for (class, number) in (0..CLASSES).flat_map(|class| (0..EACH + TESTS).map(move |number| (class, number))) {
        write_picture(&root.join(format!("c{class}/{number:02}.png")), 20, 20, colour(class, number));
    }
}

/// A layout of a data set: its `[data]` table and what writes it.
type Layout = (&'static str, fn(&Path));

const LAYOUTS: [Layout; 4] = [
    ("kind = \"mini-imagenet\"\nimage_size = 16", mini_imagenet),
    ("kind = \"cub200\"\nimage_size = 16", cub200),
    ("kind = \"folders\"\nimage_size = 16", folders),
    ("kind = \"folders\"\nimage_size = 16\ntest_share = 0.18", flat),
];

#[test]
fn every_layout_opens_with_its_split_and_statistics() {
    for (data, write) in LAYOUTS {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let recipe = recipe(data);
        let set = open(&recipe, &DataOrigin { folder: Some(folder.path()), ..DataOrigin::default() }).unwrap();
        assert_eq!((set.train.len(), set.test.len()), (CLASSES * EACH, CLASSES * TESTS), "{data}");
        assert_eq!(set.train.pixels.size(), [(CLASSES * EACH) as i64, 3, 16, 16]);
        assert_eq!(set.class_names.len(), CLASSES);
        for (index, &label) in set.train.labels.iter().enumerate() {
            let red = set.train.pixels.int64_value(&[index as i64, 0, 8, 8]);
            assert!((red - i64::from(label) * 60).abs() < 8, "{data}: class {label} has red {red}");
        }
        assert_eq!(set.test_seed, recipe.data.test_share.map(|_| recipe.seed), "{data}");
        let split = &set.split;
        assert_eq!((split.base.len(), split.measured.len()), (2 * (EACH - 2), CLASSES * 2), "{data}");
        assert!(split.measured.iter().all(|index| !split.base.contains(index)));
        assert!(split.measured.iter().all(|index| !split.candidates.concat().contains(index)));
        match ChannelStatistics::known(&recipe.data) {
            Some(known) => assert_eq!(set.channels, known),
            None => assert_eq!(set.channels, ChannelStatistics::measure(&set.train, &split.base)),
        }

        let lists = folder.path().join("lists");
        write_lists(split, &set.names, &lists).unwrap();
        let list = fs::read_to_string(lists.join("session_2.txt")).unwrap();
        let root = match recipe.data.kind {
            DataKind::MiniImagenet => "MINI-ImageNet/train/n00000002/n00000002",
            DataKind::Cub200 => "CUB_200_2011/images/003.Bird_2/Bird_",
            _ if recipe.data.test_share.is_none() => "train/c2/",
            _ => "c2/",
        };
        assert!(list.lines().count() == 5 && list.lines().all(|line| line.starts_with(root)), "{list}");
        if recipe.data.test_share.is_none() {
            let origin = DataOrigin { folder: Some(folder.path()), lists: Some(&lists), ..DataOrigin::default() };
            let fixed = open(&recipe, &origin).unwrap();
            assert_eq!(fixed.split.candidates[0][..5], split.candidates[0][..5]);
        }
    }
}

#[test]
fn broken_images_stop_or_are_left_out() {
    for (data, write) in LAYOUTS {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let mut pictures = Vec::new();
        let mut waiting = vec![folder.path().to_owned()];
        while let Some(next) = waiting.pop() {
            for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    waiting.push(entry);
                } else if entry.extension().is_some_and(|end| end == "jpg" || end == "png") {
                    pictures.push(entry);
                }
            }
        }
        pictures.sort();
        let bytes = fs::read(&pictures[3]).unwrap();
        fs::write(&pictures[3], &bytes[..bytes.len() / 4]).unwrap();
        let recipe = recipe(data);
        let origin = DataOrigin { folder: Some(folder.path()), ..DataOrigin::default() };
        let error = open(&recipe, &origin).unwrap_err().to_string();
        let name = pictures[3].file_name().unwrap().to_string_lossy().into_owned();
        assert!(error.contains(&name) && error.contains("--skip-broken"), "{error}");
        let set = open(&recipe, &DataOrigin { skip_broken: true, ..origin }).unwrap();
        assert_eq!(set.skipped.len(), 1);
        assert!(set.skipped[0].contains(&name), "{:?}", set.skipped);
        assert_eq!(set.train.len() + set.test.len(), CLASSES * (EACH + TESTS) - 1);
    }
}

#[test]
fn lists_that_windows_wrote_are_read_and_wrong_ones_say_what_is_wrong() {
    let (folder, lists) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    flat(folder.path());
    let mut recipe = recipe("kind = \"folders\"\nimage_size = 16\ntest_share = 0.18");
    let opened = |recipe: &Recipe, lists: Option<&Path>| {
        open(recipe, &DataOrigin { folder: Some(folder.path()), lists, ..DataOrigin::default() })
    };
    let drawn = opened(&recipe, None).unwrap();
    write_lists(&drawn.split, &drawn.names, lists.path()).unwrap();
    let [first, second] = ["session_2.txt", "session_3.txt"].map(|name| lists.path().join(name));
    let [text, other] = [&first, &second].map(|path| fs::read_to_string(path).unwrap());
    fs::write(&first, format!("\u{feff}{}", text.replace('/', "\\").replace('\n', "\r\n"))).unwrap();
    let read = opened(&recipe, Some(lists.path())).unwrap();
    assert_eq!(read.split.candidates[0][..5], drawn.split.candidates[0][..5]);

    fs::write(&first, format!("{text}{other}")).unwrap();
    let said = opened(&recipe, Some(lists.path())).unwrap_err().to_string();
    let line = other.lines().next().unwrap();
    assert!(
        said.contains("session_2.txt, line 6: image ") && said.contains(&format!("\"{line}\", is of class 3 (c3)")),
        "{said}"
    );
    fs::write(&first, text.lines().next().unwrap()).unwrap();
    let said = opened(&recipe, Some(lists.path())).unwrap_err().to_string();
    assert!(said.ends_with("class 2 (c2) has 1 different images, but a draw has 5 shots"), "{said}");

    for line in ["29774", "MINI-ImageNet/train/n03544143/n0354414300000811.jpg"] {
        fs::write(&first, line).unwrap();
        let said = opened(&recipe, Some(lists.path())).unwrap_err().to_string();
        assert!(said.contains("set; none lies in such a folder: take lists of this data set"), "{said}");
    }

    // With most other seeds an image of the lists is a test image.
    fs::write(&first, text).unwrap();
    let said = (recipe.seed + 1..recipe.seed + 50).find_map(|seed| {
        recipe.seed = seed;
        Some((seed, opened(&recipe, Some(lists.path())).err()?.to_string()))
    });
    let (seed, said) = said.unwrap();
    assert!(
        said.contains(&format!("is no training image of the data set; seed {seed} drew the test images")),
        "{said}"
    );
}

#[test]
fn synthetic_data_need_no_folder_and_hold_images_out() {
    let mut recipe = recipe("kind = \"synthetic\"\nimage_size = 16\ntrain_per_class = 9\ntest_per_class = 2");
    let set = open(&recipe, &DataOrigin::default()).unwrap();
    assert_eq!((set.train.len(), set.test.len(), set.split.measured.len()), (36, 8, 8));
    assert_eq!(set.channels, ChannelStatistics::measure(&set.train, &set.split.base));
    recipe.data.classes = Some(3);
    let error = open(&recipe, &DataOrigin::default()).unwrap_err().to_string();
    assert_eq!(
        error,
        "the recipe's split has 4 classes, but the data (synthetic objects) have 3; lower base_classes, sessions or ways of \
         [split]"
    );
}

#[test]
fn few_images_and_classes_without_a_test_image_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    folders(folder.path());
    let mut recipe = recipe("kind = \"folders\"\nimage_size = 16");
    (recipe.split.measure_on, recipe.split.holdout_per_class) = (MeasureOn::Test, 0);
    recipe.split.set_aside_per_class = 5;
    let warnings = || {
        let set = open(&recipe, &DataOrigin { folder: Some(folder.path()), ..DataOrigin::default() }).unwrap();
        (split_warnings(&recipe, &set), set.unmeasured_sentence(MeasureOn::Test))
    };
    let (enough, sentence) = warnings();
    assert!(!enough.iter().any(|said| said.contains("can be set aside")) && sentence.is_none(), "{enough:?}");
    for (class, number) in (0..2).flat_map(|class| (4..EACH).map(move |number| (class, number))) {
        fs::remove_file(folder.path().join(format!("train/c{class}/{number:02}.png"))).unwrap();
    }
    fs::remove_dir_all(folder.path().join("test/c1")).unwrap();
    let (few, sentence) = warnings();
    assert!(few.iter().any(|said| said.starts_with("no base class has the 5 images of which one can be")), "{few:?}");
    assert_eq!(sentence.as_deref(), Some("no test image shows c1; every number is over the other classes"));
    assert!(few.contains(&sentence.unwrap()), "{few:?}");
}

#[test]
fn own_pictures_that_are_learned_from_and_measured_on_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    folders(folder.path());
    let mut recipe = recipe("kind = \"folders\"\nimage_size = 16");
    let warning = |recipe: &Recipe| {
        let origin = DataOrigin { folder: Some(folder.path()), ..DataOrigin::default() };
        let (_, warnings) = open_with_warnings(recipe, &origin).unwrap();
        warnings.into_iter().filter(|warning| warning.starts_with("the same picture ")).collect::<Vec<_>>().join("\n")
    };
    let mut measuring = |measure_on: MeasureOn| {
        (recipe.split.measure_on, recipe.split.holdout_per_class) =
            (measure_on, if measure_on == MeasureOn::Test { 0 } else { 2 });
        warning(&recipe)
    };
    assert_eq!([MeasureOn::Test, MeasureOn::Holdout].map(&mut measuring), ["", ""]);
    // Another picture of the same name makes nothing worse, an equal one does where it is measured.
    write_picture(&folder.path().join("test/c0/03.png"), 20, 20, colour(0, EACH + TESTS));
    assert_eq!(measuring(MeasureOn::Test), "");
    write_picture(&folder.path().join("test/c0/03.png"), 20, 20, colour(0, 3));
    let tested = measuring(MeasureOn::Test);
    assert!(tested.contains("and a test image: train/c0/03.png and test/c0/03.png; measured"), "{tested}");
    assert_eq!(measuring(MeasureOn::Holdout), "");
    (0..EACH).for_each(|number| {
        write_picture(&folder.path().join(format!("train/c0/{number:02}.png")), 20, 20, colour(0, 0));
    });
    let held_out = measuring(MeasureOn::Holdout);
    assert!(held_out.starts_with("the same picture is a training image and a held-out one: train/c0/"), "{held_out}");
}

#[cfg(unix)]
#[test]
fn class_names_that_no_device_takes_are_refused() {
    for (name, shown) in
        [("c\n1\u{1b}[2J", "c\\n1\\u{1b}[2J"), ("Unknown", "Unknown"), ("empty", "empty"), ("a=b", "a=b"), (" ", " ")]
    {
        let folder = tempfile::tempdir().unwrap();
        flat(folder.path());
        fs::rename(folder.path().join("c1"), folder.path().join(name)).unwrap();
        let recipe = recipe("kind = \"folders\"\nimage_size = 16");
        let origin = DataOrigin { folder: Some(folder.path()), ..DataOrigin::default() };
        let error = open(&recipe, &origin).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "the class name \"{shown}\" cannot be used: it is white space, or \"unknown\" or \"empty\", which are \
                 answers of their own; it holds \"=\" or characters that cannot be seen or typed; or it is the name of \
                 another class in another spelling; rename the class"
            )
        );
    }
}

#[test]
fn a_folder_that_no_session_uses_may_be_called_unknown() {
    let folder = tempfile::tempdir().unwrap();
    flat(folder.path());
    fs::rename(folder.path().join("c3"), folder.path().join("unknown")).unwrap();
    let mut recipe = recipe("kind = \"folders\"\nimage_size = 16");
    let origin = DataOrigin { folder: Some(folder.path()), ..DataOrigin::default() };
    assert!(open(&recipe, &origin).unwrap_err().to_string().contains("\"unknown\" cannot be used"));
    recipe.split.sessions = 1;
    assert_eq!(open(&recipe, &origin).unwrap().class_names[3], "unknown");
}

#[test]
fn too_few_classes_are_told_before_pictures_are_read() {
    let folder = tempfile::tempdir().unwrap();
    flat(folder.path());
    fs::write(folder.path().join("c0/broken.png"), b"no picture").unwrap();
    let mut recipe = recipe("kind = \"folders\"\nimage_size = 16");
    let origin = DataOrigin { folder: Some(folder.path()), ..DataOrigin::default() };
    assert!(open(&recipe, &origin).unwrap_err().to_string().contains("broken.png"));
    recipe.split.sessions = 3;
    let refused = open(&recipe, &origin).unwrap_err().to_string();
    assert!(refused.contains("split has 5 classes, but the data (own images) have 4"), "{refused}");
}

#[cfg(target_os = "linux")]
#[test]
fn class_names_are_kept_in_one_normal_form() {
    let folder = tempfile::tempdir().unwrap();
    flat(folder.path());
    fs::rename(folder.path().join("c1"), folder.path().join("cafe\u{301}")).unwrap();
    let recipe = recipe("kind = \"folders\"\nimage_size = 16");
    let origin = DataOrigin { folder: Some(folder.path()), ..DataOrigin::default() };
    assert!(open(&recipe, &origin).unwrap().class_names.contains(&"caf\u{e9}".to_owned()));
    fs::rename(folder.path().join("c2"), folder.path().join("caf\u{e9}")).unwrap();
    assert!(open(&recipe, &origin).unwrap_err().to_string().contains("in another spelling"));
}
