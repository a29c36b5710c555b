//! The paper's ablations of phase 3, as far as they need no training of backbone or head before it: measured on stored
//! features, from the published program's settings for the benchmark, answers by pseudo-targets alone.
//!
//! Every draw that is done is kept in a folder, under a digest of all that it depends on: stopped trials go on where
//! they were, and nothing is measured twice.

use core::ops::ControlFlow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use orco_core::align::{Perturbation, PerturbedTargets};
use orco_core::config::{CleanTargets, Config};
use orco_core::workers::Workers;
use orco_runtime::files::replace;
use orco_runtime::manifest::hexadecimal;
use orco_state::codec;
use orco_state::state::BaseModel;

use crate::ablation::{Ablation, Assignment};
use crate::evaluate::Measurement;
use crate::published::{self, PublishedFigure, Reading};
use crate::system::System;
use orco_benchmark::benchmark::Benchmark;
use orco_benchmark::{Draw, EvaluateError, Summary, summarise};

/// The program, in what is measured: goes into every key, so that what other code measured is measured anew. The last
/// number is to be raised with every change of what is trained or measured, by the trainer too.
pub const PROGRAM: &str = concat!(env!("CARGO_PKG_VERSION"), ".3");

/// What is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which losses are taken.
    Losses,
    /// Which targets are perturbed, and with which distribution.
    Perturbation,
    /// How new classes get their targets.
    Assignment,
    /// Exemplars of each base class.
    Exemplars,
    /// How far targets are perturbed.
    Noise,
}

impl Question {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Losses, Self::Perturbation, Self::Assignment, Self::Exemplars, Self::Noise];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Losses => "losses",
            Self::Perturbation => "perturbation",
            Self::Assignment => "assignment",
            Self::Exemplars => "exemplars",
            Self::Noise => "noise",
        }
    }

    /// What is measured for it, each a change of the published program's settings.
    pub fn trials(self, program: &Config) -> Vec<Trial> {
        let program = || program.clone();
        let trial =
            |name: &str, config| Trial { name: name.into(), config, ablation: Ablation::default(), theirs: None };
        match self {
            Self::Losses => {
                let losses = |name: &str, [contrast, cross_entropy, orthogonality]: [bool; 3], theirs| {
                    let mut config = program();
                    if !contrast {
                        config.contrast = 0.0;
                    }
                    if !cross_entropy {
                        (config.cross_entropy, config.base_cross_entropy) = (0.0, 0.0);
                    }
                    if !orthogonality {
                        config.orthogonality = 0.0;
                    }
                    Trial { theirs: Some(PublishedFigure::ahm(theirs)), ..trial(name, config) }
                };
                vec![
                    losses("CE", [false, true, false], 35.74),
                    losses("CE + ORTH", [false, true, true], 36.17),
                    losses("PSCL", [true, false, false], 40.93),
                    losses("PSCL + ORTH", [true, false, true], 42.73),
                    losses("PSCL + CE", [true, true, false], 57.72),
                    losses("all", [true; 3], 58.12),
                ]
            }
            Self::Perturbation => {
                let by = |name: &str, perturbation, theirs: Option<f64>| {
                    let ablation = Ablation { perturbation, ..Ablation::default() };
                    Trial { ablation, theirs: theirs.map(PublishedFigure::last_hm), ..trial(name, program()) }
                };
                let of = |perturbed| Ablation { perturbed, ..Ablation::default() };
                let base_too = of(PerturbedTargets { base: true, ..PerturbedTargets::SESSION });
                let no_targets = of(PerturbedTargets { base: false, incremental: false, free: false });
                let uniform = |name: &str, ablation, theirs| Trial { ablation, theirs, ..trial(name, program()) };
                let mut trials = vec![
                    // The paper's row without perturbation: targets that are in the batch but not moved serve as well.
                    Trial {
                        ablation: no_targets,
                        theirs: Some(PublishedFigure::last_hm(20.14)),
                        ..trial("no targets in the batch", Config { clean_targets: CleanTargets::NONE, ..program() })
                    },
                    by("none", Perturbation::None, None),
                    by("Gaussian", Perturbation::Gaussian, Some(50.23)),
                    by("uniform", Perturbation::Uniform, Some(53.12)),
                    uniform("uniform, base targets too", base_too, Some(PublishedFigure::ahm(50.44))),
                ];
                // On CUB200 the program takes it anyway.
                if program().base_cross_entropy == 0.0 {
                    let on_base = || Config { base_cross_entropy: program().cross_entropy, ..program() };
                    let of_inc = trial("uniform, CE on base too", on_base());
                    trials.push(Trial { theirs: Some(PublishedFigure::ahm(57.76)), ..of_inc });
                    let both = trial("uniform, both", on_base());
                    trials.push(Trial { ablation: base_too, ..both });
                }
                trials
            }
            Self::Assignment => {
                let by = |name: &str, assignment, theirs: Option<f64>| {
                    let ablation = Ablation { assignment, ..Ablation::default() };
                    Trial { ablation, theirs: theirs.map(PublishedFigure::ahm), ..trial(name, program()) }
                };
                vec![
                    by("greedy", Assignment::Greedy, Some(58.12)),
                    by("all reassigned", Assignment::Reassigned, Some(55.49)),
                    // The paper's is random in phase 2, too.
                    by("random", Assignment::Random, None),
                ]
            }
            Self::Exemplars => {
                let kept = |most, theirs| {
                    let config = Config { base_exemplars: most, ..program() };
                    let ablation = Ablation { earlier_exemplars: Some(most), ..Ablation::default() };
                    let theirs = Some(PublishedFigure::ahm(theirs));
                    Trial { ablation, theirs, ..trial(&most.to_string(), config) }
                };
                let of_base = |most: usize| {
                    trial(&format!("{most} of each base class"), Config { base_exemplars: most, ..program() })
                };
                vec![kept(0, 37.8), kept(1, 48.2), kept(5, 58.1), of_base(0), of_base(1)]
            }
            Self::Noise => {
                let width = |e: f32| trial(&format!("e = {e:e}"), Config { perturbation_width: e, ..program() });
                [1e-5, 9e-5, 1e-3, 1e-2, 1e-1].map(width).into()
            }
        }
    }
}

