//! Exit codes tell the truth: everything that is written besides the state fails in turn, and the code says whether the
//! state was changed.

#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use orco_state::pack::UnverifiedPack;
use orco_trials::tmpfs::TmpfsMount;
use orco_trials::{heavy, skipped};
use serde_json::Value;

use crate::support::bench::Bench;
use crate::support::{self, argument, changes, make_pipe, shots, text};

const DONE: Option<i32> = Some(0);
const FAILED: Option<i32> = Some(1);
const DONE_WITH_ERRORS: Option<i32> = Some(3);

/// Where standard output or standard error goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Kept,
    Full,
    /// A pipe that nobody reads.
    Closed,
}

impl Stream {
    const ALL: [Self; 3] = [Self::Kept, Self::Full, Self::Closed];

    fn open(self) -> Stdio {
        match self {
            Self::Kept => Stdio::piped(),
            Self::Full => File::options().write(true).open("/dev/full").unwrap().into(),
            Self::Closed => std::io::pipe().unwrap().1.into(),
        }
    }
}

/// Where the JSON goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    None,
    File,
    Standard,
    FullDevice,
}

fn run(command: &mut Command, standard: Stream, error: Stream) -> Output {
    command
        .stdin(Stdio::null())
        .stdout(standard.open())
        .stderr(error.open())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap()
}

fn no_panic(output: &Output, what: &str) {
    assert!(!text(&output.stderr).contains("panicked"), "{what}: {}", text(&output.stderr));
    assert_ne!(output.status.code(), Some(101), "{what}: panicked");
}

#[test]
fn changes_say_that_they_were_made_whatever_cannot_be_written_afterwards() {
    let mut trial = orco_trials::trial!(19, "changes");
    let bench = Bench::new();
    let report = bench.folder.path().join("report.json");
    let (mut tried, mut but) = (0, 0);
    let reports = [Report::None, Report::File, Report::Standard, Report::FullDevice];
    for (turn, change) in changes(&bench.pack).into_iter().enumerate() {
        for standard in Stream::ALL {
            for error in Stream::ALL {
                for json in reports {
                    // The short trial tries every third: with each change any two of the three still meet, and over
                    // all changes every combination is tried.
                    if !heavy() && !(turn + standard as usize + error as usize + json as usize).is_multiple_of(3) {
                        continue;
                    }
                    let what = format!("{change:?}, stdout {standard:?}, stderr {error:?}, JSON {json:?}");
                    let before = bench.reset();
                    let mut command = bench.command(&change);
                    match json {
                        Report::None => {}
                        Report::File => drop(command.arg("--json").arg(&report)),
                        Report::Standard => drop(command.args(["--json", "-"])),
                        Report::FullDevice => drop(command.args(["--json", "/dev/full"])),
                    }
                    fs::write(
                        &report,
                        "{\"changed\": true, \"an earlier report\": \"longer than what comes now\"}".repeat(400),
                    )
                    .unwrap();
                    let output = run(&mut command, standard, error);
                    no_panic(&output, &what);
                    let failed = standard != Stream::Kept || json == Report::FullDevice;
                    let code = if failed { DONE_WITH_ERRORS } else { DONE };
                    assert_eq!(output.status.code(), code, "{what}: {}", text(&output.stderr));
                    assert!(bench.saved() != before, "{what}: was not made");
                    trial.count(1);
                    (tried, but) = (tried + 1, but + usize::from(failed));
                    let told = match json {
                        Report::File => Some(fs::read(&report).unwrap()),
                        Report::Standard if standard == Stream::Kept => Some(output.stdout.clone()),
                        _ => None,
                    };
                    if let Some(told) = told {
                        let told: Value =
                            serde_json::from_slice(&told).unwrap_or_else(|error| panic!("{what}: {error}"));
                        assert_eq!(told["changed"], true, "{what}: {told}");
                        let errors = told["errors"].as_array().map_or(0, Vec::len);
                        assert_eq!(errors, usize::from(failed), "{what}: {told}");
                    }
                    if failed && error == Stream::Kept {
                        let said = text(&output.stderr);
                        assert!(said.contains("; the change was made all the same"), "{what}: {said}");
                    }
                }
            }
        }
    }
    let _ = writeln!(
        std::io::stderr(),
        "store: {tried} changes with standard output, standard error and JSON on a full device or a closed pipe in \
         turn, {but} of them \"changed, but\": 0 told otherwise"
    );
}

