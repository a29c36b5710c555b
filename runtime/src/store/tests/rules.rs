//! Which slot is current, on a medium that is always there.

use super::{DIGEST, base_model, generation, saves, saves_beside_many};
use orco_state::codec::{DecodeError, FileKind, HEADER, encode};
use orco_state::history::SavedState;
use orco_state::slots::{
    self, DamagedSlot, FaultySlot, LoadError, Medium, NewestSlot, SaveError, Slot, SlotContent, SlotFault, SlotFrame,
    SlotPatch, VERSION,
};

/// Two slots in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryMedium {
    slots: [Option<Vec<u8>>; 2],
    /// Slots whose bytes cannot be read.
    pub unreadable: [bool; 2],
    /// Slots that were set aside.
    pub aside: Vec<(Slot, Option<Vec<u8>>)>,
    /// Bytes written so far.
    pub written: usize,
    /// Whether patches can be appended.
    pub appends: bool,
}

impl MemoryMedium {
    pub fn that_appends() -> Self {
        Self { appends: true, ..Self::default() }
    }

    pub fn put(&mut self, slot: Slot, bytes: &[u8]) {
        self.slots[slot as usize] = Some(bytes.into());
    }

    fn flip(&mut self, slot: Slot, byte: usize) {
        self.slots[slot as usize].as_mut().unwrap()[byte] ^= 1;
    }
}

impl Medium for MemoryMedium {
    type Error = String;

    fn read(&mut self, slot: Slot) -> Result<Option<Vec<u8>>, String> {
        if self.unreadable[slot as usize] { Err("bad sector".into()) } else { Ok(self.slots[slot as usize].clone()) }
    }

    fn write(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), String> {
        self.written += bytes.len();
        self.unreadable[slot as usize] = false;
        self.put(slot, bytes);
        Ok(())
    }

    fn can_append(&self) -> bool {
        self.appends
    }

    fn append(&mut self, slot: Slot, patch: &SlotPatch) -> Result<(), String> {
        self.written += patch.bytes.len();
        self.slots[slot as usize].as_mut().unwrap().extend_from_slice(&patch.bytes);
        Ok(())
    }

    fn set_aside(&mut self, slot: Slot) -> Result<(), String> {
        let bytes = self.slots[slot as usize].take();
        self.aside.push((slot, bytes));
        Ok(())
    }

    fn clear(&mut self) -> Result<(), String> {
        self.aside.clear();
        Ok(())
    }
}

fn found(medium: &mut MemoryMedium) -> Result<u32, LoadError<String>> {
    slots::load(medium, &base_model(), DIGEST).map(|loaded| generation(loaded.saved.as_ref()))
}

fn save(medium: &mut MemoryMedium, saved: &SavedState) -> u64 {
    super::save(medium, &base_model(), saved).unwrap()
}

/// A medium on which these were saved, in turn.
fn medium_with(saves: &[SavedState]) -> MemoryMedium {
    let mut medium = MemoryMedium::default();
    for saved in saves {
        save(&mut medium, saved);
    }
    medium
}

#[test]
fn slots_are_written_alternately_and_the_newest_is_current() {
    let saves = saves(&base_model(), 5, 1);
    let mut medium = MemoryMedium::default();
    assert_eq!(found(&mut medium), Ok(0));
    assert_eq!(save(&mut medium, &saves[0]), 2, "the first save goes to both slots");
    for (number, saved) in saves.iter().enumerate().skip(1) {
        let before = medium.slots.clone();
        assert_eq!(save(&mut medium, saved), number as u64 + 2);
        let changed = [0, 1].map(|slot| medium.slots[slot] != before[slot]);
        assert_eq!(changed, if number % 2 == 1 { [true, false] } else { [false, true] });
        let loaded = slots::load(&mut medium, &base_model(), DIGEST).unwrap();
        assert_eq!(loaded.saved.as_ref(), Some(saved));
        assert!(loaded.faults.is_empty());
    }
}

#[test]
fn a_save_reads_no_slot_where_both_are_known() {
    let saves = saves(&base_model(), 5, 1);
    let mut medium = medium_with(&saves[..2]);
    let mut newest = slots::load(&mut medium, &base_model(), DIGEST).unwrap().newest_undisturbed().unwrap();
    for saved in &saves[2..] {
        medium.unreadable = [true; 2];
        newest = slots::save_next(&mut medium, &base_model(), saved, newest).unwrap();
    }
    medium.unreadable = [false; 2];
    assert_eq!((found(&mut medium), newest.generation), (Ok(5), 6));
    medium.flip(newest.slot.other(), 100);
    let loaded = slots::load(&mut medium, &base_model(), DIGEST).unwrap();
    assert_eq!(loaded.newest_undisturbed(), None, "one is to be set aside");
}

