//! Changes by several at once in a real folder, also while somebody keeps removing the lock file.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{DIGEST, foundation, say};
use crate::store::{Locked, Store, StoreError};
use orco_state::history::{Change, Limits, Saved, Verb};
use orco_state::state::{Class, Foundation};

/// The state with one class more, in the first free target.
fn with_class(foundation: &Foundation, saved: &Saved, label: &str) -> Saved {
    let mut next = saved.state.clone();
    next.sessions += 1;
    let target = saved.state.free_targets(foundation)[0];
    next.classes.push(Class { label: label.into(), target, session: next.sessions });
    next.exemplars.push((foundation.classes.len() + saved.state.classes.len()) as u32, &[1.0, 0.5, 0.25]);
    saved.then(next, &Change::new(Verb::Learn, 1).labels([label]), Limits::default())
}

fn labels(store: &Store, foundation: &Foundation) -> Vec<String> {
    let saved = store.load_on(foundation, DIGEST).unwrap().saved;
    saved.state.classes.into_iter().map(|class| class.label).collect()
}

fn change(locked: &Locked, foundation: &Foundation, label: &str) -> Result<(), StoreError> {
    let saved = locked.load_on(foundation, DIGEST)?.saved;
    locked.save_on(foundation, &with_class(foundation, &saved, label))
}

#[test]
fn of_two_changes_of_one_state_the_second_is_refused() {
    let foundation = foundation();
    // The first change that a device ever makes, the second, the third.
    for before in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let lock = folder.path().join(".lock");
        for number in 0..before {
            change(&store.lock(Duration::ZERO).unwrap(), &foundation, &number.to_string()).unwrap();
        }
        let first = store.lock(Duration::ZERO).unwrap();
        let mine = first.load_on(&foundation, DIGEST).unwrap().saved;
        assert!(matches!(store.lock(Duration::ZERO), Err(StoreError::Busy { .. })));
        fs::remove_file(&lock).unwrap();
        let second = store.lock(Duration::ZERO).unwrap();
        change(&second, &foundation, "theirs").unwrap();
        let files = || -> Vec<_> {
            let slots = ["slot-a", "slot-b"].map(|slot| fs::read(folder.path().join(slot)).unwrap());
            slots.into_iter().collect()
        };
        let there = files();
        let refused = first.save_on(&foundation, &with_class(&foundation, &mine, "mine")).unwrap_err();
        assert!(matches!(refused, StoreError::Overtaken { .. }), "{refused}");
        assert_eq!(files(), there, "the refused change left something");
        assert!(labels(&store, &foundation).contains(&"theirs".into()));
        // The other one goes on.
        change(&second, &foundation, "more").unwrap();
        assert_eq!(labels(&store, &foundation).len(), before + 2);
    }
}

#[test]
fn parallel_changes_never_overwrite_each_other_though_the_lock_is_removed() {
    const ROUNDS: usize = 30;
    const WORKERS: usize = 4;
    let foundation = foundation();
    let (tried, overtaken, removed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let mut made = 0;
    for round in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let done = AtomicBool::new(false);
        let lock = folder.path().join(".lock");
        let worker = |number: usize| {
            let mut acknowledged = Vec::new();
            // 15 targets are free.
            for turn in 0..3 {
                let label = format!("{round}-{number}-{turn}");
                loop {
                    assert!(tried.fetch_add(1, Ordering::Relaxed) < 100_000, "nobody gets on");
                    // Refused while the other one removes what it takes for a leftover, say: nothing was changed.
                    let Ok(locked) = store.lock(Duration::from_secs(60)) else { continue };
                    match change(&locked, &foundation, &label) {
                        Ok(()) => break acknowledged.push(label),
                        Err(StoreError::Overtaken { .. }) => overtaken.fetch_add(1, Ordering::Relaxed),
                        // The other one's copy counts as complete: it may be made from this one.
                        Err(StoreError::Uncertain { .. }) => {
                            assert!(labels(&store, &foundation).contains(&label), "uncertain and lost");
                            break acknowledged.push(label);
                        }
                        Err(error) => panic!("{error}"),
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
        let known = labels(&store, &foundation);
        for label in &acknowledged {
            assert_eq!(known.iter().filter(|known| *known == label).count(), 1, "{label} was acknowledged and is lost");
        }
        assert_eq!(known.len(), acknowledged.len());
        made += known.len();
    }
    assert_eq!(made, ROUNDS * WORKERS * 3);
    say(&format!(
        "{} parallel changes of {WORKERS} at once, the lock file removed {} times meanwhile: {made} made, {} refused, 0 lost",
        tried.into_inner(),
        removed.into_inner(),
        overtaken.into_inner()
    ));
}
