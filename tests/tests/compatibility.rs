//! States of every released format version load, from files that were written by it.
//!
//! To write them anew, which only a new format version is a reason for (old files stay as they are):
//! `ORCO_WRITE_GOLDEN=1 cargo test --release -p orco-tests --test compatibility`.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orco_core::config::Config;
use orco_core::exemplar::Precision;
use orco_core::projection::Shape;
use orco_core::random::Random;
use orco_core::workers::Serial;
use orco_runtime::store::{LEGACY, Store};
use orco_state::bank::Bank;
use orco_state::codec::{self, Kind};
use orco_state::head::Head;
use orco_state::history::{Change, HeadMark, Limits, Saved, Verb};
use orco_state::session::{self, Memory, NewClass};
use orco_state::state::{Class, Foundation, State};
use orco_state::store::{Frame, Slot, VERSION};
use orco_state::target::{Method, generate};
use tempfile::TempDir;

/// A learner file as of format version 2, on which all of the states were learned.
const LEARNER: &str = "learner-2.postcard";
/// A learner file of format version 3.
const LEARNER_3: &str = "learner-3.postcard";
/// A learner file of format version 4, with cross entropy over base classes.
const LEARNER_4: &str = "learner-4.postcard";
/// The one file that releases before the slots wrote.
const STATE_2: &str = "state-2.postcard";
/// A slot of body version 1, which knows nothing of how classes were recognised at first.
const SLOT_1: &str = "slot-1";
/// A slot of body version 2.
const SLOT_2: &str = "slot-2";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

