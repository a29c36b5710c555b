//! Ranks have the gradients of one process, and agree on what they draw and give to each other.

use std::path::Path;
use std::time::Duration;

use orco_trainer::config::{Precision, PretrainConfig, Recipe};
use orco_trainer::model::Model;
use orco_trainer::model::backbone::{ForwardMode, unit};
use orco_trainer::platform::device::DeviceChoice;
use orco_trainer::platform::distributed::RankGroup;
use orco_trainer::train::loss::contrast;
use orco_trainer::train::optimiser::gradients;
use orco_trainer::train::pretrain::BatchLosses;
use orco_trials::torch_generator;
use tch::{Device, Kind, Tensor, no_grad};

use super::{FOLDER, RANKS, ended, free_port, rank_of_test};
use crate::support::error_text;

const BATCH: i64 = 24;

/// The losses, one at a time and together.
fn cases() -> Vec<(&'static str, PretrainConfig)> {
    let recipe: Recipe = toml::from_str(include_str!("../../../recipes/synthetic-tiny.toml")).unwrap();
    [
        ("cross entropy", [1.0, 0.0, 0.0]),
        ("supervised contrast", [0.0, 1.0, 0.0]),
        ("self-supervised contrast", [0.0, 0.0, 1.0]),
        ("all", [1.0, 0.5, 0.25]),
    ]
    .map(|(name, [cross_entropy, supervised_contrast, self_contrast])| {
        let weights = PretrainConfig { cross_entropy, supervised_contrast, self_contrast, ..recipe.pretrain.clone() };
        (name, PretrainConfig { views: 2, ..weights })
    })
    .into()
}

/// The model, in f64 where wished.
fn model(kind: Kind) -> Model {
    let mut recipe: Recipe = toml::from_str(include_str!("../../../recipes/synthetic-tiny.toml")).unwrap();
    recipe.backbone.width = 4;
    let model = Model::new(&recipe, [3, 24, 24], Device::Cpu);
    for (_, mut tensor) in model.tensors() {
        let converted = no_grad(|| tensor.to_kind(kind));
        tensor.set_data(&converted);
    }
    model
}

/// Rows of two views of a batch, of which a rank has its share: the first view of all first.
fn own_rows(rows: &Tensor, group: &RankGroup) -> Tensor {
    let rows_of_rank = group.own_rows(BATCH as usize);
    let own = |view: i64| rows.narrow(0, view * BATCH + rows_of_rank.start as i64, rows_of_rank.len() as i64);
    Tensor::cat(&[own(0), own(1)], 0)
}

/// Gradients of every case over the same features, named by case and parameter, and the losses.
fn gradients_in(group: &RankGroup) -> Vec<(String, Tensor)> {
    let mut named = Vec::new();
    let model = model(Kind::Double);
    tch::manual_seed(5);
    let features = Tensor::randn([2 * BATCH, model.head.w1.size()[1]], (Kind::Double, Device::Cpu));
    let labels = Tensor::randint(6, [BATCH], (Kind::Int64, Device::Cpu));
    for (name, config) in cases() {
        let losses = BatchLosses::of_recipe(&model, &config, &own_rows(&features, group), &labels, group).unwrap();
        let parameters: Vec<_> =
            model.parameters("").into_iter().filter(|parameter| !parameter.name.starts_with("backbone")).collect();
        let made = gradients(&losses.total, &parameters);
        let total = losses.total.detach().copy();
        group.all_reduce_mean(made.iter().filter(|gradient| gradient.defined()).chain([&total])).unwrap();
        named.push((format!("{name}: loss"), total));
        let defined = parameters.iter().zip(made).filter(|(_, gradient)| gradient.defined());
        named.extend(defined.map(|(parameter, gradient)| (format!("{name}: {}", parameter.name), gradient)));
    }
    named
}

/// Gradients of the whole network over the same images, in f32, with batch statistics of all ranks or of each, and the
/// running statistics after that.
fn network_gradients(group: &RankGroup, synchronised: bool) -> Vec<(String, Tensor)> {
    let mut model = model(Kind::Float);
    model.backbone.norm_group = synchronised.then(|| group.clone());
    tch::manual_seed(6);
    let images = own_rows(&Tensor::randn([2 * BATCH, 3, 24, 24], (Kind::Float, Device::Cpu)), group);
    let labels = Tensor::randint(6, [BATCH], (Kind::Int64, Device::Cpu)).repeat([2]);
    let features = model.backbone.forward(&images, Precision::F32, ForwardMode::Training);
    let z = group.gather_views(&unit(&model.head.forward(&features)), 2).unwrap();
    let loss = contrast(&z, &labels, 0.2, Default::default());
    let parameters = model.parameters("backbone");
    let made = gradients(&loss, &parameters);
    let norms: Vec<_> = model.tensors().into_iter().filter(|(_, tensor)| !tensor.requires_grad()).collect();
    group.all_reduce_mean(made.iter().chain(norms.iter().map(|(_, tensor)| tensor))).unwrap();
    let made = parameters.into_iter().zip(made).map(|(parameter, gradient)| (parameter.name, gradient));
    made.chain(norms).map(|(name, tensor)| (format!("{name}, {synchronised}"), tensor)).collect()
}

