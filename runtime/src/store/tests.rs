//! Crashes, disk errors and damage, each enumerated.

mod crash;
mod damage;
mod errors;
mod kept;
mod parallel;
mod patches;
mod rules;
mod simulated;
mod unreadable;
mod wear;

use std::fs;
use std::io::Write as _;
use std::time::{Duration, SystemTime};

use crate::store::slot_files::SlotFiles;
use crate::store::{Store, StoreError};
use orco_core::config::MethodConfig;
use orco_core::exemplar::ExemplarPrecision;
use orco_core::projection::HeadShape;
use orco_state::bank::Bank;
use orco_state::head::Head;
use orco_state::history::{ChangeKind, HistoryChange, HistoryLimits, SavedState};
use orco_state::slots::{self, Medium, SaveError, Slot};
use orco_state::state::{BaseModel, Class};
use simulated::{Image, SimulatedDisk};

/// SHA-256 of a bundle that nobody has.
const DIGEST: [u8; 32] = [7; 32];

/// One base class and 15 free targets in the plane.
fn base_model() -> BaseModel {
    let directions = (0..16).map(|target| target as f32 * core::f32::consts::TAU / 16.0);
    let mut exemplars = Bank::new(3, 1, ExemplarPrecision::Int8);
    exemplars.push(0, &[1.0, 0.0, 0.5]);
    BaseModel {
        dimension: 2,
        targets: directions.flat_map(|angle| [libm::cosf(angle), libm::sinf(angle)]).collect(),
        head: Head::zeros(HeadShape { inputs: 3, hidden: 2, outputs: 2 }),
        classes: vec![Class { label: "base".into(), target: 0, session: 0 }],
        exemplars,
        config: MethodConfig { views: 1, ..MethodConfig::published() },
        statistics: None,
    }
}

/// The states that a device goes through: each has one class more, of `exemplars` exemplars.
fn saves(base_model: &BaseModel, count: usize, exemplars: usize) -> Vec<SavedState> {
    saves_of(base_model, &vec![exemplars; count], HistoryLimits::default())
}

/// The states of a device that first learned a class of a thousand exemplars, which are more than all that follows, and
/// then these.
fn saves_beside_many(base_model: &BaseModel, exemplars: &[usize]) -> Vec<SavedState> {
    // An entry has the numbers of all exemplars: few bytes only where these are large.
    saves_of(base_model, &[&[1000], exemplars].concat(), HistoryLimits::default().entries(1))
}

fn saves_of(base_model: &BaseModel, exemplars: &[usize], limits: HistoryLimits) -> Vec<SavedState> {
    let mut saved = SavedState::fresh(base_model, DIGEST);
    let mut saves = Vec::new();
    for (number, &exemplars) in (1..).zip(exemplars) {
        let mut next = saved.state.clone();
        next.sessions = number;
        next.classes.push(Class { label: label(number), target: number, session: number });
        for exemplar in 0..exemplars {
            next.exemplars.push(number, &[number as f32, 0.01 * exemplar as f32, 1.0]);
        }
        saved = saved.successor(next, &HistoryChange::new(ChangeKind::Learn, 1).labels([label(number)]), limits);
        saves.push(saved.clone());
    }
    saves
}

fn label(number: u32) -> String {
    ["class", &number.to_string()].join(" ")
}

/// Loads for a change and saves as a store does, reading the slots again only where that is needed.
fn save<M: Medium>(medium: &mut M, base_model: &BaseModel, saved: &SavedState) -> Result<u64, SaveError<M::Error>> {
    let loaded = slots::load_to_change(medium, base_model, DIGEST).map_err(SaveError::Occupied)?;
    let newest = match loaded.newest_undisturbed() {
        Some(newest) => slots::save_next(medium, base_model, saved, newest),
        None => slots::save(medium, base_model, saved, loaded.generation),
    };
    newest.map(|newest| newest.generation)
}

/// Loads for a change and purges.
fn purge<M: Medium>(medium: &mut M, base_model: &BaseModel, saved: &SavedState) -> Result<u64, SaveError<M::Error>> {
    let from = slots::load_to_change(medium, base_model, DIGEST).map_err(SaveError::Occupied)?.generation;
    slots::purge(medium, base_model, saved, from).map(|newest| newest.generation)
}

#[test]
fn a_save_sees_what_became_of_the_files_since_they_were_read() {
    let base_model = base_model();
    let saves = saves(&base_model, 4, 1);
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let locked = store.lock(Duration::ZERO).unwrap();
    locked.load_on(&base_model, DIGEST).unwrap();
    saves[..3].iter().for_each(|saved| locked.save_on(&base_model, saved).unwrap());
    // The first save went to both, so the third is in B. A rots.
    let older = store.path(Slot::A);
    let mut bytes = fs::read(&older).unwrap();
    bytes[100] ^= 1;
    fs::write(&older, &bytes).unwrap();
    // Where the clock of files is coarse, all of this is one moment.
    fs::File::options().write(true).open(&older).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    locked.save_on(&base_model, &saves[3]).unwrap();
    assert_eq!(fs::read(folder.path().join("slot-a.bad-0")).unwrap(), bytes, "it is set aside");
    let found = store.load_on(&base_model, DIGEST).unwrap();
    assert_eq!((found.generation(), found.saved), (5, saves[3].clone()));
}

#[test]
fn a_state_of_another_bundle_does_not_follow_one_that_was_saved() {
    let base_model = base_model();
    let saves = saves(&base_model, 2, 1);
    let folder = tempfile::tempdir().unwrap();
    let locked = Store::new(folder.path()).lock(Duration::ZERO).unwrap();
    locked.load_on(&base_model, DIGEST).unwrap();
    locked.save_on(&base_model, &saves[0]).unwrap();
    let mut other = saves[1].clone();
    other.state.bundle_digest[0] ^= 1;
    assert!(matches!(locked.save_on(&base_model, &other), Err(StoreError::OtherBundle { .. })));
    locked.save_on(&base_model, &saves[1]).unwrap();
}

/// A simulated disk as a medium.
fn files_on(image: &Image, block: usize) -> SlotFiles<SimulatedDisk> {
    SlotFiles::new(SimulatedDisk::new(image, block), "0".repeat(16))
}

/// Says past the test harness's capture what was tried.
fn say(line: &str) {
    let _ = std::writeln!(std::io::stderr(), "store: {line}");
}

/// The generations that a store can be at.
fn generation(saved: Option<&SavedState>) -> u32 {
    saved.map_or(0, |saved| saved.state.sessions)
}
