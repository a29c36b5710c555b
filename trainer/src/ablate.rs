//! The paper's ablations. Those of what comes before phase 3 train every trial by a recipe of its own, and measure it
//! with the published program's phase 3. Those of phase 3 train once, by the recipe as it is; the ones that vary the head
//! alone are the lab's ([`orco_lab::trials`], on a bundle `orco-lab ablate`). All answer by pseudo-targets alone.

use std::path::Path;

use anyhow::{Result, bail};
use clap::ValueEnum;
use orco_benchmark::Summary;
use orco_core::config::Config;
use orco_lab::ablation::Assignment;
use orco_lab::published::{PublishedFigure, Reading, program};
use orco_lab::shown;
use orco_lab::trials;
use orco_state::target::TargetMethod;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::compare::{check_trainable, compare, of_head, on_device};
use crate::config::{Architecture, BaseAssignment, Recipe, TargetConfig};
use crate::data::dataset::DataSet;
use crate::measured::{self, Entry, digest, of_phase_1};
pub use crate::measured::{claim, of_sessions};
use crate::model::Model;
use crate::run::Run;
use crate::train::objective::Targets;

/// What is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// Which losses phases 2 and 3 take, both the same. (Those of phase 3 alone are varied by `orco-lab ablate`.)
    Losses,
    /// How pseudo-targets are made.
    Targets,
    /// Which losses phase 1 takes.
    Pretraining,
    /// Whether the incremental sessions train the head g alone, or the backbone f as well.
    Frozen,
    /// The backbone's family.
    Backbone,
    /// Which targets phase 3 perturbs, and with which distribution.
    Perturbation,
    /// How new classes get their targets.
    Assignment,
    /// Exemplars of each base class in phase 3.
    Exemplars,
    /// How far targets are perturbed in phase 3.
    Noise,
}

/// Targets that are drawn in both phases.
const RANDOM: &str = "random, in phase 2 too";

/// One way of training.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What it is, among those of its question.
    pub name: &'static str,
    /// How both phases train.
    pub recipe: Recipe,
    /// What the paper reports for each system that is measured, on mini-ImageNet.
    pub theirs: Vec<Option<PublishedFigure>>,
    /// By which account of the method.
    pub reading: Reading,
}

