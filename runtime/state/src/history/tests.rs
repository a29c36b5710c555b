//! Walks through real sessions on made-up features: whatever was done, every remembered class set comes back exactly.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::*;
use crate::session::{self, NewClass, Session, SessionMemory};
use crate::state::{Balance, Class};
use crate::target::{TargetMethod, generate};
use orco_core::config::MethodConfig;
use orco_core::exemplar::ExemplarPrecision;
use orco_core::projection::HeadShape;
use orco_core::random::Random;
use orco_core::workers::Serial;

const INPUTS: usize = 16;
const TARGETS: usize = 12;
const BASE: usize = 2;

fn base_model(exemplar_bytes: usize) -> BaseModel {
    let mut random = Random::new(1, "base_model");
    let mut head = Head::zeros(HeadShape { inputs: INPUTS, hidden: 6, outputs: TARGETS });
    for values in head.parameters_mut() {
        values.iter_mut().for_each(|value| *value = 0.3 * random.normal());
    }
    let mut exemplars = Bank::new(INPUTS, 1, ExemplarPrecision::Int8);
    (0..BASE as u32).for_each(|class| exemplars.push(class, &features(&mut random)));
    let classes = (0..BASE).map(|class| Class { label: format!("base {class}"), target: class as u32, session: 0 });
    BaseModel {
        dimension: TARGETS,
        targets: generate(TargetMethod::Orthonormal, TARGETS, TARGETS, 0, 1),
        head,
        classes: classes.collect(),
        exemplars,
        config: MethodConfig {
            epochs: 2,
            warmup_epochs: 1,
            batch: 8,
            views: 1,
            exemplar_bytes,
            ..MethodConfig::default()
        },
        statistics: None,
    }
}

fn features(random: &mut Random) -> Vec<f32> {
    (0..INPUTS).map(|_| random.normal()).collect()
}

/// A device whose every step is remembered twice: by its history, and by whole states.
struct Walk {
    base_model: BaseModel,
    saved: SavedState,
    limits: HistoryLimits,
    /// Every state there was, by the number of its entry.
    past: BTreeMap<u32, State>,
    random: Random,
    labels: u32,
}

impl Walk {
    fn new(exemplar_bytes: usize, limits: HistoryLimits, seed: u64) -> Self {
        let base_model = base_model(exemplar_bytes);
        let saved = SavedState::fresh(&base_model, [0; 32]);
        let past = BTreeMap::from([(0, saved.state.clone())]);
        Self { base_model, saved, limits, past, random: Random::new(seed, "walk"), labels: 0 }
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("label-{:04}", self.labels)
    }

    fn class(&mut self, label: String) -> NewClass {
        let shots = 1 + self.random.below(3);
        NewClass { label, shots: (0..shots).map(|_| features(&mut self.random)).collect() }
    }

    fn any_learned(&mut self) -> Option<String> {
        let classes = &self.saved.state.classes;
        (!classes.is_empty()).then(|| classes[self.random.below(classes.len())].label.clone())
    }

