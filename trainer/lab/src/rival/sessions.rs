//! The way through the sessions: the lab's draws and metrics, whoever answers.

use std::time::Instant;

use anyhow::Result;
use orco_benchmark::benchmark::{Draws, SEED};
use orco_benchmark::{AccuracyCounts, Draw, SessionAccuracy, Summary, summarise};
use tch::{Device, Kind, Tensor, no_grad};

use super::embedding::{Embedding, class_means};
use crate::measurements;
use orco_trainer::config::{MeasureOn, Recipe, SHOTS};
use orco_trainer::data::dataset::{DataSet, Images};
use orco_trainer::platform::interrupt;
use orco_trainer::run::Run;
use orco_trainer::train::fit::seed_torch;

/// Images that are scored at a time.
const BATCH: i64 = 1000;

/// What is measured, and over how many draws of the shots.
#[derive(Clone, Copy)]
pub(super) struct Protocol<'a> {
    pub recipe: &'a Recipe,
    pub data: &'a DataSet,
    pub draws: usize,
    /// Who answers.
    pub name: &'static str,
    /// Keeps every draw, under a key of all that it depends on.
    pub run: &'a Run,
    pub key: &'a str,
}

/// Someone on the way through the sessions.
pub(super) trait SessionLearner {
    /// Forgets what was learned in sessions, before another draw.
    fn begin(&mut self, draw: usize) -> Result<()>;

    /// Learns a session's classes, which follow those that are known, from training images, class after class, `SHOTS`
    /// of each.
    fn learn(&mut self, shots: &[usize]) -> Result<()>;

    /// Scores of the classes seen so far, f32 `[rows, classes]` on any device, for some of the measured images,
    /// given as rows of the split's list, i64.
    fn scores(&self, rows: &Tensor) -> Tensor;
}

/// How classes are answered with by features and class means.
pub(super) trait PrototypeClassifier {
    /// Scores of every class, f32 `[n, c]`.
    ///
    /// # Shapes
    /// `features` f32 `[n, t, d]`, `classes` f32 `[c, t, d]`, of which the first `base` are base classes.
    fn scores(&self, features: &Tensor, classes: &Tensor, base: usize) -> Tensor;
}

impl<'a> Protocol<'a> {
    /// Images accuracy is measured on.
    pub fn measured(&self) -> &'a Images {
        if self.recipe.split.measure_on == MeasureOn::Test { &self.data.test } else { &self.data.train }
    }

    /// Measures a rule over features of a backbone that stands still.
    ///
    /// # Errors
    /// If a stop was asked for.
    pub fn by_means(&self, embedding: &Embedding, rule: &dyn PrototypeClassifier) -> Result<Summary> {
        let base = self.data.split.base_classes;
        self.walk(&mut PrototypeLearner { embedding, rule, base, classes: embedding.means.shallow_clone() })
    }

    /// Leads a learner through all sessions of every draw that was not measured before.
    ///
    /// # Errors
    /// If a stop was asked for, or it cannot learn.
    pub fn walk(&self, learner: &mut dyn SessionLearner) -> Result<Summary> {
        let mut draws = Vec::with_capacity(self.draws);
        for number in 0..self.draws {
            let file = self.run.path(&format!("{}-draw-{number}.json", self.name));
            draws.push(measurements::once(&file, self.key.into(), || self.draw(learner, number))?);
            log::info!("{}: {} of {} draws are measured", self.name, number + 1, self.draws);
        }
        Ok(summarise(self.name, &draws))
    }

    fn draw(&self, learner: &mut dyn SessionLearner, draw: usize) -> Result<Draw> {
        let sessions = &self.data.split.sessions;
        let (mut rows, mut seconds) = (Vec::with_capacity(sessions.len() + 1), 0.0);
        learner.begin(draw)?;
        for number in 0..=sessions.len() {
            interrupt::check()?;
            if number > 0 {
                let started = Instant::now();
                learner.learn(&self.shots(number, draw))?;
                seconds += started.elapsed().as_secs_f64();
            }
            rows.push(self.row(learner, number));
        }
        Ok(Draw { rows, operations: 0.0, seconds })
    }

    /// Seeds torch for a session of a draw.
    pub fn seed(&self, draw: usize, session: usize) {
        seed_torch(self.recipe.seed, (1000 * draw + session) as i64);
    }

    /// The shots of a session: those that the lab's learners get.
    pub fn shots(&self, session: usize, draw: usize) -> Vec<usize> {
        let split = &self.data.split;
        let draws = Draws { seed: SEED, shots: SHOTS, fixed_draw: split.fixed_draw };
        let classes = split.sessions[session - 1].classes.iter().map(|class| usize::from(*class));
        let chosen =
            |class: usize| draws.choose(split.candidates[class - split.base_classes].clone(), class as u32, draw);
        classes.flat_map(chosen).collect()
    }

    /// Measures the classes seen so far.
    fn row(&self, learner: &dyn SessionLearner, session: usize) -> SessionAccuracy {
        let (split, images) = (&self.data.split, self.measured());
        let new: usize = split.sessions[..session].iter().map(|session| session.classes.len()).sum();
        let seen = split.base_classes + new;
        let label = |row: &i64| usize::from(images.labels[split.measured[*row as usize]]);
        let known: Vec<i64> = (0..split.measured.len() as i64).filter(|row| label(row) < seen).collect();
        let mut counts = AccuracyCounts::new(seen, split.base_classes);
        for rows in known.chunks(BATCH as usize) {
            let scores = no_grad(|| learner.scores(&Tensor::from_slice(rows)).to_kind(Kind::Float));
            let scores = Vec::<f32>::try_from(scores.to_device(Device::Cpu).contiguous().view(-1)).expect("scores");
            for (row, scores) in rows.iter().zip(scores.chunks_exact(seen)) {
                counts.count_scores(label(row), scores);
            }
        }
        counts.row(session)
    }
}

/// A learner that keeps the mean of each class.
struct PrototypeLearner<'a> {
    embedding: &'a Embedding,
    rule: &'a dyn PrototypeClassifier,
    base: usize,
    /// `[seen, t, d]`.
    classes: Tensor,
}

impl SessionLearner for PrototypeLearner<'_> {
    fn begin(&mut self, _: usize) -> Result<()> {
        self.classes = self.embedding.means.shallow_clone();
        Ok(())
    }

    fn learn(&mut self, shots: &[usize]) -> Result<()> {
        self.classes = Tensor::cat(&[&self.classes, &new_means(&self.embedding.shots(shots))], 0);
        Ok(())
    }

    fn scores(&self, rows: &Tensor) -> Tensor {
        self.rule.scores(&self.embedding.measured.index_select(0, rows), &self.classes, self.base)
    }
}

/// Means of the shots of each class, `SHOTS` rows of a class after each other: `[shots, t, d]` to `[classes, t, d]`.
pub(super) fn new_means(shots: &Tensor) -> Tensor {
    let classes = shots.size()[0] / SHOTS as i64;
    let labels =
        Tensor::arange(classes, (Kind::Int64, shots.device())).repeat_interleave_self_int(SHOTS as i64, 0, None);
    class_means(shots, &labels, classes)
}
