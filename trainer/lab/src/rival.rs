//! Rivals that need the training of a backbone, or all base images, beside a baseline: their backbones are trained by
//! one recipe - the same network, images, views, optimiser, rate and number of steps - and all are measured by the lab's
//! protocol. Episodes and sessions have each rival's own settings.
//!
//! Each has a file with its source and with what differs from its authors' program. Its own settings are those that
//! its authors published, for CIFAR-100 where they did; none was chosen here. The recipe's table `pretrain` is the
//! budget; of its losses, number of views and temperature nothing is taken. No backbone is chosen by test images, as
//! some of the published programs do: the last step's counts.

mod attention;
mod bidist;
mod branch;
mod cec;
mod cosine;
mod embedding;
mod episodes;
mod fact;
mod lcwof;
mod limit;
mod nc_fscil;
mod prototypes;
mod savc;

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use orco_benchmark::Summary;
use orco_lab::published::{PaperTable, ROWS};
use orco_lab::seeds::{self, OverSeeds};
use orco_lab::shown;
use orco_trainer::config::{MeasureOn, Recipe, SplitConfig};
use orco_trainer::data::dataset::DataSet;
use orco_trainer::model::Model;
use orco_trainer::run::Run;
use orco_trainer::run::digest::{digest, phase_1_inputs};
use orco_trainer::run::files::write_atomically;
use orco_trainer::train::fit::BaseSession;
use orco_trainer::train::optimiser::{Parameter, Sgd, SgdConfig};
use orco_trainer::train::pretrain::{Criterion, train};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::attention::Attention;
use self::bidist::Bidist;
use self::cec::Cec;
use self::cosine::CrossEntropy;
use self::embedding::Embedding;
use self::fact::Fact;
use self::lcwof::Lcwof;
use self::limit::Limit;
use self::nc_fscil::NcFscil;
use self::savc::{Savc, TURNS};
use crate::measurements::{self, Experiment, MeasuredSystem};
use crate::sessions::Protocol;

/// A way of training a backbone, and of answering with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rival {
    /// Cross entropy over cosines, answers by the nearest class mean: what the others stand on.
    Baseline,
    /// FACT: virtual prototypes reserve space (Zhou et al., CVPR 2022).
    Fact,
    /// SAVC: fantasised classes and contrast with a queue (Song et al., CVPR 2023).
    Savc,
    /// CEC: attention between classifiers, learned in sessions that are played (Zhang et al., CVPR 2021).
    Cec,
    /// LIMIT: a transformer's layer that calibrates classifiers, learned on fake tasks (Zhou et al., TPAMI 2022).
    Limit,
    /// BiDist: two branches and two teachers in every session (Zhao et al., CVPR 2023).
    Bidist,
    /// LCwoF: every session learns, then calibrates (Kukleva et al., ICCV 2021).
    Lcwof,
    /// NC-FSCIL: vertices of a simplex for classifiers, and a projection pulled there (Yang et al., ICLR 2023).
    #[serde(rename = "nc-fscil")]
    NcFscil,
}

