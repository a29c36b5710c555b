//! Changes by several at once in a real folder, also while somebody keeps removing the lock file.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{DIGEST, base_model, saves_beside_many, say};
use crate::store::{LockedStore, Store, StoreError};
use orco_state::history::{ChangeKind, HistoryChange, HistoryLimits, SavedState};
use orco_state::state::{BaseModel, Class};

/// The state with one class more, in the first free target.
fn with_class(base_model: &BaseModel, saved: &SavedState, label: &str) -> SavedState {
    let mut next = saved.state.clone();
    next.sessions += 1;
    let target = saved.state.free_targets(base_model)[0];
    next.classes.push(Class { label: label.into(), target, session: next.sessions });
    next.exemplars.push((base_model.classes.len() + saved.state.classes.len()) as u32, &[1.0, 0.5, 0.25]);
    saved.successor(next, &HistoryChange::new(ChangeKind::Learn, 1).labels([label]), HistoryLimits::default())
}

/// Saves a class of so many exemplars that what the next changes add is appended to it.
fn begin_with_many(store: &Store, base_model: &BaseModel) {
    let saved = saves_beside_many(base_model, &[]).remove(0);
    let locked = store.lock(Duration::ZERO).unwrap();
    locked.load_on(base_model, DIGEST).unwrap();
    locked.save_on(base_model, &saved).unwrap();
}

fn labels(store: &Store, base_model: &BaseModel) -> Vec<String> {
    let saved = store.load_on(base_model, DIGEST).unwrap().saved;
    saved.state.classes.into_iter().map(|class| class.label).collect()
}

fn change(locked: &LockedStore, base_model: &BaseModel, label: &str) -> Result<(), StoreError> {
    let saved = locked.load_on(base_model, DIGEST)?.saved;
    locked.save_on(base_model, &with_class(base_model, &saved, label))
}

#[test]
fn of_two_changes_of_one_state_the_second_is_refused() {
    let mut trial = orco_trials::trial!(18, "overtaken changes");
    let base_model = base_model();
    // The first change that a device ever makes, the second, the third; and two that are appended.
    for (is_appended, before) in [(false, 0), (false, 1), (false, 2), (true, 1), (true, 2)] {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        if is_appended {
            begin_with_many(&store, &base_model);
        }
        let lock = folder.path().join(".lock");
        for number in 0..before {
            change(&store.lock(Duration::ZERO).unwrap(), &base_model, &number.to_string()).unwrap();
        }
        let first = store.lock(Duration::ZERO).unwrap();
        let mine = first.load_on(&base_model, DIGEST).unwrap().saved;
        assert!(matches!(store.lock(Duration::ZERO), Err(StoreError::Busy { .. })));
        fs::remove_file(&lock).unwrap();
        let second = store.lock(Duration::ZERO).unwrap();
        change(&second, &base_model, "theirs").unwrap();
        let files = || -> Vec<_> {
            let mut paths: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
            paths.sort();
            paths.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect()
        };
        let there = files();
        let refused = first.save_on(&base_model, &with_class(&base_model, &mine, "mine")).unwrap_err();
        assert!(matches!(refused, StoreError::Overtaken { .. }), "{refused}");
        assert_eq!(files(), there, "the refused change left something");
        assert!(labels(&store, &base_model).contains(&"theirs".into()));
        // The other one goes on.
        change(&second, &base_model, "more").unwrap();
        assert_eq!(labels(&store, &base_model).len(), usize::from(is_appended) + before + 2);
        trial.count(1);
    }
}

#[test]
#[cfg(unix)]
fn what_another_process_is_writing_is_no_leftover() {
    let base_model = base_model();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let new = folder.path().join(".slot-b.new-0123456789abcdef-0");
    // As a process that saves, though its lock file was removed, holds the folder.
    let saves = fs::File::open(folder.path()).unwrap();
    saves.lock().unwrap();
    fs::write(&new, "half").unwrap();
    drop(store.lock(Duration::ZERO).unwrap());
    assert!(new.exists(), "another's file was removed");
    drop(saves);
    let locked = store.lock(Duration::ZERO).unwrap();
    assert!(!new.exists(), "what was cut off is still there");
    change(&locked, &base_model, "next").unwrap();
}

/// On SMB the holder of a lock keeps everybody from reading the file.
#[test]
#[cfg(unix)]
fn a_save_that_holds_the_folder_locks_no_slot() {
    let base_model = base_model();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let locked = store.lock(Duration::ZERO).unwrap();
    change(&locked, &base_model, "first").unwrap();
    let held = ["slot-a", "slot-b"].map(|slot| fs::File::open(folder.path().join(slot)).unwrap());
    held.iter().for_each(|slot| slot.lock().unwrap());
    change(&locked, &base_model, "second").unwrap();
}

#[test]
fn parallel_changes_never_overwrite_each_other_though_the_lock_is_removed() {
    let mut trial = orco_trials::trial!(18, "parallel changes");
    const ROUNDS: usize = 30;
    const WORKERS: usize = 4;
    let base_model = base_model();
    let (tried, overtaken, removed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let mut made = 0;
    for round in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let is_appended = round % 2 == 1;
        if is_appended {
            begin_with_many(&store, &base_model);
        }
        let done = AtomicBool::new(false);
        let lock = folder.path().join(".lock");
        let worker = |number: usize| {
            let mut acknowledged = Vec::new();
            // 14 targets are free at least.
            for turn in 0..3 {
                let label = format!("{round}-{number}-{turn}");
                loop {
                    assert!(tried.fetch_add(1, Ordering::Relaxed) < 100_000, "nobody gets on");
                    // Refused, with nothing changed, while the lock file vanishes again and again.
                    let Ok(locked) = store.lock(Duration::from_secs(60)) else { continue };
                    match change(&locked, &base_model, &label) {
                        Ok(()) => break acknowledged.push(label),
                        Err(StoreError::Overtaken { .. }) => overtaken.fetch_add(1, Ordering::Relaxed),
                        // The other one's copy counts as complete: it may be made from this one.
                        Err(StoreError::Uncertain { .. }) => {
                            assert!(labels(&store, &base_model).contains(&label), "uncertain and lost");
                            break acknowledged.push(label);
                        }
                        Err(error) => panic!("{error:?}"),
                    };
                }
            }
            acknowledged
        };
        let acknowledged: Vec<String> = thread::scope(|scope| {
            let worker = &worker;
            let workers: Vec<_> = (0..WORKERS).map(|number| scope.spawn(move || worker(number))).collect();
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    removed.fetch_add(usize::from(fs::remove_file(&lock).is_ok()), Ordering::Relaxed);
                    thread::yield_now();
                }
            });
            let acknowledged: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            done.store(true, Ordering::Relaxed);
            acknowledged.into_iter().flat_map(Result::unwrap).collect()
        });
        let known = labels(&store, &base_model);
        for label in &acknowledged {
            assert_eq!(known.iter().filter(|known| *known == label).count(), 1, "{label} was acknowledged and is lost");
        }
        assert_eq!(known.len(), usize::from(is_appended) + acknowledged.len());
        made += acknowledged.len();
        trial.count(acknowledged.len());
    }
    assert_eq!(made, ROUNDS * WORKERS * 3);
    say(&format!(
        "{} parallel changes of {WORKERS} at once, the lock file removed {} times meanwhile: {made} made, {} \
         refused, 0 lost",
        tried.into_inner(),
        removed.into_inner(),
        overtaken.into_inner()
    ));
}
