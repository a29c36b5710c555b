//! The real program, killed at random moments: what it acknowledged is there, and nothing half done.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use orco_core::random::Random;
use orco_runtime::store::Store;
use orco_state::history::SavedState;
use orco_state::state::State;
use orco_trials::heavy;
use tempfile::TempDir;

use crate::support::{self, argument, fast_bundle, shots};

/// How one run ended.
struct Run {
    /// Whether it said that it was done.
    acknowledged: bool,
    /// Whether it was killed.
    killed: bool,
    took: Duration,
}

fn run(bundle: &Path, state: &Path, arguments: &[&str], kill_after: Option<Duration>) -> Run {
    let mut command = support::orco(bundle, state, arguments);
    // The engine that starts fastest; the store does not care.
    command.env("ORT_DYLIB_PATH", "/nowhere");
    let started = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let Some(after) = kill_after else {
        let done = child.wait().unwrap();
        return Run { acknowledged: done.success(), killed: false, took: started.elapsed() };
    };
    thread::sleep(after.saturating_sub(started.elapsed()));
    // SIGKILL, which no program can catch; nothing happens if it is done already.
    child.kill().unwrap();
    let done = child.wait().unwrap();
    Run { acknowledged: done.success(), killed: done.code().is_none(), took: started.elapsed() }
}

#[test]
fn a_killed_program_loses_nothing_that_it_acknowledged() {
    let mut trial = orco_trials::trial!(2, "kills");
    let wanted = std::env::var("ORCO_KILLS").ok().map(|kills| kills.parse().expect("ORCO_KILLS is a number"));
    let kills: usize = wanted.unwrap_or(if heavy() { 300 } else { 30 });
    let folder = TempDir::new().unwrap();
    let bundle = fast_bundle(folder.path());
    let state = folder.path().join("state");
    let mug = argument("mug", &shots("learn", "mug"));
    // A circle of changes, each of which is exact: learned, renamed twice, undone.
    let changes: [&[&str]; 4] =
        [&["learn", &mug], &["rename", "mug", "beaker"], &["rename", "beaker", "mug"], &["undo", "--to", "0"]];
    let load = || Store::new(&state).load(&bundle).unwrap_or_else(|error| panic!("{error}")).saved;
    let fresh = load().state;
    let mut expected: Vec<State> = vec![fresh.clone()];
    let mut durations = Vec::new();
    // A class answers in closed form before the head is aligned to it.
    assert!(run(&bundle.folder, &state, &["learn", &mug, "--align", "never"], None).acknowledged);
    let closed = load().state;
    assert!(closed.head.is_none() && closed.awaits_alignment(&bundle.base_model.config));
    assert!(run(&bundle.folder, &state, &["align"], None).acknowledged);
    let aligned = load();
    assert_eq!(aligned.history.entries().len(), 2, "the alignment is part of the change");
    assert!(run(&bundle.folder, &state, &["undo"], None).acknowledged);
    assert_eq!(load().state, fresh, "and is undone with it");
    for change in changes {
        let whole = run(&bundle.folder, &state, change, None);
        assert!(whole.acknowledged, "{change:?}");
        durations.push(whole.took);
        expected.push(load().state);
    }
    assert_eq!(expected.pop().unwrap(), fresh);
    assert_eq!(expected[1], aligned.state, "the same bytes, whenever the head is aligned");
    let mut random = Random::new(std::process::id().into(), "kills");
    let (mut index, mut killed, mut acknowledged, mut half, mut unaligned, mut runs) = (0, 0, 0, 0, 0, 0);
    while killed < kills {
        runs += 1;
        assert!(runs < 20 * kills, "the program is too fast to be killed");
        let next = (index + 1) % changes.len();
        let number = |saved: &SavedState| saved.history.entries().last().unwrap().number;
        let before = number(&load());
        // Undoing goes to the oldest entry that knows no class.
        let oldest = load().history.entries().iter().find(|entry| entry.classes.is_empty()).unwrap().number.to_string();
        let arguments = if index == 3 { &["undo", "--to", &oldest][..] } else { changes[index] };
        let after = durations[index].mul_f32(1.1 * random.unit());
        let run = run(&bundle.folder, &state, arguments, Some(after));
        let mut saved = load();
        if index == 0 && saved.state == closed {
            assert!(!run.acknowledged, "after {after:?}: acknowledged and not aligned");
            unaligned += 1;
            assert!(self::run(&bundle.folder, &state, &["align"], None).acknowledged);
            saved = load();
        }
        let went_on = saved.state == expected[next];
        assert!(went_on || saved.state == expected[index], "after {after:?} of {arguments:?}: neither old nor new");
        assert!(went_on || !run.acknowledged, "after {after:?} of {arguments:?}: acknowledged and lost");
        assert_eq!(number(&saved), before + u32::from(went_on), "the history went its own way");
        killed += usize::from(run.killed);
        trial.count(run.killed.into());
        acknowledged += usize::from(run.acknowledged);
        half += usize::from(run.killed && went_on);
        if went_on {
            index = next;
        }
    }
    let _ = writeln!(
        std::io::stderr(),
        "store: {killed} kills of the program in {runs} runs, {acknowledged} acknowledged, {half} killed between \
         saving and saying so, {unaligned} before the head was aligned, 0 lost"
    );
}