impl Rival {
    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Fact => "fact",
            Self::Savc => "savc",
            Self::Cec => "cec",
            Self::Limit => "limit",
            Self::Bidist => "bidist",
            Self::Lcwof => "lcwof",
            Self::NcFscil => "nc-fscil",
        }
    }

    /// What trains its backbone: rivals that say the same share one.
    pub fn backbone(self) -> &'static str {
        match self {
            Self::Baseline | Self::Cec | Self::Limit | Self::Bidist | Self::Lcwof => "cross-entropy",
            Self::Fact => "fact",
            Self::Savc => "savc",
            Self::NcFscil => "nc-fscil",
        }
    }

    /// A digest of all that its backbone depends on, where the data are those of the recipe with the seed `data`: what
    /// is set aside, and what synthetic pictures show, is drawn by it.
    pub fn digest(self, recipe: &Recipe, data: u64) -> String {
        let other = (data != recipe.seed).then(|| json!(data));
        digest([json!(self.backbone())].into_iter().chain(phase_1_inputs(recipe)).chain(other).collect())
    }

    /// What one of the OrCo paper's tables gives for it: aHM, harmonic mean of the last session, aACC.
    pub fn published(self, table: PaperTable) -> Option<[f64; 3]> {
        let name = match self {
            // The paper has no row of SAVC.
            Self::Baseline | Self::Savc => return None,
            Self::Fact => "FACT",
            Self::Cec => "CEC",
            Self::Limit => "LIMIT",
            Self::Bidist => "BiDist",
            Self::Lcwof => "LCwoF",
            Self::NcFscil => "NC-FSCIL",
        };
        ROWS.iter().find(|row| row.name == name).expect("the paper has a row of it").theirs(table)
    }

    /// The same, of the table that is on the data and split of a recipe.
    fn theirs(self, recipe: &Recipe) -> Option<PublishedTotals> {
        let table = table(recipe)?;
        self.published(table).map(|[ahm, last_hm, aacc]| PublishedTotals { table, ahm, last_hm, aacc })
    }

    /// Trains it as far as it is not trained yet, and measures it; or reads what was measured of the same before.
    ///
    /// # Errors
    /// As for [`orco_trainer::train::pretrain::pretrain`], or if a file of the run cannot be written.
    pub fn measure(self, model: &mut Model, experiment: &Experiment<'_>) -> Result<Summary> {
        let Experiment { recipe, data, run, sessions, draws } = *experiment;
        if let Some(summary) = self.kept(recipe, sessions, run.folder()).filter(|kept| kept.draws == draws) {
            return Ok(summary);
        }
        let base = BaseSession { images: &data.train, split: &data.split, seed: recipe.seed, run };
        let key = self.key(recipe, sessions);
        let protocol = Protocol { recipe, data, draws, name: self.name(), file: self.name(), run, key: &key };
        let summary = match self {
            Self::Baseline => {
                trained(model, recipe, &base, &mut CrossEntropy)?;
                protocol.by_means(&Embedding::of(model, data, protocol.measured(), &[0])?, &CrossEntropy)?
            }
            Self::Fact => {
                let mut fact = Fact::new(model, recipe);
                trained(model, recipe, &base, &mut fact)?;
                protocol.by_means(&Embedding::of(model, data, protocol.measured(), &[0])?, &fact)?
            }
            Self::Savc => {
                let mut savc = Savc::new(model, recipe);
                trained(model, recipe, &base, &mut savc)?;
                protocol.by_means(&Embedding::of(model, data, protocol.measured(), &TURNS)?, &savc)?
            }
            Self::Cec | Self::Limit => {
                trained(model, recipe, &base, &mut CrossEntropy)?;
                let embedding = Embedding::of(model, data, protocol.measured(), &[0])?;
                // What follows draws the same whether the backbone was trained now or before.
                tch::manual_seed(recipe.seed as i64);
                let attention = Attention::new(model.backbone.description.features(), model.device());
                let config = &recipe.pretrain;
                if self == Self::Cec {
                    episodes::train(&attention, &Cec::new(model, config, data)?, &base)?;
                } else {
                    let means = embedding.means.squeeze_dim(1);
                    episodes::train(&attention, &Limit::new(model, config, data, &means)?, &base)?;
                }
                protocol.by_means(&embedding, &attention)?
            }
            Self::Bidist => {
                trained(model, recipe, &base, &mut CrossEntropy)?;
                protocol.walk(&mut Bidist::new(model, protocol)?)?
            }
            Self::Lcwof => {
                trained(model, recipe, &base, &mut CrossEntropy)?;
                protocol.walk(&mut Lcwof::new(model, protocol)?)?
            }
            Self::NcFscil => {
                let mut nc_fscil = NcFscil::new(model, recipe);
                trained(model, recipe, &base, &mut nc_fscil)?;
                let embedding = Embedding::of(model, data, protocol.measured(), &[0])?;
                protocol.walk(&mut nc_fscil::NcFscilSessions::new(&nc_fscil, &embedding, protocol))?
            }
        };
        run.log(&json!({ "phase": "rival", "draws": draws, "measured": summary }))?;
        measurements::keep(&run.path(&self.file()), key, &summary)?;
        Ok(summary)
    }

    /// What was measured of it last, on the same [sessions](orco_trainer::run::digest::session_digest), in the folder of
    /// its backbone; nothing if that cannot be read.
    pub fn kept(self, recipe: &Recipe, sessions: &str, folder: &Path) -> Option<Summary> {
        measurements::read(&folder.join(self.file()), &self.key(recipe, sessions))
    }

    fn file(self) -> String {
        format!("{}.json", self.name())
    }

    /// A digest of all that a draw depends on, beside its number.
    fn key(self, recipe: &Recipe, sessions: &str) -> String {
        digest(json!([measurements::PROGRAM, self, recipe, sessions]))
    }
}

