//! Nothing that is not ours is deleted or replaced: files, links and pipes of others lie in every folder that is
//! cleaned or written, and are the same after every kind of change.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use orco_runtime::bundle::Bundle;
use orco_runtime::manifest::hexadecimal;
use orco_runtime::store::Store;

use crate::support::bench::Bench;
use crate::support::{self, argument, assert_refused, copy_all, make_pipe, other_bundle, shots, text};

/// A name as exemplars have them, of none.
const DIGEST: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// All that tells a file, link, pipe or folder from another, but when it was read.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    mode: u32,
    inode: u64,
    modified: [i64; 2],
    content: Vec<u8>,
}

/// Everything at a path and below it.
fn facts(path: &Path, all: &mut BTreeMap<PathBuf, Facts>) {
    let found = fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{} is gone: {error}", path.display()));
    let kind = found.file_type();
    let content = if kind.is_symlink() {
        fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()
    } else if kind.is_file() {
        fs::read(path).unwrap()
    } else {
        Vec::new()
    };
    // What is ours may come and go in a folder.
    let modified = if kind.is_dir() { [0; 2] } else { [found.mtime(), found.mtime_nsec()] };
    all.insert(path.to_owned(), Facts { mode: found.mode(), inode: found.ino(), modified, content });
    if kind.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| facts(&entry.unwrap().path(), all));
    }
}

/// What lies in the place of the folder of thumbnails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thumbnails {
    /// A folder in which somebody keeps photographs.
    Folder,
    /// A link to one.
    Link,
}

/// Folders that have names as a device's files and folders, with files that have such names.
fn write_photographs(photographs: &Path) {
    let [picture, small] = ["png", "jpg"].map(|kind| format!("{DIGEST}.{kind}"));
    let names =
        ["holiday.jpg", "1.jpg", "2.jpg", "state", "bundle.toml", "slot-a", "slot-b", &picture, &small, ".lock"];
    for folder in [photographs.to_owned(), photographs.join("other"), photographs.join("mug")] {
        fs::create_dir(&folder).unwrap();
        names.iter().for_each(|name| fs::write(folder.join(name), name).unwrap());
    }
}

/// Things in a state's folder that no device put there.
struct ForeignThings {
    /// Folders, links, pipes, and files that are written already.
    others: Vec<PathBuf>,
    /// Plain files.
    files: Vec<PathBuf>,
}

impl ForeignThings {
    /// Beside the slots: names as ours, but no files of ours, and folders whose names begin as ours.
    fn plant_in_state(&mut self, state: &Path, photographs: &Path) {
        let names = [
            "holiday.jpg",
            ".slot-machine",
            ".slot-a.new-notes",
            "slot-a.txt",
            "slot-a.bad-old",
            ".orco-notes",
            "state",
        ];
        self.files.extend(names.map(|name| state.join(name)));
        let link = state.join(".slot-a.new-0123456789abcdef-0");
        symlink(photographs.join("holiday.jpg"), &link).unwrap();
        let pipe = state.join("slot-b.bad-3");
        make_pipe(&pipe);
        let linked = state.join("kept-0123456789abcdef");
        symlink(photographs, &linked).unwrap();
        self.others.extend([link, pipe, linked]);
        // Of the last, exactly such a name, whose file names no bundle.
        let lookalike = "kept-aaaaaaaaaaaaaaaa";
        for name in [".slot-owner-0123456789abcdef", "kept-photographs", "kept-empty", lookalike] {
            fs::create_dir(state.join(name)).unwrap();
            self.others.push(state.join(name));
        }
        let names = ["state", "bundle.toml", &format!("{DIGEST}.png"), ".kept-notes"];
        self.files.extend(names.map(|name| state.join("kept-photographs").join(name)));
        self.files.push(state.join(lookalike).join("bundle.toml"));
    }

