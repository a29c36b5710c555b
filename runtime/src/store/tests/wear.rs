//! Raw NOR flash that loses power at every word and every erasure.

use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash};

use super::{DIGEST, base_model, generation, saves, say};
use orco_core::random::Random;
use orco_state::slots::flash::{Flash, FlashError};
use orco_state::slots::{self, LoadError, Medium, MediumState, SaveError, Slot};

/// What a power cut does to the word or page that was being changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// Nothing yet.
    Before,
    /// Some bits, at random.
    Amid,
    /// All of it.
    After,
}

/// A flash of words of `WORD` bytes and pages of `PAGE`: bits can only be cleared, but for a whole page at a time.
#[derive(Clone, Debug)]
struct Chip<const WORD: usize, const PAGE: usize> {
    bytes: Vec<u8>,
    /// Whether a word was written since its page was erased.
    used: Vec<bool>,
    /// Words and pages changed so far, and after how many the power goes.
    changes: usize,
    power: Option<(usize, Cut)>,
    off: bool,
    /// Erasures of each page.
    erased: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Off;

impl NorFlashError for Off {
    fn kind(&self) -> NorFlashErrorKind {
        NorFlashErrorKind::Other
    }
}

impl<const WORD: usize, const PAGE: usize> Chip<WORD, PAGE> {
    fn new(pages: usize) -> Self {
        let bytes = vec![0xFF; pages * PAGE];
        let used = vec![false; bytes.len() / WORD];
        Self { bytes, used, changes: 0, power: None, off: false, erased: vec![0; pages] }
    }

    /// Counts a change; says what becomes of it if the power goes now.
    fn change(&mut self) -> Option<Cut> {
        let cut = self.power.filter(|(at, _)| *at == self.changes).map(|(_, cut)| cut);
        self.changes += 1;
        self.off = cut.is_some();
        cut
    }

    /// Turns the power on; cuts it again after further changes if that is asked for.
    fn with_power(mut self, until: Option<(usize, Cut)>) -> Self {
        (self.off, self.changes, self.power) = (false, 0, until);
        self
    }

