//! The cost that is stated for a session is what it takes: bytes that the allocator hands out, bytes that a slot has.

use std::fs;
use std::path::Path;

use ndarray::Array3;
use orco_core::config::MethodConfig;
use orco_core::random::Random;
use orco_runtime::bundle::Bundle;
use orco_runtime::learner::{Learner, LearnerSettings, Shots};
use orco_runtime::manifest::BACKBONE;
use orco_runtime::store::Store;
use orco_state::session::cost::{SessionCost, SessionExtent};
use orco_state::slots::Slot;
use orco_state::state::BaseModel;
use orco_trials::memory::{CountingAllocator, held, peak_of};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const SHOTS: usize = 5;

#[test]
fn a_session_takes_what_it_is_told_to() {
    // What threads that work at the same time take together is a matter of chance.
    #[cfg(target_os = "linux")]
    orco_trials::threads::on_one_processor();
    // One after the other: the allocator counts what all threads take.
    takes_what_it_is_told_to(MethodConfig::closed_form());
    takes_what_it_is_told_to(MethodConfig::combined());
}

fn takes_what_it_is_told_to(config: MethodConfig) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/cifar100-micro");
    let state = tempfile::tempdir().unwrap();
    let open = || {
        let mut bundle = Bundle::open(&folder).unwrap();
        bundle.base_model.config = config.clone();
        Learner::new(bundle, Store::new(state.path()), LearnerSettings::default()).unwrap()
    };
    let mut random = Random::new(1, "budget");
    let mut known = 0;
    for new in [1, 5, 25, 5] {
        let before = held();
        let mut learner = open();
        let backbone = fs::metadata(folder.join(BACKBONE)).unwrap().len() as usize;
        let opened = held() - before - backbone;
        let extent = SessionExtent {
            known_classes: known,
            known_shots: SHOTS * known,
            new_classes: new,
            new_shots: SHOTS * new,
            threads: orco_runtime::threads::usable_threads(),
        };
        let told = SessionCost::of(learner.base_model(), extent).unwrap();
        near(told.bundle + told.state, opened, 0.05, "opened");

        let labels: Vec<String> = (known..known + new).map(|class| format!("class {class}")).collect();
        let shots: Vec<Array3<f32>> = labels.iter().map(|_| class(learner.base_model(), &mut random)).collect();
        let pairs = labels.iter().zip(&shots);
        let classes: Vec<_> = pairs.map(|(label, shots)| (label.as_str(), Shots::Features(shots.view()))).collect();
        let (_, more) = peak_of(|| learner.learn_many(&classes, &mut ()).unwrap());
        near(told.memory(), opened + more, 0.1, "learned");
        let slots = Slot::BOTH.map(|slot| fs::metadata(learner.store().path(slot)).unwrap().len() as usize);
        near(told.written, slots[0].max(slots[1]), 0.03, "saved");
        known += new;
    }
}

/// Whether what was told is near what was measured, by a share of it.
fn near(told: usize, measured: usize, share: f64, what: &str) {
    let off = told.abs_diff(measured) as f64 / measured as f64;
    assert!(off <= share, "{what}: told {told}, measured {measured}, off by {off:.3}");
}

/// Made-up features of a class's shots.
fn class(base_model: &BaseModel, random: &mut Random) -> Array3<f32> {
    let shape = (SHOTS, base_model.config.views, base_model.head.inputs);
    Array3::from_shape_simple_fn(shape, || random.normal().max(0.0))
}