    /// Among kept pictures.
    fn plant_among_kept(&mut self, kept: &Path, photographs: &Path) {
        let picture = format!("{DIGEST}.png");
        let link = kept.join(&picture);
        symlink(photographs.join(&picture), &link).unwrap();
        let pipe = kept.join(".kept-state-1");
        make_pipe(&pipe);
        let below = kept.join(format!("{}.png", "f".repeat(64)));
        fs::create_dir(&below).unwrap();
        self.others.extend([link, pipe, below]);
        self.files.extend(["holiday.png", ".kept-notes", ".kept-notes-0"].map(|name| kept.join(name)));
    }

    /// In the place of thumbnails, or among them.
    fn plant_thumbnails(&mut self, place: &Path, photographs: &Path, thumbnails: Thumbnails) {
        match thumbnails {
            Thumbnails::Link => symlink(photographs, place).unwrap(),
            Thumbnails::Folder => {
                fs::create_dir(place).unwrap();
                self.files.extend(["holiday.jpg", "1.jpg", ".orco-notes"].map(|name| place.join(name)));
                let large = place.join(format!("{DIGEST}.jpg"));
                fs::write(&large, vec![7; 100_000]).unwrap();
                let link = place.join(format!("{}.jpg", "f".repeat(64)));
                symlink(&large, &link).unwrap();
                self.others.extend([large, link]);
            }
        }
        self.others.push(place.to_owned());
    }

    /// Writes the files; returns all things.
    fn written(self) -> Vec<PathBuf> {
        self.files.iter().for_each(|path| fs::write(path, b"theirs").unwrap());
        [self.others, self.files].concat()
    }
}

/// A device on whose state's folder somebody else keeps things, too.
struct SharedFolder {
    bench: Bench,
    other: Bundle,
    backup: PathBuf,
}

impl SharedFolder {
    fn new() -> Self {
        let bench = Bench::new();
        let elsewhere = bench.folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let other = other_bundle(&elsewhere);
        let backup = bench.folder.path().join("door.orcobackup");
        let keep = ["learn", "--keep-shots", &argument("plant", &shots("learn", "cactus"))];
        for arguments in [&keep[..], &["forget", "mug"], &["backup", backup.to_str().unwrap()]] {
            let done = support::orco(&bench.bundle.folder, &bench.pristine, arguments).output().unwrap();
            assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
        }
        Self { bench, other, backup }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bench.folder.path().join(name)
    }

    /// Puts the state back as it was, with new things of others in it; returns these.
    fn plant(&self, thumbnails: Thumbnails) -> Vec<PathBuf> {
        let state = &self.bench.state;
        let photographs = self.path("photographs");
        let _ = fs::remove_dir_all(state);
        let _ = fs::remove_dir_all(&photographs);
        copy_all(&self.path("pristine"), state);
        write_photographs(&photographs);
        let mut things = ForeignThings { others: vec![photographs.clone()], files: Vec::new() };
        things.plant_in_state(state, &photographs);
        for bundle in [&self.bench.bundle, &self.other] {
            let kept = state.join(format!("kept-{}", &hexadecimal(&bundle.digest)[..16]));
            if kept.is_dir() {
                things.plant_among_kept(&kept, &photographs);
            }
        }
        things.plant_thumbnails(&state.join("thumbnails"), &photographs, thumbnails);
        things.written()
    }

    fn run(&self, bundle: &Bundle, arguments: &[&str]) -> Output {
        support::orco(&bundle.folder, &self.bench.state, arguments).env("ORT_DYLIB_PATH", "/nowhere").output().unwrap()
    }
}

