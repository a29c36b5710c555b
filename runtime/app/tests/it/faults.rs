//! One system call on the state's files fails, each in turn: whatever fails, the exit code says whether the state was
//! changed, nothing panics, and no shot is lost without a word.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use orco_runtime::bundle::Bundle;
use orco_runtime::store::Store;
use orco_trials::{heavy, skipped};

use crate::support::bench::Bench;
use crate::support::fault::{self, Ending};
use crate::support::{self, argument, changes, copy_all, other_bundle, shots, text};

/// Errors of the system that have nothing to do with what lies there.
const ERRORS: [i32; 3] = [libc::EIO, libc::EACCES, libc::EMFILE];

/// A device with two kept shots of a class, and something to be swept away in every folder that is.
fn bench() -> Bench {
    let bench = Bench::new();
    let few = bench.folder.path().join("few");
    fs::create_dir(&few).unwrap();
    for name in ["1.jpg", "2.jpg"] {
        fs::copy(shots("learn", "cactus").join(name), few.join(name)).unwrap();
    }
    let learn = ["learn", "--keep-shots", &argument("plant", &few)];
    let done = support::orco(&bench.bundle.folder, &bench.pristine, &learn).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    fs::create_dir(bench.pristine.join("thumbnails")).unwrap();
    fs::write(bench.pristine.join("thumbnails").join(format!("{}.jpg", "0".repeat(64))), b"small").unwrap();
    fs::create_dir(bench.pristine.join("kept-0123456789abcdef")).unwrap();
    fs::write(bench.pristine.join("kept-0123456789abcdef/bundle.toml"), b"").unwrap();
    bench
}

/// Runs a command on the state as it was, with a fault in its files.
fn run(bench: &Bench, bundle: &Bundle, arguments: &[&str], fault: Option<(usize, i32)>) -> (Ending, String) {
    copy_all(&bench.pristine, &bench.state);
    run_in(bench, &bench.state, bundle, arguments, fault)
}

/// Runs a command with a fault in the files of some folder.
fn run_in(
    bench: &Bench,
    folder: &Path,
    bundle: &Bundle,
    arguments: &[&str],
    fault: Option<(usize, i32)>,
) -> (Ending, String) {
    let mut command: Command = support::orco(&bundle.folder, &bench.state, arguments);
    command.env("ORT_DYLIB_PATH", "/nowhere").env("ORCO_THREADS", "1");
    let said = bench.folder.path().join("said");
    let output = fs::File::create(&said).unwrap();
    command.stdout(output.try_clone().unwrap()).stderr(output);
    let ending = fault::run(&mut command, folder, fault).unwrap_or_else(|error| panic!("{error}"));
    (ending, text(&fs::read(&said).unwrap()))
}

/// Lets every call of a command fail in turn, every `step`th unless the trials are heavy; returns how many did.
fn each(bench: &Bench, bundle: &Bundle, arguments: &[&str], step: usize, judge: &dyn Fn(&Ending, &str, &str)) -> usize {
    let (sound, said) = run(bench, bundle, arguments, None);
    assert_eq!(sound.code, Some(0), "{arguments:?}: {said}");
    let errors = if heavy() { &ERRORS[..] } else { &ERRORS[..1] };
    let step = if heavy() { 1 } else { step };
    let mut tried = 0;
    for error in errors {
        for number in (0..sound.calls.len()).step_by(step) {
            let (ending, said) = run(bench, bundle, arguments, Some((number, *error)));
            let Some(failed) = &ending.failed else { continue };
            let what = format!("{arguments:?}, call {number} ({failed}) with error {error}: {said}");
            assert!(!said.contains("panicked") && matches!(ending.code, Some(0 | 1 | 3)), "{:?}, {what}", ending.code);
            judge(&ending, &said, &what);
            tried += 1;
        }
    }
    tried
}

fn can_watch() -> bool {
    let can = fault::run(&mut Command::new("true"), Path::new("/nowhere"), None).is_ok();
    if !can {
        skipped("system calls that fail (ptrace is not allowed here)");
    }
    can
}

#[test]
fn whatever_call_fails_the_exit_code_says_whether_the_state_was_changed() {
    let mut trial = orco_trials::trial!(5, "system calls that failed in a change");
    if !can_watch() {
        return;
    }
    let bench = bench();
    let before = bench.reset();
    let mut tried = 0;
    for change in changes(&bench.pack) {
        let arguments: Vec<&str> = change.iter().map(String::as_str).collect();
        let light = matches!(arguments[..], ["rename", ..] | ["forget", _, "--purge"]);
        if !light && !heavy() {
            continue;
        }
        tried += each(&bench, &bench.bundle, &arguments, 7, &|ending, _, what| {
            let is_changed = bench.saved() != before;
            assert_eq!(is_changed, ending.code != Some(1), "{:?}, {what}", ending.code);
        });
    }
    assert!(tried > 10, "only {tried} calls failed");
    trial.count(tried);
    let _ = writeln!(
        std::io::stderr(),
        "store: {tried} changes with a system call that failed, each in turn: 0 panics, 0 exit codes that lie"
    );
}

#[test]
fn a_purge_whose_thumbnails_may_come_back_says_so() {
    if !can_watch() {
        return;
    }
    let bench = bench();
    let thumbnails = bench.state.join("thumbnails");
    let purge = ["forget", "mug", "--purge"];
    let (sound, said) = run(&bench, &bench.bundle, &purge, None);
    assert_eq!(sound.code, Some(0), "{said}");
    let is_removal = |call: &String| call.starts_with(&format!("unlinkat {}/", thumbnails.display()));
    let last = sound.calls.iter().rposition(is_removal).expect("a thumbnail is removed");
    let is_sync = |call: &String| *call == format!("fsync {}", thumbnails.display());
    let sync = sound.calls[last..].iter().position(is_sync).expect("the folder is synced after it");
    let (ending, said) = run(&bench, &bench.bundle, &purge, Some((last + sync, libc::EIO)));
    assert_eq!(ending.code, Some(3), "{said}");
}

