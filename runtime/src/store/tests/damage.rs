//! Every flipped bit and every truncation of a state of 64 KiB, written whole and with patches.

use std::thread;

use super::rules::MemoryMedium;
use super::{DIGEST, base_model, generation, saves, saves_beside_many, say};
use orco_state::history::SavedState;
use orco_state::slots::{self, Medium, Slot, SlotContent};
use orco_trials::heavy;
use orco_trials::trial::Trial;

/// Bytes of the state, at least.
const SIZE: usize = 64 << 10;
/// Not every damage is loaded with its whole neighbourhood; this many apart.
const STEP: usize = 509;

#[test]
fn every_flipped_bit_and_every_truncation_is_noticed() {
    let mut trial = orco_trials::trial!(3, "flipped bits and truncations");
    let base_model = base_model();
    damage(&saves(&base_model, 5, 775), MemoryMedium::default(), &mut trial);
    let patched = saves_beside_many(&base_model, &[&[1000; 8][..], &[1; 4]].concat());
    damage(&patched, MemoryMedium::that_appends(), &mut trial);
}

/// Damages the newest slot of a medium on which these states were saved.
fn damage(saves: &[SavedState], mut medium: MemoryMedium, trial: &mut Trial) {
    let base_model = base_model();
    // Where the slot ended when it held an older state: cut there, it holds that.
    let mut ends = Vec::new();
    for saved in saves {
        super::save(&mut medium, &base_model, saved).unwrap();
        ends.push(medium.read(Slot::B).unwrap().unwrap().len());
    }
    // Save 1 in both, 2 in A, 3 in B, and so on.
    let before = saves.len() as u32 - 1;
    let good = medium.read(Slot::B).unwrap().unwrap();
    assert!(good.len() >= SIZE && SlotContent::decode(&good).is_ok());
    // Before it was last written whole, it had other bytes.
    ends.retain(|end| *end < good.len() && SlotContent::decode(&good[..*end]).is_ok());
    assert_eq!(ends.is_empty(), !medium.appends);
    let loads = |damaged: &[u8]| {
        let mut medium = medium.clone();
        medium.put(Slot::B, damaged);
        let loaded = slots::load(&mut medium, &base_model, DIGEST).unwrap();
        assert_eq!(loaded.faults.len(), 1);
        assert_eq!(loaded.faults[0].slot, Slot::B);
        generation(loaded.saved.as_ref())
    };
    let bits = good.len() * 8;
    // Of the body, all of them or one in 61.
    let apart = if heavy() { 1 } else { 61 };
    let tried = |index: usize, header: usize| index < header || index.is_multiple_of(apart);
    let threads = crate::threads::usable_threads();
    let flips = |thread: usize| {
        let mut bytes = good.clone();
        for bit in (thread..bits).step_by(threads).filter(|bit| tried(*bit, slots::HEADER * 8)) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(SlotContent::decode(&bytes).is_err(), "bit {bit} was not noticed");
            // The header's bits, and some of the body's: the other slot must be what is loaded.
            if bit < slots::HEADER * 8 || bit % STEP == 0 {
                assert_eq!(loads(&bytes), before, "bit {bit}");
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    };
    thread::scope(|scope| (0..threads).for_each(|thread| drop(scope.spawn(move || flips(thread)))));
    for length in (0..good.len()).filter(|length| tried(*length, slots::HEADER)) {
        if ends.contains(&length) {
            let mut medium = medium.clone();
            medium.put(Slot::B, &good[..length]);
            let loaded = slots::load(&mut medium, &base_model, DIGEST).unwrap();
            assert_eq!((generation(loaded.saved.as_ref()), loaded.faults.len()), (before, 0), "length {length}");
            continue;
        }
        assert!(SlotContent::decode(&good[..length]).is_err(), "length {length} was not noticed");
        if length < slots::HEADER || length % STEP == 0 {
            assert_eq!(loads(&good[..length]), before, "length {length}");
        }
    }
    let longer = [&good[..], &[0]].concat();
    assert!(SlotContent::decode(&longer).is_err());
    let count = |places, header| (0..places).filter(|index| tried(*index, header)).count();
    let (flipped, cut) = (count(bits, slots::HEADER * 8), count(good.len(), slots::HEADER));
    trial.count(flipped + cut);
    say(&format!("{flipped} bit flips and {cut} truncations of a state of {} bytes, 0 unnoticed", good.len()));
}
