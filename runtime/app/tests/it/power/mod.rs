//! Power cuts of the service: the real program on a real file system, recorded, and cut at any moment afterwards.
//!
//! `orco serve` runs under ptrace in an empty folder, and is taught over HTTP. Every system call that changes the
//! folder is recorded with its bytes ([`journal`]), and so is the moment at which the service said that a change was
//! done. A cut is a moment of that journal. From it the trial builds a folder that POSIX allows to be found after a
//! power cut at that moment ([`medium`]): what was synced is there; of everything else, each name and each block of
//! bytes is there, lost, or garbage, one independent of the other, which is more than any real file system does. The
//! real program is then started on that folder. It must serve what was acknowledged, or the one change that was under
//! way, and learn on.
//!
//! This needs no root, no kernel module and no mount, so it runs wherever the tests do. ptrace sees what a preloaded
//! library would not: `rustix` calls the kernel without libc. Calls that change files unseen, such as writes through a
//! shared mapping, fail the trial. Faults of a real disk below the file system are not simulated.
//!
//! `ORCO_CUTS` names the number of cuts.

#![cfg(target_os = "linux")]

mod journal;
mod medium;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use orco_core::random::Random;
use orco_runtime::bundle::Bundle;
use orco_runtime::store::Store;
use orco_state::history::SavedState;
use orco_state::state::Balance;
use orco_trials::heavy;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::power::journal::{Journal, Recorder};
use crate::power::medium::{HONEST, Medium};
use crate::support::service::{Events, Service};
use crate::support::{fast_bundle, orco};

/// A request that changes what the device knows.
type Request = (&'static str, &'static str, Value);

fn serving(bundle: &Path, state: &Path) -> Command {
    let arguments = ["--engine", "rten", "serve", "--listen", "127.0.0.1:0", "--keep-shots"];
    let mut command = orco(bundle, state, &arguments);
    command.env("RUST_LOG", "off");
    command
}

/// Asks for a change and waits until it is acknowledged.
fn make(service: &Service, events: &mut Events, (method, path, body): &Request) {
    if *path == "/api/v1/learn" {
        let label = body["label"].as_str().unwrap();
        service.shoot_anyway(label, label, 3);
    }
    let path = match path.split_once("FIRST") {
        Some((before, after)) => format!("{before}{}{after}", first_shot(service, "beaker")),
        None => (*path).to_owned(),
    };
    let ended = events.wait_for(&service.json(method, &path, body));
    assert_eq!(ended["state"], "done", "{ended}");
}

/// The id of a class's first stored shot.
fn first_shot(service: &Service, label: &str) -> String {
    let classes = service.json("GET", "/api/v1/classes", &Value::Null);
    let class = classes["classes"].as_array().unwrap().iter().find(|class| class["label"] == label).unwrap();
    class["stored"][0]["id"].as_str().unwrap().to_owned()
}

/// What is kept from a moment on, on a disk that loses nothing.
struct KeptState {
    from: u64,
    saved: SavedState,
}

/// A service that was taught under watch.
struct Recording {
    bundle: Bundle,
    journal: Journal,
    /// All that was ever kept, in order: every change, and every head that was aligned to one.
    states: Vec<KeptState>,
    /// When each change was acknowledged.
    acknowledged: Vec<u64>,
    _folder: TempDir,
}

