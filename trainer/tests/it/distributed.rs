//! Two ranks on this machine train as one process does: the same gradients, one folder, an end for all when one ends.

#![cfg(unix)]

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use orco_trainer::config::{Precision, PretrainConfig, Recipe};
use orco_trainer::data::dataset::{self, DataOrigin, DataSet};
use orco_trainer::data::digest::trained_on;
use orco_trainer::model::Model;
use orco_trainer::model::backbone::{ForwardMode, unit};
use orco_trainer::platform::device::DeviceChoice;
use orco_trainer::platform::distributed::RankGroup;
use orco_trainer::platform::interrupt::Activity;
use orco_trainer::run::{Run, RunRecord};
use orco_trainer::train::fit::{EpochReport, EpochTime, Position, TrainingLoop, TrainingPhase};
use orco_trainer::train::loss::contrast;
use orco_trainer::train::optimiser::gradients;
use orco_trainer::train::pretrain::BatchLosses;
use orco_trials::torch_generator;
use tch::{Device, Kind, Tensor, no_grad};

use crate::support::{error_text, synthetic};

const RANKS: usize = 2;
/// Tells a process of this program that it is a rank, and which folder to work in.
const FOLDER: &str = "ORCO_TEST_FOLDER";
/// How long a rank may live on after another one, in the words of the promise.
const LIMIT: Duration = Duration::from_secs(60);

/// A port that nobody listens at.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The variables of torchrun for a rank.
fn as_rank(command: &mut Command, rank: usize, port: u16) {
    let numbers = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", RANKS), ("MASTER_PORT", port.into())];
    command.envs(numbers.map(|(name, number)| (name, number.to_string()))).env("MASTER_ADDR", "127.0.0.1");
    command.env_remove("TORCHELASTIC_USE_AGENT_STORE");
}

