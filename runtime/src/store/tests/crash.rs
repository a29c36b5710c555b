//! A power cut at every operation, with every fate of everything that was not synced, and again while recovering.

use std::collections::BTreeMap;

use super::simulated::{Image, SimulatedDisk, every_fate};
use super::{DIGEST, base_model, files_on, generation, saves, saves_beside_many, say};
use crate::store::slot_files::SlotFiles;
use orco_state::history::SavedState;
use orco_state::slots::{self, Slot};
use orco_state::state::BaseModel;
use orco_trials::heavy;

/// Operations without a sync whose fates are enumerated: three fates each make half a million outcomes.
const DEEP: usize = 12;
const SHALLOW: usize = 7;

/// The most that are enumerated unless the trials are [`heavy`]: twenty thousand outcomes.
const LIGHT: usize = 9;

fn depth(wanted: usize) -> usize {
    if heavy() { wanted } else { wanted.min(LIGHT) }
}

#[derive(Default)]
struct Tally {
    points: usize,
    outcomes: usize,
    deepest: usize,
    images: usize,
}

struct Scenario<'a> {
    name: &'a str,
    start: Image,
    before: u32,
    after: u32,
    /// Most operations without a sync; the disk's blocks are as small as that allows.
    depth: usize,
    change: &'a dyn Fn(&mut SlotFiles<SimulatedDisk>) -> bool,
}

/// Which save a device finds that starts on this image; panics if it finds none although there was one.
fn found(base_model: &BaseModel, image: &Image, what: &str) -> u32 {
    let loaded = slots::load(&mut files_on(image, 64), base_model, DIGEST);
    generation(loaded.unwrap_or_else(|error| panic!("{what}: {error:?}")).saved.as_ref())
}

/// The image, without what only leftovers hold: nobody reads those.
fn telling(mut image: Image) -> Image {
    image.iter_mut().filter(|(name, _)| name.starts_with('.')).for_each(|(_, bytes)| bytes.clear());
    image
}

/// Runs a change with the power cut before every operation; every image that may be left must hold the old state or the
/// new one, and the new one if the change said that it was done. Returns the different images with what they hold.
fn cut_everywhere(
    base_model: &BaseModel,
    scenario: &Scenario<'_>,
    block: usize,
    tally: &mut Tally,
) -> BTreeMap<Image, u32> {
    let mut left = BTreeMap::new();
    for operation in 0.. {
        let mut files = files_on(&scenario.start, block);
        files.disk.cut_power_before(operation);
        let acknowledged = (scenario.change)(&mut files);
        assert!(files.disk.is_off() || acknowledged, "{}: failed without a fault", scenario.name);
        tally.points += 1;
        tally.deepest = tally.deepest.max(files.disk.pending());
        if !files.disk.is_off() {
            assert_eq!(files.disk.pending(), 0, "{}: said to be done before it was", scenario.name);
            let left: Vec<String> = files.disk.image().into_keys().collect();
            let is_purge = scenario.name.starts_with("purge");
            assert!(!is_purge || left == Slot::BOTH.map(Slot::name), "{}: {left:?} is left", scenario.name);
        }
        every_fate(files.disk.pending(), &mut |fates| {
            tally.outcomes += 1;
            let image = telling(files.disk.after_crash(fates));
            let found = *left.entry(image).or_insert_with_key(|image| found(base_model, image, scenario.name));
            let right = if acknowledged { &[scenario.after][..] } else { &[scenario.before, scenario.after] };
            assert!(right.contains(&found), "{}, operation {operation}, {fates:?}: found {found}", scenario.name);
        });
        if !files.disk.is_off() {
            break;
        }
    }
    tally.images += left.len();
    left
}

fn save(base_model: &BaseModel, saved: &SavedState, files: &mut SlotFiles<SimulatedDisk>) -> bool {
    files.remove_unfinished().is_ok() && super::save(files, base_model, saved).is_ok()
}

#[test]
fn a_power_cut_leaves_the_old_state_or_the_new_one() {
    let mut trial = orco_trials::trial!(1, "outcomes of power cuts");
    let base_model = base_model();
    let (mut first, mut again) = (Tally::default(), Tally::default());
    // Of states so small, each is written whole.
    cut_all_changes(&base_model, &saves(&base_model, 5, 1), DEEP, &mut first, &mut again);
    assert_eq!(first.deepest, depth(DEEP), "the enumeration does not reach its depth");
    // A class among many is appended, another many are written whole.
    let patched = saves_beside_many(&base_model, &[1, 1, 1, 1000]);
    assert_eq!(patches_in(&state_of(&base_model, &patched[..4])), 3);
    assert_eq!(patches_in(&state_of(&base_model, &patched)), 2);
    cut_all_changes(&base_model, &patched, SHALLOW, &mut first, &mut again);
    // An append that is cut off: the next save appends, too.
    let patched = saves_beside_many(&base_model, &[1; 4]);
    assert_eq!(patches_in(&state_of(&base_model, &patched)), 4);
    cut_all_changes(&base_model, &patched, SHALLOW, &mut first, &mut again);
    trial.count(first.outcomes + again.outcomes);
    say(&format!(
        "{} crash points, {} outcomes of up to {} operations without a sync, {} different disks left; \
         {} crash points and {} outcomes while recovering from those; 0 lost",
        first.points, first.outcomes, first.deepest, first.images, again.points, again.outcomes
    ));
}