    /// Takes a step on one thread.
    fn session(
        &self,
        seed: u64,
        work: impl FnOnce(&mut Session<'_>) -> Result<(State, session::ChangeReport), session::LearnError>,
    ) -> State {
        let (base_model, memory) = (&self.base_model, &mut SessionMemory::default());
        let on_progress = &mut |_| ControlFlow::Continue(());
        let config = &base_model.config;
        work(&mut Session { base_model, config, seed, memory, workers: &Serial, on_progress }).unwrap().0
    }

    fn advance(&mut self, next: State, change: &HistoryChange) {
        self.saved = self.saved.successor(next, change, self.limits);
        self.note();
    }

    fn note(&mut self) {
        let last = self.saved.history.entries().last().unwrap().number;
        self.past.insert(last, self.saved.state.clone());
        assert!(self.saved.is_sound(&self.base_model));
        let bytes = postcard::to_allocvec(&self.saved).unwrap();
        assert_eq!(postcard::from_bytes::<SavedState>(&bytes).unwrap(), self.saved);
    }

    fn learn(&mut self) {
        let label = self.label();
        let class = self.class(label);
        if self.saved.state.free_targets(&self.base_model).is_empty() {
            return;
        }
        let seed = self.random.bits();
        let next = self.session(seed, |session| session.learn(&self.saved.state, core::slice::from_ref(&class)));
        self.advance(next, &HistoryChange::new(ChangeKind::Learn, seed).labels([class.label]));
    }

    fn add(&mut self) {
        let label = self.any_learned().unwrap_or_else(|| "base 1".into());
        let class = self.class(label);
        let seed = self.random.bits();
        let next = self.session(seed, |session| session.add_shots(&self.saved.state, &class));
        self.advance(next, &HistoryChange::new(ChangeKind::Add, seed).labels([class.label]));
    }

    fn forgotten(&self, label: &str, seed: u64) -> State {
        self.session(seed, |session| session.forget(&self.saved.state, label))
    }

    fn forget(&mut self) {
        let Some(label) = self.any_learned() else { return };
        let seed = self.random.bits();
        let next = self.forgotten(&label, seed);
        self.advance(next, &HistoryChange::new(ChangeKind::Forget, seed).labels([label]));
    }

    fn rename(&mut self) {
        let Some(from) = self.any_learned() else { return };
        let to = self.label();
        let next = session::rename(&self.base_model, &self.saved.state, &from, &to).unwrap();
        self.advance(next, &HistoryChange::new(ChangeKind::Rename, 0).labels([from, to]));
    }

    fn undo(&mut self) {
        let entries = self.saved.history.entries();
        let number = entries[self.random.below(entries.len())].number;
        self.go_to(number);
    }

    /// Goes to the class set of an entry, which must come back exactly.
    fn go_to(&mut self, number: u32) {
        let earlier = self.saved.earlier_state(number).unwrap();
        let next = self.restored(&earlier);
        assert_ne!(earlier.is_exact(next.head.as_ref()), Some(false));
        if let Some(was) = self.past.get(&number) {
            assert_eq!(next, *was, "entry {number} did not come back exactly");
        }
        self.advance(next, &HistoryChange::new(ChangeKind::Undo, earlier.seed).restored_entry(number));
    }

    /// Goes back or forth by one change, as undoing and redoing do.
    fn step(&mut self, forth: bool) {
        let timeline = self.saved.history.timeline();
        let known = |number: &u32| self.saved.history.entry(*number).is_some();
        assert!(timeline.earlier().iter().chain(timeline.later()).all(known));
        let targets = if forth { timeline.later() } else { timeline.earlier() };
        let Some(number) = targets.first().copied() else { return };
        self.go_to(number);
        let stepped = self.saved.history.timeline();
        let both = [timeline.present(), number].iter().all(|number| self.saved.history.entry(*number).is_some());
        // A limit may have dropped what it came from.
        assert!(both || !self.limits.keeps_last_change, "{number} from {}", timeline.present());
        if both {
            let back = if forth { stepped.earlier() } else { stepped.later() };
            assert_eq!((stepped.present(), back.first()), (number, Some(&timeline.present())));
        }
    }

    fn restored(&self, earlier: &EarlierState) -> State {
        // Whatever the seed of the step, that of the entry counts.
        self.session(99, |session| session.restore(&self.saved.state, earlier))
    }

    /// Purges a class that is known or was.
    fn purge(&mut self) {
        let entries = self.saved.history.entries();
        let entry = &entries[self.random.below(entries.len())];
        let Some(known) = entry.classes.last().cloned() else { return };
        let label = known.class.label;
        let living = self.saved.state.classes.iter().any(|class| class.label == label);
        let seed = self.random.bits();
        let next = if living { self.forgotten(&label, seed) } else { self.saved.state.clone() };
        let change = HistoryChange::new(ChangeKind::Purge, seed);
        let purged = match self.saved.purge(&self.base_model, next, &label, &change, self.limits) {
            Ok(purged) => purged,
            Err(PurgeError::Renamed { .. }) => {
                let last = self.saved.history.entries().last().unwrap();
                assert!(!living && last.classes.iter().any(|class| class.id == known.id));
                return;
            }
            Err(error) => panic!("{error}"),
        };
        // Exemplars of the class in any entry, but for those that another class has.
        let mut gone = Vec::new();
        for entry in self.saved.history.entries() {
            let state = self.saved.earlier_state(entry.number).unwrap().state;
            for (index, class) in entry.classes.iter().enumerate().filter(|(_, class)| class.id == known.id) {
                assert!(class.class.session > 0);
                let of = (BASE + index) as u32;
                let values = state.exemplars.as_exemplars().values;
                gone.extend(state.exemplars.members(of).map(|exemplar| values[exemplar * INPUTS..][..INPUTS].to_vec()));
            }
        }
        assert!(!gone.is_empty());
        self.saved = purged;
        self.note();
        // What lost a class is no longer what it was.
        for entry in self.saved.history.entries() {
            let classes = entry.classes.iter().map(|known| &known.class);
            if self.past.get(&entry.number).is_some_and(|was| !classes.eq(&was.classes)) {
                self.past.remove(&entry.number);
            }
        }
        let bytes = postcard::to_allocvec(&self.saved).unwrap();
        let contains = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
        assert!(!contains(label.as_bytes()), "the label is left");
        assert!(gone.iter().all(|values| !contains(values)), "an exemplar is left");
    }

    /// Compares everything that is remembered with what was.
    fn check(&self) {
        for entry in self.saved.history.entries() {
            let earlier = self.saved.earlier_state(entry.number).unwrap();
            assert!(earlier.state.is_sound(&self.base_model));
            if let Some(was) = self.past.get(&entry.number) {
                assert_eq!(State { head: was.head.clone(), ..earlier.state }, *was, "entry {}", entry.number);
            }
        }
    }
}

#[test]
fn every_remembered_class_set_comes_back_exactly() {
    let generous = HistoryLimits { entries: 40, bytes: 1 << 20, keeps_last_change: false };
    let narrow = HistoryLimits { entries: 6, bytes: 1500, ..generous };
    for (seed, exemplar_bytes, limits) in [(1, 0, generous), (2, 300, generous), (3, 0, narrow), (4, 200, generous)] {
        let mut walk = Walk::new(exemplar_bytes, limits, seed);
        for _ in 0..120 {
            match walk.random.below(16) {
                0..=3 => walk.learn(),
                4 | 5 => walk.add(),
                6 | 7 => walk.forget(),
                8 => walk.rename(),
                9 | 10 => walk.undo(),
                11..=13 => walk.step(false),
                14 => walk.step(true),
                _ => walk.purge(),
            }
            walk.check();
            let history = &walk.saved.history;
            assert!(history.entries().len() <= limits.entries);
            assert!(history.bytes() <= limits.bytes || history.entries().len() == 1);
        }
        assert!(walk.labels > 20 && walk.saved.history.entries().len() > 3, "walk {seed} went nowhere");
    }
}

#[test]
fn what_was_undone_is_redone_exactly() {
    let mut walk = Walk::new(0, HistoryLimits::default(), 1);
    walk.learn();
    walk.learn();
    let two = walk.saved.state.clone();
    let one = walk.saved.history.timeline().back(1).unwrap();
    let earlier = walk.saved.earlier_state(one).unwrap();
    let next = walk.restored(&earlier);
    walk.advance(next, &HistoryChange::new(ChangeKind::Undo, earlier.seed).restored_entry(one));
    assert_eq!(walk.saved.state.classes.len(), 1);
    let timeline = walk.saved.history.timeline();
    assert_eq!((timeline.present(), timeline.earlier(), timeline.later()), (1, &[0][..], &[2][..]));
    let again = walk.saved.earlier_state(timeline.later()[0]).unwrap();
    assert_eq!(walk.restored(&again), two);
    assert_eq!((timeline.back(1), timeline.back(2)), (Some(0), None));
    // The exemplars of the second class are there once, though two entries name them.
    assert_eq!(walk.saved.history.past_exemplars.len(), two.exemplars.len() - walk.saved.state.exemplars.len());
}

#[test]
fn the_last_change_is_undone_and_redone_however_much_that_takes() {
    // Less than any entry takes.
    let mut walk = Walk::new(0, HistoryLimits::default().bytes(1), 1);
    (0..3).for_each(|_| walk.learn());
    let numbers = |walk: &Walk| walk.saved.history.entries().iter().map(|entry| entry.number).collect::<Vec<_>>();
    assert_eq!(numbers(&walk), [2, 3], "before and after the last change");
    walk.forget();
    for _ in 0..3 {
        walk.step(false);
        assert_eq!(walk.saved.state, walk.past[&3], "the forgotten class is back");
        assert_eq!(walk.saved.history.timeline().later(), [4]);
        walk.step(true);
        assert_eq!(walk.saved.state, walk.past[&4]);
        assert_eq!(walk.saved.history.timeline().earlier(), [3]);
        walk.check();
        assert_eq!(walk.saved.history.entries().len(), 3);
    }
    // What is left by further changes is forgotten.
    walk.learn();
    walk.learn();
    assert_eq!((walk.saved.history.entries().len(), walk.saved.history.past_exemplars.len()), (2, 0));
}

#[test]
fn what_was_undone_as_far_as_is_remembered_is_redone_change_by_change() {
    let mut walk = Walk::new(0, HistoryLimits::default().entries(4), 1);
    (0..3).for_each(|_| walk.learn());
    walk.go_to(0);
    assert_eq!(walk.saved.history.timeline().later(), [2, 3]);
    walk.step(true);
    walk.step(true);
    assert_eq!(walk.saved.state, walk.past[&3]);
    assert_eq!(walk.saved.history.timeline().earlier(), [2, 0]);
}

#[test]
fn a_step_on_another_branch_is_redone_where_the_limit_is_reached() {
    let mut walk = Walk::new(0, HistoryLimits::default().entries(5), 1);
    (0..2).for_each(|_| walk.learn());
    walk.step(false);
    walk.learn();
    // To what was left by that.
    walk.go_to(2);
    walk.step(false);
    assert_eq!(walk.saved.history.timeline().later().first(), Some(&2), "not what was learned instead");
    walk.step(true);
    assert_eq!(walk.saved.state, walk.past[&2]);
}

#[test]
fn the_last_step_is_taken_back_wherever_a_walk_went() {
    // Less than any entry takes, a few entries, and no limit but their number.
    for (seed, bytes) in [(1, 1), (2, 1500), (3, 1 << 20)] {
        let mut walk = Walk::new(0, HistoryLimits::default().entries(12).bytes(bytes), seed);
        for _ in 0..120 {
            match walk.random.below(10) {
                0..=2 => walk.learn(),
                3 => walk.forget(),
                4 => walk.undo(),
                5..=7 => walk.step(false),
                _ => walk.step(true),
            }
            walk.check();
            assert!(walk.saved.history.entries().len() <= 12);
        }
    }
}

#[test]
fn a_head_that_is_aligned_after_undoing_is_that_of_every_entry_gone_back_to() {
    let mut walk = Walk::new(0, HistoryLimits::default(), 1);
    walk.learn();
    let aligned = walk.saved.state.clone();
    assert!(aligned.head.is_some());
    // As where it was learned without an alignment.
    walk.saved.state.head = None;
    walk.saved.history.entries[1].head = HeadFingerprint::Bundle;
    let unaligned = walk.saved.state.clone();
    walk.go_to(0);
    for number in [1, 3] {
        let change = HistoryChange::new(ChangeKind::Undo, 1).restored_entry(number);
        walk.saved = walk.saved.successor(unaligned.clone(), &change, walk.limits);
    }
    let saved = walk.saved.with_alignment(aligned.clone());
    let heads: Vec<HeadFingerprint> = saved.history.entries().iter().map(|entry| entry.head).collect();
    let head = HeadFingerprint::of(aligned.head.as_ref());
    assert_eq!(heads, [HeadFingerprint::Bundle, head, HeadFingerprint::Bundle, head, head]);
}

#[test]
fn a_rename_is_undone_without_training() {
    let mut walk = Walk::new(0, HistoryLimits::default(), 1);
    walk.learn();
    let before = walk.saved.state.clone();
    walk.rename();
    assert_eq!(walk.saved.earlier_state(1).unwrap().state, before, "the head is at hand");
    assert_eq!(walk.saved.history.entries()[2].seed, walk.saved.history.entries()[1].seed);
}

#[test]
fn pictures_under_two_labels_are_purged_from_one() {
    let mut walk = Walk::new(0, HistoryLimits::default(), 1);
    let learn = |walk: &mut Walk, label: &str, shots: &[Vec<f32>]| {
        let class = NewClass { label: label.into(), shots: shots.to_vec() };
        let next = walk.session(1, |session| session.learn(&walk.saved.state, core::slice::from_ref(&class)));
        walk.advance(next, &HistoryChange::new(ChangeKind::Learn, 1).labels([label]));
    };
    let shots: Vec<Vec<f32>> = (0..3).map(|_| features(&mut walk.random)).collect();
    learn(&mut walk, "wrong", &shots);
    walk.forget();
    learn(&mut walk, "right", &shots);
    let state = walk.saved.state.clone();
    let change = HistoryChange::new(ChangeKind::Purge, 1);
    let purged = walk.saved.purge(&walk.base_model, state.clone(), "wrong", &change, walk.limits).unwrap();
    assert_eq!(purged.state, state, "the other class keeps the pictures");
    let labels = |saved: &SavedState| postcard::to_allocvec(saved).unwrap().windows(5).any(|window| window == b"wrong");
    assert!(labels(&walk.saved) && !labels(&purged) && purged.is_sound(&walk.base_model));
    let still = walk.saved.purge(&walk.base_model, state.clone(), "right", &change, walk.limits).unwrap_err();
    assert_eq!(still, PurgeError::StillKnown { label: "right".into() });
    let base = walk.saved.purge(&walk.base_model, state, "base 0", &change, walk.limits).unwrap_err();
    assert_eq!(base, PurgeError::Unknown { label: "base 0".into() });
}

#[test]
fn a_purge_is_no_change_that_can_be_undone() {
    let change = HistoryChange::new(ChangeKind::Purge, 1);
    let numbers = |saved: &SavedState| saved.history.entries().iter().map(|entry| entry.number).collect::<Vec<_>>();
    // Forgotten first, then purged: neither leaves anything to go back to.
    let mut walk = Walk::new(0, HistoryLimits::default(), 1);
    walk.learn();
    let bob = walk.saved.state.classes[0].label.clone();
    walk.forget();
    let purged = walk.saved.purge(&walk.base_model, walk.saved.state.clone(), &bob, &change, walk.limits).unwrap();
    let timeline = purged.history.timeline();
    assert_eq!((timeline.present(), timeline.earlier(), timeline.later()), (0, &[][..], &[][..]));
    assert_eq!(numbers(&purged), [0, 3], "what was learned and forgotten is no entry any more");
    // Beside another class, whose change is undone and redone.
    let mut walk = Walk::new(0, HistoryLimits::default(), 1);
    walk.learn();
    let bob = walk.saved.state.classes[0].label.clone();
    walk.learn();
    let next = walk.forgotten(&bob, 1);
    walk.saved = walk.saved.purge(&walk.base_model, next, &bob, &change, walk.limits).unwrap();
    let timeline = walk.saved.history.timeline();
    assert_eq!((timeline.present(), timeline.earlier(), timeline.later()), (2, &[0][..], &[][..]));
    walk.past.remove(&2);
    let head = walk.saved.state.head.clone();
    walk.learn();
    let earlier = walk.saved.earlier_state(2).unwrap();
    assert_eq!((earlier.seed, earlier.is_exact(head.as_ref())), (1, Some(true)), "the purge tells the head");
    walk.step(false);
    assert_eq!(walk.saved.state.head, head);
    walk.step(false);
    assert!(walk.saved.state.classes.is_empty());
    walk.step(true);
    assert_eq!((walk.saved.state.classes.len(), walk.saved.history.timeline().earlier()), (1, &[0][..]));
}

#[test]
fn a_purge_leaves_a_change_of_balance_to_be_undone() {
    let mut walk = Walk::new(0, HistoryLimits::default(), 1);
    walk.learn();
    let bob = walk.saved.state.classes[0].label.clone();
    let next = State { balance: Balance::FavourNew, ..walk.saved.state.clone() };
    walk.advance(next, &HistoryChange::new(ChangeKind::Balance, 1));
    walk.learn();
    let next = walk.forgotten(&bob, 1);
    let change = HistoryChange::new(ChangeKind::Purge, 1);
    let purged = walk.saved.purge(&walk.base_model, next, &bob, &change, walk.limits).unwrap();
    let kinds: Vec<ChangeKind> = purged.history.entries().iter().map(|entry| entry.kind).collect();
    assert!(kinds.contains(&ChangeKind::Balance), "{kinds:?}");
}

#[test]
fn a_purge_keeps_the_way_back_from_an_undo_whose_entry_it_drops() {
    let mut walk = Walk::new(0, HistoryLimits::default(), 1);
    (0..3).for_each(|_| walk.learn());
    let bob = walk.saved.state.classes[1].label.clone();
    walk.step(false);
    let next = walk.forgotten(&bob, 1);
    let change = HistoryChange::new(ChangeKind::Purge, 1);
    let purged = walk.saved.purge(&walk.base_model, next, &bob, &change, walk.limits).unwrap();
    let restored = purged.history.entry(4).unwrap().restored_entry;
    assert_eq!((purged.history.entry(2), restored), (None, Some(1)), "entry 1 has the same class set by now");
    let timeline = purged.history.timeline();
    assert_eq!((timeline.present(), timeline.earlier()), (1, &[0][..]), "the purge is no step");
    assert_eq!(timeline.back(1), Some(0));
}

#[test]
fn of_too_many_changes_the_newest_are_remembered_and_read_back() {
    let unlimited = HistoryLimits { entries: usize::MAX, bytes: usize::MAX, keeps_last_change: true };
    let mut walk = Walk::new(0, unlimited, 1);
    walk.learn();
    // Far more entries than anybody makes, all of the same class set.
    let History { entries, past_exemplars, next_class } = walk.saved.history.clone();
    let last = entries.last().unwrap().clone();
    let count = (MAX_WEIGHT / last.weight()) as u32 + 100;
    let entries = (0..count).map(|number| HistoryEntry { number, ..last.clone() }).collect();
    walk.saved.history = History { entries, past_exemplars, next_class };
    let read = |saved: &SavedState| codec::from_postcard::<SavedState>(&codec::to_postcard(saved));
    // As an earlier release may have written it.
    let newest = read(&walk.saved).unwrap();
    assert_eq!(newest.state, walk.saved.state);
    assert!(newest.is_consistent() && newest.history.entries().len() < count as usize);
    assert_eq!(newest.history.entries().last(), walk.saved.history.entries().last());
    let next = State { balance: Balance::FavourNew, ..walk.saved.state.clone() };
    let change = HistoryChange::new(ChangeKind::Balance, 1);
    let few = walk.saved.successor(next.clone(), &change, unlimited.entries(3)).history;
    let newest = few.entries().iter().map(|entry| entry.number);
    assert!(newest.eq(count - 2..=count), "not the newest after a limit was lowered");
    let balanced = walk.saved.successor(next, &change, unlimited);
    assert_eq!(read(&balanced), Some(balanced.clone()));
    assert!(balanced.history.entries().len() > 10_000);
}

#[test]
fn kinds_of_change_are_stored_by_their_place() {
    for (place, kind) in ChangeKind::ALL.into_iter().enumerate() {
        assert_eq!(codec::to_postcard(&kind), [place as u8], "{kind:?}");
    }
}
