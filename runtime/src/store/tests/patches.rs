//! Files of patches that are there without their slot, cut off, or of a time before. Power cuts while a patch is
//! appended are in `crash.rs`.

use std::fs;
use std::io;

use super::simulated::{Failure, Image, SimulatedDisk, codes};
use super::{DIGEST, base_model, files_on, generation, save, saves_beside_many};
use crate::store::Store;
use crate::store::slot_files::{AsideSlot, SlotFiles};
use orco_state::codec::DecodeError;
use orco_state::history::SavedState;
use orco_state::slots::{self, Medium as _, Slot, SlotFault};

/// A disk on which a class of many exemplars and four more were saved: slot A holds the fourth, B the last, each by two
/// patches.
fn patched() -> (Vec<SavedState>, SlotFiles<SimulatedDisk>) {
    let saves = saves_beside_many(&base_model(), &[1; 4]);
    let mut files = files_on(&Image::new(), usize::MAX);
    for saved in &saves {
        save(&mut files, &base_model(), saved).unwrap();
    }
    (saves, files)
}

fn patches_of(image: &Image, file: &str) -> Vec<String> {
    image.keys().filter(|name| name.starts_with(&format!("{file}.patch-"))).cloned().collect()
}

fn found(image: &Image) -> (u32, usize) {
    let loaded = slots::load(&mut files_on(image, usize::MAX), &base_model(), DIGEST).unwrap();
    (generation(loaded.saved.as_ref()), loaded.faults.len())
}

#[test]
fn a_frame_that_is_written_anew_has_no_earlier_patches() {
    let (saves, files) = patched();
    let mut image = files.disk.image();
    // As whoever takes the slots away to begin anew may leave the patches.
    Slot::BOTH.iter().for_each(|slot| drop(image.remove(slot.name()).unwrap()));
    assert_eq!((found(&image), image.len()), ((0, 0), 4));
    let mut files = files_on(&image, usize::MAX);
    save(&mut files, &base_model(), &saves[0]).unwrap();
    let image = files.disk.image();
    assert_eq!((found(&image), image.len()), ((1, 0), 2));
}

#[test]
fn a_patch_of_which_nothing_is_left_is_damage_and_the_next_save_goes_on() {
    let (saves, files) = patched();
    let mut image = files.disk.image();
    let last = patches_of(&image, "slot-b").pop().unwrap();
    image.insert(last, Vec::new());
    let mut files = files_on(&image, usize::MAX);
    let loaded = slots::load(&mut files, &base_model(), DIGEST).unwrap();
    assert_eq!(generation(loaded.saved.as_ref()), 4);
    let damage = loaded.faults.iter().map(|faulty| matches!(faulty.fault, SlotFault::Damaged(DecodeError::Patch)));
    assert_eq!(damage.collect::<Vec<_>>(), [true]);
    save(&mut files, &base_model(), &saves[4]).unwrap();
    let image = files.disk.image();
    assert_eq!(found(&image), (5, 0));
    assert_eq!((patches_of(&image, "slot-b").len(), patches_of(&image, "slot-b.bad-0").len()), (0, 2));
}

#[test]
fn a_patch_under_the_name_of_another_is_damage() {
    let (_, files) = patched();
    let mut image = files.disk.image();
    let last = patches_of(&image, "slot-b").pop().unwrap();
    let bytes = image.remove(&last).unwrap();
    image.insert(format!("{last}9"), bytes);
    assert_eq!(found(&image), (4, 1));
}

#[test]
fn what_is_set_aside_keeps_its_patches_and_comes_back_with_them() {
    let (_, mut files) = patched();
    let before = files.disk.image();
    let name = files.move_aside(Slot::B).unwrap();
    assert_eq!((found(&files.disk.image()), name.as_str()), ((4, 0), "slot-b.bad-0"));
    assert_eq!(files.read_patched(&name).unwrap(), files_on(&before, 64).read_patched("slot-b").unwrap());
    files.put_back(&[AsideSlot { slot: Slot::B, name }]).unwrap();
    assert_eq!(files.disk.image(), before);
    files.set_aside(Slot::B).unwrap();
    assert_eq!(patches_of(&files.disk.image(), "slot-b.bad-0").len(), 2);
}

#[test]
fn what_cannot_be_set_aside_stays_as_it_was() {
    let (_, files) = patched();
    let before = files.disk.image();
    for operation in 0.. {
        let files = files_on(&before, usize::MAX);
        files.disk.fail(Some((operation, Failure::Broken, false)));
        if files.move_aside(Slot::B).is_ok() {
            assert_eq!(operation, 3, "a slot and two patches are renamed");
            break;
        }
        assert_eq!(files.disk.image(), before, "operation {operation}");
    }
}

#[test]
fn a_purge_leaves_no_patch_of_anything() {
    let (saves, files) = patched();
    let name = files.move_aside(Slot::B).unwrap();
    let mut image = files.disk.image();
    // As somebody may remove the file that a warning names.
    image.remove(&name).unwrap();
    assert_eq!(patches_of(&image, "slot-b.bad-0").len(), 2);
    let mut files = files_on(&image, usize::MAX);
    super::purge(&mut files, &base_model(), &saves[4]).unwrap();
    assert_eq!(files.disk.image().into_keys().collect::<Vec<_>>(), ["slot-a", "slot-b"]);
}

#[test]
fn patches_are_searched_as_parts_of_their_slot_or_by_themselves_where_it_is_gone() {
    let (_, files) = patched();
    assert_eq!(files.all().unwrap(), ["slot-a", "slot-b"]);
    let mut image = files.disk.image();
    image.remove("slot-b").unwrap();
    let alone = patches_of(&image, "slot-b");
    assert_eq!(files_on(&image, 64).all().unwrap(), [&["slot-a".to_owned()], &alone[..]].concat());
}

#[test]
fn a_patch_that_cannot_be_read_is_named() {
    let (_, files) = patched();
    let patch = patches_of(&files.disk.image(), "slot-a").remove(0);
    // The folder's names and the slot's own file are read before it.
    files.disk.fail_read(Some((2, codes::EACCES, false)));
    let error = files.read_patched("slot-a").unwrap_err();
    assert_eq!(error.kind(), io::Error::from_raw_os_error(codes::EACCES).kind());
    assert!(error.to_string().starts_with(&format!("{patch}: ")), "{error}");
}

#[test]
fn patches_without_any_slot_are_said() {
    let (_, files) = patched();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    for (name, bytes) in files.disk.image() {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let warnings = || store.load_on(&base_model(), DIGEST).unwrap().warnings;
    assert_eq!(warnings(), [""; 0]);
    Slot::BOTH.iter().for_each(|slot| fs::remove_file(store.path(*slot)).unwrap());
    let said = warnings();
    assert!(said.len() == 1 && said[0].starts_with("slot-a and slot-b are missing in "), "{said:?}");
}
