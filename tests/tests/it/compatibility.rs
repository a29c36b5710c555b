//! Learner files and states load from files that were written before, and are written as they were. Files of every
//! released version stay here; version 1 is not released yet.
//!
//! To write those of the present version anew, which before its release a change of the format is a reason for:
//! `ORCO_WRITE_GOLDEN=1 cargo test --release -p orco-tests --test it compatibility::`.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orco_core::config::MethodConfig;
use orco_core::exemplar::ExemplarPrecision;
use orco_core::projection::HeadShape;
use orco_core::random::Random;
use orco_core::workers::Serial;
use orco_runtime::store::Store;
use orco_state::bank::Bank;
use orco_state::codec::{self, FileKind};
use orco_state::head::Head;
use orco_state::history::{ChangeKind, HeadFingerprint, HistoryChange, HistoryLimits, SavedState};
use orco_state::session::{self, NewClass, Session, SessionMemory};
use orco_state::slots::{Slot, SlotContent, VERSION};
use orco_state::state::{BaseModel, Class, State};
use orco_state::target::{TargetMethod, generate};
use tempfile::TempDir;

/// A learner file of version 1.
const LEARNER: &str = "learner-1.postcard";
/// A slot of version 1.
const SLOT: &str = "slot-1";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

fn read(name: &str) -> Vec<u8> {
    fs::read(golden(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The smallest device that has everything: a head, base classes, two learned ones.
fn base_model() -> BaseModel {
    let mut random = Random::new(1, "golden base_model");
    let mut head = Head::zeros(HeadShape { inputs: 8, hidden: 6, outputs: 8 });
    for values in head.parameters_mut() {
        values.iter_mut().for_each(|value| *value = 0.3 * random.normal());
    }
    let mut exemplars = Bank::new(8, 2, ExemplarPrecision::Int8);
    (0..2).for_each(|class| exemplars.push(class, &shot(class)));
    let classes = ["cat", "dog"].into_iter().enumerate();
    BaseModel {
        dimension: 8,
        targets: generate(TargetMethod::Orthonormal, 8, 8, 0, 1),
        head,
        classes: classes.map(|(at, label)| Class { label: label.into(), target: at as u32, session: 0 }).collect(),
        exemplars,
        config: MethodConfig { epochs: 3, warmup_epochs: 1, batch: 4, views: 2, ..MethodConfig::edge() },
        statistics: None,
    }
}

/// Two views of a made-up shot.
fn shot(number: u32) -> Vec<f32> {
    let mut random = Random::new(number.into(), "golden shot");
    (0..16).map(|_| random.normal()).collect()
}

fn learn(base_model: &BaseModel, state: &State, label: &str, shots: &[u32]) -> State {
    let class = NewClass { label: label.into(), shots: shots.iter().map(|number| shot(*number)).collect() };
    let (memory, on_progress) = (&mut SessionMemory::default(), &mut |_| ControlFlow::Continue(()));
    let config = &base_model.config;
    Session { base_model, config, seed: 1, memory, workers: &Serial, on_progress }.learn(state, &[class]).unwrap().0
}

/// Writes the files of the present version.
fn write() {
    fs::create_dir_all(golden("")).unwrap();
    let base_model = base_model();
    let learner = codec::encode(FileKind::Learner, &base_model);
    fs::write(golden(LEARNER), &learner).unwrap();
    let fresh = SavedState::fresh(&base_model, codec::digest(&learner));
    let mug = learn(&base_model, &fresh.state, "mug", &[10, 11]);
    let cup = session::rename(&base_model, &mug, "mug", "cup").unwrap();
    let both = learn(&base_model, &cup, "duck", &[12]);
    let limits = HistoryLimits::default();
    let saved = fresh
        .successor(mug, &HistoryChange::new(ChangeKind::Learn, 1).labels(["mug"]).at(Some(1_795_220_400)), limits)
        .successor(cup, &HistoryChange::new(ChangeKind::Rename, 1).labels(["mug", "cup"]), limits)
        .successor(both, &HistoryChange::new(ChangeKind::Learn, 1).labels(["duck"]), limits);
    let folder = TempDir::new().unwrap();
    let store = Store::new(folder.path());
    store.lock(Duration::ZERO).unwrap().save_on(&base_model, &saved).unwrap();
    fs::copy(store.path(Slot::A), golden(SLOT)).unwrap();
}

fn learner() -> (BaseModel, [u8; 32]) {
    if std::env::var_os("ORCO_WRITE_GOLDEN").is_some() {
        static WRITTEN: std::sync::Once = std::sync::Once::new();
        WRITTEN.call_once(write);
    }
    let bytes = read(LEARNER);
    let read: BaseModel = codec::decode(FileKind::Learner, &bytes).unwrap();
    // The settings lie in the manifest.
    (BaseModel { config: base_model().config, ..read }, codec::digest(&bytes))
}

#[test]
fn a_learner_is_written_as_it_was() {
    let mut trial = orco_trials::trial!(6, "format versions");
    let (read_back, _) = learner();
    assert!(codec::encode(FileKind::Learner, &read_back) == read(LEARNER), "other bytes than were written then");
    assert_eq!(read_back, base_model());
    trial.count(1);
}

#[test]
fn a_slot_loads_and_is_written_as_it_was() {
    let mut trial = orco_trials::trial!(6, "format versions");
    let (base_model, digest) = learner();
    for (version, file) in [(1, SLOT)] {
        let bytes = read(file);
        assert_eq!(SlotContent::decode(&bytes).unwrap().version, version);
        let folder = TempDir::new().unwrap();
        let store = Store::new(folder.path());
        for slot in Slot::BOTH {
            fs::write(store.path(slot), &bytes).unwrap();
        }
        let saved = store.load_on(&base_model, digest).unwrap().saved;
        let labels: Vec<&str> = saved.state.classes.iter().map(|class| class.label.as_str()).collect();
        assert_eq!(labels, ["cup", "duck"]);
        let entries = saved.history.entries();
        let told: Vec<(ChangeKind, Option<u64>)> = entries.iter().map(|entry| (entry.kind, entry.when)).collect();
        let expected = [
            (ChangeKind::Start, None),
            (ChangeKind::Learn, Some(1_795_220_400)),
            (ChangeKind::Rename, None),
            (ChangeKind::Learn, None),
        ];
        assert_eq!(told, expected);
        assert_eq!(entries[2].names.iter().map(|name| name.label.as_str()).collect::<Vec<_>>(), ["mug", "cup"]);
        let earlier = saved.earlier_state(1).unwrap();
        assert_eq!((earlier.state.classes[0].label.as_str(), earlier.state.exemplars.len()), ("mug", 2));
        assert!(matches!(earlier.head, HeadFingerprint::Digest(_)));
        let shots: Vec<u32> = saved.state.first_recognitions.iter().map(|origin| origin.shots).collect();
        assert_eq!(shots, [2, 1]);
        // What is written now is what was written then.
        let again = TempDir::new().unwrap();
        let again = Store::new(again.path());
        again.lock(Duration::ZERO).unwrap().save_on(&base_model, &saved).unwrap();
        if VERSION == version {
            assert_eq!(fs::read(again.path(Slot::A)).unwrap(), bytes);
        }
        assert_eq!(again.load_on(&base_model, digest).unwrap().saved, saved);
        // And a further session counts from what is recognised before it.
        let next = learn(&base_model, &saved.state, "brick", &[13]);
        assert_eq!(next.first_recognitions.iter().map(|origin| origin.shots).collect::<Vec<_>>(), [2, 1, 1]);
        trial.count(1);
    }
}