fn read(name: &str) -> Vec<u8> {
    fs::read(golden(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The smallest device that has everything: a head, base classes, two learned ones.
fn foundation() -> Foundation {
    let mut random = Random::new(1, "golden foundation");
    let mut head = Head::zeros(Shape { inputs: 8, hidden: 6, outputs: 8 });
    for values in head.parameters_mut() {
        values.iter_mut().for_each(|value| *value = 0.3 * random.normal());
    }
    let mut exemplars = Bank::new(8, 2, Precision::Int8);
    (0..2).for_each(|class| exemplars.push(class, &shot(class)));
    let classes = ["cat", "dog"].into_iter().enumerate();
    Foundation {
        dimension: 8,
        targets: generate(Method::Orthonormal, 8, 8, 0, 1),
        head,
        classes: classes.map(|(at, label)| Class { label: label.into(), target: at as u32, session: 0 }).collect(),
        exemplars,
        config: Config { epochs: 3, warmup_epochs: 1, batch: 4, views: 2, ..Config::edge() },
    }
}

/// The same with a setting that came with version 4.
fn foundation_4() -> Foundation {
    let mut foundation = foundation();
    foundation.config.base_cross_entropy = 0.6;
    foundation
}

/// Two views of a made-up shot.
fn shot(number: u32) -> Vec<f32> {
    let mut random = Random::new(number.into(), "golden shot");
    (0..16).map(|_| random.normal()).collect()
}

fn learn(foundation: &Foundation, state: &State, label: &str, shots: &[u32]) -> State {
    let class = NewClass { label: label.into(), shots: shots.iter().map(|number| shot(*number)).collect() };
    let mut memory = Memory::new(session::needs(foundation, state, 1, shots.len(), &foundation.config));
    let (new, workspace) = (&[class], &mut memory.workspace(&Serial));
    let mut proceed = |_| ControlFlow::Continue(());
    session::learn(foundation, state, new, &foundation.config, 1, workspace, &mut proceed).unwrap().0
}

/// Writes the files of the present format versions; those of older ones cannot be written any more.
fn write() {
    fs::create_dir_all(golden("")).unwrap();
    fs::write(golden(LEARNER_4), codec::encode(Kind::Learner, &foundation_4())).unwrap();
    let learner = read(LEARNER);
    let (foundation, digest): (Foundation, _) =
        (codec::decode(Kind::Learner, &learner).unwrap(), codec::digest(&learner));
    let fresh = Saved::fresh(&foundation, digest);
    let mug = learn(&foundation, &fresh.state, "mug", &[10, 11]);
    fs::write(golden(STATE_2), codec::encode(Kind::State, &mug)).unwrap();
    let cup = session::rename(&foundation, &mug, "mug", "cup").unwrap();
    let both = learn(&foundation, &cup, "duck", &[12]);
    let limits = Limits::default();
    let saved = fresh
        .then(mug, &Change::new(Verb::Learn, 1).labels(["mug"]).at(Some(1_795_220_400)), limits)
        .then(cup, &Change::new(Verb::Rename, 1).labels(["mug", "cup"]), limits)
        .then(both, &Change::new(Verb::Learn, 1).labels(["duck"]), limits);
    let folder = TempDir::new().unwrap();
    let store = Store::new(folder.path());
    store.lock(Duration::ZERO).unwrap().save_on(&foundation, &saved).unwrap();
    fs::copy(store.path(Slot::A), golden(&format!("slot-{VERSION}"))).unwrap();
}

fn learner() -> (Foundation, [u8; 32]) {
    if std::env::var_os("ORCO_WRITE_GOLDEN").is_some() {
        static WRITTEN: std::sync::Once = std::sync::Once::new();
        WRITTEN.call_once(write);
    }
    let bytes = read(LEARNER);
    (codec::decode(Kind::Learner, &bytes).unwrap(), codec::digest(&bytes))
}

/// A device in the field reads what needs nothing that it does not know.
#[test]
fn the_oldest_version_that_holds_a_learner_is_written() {
    learner();
    for file in [LEARNER, LEARNER_3, LEARNER_4] {
        let bytes = read(file);
        let foundation: Foundation = codec::decode(Kind::Learner, &bytes).unwrap();
        assert!(
            codec::encode(Kind::Learner, &foundation) == bytes,
            "{file}: what is written now is what was written then"
        );
    }
}

#[test]
fn settings_that_older_learners_lack_are_left_out() {
    let (of_version_2, _) = learner();
    let of_version_3: Foundation = codec::decode(Kind::Learner, &read(LEARNER_3)).unwrap();
    let of_version_4: Foundation = codec::decode(Kind::Learner, &read(LEARNER_4)).unwrap();
    let newer = |it: &Foundation| (it.config.class_means, it.config.base_cross_entropy);
    assert_eq!([&of_version_2, &of_version_3, &of_version_4].map(newer), [(0.0, 0.0), (1.0, 0.0), (1.0, 0.6)]);
    assert_eq!((of_version_3, of_version_4), (foundation(), foundation_4()));
}

#[test]
fn the_one_file_of_older_releases_is_carried_over() {
    let (foundation, digest) = learner();
    let folder = TempDir::new().unwrap();
    let store = Store::new(folder.path());
    fs::write(folder.path().join(LEGACY), read(STATE_2)).unwrap();
    let locked = store.lock(Duration::ZERO).unwrap();
    let saved = locked.load_on(&foundation, digest).unwrap().saved;
    assert!(folder.path().join(LEGACY).exists(), "loading removes nothing");
    assert_eq!((saved.state.classes[0].label.as_str(), saved.state.sessions), ("mug", 1));
    assert_eq!(saved.state.exemplars.len(), 2);
    assert_eq!(saved.history.entries().len(), 1, "what came before is not known");
    let next = learn(&foundation, &saved.state, "duck", &[12]);
    let saved = saved.then(next, &Change::new(Verb::Learn, 1).labels(["duck"]), Limits::default());
    locked.save_on(&foundation, &saved).unwrap();
    assert!(!folder.path().join(LEGACY).exists(), "its place is taken");
    assert!(store.path(Slot::A).exists() && store.path(Slot::B).exists());
    assert_eq!(store.load_on(&foundation, digest).unwrap().saved, saved);
    // The carried-over class set comes back, too.
    let earlier = saved.earlier(0).unwrap();
    let mut memory = Memory::new(session::needs(&foundation, &saved.state, 0, 0, &foundation.config));
    let (config, workspace) = (&foundation.config, &mut memory.workspace(&Serial));
    let mut proceed = |_| ControlFlow::Continue(());
    let state = &saved.state;
    let (restored, _) =
        session::restore(&foundation, state, &earlier.state, config, earlier.seed, workspace, &mut proceed).unwrap();
    assert_eq!(restored.classes[0].label, "mug");
}

#[test]
fn slots_of_every_version_load() {
    let (foundation, digest) = learner();
    for (version, file) in [(1, SLOT_1), (2, SLOT_2)] {
        let bytes = read(file);
        assert_eq!(Frame::decode(&bytes).unwrap().version, version);
        let folder = TempDir::new().unwrap();
        let store = Store::new(folder.path());
        for slot in Slot::BOTH {
            fs::write(store.path(slot), &bytes).unwrap();
        }
        let saved = store.load_on(&foundation, digest).unwrap().saved;
        let labels: Vec<&str> = saved.state.classes.iter().map(|class| class.label.as_str()).collect();
        assert_eq!(labels, ["cup", "duck"]);
        let entries = saved.history.entries();
        let told: Vec<(Verb, Option<u64>)> = entries.iter().map(|entry| (entry.verb, entry.when)).collect();
        let expected =
            [(Verb::Start, None), (Verb::Learn, Some(1_795_220_400)), (Verb::Rename, None), (Verb::Learn, None)];
        assert_eq!(told, expected);
        assert_eq!(entries[2].names.iter().map(|name| name.label.as_str()).collect::<Vec<_>>(), ["mug", "cup"]);
        let earlier = saved.earlier(1).unwrap();
        assert_eq!((earlier.state.classes[0].label.as_str(), earlier.state.exemplars.len()), ("mug", 2));
        assert!(matches!(earlier.head, HeadMark::Digest(_)));
        let shots: Vec<u32> = saved.state.origins.iter().map(|origin| origin.shots).collect();
        assert_eq!(shots, if version == 1 { vec![] } else { vec![2, 1] });
        // What is written now is what was written then.
        let again = TempDir::new().unwrap();
        let again = Store::new(again.path());
        again.lock(Duration::ZERO).unwrap().save_on(&foundation, &saved).unwrap();
        if VERSION == version {
            assert_eq!(fs::read(again.path(Slot::A)).unwrap(), bytes);
        }
        assert_eq!(again.load_on(&foundation, digest).unwrap().saved, saved);
        // And a further session counts from what is recognised before it.
        let next = learn(&foundation, &saved.state, "brick", &[13]);
        assert_eq!(next.origins.iter().map(|origin| origin.shots).collect::<Vec<_>>(), [2, 1, 1]);
    }
}