/// One way of learning.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// What it is, among those of its question.
    pub name: String,
    /// Settings of phase 3.
    pub config: Config,
    /// What is done otherwise than on a device.
    pub ablation: Ablation,
    /// What the paper reports for it, on mini-ImageNet.
    pub theirs: Option<PublishedFigure>,
}

/// Why a trial was not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// A session could not be learned.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// What was measured could not be kept.
    #[error("cannot keep what was measured in {}", path.display())]
    Keep {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Measures trials on what a bundle holds, keeping each draw in a folder.
#[derive(Clone, Copy)]
pub struct Trials<'a> {
    /// What sessions begin with.
    pub base_model: &'a BaseModel,
    /// What is learned and measured.
    pub benchmark: &'a Benchmark,
    /// Digests of both, or of all that they are made of, in any form: another text is measured anew.
    pub content: &'a str,
    /// Where draws are kept; the folder must be there.
    pub cache: &'a Path,
    /// Seed of the draws, of shuffling and of perturbation.
    pub seed: u64,
}

impl Trials<'_> {
    /// What is measured for a question on this benchmark: changes of the published program's settings, or of the text's.
    pub fn of(&self, question: Question, reading: Reading) -> Vec<Trial> {
        question.trials(&reading.settings(published::program(&self.benchmark.source)))
    }

    /// Measures one of them over so many draws. `on_epoch` may cancel; what is done by then is kept.
    ///
    /// # Errors
    /// [`TrialError`] if a session cannot be learned, was cancelled, or a draw cannot be kept.
    /// # Panics
    /// If `draws` is 0.
    pub fn measure(
        &self,
        trial: &Trial,
        draws: usize,
        workers: &dyn Workers,
        on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Summary, TrialError> {
        let drawn = (0..draws).map(|draw| self.draw(trial, draw, workers, on_epoch));
        Ok(summarise(&trial.name, &drawn.collect::<Result<Vec<_>, _>>()?))
    }

    fn draw(
        &self,
        trial: &Trial,
        draw: usize,
        workers: &dyn Workers,
        on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Draw, TrialError> {
        let config = self.settings(trial);
        let path = self.cache.join(format!("{}.json", self.key(trial, &config, draw)));
        // What cannot be read, or was damaged, is measured again.
        let kept = fs::read_to_string(&path).ok().and_then(|text| unsealed(&text));
        if let Some(draw) = kept.filter(|draw| draw.rows.len() == self.benchmark.ways.len() + 1) {
            return Ok(draw);
        }
        let Self { base_model, benchmark, seed, .. } = *self;
        let measurement =
            Measurement { base_model, benchmark, system: System::ablated(trial.ablation), config: &config, seed };
        let drawn = measurement.draw(draw, workers, &mut |_, _| on_epoch(), &mut |_| {})?;
        let failed = |source| TrialError::Keep { path: path.clone(), source };
        // Whole or not at all, whoever else keeps the same: a file that is there under this name is complete.
        replace(&path, sealed(&drawn).as_bytes()).map_err(failed)?;
        Ok(drawn)
    }

    /// The trial's settings, with views and precision as those of the base model, and the paper's rule of answers.
    fn settings(&self, trial: &Trial) -> Config {
        let stored = &self.base_model.config;
        Config { views: stored.views, precision: stored.precision, ..trial.config.by_targets_alone() }
    }

    /// A digest of all that a draw depends on, in hexadecimal digits.
    fn key(&self, trial: &Trial, config: &Config, draw: usize) -> String {
        let Self { content, seed, .. } = self;
        let mut depends = serde_json::json!({
            "program": PROGRAM, "content": content, "settings": config,
            "ablation": trial.ablation, "seed": seed, "draw": draw,
        });
        // The order of an object's keys depends on what else a program is built of.
        depends.sort_all_objects();
        hexadecimal(&codec::digest(depends.to_string().as_bytes()))
    }
}

/// What stands before and behind the digest of a kept draw.
const DIGEST: [&str; 2] = ["{\"digest\":\"", "\",\"draw\":"];

/// A draw as JSON, with a digest of its text: a number that a disk changed is no measurement.
fn sealed(draw: &Draw) -> String {
    let text = serde_json::to_string(draw).expect("numbers");
    let [before, behind] = DIGEST;
    format!("{before}{}{behind}{text}}}", hexadecimal(&codec::digest(text.as_bytes())))
}

/// The draw, if it is as it was kept; older programs kept it without a digest.
fn unsealed(text: &str) -> Option<Draw> {
    let [before, behind] = DIGEST;
    let Some((digest, draw)) = text.strip_prefix(before).and_then(|text| text.split_once(behind)) else {
        return serde_json::from_str(text).ok();
    };
    let draw = draw.strip_suffix('}')?;
    (digest == hexadecimal(&codec::digest(draw.as_bytes()))).then(|| serde_json::from_str(draw).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::PaperTable;
    use orco_benchmark::SessionAccuracy;

    #[test]
    fn a_kept_draw_that_was_damaged_is_none() {
        let row = SessionAccuracy { session: 0, base: 61.5, inc: None, hm: None, top1: 61.5, area: None };
        let draw = Draw { rows: vec![row], operations: 1e9, seconds: 0.1 + 0.2 };
        let text = sealed(&draw);
        assert_eq!(unsealed(&text), Some(draw.clone()));
        assert_eq!(unsealed(&serde_json::to_string(&draw).unwrap()), Some(draw));
        for bit in 0..8 * text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(String::from_utf8(damaged).ok().and_then(|text| unsealed(&text)), None, "bit {bit}");
        }
    }

    #[test]
    fn every_trial_has_settings_that_make_sense_and_a_name_of_its_own() {
        let programs = [PaperTable::Cifar100, PaperTable::MiniImagenet, PaperTable::Cub200].map(PaperTable::program);
        let readings = Reading::ALL.map(|reading| programs.clone().map(|program| reading.settings(program)));
        for (question, program) in
            Question::ALL.iter().flat_map(|question| readings.iter().flatten().map(move |of| (question, of)))
        {
            let trials = question.trials(program);
            assert!(trials.len() >= 3, "{question:?}");
            for (index, trial) in trials.iter().enumerate() {
                assert_eq!(trial.config.problem(), None, "{}", trial.name);
                let same = |other: &Trial| {
                    other.name == trial.name || (&other.config, other.ablation) == (&trial.config, trial.ablation)
                };
                assert!(!trials[..index].iter().any(same), "{}", trial.name);
            }
        }
    }
}
