//! How many bytes are written for one added class.

use std::io::{self, Write};
use std::ops::{ControlFlow, RangeInclusive};
use std::path::Path;

use orco_core::config::MethodConfig;
use orco_core::exemplar::ExemplarPrecision;
use orco_core::projection::HeadShape;
use orco_core::random::Random;
use orco_runtime::bundle::Bundle;
use orco_runtime::store::Store;
use orco_runtime::threads::Threads;
use orco_state::bank::Bank;
use orco_state::head::Head;
use orco_state::history::{ChangeKind, HistoryChange, HistoryLimits, SavedState};
use orco_state::session::{NewClass, Session, SessionMemory};
use orco_state::slots::{self, Medium, Slot, SlotPatch};
use orco_state::state::{BaseModel, Class};
use tempfile::TempDir;

/// Passes everything on and counts what is written.
struct CountingMedium<M> {
    medium: M,
    written: usize,
}

impl<M: Medium> Medium for CountingMedium<M> {
    type Error = M::Error;

    fn read(&mut self, slot: Slot) -> Result<Option<Vec<u8>>, M::Error> {
        self.medium.read(slot)
    }

    fn write(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), M::Error> {
        self.written += bytes.len();
        self.medium.write(slot, bytes)
    }

    fn can_append(&self) -> bool {
        self.medium.can_append()
    }

    fn append(&mut self, slot: Slot, patch: &SlotPatch) -> Result<(), M::Error> {
        self.written += patch.bytes.len();
        self.medium.append(slot, patch)
    }

    fn set_aside(&mut self, slot: Slot) -> Result<(), M::Error> {
        self.medium.set_aside(slot)
    }

    fn clear(&mut self) -> Result<(), M::Error> {
        self.medium.clear()
    }
}

#[test]
fn an_added_class_costs_at_most_twice_the_state() {
    let mut trial = orco_trials::trial!(7, "added classes");
    let bundle = Bundle::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/cifar100-edge")).unwrap();
    let base_model = &bundle.base_model;
    let folder = TempDir::new().unwrap();
    let slots = Store::new(folder.path()).slots();
    let mut medium = CountingMedium { medium: slots, written: 0 };
    let threads = Threads::usable();
    let config = MethodConfig { epochs: 2, ..base_model.config.clone() };
    let mut saved = SavedState::fresh(base_model, bundle.digest);
    let mut random = Random::new(1, "made-up features");
    let mut figures = Vec::new();
    for class in ["first", "second", "third"] {
        let shot = |random: &mut Random| (0..base_model.head.inputs).map(|_| random.normal().max(0.0)).collect();
        let new = [NewClass { label: class.into(), shots: (0..5).map(|_| shot(&mut random)).collect() }];
        let (memory, on_progress) = (&mut SessionMemory::default(), &mut |_| ControlFlow::Continue(()));
        let mut session = Session { base_model, config: &config, seed: 1, memory, workers: &threads, on_progress };
        let (next, _) = session.learn(&saved.state, &new).unwrap();
        saved =
            saved.successor(next, &HistoryChange::new(ChangeKind::Learn, 1).labels([class]), HistoryLimits::default());
        medium.written = 0;
        let from = slots::load_to_change(&mut medium, base_model, bundle.digest).unwrap().generation;
        slots::save(&mut medium, base_model, &saved, from).unwrap();
        let state = Slot::BOTH.map(|slot| medium.read(slot).unwrap().map_or(0, |bytes| bytes.len()));
        let state = state.into_iter().max().unwrap();
        assert!(medium.written <= 2 * state + 4096, "{} bytes for a state of {state}", medium.written);
        figures.push(format!("{} ({:.3} x the state)", medium.written, medium.written as f64 / state as f64));
        medium.written = 0;
        (0..10).for_each(|_| assert!(slots::load(&mut medium, base_model, bundle.digest).unwrap().saved.is_some()));
        assert_eq!(medium.written, 0, "a device at rest writes");
        trial.count(1);
    }
    let _ = writeln!(
        io::stderr(),
        "store: bytes written for the first class of five shots, the second, the third: {}; the history takes {} bytes",
        figures.join(", "),
        saved.history.bytes()
    );
}

/// A class beside a thousand others does not write all classes again. It writes itself and the class before it, since
/// each slot is written by every other save, and the history's entry for each.
#[test]
fn a_class_beside_a_thousand_writes_little() {
    const KNOWN: u32 = 1000;
    const INPUTS: usize = 1280;
    /// Bytes that the entries of two changes add, where they repeat little of the entry before.
    const ENTRIES: usize = 32 << 10;
    let mut random = Random::new(1, "made-up features");
    let mut feature = || -> Vec<f32> { (0..INPUTS).map(|_| random.normal().max(0.0)).collect() };
    let angles = (0..2 * KNOWN).map(|target| f64::from(target) * std::f64::consts::PI / f64::from(KNOWN));
    let base_model = BaseModel {
        dimension: 2,
        targets: angles.flat_map(|angle| [angle.cos() as f32, angle.sin() as f32]).collect(),
        head: Head::zeros(HeadShape { inputs: INPUTS, hidden: 2, outputs: 2 }),
        classes: vec![Class { label: "base".into(), target: 0, session: 0 }],
        exemplars: Bank::new(INPUTS, 1, ExemplarPrecision::Int8),
        config: MethodConfig { views: 1, ..MethodConfig::published() },
        statistics: None,
    };
    let digest = [7; 32];
    let mut learn = |saved: &SavedState, classes: RangeInclusive<u32>| {
        let mut next = saved.state.clone();
        next.sessions += 1;
        for class in classes {
            next.classes.push(Class { label: format!("class {class}"), target: class, session: next.sessions });
            (0..5).for_each(|_| next.exemplars.push(class, &feature()));
        }
        saved.successor(next, &HistoryChange::new(ChangeKind::Learn, 1), HistoryLimits::default())
    };
    let folder = TempDir::new().unwrap();
    let mut medium = CountingMedium { medium: Store::new(folder.path()).slots(), written: 0 };
    let mut saved = learn(&SavedState::fresh(&base_model, digest), 1..=KNOWN);
    let mut newest = slots::save(&mut medium, &base_model, &saved, 0).unwrap();
    let class = 5 * saved.state.exemplars.bytes_per_exemplar();
    let mut most = 0;
    for number in KNOWN + 1..=KNOWN + 40 {
        saved = learn(&saved, number..=number);
        medium.written = 0;
        newest = slots::save_next(&mut medium, &base_model, &saved, newest).unwrap();
        most = most.max(medium.written);
    }
    assert!(most <= 2 * class + ENTRIES, "{most} bytes for a class of {class}");
    let found = slots::load(&mut medium, &base_model, digest).unwrap();
    assert_eq!((found.generation, found.saved.as_ref()), (newest.generation, Some(&saved)));
    let _ = writeln!(io::stderr(), "store: {most} bytes at most written for a class of {class} beside {KNOWN}");
}