/// What the programs train with where phase 1 does not: Nesterov's SGD that has everything decay.
fn sgd(parameters: Vec<Parameter>) -> Sgd {
    let settings = SgdConfig { momentum: 0.9, dampening: 0.0, weight_decay: 5e-4, nesterov: true };
    Sgd::new(parameters.into_iter().map(|parameter| Parameter { decays: true, ..parameter }).collect(), settings)
}

fn trained(model: &mut Model, recipe: &Recipe, base: &BaseSession<'_>, criterion: &mut impl Criterion) -> Result<()> {
    train(model, &recipe.pretrain, base, None, criterion).context("phase 1").map(drop)
}

/// Refuses a recipe that trains no backbone of its own.
///
/// # Errors
/// If so, with what is needed.
pub fn check(recipe: &Recipe) -> Result<()> {
    if recipe.backbone.onnx.is_some() || recipe.pretrain.epochs == 0 {
        bail!("the recipe's backbone is given, not trained; rivals need a recipe with [pretrain]");
    }
    Ok(())
}

/// Columns of a rival's name.
const WIDTH: usize = 10;

/// The table of the OrCo paper that is on a recipe's data and split.
fn table(recipe: &Recipe) -> Option<PaperTable> {
    let SplitConfig { base_classes, sessions, ways, measure_on, .. } = recipe.split;
    let table = PaperTable::of(recipe.data.kind.title(), base_classes, &vec![ways as u32; sessions]);
    table.filter(|_| measure_on == MeasureOn::Test)
}

/// What stands above the lines of the table of a recipe.
pub fn heading(recipe: &Recipe) -> String {
    let theirs = table(recipe).map(|table| format!("published on {}: aHM / last HM / aACC", table.name()));
    shown::heading(WIDTH, &theirs.unwrap_or_default())
}

/// The line of a rival beside what was published of it.
pub fn line(rival: Rival, recipe: &Recipe, summary: &Summary) -> String {
    let numbers = |table| Some(rival.published(table)?.map(|value| format!("{value:.2}")).join(" / "));
    let theirs = table(recipe).map(|table| numbers(table).unwrap_or_else(|| "-".into()));
    shown::line(WIDTH, rival.name(), summary, &theirs.unwrap_or_default())
}

/// What was published of a rival, as it stands in the file.
#[derive(Serialize)]
struct PublishedTotals {
    table: PaperTable,
    ahm: f64,
    last_hm: f64,
    aacc: f64,
}

/// Writes all that was measured as rivals.json and rivals.csv.
///
/// # Errors
/// If a file cannot be written.
pub fn write(folder: &Path, measured: Vec<(Rival, Summary)>, recipe: &Recipe) -> Result<()> {
    let entry = |(rival, measured): (Rival, Summary)| MeasuredSystem { measured, published: rival.theirs(recipe) };
    measurements::write(folder, "rivals", recipe, &measured.into_iter().map(entry).collect::<Vec<_>>())
}

/// Writes what was measured of each rival by every one of these recipes, which differ in their seeds alone, as
/// rivals-seeds.json and rivals-seeds.csv; returns each rival taken together.
///
/// # Errors
/// If a file cannot be written.
pub fn write_over_seeds(
    folder: &Path,
    measured: &[(Rival, Vec<Summary>)],
    recipes: &[Recipe],
) -> Result<Vec<OverSeeds>> {
    let over: Vec<OverSeeds> = measured.iter().map(|(_, each)| OverSeeds::of(each)).collect();
    let entry = |(over, (rival, each)): (&OverSeeds, &(Rival, Vec<Summary>))| {
        let published = recipes.first().and_then(|recipe| rival.theirs(recipe));
        json!({ "over": over, "each": each, "published": published })
    };
    let systems: Vec<_> = over.iter().zip(measured).map(entry).collect();
    let seeds: Vec<u64> = recipes.iter().map(|recipe| recipe.seed).collect();
    let all = json!({ "recipe": recipes.first(), "training_seeds": seeds, "systems": systems });
    measurements::claim(folder, "rivals-seeds")?;
    write_atomically(&folder.join("rivals-seeds.json"), &serde_json::to_vec_pretty(&all)?)?;
    write_atomically(&folder.join("rivals-seeds.csv"), seeds::csv(&over).as_bytes())?;
    Ok(over)
}