#[test]
fn what_was_kept_aside_stays_while_a_power_cut_may_undo_an_upgrade() {
    if !can_watch() {
        return;
    }
    let bench = bench();
    let elsewhere = bench.folder.path().join("other");
    fs::create_dir(&elsewhere).unwrap();
    let other = other_bundle(&elsewhere);
    let done = support::orco(&other.folder, &bench.pristine, &["upgrade", "--force"]).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let kept = |digest| Store::new(&bench.state).pictures(digest);
    let undo = ["upgrade", "--undo"];
    let (sound, said) = run(&bench, &bench.bundle, &undo, None);
    assert_eq!(sound.code, Some(0), "{said}");
    assert!(kept(&bench.bundle.digest).former_state().is_err() && kept(&other.digest).former_state().is_ok());
    let sync = format!("fsync {}", bench.state.display());
    let syncs = (0..sound.calls.len()).filter(|&number| sound.calls[number] == sync);
    let mut uncertain = 0;
    for number in syncs {
        let (ending, said) = run(&bench, &bench.bundle, &undo, Some((number, libc::EIO)));
        assert!(ending.code != Some(0) || bench.saved_on(&bench.bundle).is_some(), "{said}");
        // The slot that was renamed may be the old one after a power cut.
        if ending.code == Some(3) {
            assert!(kept(&bench.bundle.digest).former_state().is_ok(), "call {number}: {said}");
            uncertain += 1;
        }
    }
    assert!(uncertain > 0, "no switch was uncertain");
}

#[test]
fn an_upgrade_learns_every_shot_or_is_refused() {
    let mut trial = orco_trials::trial!(5, "system calls that failed in an upgrade");
    if !can_watch() {
        return;
    }
    let bench = bench();
    // A class whose shots were not kept would be given up.
    let forget = support::orco(&bench.bundle.folder, &bench.pristine, &["forget", "mug"]).output().unwrap();
    assert!(forget.status.success(), "{}", text(&forget.stderr));
    let elsewhere = bench.folder.path().join("other");
    fs::create_dir(&elsewhere).unwrap();
    let other = other_bundle(&elsewhere);
    copy_all(&bench.pristine, &bench.state);
    let before = bench.saved();
    assert_eq!(before.state.exemplars.len(), 2);
    let tried = each(&bench, &other, &["upgrade", "--force"], 9, &|ending, said, what| {
        if ending.code == Some(1) {
            assert_eq!(bench.saved_on(&bench.bundle).as_ref(), Some(&before), "{what}");
        } else {
            let after = bench.saved_on(&other).unwrap_or_else(|| panic!("no state of the new bundle: {what}"));
            assert_eq!(after.state.exemplars.len(), 2, "{what}");
            assert!(said.contains("plant: 2 shots, recognised"), "{what}");
        }
    });
    assert!(tried > 10, "only {tried} calls failed");
    trial.count(tried);
    let _ = writeln!(
        std::io::stderr(),
        "store: {tried} upgrades with a system call that failed, each in turn: 0 shots lost without a word"
    );
}

#[test]
fn a_file_that_is_written_is_there_or_the_exit_code_says_that_it_is_not() {
    let mut trial = orco_trials::trial!(5, "system calls that failed in an export or a backup");
    if !can_watch() {
        return;
    }
    let bench = bench();
    copy_all(&bench.pristine, &bench.state);
    let folder = bench.folder.path().canonicalize().unwrap().join("out");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("file");
    let path = file.to_str().unwrap();
    let export = ["export", "plant", "--force", "-o", path];
    let (mut tried, mut unsafe_but_there) = (0, 0);
    for arguments in [&export[..], &["backup", "--force", path]] {
        let _ = fs::remove_file(&file);
        let (sound, said) = run_in(&bench, &folder, &bench.bundle, arguments, None);
        assert_eq!(sound.code, Some(0), "{said}");
        let whole = fs::read(&file).unwrap();
        for before in [None, Some(b"an older one".to_vec())] {
            for number in (0..sound.calls.len() + 2).step_by(if heavy() || sound.calls.len() < 40 { 1 } else { 5 }) {
                let _ = fs::remove_file(&file);
                before.iter().for_each(|bytes| fs::write(&file, bytes).unwrap());
                let (ending, said) = run_in(&bench, &folder, &bench.bundle, arguments, Some((number, libc::EIO)));
                let Some(failed) = &ending.failed else { continue };
                let what = format!("{arguments:?}, call {number} ({failed}): {said}");
                assert!(!said.contains("panicked"), "{what}");
                let there = fs::read(&file).ok();
                match ending.code {
                    Some(0) => assert_eq!(there.as_ref(), Some(&whole), "{what}"),
                    Some(1) => assert_eq!(there, before, "{what}"),
                    Some(3) => {
                        assert_eq!(there.as_ref(), Some(&whole), "{what}");
                        assert!(said.contains("it was written, but a power cut could still undo that"), "{what}");
                        unsafe_but_there += 1;
                    }
                    code => panic!("{code:?}, {what}"),
                }
                tried += 1;
            }
        }
    }
    assert!(tried > 10, "only {tried} calls failed");
    assert!(unsafe_but_there > 0, "no folder failed to be synced");
    trial.count(tried);
    let _ = writeln!(
        std::io::stderr(),
        "files: {tried} exports and backups with a system call that failed, each in turn, {unsafe_but_there} of them \
         \"written, but\": 0 told otherwise"
    );
}
