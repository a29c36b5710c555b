//! mini-ImageNet as few-shot class-incremental work splits it: 100 classes with 500 training and 100 test images each.
//!
//! The layout is the one that the programs of this field share (CEC, FACT and those built on them): `images/FILE` holds
//! every picture, `split/train.csv` and `split/test.csv` name them, a header `filename,label` and then one picture a
//! line, the label being a WordNet number such as `n01532829`. Classes are numbered in the order in which `train.csv`
//! first names them, as CEC's loader does. In the files published with CEC (Zhang et al., CVPR 2021;
//! `data/index_list/mini_imagenet` of its repository) both lists go in blocks of 500 and 100 pictures from `n01532829`
//! to `n13133613`, in the order of the WordNet numbers. A `test.csv` in another order is numbered by `train.csv`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Component, Path};

use super::DataError;
use super::image_files::{ListedImage, Listing};
use super::session_lists::without_mark;

/// What is said beside a file that is missing.
const LAYOUT: &str = "the folder must hold images, split/train.csv and split/test.csv";
/// Of the published lists: classes, and training and test images of each. Lists of fewer classes may hold what they
/// like.
const CLASSES: usize = 100;
const TRAIN_EACH: usize = 500;
const TEST_EACH: usize = 100;

/// Lists the files.
pub(super) fn list(folder: &Path) -> Result<Listing, DataError> {
    let inner = folder.join("miniimagenet");
    let folder = if inner.join("split").is_dir() { inner.as_path() } else { folder };
    let mut class_names = Vec::new();
    let mut labels = HashMap::new();
    let train = read_csv(folder, "train.csv", |class| {
        Some(*labels.entry(class.to_owned()).or_insert_with(|| {
            class_names.push(class.to_owned());
            class_names.len() as u16 - 1
        }))
    })?;
    let test = read_csv(folder, "test.csv", |class| labels.get(class).copied())?;
    // A list that was cut within its last line names a class too many, which has no test image.
    let published = class_names.len() >= CLASSES;
    for (name, entries, each) in [("train.csv", &train, TRAIN_EACH), ("test.csv", &test, TEST_EACH)] {
        let mut counts = vec![0; class_names.len()];
        entries.iter().for_each(|entry| counts[usize::from(entry.label)] += 1);
        let wrong = |count: &usize| *count == 0 || published && *count != each;
        if let Some(label) = counts.iter().position(wrong) {
            return Err(DataError::ClassCount {
                path: folder.join("split").join(name),
                class: class_names[label].clone(),
                expected: if published { format!("the {each} of the published list") } else { "1 or more".into() },
                actual: counts[label],
            });
        }
    }
    let trained: HashSet<&Path> = train.iter().map(|entry| entry.path.as_path()).collect();
    if let Some(entry) = test.iter().find(|entry| trained.contains(entry.path.as_path())) {
        return Err(DataError::TrainedOn { path: folder.join("split").join("test.csv"), name: entry.name.clone() });
    }
    Ok(Listing { train, test, test_seed: None, class_names, prefix: "MINI-ImageNet/train/" })
}

/// Reads one list; `number` gives the label of a class, or nothing if it has no right to be there.
fn read_csv(
    folder: &Path,
    name: &str,
    mut number: impl FnMut(&str) -> Option<u16>,
) -> Result<Vec<ListedImage>, DataError> {
    let path = folder.join("split").join(name);
    let text = fs::read_to_string(&path).map_err(DataError::read(&path, LAYOUT))?;
    let mut lines = without_mark(&text).lines().enumerate();
    let wrong = |line: usize, text: &str, expected| {
        let text = text.chars().take(80).collect();
        DataError::Line { path: path.clone(), line: line + 1, text, expected }
    };
    match lines.next() {
        Some((_, header)) if header.split(',').map(unquoted).eq(["filename", "label"]) => {}
        other => return Err(wrong(0, other.map_or("", |(_, header)| header), "the header filename,label")),
    }
    let mut entries = Vec::new();
    for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
        let Some((file, class)) = text.split_once(',').map(|(file, class)| (unquoted(file), unquoted(class))) else {
            return Err(wrong(line, text, "a file name, a comma and a class"));
        };
        let inside = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
        let plain = inside && !file.is_empty() && !class.is_empty() && !class.contains(['/', ',']);
        if !plain || entries.len() >= usize::from(u16::MAX) * 1000 {
            return Err(wrong(line, text, "a file name inside images, a comma and a class"));
        }
        let label = number(class).ok_or_else(|| wrong(line, text, "of a class that train.csv has"))?;
        let last = file.rsplit('/').next().unwrap_or(file);
        entries.push(ListedImage { path: folder.join("images").join(file), name: format!("{class}/{last}"), label });
    }
    if entries.is_empty() {
        return Err(DataError::Count { path, what: "images", expected: "1 or more".into(), actual: 0 });
    }
    Ok(entries)
}

