//! Rivals that need the training of a backbone, or all base images, beside a baseline: their backbones are trained by
//! one recipe - the same network, images, views, optimiser, rate and number of steps - and all are measured by the
//! lab's protocol. Episodes and sessions have each rival's own settings, and its own length.
//!
//! Each has a file with its definition, its source, and what differs from its authors' program; [`Rival::ALL`] lists
//! them. What they share lies beside: `cosine` logits, random numbers (`draw`), `embedding` of all images by a frozen
//! backbone, answers by `prototypes`, training by `episodes`, `attention` over prototypes, and a `branch` of the
//! backbone that sessions train; `results` writes what was measured. A rival's own settings are those that its authors
//! published, for CIFAR-100 where they did; none was chosen here. The recipe's table `pretrain` is the budget; of its
//! losses, number of views and temperature nothing is taken. No backbone is chosen by test images, as some of the
//! published programs do: the last step's counts.

mod attention;
mod baseline;
mod bidist;
mod branch;
mod c_fscil;
mod cec;
mod cosine;
mod draw;
mod embedding;
mod episodes;
mod fact;
mod lcwof;
mod limit;
mod nc_fscil;
mod prototypes;
mod results;
mod savc;

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use orco_benchmark::Summary;
use orco_lab::kept_measurements::{self, fingerprint};
use orco_lab::method::Method;
use orco_lab::published::{PaperRow, PaperTable, PaperTotals, PublishedNumber};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::attention::Attention;
use self::embedding::Embedding;
use self::episodes::EpisodeImages;
use self::prototypes::PrototypeClassifier;
use self::results::table;
pub use self::results::{MeasuredRival, heading, line, write, write_over_seeds};
use crate::measurements::{self, Experiment};
use crate::sessions::Protocol;
use orco_trainer::config::Recipe;
use orco_trainer::data::dataset::DataSet;
use orco_trainer::model::Model;
use orco_trainer::model::store::Parameter;
use orco_trainer::run::digest::{digest, phase_1_inputs};
use orco_trainer::train::optimiser::{Sgd, SgdConfig};
use orco_trainer::train::pretrain::{Criterion, pretrain_by};
use orco_trainer::train::training_loop::BaseSession;