#[test]
fn what_is_refused_says_so_and_leaves_the_state() {
    let mut trial = orco_trials::trial!(19, "refusals");
    let bench = Bench::new();
    let before = bench.reset();
    let report = bench.folder.path().join("report.json");
    let rename = ["rename", "nobody", "somebody"].map(str::to_owned);
    for standard in Stream::ALL {
        for error in Stream::ALL {
            trial.count(1);
            fs::write(&report, "{\"changed\": true}").unwrap();
            let output = run(bench.command(&rename).arg("--json").arg(&report), standard, error);
            no_panic(&output, "refused");
            assert_eq!(output.status.code(), FAILED, "{standard:?}, {error:?}");
            let told: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
            assert_eq!(told["changed"], false, "{told}");
            assert!(told["errors"][0].as_str().unwrap().contains("no class has the label \"nobody\""), "{told}");
        }
    }
    // A report that cannot even be begun is noticed before anything is done.
    for report in ["/nowhere/report.json", "/dev/null/report.json", "/"] {
        let rename = ["rename", "mug", "beaker", "--json", report].map(str::to_owned);
        let output = bench.command(&rename).output().unwrap();
        support::assert_refused(&output, &format!("cannot write {report}"));
    }
    assert_eq!(bench.command(&["rename".to_owned()]).output().unwrap().status.code(), Some(2));
    assert!(bench.saved() == before);
}

#[test]
fn looking_fails_where_nobody_can_see_and_ends_quietly_where_nobody_looks() {
    let mut trial = orco_trials::trial!(19, "commands");
    let bench = Bench::new();
    bench.reset();
    let picture = shots("try", "mug").join("1.jpg").to_str().unwrap().to_owned();
    let looks: [&[&str]; 4] = [&["list"], &["history"], &["info"], &["classify", &picture]];
    for look in looks {
        let look: Vec<String> = look.iter().map(|&argument| argument.to_owned()).collect();
        for json in [false, true] {
            let command = || {
                let mut command = bench.command(&look);
                command.args(if json { &["--json", "-"][..] } else { &[] });
                command
            };
            for error in Stream::ALL {
                trial.count(3);
                let full = run(&mut command(), Stream::Full, error);
                no_panic(&full, &format!("{look:?}"));
                assert_eq!(full.status.code(), FAILED, "{look:?}");
                let closed = run(&mut command(), Stream::Closed, error);
                // As other programs do in front of `head`: by SIGPIPE.
                assert_eq!((closed.status.signal(), text(&closed.stderr).as_str()), (Some(13), ""), "{look:?}");
                assert_eq!(run(&mut command(), Stream::Kept, error).status.code(), DONE, "{look:?}");
            }
        }
    }
}

