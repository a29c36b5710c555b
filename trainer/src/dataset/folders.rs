//! Own images: a folder per class, below `train` and `test`, or alone with a share of each class held out as test set.

use std::fs;
use std::path::{Path, PathBuf};

use orco_runtime::random::Random;

use super::DataError;
use super::listing::{Entry, Listing};

/// What is said beside a folder that is missing.
const LAYOUT: &str =
    "it must hold a folder of .jpg, .jpeg or .png files for each class, or train and test with such folders";
/// Share of the test images where the recipe names none.
const TEST_SHARE: f64 = 0.2;

/// Lists the files. Classes are numbered in the order of their folders' names; hidden files and folders are passed
/// over. Without `train` and `test`, `test_share` of each class, drawn with `seed`, becomes the test set.
pub(super) fn list(folder: &Path, test_share: Option<f64>, seed: u64) -> Result<Listing, DataError> {
    let (trained, tested) = (folder.join("train"), folder.join("test"));
    if trained.is_dir() != tested.is_dir() {
        let missing = if trained.is_dir() { tested } else { trained };
        return Err(fs::read_dir(&missing).map(drop).map_err(DataError::read(&missing, LAYOUT)).unwrap_err());
    }
    if trained.is_dir() {
        let class_names = subfolders(&trained)?;
        if let Some(stranger) = subfolders(&tested)?.into_iter().find(|class| !class_names.contains(class)) {
            let path = tested.join(stranger);
            return Err(DataError::Count { path, what: "training images", expected: "1 or more".into(), actual: 0 });
        }
        let train = entries(&trained, &class_names)?;
        let known: Vec<String> = class_names.iter().filter(|class| tested.join(class).is_dir()).cloned().collect();
        let mut test = entries(&tested, &known)?;
        for entry in &mut test {
            let class = &known[usize::from(entry.label)];
            entry.label = class_names.iter().position(|name| name == class).unwrap_or(0) as u16;
        }
        return Ok(Listing { train, test, class_names, prefix: "train/" });
    }
    let class_names = subfolders(folder)?;
    let mut random = Random::new(seed, "test share");
    let (mut train, mut test) = (Vec::new(), Vec::new());
    let all = entries(folder, &class_names)?;
    for class in all.chunk_by(|one, next| one.label == next.label) {
        // At least one image stays on each side.
        let most = class.len().saturating_sub(1);
        let count = ((class.len() as f64 * test_share.unwrap_or(TEST_SHARE)).round() as usize).clamp(most.min(1), most);
        let mut order: Vec<usize> = (0..class.len()).collect();
        random.shuffle(&mut order);
        let held_out = &order[..count];
        for (index, entry) in class.iter().enumerate() {
            let part = if held_out.contains(&index) { &mut test } else { &mut train };
            part.push(entry.clone());
        }
    }
    Ok(Listing { train, test, class_names, prefix: "" })
}

/// Names of the folders in a folder, sorted.
fn subfolders(folder: &Path) -> Result<Vec<String>, DataError> {
    let names = children(folder)?.into_iter().filter(|(path, _)| path.is_dir()).map(|(_, name)| name);
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        let path = folder.into();
        return Err(DataError::Count { path, what: "class folders", expected: "2 or more".into(), actual: 0 });
    }
    Ok(names)
}

/// Visible children with names that are text, sorted by name.
fn children(folder: &Path) -> Result<Vec<(PathBuf, String)>, DataError> {
    let failed = |source| DataError::read(folder, LAYOUT)(source);
    let mut children = Vec::new();
    for child in fs::read_dir(folder).map_err(failed)? {
        let child = child.map_err(failed)?;
        if let Ok(name) = child.file_name().into_string()
            && !name.starts_with('.')
        {
            children.push((child.path(), name));
        }
    }
    children.sort();
    Ok(children)
}

/// The pictures of each class, in order of class and file name.
fn entries(folder: &Path, classes: &[String]) -> Result<Vec<Entry>, DataError> {
    let mut entries = Vec::new();
    for (label, class) in classes.iter().enumerate() {
        let before = entries.len();
        for (path, file) in children(&folder.join(class))? {
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("").to_lowercase();
            if ["jpg", "jpeg", "png"].contains(&extension.as_str()) {
                entries.push(Entry { name: format!("{class}/{file}"), path, label: label as u16 });
            }
        }
        if entries.len() == before {
            let path = folder.join(class);
            return Err(DataError::Count { path, what: "JPEG or PNG files", expected: "1 or more".into(), actual: 0 });
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(root: &Path, files: &[&str]) {
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        }
    }

    #[test]
    fn train_and_test_folders_share_their_numbering() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        touch(
            root,
            &["train/dog/2.JPG", "train/dog/1.png", "train/cat/1.jpeg", "train/cat/notes.txt", "train/.git/x.png"],
        );
        let missing = list(root, None, 1).unwrap_err().to_string();
        assert!(missing.contains("cannot read") && missing.contains("/test:"), "{missing}");
        touch(root, &["test/dog/9.png"]);
        let listing = list(root, None, 1).unwrap();
        assert_eq!(listing.class_names, ["cat", "dog"]);
        let names: Vec<_> = listing.train.iter().map(|entry| (entry.name.as_str(), entry.label)).collect();
        assert_eq!(names, [("cat/1.jpeg", 0), ("dog/1.png", 1), ("dog/2.JPG", 1)]);
        assert_eq!((listing.test.len(), listing.test[0].label), (1, 1));
        touch(root, &["test/fox/9.png"]);
        assert!(list(root, None, 1).unwrap_err().to_string().contains("test/fox holds 0 training images"));
    }

    #[test]
    fn one_level_holds_a_share_out() {
        let folder = tempfile::tempdir().unwrap();
        let error = list(folder.path(), None, 1).unwrap_err().to_string();
        assert!(error.contains("holds 0 class folders"), "{error}");
        for class in ["a", "b"] {
            let files: Vec<String> = (0..10).map(|index| format!("{class}/{index}.png")).collect();
            touch(folder.path(), &files.iter().map(String::as_str).collect::<Vec<_>>());
        }
        let listing = list(folder.path(), Some(0.3), 1).unwrap();
        assert_eq!((listing.train.len(), listing.test.len()), (14, 6));
        assert!(listing.test.iter().all(|entry| !listing.train.contains(entry)));
        assert_eq!(list(folder.path(), Some(0.3), 1).unwrap().test, listing.test);
        assert_ne!(list(folder.path(), Some(0.3), 2).unwrap().test, listing.test);
        fs::create_dir(folder.path().join("c")).unwrap();
        let empty = list(folder.path(), None, 1).unwrap_err().to_string();
        assert!(empty.contains("c holds 0 JPEG or PNG files"), "{empty}");
    }
}