impl Question {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Losses => "losses",
            Self::Targets => "targets",
            Self::Pretraining => "pretraining",
            Self::Frozen => "frozen",
            Self::Backbone => "backbone",
            Self::Perturbation => "perturbation",
            Self::Assignment => "assignment",
            Self::Exemplars => "exemplars",
            Self::Noise => "noise",
        }
    }

    /// The lab's question, where the head alone is varied.
    fn of_the_head(self) -> Option<trials::Question> {
        match self {
            Self::Perturbation => Some(trials::Question::Perturbation),
            Self::Assignment => Some(trials::Question::Assignment),
            Self::Exemplars => Some(trials::Question::Exemplars),
            Self::Noise => Some(trials::Question::Noise),
            Self::Losses | Self::Targets | Self::Pretraining | Self::Frozen | Self::Backbone => None,
        }
    }

    /// Whether it trains by the recipe as it is: such questions share what is trained.
    pub fn is_of_phase_3(self) -> bool {
        self == Self::Frozen || self.of_the_head().is_some()
    }

    /// What is trained for it, each a change of the recipe. Phase 3 is the published program's for its data, with the
    /// views and the precision of the recipe; by the text, its settings and those of phase 2 are the text's.
    ///
    /// # Errors
    /// If the recipe leaves nothing to vary, with what to do.
    pub fn trials(self, recipe: &Recipe, reading: Reading) -> Result<Vec<Trial>> {
        let given = recipe.backbone.onnx.is_some() || recipe.pretrain.epochs == 0;
        if given && matches!(self, Self::Pretraining | Self::Backbone) {
            bail!("the recipe's backbone is given, not trained; \"{}\" needs a recipe with [pretrain]", self.name());
        }
        if recipe.backbone.weights.is_some() && self == Self::Backbone {
            bail!("backbone.weights fit one architecture, and \"backbone\" trains several; leave them out");
        }
        if self == Self::Frozen {
            check_trainable(recipe.backbone.onnx.is_some())?;
        }
        let program = reading.settings(program(recipe.data.kind.title()));
        let of_the_head = self.of_the_head().map(|question| question.trials(&program)).unwrap_or_default();
        let learn = Config { views: recipe.learn.views, precision: recipe.learn.precision, ..program };
        let align = match reading {
            Reading::Program => recipe.align.clone(),
            Reading::Text => recipe.align.by_the_text(),
        };
        let recipe = Recipe { learn, align, ..recipe.clone() };
        let trial = |name, change: &dyn Fn(&mut Recipe), ahm: Option<f64>| {
            let mut recipe = recipe.clone();
            change(&mut recipe);
            Trial { name, recipe, theirs: vec![ahm.map(PublishedFigure::ahm)], reading }
        };
        Ok(match self {
            Self::Losses => {
                let by = |name, [contrast, cross_entropy, orthogonality]: [bool; 3], ahm| {
                    let change = |recipe: &mut Recipe| {
                        let (align, learn) = (&mut recipe.align, &mut recipe.learn);
                        for (taken, in_2, in_3) in [
                            (contrast, &mut align.contrast, &mut learn.contrast),
                            (cross_entropy, &mut align.cross_entropy, &mut learn.cross_entropy),
                            (orthogonality, &mut align.orthogonality, &mut learn.orthogonality),
                        ] {
                            if !taken {
                                (*in_2, *in_3) = (0.0, 0.0);
                            }
                        }
                        if !cross_entropy {
                            learn.base_cross_entropy = 0.0;
                        }
                    };
                    trial(name, &change, Some(ahm))
                };
                vec![
                    by("CE", [false, true, false], 35.74),
                    by("CE + ORTH", [false, true, true], 36.17),
                    by("PSCL", [true, false, false], 40.93),
                    by("PSCL + ORTH", [true, false, true], 42.73),
                    by("PSCL + CE", [true, true, false], 57.72),
                    by("all", [true; 3], 58.12),
                ]
            }
            Self::Targets => {
                let made = |name, method, ahm| {
                    let change = |recipe: &mut Recipe| match method {
                        TargetMethod::Optimised => recipe.targets.method = method,
                        // What only a descent has.
                        _ => {
                            recipe.targets =
                                TargetConfig { method, learning_rate: 1.0, accumulate: true, ..recipe.targets }
                        }
                    };
                    trial(name, &change, ahm)
                };
                let (count, dimension) = (recipe.targets.count as i64, recipe.head.projection);
                let mut trials = vec![
                    made("optimised", TargetMethod::Optimised, Some(58.12)),
                    made("random", TargetMethod::Random, Some(57.23)),
                ];
                if count <= dimension {
                    trials.push(made("orthonormal", TargetMethod::Orthonormal, None));
                }
                if count <= dimension + 1 {
                    trials.push(made("simplex", TargetMethod::Simplex, None));
                }
                trials
            }
            Self::Pretraining => {
                let by = |name, [cross_entropy, supervised, own]: [f64; 3], ahm| {
                    let change = |recipe: &mut Recipe| {
                        let pretrain = &mut recipe.pretrain;
                        pretrain.cross_entropy = cross_entropy;
                        pretrain.supervised_contrast = supervised;
                        pretrain.self_contrast = own;
                        // What contrast compares.
                        pretrain.views = pretrain.views.max(if cross_entropy > 0.0 { 1 } else { 2 });
                    };
                    trial(name, &change, ahm)
                };
                vec![
                    by("CE", [1.0, 0.0, 0.0], Some(55.20)),
                    by("CE + SCL", [1.0, 0.5, 0.0], None),
                    by("SCL", [0.0, 1.0, 0.0], Some(57.38)),
                    by("SCL + SSCL", [0.0, 0.9, 0.1], Some(58.12)),
                    by("SSCL", [0.0, 0.0, 1.0], None),
                ]
            }
            Self::Frozen => {
                let decay = |value| Some(PublishedFigure { metric: "base decay", value });
                let theirs = vec![decay(17.83), decay(17.83), decay(20.52)];
                vec![Trial { theirs, ..trial("recipe", &|_| (), None) }]
            }
            Self::Perturbation | Self::Assignment | Self::Exemplars | Self::Noise => {
                let theirs = of_the_head.iter().map(|trial| trial.theirs).collect();
                let mut trials = vec![Trial { theirs, ..trial("recipe", &|_| (), None) }];
                if self == Self::Assignment {
                    let random = |recipe: &mut Recipe| recipe.align.assignment = BaseAssignment::Random;
                    trials.push(trial(RANDOM, &random, Some(54.40)));
                }
                trials
            }
            Self::Backbone => {
                let of =
                    |name, architecture, ahm| trial(name, &|recipe| recipe.backbone.architecture = architecture, ahm);
                if !recipe.backbone.architecture.has_width() {
                    bail!("\"backbone\" compares families at one width; name one of them in [backbone]");
                }
                vec![
                    of("resnet18", Architecture::Resnet18, Some(58.12)),
                    of("resnet12", Architecture::Resnet12, Some(59.30)),
                    of("resnet20", Architecture::Resnet20, None),
                    of("mobilenetv2", Architecture::Mobilenetv2, None),
                ]
            }
        })
    }
}

impl Trial {
    /// A digest of all that phase 1 depends on beside the data: trials that share it share its checkpoint.
    pub fn phase_1(&self) -> String {
        digest(json!(of_phase_1(&self.recipe)))
    }