#[cfg(test)]
mod tests {
    use tch::{Device, Tensor};

    use super::*;
    use orco_trainer::data::dataset::{self, DataOrigin};
    use orco_trials::alone::alone;

    /// Few synthetic objects and a very small network.
    pub(super) fn recipe() -> Recipe {
        let mut recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap();
        recipe.data.train_per_class = Some(12);
        recipe.data.test_per_class = Some(2);
        (recipe.split.base_classes, recipe.split.sessions, recipe.split.ways) = (6, 2, 2);
        recipe.backbone.width = 2;
        (recipe.pretrain.epochs, recipe.pretrain.batch) = (2, 24);
        recipe.export.candidates_per_class = 5;
        recipe
    }

    /// All numbers of a tensor.
    pub(super) fn values(tensor: &Tensor) -> Vec<f32> {
        Vec::try_from(tensor.detach().reshape([-1])).unwrap()
    }

    /// Trained with and without a stop between the epochs, everything ends in the same numbers.
    fn goes_on<C: Criterion>(new: impl Fn(&Model, &Recipe) -> C) {
        let (recipe, folder) = (recipe(), tempfile::tempdir().unwrap());
        let data = dataset::open(&recipe, &DataOrigin::default()).unwrap();
        let all = |name: &str, stops: &[Option<usize>]| {
            let mut tensors = Vec::new();
            for &until in stops {
                let run = &Run::open(&folder.path().join(name), &recipe).unwrap();
                let base = BaseSession { images: &data.train, split: &data.split, seed: recipe.seed, run };
                let mut model = Model::new(&recipe, [3, 24, 24], Device::Cpu);
                let mut criterion = new(&model, &recipe);
                train(&mut model, &recipe.pretrain, &base, until, &mut criterion).unwrap();
                tensors = [model.tensors(), criterion.tensors()].into_iter().flatten().collect();
            }
            tensors
        };
        let (straight, stopped) = (all("straight", &[None]), all("stopped", &[Some(1), None]));
        for ((name, straight), (_, stopped)) in straight.iter().zip(&stopped) {
            assert!(straight.equal(stopped), "{name}");
        }
    }

    #[test]
    fn figures_are_those_of_the_recipes_data() {
        let synthetic = recipe();
        let cifar100: Recipe = toml::from_str(include_str!("../../recipes/cifar100-rivals.toml")).unwrap();
        assert!(heading(&cifar100).contains("on CIFAR-100") && heading(&synthetic).ends_with("base decay"));
    }

    #[test]
    fn rivals_go_on_where_they_were() {
        alone("rival::tests::rivals_go_on_where_they_were", || {
            goes_on(|_, _| CrossEntropy);
            goes_on(Fact::new);
            goes_on(Savc::new);
            goes_on(NcFscil::new);
        });
    }

    #[test]
    fn a_rival_stands_beside_what_was_published_of_it() {
        let [cifar100, mini_imagenet] = [PaperTable::Cifar100, PaperTable::MiniImagenet];
        assert_eq!(Rival::Fact.published(cifar100), Some([34.91, 33.61, 62.55]));
        assert_eq!([Rival::Lcwof.published(cifar100), Rival::Baseline.published(cifar100)], [None, None]);
        for rival in Rival::value_variants() {
            let has_row = !matches!(rival, Rival::Baseline | Rival::Savc);
            assert_eq!(rival.published(mini_imagenet).is_some(), has_row, "{}", rival.name());
            assert_eq!(rival.to_possible_value().unwrap().get_name(), rival.name());
        }
    }

    #[test]
    fn a_backbone_is_shared_by_recipe_and_by_what_trains_it() {
        let recipe = recipe();
        let other = Recipe { seed: 2, ..recipe.clone() };
        let digest = Rival::Baseline.digest(&recipe, recipe.seed);
        assert!(digest != Rival::Baseline.digest(&other, other.seed) && digest != Rival::Fact.digest(&recipe, 1));
        // By the same seed, but on the data of another.
        assert_ne!(Rival::Baseline.digest(&other, other.seed), Rival::Baseline.digest(&other, recipe.seed));
        let given = Recipe { pretrain: orco_trainer::config::PretrainConfig::default(), ..recipe };
        assert!(check(&given).unwrap_err().to_string().contains("rivals need a recipe with [pretrain]"));
    }
}
