//! What is taught and asked: features of real pictures, computed by the float backbone.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use orco_micro::exchange::{Outcome, TaughtClass};
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::engine_choice::{EngineChoice, Workload};
use orco_runtime::image;

/// Classes that are learned.
const CLASSES: usize = 5;
/// Shots of each.
const SHOTS: usize = 5;

/// Classes with shots, and pictures to recognise.
pub struct Lesson {
    /// What is learned.
    pub classes: Vec<TaughtClass>,
    /// Features of the pictures that are classified.
    pub questions: Vec<Vec<f32>>,
    /// The class of each, by index into `classes`.
    truth: Vec<usize>,
    /// Classes that the bundle brings.
    base: usize,
}

impl Lesson {
    /// Takes the first classes of a folder, and the pictures of the same classes in another one.
    pub fn of(bundle: &Bundle, learn: &Path, ask: &Path) -> Result<Self> {
        let mut encoder = bundle.encoder(EngineChoice::Rten, Workload::Shots)?.encoder;
        let mut features = |picture: &Path, views| -> Result<Vec<f32>> {
            let picture = image::open(picture)?;
            Ok(bundle.features(&mut *encoder, &picture, views)?.into_iter().collect())
        };
        let folders: Vec<PathBuf> = entries(learn)?.into_iter().take(CLASSES).collect();
        ensure!(folders.len() == CLASSES, "{} has fewer than {CLASSES} classes", learn.display());
        let (mut classes, mut questions, mut truth) = (Vec::new(), Vec::new(), Vec::new());
        for (index, folder) in folders.iter().enumerate() {
            let label = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for picture in entries(&ask.join(&label))? {
                questions.push(features(&picture, 1)?);
                truth.push(index);
            }
            let shots = entries(folder)?.into_iter().take(SHOTS);
            let shots = shots.map(|shot| features(&shot, bundle.manifest.learn.views)).collect::<Result<Vec<_>>>()?;
            ensure!(shots.len() == SHOTS, "{} has fewer than {SHOTS} pictures", folder.display());
            classes.push(TaughtClass { label, shots });
        }
        Ok(Self { classes, questions, truth, base: bundle.base_model.classes.len() })
    }

    /// How many pictures an outcome recognises, all known classes competing.
    pub fn right(&self, outcome: &Outcome) -> usize {
        let best = |scores: &Vec<f32>| (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
        let answers = outcome.scores.iter().map(best).zip(&self.truth);
        answers.filter(|(answer, truth)| *answer == Some(self.base + **truth)).count()
    }
}

/// What a folder holds, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