    /// Measures what was trained on `data`, whose digest [`of_sessions`] is given, or reads what was measured of the same
    /// before.
    ///
    /// # Errors
    /// As for [`compare`].
    pub fn measure(
        &self,
        question: Question,
        (model, targets): (&mut Model, &Targets),
        data: &DataSet,
        run: &Run,
        (sessions, draws): (&str, usize),
    ) -> Result<Vec<Summary>> {
        let brought = model.onnx.as_ref().map(|onnx| onnx.digest);
        let key = digest(json!([measured::PROGRAM, self.recipe, brought, sessions, question, draws]));
        let file = run.path(&format!("{}.json", question.name()));
        measured::once(&file, key, || {
            if question == Question::Frozen {
                return compare(model, targets, &self.recipe, data, run, (sessions, draws, &[1.0]));
            }
            if let Some(of_the_head) = question.of_the_head() {
                let content = digest(json!([measured::PROGRAM, self.recipe, brought, sessions]));
                let of_phase_2 = self.recipe.align.assignment;
                let trials = of_the_head.trials(&self.reading.settings(program(self.recipe.data.kind.title())));
                let trials: Vec<_> = match of_phase_2 {
                    BaseAssignment::Matched => trials,
                    BaseAssignment::Random => {
                        let random = trials.into_iter().filter(|trial| trial.ablation.assignment == Assignment::Random);
                        random.map(|trial| trials::Trial { name: RANDOM.into(), ..trial }).collect()
                    }
                };
                return of_head(&trials, (model, targets), &self.recipe, data, run, (&content, draws));
            }
            let measured = on_device(model, targets, &self.recipe, data, draws)?;
            Ok(vec![Summary { system: self.name.into(), ..measured }])
        })
    }
}

/// Writes what was measured for a question, each beside the paper's figure, as QUESTION.json and QUESTION.csv.
///
/// # Errors
/// If a file cannot be written.
pub fn write(
    folder: &Path,
    question: Question,
    measured: &[(Summary, Option<PublishedFigure>)],
    recipe: &Recipe,
) -> Result<()> {
    let entry = |(measured, theirs): &(Summary, Option<PublishedFigure>)| Entry {
        measured: measured.clone(),
        published: *theirs,
    };
    measured::write(folder, question.name(), recipe, &measured.iter().map(entry).collect::<Vec<_>>())
}

/// Columns of a system's name.
const WIDTH: usize = 28;

/// The line of a system beside the paper's figure.
pub fn line(summary: &Summary, theirs: Option<&PublishedFigure>) -> String {
    shown::line(WIDTH, &summary.system, summary, &theirs.map_or_else(String::new, PublishedFigure::to_string))
}

/// What stands above such lines.
pub fn heading() -> String {
    shown::heading(WIDTH, "the paper's, on mini-ImageNet")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe() -> Recipe {
        toml::from_str(include_str!("../recipes/synthetic-tiny.toml")).unwrap()
    }

    #[test]
    fn every_trial_has_a_recipe_that_makes_sense_and_a_name_of_its_own() {
        for question in Question::value_variants() {
            let trials = question.trials(&recipe(), Reading::Program).unwrap();
            for (index, trial) in trials.iter().enumerate() {
                let text = toml::to_string(&trial.recipe).unwrap();
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("recipe.toml");
                std::fs::write(&path, text).unwrap();
                assert_eq!(Recipe::read(&path).unwrap(), trial.recipe, "{}", trial.name);
                let same = |other: &Trial| other.name == trial.name || other.recipe == trial.recipe;
                assert!(!trials[..index].iter().any(same), "{}", trial.name);
            }
        }
    }

    #[test]
    fn phase_3_is_the_published_programs_for_the_data() {
        for text in [
            include_str!("../recipes/cifar100-paper.toml"),
            include_str!("../recipes/miniimagenet-paper.toml"),
            include_str!("../recipes/cub200-paper.toml"),
        ] {
            let recipe: Recipe = toml::from_str(text).unwrap();
            for trial in Question::Targets.trials(&recipe, Reading::Program).unwrap() {
                assert_eq!(trial.recipe.learn, recipe.learn, "{}", recipe.name);
            }
        }
    }

    #[test]
    fn phase_1_is_shared_where_it_is_the_same() {
        let phases = |question: Question| {
            let trials = question.trials(&recipe(), Reading::Program).unwrap();
            let phases: std::collections::HashSet<String> = trials.iter().map(Trial::phase_1).collect();
            (trials.len(), phases.len())
        };
        assert_eq!((phases(Question::Targets), phases(Question::Frozen)), ((4, 1), (1, 1)));
        assert_eq!(phases(Question::Losses), (6, 1));
        assert_eq!((phases(Question::Pretraining), phases(Question::Backbone)), ((5, 5), (4, 4)));
    }

    #[test]
    fn what_cannot_be_varied_is_said() {
        let mut given = recipe();
        given.pretrain.epochs = 0;
        let said = Question::Pretraining.trials(&given, Reading::Program).unwrap_err().to_string();
        assert!(said.contains("is given, not trained") && said.contains("\"pretraining\""), "{said}");
        assert!(
            Question::Targets.trials(&given, Reading::Program).is_ok()
                && Question::Frozen.trials(&given, Reading::Program).is_ok()
        );
        given.backbone.onnx = Some("backbone.onnx".into());
        let said = Question::Frozen.trials(&given, Reading::Program).unwrap_err().to_string();
        assert!(said.contains("cannot be trained") && said.contains("backbone.weights"), "{said}");
    }
}