#[test]
fn a_damaged_slot_is_set_aside_by_the_next_save() {
    let saves = saves(&base_model(), 4, 1);
    let mut medium = medium_with(&saves[..3]);
    medium.flip(Slot::B, 95);
    let damaged = medium.slots[1].clone();
    let loaded = slots::load(&mut medium, &base_model(), DIGEST).unwrap();
    assert_eq!(generation(loaded.saved.as_ref()), 2, "the other slot has the state before");
    assert_eq!(loaded.faults, [FaultySlot { slot: Slot::B, fault: SlotFault::Damaged(DecodeError::Checksum) }]);
    assert!(medium.aside.is_empty(), "loading changes nothing");
    save(&mut medium, &saves[3]);
    assert_eq!(medium.aside, [(Slot::B, damaged)]);
    assert_eq!(found(&mut medium), Ok(4));
    super::purge(&mut medium, &base_model(), &saves[3]).unwrap();
    assert!(medium.aside.is_empty());
    let bodies = medium.slots.clone().map(|bytes| SlotContent::decode(bytes.unwrap()).unwrap().into_body());
    assert_eq!(bodies[0], bodies[1], "a purge leaves nothing older");
}

#[test]
fn what_could_not_be_read_again_takes_no_slot() {
    let saves = saves(&base_model(), 2, 1);
    let mut medium = medium_with(&saves[..1]);
    let mut unsound = saves[1].clone();
    unsound.state.classes[0].target = u32::MAX;
    let before = medium.clone();
    assert_eq!(slots::save(&mut medium, &base_model(), &unsound, 2), Err(SaveError::Unsound));
    assert_eq!(slots::purge(&mut medium, &base_model(), &unsound, 2), Err(SaveError::Unsound));
    assert_eq!((medium.slots, medium.written), (before.slots, before.written));
}

#[test]
fn an_unreadable_slot_is_not_a_damaged_one() {
    let saves = saves(&base_model(), 3, 1);
    let mut medium = medium_with(&saves[..2]);
    // The newest, then the older one.
    for (unreadable, left) in [([true, false], 1), ([false, true], 2)] {
        medium.unreadable = unreadable;
        let slot = if unreadable[0] { Slot::A } else { Slot::B };
        let before = medium.clone();
        let loaded = slots::load(&mut medium, &base_model(), DIGEST).unwrap();
        assert_eq!(generation(loaded.saved.as_ref()), left, "looking goes on with the other one");
        assert_eq!(loaded.faults, [FaultySlot { slot, fault: SlotFault::Unreadable("bad sector".into()) }]);
        let refused = LoadError::Unreadable { slot, source: "bad sector".into() };
        assert_eq!(slots::load_to_change(&mut medium, &base_model(), DIGEST), Err(refused.clone()));
        // Also a change that could read it when it loaded.
        for from in [loaded.generation, 3] {
            let saved = slots::save(&mut medium, &base_model(), &saves[2], from);
            assert_eq!(saved, Err(SaveError::Occupied(refused.clone())));
            let purged = slots::purge(&mut medium, &base_model(), &saves[2], from);
            assert_eq!(purged, Err(SaveError::Occupied(refused.clone())));
        }
        assert_eq!((&medium.slots, &medium.aside, medium.written), (&before.slots, &before.aside, before.written));
    }
    medium.unreadable = [false; 2];
    save(&mut medium, &saves[2]);
    assert_eq!((found(&mut medium), medium.aside.len()), (Ok(3), 0));
}

