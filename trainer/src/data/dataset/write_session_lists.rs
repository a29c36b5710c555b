//! Writing a split as the field's session lists, which [`super::session_lists`] describes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{ListNames, Split};
use crate::config::SHOTS;
use crate::run::files::write_atomically;

/// Writes the lists of a split: the base images that training may see as `session_1.txt`, then the first [`SHOTS`]
/// candidates of each class of a session.
///
/// Read again as `--lists`, these shots are the fixed draw.
///
/// # Errors
/// If the folder or a file cannot be written, another list lies there, or the recipe draws fewer candidates than shots.
pub fn write_lists(split: &Split, names: &ListNames, folder: &Path) -> Result<()> {
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
    let mut files = Vec::new();
    for (number, list) in lists.iter().enumerate() {
        let lines = list.iter().map(|&index| match names {
            ListNames::Numbers => format!("{index}\n"),
            ListNames::Paths { prefix, names } => format!("{prefix}{}\n", names[index]),
        });
        files.push((folder.join(format!("session_{}.txt", number + 1)), lines.collect::<String>()));
    }
    for (path, text) in &files {
        if fs::symlink_metadata(path).is_ok() && fs::read(path).ok().as_deref() != Some(text.as_bytes()) {
            bail!("{} is another list already; choose another folder with --output", path.display());
        }
    }
    files.iter().try_for_each(|(path, text)| write_atomically(path, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::*;
    use crate::config::{MeasureOn, SplitConfig};
    use crate::data::dataset::{Images, SessionLists};

    fn images() -> Images {
        let labels: Vec<u16> = (0..4).flat_map(|class| std::iter::repeat_n(class, 10)).collect();
        Images { pixels: Tensor::zeros([40, 3, 2, 2], (Kind::Uint8, Device::Cpu)), labels }
    }

    #[test]
    fn written_lists_are_read_as_the_fixed_draw() {
        let train = images();
        let config = SplitConfig {
            base_classes: 2,
            sessions: 2,
            ways: 1,
            holdout_per_class: 2,
            set_aside_per_class: 0,
            measure_on: MeasureOn::Holdout,
        };
        let paths = ListNames::Paths {
            prefix: "CUB_200_2011/images/",
            names: (0..40).map(|index| format!("{:03}.Bird/{index}.jpg", index / 10 + 1)).collect(),
        };
        for names in [ListNames::Numbers, paths] {
            let folder = tempfile::tempdir().unwrap();
            let lists = Some(SessionLists { folder: folder.path(), names: &names });
            let drawn = Split::new(&config, 6, &train, &train, None, 3).unwrap();
            write_lists(&drawn, &names, folder.path()).unwrap();
            let again = Split::new(&config, 6, &train, &train, lists, 4).unwrap();
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
                Split::new(&config, 6, &train, &train, lists, 4).unwrap();
                fs::write(folder.path().join("session_2.txt"), "a/003.Bird/77.jpg\n").unwrap();
                let error = Split::new(&config, 6, &train, &train, lists, 4).unwrap_err();
                let error = error.to_string();
                assert!(error.contains("session_2.txt, line 1: \"a/003.Bird/77.jpg\" is no training image"), "{error}");
            }
        }
    }

    #[test]
    fn too_few_candidates_make_no_list() {
        let train = images();
        let config = SplitConfig {
            base_classes: 2,
            sessions: 2,
            ways: 1,
            holdout_per_class: 0,
            set_aside_per_class: 0,
            measure_on: MeasureOn::Test,
        };
        let split = Split::new(&config, 3, &train, &train, None, 1).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let error = write_lists(&split, &ListNames::Numbers, folder.path()).unwrap_err().to_string();
        assert!(error.contains("export.candidates_per_class is 3"), "{error}");
    }
}
