//! Every read of a change fails once, or from then on: what cannot be read is never taken for damaged.

use super::simulated::{Image, SimulatedDisk, codes};
use super::{DIGEST, base_model, files_on, generation, purge, save, saves, saves_beside_many, say};
use crate::store::slot_files::SlotFiles;
use orco_state::history::SavedState;
use orco_state::slots::{self, MediumState, SaveError, Slot};
use orco_state::state::BaseModel;
use orco_trials::trial::Trial;

/// A change, from taking the lock to having saved, with what the store does in between.
type Change = fn(&mut SlotFiles<SimulatedDisk>, &BaseModel, &SavedState) -> Result<u64, SaveError<std::io::Error>>;

fn change(
    files: &mut SlotFiles<SimulatedDisk>,
    base_model: &BaseModel,
    saved: &SavedState,
    write: Change,
) -> Result<u64, String> {
    files.remove_unfinished().map_err(|error| format!("{error}"))?;
    match write(files, base_model, saved) {
        Err(SaveError::Medium { state: MediumState::New, .. }) => Ok(0),
        saved => saved.map_err(|error| format!("{error:?}")),
    }
}

#[test]
fn what_cannot_be_read_is_refused_and_never_set_aside() {
    let mut trial = orco_trials::trial!(17, "failed reads");
    let base_model = base_model();
    // States that are written whole, and states of which what has changed is appended.
    for saves in [saves(&base_model, 5, 2), saves_beside_many(&base_model, &[1; 4])] {
        fail_every_read(&base_model, &saves, &mut trial);
    }
}

/// Fails every read of the saves and purges that lead through these states.
fn fail_every_read(base_model: &BaseModel, saves: &[SavedState], trial: &mut Trial) {
    let after = |count: usize| {
        let mut files = files_on(&Image::new(), usize::MAX);
        saves[..count].iter().for_each(|saved| assert!(save(&mut files, base_model, saved).is_ok()));
        files.disk.image()
    };
    let damaged = |slot: Slot, count: usize| {
        let mut image = after(count);
        image.get_mut(slot.name()).unwrap()[95] ^= 1;
        image
    };
    let mut crowded = damaged(Slot::A, 3);
    for number in 0..9 {
        crowded.insert(format!("slot-b.bad-{number}"), b"rotten".to_vec());
    }
    crowded.insert(".slot-a.new-0123456789abcdef-0".into(), b"half".to_vec());
    // What is there, and which save a change makes of it: the first, to either slot, beside damage in either.
    let starts: [(&str, Image, usize, usize); 6] = [
        ("nothing saved", Image::new(), 0, 1),
        ("newest in A", after(2), 2, 3),
        ("newest in B", after(3), 3, 4),
        ("older damaged", damaged(Slot::A, 3), 3, 4),
        ("newest damaged", damaged(Slot::B, 3), 2, 4),
        ("much set aside", crowded, 3, 4),
    ];
    let changes: [(&str, Change); 2] = [("save", save), ("purge", purge)];
    let found = |image: &Image| {
        let loaded = slots::load(&mut files_on(image, 64), base_model, DIGEST).unwrap();
        generation(loaded.saved.as_ref()) as usize
    };
    let (mut tried, mut refused, mut made) = (0, 0, 0);
    for (start, image, before, next) in &starts {
        for (verb, write) in changes {
            let reads = {
                let mut files = files_on(image, 64);
                files.disk.fail_read(None);
                change(&mut files, base_model, &saves[next - 1], write).unwrap();
                files.disk.reads()
            };
            for read in 0..reads {
                for code in [codes::EIO, codes::EACCES] {
                    for lasting in [false, true] {
                        let what =
                            format!("{verb} of {start}, read {read} of {reads}, error {code}, lasting {lasting}");
                        let mut files = files_on(image, 64);
                        files.disk.fail_read(Some((read, code, lasting)));
                        let done = change(&mut files, base_model, &saves[next - 1], write);
                        files.disk.fail_read(None);
                        tried += 1;
                        let left = files.disk.image();
                        if done.is_ok() {
                            made += 1;
                            assert_eq!(found(&left), *next, "{what}");
                        } else {
                            refused += 1;
                            // Only what a killed save left may be gone: nobody reads that.
                            let slots = |image: &Image| -> Image {
                                let shown = image.iter().filter(|(name, _)| !name.starts_with('.'));
                                shown.map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
                            };
                            assert!(slots(&left) == slots(image), "{what}: refused, but something was changed");
                            assert_eq!(found(&left), *before, "{what}");
                            // It can be read again: the same change goes through.
                            change(&mut files, base_model, &saves[next - 1], write).unwrap();
                            assert_eq!(found(&files.disk.image()), *next, "{what}");
                        }
                    }
                }
            }
        }
    }
    // A purge lists its folder once more when both slots are written: that is the new state, with a complaint.
    assert!(refused > 0 && made > 0, "{refused} refused, {made} made");
    trial.count(tried);
    say(&format!(
        "{tried} failed reads (EIO, EACCES) of every kind of change, {refused} refused with nothing changed, {made} \
         after the change was made, 0 lost, 0 set aside"
    ));
}

/// Looking goes on with the other slot where one cannot be read, and says so.
#[test]
fn looking_goes_on_with_the_slot_that_can_be_read() {
    let base_model = base_model();
    let saves = saves(&base_model, 3, 2);
    let mut files = files_on(&Image::new(), usize::MAX);
    saves.iter().for_each(|saved| assert!(save(&mut files, &base_model, saved).is_ok()));
    // To read a slot takes two reads: of the folder's names, and of its file.
    for (read, expected) in [(0, 3), (1, 3), (2, 2), (3, 2)] {
        files.disk.fail_read(Some((read, codes::EIO, false)));
        let loaded = slots::load(&mut files, &base_model, DIGEST).unwrap();
        assert_eq!((generation(loaded.saved.as_ref()), loaded.faults.len()), (expected, 1));
    }
    files.disk.fail_read(Some((0, codes::EIO, true)));
    assert!(slots::load(&mut files, &base_model, DIGEST).is_err());
}
