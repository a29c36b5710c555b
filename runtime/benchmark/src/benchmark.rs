//! Features for measuring: of the images accuracy is measured on, and of candidate shots.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use orco_core::random::Random;
use orco_runtime::bundle::{Bundle, OpenError};
use orco_runtime::manifest::BENCHMARK;
use orco_state::bank::Bank;
use orco_state::codec::{self, DecodeError, FileKind};
use orco_state::session::NewClass;
use orco_state::state::BaseModel;

/// Quantised features of a data set, split by the few-shot class-incremental protocol. Classes are numbered as the
/// device numbers them: base classes, then the incremental ones in the order of their sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Benchmark {
    /// What it was computed from, in words.
    pub source: String,
    /// Labels of the incremental classes.
    pub labels: Vec<String>,
    /// New classes of each session.
    pub ways: Vec<u32>,
    /// Shots per class in a draw.
    pub shots: u32,
    /// Mean feature vector of each base class over its training images, `[base, features]`.
    pub base_means: Vec<f32>,
    /// Images accuracy is measured on, one view each, with their classes.
    pub measured: Bank,
    /// Where each of them stands in its data set.
    pub measured_sources: Vec<u32>,
    /// Whether that is the test set; else it is the training set.
    pub measured_on_test: bool,
    /// Candidate shots of the incremental classes, with their views.
    pub candidates: Bank,
    /// Where each of them stands in its data set.
    pub candidate_sources: Vec<u32>,
    /// Whether each class's first `shots` candidates are the field's fixed draw.
    pub fixed_draw: bool,
}

/// Seed of the draws that every program takes where it is told no other.
pub const SEED: u64 = 1;

/// How the shots of a draw are chosen: draw 0 takes the first candidates of a class where they are the field's fixed
/// draw, all others are seeded choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    /// Seed of the choices.
    pub seed: u64,
    /// Shots per class.
    pub shots: usize,
    /// Whether each class's first candidates are the field's fixed draw.
    pub fixed_draw: bool,
}

impl Draws {
    /// The candidates of a class, in the order of the data set's split, that make up a draw.
    pub fn choose(&self, mut members: Vec<usize>, class: u32, draw: usize) -> Vec<usize> {
        if draw > 0 || !self.fixed_draw {
            Random::new(self.seed, &format!("draw {draw} of class {class}")).shuffle(&mut members);
        }
        members.truncate(self.shots);
        members
    }
}

/// How many of the draws that are `asked` for differ, where classes have so many candidates: one alone where a draw of
/// `shots` takes all candidates of every class.
pub fn distinct_draws(asked: usize, shots: usize, candidates: impl IntoIterator<Item = usize>) -> usize {
    if candidates.into_iter().all(|count| count <= shots) { asked.min(1) } else { asked }
}

/// Classes known after each session: the base classes after session 0, then as many more as each session's `ways`.
pub fn classes_after(base: usize, ways: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut known = Vec::from([base]);
    for new in ways {
        known.push(known[known.len() - 1] + new);
    }
    known
}

/// Why a bundle has nothing to be measured on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchmarkError {
    /// The bundle has no benchmark file, or it was left out where the bundle was copied, as no device needs it.
    #[error(
        "the bundle {} carries no {BENCHMARK} to measure on: `orco-train run` writes one, and packages leave it out",
        folder.display()
    )]
    Missing {
        /// The bundle.
        folder: PathBuf,
    },
    /// The file cannot be read, or is not the one that the manifest describes.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file could not be decoded.
    #[error("{} cannot be used", path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: DecodeError,
    },
}

impl Benchmark {
    /// Reads a bundle's benchmark file.
    ///
    /// # Errors
    /// [`BenchmarkError`] if the bundle has none, or it is damaged.
    pub fn of(bundle: &Bundle) -> Result<Self, BenchmarkError> {
        let missing = || BenchmarkError::Missing { folder: bundle.folder.clone() };
        let bytes = bundle.read(BENCHMARK).map_err(|error| match error {
            OpenError::Unlisted { .. } => missing(),
            OpenError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => missing(),
            error => error.into(),
        })?;
        let path = bundle.folder.join(BENCHMARK);
        let benchmark: Self = codec::decode(FileKind::Benchmark, &bytes)
            .map_err(|source| BenchmarkError::Decode { path: path.clone(), source })?;
        if benchmark.is_sound(&bundle.base_model) {
            Ok(benchmark)
        } else {
            Err(BenchmarkError::Decode { path, source: DecodeError::Body })
        }
    }