#[test]
fn what_others_keep_where_we_clean_and_write_stays_as_it_is() {
    let mut trial = orco_trials::trial!(21, "commands beside foreign files");
    let shared = SharedFolder::new();
    let more = argument("plant", &shots("try", "cactus"));
    let duck = argument("duck", &shots("learn", "rubber-duck"));
    let (pack, backup, photographs) = [&shared.bench.pack, &shared.backup, &shared.path("photographs")]
        .map(|path| path.to_str().unwrap().to_owned())
        .into();
    let changes: [(&Bundle, &[&[&str]]); 11] = [
        (&shared.bench.bundle, &[&["learn", &duck]]),
        (&shared.bench.bundle, &[&["learn", "--keep-shots", &duck], &["undo"], &["redo"]]),
        (&shared.bench.bundle, &[&["add", "--keep-shots", &more]]),
        (&shared.bench.bundle, &[&["rename", "plant", "cactus"], &["rename", "cactus", "plant"]]),
        (&shared.bench.bundle, &[&["forget", "plant"], &["--history", "0", "learn", &duck]]),
        (&shared.bench.bundle, &[&["forget", "plant", "--purge"]]),
        (&shared.bench.bundle, &[&["import", &pack, "--as", "other", "--thumbnails-to", &photographs]]),
        (&shared.bench.bundle, &[&["backup", &backup, "--force"], &["restore", &backup, "--force"]]),
        (&shared.bench.bundle, &[&["export", "plant", "--force", "-o", &pack]]),
        (&shared.other, &[&["upgrade", "--force"], &["rename", "plant", "cactus"], &["upgrade", "--discard-old"]]),
        (&shared.other, &[&["restore", &backup, "--force", "--other-bundle"], &["upgrade"], &["upgrade"]]),
    ];
    for thumbnails in [Thumbnails::Folder, Thumbnails::Link] {
        for (bundle, verbs) in &changes {
            for damaged in [false, true] {
                let theirs = shared.plant(thumbnails);
                if damaged {
                    // One that is set aside, while a pipe of others has the name that comes first.
                    let older = shared.bench.state.join("slot-a");
                    let mut bytes = fs::read(&older).unwrap();
                    *bytes.last_mut().unwrap() ^= 1;
                    fs::write(&older, bytes).unwrap();
                }
                let look = || {
                    let mut all = BTreeMap::new();
                    theirs.iter().for_each(|path| facts(path, &mut all));
                    all
                };
                let before = look();
                for arguments in *verbs {
                    let output = shared.run(bundle, arguments);
                    let said = text(&output.stderr);
                    assert!(!said.contains("panicked"), "{thumbnails:?}, {arguments:?}: {said}");
                    let after = look();
                    let differ: Vec<&PathBuf> =
                        before.keys().filter(|path| after.get(*path) != before.get(*path)).collect();
                    assert!(differ.is_empty(), "{thumbnails:?}, {arguments:?} touched {differ:?}: {said}");
                    trial.count(1);
                }
            }
        }
    }
}