impl Recording {
    fn make(changes: &[Request]) -> Self {
        let folder = TempDir::new().unwrap();
        let bundle = fast_bundle(folder.path());
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        let state = root.join("state");
        let (recorder, output) = Recorder::start(serving(&bundle.folder, &state), &root);
        let service = Service::started(output);
        let mut events = Events::of(&service);
        let mut acknowledged = Vec::new();
        for change in changes {
            make(&service, &mut events, change);
            acknowledged.push(recorder.now());
            while service.json("GET", "/api/v1/status", &Value::Null)["improving"] == true {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let journal = recorder.finish();
        let states = kept_states(&journal, &bundle);
        // Each change, and what stood before the first; a head is aligned to some of them.
        assert!(states.len() > changes.len() + 1, "{} states after {} changes", states.len(), changes.len());
        Self { bundle, journal, states, acknowledged, _folder: folder }
    }

    /// The last state that was kept before a moment.
    fn last_before(&self, moment: u64) -> usize {
        self.states.iter().rposition(|state| state.from < moment).unwrap_or(0)
    }

    /// Cuts the power at a moment and looks at what is left, as the program's library reads it.
    fn cut(&self, medium: Medium, moment: u64, random: &mut Random) -> Result<Cut, String> {
        let folder = TempDir::new().unwrap();
        medium.after_cut(&self.journal, moment, random).lay_down(folder.path());
        let state = folder.path().join("state");
        let done = self.acknowledged.iter().filter(|acknowledged| **acknowledged < moment).count();
        let saved = Store::new(&state).load(&self.bundle).map_err(|error| format!("it does not open: {error}"))?.saved;
        let first = done.checked_sub(1).map_or(0, |last| self.last_before(self.acknowledged[last]));
        let allowed = &self.states[first..=self.last_before(moment)];
        let went_on = allowed.iter().position(|state| state.saved == saved);
        let went_on = went_on.ok_or_else(|| match self.states[..first].iter().any(|state| state.saved == saved) {
            true => format!("an older state, though {done} changes were acknowledged"),
            false => format!("a state that never was, after {done} changes were acknowledged"),
        })?;
        let pictures = Store::new(&state).pictures(&self.bundle.digest).exemplars();
        let pictures = pictures.map_err(|error| format!("its pictures cannot be read: {error}"))?;
        if !saved.exemplar_digests().is_subset(&pictures) {
            return Err(format!("pictures of shots are missing, after {done} changes were acknowledged"));
        }
        Ok(Cut { folder, state, saved, went_on: went_on > 0 })
    }
}

/// Every state that a journal's folder has held, as the program's library reads it.
fn kept_states(journal: &Journal, bundle: &Bundle) -> Vec<KeptState> {
    let mut states: Vec<KeptState> = Vec::new();
    for from in journal.operations.iter().map(|operation| operation.begin) {
        let folder = TempDir::new().unwrap();
        medium::complete(journal, from + 1).lay_down(folder.path());
        // Between two calls a slot may be half written; what the next one leaves is checked then.
        let Ok(loaded) = Store::new(folder.path().join("state")).load(bundle) else { continue };
        if states.last().is_none_or(|last| last.saved != loaded.saved) {
            states.push(KeptState { from, saved: loaded.saved });
        }
    }
    states
}

/// What a cut left.
struct Cut {
    folder: TempDir,
    state: PathBuf,
    saved: SavedState,
    /// Whether there is more than was acknowledged.
    went_on: bool,
}

impl Cut {
    /// Starts the program on it, which must know the same classes and learn on.
    fn starts(&self, bundle: &Bundle) {
        let service = Service::of(serving(&bundle.folder, &self.state));
        let classes = service.json("GET", "/api/v1/classes", &Value::Null);
        let served = classes["classes"].as_array().unwrap().iter().filter(|class| class["learned"] == true);
        let served: Vec<&str> = served.map(|class| class["label"].as_str().unwrap()).collect();
        let expected: Vec<&str> = self.saved.state.classes.iter().map(|class| class.label.as_str()).collect();
        assert_eq!(served, expected, "in {:?}", self.folder.path());
        let other = Balance::ALL.into_iter().find(|other| *other != self.saved.state.balance).unwrap().name();
        make(&service, &mut Events::of(&service), &("POST", "/api/v1/balance", json!({ "balance": other })));
        drop(service);
        let after = Store::new(&self.state).load(bundle).unwrap().saved.state;
        assert_eq!(after.balance.name(), other);
        assert_eq!(after.classes, self.saved.state.classes);
    }
}

/// Every kind of change that the service makes.
fn changes() -> Vec<Request> {
    let class = |label: &str| json!({ "label": label });
    vec![
        ("POST", "/api/v1/learn", class("mug")),
        ("PATCH", "/api/v1/classes/mug", class("beaker")),
        ("POST", "/api/v1/learn", class("cactus")),
        ("POST", "/api/v1/balance", json!({ "balance": "favour-new" })),
        ("PATCH", "/api/v1/classes/beaker/shots/FIRST", class("cactus")),
        ("POST", "/api/v1/undo", json!({})),
        ("POST", "/api/v1/redo", json!({})),
        ("DELETE", "/api/v1/classes/beaker/shots/FIRST", Value::Null),
        ("POST", "/api/v1/undo", json!({})),
        ("DELETE", "/api/v1/classes/beaker", Value::Null),
        ("POST", "/api/v1/undo", json!({})),
        ("DELETE", "/api/v1/classes/cactus", Value::Null),
    ]
}

#[test]
fn a_power_cut_takes_nothing_that_the_service_acknowledged() {
    let mut trial = orco_trials::trial!(1, "power cuts of the service");
    let wanted = std::env::var("ORCO_CUTS").ok().map(|cuts| cuts.parse().expect("ORCO_CUTS is a number"));
    let cuts: usize = wanted.unwrap_or(if heavy() { 500 } else { 20 });
    let recording = Recording::make(&changes());
    let mut random = Random::new(std::process::id().into(), "power cuts");
    let mut went_on = 0;
    let moments = recording.journal.end as usize + 1;
    for number in 0..cuts {
        // Every one of them where there are cuts enough.
        let moment = if cuts >= moments { number % moments } else { random.below(moments) } as u64;
        let seed = random.bits();
        let cut = recording.cut(HONEST, moment, &mut Random::new(seed, "fates"));
        let cut = cut.unwrap_or_else(|lost| panic!("cut {number} at {moment}, seed {seed}: {lost}"));
        cut.starts(&recording.bundle);
        went_on += usize::from(cut.went_on);
        trial.count(1);
    }
    let _ = writeln!(
        std::io::stderr(),
        "power: {cuts} cuts of the service at {moments} moments of {} operations; {went_on} found more than \
         was acknowledged, 0 lost",
        recording.journal.operations.len()
    );
}

/// Checks the trial above itself: where a disk ignores syncs, of either kind, it finds the loss.
#[test]
fn a_medium_that_ignores_syncs_is_found_out() {
    let recording = Recording::make(&changes()[..3]);
    let mut random = Random::new(std::process::id().into(), "media");
    for medium in [Medium { keeps_files: false, ..HONEST }, Medium { keeps_folders: false, ..HONEST }] {
        let mut lost = Vec::new();
        for _ in 0..100 {
            let moment = random.below(recording.journal.end as usize + 1) as u64;
            lost.extend(recording.cut(medium, moment, &mut random).err());
        }
        assert!(lost.len() > 5, "{medium:?} loses next to nothing that the trial would notice: {lost:?}");
    }
    // Beside them, a medium that keeps its promises.
    for _ in 0..100 {
        let moment = random.below(recording.journal.end as usize + 1) as u64;
        recording.cut(HONEST, moment, &mut random).map(drop).unwrap();
    }
}
