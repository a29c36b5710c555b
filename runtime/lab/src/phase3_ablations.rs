//! The paper's ablations of phase 3, as far as they need no training of backbone or head before it: measured on stored
//! features, from the published program's settings for the benchmark, answers by pseudo-targets alone.
//! [`Question::Answer`] asks the same of the shipped settings.
//!
//! A draw is a random choice of shots. Every draw that is done is kept in a folder, under a digest of all that it
//! depends on: stopped variants go on where they were, and nothing is measured twice.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use orco_core::align::{Perturbation, PerturbedTargets};
use orco_core::config::{MethodConfig, UnperturbedTargets};
use orco_core::workers::Workers;
use orco_state::state::BaseModel;
use serde::{Deserialize, Serialize};

use crate::ablation::{Ablation, Assignment};
use crate::geometry::SessionGeometry;
use crate::kept_measurements;
use crate::measurement::Measurement;
use crate::published::{self, PaperReading};
use crate::question::{AblationVariant, LossSelection, Question};
use crate::results::Results;
use crate::system::System;
use orco_benchmark::benchmark::Benchmark;
use orco_benchmark::{Draw, EvaluateError, Summary, summarise};

/// How phase 3 is changed in a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase3Settings {
    /// Its settings.
    pub config: MethodConfig,
    /// What is done otherwise than on a device.
    pub ablation: Ablation,
}

/// The questions that have variants of phase 3.
pub const QUESTIONS: [Question; 6] = [
    Question::Losses,
    Question::Perturbation,
    Question::Assignment,
    Question::Exemplars,
    Question::Noise,
    Question::Answer,
];

/// Name of the variant of [`Question::Assignment`] that draws targets in phase 2 as well, and so needs a training.
pub const RANDOM_IN_BOTH: &str = "random, in phase 2 too";

/// What is measured for a question, each a change of the published program's settings, or of a device's default ones
/// for [`Question::Answer`]; nothing for a question that needs a training.
pub fn variants(question: Question, program: &MethodConfig) -> Vec<AblationVariant<Phase3Settings>> {
    match question {
        Question::Losses => LossSelection::VARIANTS.map(|(name, selection)| losses(program, name, selection)).into(),
        Question::Perturbation => perturbations(program),
        Question::Assignment => {
            let by = |name, assignment| ablated(program, name, Ablation { assignment, ..Ablation::default() });
            vec![
                by("greedy", Assignment::Greedy),
                by("all reassigned", Assignment::Reassigned),
                by("random", Assignment::Random),
            ]
        }
        Question::Exemplars => {
            let limited = |most: usize| {
                let ablation = Ablation { earlier_exemplars: Some(most), ..Ablation::default() };
                ablated(&MethodConfig { base_exemplars: most, ..program.clone() }, &most.to_string(), ablation)
            };
            let of_base = |most: usize| {
                configured(
                    format!("{most} of each base class"),
                    MethodConfig { base_exemplars: most, ..program.clone() },
                )
            };
            vec![limited(0), limited(1), limited(5), of_base(0), of_base(1)]
        }
        Question::Noise => {
            let width =
                |e: f32| configured(format!("e = {e:e}"), MethodConfig { perturbation_width: e, ..program.clone() });
            [1e-5, 9e-5, 1e-3, 1e-2, 1e-1].map(width).into()
        }
        Question::Answer => {
            let (default, all) = (MethodConfig::combined(), LossSelection::ALL);
            vec![
                losses(&default, "default", all),
                losses(&default, "without PSCL", LossSelection { contrast: false, ..all }),
                losses(&default, "without cross entropy", LossSelection { cross_entropy: false, ..all }),
                losses(&default, "without ORTH", LossSelection { orthogonality: false, ..all }),
                configured("without phase 3", default.without_alignment()),
            ]
        }
        Question::Targets | Question::Pretraining | Question::Frozen | Question::Backbone => Vec::new(),
    }
}

/// A variant by other settings.
fn configured(name: impl Into<String>, config: MethodConfig) -> AblationVariant<Phase3Settings> {
    AblationVariant { name: name.into(), settings: Phase3Settings { config, ablation: Ablation::default() } }
}

/// A variant by a choice that the settings do not leave open.
fn ablated(program: &MethodConfig, name: &str, ablation: Ablation) -> AblationVariant<Phase3Settings> {
    AblationVariant { name: name.into(), settings: Phase3Settings { config: program.clone(), ablation } }
}

/// A variant by the losses that phase 3 uses.
fn losses(program: &MethodConfig, name: &str, selection: LossSelection) -> AblationVariant<Phase3Settings> {
    configured(name, selection.applied_to(program))
}

