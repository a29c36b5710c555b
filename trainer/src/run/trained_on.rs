//! Digests of what a run was trained on. Without them, a run continued with other images would silently learn wrong
//! labels.

use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::run::checksum::{self, Checksum};
use crate::run::files::write_atomically;

/// Name of the file in the run's folder.
pub(super) const FILE: &str = "trained-on.json";

/// Digests (SHA-256, in hexadecimal) of everything outside the recipe that decides what a run learns; a data set's are
/// computed in `data/digest.rs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainedOn {
    /// Names of the classes, by label.
    pub classes: String,
    /// Number of training images.
    pub count: usize,
    /// Labels and pixels of the training images.
    pub images: String,
    /// Which images are the base session's.
    pub base: String,
    /// The fixed draw of the session lists, if there were any.
    pub lists: Option<String>,
    /// Content of the file that `backbone.weights` names, if it does.
    pub weights: Option<String>,
    /// Content of the file that `backbone.onnx` or the command line names, if one does; none in runs from before this
    /// was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onnx: Option<String>,
}

impl TrainedOn {
    /// What is of the data, and of the two files beside them that a recipe may name, each without the other.
    pub(super) fn data_and_files(&self) -> (Self, [&Option<String>; 2]) {
        (Self { weights: None, onnx: None, ..self.clone() }, [&self.weights, &self.onnx])
    }

    /// Refuses to continue the run in `folder` if it was trained on something else. A run from before digests were kept
    /// is accepted.
    ///
    /// # Errors
    /// If something differs, with what it is.
    pub(super) fn check(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let damaged = || format!("{} is damaged; remove it if the run's data are still the same", path.display());
        let there: Self = serde_json::from_slice(&bytes).with_context(damaged)?;
        ensure!(checksum::may_be_used(&path, Checksum::of(&bytes)), "{}", damaged());
        // Lists may come or go: they choose shots, which training never sees; other lists are a mistake.
        let other_lists = there.lists.is_some() && self.lists.is_some() && there.lists != self.lists;
        let other_onnx = there.onnx.is_some() && there.onnx != self.onnx;
        let what = match self {
            _ if there.classes != self.classes => "other classes",
            _ if there.count != self.count => {
                bail!(
                    "{} holds a run that was trained on {} images, but there are {} now; name the same data, or \
                     another folder with --run",
                    folder.display(),
                    there.count,
                    self.count
                )
            }
            _ if there.images != self.images => "other images or labels",
            _ if there.base != self.base => "another split",
            _ if other_lists => "other session lists",
            _ if there.weights != self.weights => "another content of backbone.weights",
            _ if other_onnx => "another content of backbone.onnx",
            _ => return Ok(()),
        };
        bail!(
            "{} holds a run that was trained on {what}; name the same data, or another folder with --run",
            folder.display()
        )
    }

    /// Keeps the digests in the run's folder; those of lists stay where this start goes without.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let before = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        let kept = Self { lists: self.lists.clone().or(before.and_then(|before| before.lists)), ..self.clone() };
        write_atomically(&path, &checksum::json(&kept).context(FILE)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Recipe;
    use crate::data::dataset::{self, DataOrigin, DataSet};
    use crate::data::digest::{BLOCK, digest_training_data};
    use crate::model::WeightFile;

    fn data() -> DataSet {
        let recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap();
        dataset::open(&recipe, &DataOrigin::default()).unwrap()
    }

    #[test]
    fn whatever_differs_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut data = data();
        let first = digest_training_data(&data, None, None).unwrap();
        first.check(folder.path()).unwrap();
        first.write(folder.path()).unwrap();
        first.check(folder.path()).unwrap();
        let refused = |data: &DataSet| {
            digest_training_data(data, None, None).unwrap().check(folder.path()).unwrap_err().to_string()
        };

        data.class_names.swap(0, 1);
        assert!(refused(&data).contains("trained on other classes; name the same data"));
        data.class_names.swap(0, 1);
        data.train.labels.swap(0, 200);
        assert!(refused(&data).contains("other images or labels"));
        data.train.labels.swap(0, 200);
        let _ = data.train.pixels.get(BLOCK as i64 + 3).get(0).get(0).get(0).bitwise_xor_(1);
        assert!(refused(&data).contains("other images or labels"));
        let _ = data.train.pixels.get(BLOCK as i64 + 3).get(0).get(0).get(0).bitwise_xor_(1);
        let last = data.split.base.pop();
        assert!(refused(&data).contains("another split"));
        data.split.base.extend(last);

        // Lists may be added, but not others.
        data.split.fixed_draw = true;
        digest_training_data(&data, None, None).unwrap().check(folder.path()).unwrap();
        digest_training_data(&data, None, None).unwrap().write(folder.path()).unwrap();
        data.split.fixed_draw = false;
        digest_training_data(&data, None, None).unwrap().write(folder.path()).unwrap();
        data.split.fixed_draw = true;
        data.split.candidates[0].swap(0, 7);
        assert!(refused(&data).contains("other session lists"));
        data.split.candidates[0].swap(0, 7);

        let path = folder.path().join("weights");
        let on = |content: &str| {
            std::fs::write(&path, content).unwrap();
            digest_training_data(&data, Some(WeightFile::read(&path).unwrap().digest()), None).unwrap()
        };
        on("some").write(folder.path()).unwrap();
        let refused = on("other").check(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("another content of backbone.weights"), "{refused}");
    }

    #[test]
    fn another_imported_backbone_is_noticed() {
        let (folder, data) = (tempfile::tempdir().unwrap(), data());
        let on = |digest: Option<[u8; 32]>| digest_training_data(&data, None, digest).unwrap();
        let [none, one, other] = [None, Some([1; 32]), Some([2; 32])].map(on);
        // A run that does not say is taken at its word.
        none.write(folder.path()).unwrap();
        one.check(folder.path()).unwrap();
        one.write(folder.path()).unwrap();
        one.check(folder.path()).unwrap();
        let refused = other.check(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("another content of backbone.onnx"), "{refused}");
        // As ranks compare them.
        assert_eq!(one.data_and_files().0, other.data_and_files().0);
        assert_ne!(one.data_and_files().1, other.data_and_files().1);
    }
}
