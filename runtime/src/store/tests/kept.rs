//! Power cuts while pictures are kept, swept away, and while the state moves to another bundle: whichever state is
//! found has all of its pictures, and after the move the old one is there, too.

use std::collections::BTreeSet;
use std::io;

use super::simulated::{Image, SimulatedDisk, every_fate};
use super::{DIGEST, base_model, files_on, label, save, saves, say};
use crate::store::disk::Disk;
use crate::store::kept_pictures::{exemplar_of, file_of, put, sweep};
use crate::store::slot_files::SlotFiles;
use orco_state::history::{ChangeKind, HistoryChange, HistoryLimits, SavedState};
use orco_state::slots::{self, Medium as _, SlotContent};
use orco_state::state::State;

/// SHA-256 of the bundle that the state moves to.
const OTHER: [u8; 32] = [8; 32];

/// A folder on the same simulated disk.
struct SubfolderDisk<'a> {
    disk: &'a SimulatedDisk,
    folder: &'static str,
}

impl SubfolderDisk<'_> {
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }
}

impl Disk for SubfolderDisk<'_> {
    type File = usize;

    fn list(&self) -> io::Result<Vec<String>> {
        let own = |name: String| name.strip_prefix(self.folder)?.strip_prefix('/').map(str::to_owned);
        Ok(self.disk.list()?.into_iter().filter_map(own).collect())
    }

    fn read(&self, name: &str, room: usize) -> io::Result<Option<Vec<u8>>> {
        self.disk.read(&self.path(name), room)
    }

    fn length(&self, name: &str) -> usize {
        self.disk.length(&self.path(name))
    }

    fn create(&self, name: &str) -> io::Result<usize> {
        self.disk.create(&self.path(name))
    }

    fn write(&self, file: &mut usize, bytes: &[u8]) -> io::Result<usize> {
        self.disk.write(file, bytes)
    }

    fn sync(&self, file: &mut usize) -> io::Result<()> {
        self.disk.sync(file)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(&self.path(from), &self.path(to))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename_new(&self.path(from), &self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(&self.path(name))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.disk.sync_folder()
    }
}

/// The picture of an exemplar, as far as this test is concerned.
fn picture(exemplar: &[u8; 32]) -> Vec<u8> {
    exemplar.repeat(3)
}

fn folder_of(digest: &[u8; 32]) -> &'static str {
    if *digest == OTHER { "kept-other" } else { "kept-this" }
}

fn keep_all(disk: &SimulatedDisk, saved: &SavedState) -> io::Result<()> {
    let within = SubfolderDisk { disk, folder: folder_of(&saved.state.bundle_digest) };
    // What is there already is not written again.
    let is_new = |exemplar: &&[u8; 32]| within.read(&file_of(exemplar), 0).ok().flatten() != Some(picture(exemplar));
    let exemplars = saved.exemplar_digests();
    exemplars.iter().filter(is_new).try_for_each(|exemplar| put(&within, &file_of(exemplar), &picture(exemplar)))
}

fn sweep_all(disk: &SimulatedDisk, saved: &SavedState) -> io::Result<()> {
    sweep(&SubfolderDisk { disk, folder: folder_of(&saved.state.bundle_digest) }, &saved.exemplar_digests())
}

/// Exemplars of the pictures in a folder.
fn there(image: &Image, folder: &str) -> BTreeSet<[u8; 32]> {
    let own = |name: &String| exemplar_of(name.strip_prefix(folder)?.strip_prefix('/')?);
    image.keys().filter_map(own).collect()
}

/// Cuts the power before every operation of a change; `check` judges every image that may be left, and whether the
/// change said that it was done.
fn cut_everywhere(
    start: &Image,
    change: &dyn Fn(&mut SlotFiles<SimulatedDisk>) -> bool,
    check: &dyn Fn(&Image, &SavedState, bool),
) -> usize {
    let mut outcomes = 0;
    for operation in 0.. {
        let mut files = files_on(start, usize::MAX);
        files.disk.cut_power_before(operation);
        let done = change(&mut files);
        assert!(files.disk.is_off() || done, "it failed without a fault");
        every_fate(files.disk.pending(), &mut |fates| {
            outcomes += 1;
            let image = files.disk.after_crash(fates);
            let found = slots::load_any(&mut files_on(&image, 64)).unwrap().saved.unwrap();
            let folder = folder_of(&found.state.bundle_digest);
            for exemplar in found.exemplar_digests() {
                let path = format!("{folder}/{}", file_of(&exemplar));
                assert_eq!(image.get(&path), Some(&picture(&exemplar)), "operation {operation}, {fates:?}: {path}");
            }
            check(&image, &found, done);
        });
        if !files.disk.is_off() {
            break;
        }
    }
    outcomes
}