/// A disk on which these were saved, in turn.
fn state_of(base_model: &BaseModel, saves: &[SavedState]) -> Image {
    let mut files = files_on(&Image::new(), usize::MAX);
    saves.iter().for_each(|saved| assert!(save(base_model, saved, &mut files)));
    files.disk.image()
}

fn patches_in(image: &Image) -> usize {
    image.keys().filter(|name| name.contains(".patch-")).count()
}

/// Cuts the power at every moment of every kind of change that leads through these five states, and of the recovery,
/// which saves the last.
fn cut_all_changes(base_model: &BaseModel, saves: &[SavedState], deep: usize, first: &mut Tally, again: &mut Tally) {
    let state_of = |count: usize| state_of(base_model, &saves[..count]);
    // As somebody who takes the slots away leaves it.
    let without_slots = |mut image: Image| {
        image.retain(|name, _| Slot::BOTH.iter().all(|slot| name != slot.name()));
        image
    };
    // The last byte of a slot, which may be that of a patch.
    let damaged = |slot: Slot, count: usize| {
        let mut image = state_of(count);
        let (_, last) = image.iter_mut().rfind(|(name, _)| name.starts_with(slot.name())).unwrap();
        *last.last_mut().unwrap() ^= 1;
        image
    };
    let to = |number: usize| move |files: &mut SlotFiles<SimulatedDisk>| save(base_model, &saves[number - 1], files);
    let purge = |files: &mut SlotFiles<SimulatedDisk>| {
        files.remove_unfinished().is_ok() && super::purge(files, base_model, &saves[3]).is_ok()
    };
    // Save 1 lies in both slots, so save 2 goes to A and save 3 to B.
    let scenarios = [
        Scenario { name: "first save", start: Image::new(), before: 0, after: 1, depth: deep, change: &to(1) },
        Scenario { name: "save to A", start: state_of(1), before: 1, after: 2, depth: deep, change: &to(2) },
        Scenario { name: "save to B", start: state_of(2), before: 2, after: 3, depth: SHALLOW, change: &to(3) },
        Scenario { name: "save to A again", start: state_of(3), before: 3, after: 4, depth: SHALLOW, change: &to(4) },
        Scenario { name: "save to B again", start: state_of(4), before: 4, after: 5, depth: SHALLOW, change: &to(5) },
        Scenario {
            name: "first save beside patches of another time",
            start: without_slots(state_of(3)),
            before: 0,
            after: 1,
            depth: SHALLOW,
            change: &to(1),
        },
        Scenario {
            name: "older slot damaged",
            start: damaged(Slot::A, 3),
            before: 3,
            after: 4,
            depth: deep,
            change: &to(4),
        },
        Scenario {
            name: "newest slot damaged",
            start: damaged(Slot::B, 3),
            before: 2,
            after: 4,
            depth: SHALLOW,
            change: &to(4),
        },
        Scenario { name: "purge", start: state_of(3), before: 3, after: 4, depth: SHALLOW, change: &purge },
        Scenario {
            name: "purge of a damaged slot",
            start: damaged(Slot::A, 3),
            before: 3,
            after: 4,
            depth: SHALLOW,
            change: &purge,
        },
    ];
    for scenario in &scenarios {
        let left = cut_everywhere(base_model, scenario, block_of(scenario), first);
        // Whatever is left, the next save on it may be cut, too.
        for (start, before) in left {
            let change = |files: &mut SlotFiles<SimulatedDisk>| save(base_model, &saves[4], files);
            let name = format!("recovery after {}", scenario.name);
            let recovery = Scenario { name: &name, start, before, after: 5, depth: deep, change: &change };
            cut_everywhere(base_model, &recovery, usize::MAX, again);
        }
    }
}

/// Bytes of a block, in fours from 16 on: the fewest with which no more operations are pending than are to be
/// enumerated.
fn block_of(scenario: &Scenario<'_>) -> usize {
    let is_enough = |block: usize| {
        let mut files = files_on(&scenario.start, block);
        (scenario.change)(&mut files);
        files.disk.most_pending() <= depth(scenario.depth)
    };
    // Larger blocks never take more operations.
    let (mut few, mut enough) = (12, 16);
    while !is_enough(enough) {
        (few, enough) = (enough, 2 * enough);
    }
    while enough - few > 4 {
        let middle = few + (enough - few) / 8 * 4;
        if is_enough(middle) {
            enough = middle;
        } else {
            few = middle;
        }
    }
    enough
}

#[test]
fn reading_and_looking_write_nothing() {
    let mut trial = orco_trials::trial!(7, "loads");
    let base_model = base_model();
    let saves = saves(&base_model, 3, 4);
    let mut files = files_on(&Image::new(), usize::MAX);
    saves.iter().for_each(|saved| assert!(save(&base_model, saved, &mut files)));
    let before = (files.disk.operations(), files.disk.written());
    for _ in 0..1000 {
        trial.count(1);
        let loaded = slots::load(&mut files, &base_model, DIGEST).unwrap();
        assert_eq!(generation(loaded.saved.as_ref()), 3);
    }
    assert_eq!(before, (files.disk.operations(), files.disk.written()), "a device at rest writes");
}