/// The test above stands on commands that do what they are for.
#[test]
fn things_of_others_stand_in_the_way_of_no_change() {
    let shared = SharedFolder::new();
    shared.plant(Thumbnails::Folder);
    let duck = argument("duck", &shots("learn", "rubber-duck"));
    for arguments in [
        &["learn", "--keep-shots", &duck][..],
        &["undo"],
        &["rename", "plant", "cactus"],
        &["forget", "cactus"],
        &["undo"],
        &["forget", "cactus", "--purge"],
        &["restore", shared.backup.to_str().unwrap(), "--force"],
    ] {
        let output = shared.run(&shared.bench.bundle, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = shared.run(&shared.other, &["upgrade", "--force"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = shared.run(&shared.bench.bundle, &["upgrade", "--undo"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // Where a link leads elsewhere, what is behind it may be ours or not: purging says that it did not look.
    shared.plant(Thumbnails::Link);
    let output = shared.run(&shared.bench.bundle, &["forget", "plant", "--purge"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("thumbnails is a link, which was not followed"), "{said}");
    assert!(!said.contains("power cut"), "{said}");
    assert!(Store::new(&shared.bench.state).load(&shared.bench.bundle).unwrap().saved.state.classes.is_empty());
}

#[test]
fn thumbnails_of_a_pack_replace_no_file() {
    let shared = SharedFolder::new();
    shared.plant(Thumbnails::Folder);
    let photographs = shared.path("photographs");
    let import = |to: &Path| {
        let pack = shared.bench.pack.to_str().unwrap();
        shared.run(&shared.bench.bundle, &["import", pack, "--as", "other", "--thumbnails-to", to.to_str().unwrap()])
    };
    let output = import(&photographs);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("something else is there: 1.jpg, 2.jpg; the change was made all the same"), "{said}");
    assert_eq!(fs::read(photographs.join("other/1.jpg")).unwrap(), b"1.jpg");
    assert!(fs::read(photographs.join("other/3.jpg")).unwrap().starts_with(b"\xff\xd8"));
    // The same thumbnails again are no fault.
    let own = shared.path("own");
    for _ in 0..2 {
        shared.plant(Thumbnails::Folder);
        let output = import(&own);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
fn no_result_is_written_among_the_state() {
    let shared = SharedFolder::new();
    shared.plant(Thumbnails::Folder);
    symlink(&shared.bench.state, shared.path("link")).unwrap();
    symlink(shared.bench.state.join("nothing-yet"), shared.path("nowhere")).unwrap();
    fs::hard_link(shared.bench.state.join("slot-b"), shared.path("second")).unwrap();
    let places = ["state/slot-a", "state/.lock", "state/new", "link/slot-a", "link/new", "nowhere", "second"];
    let before = || ["slot-a", "slot-b"].map(|slot| fs::read(shared.bench.state.join(slot)).unwrap());
    let slots = before();
    let pack = shared.bench.pack.to_str().unwrap();
    for place in places {
        let place = shared.path(place);
        let place = place.to_str().unwrap();
        for arguments in [
            &["export", "plant", "--force", "-o", place][..],
            &["backup", "--force", place],
            &["list", "--json", place],
            &["learn", "--json", place, &argument("duck", &shots("learn", "rubber-duck"))],
            &["import", pack, "--as", "other", "--thumbnails-to", place],
        ] {
            if arguments[0] == "import" && place.ends_with("second") {
                continue;
            }
            assert_refused(&shared.run(&shared.bench.bundle, arguments), "it is in the device's state folder");
            assert_eq!(before(), slots, "{arguments:?}");
        }
    }
    assert!(!shared.bench.state.join("new").exists() && !shared.bench.state.join("nothing-yet").exists());
    let manifest = shared.bench.bundle.folder.join("manifest.toml");
    let text = fs::read(&manifest).unwrap();
    let output = shared.run(&shared.bench.bundle, &["list", "--json", manifest.to_str().unwrap()]);
    assert_refused(&output, "it is in the bundle's folder");
    assert_eq!(fs::read(&manifest).unwrap(), text);
    // Where the state's folder is the usual one, those of other bundles are safe, too.
    let home = shared.path("home");
    fs::create_dir(&home).unwrap();
    let report = home.join("orco/other/slot-a");
    let mut command = support::orco(&shared.bench.bundle.folder, &shared.bench.state, &[]);
    let mut arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    arguments.drain(2..4);
    command = std::process::Command::new(command.get_program());
    command.args(arguments).args(["list", "--json"]).arg(&report).env("XDG_STATE_HOME", &home);
    assert_refused(&command.output().unwrap(), "it is in the device's state folder");
}

#[test]
fn a_result_replaces_results_alone() {
    let shared = SharedFolder::new();
    shared.plant(Thumbnails::Folder);
    let photograph = shared.path("photograph.jpg");
    fs::write(&photograph, b"\xff\xd8 a photograph").unwrap();
    let settings = shared.path("settings.json");
    fs::write(&settings, b"{\"theme\": \"dark\"}").unwrap();
    for place in [&photograph, &settings] {
        let before = fs::read(place).unwrap();
        assert_refused(
            &shared.run(&shared.bench.bundle, &["list", "--json", place.to_str().unwrap()]),
            "it holds something else than a result",
        );
        assert_eq!(fs::read(place).unwrap(), before);
    }
    let report = shared.path("report.json");
    fs::write(&report, b"").unwrap();
    for _ in 0..2 {
        let output = shared.run(&shared.bench.bundle, &["list", "--json", report.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(fs::read(&report).unwrap().starts_with(b"{"));
    }
}