/// What a rival is. Each file of this folder defines its own; [`Rival::ALL`] lists them.
pub(crate) struct RivalSpec {
    /// Its name, and whose it is.
    method: Method,
    /// Revision of its computation. Raise it with every change of its numbers: what was kept of it is then measured
    /// anew, and its episodes are trained anew.
    revision: u32,
    /// What trains its backbone: rivals that say the same share one.
    backbone: RivalBackbone,
    /// Completes its training, and measures it through the sessions.
    measure: fn(&mut RivalTraining<'_>) -> Result<Summary>,
    /// How long it trains the backbone beyond the recipe's budget, and how long its authors do, as tables of results
    /// say it; `None` if it does not.
    extra_training: Option<&'static str>,
}

/// How a backbone is trained in the base session.
pub(crate) struct RivalBackbone {
    /// Name of the training, by which rivals share a backbone.
    name: &'static str,
    /// Revision of its training. Raise it with every change of that, and the revision of each rival that uses this
    /// backbone: it is then trained anew, in a folder of its own.
    revision: u32,
}

impl RivalBackbone {
    /// As [`Rival::digest`]. The first revision adds nothing to it, so that what was trained before there were any is
    /// found.
    fn digest(&self, recipe: &Recipe, data: u64) -> String {
        let revision = (self.revision > 1).then(|| json!({ "revision": self.revision }));
        let other = (data != recipe.seed).then(|| json!(data));
        digest([json!(self.name)].into_iter().chain(phase_1_inputs(recipe)).chain(other).chain(revision).collect())
    }
}

/// A way of training a backbone, and of answering with it.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rival(&'static RivalSpec);

impl Rival {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 9] = [
        Self(&baseline::BASELINE),
        Self(&fact::FACT),
        Self(&savc::SAVC),
        Self(&cec::CEC),
        Self(&c_fscil::C_FSCIL),
        Self(&limit::LIMIT),
        Self(&bidist::BIDIST),
        Self(&lcwof::LCWOF),
        Self(&nc_fscil::NC_FSCIL),
    ];

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        self.0.method.name
    }

    /// What it does, and whose it is.
    pub fn description(self) -> &'static str {
        self.0.method.description
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rival| rival.name() == name)
    }

    /// How long it trains the backbone beyond the recipe's budget, in words; `None` if it does not.
    pub fn extra_training(self) -> Option<&'static str> {
        self.0.extra_training
    }

    /// What trains its backbone: rivals that say the same share one.
    pub fn backbone(self) -> &'static str {
        self.0.backbone.name
    }

    /// A digest of all that its backbone depends on, the revision of its training among that, where the data are those
    /// of the recipe with the seed `data`: what is set aside, and what synthetic pictures show, is drawn by it.
    pub fn digest(self, recipe: &Recipe, data: u64) -> String {
        self.0.backbone.digest(recipe, data)
    }

    /// What one of the OrCo paper's tables gives for it.
    pub fn published(self, table: PaperTable) -> Option<PaperTotals> {
        PaperRow::named(self.0.method.paper_row?)?.totals(table)
    }

    /// What the OrCo paper's table on the data and split of a recipe gives for it.
    fn published_numbers(self, recipe: &Recipe) -> Option<[PublishedNumber; 3]> {
        let table = table(recipe)?;
        Some(self.published(table)?.numbers(table))
    }

    /// Completes its training, and measures it; or reads what was measured before.
    ///
    /// # Errors
    /// As for [`orco_trainer::train::pretrain::pretrain`], or if a file of the run cannot be written.
    pub fn measure(self, model: &mut Model, experiment: &Experiment<'_>) -> Result<Summary> {
        let Experiment { recipe, data, run, sessions, draws } = *experiment;
        if let Some(summary) = self.kept(recipe, sessions, run.folder()).filter(|kept| kept.draws == draws) {
            return Ok(summary);
        }
        let base = BaseSession { images: &data.train, split: &data.split, seed: recipe.seed, run };
        let fingerprint = self.fingerprint(recipe, sessions);
        let (name, file, fingerprint) = (self.name(), self.name(), &fingerprint);
        let protocol = Protocol { recipe, data, draws, name, file, run, fingerprint };
        let summary = (self.0.measure)(&mut RivalTraining { model, recipe, data, base, protocol })?;
        run.log(&json!({ "phase": "rival", "draws": draws, "measured": summary }))?;
        measurements::keep(&run.path(&self.file()), fingerprint, &summary)?;
        Ok(summary)
    }

    /// The last measurement of it on the same [sessions](orco_trainer::data::digest::session_digest), in the folder
    /// of its backbone; nothing if that cannot be read.
    pub fn kept(self, recipe: &Recipe, sessions: &str, folder: &Path) -> Option<Summary> {
        kept_measurements::read(&folder.join(self.file()), &self.fingerprint(recipe, sessions))
    }

    fn file(self) -> String {
        format!("{}.json", self.name())
    }

    /// A digest of everything that a draw depends on, beside its number.
    fn fingerprint(self, recipe: &Recipe, sessions: &str) -> String {
        fingerprint(json!([self.name(), self.0.revision, recipe, sessions]))
    }
}

impl PartialEq for Rival {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl fmt::Debug for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rival").field(&self.name()).finish()
    }
}

impl From<Rival> for String {
    fn from(rival: Rival) -> Self {
        rival.name().into()
    }
}

impl TryFrom<String> for Rival {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::named(&name).ok_or_else(|| format!("there is no rival {name}"))
    }
}

/// What a rival is trained and measured with.
pub(crate) struct RivalTraining<'a> {
    model: &'a mut Model,
    recipe: &'a Recipe,
    data: &'a DataSet,
    base: BaseSession<'a>,
    protocol: Protocol<'a>,
}

impl RivalTraining<'_> {
    /// Trains the backbone by the recipe's budget, or what is left of it.
    fn train(&mut self, criterion: &mut impl Criterion) -> Result<()> {
        pretrain_by(self.model, &self.recipe.pretrain, &self.base, None, criterion).context("phase 1").map(drop)
    }

    /// Features of every image under each rotation, in quarter turns, by the backbone as it is.
    fn embedding(&self, rotations: &[i64]) -> Result<Embedding> {
        Embedding::of(self.model, self.data, self.protocol.measured(), rotations)
    }

    /// Measures the answers by class means of the backbone as it is.
    fn measure_by_means(&self, rotations: &[i64], classifier: &dyn PrototypeClassifier) -> Result<Summary> {
        self.protocol.measure_by_means(&self.embedding(rotations)?, classifier)
    }

    /// Base images as episodes show them.
    fn episode_images(&self) -> EpisodeImages<'_> {
        EpisodeImages { model: self.model, data: self.data, augment: &self.recipe.pretrain.augment }
    }

    /// Untrained attention. Seeds torch's generator, so that later draws are the same whether the backbone was trained
    /// in this process or read from its checkpoint.
    fn attention(&self) -> Attention {
        tch::manual_seed(self.recipe.seed as i64);
        Attention::new(self.model.backbone.description.features(), self.model.device())
    }
}