/// The output of a process, which is killed at the limit.
fn ended(mut child: Child, limit: Duration) -> Output {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > limit {
            child.kill().unwrap();
            panic!("it did not end: {}", error_text(&child.wait_with_output().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

/// The losses, one at a time and together.
fn cases() -> Vec<(&'static str, PretrainConfig)> {
    let recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap();
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
    let mut recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap();
    recipe.backbone.width = 4;
    let model = Model::new(&recipe, [3, 24, 24], Device::Cpu);
    for (_, mut tensor) in model.tensors() {
        let converted = no_grad(|| tensor.to_kind(kind));
        tensor.set_data(&converted);
    }
    model
}

const BATCH: i64 = 24;

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
        let losses = BatchLosses::over(&model, &config, &own_rows(&features, group), &labels, group).unwrap();
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
    let ranks = [0, 1].map(|rank| rank_of_test("distributed::a_rank_leaves_its_gradients", folder.path(), rank, port));
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

/// A rank that runs one test of this program, which takes it for a rank by its variables.
fn rank_of_test(test: &str, folder: &Path, rank: usize, port: u16) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(FOLDER, folder);
    as_rank(&mut command, rank, port);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Pictures of four classes, training and test; one training picture is broken.
fn pictures(folder: &Path) {
    for (part, each) in [("train", 13), ("test", 3)] {
        for class in 0..4 {
            let into = folder.join(part).join(format!("class {class}"));
            fs::create_dir_all(&into).unwrap();
            for number in 0..each {
                let colour = image::Rgb([class * 60, number * 15, 80]);
                image::RgbImage::from_pixel(30, 24, colour).save(into.join(format!("{number:02}.png"))).unwrap();
            }
        }
    }
    fs::write(folder.join("train/class 1/04.png"), b"no picture").unwrap();
}

fn picture_recipe() -> Recipe {
    let mut recipe: toml::Table = include_str!("../../recipes/synthetic-tiny.toml").parse().unwrap();
    recipe["data"] = toml::toml! { kind = "folders" image_size = 24 }.into();
    recipe["split"] = toml::toml! { base_classes = 2 sessions = 1 ways = 2 measure_on = "test" }.into();
    recipe["export"]["candidates_per_class"] = 5.into();
    recipe.try_into().unwrap()
}

fn open_pictures(folder: &Path, skip_broken: bool, group: &RankGroup) -> Result<DataSet, String> {
    let recipe = picture_recipe();
    let origin = DataOrigin { folder: Some(folder), skip_broken, group: group.clone(), ..DataOrigin::default() };
    dataset::open(&recipe, &origin).map_err(|error| error.to_string())
}

/// Not a test of its own: what the ranks of the next one do.
#[test]
fn a_rank_reads_pictures() {
    let Some(folder) = std::env::var_os(FOLDER).map(std::path::PathBuf::from) else { return };
    env_logger::builder().filter_level(log::LevelFilter::Debug).init();
    let group = RankGroup::from_environment(DeviceChoice::Cpu).unwrap();
    let refused = open_pictures(&folder.join("pictures"), false, &group).unwrap_err();
    eprintln!("refused: {refused}");
    let set = open_pictures(&folder.join("pictures"), true, &group).unwrap();
    assert_eq!(set.skipped.len(), 1);
    let held = [("train", &set.train.pixels), ("test", &set.test.pixels)];
    Tensor::write_safetensors(&held, folder.join(format!("{}.safetensors", group.rank()))).unwrap();
    // One memory: what a rank writes, the others see.
    let last = set.train.pixels.get(0).view(-1).get(0);
    group.barrier().unwrap();
    if !group.is_first() {
        let _ = last.shallow_clone().fill_(199);
    }
    group.barrier().unwrap();
    assert_eq!(last.int64_value(&[]), 199);
}

#[test]
fn each_rank_reads_its_share_of_the_images() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    pictures(&folder.join("pictures"));
    let port = free_port();
    let ranks = [0, 1].map(|rank| rank_of_test("distributed::a_rank_reads_pictures", folder, rank, port));
    let expected = open_pictures(&folder.join("pictures"), true, &RankGroup::alone()).unwrap();
    for (rank, child) in ranks.into_iter().enumerate() {
        let output = ended(child, LIMIT);
        let said = error_text(&output);
        assert!(output.status.success(), "rank {rank}: {said}");
        assert!(said.contains(&format!("rank {rank} decodes 26 of 52 training images")), "{said}");
        assert!(said.contains(&format!("rank {rank} decodes 6 of 12 test images")), "{said}");
        // The picture is one of rank 0's; both say which one it is.
        assert!(said.contains("refused: the image ") && said.contains("class 1/04.png is neither a JPEG"), "{said}");
        let held = Tensor::read_safetensors(folder.join(format!("{rank}.safetensors"))).unwrap();
        for (name, pixels) in held {
            let expected = if name == "train" { &expected.train } else { &expected.test };
            assert!(pixels.equal(&expected.pixels), "rank {rank}: {name}");
        }
    }
}

/// A recipe of a very small network on few synthetic objects.
fn recipe(folder: &Path, epochs: i64, changes: &[(&str, &str, toml::Value)]) {
    let small = [
        ("data", "train_per_class", 12.into()),
        ("data", "test_per_class", 2.into()),
        ("split", "base_classes", 10.into()),
        ("split", "sessions", 2.into()),
        ("split", "ways", 2.into()),
        ("backbone", "width", 2.into()),
        ("pretrain", "epochs", epochs.into()),
        ("pretrain", "warmup_epochs", 0.into()),
        ("targets", "steps", 40.into()),
        ("align", "epochs", 3.into()),
        ("export", "candidates_per_class", 5.into()),
    ];
    synthetic(folder, &[&small[..], changes].concat());
}

fn program(folder: &Path, verb: &str, run: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco-train"));
    command.args([verb, "recipe.toml", "--run", run, "--threads", "1", "--device", "cpu"]);
    command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts the program as two ranks.
fn ranks(folder: &Path, verb: &str, run: &str) -> [Child; RANKS] {
    let port = free_port();
    [0, 1].map(|rank| {
        let mut command = program(folder, verb, run);
        as_rank(&mut command, rank, port);
        command.spawn().unwrap()
    })
}

/// Epochs of a run that its metrics tell of.
fn epochs(run: &Path) -> usize {
    fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default().lines().count()
}

/// Waits for an epoch and its checkpoint, which comes after its metrics, as long as all ranks run.
fn wait_for_epoch(ranks: &mut [Child; RANKS], run: &Path) {
    let before = epochs(run);
    while epochs(run) == before || !run.join("pretrain.safetensors").exists() {
        for rank in ranks.iter_mut() {
            assert!(rank.try_wait().unwrap().is_none(), "a rank ended before an epoch");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_killed_rank_ends_the_other_and_one_process_continues() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, 400, &[]);
    let run = folder.join("run");
    let mut two = ranks(folder, "pretrain", "run");
    wait_for_epoch(&mut two, &run);
    let [first, second] = two;
    let process = second.id();
    send("-KILL", &second);
    assert!(!ended(second, LIMIT).status.success());
    let output = ended(first, LIMIT);
    let said = error_text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("error: phase 1: ") && last.contains("lost the other ranks: "), "{said}");
    assert!(last.ends_with("the log of the rank that ended first says why, and the same command continues the run"));
    assert_eq!(RunRecord::read(&run).unwrap().ranks, RANKS);

    // The first rank alone wrote.
    let names: Vec<_> = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let names: Vec<_> = names.iter().map(|name| name.to_str().unwrap()).collect();
    assert!(names.contains(&"pretrain.safetensors") && names.contains(&"run.json"), "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("events.out.tfevents.")).count(), 1, "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with(&format!(".{process}"))), "{names:?}");

    let done = epochs(&run);
    let mut alone = program(folder, "pretrain", "run");
    let output = alone.args(["--until", &(done + 2).to_string()]).output().unwrap();
    let said = error_text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("begun by 2 ranks; by one process it draws other views"), "{said}");
    assert!(said.contains("phase 1 continues after"), "{said}");
    assert_eq!(epochs(&run), done + 2);
    assert_eq!(RunRecord::read(&run).unwrap().ranks, 1);
}

/// A machine that hangs keeps its connections open, so only waiting tells.
#[test]
fn a_silent_rank_ends_the_other() {
    if !orco_trials::heavy() {
        return orco_trials::skipped("waiting for a silent rank (heavy: `cargo xtask test full`)");
    }
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), 4000, &[]);
    let mut two = ranks(folder.path(), "pretrain", "run");
    wait_for_epoch(&mut two, &folder.path().join("run"));
    let [first, mut second] = two;
    send("-STOP", &second);
    let output = ended(first, 2 * LIMIT);
    second.kill().unwrap();
    second.wait().unwrap();
    let said = error_text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("error: phase 1: ") && last.contains("lost the other ranks: "), "{said}");
}