#[test]
fn a_change_of_an_older_state_is_refused() {
    let saves = saves(&base_model(), 4, 1);
    let mut medium = MemoryMedium::default();
    let change =
        |medium: &mut MemoryMedium, saved: &SavedState, from: u64| slots::save(medium, &base_model(), saved, from);
    let newest = |generation, slot| Ok(NewestSlot { generation, slot });
    assert_eq!(change(&mut medium, &saves[0], 0), newest(2, Slot::B));
    let first_again = Err(SaveError::Overtaken { expected: 0, actual: 2 });
    assert_eq!(change(&mut medium, &saves[0], 0), first_again, "two first changes");
    assert_eq!(change(&mut medium, &saves[1], 2), newest(3, Slot::A));
    let before = medium.clone();
    for from in [0, 1, 2, 4] {
        let refused = Err(SaveError::Overtaken { expected: from, actual: 3 });
        assert_eq!(change(&mut medium, &saves[2], from), refused);
        assert_eq!(slots::purge(&mut medium, &base_model(), &saves[2], from), refused);
        assert_eq!(medium.slots, before.slots);
    }
    assert_eq!(change(&mut medium, &saves[2], 3), newest(4, Slot::B));
}

#[test]
fn every_way_to_save_says_which_slot_is_current() {
    let saves = saves(&base_model(), 4, 1);
    let mut medium = MemoryMedium::default();
    for round in 0..12 {
        let (saved, from) = (&saves[round % 4], slots::load_any(&mut medium).unwrap().generation);
        let newest = match round % 5 {
            0..=2 => slots::save(&mut medium, &base_model(), saved, from),
            3 => slots::purge(&mut medium, &base_model(), saved, from),
            _ => slots::switch(&mut medium, DIGEST, saved, from),
        };
        let (newest, found) = (newest.unwrap(), slots::load(&mut medium, &base_model(), DIGEST).unwrap());
        assert_eq!((found.generation, found.slot), (newest.generation, Some(newest.slot)), "round {round}");
    }
}

#[test]
fn what_was_saved_is_never_taken_for_nothing() {
    let saves = saves(&base_model(), 2, 1);
    let mut medium = MemoryMedium::default();
    save(&mut medium, &saves[0]);
    let good = medium.clone();
    let lost = |damaged: &[(Slot, DecodeError)]| {
        Err(LoadError::Lost(damaged.iter().map(|&(slot, error)| DamagedSlot { slot, error }).collect()))
    };
    [Slot::A, Slot::B].into_iter().for_each(|slot| medium.flip(slot, 60));
    assert_eq!(found(&mut medium), lost(&Slot::BOTH.map(|slot| (slot, DecodeError::Checksum))));
    let refused = super::save(&mut medium, &base_model(), &saves[1]);
    assert!(matches!(refused, Err(SaveError::Occupied(LoadError::Lost(_)))), "{refused:?}");
    // One damaged and one never written: a first save that was cut off. One that cannot be read: who knows.
    medium = MemoryMedium { slots: [medium.slots[0].clone(), None], ..MemoryMedium::default() };
    assert_eq!(found(&mut medium), Ok(0));
    medium.unreadable[0] = true;
    assert_eq!(found(&mut medium), Err(LoadError::Unreadable { slot: Slot::A, source: "bad sector".into() }));
    // A checksum that is right over a body that makes no sense: not cut off.
    let nonsense = SlotFrame { version: VERSION, generation: 9, bundle_digest: DIGEST, body: b"nonsense" }.encode();
    medium = MemoryMedium { slots: [Some(nonsense.clone()), None], ..MemoryMedium::default() };
    assert_eq!(found(&mut medium), lost(&[(Slot::A, DecodeError::Body)]));
    medium = good;
    medium.put(Slot::B, &nonsense);
    assert_eq!(found(&mut medium), Ok(1), "the other slot is used");
    save(&mut medium, &saves[1]);
    assert_eq!(found(&mut medium), Ok(2));
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let saves = saves(&base_model(), 2, 1);
    let mut medium = MemoryMedium::default();
    save(&mut medium, &saves[0]);
    let good = medium.clone();
    let frame =
        |version, bundle_digest, generation| SlotFrame { version, generation, bundle_digest, body: b"theirs" }.encode();
    medium.put(Slot::B, &frame(VERSION + 1, DIGEST, 9));
    let newer = LoadError::Version { slot: Slot::B, expected: VERSION, actual: VERSION + 1 };
    assert_eq!(found(&mut medium), Err(newer.clone()));
    assert_eq!(super::save(&mut medium, &base_model(), &saves[1]), Err(SaveError::Occupied(newer)));
    medium.put(Slot::B, &frame(VERSION, [9; 32], 9));
    assert_eq!(found(&mut medium), Err(LoadError::OtherBundle { slot: Slot::B }));
    assert_eq!(medium.slots[0], good.slots[0]);
    // Nobody counts so far; taken at its word it would end the counting.
    medium.put(Slot::B, &frame(VERSION, DIGEST, u64::MAX));
    assert_eq!(found(&mut medium), Ok(1));
}