fn perturbations(program: &MethodConfig) -> Vec<AblationVariant<Phase3Settings>> {
    let by = |perturbation| Ablation { perturbation, ..Ablation::default() };
    let perturbed = PerturbedTargets { base: false, incremental: false, free: false };
    let no_targets = Phase3Settings {
        config: MethodConfig { unperturbed_targets: UnperturbedTargets::NONE, ..program.clone() },
        ablation: Ablation { perturbed, ..Ablation::default() },
    };
    let perturbed = PerturbedTargets { base: true, ..PerturbedTargets::PHASE_3 };
    let base_too = Ablation { perturbed, ..Ablation::default() };
    let mut variants = vec![
        AblationVariant { name: "no targets in the batch".into(), settings: no_targets },
        ablated(program, "none", by(Perturbation::None)),
        ablated(program, "Gaussian", by(Perturbation::Gaussian)),
        ablated(program, "uniform", by(Perturbation::Uniform)),
        ablated(program, "uniform, base targets too", base_too),
    ];
    // The program's settings for CUB200 have it already.
    if program.base_cross_entropy == 0.0 {
        let on_base = MethodConfig { base_cross_entropy: program.cross_entropy, ..program.clone() };
        variants.push(configured("uniform, CE on base too", on_base.clone()));
        variants.push(ablated(&on_base, "uniform, both", base_too));
    }
    variants
}

/// Why a variant was not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AblationError {
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

/// Measures variants on what a bundle holds, keeping each draw in a folder.
#[derive(Clone, Copy)]
pub struct Phase3Ablations<'a> {
    /// What sessions begin with.
    pub base_model: &'a BaseModel,
    /// What is learned and measured.
    pub benchmark: &'a Benchmark,
    /// Digests of both, or of all that they are made of, in any form: of another string, all is measured anew.
    pub content: &'a str,
    /// Where draws are kept; the folder must be there.
    pub cache: &'a Path,
    /// Seed of the draws, of shuffling and of perturbation.
    pub seed: u64,
}