#[test]
fn a_stop_of_one_rank_stops_both_and_they_go_on_exactly() {
    for (train_backbone, sync_batch_norm) in [(false, false), (true, true)] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let changes = [
            ("pretrain", "sync_batch_norm", sync_batch_norm.into()),
            ("align", "train_backbone", train_backbone.into()),
            ("align", "batch", 32.into()),
        ];
        recipe(folder, 16, &changes);
        let finish = |run: &str| {
            for (rank, child) in ranks(folder, "align", run).into_iter().enumerate() {
                let output = ended(child, Duration::from_secs(300));
                let said = error_text(&output);
                assert!(output.status.success(), "{said}");
                // The others have nothing to say.
                assert_eq!(said.contains("phase 2"), rank == 0, "rank {rank}: {said}");
            }
        };
        finish("straight");
        let mut two = ranks(folder, "align", "stopped");
        wait_for_epoch(&mut two, &folder.join("stopped"));
        send("-INT", &two[1]);
        for child in two {
            let output = ended(child, LIMIT);
            assert_eq!(output.status.code(), Some(130), "{}", error_text(&output));
        }
        assert!(!folder.join("stopped/align.safetensors").exists(), "it was over too soon");
        finish("stopped");
        let read = |run: &str, name: &str| fs::read(folder.join(run).join(name)).unwrap();
        for name in ["pretrain.safetensors", "align.safetensors"] {
            assert!(read("straight", name) == read("stopped", name), "{name} differs");
        }
    }
}

#[test]
fn a_batch_that_ranks_cannot_share_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, 1, &[("pretrain", "batch", 31.into())]);
    let [first, second] = ranks(folder, "pretrain", "run").map(|child| ended(child, LIMIT));
    let said = error_text(&first);
    assert_eq!((first.status.code(), second.status.code()), (Some(1), Some(1)), "{said}");
    let expected =
        "error: pretrain.batch is 31, which 2 ranks cannot share equally; start a number of ranks that divides it";
    assert_eq!(said.lines().last(), Some(expected));
    assert!(!folder.join("run").exists(), "a refused run leaves no folder");
    recipe(folder, 1, &[("align", "batch", 33.into())]);
    let [first, second] = ranks(folder, "align", "run").map(|child| ended(child, LIMIT));
    assert!(
        error_text(&first).ends_with(
            "align.batch is 33, which 2 ranks cannot share equally; start a number of ranks that divides it\n"
        )
    );
    assert_eq!(second.status.code(), Some(1), "before phase 1");
}

