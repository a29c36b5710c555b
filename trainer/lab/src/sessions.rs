//! Measures a classifier through all sessions, with the lab's draws and metrics.

use std::time::Instant;

use anyhow::{Result, bail};
use orco_benchmark::benchmark::{Draws, SEED, classes_after};
use orco_benchmark::{AccuracyCounts, Draw, SessionAccuracy, Summary, summarise};
use orco_lab::report::{Confusion, write_confusion};
use orco_state::target::argmax;
use orco_trainer::config::{Recipe, SHOTS};
use orco_trainer::data::dataset::{DataSet, Images};
use orco_trainer::platform::device::values;
use orco_trainer::platform::interrupt;
use orco_trainer::run::Run;
use orco_trainer::train::seed::part_seed;
use tch::{Tensor, no_grad};

use crate::measurements;

/// Images that are scored at a time.
const BATCH: i64 = 1000;

/// Measures a [`SessionLearner`] through all sessions, over several draws of the shots.
#[derive(Clone, Copy)]
pub(crate) struct Protocol<'a> {
    pub recipe: &'a Recipe,
    pub data: &'a DataSet,
    pub draws: usize,
    /// Name of the learner in results.
    pub name: &'a str,
    /// Keeps every draw, in files whose names begin with `file`, under a fingerprint of all that it depends on.
    pub run: &'a Run,
    pub file: &'a str,
    pub fingerprint: &'a str,
}

/// A method that learns session after session from training images.
pub(crate) trait SessionLearner {
    /// Returns to the state after the base session, before another draw.
    fn begin(&mut self, draw: usize) -> Result<()>;

    /// Learns a session's classes, numbered after the known ones. `shots` are training images, class after class,
    /// `SHOTS` of each.
    fn learn(&mut self, shots: &[usize]) -> Result<()>;

    /// Scores of the classes seen so far for some of the measured images.
    ///
    /// # Shapes
    /// `rows` i64 `[n]`: positions in the split's `measured`; returns f32 `[n, classes]`, on any device.
    fn scores(&self, rows: &Tensor) -> Tensor;
}

/// The shots of a session with their classes, numbered from `known` on.
pub(crate) fn labelled(shots: &[usize], known: i64) -> Vec<(usize, i64)> {
    shots.iter().enumerate().map(|(row, &image)| (image, known + (row / SHOTS) as i64)).collect()
}

/// Refuses a session's loss that is not finite.
pub(crate) fn check_loss(loss: &Tensor) -> Result<()> {
    if !loss.double_value(&[]).is_finite() {
        bail!("the loss of a session is no finite number any more");
    }
    Ok(())
}

impl<'a> Protocol<'a> {
    /// The images that accuracy is measured on.
    pub fn measured(&self) -> &'a Images {
        self.data.measured(self.recipe.split.measure_on)
    }

    /// Runs a learner through all sessions of every draw that was not measured before. With the first draw the run
    /// gets a picture of the confusion matrix after the last session: `confusion-NAME.svg` and `.png`, and `.json`
    /// with the counts.
    ///
    /// # Errors
    /// If a stop was asked for, it cannot learn, or a file cannot be written.
    pub fn run_sessions(&self, learner: &mut dyn SessionLearner) -> Result<Summary> {
        let mut draws = Vec::with_capacity(self.draws);
        for number in 0..self.draws {
            let file = self.run.path(&format!("{}-draw-{number}.json", self.file));
            draws.push(measurements::read_or_measure(&file, self.fingerprint, || self.draw(learner, number))?);
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
            let (row, counts) = self.measure(learner, number);
            rows.push(row);
            if draw == 0 && number == sessions.len() {
                let confusion = Confusion { session: number, counts };
                write_confusion(self.run.folder(), self.file, &confusion, &self.classes_after())?;
            }
        }
        Ok(Draw { seconds, ..Draw::of_rows(rows) })
    }

    /// Seeds torch for a session of a draw.
    pub fn seed(&self, draw: usize, session: usize) {
        tch::manual_seed(self.session_seed(draw, session) as i64);
    }

    /// The seed of a session of a draw.
    pub fn session_seed(&self, draw: usize, session: usize) -> u64 {
        part_seed(self.recipe.seed, (1000 * draw + session) as i64)
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

    /// Classes known after each session.
    fn classes_after(&self) -> Vec<usize> {
        let split = &self.data.split;
        classes_after(split.base_classes, split.sessions.iter().map(|session| session.classes.len()))
    }

    /// Accuracy on the classes seen so far, and the confusion matrix: counts of images by class (row) and answer
    /// (column).
    fn measure(&self, learner: &dyn SessionLearner, session: usize) -> (SessionAccuracy, Vec<Vec<u32>>) {
        let (split, images) = (&self.data.split, self.measured());
        let seen = self.classes_after()[session];
        let mut confusion = vec![vec![0; seen]; seen];
        let label = |row: &i64| usize::from(images.labels[split.measured[*row as usize]]);
        let known: Vec<i64> = (0..split.measured.len() as i64).filter(|row| label(row) < seen).collect();
        let mut counts = AccuracyCounts::new(seen, split.base_classes);
        for rows in known.chunks(BATCH as usize) {
            let scores = values(&no_grad(|| learner.scores(&Tensor::from_slice(rows))));
            for (row, scores) in rows.iter().zip(scores.chunks_exact(seen)) {
                counts.count_scores(label(row), scores);
                confusion[label(row)][argmax(scores)] += 1;
            }
        }
        (counts.row(session), confusion)
    }
}