/// The state that is kept, whatever bundle it belongs to, and whether all pictures of its shots are there.
fn newest(state: &Path) -> (SavedState, bool) {
    let store = Store::new(state);
    let saved = store.lock(Duration::from_secs(60)).unwrap().load_any().unwrap().unwrap();
    let pictures = store.pictures(&saved.state.bundle_digest).exemplars().unwrap();
    let whole = saved.exemplar_digests().is_subset(&pictures);
    (saved, whole)
}

#[test]
fn a_killed_upgrade_leaves_the_old_state_or_the_new_one_with_all_pictures() {
    let mut trial = orco_trials::trial!(2, "kills");
    let kills: usize = if heavy() { 100 } else { 12 };
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let old = fast_bundle(folders[0].path());
    let new = support::other_bundle(folders[1].path());
    assert_ne!(old.digest, new.digest);
    let state = folders[0].path().join("state");
    let mug = argument("mug", &shots("learn", "mug"));
    assert!(run(&old.folder, &state, &["learn", "--keep-shots", &mug], None).acknowledged);
    let (first, whole) = newest(&state);
    assert!(whole && first.state.exemplars.len() == 5);
    let upgrade = run(&new.folder, &state, &["upgrade", "--force"], None);
    assert!(upgrade.acknowledged);
    let (second, whole) = newest(&state);
    assert!(whole && second.state.bundle_digest == new.digest);
    let back = run(&old.folder, &state, &["upgrade", "--undo"], None);
    assert!(back.acknowledged && newest(&state) == (first.clone(), true));
    let mut random = Random::new(std::process::id().into(), "upgrades");
    let (mut killed, mut runs) = (0, 0);
    while killed < kills {
        runs += 1;
        assert!(runs < 20 * kills, "the program is too fast to be killed");
        let goes_back = newest(&state).0.state.bundle_digest == new.digest;
        let (bundle, arguments, took) = if goes_back {
            (&old, &["upgrade", "--undo"][..], back.took)
        } else {
            (&new, &["upgrade", "--force"][..], upgrade.took)
        };
        let after = took.mul_f32(1.1 * random.unit());
        let run = run(&bundle.folder, &state, arguments, Some(after));
        let (saved, whole) = newest(&state);
        let went_on = saved.state.bundle_digest == bundle.digest;
        assert!(whole, "after {after:?} of {arguments:?}: pictures are missing");
        assert!(went_on || !run.acknowledged, "after {after:?} of {arguments:?}: acknowledged and lost");
        let expected = if saved.state.bundle_digest == old.digest { &first } else { &second };
        assert_eq!(saved.state, expected.state, "after {after:?} of {arguments:?}: neither old nor new");
        killed += usize::from(run.killed);
        trial.count(run.killed.into());
    }
    let _ = writeln!(std::io::stderr(), "store: {killed} kills of upgrades and of undoing them in {runs} runs, 0 lost");
}