    fn some_bits(&self) -> Random {
        Random::new(self.changes as u64, "bits")
    }
}

impl<const WORD: usize, const PAGE: usize> ErrorType for Chip<WORD, PAGE> {
    type Error = Off;
}

impl<const WORD: usize, const PAGE: usize> ReadNorFlash for Chip<WORD, PAGE> {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Off> {
        if self.off {
            return Err(Off);
        }
        bytes.copy_from_slice(&self.bytes[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.bytes.len()
    }
}

impl<const WORD: usize, const PAGE: usize> NorFlash for Chip<WORD, PAGE> {
    const WRITE_SIZE: usize = WORD;
    const ERASE_SIZE: usize = PAGE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Off> {
        assert!((from as usize).is_multiple_of(PAGE) && (to as usize).is_multiple_of(PAGE));
        for start in (from as usize..to as usize).step_by(PAGE) {
            if self.off {
                return Err(Off);
            }
            let cut = self.change();
            if cut == Some(Cut::Before) {
                return Err(Off);
            }
            self.erased[start / PAGE] += 1;
            let mut bits = self.some_bits();
            for byte in &mut self.bytes[start..start + PAGE] {
                *byte = if cut == Some(Cut::Amid) { *byte | bits.below(256) as u8 } else { 0xFF };
            }
            self.used[start / WORD..(start + PAGE) / WORD].fill(cut == Some(Cut::Amid));
            if cut.is_some() {
                return Err(Off);
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Off> {
        assert!((offset as usize).is_multiple_of(WORD) && bytes.len().is_multiple_of(WORD));
        for (index, word) in bytes.chunks_exact(WORD).enumerate() {
            if self.off {
                return Err(Off);
            }
            let start = offset as usize + index * WORD;
            let cut = self.change();
            if cut == Some(Cut::Before) {
                return Err(Off);
            }
            assert!(!core::mem::replace(&mut self.used[start / WORD], true), "a word was written twice");
            let mut bits = self.some_bits();
            for (byte, new) in self.bytes[start..start + WORD].iter_mut().zip(word) {
                *byte &= if cut == Some(Cut::Amid) { new | bits.below(256) as u8 } else { *new };
            }
            if cut.is_some() {
                return Err(Off);
            }
        }
        Ok(())
    }
}

/// Cuts the power at every change of three saves, and at every `stride`-th one of the save after that.
fn cut_everywhere<const WORD: usize, const PAGE: usize>(pages: usize, stride: usize) -> (usize, usize) {
    let base_model = base_model();
    let saves = saves(&base_model, 4, 2);
    let range = 0..(pages * PAGE) as u32;
    let open = |chip: Chip<WORD, PAGE>| Flash::new(chip, range.clone()).unwrap();
    let found = |flash: &mut Flash<Chip<WORD, PAGE>>, what: &str| {
        let loaded = slots::load(flash, &base_model, DIGEST).unwrap_or_else(|error| panic!("{what}: {error:?}"));
        generation(loaded.saved.as_ref())
    };
    let (mut points, mut again) = (0, 0);
    let mut start = Chip::<WORD, PAGE>::new(pages);
    for number in 1..=3 {
        let save = |chip: Chip<WORD, PAGE>, number: u32| {
            let mut flash = open(chip);
            let saved = super::save(&mut flash, &base_model, &saves[number as usize - 1]);
            (saved.is_ok(), flash.free())
        };
        let changes = save(start.clone().with_power(None), number).1.changes;
        for at in 0..changes {
            for cut in [Cut::Before, Cut::Amid, Cut::After] {
                let what = format!("save {number}, change {at} of {changes}, {cut:?}");
                let (saved, chip) = save(start.clone().with_power(Some((at, cut))), number);
                assert!(!saved, "{what}");
                points += 1;
                let mut flash = open(chip.with_power(None));
                let here = found(&mut flash, &what);
                assert!(here == number - 1 || here == number, "{what}: found {here}");
                let left = flash.free();
                assert_eq!(left.changes, 0, "{what}: loading wrote");
                if at % stride > 0 {
                    continue;
                }
                let more = save(left.clone().with_power(None), 4).1.changes;
                for at in (0..more).step_by(stride) {
                    let (saved, chip) = save(left.clone().with_power(Some((at, cut))), 4);
                    again += 1;
                    let there = found(&mut open(chip.with_power(None)), &what);
                    assert!(!saved && (there == here || there == 4), "{what}, then {at}: found {there}");
                }
                let (saved, chip) = save(left.with_power(None), 4);
                assert!(saved, "{what}");
                assert_eq!(found(&mut open(chip), &what), 4, "{what}");
            }
        }
        let (saved, chip) = save(start.with_power(None), number);
        assert!(saved);
        start = chip;
        assert_eq!(found(&mut open(start.clone()), "whole"), number);
    }
    (points, again)
}

#[test]
fn a_power_cut_on_flash_leaves_the_old_state_or_the_new_one() {
    let mut trial = orco_trials::trial!(1, "power cuts");
    let results = [
        cut_everywhere::<4, 256>(16, 7),
        cut_everywhere::<1, 1024>(6, 41),
        cut_everywhere::<8, 2048>(2, 7),
        cut_everywhere::<32, 512>(12, 1),
    ];
    let sum = results.iter().fold((0, 0), |sum, result| (sum.0 + result.0, sum.1 + result.1));
    trial.count(sum.0 + sum.1);
    say(&format!("{} crash points on NOR flash of 4 geometries, {} more while recovering, 0 lost", sum.0, sum.1));
}

#[test]
fn flash_is_spared_and_wears_evenly() {
    let base_model = base_model();
    let saves = saves(&base_model, 4, 20);
    let mut flash = Flash::new(Chip::<4, 256>::new(64), 0..64 * 256).unwrap();
    for round in 0..40 {
        super::save(&mut flash, &base_model, &saves[round % 4]).unwrap();
    }
    let chip = flash.free();
    let worn: Vec<u32> = chip.erased.iter().copied().filter(|erasures| *erasures > 0).collect();
    assert!(worn.iter().all(|erasures| *erasures <= 20), "{worn:?}");
    let changes = chip.changes;
    let mut flash = Flash::new(chip, 0..64 * 256).unwrap();
    (0..100).for_each(|_| drop(slots::load(&mut flash, &base_model, DIGEST).unwrap()));
    assert_eq!(flash.free().changes, changes, "a device at rest writes");
}

#[test]
fn what_does_not_fit_is_refused_and_damage_is_noticed() {
    let base_model = base_model();
    let saves = saves(&base_model, 4, 200);
    let mut flash = Flash::new(Chip::<4, 256>::new(16), 0..16 * 256).unwrap();
    let refused = super::save(&mut flash, &base_model, &saves[3]);
    let full = SaveError::Medium { slot: Slot::A, source: FlashError::Full, state: MediumState::Old };
    assert_eq!(refused, Err(full));
    assert_eq!(slots::load(&mut flash, &base_model, DIGEST).unwrap().saved, None);
    for range in [0..256, 0..3 * 256, 10..522, 0..64 * 256] {
        assert!(matches!(Flash::new(Chip::<4, 256>::new(16), range), Err(FlashError::Range)));
    }
    let small = super::saves(&base_model, 3, 1);
    let mut flash = Flash::new(Chip::<4, 256>::new(16), 0..16 * 256).unwrap();
    for saved in &small {
        super::save(&mut flash, &base_model, saved).unwrap();
    }
    let good = flash.free();
    // Save 3 lies in slot B, the second half.
    let half = good.bytes.len() / 2;
    let written = (half..good.bytes.len()).filter(|index| good.bytes[*index] != 0xFF);
    let mut flips = 0;
    for index in written.collect::<Vec<_>>() {
        for bit in 0..8 {
            let mut chip = good.clone();
            chip.bytes[index] ^= 1 << bit;
            let mut flash = Flash::new(chip, 0..16 * 256).unwrap();
            let loaded = slots::load(&mut flash, &base_model, DIGEST).unwrap_or_else(|error| panic!("{error:?}"));
            let found = generation(loaded.saved.as_ref());
            // Bits that only the queue needs, and could do without, may hurt nobody.
            assert!(found == 2 || found == 3 && loaded.faults.is_empty(), "byte {index}, bit {bit}: {found}");
            assert!(flash.read(Slot::A).unwrap().is_some());
            flips += 1;
        }
    }
    for slot in Slot::BOTH {
        let mut chip = good.clone();
        chip.bytes[half * slot as usize..][..half].fill(0x11);
        let mut flash = Flash::new(chip, 0..16 * 256).unwrap();
        let found = slots::load(&mut flash, &base_model, DIGEST).unwrap();
        assert_eq!((generation(found.saved.as_ref()), found.faults.len()), (if slot == Slot::A { 3 } else { 2 }, 1));
    }
    let mut chip = good;
    chip.bytes.fill(0x11);
    let lost = slots::load(&mut Flash::new(chip, 0..16 * 256).unwrap(), &base_model, DIGEST);
    assert!(matches!(lost, Err(LoadError::Lost(_))));
    say(&format!("{flips} bit flips on NOR flash, 0 unnoticed"));
}