/// A disk that holds a state with all of its pictures.
fn disk_with(base_model: &orco_state::state::BaseModel, saves: &[SavedState]) -> Image {
    let mut files = files_on(&Image::new(), usize::MAX);
    for saved in saves {
        keep_all(&files.disk, saved).unwrap();
        save(&mut files, base_model, saved).unwrap();
    }
    files.disk.image()
}

#[test]
fn whichever_state_is_found_has_its_pictures() {
    let mut trial = orco_trials::trial!(1, "outcomes of power cuts");
    let base_model = base_model();
    let saves = saves(&base_model, 3, 2);
    let start = disk_with(&base_model, &saves[..2]);
    let learn = |files: &mut SlotFiles<SimulatedDisk>| {
        keep_all(&files.disk, &saves[2]).is_ok()
            && save(files, &base_model, &saves[2]).is_ok()
            && sweep_all(&files.disk, &saves[2]).is_ok()
    };
    let learned = cut_everywhere(&start, &learn, &|_, found, done| {
        assert!([2, 3].contains(&found.state.sessions) && (found.state.sessions == 3 || !done));
    });
    // Forgotten, and nothing remembers it.
    let mut next = saves[1].state.clone();
    next.classes.remove(1);
    next.exemplars.remove_class(2);
    let only = HistoryLimits::default().entries(1);
    let forgotten = saves[1].successor(next, &HistoryChange::new(ChangeKind::Forget, 1).labels([label(2)]), only);
    let forget = |files: &mut SlotFiles<SimulatedDisk>| {
        save(files, &base_model, &forgotten).is_ok() && sweep_all(&files.disk, &forgotten).is_ok()
    };
    let swept = cut_everywhere(&start, &forget, &|image, found, done| {
        if done {
            assert_eq!(there(image, "kept-this"), found.exemplar_digests(), "something of what was forgotten is left");
        }
    });
    trial.count(learned + swept);
    say(&format!("{} outcomes of power cuts while pictures are kept and swept away; 0 lost", learned + swept));
}

#[test]
fn moving_to_another_bundle_leaves_the_old_state_or_the_new_one() {
    let mut trial = orco_trials::trial!(1, "outcomes of power cuts");
    let base_model = base_model();
    let saves = saves(&base_model, 2, 2);
    let old = &saves[1];
    let start = disk_with(&base_model, &saves);
    // The other bundle's features are others.
    let mut exemplars = old.state.exemplars.empty_like();
    for (index, class) in old.state.exemplars.classes().iter().enumerate() {
        exemplars.push(*class, &[0.5, index as f32, 2.0]);
    }
    let state = State { bundle_digest: OTHER, exemplars, ..old.state.clone() };
    let new = SavedState::initial(state, &HistoryChange::new(ChangeKind::Upgrade, 1));
    assert!(new.exemplar_digests().is_disjoint(&old.exemplar_digests()));
    let switch_bundle = |files: &mut SlotFiles<SimulatedDisk>| -> bool {
        let Ok(found) = slots::load_any(files) else { return false };
        let from = found.generation;
        let slot = files.read(found.slot.unwrap()).ok().flatten();
        keep_all(&files.disk, &new).is_ok()
            && slot.is_some_and(|slot| {
                put(&SubfolderDisk { disk: &files.disk, folder: "kept-this" }, "state", &slot).is_ok()
            })
            && slots::switch(files, DIGEST, &new, from).is_ok()
            && sweep_all(&files.disk, &new).is_ok()
    };
    let outcomes = cut_everywhere(&start, &switch_bundle, &|image, found, done| {
        assert!(*found == *old || *found == new, "neither the old state nor the new one");
        assert!(*found == new || !done, "acknowledged and lost");
        if *found == new {
            let aside = &image["kept-this/state"];
            assert_eq!(SlotContent::decode(aside).unwrap().bundle_digest, DIGEST);
            assert_eq!(slots::read(aside).as_ref(), Some(old));
            assert!(there(image, "kept-this").is_superset(&old.exemplar_digests()));
        }
    });
    // Whoever opens it with the old bundle is refused, and a save under it too.
    let mut files = files_on(&start, usize::MAX);
    assert!(switch_bundle(&mut files));
    assert!(matches!(slots::load(&mut files, &base_model, DIGEST), Err(slots::LoadError::OtherBundle { .. })));
    assert!(save(&mut files, &base_model, old).is_err());
    assert!(slots::switch(&mut files, DIGEST, &new, 3).is_err(), "the state is of another bundle by now");
    trial.count(outcomes);
    say(&format!("{outcomes} outcomes of power cuts while moving to another bundle; 0 lost"));
}
