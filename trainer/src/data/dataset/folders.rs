//! Own images: a folder per class, below `train` and `test`, or alone with a share of each class held out as test set.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use orco_core::random::Random;
use orco_runtime::files::is_hidden;
use orco_runtime::image::{UnsupportedFormat, has_extension};
use orco_runtime::learner::is_made_by_systems;
use orco_runtime::manifest::MANIFEST;
use orco_state::escape::EscapedText;
use orco_state::label;
use orco_state::sentence::join_first;

use super::DataError;
use super::image_files::{ListedImage, Listing};
use crate::run::RECIPE;

/// What is said beside a folder that is missing.
const LAYOUT: &str =
    "it must hold a folder of JPEG, PNG or WebP files for each class, or train and test with such folders";
/// Share of the test images where the recipe names none.
const TEST_SHARE: f64 = 0.2;

/// Lists the files. Classes are numbered in the order of their folders' names; hidden files and folders are passed
/// over. Without `train` and `test`, `test_share` of each class, drawn with `seed`, becomes the test set.
///
/// Pictures and folders whose names are no text end the work, or with `skip_broken` are left out and put into
/// `skipped`.
pub(super) fn list(
    folder: &Path,
    test_share: Option<f64>,
    seed: u64,
    skip_broken: bool,
    skipped: &mut Vec<String>,
) -> Result<Listing, DataError> {
    let mut reader = FolderReader { skip_broken, skipped };
    let (trained, tested) = (folder.join("train"), folder.join("test"));
    if trained.is_dir() != tested.is_dir() && !is_dangling(&trained) && !is_dangling(&tested) {
        let (there, missing, images) =
            if trained.is_dir() { (&trained, "test", "test") } else { (&tested, "train", "training") };
        if !reader.is_class(there)? {
            return Err(DataError::Unpaired { path: there.clone(), missing, images });
        }
        log::warn!("{} holds files alone and is taken for a class, not for a set of images", there.display());
    }
    if trained.is_dir() && tested.is_dir() {
        ignored(folder, test_share)?.iter().for_each(|warning| log::warn!("{warning}"));
        return reader.list_both(&trained, &tested);
    }
    let class_names = reader.subfolders(folder)?;
    let all = reader.entries(folder, &class_names)?;
    let (train, test) = draw_test_images(&all, test_share.unwrap_or(TEST_SHARE), seed);
    Ok(Listing { train, test, test_seed: Some(seed), class_names, prefix: "" })
}

/// Divides images, listed class by class, into training and test images: this share of each class, drawn with the
/// seed, but at least one image stays on each side.
fn draw_test_images(all: &[ListedImage], share: f64, seed: u64) -> (Vec<ListedImage>, Vec<ListedImage>) {
    let mut random = Random::new(seed, "test share");
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for class in all.chunk_by(|one, next| one.label == next.label) {
        let most = class.len().saturating_sub(1);
        let count = ((class.len() as f64 * share).round() as usize).clamp(most.min(1), most);
        let mut order: Vec<usize> = (0..class.len()).collect();
        random.shuffle(&mut order);
        let mut held_out = vec![false; class.len()];
        order[..count].iter().for_each(|&index| held_out[index] = true);
        for (entry, held_out) in class.iter().zip(held_out) {
            let part = if held_out { &mut test } else { &mut train };
            part.push(entry.clone());
        }
    }
    (train, test)
}

/// What is passed over beside `train` and `test`, a sentence each: other folders, and a share of test images.
fn ignored(folder: &Path, test_share: Option<f64>) -> Result<Vec<String>, DataError> {
    let (mut strangers, shown) = (Vec::new(), folder.display());
    for child in fs::read_dir(folder).map_err(DataError::read(folder, LAYOUT))? {
        let child = child.map_err(DataError::read(folder, LAYOUT))?;
        let name = child.file_name().to_string_lossy().into_owned();
        if child.path().is_dir() && !is_hidden(&child.path()) && name != "train" && name != "test" {
            strangers.push(name);
        }
    }
    strangers.sort();
    let mut sentences = Vec::new();
    if !strangers.is_empty() {
        let names = join_first(strangers.iter().map(|name| EscapedText(name)), 5, ", ");
        sentences.push(format!("beside train and test, {shown} holds folders that are passed over: {names}"));
    }
    if test_share.is_some() {
        sentences.push(format!("data.test_share has no effect: {shown} sets its test images apart in the folder test"));
    }
    Ok(sentences)
}

