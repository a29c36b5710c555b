//! CUB200-2011 (Wah et al. 2011): 200 kinds of birds, 5,994 training and 5,794 test images.
//!
//! `images.txt` gives every picture a number and a path below `images`, `image_class_labels.txt` its class from 1,
//! `train_test_split.txt` whether it is for training (1) or testing (0). Labels are the class numbers less one, as in
//! the field; the class's name is its folder without the leading number.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path};

use super::DataError;
use super::image_files::{ListedImage, Listing};
use super::session_lists::without_mark;
use crate::config::MAX_CLASSES;

/// What is said beside a file that is missing.
const LAYOUT: &str = "the folder must hold images, images.txt, image_class_labels.txt and train_test_split.txt";
/// Of the published files: classes, training and test images. Files of other classes may hold what they like.
const CLASSES: usize = 200;
const TRAIN: usize = 5994;
const TEST: usize = 5794;

/// Lists the files.
pub(super) fn list(folder: &Path) -> Result<Listing, DataError> {
    let inner = folder.join("CUB_200_2011");
    let folder = if inner.join("images.txt").is_file() { inner.as_path() } else { folder };
    let paths = read(folder, "images.txt", "a number and CLASS/FILE", |value| {
        is_class_and_file(value).then(|| value.to_owned())
    })?;
    let classes = read(folder, "image_class_labels.txt", "a number and a class from 1 to 4096", |value| {
        value.parse::<u16>().ok().filter(|class| (1..=MAX_CLASSES).contains(&usize::from(*class)))
    })?;
    let trained = read(folder, "train_test_split.txt", "a number and 0 or 1", |value| match value {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    })?;
    for (name, same, actual) in [
        ("image_class_labels.txt", paths.keys().eq(classes.keys()), classes.len()),
        ("train_test_split.txt", paths.keys().eq(trained.keys()), trained.len()),
    ] {
        if !same {
            let expected = format!("the {} of images.txt", paths.len());
            return Err(DataError::Count { path: folder.join(name), what: "image numbers", expected, actual });
        }
    }
    let count = classes.values().copied().max().unwrap_or(0);
    let mut class_names = vec![String::new(); usize::from(count)];
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for ((path, class), is_trained) in paths.values().zip(classes.values()).zip(trained.values()) {
        let label = class - 1;
        let class_folder = path.split('/').next().unwrap_or(path);
        let title = class_folder.split_once('.').map_or(class_folder, |(_, title)| title);
        class_names[usize::from(label)] = title.replace('_', " ");
        let entry = ListedImage { path: folder.join("images").join(path), name: path.clone(), label };
        if *is_trained { train.push(entry) } else { test.push(entry) }
    }
    if let Some(empty) = class_names.iter().position(String::is_empty) {
        let path = folder.join("image_class_labels.txt");
        let expected = format!("all classes up to {count}");
        log::debug!("class {} has no image", empty + 1);
        let actual = class_names.iter().filter(|name| !name.is_empty()).count();
        return Err(DataError::Count { path, what: "different classes", expected, actual });
    }
    if usize::from(count) == CLASSES {
        check_published_counts(folder, train.len(), test.len())?;
    }
    Ok(Listing { train, test, test_seed: None, class_names, prefix: "CUB_200_2011/images/" })
}

/// Whether a path is a folder and a file in it.
fn is_class_and_file(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    let first_three = (parts.next(), parts.next(), parts.next());
    matches!(first_three, (Some(Component::Normal(_)), Some(Component::Normal(_)), None))
}

/// Refuses files of all classes that have other numbers of images than the published ones.
fn check_published_counts(folder: &Path, train: usize, test: usize) -> Result<(), DataError> {
    for (what, actual, published) in [("training images", train, TRAIN), ("test images", test, TEST)] {
        if actual != published {
            let (path, expected) = (folder.join("train_test_split.txt"), format!("{published}, as published,"));
            return Err(DataError::Count { path, what, expected, actual });
        }
    }
    Ok(())
}