/// Backbones that are trained by cross entropy over cosines.
const BY_CROSS_ENTROPY: RivalBackbone = RivalBackbone { name: "cross-entropy", revision: 1 };

/// SGD as the rivals' programs set it outside the base session: Nesterov momentum, and weight decay on every parameter.
fn nesterov_sgd(parameters: Vec<Parameter>) -> Sgd {
    let settings = SgdConfig { momentum: 0.9, dampening: 0.0, weight_decay: 5e-4, nesterov: true };
    Sgd::new(parameters.into_iter().map(|parameter| Parameter { decays: true, ..parameter }).collect(), settings)
}

/// Refuses a recipe that trains no backbone of its own.
///
/// # Errors
/// If so, with what is needed.
pub fn check(recipe: &Recipe) -> Result<()> {
    if !recipe.has_phase_1() {
        bail!(
            "the backbone is given, not trained; rivals need a recipe with [pretrain], and no ONNX file as \
             `--backbone` or `backbone.onnx`"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use orco_benchmark::{Draw, SessionAccuracy, summarise};
    use orco_lab::rival_results::{RivalResults, RivalRun};
    use tch::{Device, Tensor};

    use super::*;
    use crate::rival::baseline::CrossEntropy;
    use crate::rival::fact::Fact;
    use crate::rival::nc_fscil::NcFscil;
    use crate::rival::savc::Savc;
    use orco_trainer::data::dataset::{self, DataOrigin};
    use orco_trainer::run::Run;
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

    /// Its objects.
    pub(super) fn data(recipe: &Recipe) -> DataSet {
        dataset::open(recipe, &DataOrigin::default()).unwrap()
    }

    /// Its network, untrained.
    pub(super) fn model(recipe: &Recipe) -> Model {
        Model::new(recipe, [3, 24, 24], Device::Cpu)
    }

    /// A rival's way through the sessions, one draw, kept in files of its name.
    pub(super) fn protocol<'a>(recipe: &'a Recipe, data: &'a DataSet, run: &'a Run, name: &'a str) -> Protocol<'a> {
        Protocol { recipe, data, draws: 1, name, file: name, run, fingerprint: "" }
    }

    /// Rows of two numbers.
    pub(super) fn rows(values: &[f32]) -> Tensor {
        Tensor::from_slice(values).view([-1, 2])
    }

    /// All numbers of a tensor.
    pub(super) fn values(tensor: &Tensor) -> Vec<f32> {
        Vec::try_from(tensor.detach().reshape([-1])).unwrap()
    }

    /// Trained with and without a stop between the epochs, everything ends in the same numbers.
    pub(in crate::rival) fn goes_on<C: Criterion>(new: impl Fn(&Model, &Recipe) -> C) {
        let (recipe, folder) = (recipe(), tempfile::tempdir().unwrap());
        let data = data(&recipe);
        let all = |name: &str, stops: &[Option<usize>]| {
            let mut tensors = Vec::new();
            for &until in stops {
                let run = &Run::open(&folder.path().join(name), &recipe).unwrap();
                let base = BaseSession { images: &data.train, split: &data.split, seed: recipe.seed, run };
                let mut model = model(&recipe);
                let mut criterion = new(&model, &recipe);
                pretrain_by(&mut model, &recipe.pretrain, &base, until, &mut criterion).unwrap();
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
    fn published_numbers_are_those_of_the_recipes_data() {
        let synthetic = recipe();
        let cifar100: Recipe = toml::from_str(include_str!("../../recipes/cifar100-rivals.toml")).unwrap();
        assert!(heading(&cifar100).contains("on CIFAR-100") && heading(&synthetic).ends_with("base decay"));
    }

    #[test]
    fn the_lab_reads_what_is_written_of_each_recipe() {
        let row = |session, inc| SessionAccuracy { session, base: 60.0, inc, hm: inc, top1: 50.0, area: None };
        let draw = Draw::of_rows(vec![row(0, None), row(1, Some(40.0))]);
        let measured = [MeasuredRival { rival: Rival::named("fact").unwrap(), measured: summarise("fact", &[draw]) }];
        let weights = ["cifar100-edge", "miniimagenet-edge"].map(|name| format!("models/{name}/backbone.onnx"));
        for (text, table, weights) in [
            (include_str!("../../recipes/cifar100-rivals.toml"), PaperTable::Cifar100, None),
            (include_str!("../../recipes/cifar100-rivals-given.toml"), PaperTable::Cifar100, Some(&weights[0])),
            (include_str!("../../recipes/miniimagenet-rivals.toml"), PaperTable::MiniImagenet, None),
            (include_str!("../../recipes/miniimagenet-rivals-given.toml"), PaperTable::MiniImagenet, Some(&weights[1])),
        ] {
            let recipe: Recipe = toml::from_str(text).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let (image_size, steps) = (recipe.data.side(), 4 * recipe.pretrain.steps_per_epoch(30_000));
            let lengths = Rival::ALL.into_iter().filter_map(Rival::extra_training).map(str::to_owned).collect();
            let command = "train-lab rival fact".into();
            let run = RivalRun { command, image_size, base_images: 30_000, steps, lengths };
            let context = measurements::ResultsContext { recipe: &recipe, test_seed: None, draws: 1 };
            write(folder.path(), &measured, &run, context).unwrap();
            let json = fs::read(folder.path().join("rivals.json")).unwrap();
            let read: RivalResults = serde_json::from_slice(&json).unwrap();
            assert_eq!((read.table(), read.run.as_ref(), steps), (Some(table), Some(&run), 936));
            assert_eq!(read.results.systems[0].published.len(), 3);
            assert_eq!((read.recipe.pretrain.epochs, read.recipe.backbone.weights.as_ref()), (4, weights));
            let has_imagenet_stem = read.recipe.backbone.stem.as_deref() == Some("imagenet");
            assert_eq!(has_imagenet_stem, table == PaperTable::MiniImagenet);
        }
    }

    #[test]
    fn a_resumed_training_of_a_rival_equals_one_that_never_stopped() {
        alone("rival::tests::a_resumed_training_of_a_rival_equals_one_that_never_stopped", || {
            goes_on(|_, _| CrossEntropy);
            goes_on(Fact::new);
            goes_on(Savc::new);
            goes_on(NcFscil::new);
        });
    }

    #[test]
    fn a_rival_stands_beside_what_was_published_of_it() {
        let named = |name| Rival::named(name).unwrap();
        let [cifar100, mini_imagenet] = [PaperTable::Cifar100, PaperTable::MiniImagenet];
        assert_eq!(named("fact").published(cifar100).unwrap().to_string(), "34.91 / 33.61 / 62.55");
        assert_eq!([named("lcwof").published(cifar100), named("baseline").published(cifar100)], [None, None]);
        for (index, rival) in Rival::ALL.into_iter().enumerate() {
            // The paper has no row of SAVC.
            let has_row = !["baseline", "savc"].contains(&rival.name());
            assert_eq!(rival.published(mini_imagenet).is_some(), has_row, "{}", rival.name());
            assert!(!Rival::ALL[..index].contains(&rival), "{}", rival.name());
            let json = serde_json::to_string(&rival).unwrap();
            assert_eq!(
                (json.as_str(), serde_json::from_str::<Rival>(&json).unwrap()),
                (&*format!("{:?}", rival.name()), rival)
            );
        }
    }

    #[test]
    fn a_backbone_is_shared_by_recipe_and_by_what_trains_it() {
        let recipe = recipe();
        let other = Recipe { seed: 2, ..recipe.clone() };
        let [baseline, fact, ..] = Rival::ALL;
        let digest = baseline.digest(&recipe, recipe.seed);
        assert!(digest != baseline.digest(&other, other.seed) && digest != fact.digest(&recipe, 1));
        // By the same seed, but on the data of another.
        assert_ne!(baseline.digest(&other, other.seed), baseline.digest(&other, recipe.seed));
        // Another revision of the training has a folder of its own.
        let of_revision = |revision| RivalBackbone { revision, ..BY_CROSS_ENTROPY }.digest(&recipe, recipe.seed);
        assert!(of_revision(1) == digest && ![digest, of_revision(3)].contains(&of_revision(2)));
        let given = Recipe { pretrain: orco_trainer::config::PretrainConfig::default(), ..recipe };
        assert!(check(&given).unwrap_err().to_string().contains("with [pretrain], and no ONNX file as `--backbone`"));
    }
}