#[test]
fn what_is_not_ours_and_older_is_set_aside_by_the_next_save() {
    let saves = saves(&base_model(), 2, 1);
    for (version, digest) in [(VERSION, [9; 32]), (VERSION + 1, DIGEST)] {
        let mut medium = MemoryMedium::default();
        save(&mut medium, &saves[0]);
        let theirs = SlotFrame { version, generation: 1, bundle_digest: digest, body: b"theirs" }.encode();
        medium.put(Slot::A, &theirs);
        assert_eq!(found(&mut medium), Ok(1));
        assert!(medium.aside.is_empty(), "loading changes nothing");
        save(&mut medium, &saves[1]);
        assert_eq!(found(&mut medium), Ok(2));
        assert_eq!(medium.aside, [(Slot::A, Some(theirs))]);
    }
}

#[test]
fn a_body_of_another_bundle_than_its_frame_makes_no_sense() {
    let saves = saves(&base_model(), 2, 1);
    let mut medium = MemoryMedium::default();
    save(&mut medium, &saves[0]);
    let mut theirs = saves[1].clone();
    theirs.state.bundle_digest = [9; 32];
    let body = &encode(FileKind::Slot, &theirs)[HEADER..];
    medium.put(Slot::B, &SlotFrame { version: VERSION, generation: 9, bundle_digest: DIGEST, body }.encode());
    assert_eq!(found(&mut medium), Ok(1), "the other slot is used");
    save(&mut medium, &saves[1]);
    assert_eq!(found(&mut medium), Ok(2));
}

#[test]
fn a_save_writes_the_state_once_and_the_first_one_twice() {
    let saves = saves(&base_model(), 4, 50);
    let mut medium = MemoryMedium::default();
    for (number, saved) in saves.iter().enumerate() {
        medium.written = 0;
        save(&mut medium, saved);
        let state = medium.slots.iter().flatten().map(Vec::len).max().unwrap();
        assert_eq!(medium.written, if number == 0 { 2 * state } else { state });
    }
}

#[test]
fn what_is_appended_is_read_as_what_was_written_whole() {
    let base_model = base_model();
    let saves = saves_beside_many(&base_model, &[1; 10]);
    let mut whole = medium_with(&saves[..1]);
    let mut patched = MemoryMedium { appends: true, ..whole.clone() };
    for saved in &saves[1..] {
        let before = patched.clone();
        patched.written = 0;
        assert_eq!(save(&mut whole, saved), save(&mut patched, saved));
        let whole_slots = whole.slots.each_ref().map(|bytes| SlotContent::decode(bytes.as_ref().unwrap()).unwrap());
        let patched_slots = patched.slots.each_ref().map(|bytes| SlotContent::decode(bytes.as_ref().unwrap()).unwrap());
        for (whole, patched) in whole_slots.iter().zip(&patched_slots) {
            assert_eq!((whole.generation, whole.body()), (patched.generation, patched.body()));
        }
        let changed: Vec<usize> = (0..2).filter(|&slot| patched.slots[slot] != before.slots[slot]).collect();
        let [changed] = changed[..] else { panic!("one slot changes, not {changed:?}") };
        let (now, then) = (patched.slots[changed].as_ref().unwrap(), before.slots[changed].as_ref().unwrap());
        assert!(now.starts_with(then) && patched.written < then.len() / 4, "{} bytes", patched.written);
    }
    let states = slots::read_each(patched.slots[0].as_ref().unwrap());
    let sessions: Vec<u32> = states.map(|saved| saved.unwrap().state.sessions).collect();
    assert_eq!(sessions, [1, 2, 4, 6, 8, 10], "all that slot A has held since it was written whole");
}

