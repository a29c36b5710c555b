//! The field's session lists: which training images are the shots of a session.
//!
//! `session_1.txt` is the base session, `session_2.txt` the first incremental one. A line is the number of a training
//! image (CIFAR-100), or its path, such as `MINI-ImageNet/train/n01532829/n0153282900000792.jpg` or
//! `CUB_200_2011/images/101.White_Pelican/White_Pelican_0081_96148.jpg`. Of a path, the last two parts count: class
//! and file, whatever folder the data set was in where the list was made. Backslashes, and the marks that Windows puts
//! before a text, are taken too.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::Images;
use crate::config::SHOTS;

/// Why a session list was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// A session list could not be read.
    #[error("cannot read the session list {}; pass the folder with session_2.txt ... as --lists", path.display())]
    Read {
        /// The list's path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line of a list is no index of a training image.
    #[error("{}, line {line}: \"{text}\" is not an index below {limit}", path.display())]
    Index {
        /// The list's path.
        path: PathBuf,
        /// Line number from 1.
        line: usize,
        /// What stands there.
        text: String,
        /// Number of training images.
        limit: usize,
    },
    /// A line of a list names no training image.
    #[error("{}, line {line}: \"{text}\" is no training image of the data set{remedy}", path.display())]
    Name {
        /// The list's path.
        path: PathBuf,
        /// Line number from 1.
        line: usize,
        /// What stands there.
        text: String,
        /// What to do after a semicolon, if it is known.
        remedy: String,
    },
    /// A list names an image of a class that another session brings.
    #[error(
        "{}, line {line}: image {index}, \"{text}\", is of class {class}{name}, which does not belong to this session",
        path.display()
    )]
    Class {
        /// The list's path.
        path: PathBuf,
        /// Line number from 1.
        line: usize,
        /// What stands there.
        text: String,
        /// Index of the image.
        index: usize,
        /// Its class.
        class: u16,
        /// The class's name in brackets, if it is known.
        name: String,
    },
    /// A list does not hold the shots of one draw for a class.
    #[error("{}: class {class}{name} has {actual} different images, but a draw has {SHOTS} shots", path.display())]
    Draw {
        /// The list's path.
        path: PathBuf,
        /// The class.
        class: u16,
        /// Its name in brackets, if it is known.
        name: String,
        /// Different images of it in the list.
        actual: usize,
    },
}

/// How session lists name training images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListNames {
    /// By number, from 0.
    Numbers,
    /// By path.
    Paths {
        /// What is written before `class/file`.
        prefix: &'static str,
        /// `class/file` of each training image.
        names: Vec<String>,
    },
}

impl ListNames {
    /// Whether a training image lies in the folder that the path of an image names.
    pub(super) fn know_folder_of(&self, path: &str) -> bool {
        let Self::Paths { names, .. } = self else { return false };
        let folder = path.trim().rsplit(['/', '\\']).nth(1);
        folder.is_some() && names.iter().any(|name| name.rsplit('/').nth(1) == folder)
    }
}

/// The field's session lists of a data set.
#[derive(Clone, Copy, Debug)]
pub struct SessionLists<'a> {
    /// The folder that they lie in.
    pub folder: &'a Path,
    /// How they name the training images.
    pub names: &'a ListNames,
}

/// Reads lists of one data set.
pub(super) struct ListReader<'a> {
    train: &'a Images,
    /// Number of each `class/file`; nothing where lists hold numbers.
    numbers: Option<HashMap<&'a str, usize>>,
}

impl<'a> ListReader<'a> {
    pub fn new(train: &'a Images, names: &'a ListNames) -> Self {
        let numbers = match names {
            ListNames::Numbers => None,
            ListNames::Paths { names, .. } => {
                Some(names.iter().enumerate().map(|(index, name)| (name.as_str(), index)).collect())
            }
        };
        Self { train, numbers }
    }

    /// Reads the list of a session with these classes into the drawn images of each class.
    pub fn read(&self, path: &Path, classes: &[u16], drawn: &mut [Vec<usize>]) -> Result<(), ListError> {
        let text = fs::read_to_string(path).map_err(|source| ListError::Read { path: path.into(), source })?;
        for (line, text) in without_mark(&text).lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let index = self.index(text.trim()).ok_or_else(|| {
                let (path, line, text) = (path.into(), line + 1, text.into());
                match self.numbers {
                    None => ListError::Index { path, line, text, limit: self.train.len() },
                    Some(_) => ListError::Name { path, line, text, remedy: String::new() },
                }
            })?;
            let class = self.train.labels[index];
            if !classes.contains(&class) {
                let (path, line, text, name) = (path.into(), line + 1, text.into(), String::new());
                return Err(ListError::Class { path, line, text, index, class, name });
            }
            let shots = &mut drawn[usize::from(class)];
            if !shots.contains(&index) {
                shots.push(index);
            }
        }
        for &class in classes {
            let actual = drawn[usize::from(class)].len();
            if actual != SHOTS {
                return Err(ListError::Draw { path: path.into(), class, name: String::new(), actual });
            }
        }
        Ok(())
    }

    fn index(&self, text: &str) -> Option<usize> {
        match &self.numbers {
            None => text.parse().ok().filter(|&index| index < self.train.len()),
            Some(numbers) => number_of(numbers, text).or_else(|| number_of(numbers, &text.replace('\\', "/"))),
        }
    }
}

/// The number of the image that a path's class and file name.
fn number_of(numbers: &HashMap<&str, usize>, path: &str) -> Option<usize> {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at + 1);
    let start = slashes.nth(1).unwrap_or(0);
    numbers.get(&path[start..]).copied()
}

/// A text without the byte order mark that Windows puts before it.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