    /// As [`Self::of`]; none if the bundle carries no such file.
    ///
    /// # Errors
    /// [`BenchmarkError`] if it is damaged.
    pub fn if_carried(bundle: &Bundle) -> Result<Option<Self>, BenchmarkError> {
        match Self::of(bundle) {
            Ok(benchmark) => Ok(Some(benchmark)),
            Err(BenchmarkError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The classes of a session (from 1) with their shots in draw number `draw`: draw 0 is the field's fixed one where
    /// there is one, all others are seeded choices among the candidates.
    ///
    /// # Panics
    /// If there is no such session.
    pub fn session(&self, base_model: &BaseModel, session: usize, draw: usize, seed: u64) -> Vec<NewClass> {
        let base = base_model.classes.len();
        let known = self.classes_after(base);
        (known[session - 1]..known[session])
            .map(|class| {
                let shots = self.draw(class as u32, draw, seed);
                let features = |shot: usize| {
                    let inputs = self.candidates.inputs();
                    let mut views = vec![0.0; self.candidates.views() * inputs];
                    for (view, row) in views.chunks_exact_mut(inputs).enumerate() {
                        self.candidates.as_exemplars().read(shot, view, row);
                    }
                    views
                };
                NewClass { label: self.labels[class - base].clone(), shots: shots.into_iter().map(features).collect() }
            })
            .collect()
    }

    /// How many of the draws that are `asked` for differ: deviations are over these.
    pub fn distinct_draws(&self, asked: usize) -> usize {
        let candidates = self.candidates.by_class();
        distinct_draws(asked, self.shots as usize, candidates.values().map(Vec::len))
    }

    /// Classes known after each session, as [`classes_after`] counts them.
    pub fn classes_after(&self, base: usize) -> Vec<usize> {
        classes_after(base, self.ways.iter().map(|ways| *ways as usize))
    }

    /// The images accuracy is measured on, ordered by their classes: the classes, and the features `[n, features]`.
    pub(crate) fn measured_by_class(&self) -> (Vec<u32>, Vec<f32>) {
        let classes = self.measured.classes();
        let mut order: Vec<usize> = (0..classes.len()).collect();
        order.sort_by_key(|picture| classes[*picture]);
        let (clean, inputs) = (self.measured.clean(), self.measured.inputs());
        let features = order.iter().flat_map(|picture| &clean[picture * inputs..][..inputs]).copied().collect();
        (order.iter().map(|picture| classes[*picture]).collect(), features)
    }

    /// The candidates of a class that make up a draw, as indices among all candidates.
    pub fn draw(&self, class: u32, draw: usize, seed: u64) -> Vec<usize> {
        let members = self.candidates.classes().iter().enumerate().filter(|(_, of)| **of == class);
        let members = members.map(|(index, _)| index).collect();
        Draws { seed, shots: self.shots as usize, fixed_draw: self.fixed_draw }.choose(members, class, draw)
    }

    /// Whether all parts fit together and onto the base model; to be asked after decoding.
    pub fn is_sound(&self, base_model: &BaseModel) -> bool {
        let base = base_model.classes.len();
        let features = base_model.head.inputs;
        let classes = base + self.labels.len();
        let below = |bank: &Bank| bank.classes().iter().all(|class| (*class as usize) < classes);
        let counted: Option<usize> = self.ways.iter().try_fold(0usize, |sum, &ways| sum.checked_add(ways as usize));
        // Asked only once the number of classes is known to be bounded.
        let enough = |class: usize| {
            let members = self.candidates.classes().iter().filter(|of| **of as usize == class).count();
            self.shots > 0 && members >= self.shots as usize
        };
        classes <= base_model.target_count()
            && counted == Some(self.labels.len())
            && !self.ways.is_empty()
            && !self.ways.contains(&0)
            && self.base_means.len() == base * features
            && self.base_means.iter().all(|value| value.is_finite())
            && self.measured.is_sound()
            && self.candidates.is_sound()
            && self.measured.inputs() == features
            && self.candidates.inputs() == features
            && self.measured_sources.len() == self.measured.len()
            && self.candidate_sources.len() == self.candidates.len()
            && below(&self.measured)
            && below(&self.candidates)
            && (base..classes).all(enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_that_take_all_candidates_are_one() {
        assert_eq!(
            [distinct_draws(3, 5, [5, 6, 5]), distinct_draws(3, 5, [5, 5]), distinct_draws(1, 5, [5])],
            [3, 1, 1]
        );
    }
}