#[test]
fn thumbnails_that_cannot_be_written_do_not_hide_the_change() {
    let mut trial = orco_trials::trial!(19, "changes");
    let bench = Bench::new();
    let folder = bench.folder.path();
    fs::write(folder.join("file"), "no folder").unwrap();
    fs::create_dir_all(folder.join("taken/other/3.jpg")).unwrap();
    let mut paths = vec![folder.join("file/below"), folder.join("taken"), "/dev/null/x".into(), "/proc/x".into()];
    let (full, read_only) = (TmpfsMount::new("size=8k"), TmpfsMount::new("size=1m"));
    match (&full, &read_only) {
        (Some(full), Some(read_only)) => {
            full.fill();
            read_only.remount("ro");
            paths.extend([full.path().to_owned(), read_only.path().to_owned()]);
        }
        _ => skipped("thumbnails on full and read-only disks (mounting needs root)"),
    }
    for path in &paths {
        trial.count(1);
        let before = bench.reset();
        let import = ["import", bench.pack.to_str().unwrap(), "--as", "other", "--json", "-", "--thumbnails-to"];
        let output = bench.command(&import.map(str::to_owned)).arg(path).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), DONE_WITH_ERRORS, "{path:?}: {said}");
        assert!(said.contains("the thumbnails of other cannot be written"), "{said}");
        assert!(said.contains("the change was made all the same"), "{said}");
        assert!(bench.saved() != before, "{path:?}");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(told["changed"] == true && told["errors"][0].as_str().unwrap().contains("thumbnails"), "{told}");
    }
    bench.reset();
    let good = folder.join("good");
    let import = ["import", bench.pack.to_str().unwrap(), "--as", "other", "--thumbnails-to", good.to_str().unwrap()];
    assert_eq!(bench.command(&import.map(str::to_owned)).output().unwrap().status.code(), DONE);
    assert_eq!(fs::read_dir(good.join("other")).unwrap().count(), 5, "something else was left");
}

/// Room for one slot on the first save, for the report but not for the state, and so on.
#[test]
fn a_first_save_with_room_for_one_slot_is_done_with_errors() {
    let bench = Bench::new();
    let mug = argument("mug", &shots("learn", "mug"));
    let learn = ["learn", &mug, "--align", "later", "--json", "-"];
    let elsewhere = bench.folder.path().join("elsewhere");
    let learned = support::orco(&bench.bundle.folder, &elsewhere, &learn).output().unwrap();
    assert_eq!(learned.status.code(), DONE, "{}", text(&learned.stderr));
    let slot = fs::metadata(elsewhere.join("slot-a")).unwrap().len();
    let Some(mounted) = TmpfsMount::new(&format!("size={}k", (slot + slot / 2) >> 10)) else {
        skipped("a first save with room for one slot (mounting needs root)");
        return;
    };
    let state = mounted.path().join("state");
    let orco = |arguments: &[&str]| support::orco(&bench.bundle.folder, &state, arguments).output().unwrap();
    let output = orco(&learn);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), DONE_WITH_ERRORS, "{said}");
    assert!(said.contains("the new state was saved, but a power cut could still lose it"), "{said}");
    assert!(said.contains("slot-b: No space left on device"), "{said}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(told["changed"] == true && told["errors"].as_array().unwrap().len() == 1, "{told}");
    assert!(told["new_accuracy"].is_number(), "the report is there all the same: {told}");
    assert!(!state.join("slot-b").exists());
    assert!(text(&orco(&["list"]).stdout).contains("mug"), "it is known");
    // With room again, the next change makes two of it.
    mounted.remount("size=64m");
    let again = orco(&["rename", "mug", "beaker"]);
    assert_eq!(again.status.code(), DONE, "{}", text(&again.stderr));
    assert!(state.join("slot-b").exists());
    // No room for anything: refused, and nothing is changed.
    mounted.fill();
    assert_eq!(orco(&["rename", "beaker", "mug"]).status.code(), FAILED);
    assert!(text(&orco(&["list"]).stdout).contains("beaker"));
}