#[test]
fn patches_do_not_grow_without_end() {
    let base_model = base_model();
    let saves = saves_beside_many(&base_model, &[1; 3]);
    let mut medium = MemoryMedium { appends: true, ..medium_with(&saves[..2]) };
    let (mut longest, mut written) = (0, 0);
    for round in 0..1000 {
        let (saved, from) = (&saves[2 + round % 2], slots::load_any(&mut medium).unwrap().generation);
        medium.written = 0;
        slots::save(&mut medium, &base_model, saved, from).unwrap();
        written += medium.written;
        longest = longest.max(medium.slots.iter().flatten().map(Vec::len).max().unwrap());
    }
    let whole = medium_with(&saves).slots[0].as_ref().unwrap().len();
    assert!(longest <= whole + whole / 2, "{longest} bytes, and whole {whole}");
    assert!(written < 1000 * whole / 4, "{written} bytes were written, and {} would have been", 1000 * whole);
}

/// A medium that appends, on which a class of many exemplars and six more were saved, and the lengths that slot A had:
/// of its frame, and with each of its three patches.
fn patched_medium(saves: &[SavedState]) -> (MemoryMedium, [usize; 4]) {
    let mut medium = MemoryMedium { appends: true, ..medium_with(&saves[..1]) };
    let mut lengths = vec![medium.slots[0].as_ref().unwrap().len()];
    for saved in &saves[1..] {
        save(&mut medium, saved);
        lengths.push(medium.slots[0].as_ref().unwrap().len());
    }
    lengths.dedup();
    (medium, lengths.try_into().unwrap())
}

#[test]
fn a_slot_without_its_last_patches_holds_the_state_before() {
    let (medium, lengths) = patched_medium(&saves_beside_many(&base_model(), &[1; 6]));
    let slot = medium.slots[0].as_ref().unwrap();
    let sessions = lengths.map(|length| slots::read(&slot[..length]).unwrap().state.sessions);
    assert_eq!(sessions, [1, 2, 4, 6]);
}

#[test]
fn a_gap_between_patches_or_one_that_comes_twice_is_damage() {
    let (mut medium, [frame, first, second, _]) = patched_medium(&saves_beside_many(&base_model(), &[1; 6]));
    let slot = medium.slots[0].clone().unwrap();
    let without_first = [&slot[..frame], &slot[first..]].concat();
    let without_second = [&slot[..first], &slot[second..]].concat();
    let with_last_twice = [&slot[..], &slot[second..]].concat();
    for damaged in [without_first, without_second, with_last_twice] {
        assert_eq!(SlotContent::decode(&damaged), Err(DecodeError::Patch));
        medium.put(Slot::A, &damaged);
        assert_eq!(found(&mut medium), Ok(7), "the other slot is used");
        // A patch is behind a save that was acknowledged: alone, such a slot is no first save that was cut off.
        let mut alone = MemoryMedium { slots: [Some(damaged), None], ..MemoryMedium::default() };
        let lost = DamagedSlot { slot: Slot::A, error: DecodeError::Patch };
        assert_eq!(found(&mut alone), Err(LoadError::Lost(vec![lost])));
    }
}

#[test]
fn a_patch_of_a_later_release_is_refused_by_its_version() {
    let saves = saves_beside_many(&base_model(), &[1; 6]);
    let (mut medium, _) = patched_medium(&saves);
    let slot = medium.slots[0].clone().unwrap();
    let patched = |slot: &[u8], generation| {
        let mut content = SlotContent::decode(slot).unwrap();
        content.version = VERSION + 1;
        [slot, &content.patch_to(generation, &saves[6]).unwrap().bytes].concat()
    };
    let once = patched(&slot, 98);
    // Nobody but that release knows what its second patch changes.
    let twice = patched(&once, 99);
    for later in [once, twice] {
        medium.put(Slot::A, &later);
        let refused = LoadError::Version { slot: Slot::A, expected: VERSION, actual: VERSION + 1 };
        assert_eq!(found(&mut medium), Err(refused));
    }
}

#[test]
fn a_patch_of_a_newer_version_than_its_frame_is_damage() {
    let saves = saves_beside_many(&base_model(), &[1; 6]);
    let (medium, [frame, ..]) = patched_medium(&saves);
    let whole = &medium.slots[0].as_ref().unwrap()[..frame];
    let body = SlotContent::decode(whole).unwrap().into_body();
    let older = SlotFrame { version: VERSION - 1, generation: 1, bundle_digest: DIGEST, body: &body }.encode();
    let mut content = SlotContent::decode(&older).unwrap();
    content.version = VERSION;
    let patch = content.patch_to(2, &saves[1]).unwrap();
    assert_eq!(SlotContent::decode([&older[..], &patch.bytes[..]].concat()), Err(DecodeError::Patch));
}