impl Phase3Ablations<'_> {
    /// What is measured for a question on this benchmark: changes of the published program's settings, or of those of
    /// its text; of the default settings with the bundle's weights of answers for [`Question::Answer`].
    pub fn of(&self, question: Question, reading: PaperReading) -> Vec<AblationVariant<Phase3Settings>> {
        let mut variants = variants(question, &reading.settings(published::program(&self.benchmark.source)));
        if question == Question::Answer
            && let Some(weights) = self.base_model.config.answer
        {
            variants.iter_mut().for_each(|variant| variant.settings.config.answer = Some(weights));
        }
        variants
    }

    /// Measures one of them over so many draws. `on_epoch` may cancel; what is done by then is kept.
    ///
    /// # Errors
    /// [`AblationError`] if a session cannot be learned, was cancelled, or a draw cannot be kept.
    /// # Panics
    /// If `draws` is 0.
    pub fn measure(
        &self,
        variant: &AblationVariant<Phase3Settings>,
        draws: usize,
        workers: &dyn Workers,
        on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Summary, AblationError> {
        let drawn = (0..draws).map(|draw| self.draw(variant, draw, workers, on_epoch));
        Ok(summarise(&variant.name, &drawn.collect::<Result<Vec<_>, _>>()?))
    }

    /// How classes lie after the last session of the first draw, which is learned once more for it.
    ///
    /// # Errors
    /// [`EvaluateError`] if a session cannot be learned, or was cancelled.
    pub fn geometry(
        &self,
        variant: &AblationVariant<Phase3Settings>,
        workers: &dyn Workers,
        on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Option<SessionGeometry>, EvaluateError> {
        let Self { base_model, benchmark, seed, .. } = *self;
        let (system, config) = (System::ablated(variant.settings.ablation), &self.settings(variant));
        SessionGeometry::of(&Measurement { base_model, benchmark, system, config, seed }, workers, on_epoch)
    }

    fn draw(
        &self,
        variant: &AblationVariant<Phase3Settings>,
        draw: usize,
        workers: &dyn Workers,
        on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Draw, AblationError> {
        let config = self.settings(variant);
        let fingerprint = self.fingerprint(variant, &config, draw);
        let path = self.cache.join(format!("{fingerprint}.json"));
        if let Some(draw) = kept_measurements::read(&path, &fingerprint) {
            return Ok(draw);
        }
        let Self { base_model, benchmark, seed, .. } = *self;
        let system = System::ablated(variant.settings.ablation);
        let measurement = Measurement { base_model, benchmark, system, config: &config, seed };
        let drawn = measurement.run_sessions(draw, workers, &mut |_, _| on_epoch(), &mut |_, _| {})?;
        kept_measurements::keep(&path, &fingerprint, &drawn).map_err(|source| AblationError::Keep { path, source })?;
        Ok(drawn)
    }

    /// The variant's settings, with views and precision as those of the base model. Where they name no weights of
    /// answers, the paper's rule holds.
    fn settings(&self, variant: &AblationVariant<Phase3Settings>) -> MethodConfig {
        let config = &variant.settings.config;
        let config = if config.answer.is_some() { config.clone() } else { config.by_targets_alone() };
        let stored = &self.base_model.config;
        MethodConfig { views: stored.views, precision: stored.precision, ..config }
    }

    /// Of all that a draw depends on.
    fn fingerprint(&self, variant: &AblationVariant<Phase3Settings>, config: &MethodConfig, draw: usize) -> String {
        let Self { content, seed, benchmark, .. } = self;
        kept_measurements::fingerprint(serde_json::json!({
            "content": content, "sessions": benchmark.ways, "settings": config,
            "ablation": variant.settings.ablation, "seed": seed, "draw": draw,
        }))
    }
}

/// What an ablation gave, as it stands in files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AblationResults {
    /// The numbers of every variant.
    #[serde(flatten)]
    pub results: Results,
    /// The command that measures them.
    pub command: String,
    /// What was varied.
    pub question: Question,
    /// Whose settings were varied, in words.
    pub settings: String,
    /// Whether they are the program's, or those of the paper's text.
    pub reading: PaperReading,
    /// How classes lie after the first draw, where that was asked for.
    pub geometry: Vec<VariantGeometry>,
}

impl AblationResults {
    /// The name of its files: another one for each reading, where there are two.
    pub fn file(question: Question, reading: PaperReading) -> String {
        match reading {
            PaperReading::Text if question != Question::Answer => format!("{}-text", question.name()),
            _ => question.name().into(),
        }
    }
}

/// How classes lie after a variant's sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantGeometry {
    /// The variant.
    pub system: String,
    /// `None` of a system that keeps no device's state.
    pub geometry: Option<SessionGeometry>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::PaperTable;

    #[test]
    fn the_default_answer_loses_one_loss_at_a_time() {
        let variants = variants(Question::Answer, &MethodConfig::published());
        let of = |name: &str| &variants.iter().find(|variant| variant.name == name).unwrap().settings.config;
        assert_eq!(*of("default"), MethodConfig::combined());
        assert!(variants.iter().all(|variant| variant.settings.config.answer == MethodConfig::combined().answer));
        let weights = |name| {
            let config = of(name);
            [config.contrast, config.cross_entropy, config.orthogonality].map(|weight| weight > 0.0)
        };
        assert_eq!(weights("without PSCL"), [false, true, true]);
        assert_eq!(weights("without cross entropy"), [true, false, true]);
        assert_eq!(weights("without ORTH"), [true, true, false]);
        assert_eq!(of("without phase 3").epochs, 0);
    }

    #[test]
    fn the_papers_numbers_are_those_of_variants() {
        let variants: Vec<_> =
            QUESTIONS.map(|question| (question, variants(question, &MethodConfig::published()))).into();
        for (question, variants) in variants {
            let is_a_variant =
                |name: &&str| variants.iter().any(|variant| variant.name == **name) || *name == RANDOM_IN_BOTH;
            assert!(published::reported(question).all(|name| is_a_variant(&name)), "{question:?}");
        }
    }

    #[test]
    fn every_variant_has_settings_that_make_sense_and_a_name_of_its_own() {
        let programs = [PaperTable::Cifar100, PaperTable::MiniImagenet, PaperTable::Cub200].map(PaperTable::program);
        let readings = PaperReading::ALL.map(|reading| programs.clone().map(|program| reading.settings(program)));
        for (question, program) in
            QUESTIONS.iter().flat_map(|question| readings.iter().flatten().map(move |of| (question, of)))
        {
            let variants = variants(*question, program);
            assert!(variants.len() >= 3, "{question:?}");
            for (index, variant) in variants.iter().enumerate() {
                assert_eq!(variant.settings.config.problem(), None, "{}", variant.name);
                let same = |other: &AblationVariant<Phase3Settings>| {
                    other.name == variant.name || other.settings == variant.settings
                };
                assert!(!variants[..index].iter().any(same), "{}", variant.name);
            }
        }
    }
}