/// Each machine has its own copy of the data.
#[test]
fn ranks_with_other_data_or_another_recipe_are_refused() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let refused = || {
        let port = free_port();
        let ranks = [0, 1].map(|rank| {
            let mut command = program(folders[rank].path(), "pretrain", "run");
            as_rank(command.args(["--data", "pictures", "--skip-broken"]), rank, port);
            command.spawn().unwrap()
        });
        ranks.map(|rank| {
            let output = ended(rank, LIMIT);
            assert_eq!(output.status.code(), Some(1), "{}", error_text(&output));
            error_text(&output).lines().last().unwrap().to_owned()
        })
    };
    for folder in &folders {
        pictures(&folder.path().join("pictures"));
        fs::write(folder.path().join("recipe.toml"), toml::to_string(&picture_recipe()).unwrap()).unwrap();
    }
    let other = |what| {
        format!(
            "error: rank 1 has {what} other than rank 0's; give every rank the same recipe, data, lists and weights"
        )
    };
    fs::remove_file(folders[1].path().join("pictures/train/class 3/00.png")).unwrap();
    assert_eq!(refused(), ["pictures"; 2].map(other));
    pictures(&folders[1].path().join("pictures"));
    let recipe = Recipe { seed: 9, ..picture_recipe() };
    fs::write(folders[1].path().join("recipe.toml"), toml::to_string(&recipe).unwrap()).unwrap();
    assert_eq!(refused(), ["a recipe"; 2].map(other));
    assert!(!folders[0].path().join("run").exists(), "a refused run leaves no folder");
}

/// A phase whose checkpoint takes the first rank a while, in one process of several.
struct SlowCheckpoint<'a> {
    folder: &'a Path,
    group: &'a RankGroup,
}

impl TrainingPhase for SlowCheckpoint<'_> {
    fn begin(&mut self, at: Position) -> anyhow::Result<()> {
        let saved = self.folder.join(format!("saved-{}", at.epoch));
        anyhow::ensure!(at.epoch == 0 || saved.exists(), "epoch {} began before the checkpoint was written", at.epoch);
        Ok(())
    }

    fn step(&mut self, _: Position) -> anyhow::Result<()> {
        Ok(())
    }

    fn loss(&self, _: Position) -> anyhow::Result<f64> {
        Ok(0.0)
    }

    fn end(&mut self, _: Position, _: EpochTime) -> anyhow::Result<EpochReport> {
        Ok(EpochReport { loss: 0.0, metrics: serde_json::Map::new(), summary: "fine".into() })
    }

    fn save(&mut self, at: Position, _: &Run) -> anyhow::Result<()> {
        if self.group.is_first() {
            std::thread::sleep(Duration::from_secs(1));
            fs::write(self.folder.join(format!("saved-{}", at.epoch)), "")?;
        }
        Ok(())
    }
}

/// Not a test of its own: what the ranks of the next one do.
#[test]
fn a_rank_waits_for_the_checkpoint() {
    let Some(folder) = std::env::var_os(FOLDER).map(std::path::PathBuf::from) else { return };
    let group = RankGroup::from_environment(DeviceChoice::Cpu).unwrap();
    assert_eq!(group.each_on_any([false, group.is_first(), !group.is_first()]).unwrap(), [false, true, true]);
    let recipe = Recipe::read(&folder.join("recipe.toml")).unwrap();
    let data = dataset::open(&recipe, &DataOrigin { group: group.clone(), ..DataOrigin::default() }).unwrap();
    let on = |digest| trained_on(&data, None, Some(digest)).unwrap();
    let open = |name: &str, digest| Run::open_on(&folder.join(name), &recipe, &on(digest), &group);
    let refused = open("other", [group.rank() as u8; 32]).unwrap_err().to_string();
    assert!(
        refused.starts_with("rank 1 has a file of backbone.weights or backbone.onnx other than rank 0's"),
        "{refused}"
    );
    let run = &open("run", [7; 32]).unwrap();
    let (name, title, work, device) = ("slow", "slow", Activity::Unsaved, Device::Cpu);
    let fit = TrainingLoop { run, name, title, work, device, steps: 1, epochs: 2, until: 2, views: None };
    fit.run(&mut SlowCheckpoint { folder: &folder, group: &group }, Position::default()).unwrap();
}

/// A checkpoint may take longer to write than a step waits, so the others wait for it before they go on.
#[test]
fn ranks_go_on_once_a_checkpoint_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, 1, &[]);
    let port = free_port();
    for child in [0, 1].map(|rank| rank_of_test("distributed::a_rank_waits_for_the_checkpoint", folder, rank, port)) {
        let output = ended(child, LIMIT);
        assert!(output.status.success(), "{}", error_text(&output));
    }
    assert!(folder.join("saved-2").exists() && !folder.join("other").exists());
}

/// A launcher that gives up must not wait for ten minutes.
#[test]
fn a_signal_ends_a_rank_that_waits_for_the_others() {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), 1, &[]);
    let mut command = program(folder.path(), "pretrain", "run");
    as_rank(&mut command, 1, free_port());
    let child = command.spawn().unwrap();
    // It says nothing at first. Whenever the signal comes, before it is watched for or while it waits, it must end.
    std::thread::sleep(Duration::from_secs(2));
    send("-TERM", &child);
    let output = ended(child, LIMIT);
    assert!(!output.status.success());
    assert!(!folder.path().join("run").exists());
}