/// A field without white space and quotes around it, which some programs put around every text.
fn unquoted(field: &str) -> &str {
    let field = field.trim();
    field.strip_prefix('"').and_then(|field| field.strip_suffix('"')).unwrap_or(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_numbered_by_first_appearance_in_the_training_list() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("split")).unwrap();
        let write = |name, text: &str| fs::write(folder.path().join("split").join(name), text).unwrap();
        write("train.csv", "filename,label\nb1.jpg,n02\na1.jpg,n01\r\nb2.jpg,n02\n\n");
        let missing = list(folder.path()).unwrap_err().to_string();
        assert!(missing.contains("split/test.csv") && missing.contains("the folder must hold"), "{missing}");
        write("test.csv", "filename,label\na9.jpg,n01\nb9.jpg,n02\n");
        let listing = list(folder.path()).unwrap();
        assert_eq!(listing.class_names, ["n02", "n01"]);
        assert_eq!(listing.train.iter().map(|entry| entry.label).collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!((listing.test[0].label, listing.test[0].name.as_str()), (1, "n01/a9.jpg"));
        // As programs for tables on Windows write it.
        write("test.csv", "\u{feff}filename,label\r\na9.jpg,n01\r\nb9.jpg,n02\r\n");
        assert_eq!(list(folder.path()).unwrap().test, listing.test);
        // As R writes it, and Python's csv where it quotes all.
        write("test.csv", "\"filename\",\"label\"\n\"a9.jpg\",\"n01\"\n\"b9.jpg\",\"n02\"\n");
        assert_eq!(list(folder.path()).unwrap().test, listing.test);
        write("test.csv", "filename,label\na9.jpg,n01\nb2.jpg,n02\n");
        let trained = list(folder.path()).unwrap_err().to_string();
        assert!(trained.contains("test.csv names n02/b2.jpg, which train.csv names too"), "{trained}");
        assert_eq!(listing.test[0].path, folder.path().join("images/a9.jpg"));
        for (text, said) in [
            ("a9.jpg,n01\n", "line 1: \"a9.jpg,n01\" is not the header"),
            ("filename,label\na9.jpg\n", "line 2: \"a9.jpg\" is not a file name, a comma"),
            ("filename,label\na9.jpg,n03\n", "of a class that train.csv has"),
            ("filename,label\n../a9.jpg,n01\n", "inside images"),
            ("filename,label\n", "test.csv holds 0 images"),
            ("", "line 1: \"\" is not the header"),
        ] {
            write("test.csv", text);
            let error = list(folder.path()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn the_published_lists_are_complete_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("split")).unwrap();
        let lines = |each: usize| (0..CLASSES * each).map(move |file| format!("{file}.jpg,n{:02}\n", file / each));
        let write = |name, lines: &mut dyn Iterator<Item = String>| {
            let text = "filename,label\n".to_owned() + &lines.collect::<String>();
            fs::write(folder.path().join("split").join(name), text).unwrap();
        };
        write("train.csv", &mut lines(TRAIN_EACH));
        let test_lines = || lines(TEST_EACH).map(|line| format!("test-{line}"));
        write("test.csv", &mut test_lines());
        assert_eq!(list(folder.path()).unwrap().train.len(), 50_000);
        write("test.csv", &mut test_lines().take(9_999));
        let cut = list(folder.path()).unwrap_err().to_string();
        assert!(
            cut.ends_with("test.csv holds 99 images of n99, but the 100 of the published list are expected"),
            "{cut}"
        );
        write("train.csv", &mut lines(TRAIN_EACH).take(49_999).chain(["0.jpg,n".to_owned()]));
        let cut = list(folder.path()).unwrap_err().to_string();
        assert!(
            cut.ends_with("train.csv holds 499 images of n99, but the 500 of the published list are expected"),
            "{cut}"
        );
    }
}