/// |a - b| / |b|.
fn apart(a: &Tensor, b: &Tensor) -> f64 {
    let length = |x: Tensor| x.square().sum(Kind::Double).sqrt().double_value(&[]);
    length(a - b) / length(b.shallow_clone()).max(f64::MIN_POSITIVE)
}

/// Not a test of its own: what the ranks of the next one do.
#[test]
fn a_rank_leaves_its_gradients() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    tch::set_num_threads(1);
    let group = RankGroup::from_environment(DeviceChoice::Cpu).unwrap();
    assert_eq!(group.size(), RANKS);
    let mut named = gradients_in(&group);
    named.extend(network_gradients(&group, true));
    named.extend(network_gradients(&group, false));
    let path = Path::new(&folder).join(format!("{}.safetensors", group.rank()));
    let named: Vec<_> = named.into_iter().map(|(name, tensor)| (name, tensor.contiguous())).collect();
    Tensor::write_safetensors(&named, path).unwrap();
    // What ranks draw apart differs, what they draw after it does not.
    let (common, options) = (|| Tensor::rand([64], (Kind::Double, Device::Cpu)), (Kind::Double, Device::Cpu));
    let own = group.draw_separately(|| Tensor::rand([64], options));
    let ours = common();
    let [mean_own, mean_common] = [&own, &ours].map(Tensor::copy);
    group.all_reduce_mean([&mean_own, &mean_common]).unwrap();
    assert!(apart(&mean_own, &own) > 0.01 && mean_common.equal(&ours));
    let first = [group.rank() as i64 + 7];
    let named = [("numbers".to_owned(), Tensor::from_slice(&first))].into_iter().collect();
    let given = group.broadcast_named(group.is_first().then_some(named)).unwrap().unwrap();
    assert_eq!(given["numbers"].int64_value(&[0]), 7);
    assert!(group.broadcast_named(None).unwrap().is_none());
    let indices: Vec<usize> = (10..17).collect();
    let part: Vec<i64> = group.own_part(&indices).into_iter().map(|index| index as i64).collect();
    let rows = group.gather_rows(&Tensor::from_slice(&part).view([-1, 1]), indices.len()).unwrap();
    assert_eq!(Vec::<i64>::try_from(rows.view(-1)).unwrap(), (10..17).collect::<Vec<i64>>());
}

#[test]
fn two_ranks_have_the_gradients_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let ranks = [0, 1]
        .map(|rank| rank_of_test("distributed::gradients::a_rank_leaves_its_gradients", folder.path(), rank, port));
    let _turn = torch_generator();
    let expected = gradients_in(&RankGroup::alone());
    let whole = network_gradients(&RankGroup::alone(), true);
    for (rank, child) in ranks.into_iter().enumerate() {
        let output = ended(child, Duration::from_secs(300));
        assert!(output.status.success(), "rank {rank}: {}", error_text(&output));
        let made = Tensor::read_safetensors(folder.path().join(format!("{rank}.safetensors"))).unwrap();
        let made: std::collections::HashMap<_, _> = made.into_iter().collect();
        for (name, expected) in &expected {
            let difference = apart(&made[name], expected);
            assert!(difference < 1e-6, "rank {rank}, {name}: {difference:e}");
        }
        // In f32, whose rounding the layers multiply; statistics of each rank alone give something else.
        for (name, expected) in &whole {
            let difference = apart(&made[name], expected);
            assert!(difference < 0.02, "rank {rank}, {name}: {difference:e}");
        }
        let alone = |name: &str| apart(&made[&name.replace("true", "false")], &made[name]);
        assert!(whole.iter().map(|(name, _)| alone(name)).fold(0.0, f64::max) > 0.1);
    }
    assert!(expected.iter().filter(|(name, _)| name.starts_with("self-supervised")).count() > 4, "all of the head");
}
