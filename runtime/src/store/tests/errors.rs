//! Every operation of a save fails once, or from then on, in every way a disk fails.

use std::io;
use std::time::Duration;

use super::simulated::{FATES, Failure, Fate, Image, SimulatedDisk};
use super::{DIGEST, base_model, files_on, generation, saves, saves_beside_many, say};
use crate::store::slot_files::SlotFiles;
use crate::store::{MAX_SLOT, Store, StoreError};
use orco_core::border::Border;
use orco_state::history::SavedState;
use orco_state::slots::{self, Medium, MediumState, SaveError, Slot};
use orco_state::state::{BaseModel, Calibration};
use orco_trials::trial::Trial;

#[test]
fn a_state_that_would_not_be_read_again_is_not_written() {
    // Zeros that nobody looks at take no memory.
    let bytes = vec![0; MAX_SLOT as usize + 1];
    let mut files = files_on(&Image::new(), 100);
    for refused in [files.write(Slot::A, &bytes), files.write_first(Slot::A, &bytes)] {
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
    assert_eq!((files.disk.operations(), files.read(Slot::A).unwrap()), (0, None));
}

#[test]
fn a_relative_path_starts_at_the_folder_that_is_current_and_an_empty_one_is_that_folder() {
    let here = std::env::current_dir().unwrap();
    assert_eq!(Store::new("").folder(), here);
    assert_eq!(Store::new("state").folder(), here.join("state"));
}

#[test]
fn a_state_that_makes_no_sense_does_not_take_the_place_of_one_that_does() {
    let base_model = base_model();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let locked = store.lock(Duration::ZERO).unwrap();
    let mut saved = saves(&base_model, 1, 1).remove(0);
    locked.load_on(&base_model, DIGEST).unwrap();
    locked.save_on(&base_model, &saved).unwrap();
    saved.state.calibration = Some(Calibration { border: Border::default(), temperature: f32::INFINITY });
    let refused = locked.save_on(&base_model, &saved).unwrap_err();
    assert!(matches!(&refused, StoreError::Write { source, .. } if source.kind() == io::ErrorKind::InvalidData));
    drop(locked);
    let found = store.load_on(&base_model, DIGEST).unwrap();
    assert_eq!((generation(Some(&found.saved)), found.saved.state.calibration), (1, None));
}

#[test]
fn disk_errors_are_reported_and_nothing_is_lost() {
    let mut trial = orco_trials::trial!(5, "disk errors");
    let base_model = base_model();
    // States that are written whole, and states of which what has changed is appended.
    for saves in [saves(&base_model, 4, 3), saves_beside_many(&base_model, &[1; 3])] {
        fail_every_operation(&base_model, &saves, &mut trial);
    }
}

/// Fails every operation of a first save, of a later one, and of one beside a damaged slot.
fn fail_every_operation(base_model: &BaseModel, saves: &[SavedState], trial: &mut Trial) {
    /// Bytes that the disk takes at a time.
    const BLOCK: usize = 200;
    let found = |files: &mut SlotFiles<SimulatedDisk>| {
        let loaded = slots::load(files, base_model, DIGEST).unwrap_or_else(|error| panic!("{error:?}"));
        generation(loaded.saved.as_ref())
    };
    let (mut tried, mut reported) = (0, 0);
    for (before, damage) in [(0, false), (2, false), (3, true)] {
        let mut start = {
            let mut files = files_on(&Image::new(), BLOCK);
            for saved in &saves[..before] {
                super::save(&mut files, base_model, saved).unwrap();
            }
            files.disk.image()
        };
        if damage {
            start.get_mut("slot-a").unwrap()[95] ^= 1;
        }
        let operations = {
            let mut files = files_on(&start, BLOCK);
            super::save(&mut files, base_model, &saves[before]).unwrap();
            files.disk.operations()
        };
        for operation in 0..operations {
            for failure in [Failure::Broken, Failure::Full, Failure::ReadOnly, Failure::Short] {
                for lasting in [false, true] {
                    let what = format!("after {before}, operation {operation}, {failure:?}, lasting {lasting}");
                    let mut files = files_on(&start, BLOCK);
                    files.disk.fail(Some((operation, failure, lasting)));
                    let saved = super::save(&mut files, base_model, &saves[before]);
                    tried += 1;
                    let here = found(&mut files) as usize;
                    match &saved {
                        Ok(_) => assert_eq!(here, before + 1, "{what}"),
                        Err(SaveError::Medium { state: MediumState::Old, .. }) => assert_eq!(here, before, "{what}"),
                        Err(SaveError::Medium { state: MediumState::New, .. }) => {
                            assert_eq!(here, before + 1, "{what}")
                        }
                        Err(error) => panic!("{what}: {error:?}"),
                    }
                    reported += usize::from(saved.is_err());
                    // What the disk holds after a power cut now: never less than what was acknowledged.
                    for fate in FATES {
                        let fates = vec![fate; files.disk.pending()];
                        let left = files.disk.after_crash(&fates);
                        let mut files = files_on(&left, BLOCK);
                        let there = found(&mut files) as usize;
                        let right = if saved.is_ok() { before + 1..=before + 1 } else { before..=before + 1 };
                        assert!(right.contains(&there), "{what}, {fate:?}: found {there}");
                    }
                    // The disk works again: so does the store.
                    files.disk.fail(None);
                    files.remove_unfinished().unwrap();
                    super::save(&mut files, base_model, &saves[before])
                        .unwrap_or_else(|error| panic!("{what}: {error:?}"));
                    assert_eq!(found(&mut files) as usize, before + 1, "{what}");
                    let lost = vec![Fate::Lost; files.disk.pending()];
                    let mut files = files_on(&files.disk.after_crash(&lost), BLOCK);
                    assert_eq!(found(&mut files) as usize, before + 1, "{what}");
                }
            }
        }
    }
    assert!(reported > tried / 2, "only {reported} of {tried} failures were noticed");
    trial.count(tried);
    say(&format!("{tried} disk errors (EIO, ENOSPC, EROFS, short write, failed sync), {reported} reported, 0 lost"));
}