/// Whether a path is a link that leads nowhere.
fn is_dangling(path: &Path) -> bool {
    path.is_symlink() && !path.exists()
}

/// Warns of links that lead nowhere.
fn warn_of_dangling(children: &[(PathBuf, String)]) {
    dangling(children).iter().for_each(|warning| log::warn!("{warning}"));
}

/// What is said of links that lead nowhere: each may be a class on a disk that is not there.
fn dangling(children: &[(PathBuf, String)]) -> Option<String> {
    let paths = children.iter().map(|(path, _)| path);
    let links: Vec<&PathBuf> = paths.filter(|path| is_dangling(path)).collect();
    let names: Vec<String> = links.iter().map(|link| link.display().to_string()).collect();
    let names = join_first(names.iter().map(|name| EscapedText(name)), 5, ", ");
    (!links.is_empty()).then(|| format!("links that lead nowhere are passed over: {names}"))
}

/// Reads folders, and keeps account of what it leaves out.
struct FolderReader<'a> {
    skip_broken: bool,
    skipped: &'a mut Vec<String>,
}

impl FolderReader<'_> {
    /// Lists training and test images that the folders `train` and `test` set apart.
    fn list_both(&mut self, train: &Path, test: &Path) -> Result<Listing, DataError> {
        let (class_names, test_names) = (self.subfolders(train)?, self.subfolders(test)?);
        // Two systems may spell one name in two ways.
        let labels = class_names.iter().enumerate().map(|(index, name)| (label::normal(name), index as u16));
        let labels: HashMap<String, u16> = labels.collect();
        let label_of = |class: &String| {
            labels.get(&label::normal(class)).copied().ok_or_else(|| {
                let path = train.join(class);
                DataError::Count { path, what: "training images", expected: "1 or more".into(), actual: 0 }
            })
        };
        let test_labels = test_names.iter().map(label_of).collect::<Result<Vec<_>, _>>()?;
        let trained = self.entries(train, &class_names)?;
        let mut tested = self.entries(test, &test_names)?;
        tested.iter_mut().for_each(|entry| entry.label = test_labels[usize::from(entry.label)]);
        Ok(Listing { train: trained, test: tested, test_seed: None, class_names, prefix: "train/" })
    }

    /// Whether a folder holds files alone: then it is a class, such as the trains of CIFAR-100.
    fn is_class(&mut self, folder: &Path) -> Result<bool, DataError> {
        let children = self.children(folder)?;
        warn_of_dangling(&children);
        Ok(!children.is_empty() && children.iter().all(|(path, _)| path.exists() && !path.is_dir()))
    }

    /// Names of the folders in a folder, sorted. A run and a bundle beside the classes are none: a training that wrote
    /// them there can be continued.
    fn subfolders(&mut self, folder: &Path) -> Result<Vec<String>, DataError> {
        let is_class = |path: &Path| path.is_dir() && ![RECIPE, MANIFEST].iter().any(|own| path.join(own).is_file());
        let children = self.children(folder)?;
        warn_of_dangling(&children);
        let names = children.into_iter().filter(|(path, _)| is_class(path)).map(|(_, name)| name);
        let names: Vec<String> = names.collect();
        if names.is_empty() {
            let path = folder.into();
            return Err(DataError::Count { path, what: "class folders", expected: "1 or more".into(), actual: 0 });
        }
        Ok(names)
    }

    /// Visible children with their names, sorted by name, but for folders that systems make beside pictures.
    fn children(&mut self, folder: &Path) -> Result<Vec<(PathBuf, String)>, DataError> {
        let failed = |source| DataError::read(folder, LAYOUT)(source);
        let mut children = Vec::new();
        for child in fs::read_dir(folder).map_err(failed)? {
            let child = child.map_err(failed)?;
            let path = child.path();
            match child.file_name().into_string() {
                _ if is_hidden(&path) => {}
                Ok(_) if is_made_by_systems(&path) => {}
                Ok(name) => children.push((path, name)),
                Err(_) if !path.is_dir() && !has_extension(&path) => {}
                Err(_) if self.skip_broken => {
                    // The folders of classes are looked through twice.
                    let shown = path.display().to_string();
                    if !self.skipped.contains(&shown) {
                        self.skipped.push(shown);
                    }
                }
                Err(_) => return Err(DataError::Name { path }),
            }
        }
        children.sort();
        Ok(children)
    }

    /// The pictures of each class, in order of class and file name.
    fn entries(&mut self, folder: &Path, classes: &[String]) -> Result<Vec<ListedImage>, DataError> {
        let mut entries = Vec::new();
        for (label, class) in classes.iter().enumerate() {
            let before = entries.len();
            let path = folder.join(class);
            let (mut passed_over, mut holds_folders, mut unsupported) = (0, false, None);
            for (path, file) in self.children(&path)? {
                if has_extension(&path) {
                    entries.push(ListedImage { name: format!("{class}/{file}"), path, label: label as u16 });
                } else if path.is_dir() {
                    (passed_over, holds_folders) = (passed_over + 1, true);
                } else if let Some(format) = UnsupportedFormat::of_name(&path) {
                    passed_over += 1;
                    unsupported.get_or_insert((PathBuf::from(file), format));
                }
            }
            if entries.len() == before && holds_folders {
                return Err(DataError::Nested { path });
            }
            if let Some((file, format)) = unsupported.filter(|_| entries.len() == before) {
                return Err(DataError::Unsupported { path, file, format });
            }
            if entries.len() == before {
                return Err(DataError::Empty { path });
            }
            if passed_over > 0 {
                log::warn!(
                    "{}: {passed_over} folders or pictures of other kinds are passed over; put JPEG, PNG or WebP files \
                     into the class's own folder",
                    path.display()
                );
            }
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(folder: &Path, test_share: Option<f64>, seed: u64) -> Result<Listing, DataError> {
        super::list(folder, test_share, seed, false, &mut Vec::new())
    }

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
        touch(root, &["train/dog/3.WebP", "train/dog/4.heic", "train/dog/more/5.jpg"]);
        // What a Mac, Windows and a network drive leave beside pictures.
        touch(
            root,
            &[
                "train/dog/._1.png",
                "train/dog/.DS_Store",
                "train/dog/Thumbs.db",
                "train/.AppleDouble/1.png",
                "train/.DS_Store",
                "train/__MACOSX/dog/._1.png",
                "train/@eaDir/dog/1.png",
                "train/dog/@eaDir/1.png/THUMB.jpg",
            ],
        );
        let missing = list(root, None, 1).unwrap_err().to_string();
        assert!(missing.starts_with("there is no folder test beside ") && missing.contains("/train: "), "{missing}");
        assert!(missing.contains("name the folder of the test images test, in lower case, or "), "{missing}");
        touch(root, &["test/dog/9.png"]);
        let listing = list(root, None, 1).unwrap();
        assert_eq!(listing.class_names, ["cat", "dog"]);
        let names: Vec<_> = listing.train.iter().map(|entry| (entry.name.as_str(), entry.label)).collect();
        assert_eq!(names, [("cat/1.jpeg", 0), ("dog/1.png", 1), ("dog/2.JPG", 1), ("dog/3.WebP", 1)]);
        assert_eq!((listing.test.len(), listing.test[0].label), (1, 1));
        touch(root, &["test/fox/9.png"]);
        assert!(list(root, None, 1).unwrap_err().to_string().contains("train/fox holds 0 training images"));
    }

    #[test]
    fn a_class_may_be_called_train_or_test() {
        for name in ["train", "test"] {
            let folder = tempfile::tempdir().unwrap();
            touch(folder.path(), &["bus/1.png", "bus/2.png"]);
            touch(folder.path(), &[&format!("{name}/1.png"), &format!("{name}/2.png")]);
            let listing = list(folder.path(), None, 1).unwrap();
            assert_eq!((listing.class_names, listing.train.len()), (vec!["bus".to_owned(), name.into()], 2));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn train_and_test_may_spell_a_class_in_two_ways() {
        let folder = tempfile::tempdir().unwrap();
        touch(folder.path(), &["train/a/1.png", "train/caf\u{e9}/1.png", "test/a/2.png", "test/cafe\u{301}/2.png"]);
        let listing = list(folder.path(), None, 1).unwrap();
        let labels: Vec<u16> = listing.test.iter().map(|entry| entry.label).collect();
        assert_eq!((listing.class_names.len(), labels), (2, vec![0, 1]));
    }

    #[test]
    fn what_is_passed_over_beside_train_and_test_is_said() {
        let folder = tempfile::tempdir().unwrap();
        touch(folder.path(), &["train/a/1.png", "test/a/1.png", "notes.txt", ".cache/x"]);
        assert!(ignored(folder.path(), None).unwrap().is_empty());
        touch(folder.path(), &["val/a/1.png"]);
        let [val, share] = &ignored(folder.path(), Some(0.3)).unwrap()[..] else { panic!("two sentences") };
        assert!(val.ends_with("holds folders that are passed over: val"), "{val}");
        assert!(share.starts_with("data.test_share has no effect: "), "{share}");
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_nowhere_are_told() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        touch(folder.path(), &["a/1.png", "a/2.png", "elsewhere/1.png"]);
        symlink(folder.path().join("elsewhere"), folder.path().join("b")).unwrap();
        let said = || {
            let mut reader = FolderReader { skip_broken: false, skipped: &mut Vec::new() };
            dangling(&reader.children(folder.path()).unwrap())
        };
        assert_eq!(said(), None);
        fs::remove_dir_all(folder.path().join("elsewhere")).unwrap();
        let told = format!("links that lead nowhere are passed over: {}", folder.path().join("b").display());
        assert_eq!(said(), Some(told));
        assert_eq!(list(folder.path(), None, 1).unwrap().class_names, ["a"]);
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
        touch(folder.path(), &["bundle/manifest.toml", "run/recipe.toml", "run/metrics.jsonl"]);
        assert_eq!(list(folder.path(), Some(0.3), 1).unwrap().class_names, ["a", "b"]);
        fs::create_dir(folder.path().join("c")).unwrap();
        let empty = list(folder.path(), None, 1).unwrap_err().to_string();
        assert!(empty.ends_with("c holds no JPEG, PNG or WebP files; put the class's pictures there, or remove it"));
        touch(folder.path(), &["c/notes.txt", "c/1.tif", "c/2.bmp"]);
        let other = list(folder.path(), None, 1).unwrap_err().to_string();
        let expected = "such as 1.tif, a TIFF file, which cannot be read: save it as JPEG or PNG";
        assert!(
            other.contains("c holds no JPEG, PNG or WebP files, but others, ") && other.ends_with(expected),
            "{other}"
        );
    }

    #[test]
    fn a_folder_too_high_up_is_told() {
        let folder = tempfile::tempdir().unwrap();
        touch(folder.path(), &["data/train/a/1.png", "data/test/a/2.png", "Train/a/1.png", "Test/a/2.png"]);
        let refused = list(folder.path(), None, 1).unwrap_err().to_string();
        assert!(refused.contains("Test holds folders, but no JPEG, PNG or WebP files"), "{refused}");
        assert!(refused.contains("train and test, in lower case"), "{refused}");
        list(&folder.path().join("data"), None, 1).unwrap();
    }

    /// Linux has names that are no text; other systems refuse them.
    #[cfg(target_os = "linux")]
    #[test]
    fn names_that_are_no_text_are_not_passed_over() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        touch(folder.path(), &["a/1.png", "a/2.png", "b/1.png", "b/2.png"]);
        fs::write(folder.path().join("a").join(OsStr::from_bytes(b"notes\xff.txt")), b"").unwrap();
        list(folder.path(), None, 1).unwrap();
        fs::write(folder.path().join("a").join(OsStr::from_bytes(b"3\xff.png")), b"").unwrap();
        let refused = list(folder.path(), None, 1).unwrap_err().to_string();
        assert!(refused.contains("a/3") && refused.contains("not valid Unicode; rename it"), "{refused}");
        fs::create_dir(folder.path().join(OsStr::from_bytes(b"c\xff"))).unwrap();
        let mut skipped = Vec::new();
        let listing = super::list(folder.path(), None, 1, true, &mut skipped).unwrap();
        assert_eq!((listing.class_names.len(), listing.train.len() + listing.test.len(), skipped.len()), (2, 4, 2));
    }
}
