//! Flash is spared: bytes that are written for one added class, counted as they pass.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;

use orco_core::random::Random;
use orco_runtime::bundle::Bundle;
use orco_runtime::store::Store;
use orco_runtime::threads::Threads;
use orco_state::history::{ChangeKind, HistoryChange, HistoryLimits, SavedState};
use orco_state::session::{NewClass, Session, SessionMemory};
use orco_state::slots::{self, Medium, Slot};
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
    let config = orco_core::config::MethodConfig { epochs: 2, ..base_model.config.clone() };
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
