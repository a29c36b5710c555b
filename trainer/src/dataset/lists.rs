//! The field's session lists: which training images are the shots of a session.
//!
//! `session_1.txt` is the base session, `session_2.txt` the first incremental one. A line is the number of a training
//! image (CIFAR-100), or its path, such as `MINI-ImageNet/train/n01532829/n0153282900000792.jpg` or
//! `CUB_200_2011/images/101.White_Pelican/White_Pelican_0081_96148.jpg`. Of a path, the last two parts count: class
//! and file, whatever folder the data set was in where the list was made.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::split::{SHOTS, Session, SplitError};
use super::{Images, Split};
use crate::run::write_atomically;

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

    /// Reads one list into the drawn images of each class.
    pub fn read(&self, path: &Path, session: &Session, drawn: &mut [Vec<usize>]) -> Result<(), SplitError> {
        let text = fs::read_to_string(path).map_err(|source| SplitError::Read { path: path.into(), source })?;
        for (line, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let index = self.index(text.trim()).ok_or_else(|| {
                let (path, line, text) = (path.into(), line + 1, text.into());
                match self.numbers {
                    None => SplitError::Index { path, line, text, limit: self.train.len() },
                    Some(_) => SplitError::Name { path, line, text },
                }
            })?;
            let class = self.train.labels[index];
            if !session.classes.contains(&class) {
                return Err(SplitError::Class { path: path.into(), index, class });
            }
            let shots = &mut drawn[usize::from(class)];
            if !shots.contains(&index) {
                shots.push(index);
            }
        }
        for &class in &session.classes {
            let actual = drawn[usize::from(class)].len();
            if actual != SHOTS {
                return Err(SplitError::Draw { path: path.into(), class, actual });
            }
        }
        Ok(())
    }

    fn index(&self, text: &str) -> Option<usize> {
        match &self.numbers {
            None => text.parse().ok().filter(|&index| index < self.train.len()),
            Some(numbers) => {
                let mut slashes = text.rmatch_indices('/').map(|(at, _)| at + 1);
                let start = slashes.nth(1).unwrap_or(0);
                numbers.get(&text[start..]).copied()
            }
        }
    }
}

/// Writes the lists of a split: the base images that training may see as `session_1.txt`, then the first [`SHOTS`]
/// candidates of each class of a session.
///
/// Read again as `--lists`, these shots are the fixed draw.
///
/// # Errors
/// If the folder or a file cannot be written, or the recipe draws fewer candidates than shots.
pub fn write_lists(split: &Split, names: &ListNames, folder: &Path) -> anyhow::Result<()> {
    use anyhow::{Context, bail};
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut lists = vec![split.base.clone()];
    for session in &split.sessions {
        let mut shots = Vec::new();
        for &class in &session.classes {
            let candidates = &split.candidates[usize::from(class) - split.base_classes];
            if candidates.len() < SHOTS {
                bail!("a draw has {SHOTS} shots, but export.candidates_per_class is {}", candidates.len());
            }
            shots.extend_from_slice(&candidates[..SHOTS]);
        }
        lists.push(shots);
    }
    for (number, list) in lists.iter().enumerate() {
        let lines = list.iter().map(|&index| match names {
            ListNames::Numbers => format!("{index}\n"),
            ListNames::Paths { prefix, names } => format!("{prefix}{}\n", names[index]),
        });
        write_atomically(&folder.join(format!("session_{}.txt", number + 1)), lines.collect::<String>().as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::*;
    use crate::config::{MeasureOn, SplitConfig};

    fn images() -> Images {
        let labels: Vec<u16> = (0..4).flat_map(|class| std::iter::repeat_n(class, 10)).collect();
        Images { pixels: Tensor::zeros([40, 3, 2, 2], (Kind::Uint8, Device::Cpu)), labels }
    }

    #[test]
    fn written_lists_are_read_as_the_fixed_draw() {
        let train = images();
        let config =
            SplitConfig { base_classes: 2, sessions: 2, ways: 1, holdout_per_class: 2, measure_on: MeasureOn::Holdout };
        let paths = ListNames::Paths {
            prefix: "CUB_200_2011/images/",
            names: (0..40).map(|index| format!("{:03}.Bird/{index}.jpg", index / 10 + 1)).collect(),
        };
        for names in [ListNames::Numbers, paths] {
            let folder = tempfile::tempdir().unwrap();
            let drawn = Split::with_names(&config, 6, &train, &train, None, &names, 3).unwrap();
            write_lists(&drawn, &names, folder.path()).unwrap();
            let again = Split::with_names(&config, 6, &train, &train, Some(folder.path()), &names, 4).unwrap();
            for (one, two) in drawn.candidates.iter().zip(&again.candidates) {
                assert_eq!(one[..SHOTS], two[..SHOTS]);
            }
            assert!(again.fixed_draw && !drawn.fixed_draw);
            let base = fs::read_to_string(folder.path().join("session_1.txt")).unwrap();
            assert_eq!(base.lines().count(), 16);
            let first = fs::read_to_string(folder.path().join("session_2.txt")).unwrap();
            if names != ListNames::Numbers {
                assert!(first.lines().all(|line| line.starts_with("CUB_200_2011/images/003.Bird/")), "{first}");
                // Another root, a Windows line end and no final one, as lists in the wild have them.
                fs::write(folder.path().join("session_2.txt"), first.replace("CUB_200_2011/images", "data").trim_end())
                    .unwrap();
                Split::with_names(&config, 6, &train, &train, Some(folder.path()), &names, 4).unwrap();
                fs::write(folder.path().join("session_2.txt"), "a/003.Bird/77.jpg\n").unwrap();
                let error = Split::with_names(&config, 6, &train, &train, Some(folder.path()), &names, 4).unwrap_err();
                let error = error.to_string();
                assert!(error.contains("session_2.txt, line 1: \"a/003.Bird/77.jpg\" is no training image"), "{error}");
            }
        }
    }

    #[test]
    fn too_few_candidates_make_no_list() {
        let train = images();
        let config =
            SplitConfig { base_classes: 2, sessions: 2, ways: 1, holdout_per_class: 0, measure_on: MeasureOn::Test };
        let split = Split::new(&config, 3, &train, &train, None, 1).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let error = write_lists(&split, &ListNames::Numbers, folder.path()).unwrap_err().to_string();
        assert!(error.contains("export.candidates_per_class is 3"), "{error}");
    }
}