#[test]
fn classifying_goes_on_after_broken_pictures_wherever_messages_go() {
    let bench = Bench::new();
    bench.reset();
    let good = [1, 2].map(|number| shots("try", "mug").join(format!("{number}.jpg")).to_str().unwrap().to_owned());
    let broken = bench.folder.path().join("broken.jpg");
    fs::write(&broken, "no picture").unwrap();
    let broken = broken.to_str().unwrap();
    let images = ["/nowhere.jpg", &good[0], broken, "/dev/zero", &good[1]];
    let arguments: Vec<String> =
        [&["classify"], &images[..], &["--json", "-"]].concat().iter().map(|&argument| argument.to_owned()).collect();
    for error in Stream::ALL {
        let output = run(&mut bench.command(&arguments), Stream::Kept, error);
        no_panic(&output, "classify");
        assert_eq!(output.status.code(), FAILED, "{error:?}");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let listed = told["images"].as_array().unwrap();
        let names: Vec<&str> = listed.iter().map(|image| image["image"].as_str().unwrap()).collect();
        assert_eq!(names, images, "{told}");
        for (image, reason) in [(0, "No such file"), (2, "neither a JPEG nor a PNG"), (3, "not a regular file")] {
            assert!(listed[image]["error"].as_str().unwrap().contains(reason), "{}", listed[image]);
            assert!(listed[image].get("matches").is_none());
        }
        for image in [1, 4] {
            assert_eq!(listed[image]["matches"].as_array().unwrap().len(), 3, "{}", listed[image]);
        }
        assert_eq!(told["errors"][0], "3 of 5 pictures could not be classified");
    }
    // The same in words.
    let output = bench.command(&arguments[..arguments.len() - 2]).output().unwrap();
    assert_eq!(text(&output.stdout).lines().count(), 2);
    assert_eq!(text(&output.stderr).lines().filter(|line| line.starts_with("error: ")).count(), 4);
}

#[test]
fn a_pack_goes_through_pipes_and_devices_and_replaces_only_files() {
    let bench = Bench::new();
    bench.reset();
    let folder = bench.folder.path();
    let export = |to: &Path, standard: Stream| {
        let arguments = ["export", "mug", "-o", to.to_str().unwrap()].map(str::to_owned);
        run(&mut bench.command(&arguments), standard, Stream::Kept)
    };
    let is_whole = |bytes: &[u8]| UnverifiedPack::read(bytes).unwrap().content().unwrap().label == "mug";
    // A pipe stays one, and who reads it gets the pack.
    let pipe = folder.join("pipe");
    make_pipe(&pipe);
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut bytes = Vec::new();
            File::open(pipe).unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        }
    });
    assert_eq!(export(&pipe, Stream::Kept).status.code(), DONE);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert!(is_whole(&reader.join().unwrap()));
    // So do devices.
    let full = export(Path::new("/dev/full"), Stream::Kept);
    support::assert_refused(&full, "cannot write /dev/full: No space left on device");
    assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    let null = folder.join("null");
    let made = Command::new("mknod").arg(&null).args(["c", "1", "3"]).output();
    if made.is_ok_and(|made| made.status.success()) && File::options().write(true).open(&null).is_ok() {
        assert_eq!(export(&null, Stream::Kept).status.code(), DONE);
        assert!(fs::metadata(&null).unwrap().file_type().is_char_device(), "a device was replaced");
    } else {
        skipped("exporting into a device of our own (making one needs root)");
    }
    // What a link leads to is replaced, and the link stays.
    let (link, file) = (folder.join("link"), folder.join("file"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for there in [&link, &file] {
        support::assert_refused(&export(there, Stream::Kept), "there is a file of that name");
        assert_eq!(fs::read(&file).unwrap(), b"old");
    }
    let replace = ["export", "mug", "--force", "-o", link.to_str().unwrap()].map(str::to_owned);
    assert_eq!(bench.command(&replace).output().unwrap().status.code(), DONE);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink() && is_whole(&fs::read(&file).unwrap()));
    fs::remove_file(&file).unwrap();
    support::assert_refused(&export(&link, Stream::Kept), "it is a link that leads nowhere");
    support::assert_refused(&export(folder, Stream::Kept), "it is a folder");
    // The pack is there though nobody could be told.
    for standard in [Stream::Full, Stream::Closed] {
        let _ = fs::remove_file(&file);
        assert_eq!(export(&file, standard).status.code(), DONE_WITH_ERRORS);
        assert!(is_whole(&fs::read(&file).unwrap()));
    }
    let _ = fs::remove_file(&null);
    let left: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "something was left behind: {left:?}");
}