/// Reads lines of a number and a value, by number.
fn read<T>(
    folder: &Path,
    name: &str,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<BTreeMap<u32, T>, DataError> {
    let path = folder.join(name);
    let text = fs::read_to_string(&path).map_err(DataError::read(&path, LAYOUT))?;
    let mut values = BTreeMap::new();
    for (line, text) in without_mark(&text).lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let parsed = text
            .trim()
            .split_once(char::is_whitespace)
            .and_then(|(number, value)| Some((number.parse::<u32>().ok()?, parse(value.trim())?)));
        let is_new = parsed.is_some_and(|(number, value)| values.insert(number, value).is_none());
        if !is_new {
            let text = text.chars().take(80).collect();
            return Err(DataError::Line { path, line: line + 1, text, expected });
        }
    }
    if values.is_empty() {
        return Err(DataError::Count { path, what: "images", expected: "1 or more".into(), actual: 0 });
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_text_files_are_joined_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("CUB_200_2011");
        fs::create_dir(&root).unwrap();
        let write = |name, text: &str| fs::write(root.join(name), text).unwrap();
        write("images.txt", "1 001.Black_footed_Albatross/a.jpg\n2 002.Auk/b.jpg\n3 002.Auk/c.jpg\n");
        write("image_class_labels.txt", "1 1\n2 2\n3 2\n");
        let missing = list(folder.path()).unwrap_err().to_string();
        assert!(missing.contains("train_test_split.txt: ") && missing.contains("the folder must hold"), "{missing}");
        write("train_test_split.txt", "\u{feff}1 1\r\n2 1\r\n3 0\r\n");
        let listing = list(folder.path()).unwrap();
        assert_eq!(listing.class_names, ["Black footed Albatross", "Auk"]);
        assert_eq!((listing.train.len(), listing.test.len()), (2, 1));
        assert_eq!((listing.test[0].label, listing.test[0].name.as_str()), (1, "002.Auk/c.jpg"));
        assert!(listing.test[0].path.ends_with("CUB_200_2011/images/002.Auk/c.jpg"));
        for (name, text, said) in [
            ("train_test_split.txt", "1 1\n2 1\n", "holds 2 image numbers, but the 3 of images.txt are expected"),
            ("train_test_split.txt", "1 1\n2 1\n3 2\n", "line 3: \"3 2\" is not a number and 0 or 1"),
            ("train_test_split.txt", "1 1\n2 1\n2 1\n", "line 3: \"2 1\" is not"),
            ("image_class_labels.txt", "1 1\n2 2\n3 0\n", "a class from 1 to 4096"),
            ("image_class_labels.txt", "1 1\n2 3\n3 3\n", "2 different classes, but all classes up to 3"),
            ("images.txt", "1 ../a.jpg/c\n", "a number and CLASS/FILE"),
        ] {
            let old = fs::read_to_string(root.join(name)).unwrap();
            write(name, text);
            let error = list(folder.path()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            write(name, &old);
        }
    }

    #[test]
    fn the_published_files_are_complete_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name, line: &dyn Fn(usize) -> String, count| {
            let lines: String = (0..count).map(|image| format!("{} {}\n", image + 1, line(image))).collect();
            fs::write(folder.path().join(name), lines).unwrap();
        };
        for (count, complete) in [(TRAIN + TEST, true), (TRAIN + TEST - 1, false)] {
            write("images.txt", &|image| format!("{:03}.Auk/{image}.jpg", image % CLASSES + 1), count);
            write("image_class_labels.txt", &|image| (image % CLASSES + 1).to_string(), count);
            write("train_test_split.txt", &|image| u8::from(image >= TEST).to_string(), count);
            match list(folder.path()) {
                Ok(listing) => assert!(complete && listing.train.len() == TRAIN),
                Err(error) => assert!(!complete && error.to_string().contains("holds 5993 training images"), "{error}"),
            }
        }
    }
}
