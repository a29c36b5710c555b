//! What one session takes of a device - memory, flash, bytes written, arithmetic - with every shipped
//! bundle, beside 100, 500 and 1,000 learned classes:
//!
//! ```sh
//! cargo bench -p orco-runtime --bench session_cost              # or some: -- everyday cifar100-edge
//! ```
//!
//! A session learns five classes from five shots each. Beside what `orco_state::session::cost` tells beforehand
//! stands what was measured: bytes that the allocator had handed out at the most, bytes handed to the system to write,
//! and the largest resident memory of a process that opens the bundle and learns from pictures with rten. Learned
//! classes are made up as in the benchmark `growth`. Seconds are estimates: arithmetic at a processor's peak rate.

mod board;
#[path = "../support/mod.rs"]
mod support;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ndarray::Array3;
use orco_core::random::Random;
use orco_runtime::bundle::Bundle;
use orco_runtime::learner::{Learner, Shots};
use orco_runtime::manifest::{BACKBONE, BENCHMARK};
use orco_runtime::threads::usable_threads;
use orco_state::session::cost::{SessionCost, SessionExtent};
use orco_state::slots::{Medium as _, Slot};
use orco_trials::memory::{CountingAllocator, held, peak_of};
use orco_trials::system::status;

use board::BOARDS;
use support::{SHOTS, bundles, bytes_written, class, copy_with_room, shipped};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const KNOWN: [usize; 3] = [100, 500, 1000];
/// Classes that the session learns, and what they are where they come from pictures.
const NEW: [&str; 5] = ["cactus", "dumbbell", "mug", "rubber-duck", "traffic-cone"];
/// Names bundle and state to the process whose resident memory is measured.
const OF_CHILD: [&str; 2] = ["ORCO_SESSION_COST_BUNDLE", "ORCO_SESSION_COST_STATE"];

fn main() {
    if let [Some(bundle), Some(state)] = OF_CHILD.map(env::var_os) {
        return learn_from_pictures(bundle.as_ref(), state.as_ref());
    }
    let sheets: Vec<Sheet> = bundles().iter().flat_map(|bundle| sheets(bundle)).collect();
    println!("\nMemory, MB\n");
    table(&["base model", "state", "learning", "saving", "at most", "measured", "whole process"], &sheets, |sheet| {
        let SessionCost { bundle, state, learning, saving, .. } = sheet.estimated;
        let parts = [bundle, state, learning, saving, sheet.estimated.memory(), sheet.measured, sheet.resident];
        parts.map(|bytes| format!("{:.1}", bytes as f64 / 1e6)).into()
    });
    println!("\nFlash, KB; millions of multiply-adds; seconds at peak rate\n");
    let boards = BOARDS.map(|board| board.name);
    let figures = ["files", "both slots", "to write", "written", "session", "backbone"];
    table(&[&figures[..], &boards].concat(), &sheets, |sheet| {
        let SessionCost { written, multiply_adds, .. } = sheet.estimated;
        let kilobytes = [sheet.files, sheet.slots, written as u64, sheet.written];
        let kilobytes = kilobytes.map(|bytes| bytes.div_ceil(1000).to_string());
        let millions = [multiply_adds, sheet.backbone].map(|count| format!("{:.0}", count as f64 / 1e6));
        let seconds = BOARDS.map(|board| format!("{:.2}", board.seconds(multiply_adds, sheet.backbone)));
        kilobytes.into_iter().chain(millions).chain(seconds).collect()
    });
}

/// Prints a table with a line for each sheet.
fn table(columns: &[&str], sheets: &[Sheet], line: impl Fn(&Sheet) -> Vec<String>) {
    println!("| bundle | known | {} |\n|---|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
    for sheet in sheets {
        println!("| {} | {} | {} |", sheet.bundle, sheet.known, line(sheet).join(" | "));
    }
}

/// What one session takes.
struct Sheet {
    bundle: String,
    known: usize,
    /// What `SessionCost` tells beforehand.
    estimated: SessionCost,
    /// Most bytes that the allocator had handed out: bundle and state, and what the session took beside them.
    measured: usize,
    /// Most resident bytes of a process that learns from pictures.
    resident: usize,
    /// Bytes of the bundle's files that a device needs.
    files: u64,
    /// Bytes of both slots.
    slots: u64,
    /// Bytes that the session handed to the system to write.
    written: u64,
    /// Multiply-adds of the backbone for the shots' views.
    backbone: u64,
}

/// Measures beside every number of known classes.
fn sheets(folder: &Path) -> Vec<Sheet> {
    let scratch = tempfile::tempdir().unwrap();
    let bundle = copy_with_room(folder, &scratch.path().join("bundle"), KNOWN[KNOWN.len() - 1] + NEW.len());
    let name = folder.file_name().unwrap().to_string_lossy();
    let sheet = |known| {
        eprintln!("{name} beside {known}");
        sheet(&name, &bundle, known, &scratch.path().join(format!("state-{known}")))
    };
    KNOWN.map(sheet).into()
}

fn sheet(name: &str, bundle: &Path, known: usize, state: &Path) -> Sheet {
    let mut random = Random::new(1, "budget");
    let labels: Vec<String> = (0..known).map(|class| format!("class {class}")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let mut learner = open(bundle, state);
    Session::of(&labels, &learner, &mut random).learn(&mut learner);
    drop(learner);

    let before = held();
    let mut learner = open(bundle, state);
    // The file of the backbone, which a device may keep elsewhere, is not part of the estimate.
    let opened = held() - before - fs::metadata(bundle.join(BACKBONE)).unwrap().len() as usize;
    let extent = SessionExtent {
        known_classes: known,
        known_shots: SHOTS * known,
        new_classes: NEW.len(),
        new_shots: SHOTS * NEW.len(),
        threads: usable_threads(),
    };
    let estimated = SessionCost::of(learner.base_model(), extent).expect("shipped bundles have statistics");
    let session = Session::of(&NEW, &learner, &mut random);
    let began = bytes_written().unwrap();
    let ((), more) = peak_of(|| session.learn(&mut learner));
    let written = bytes_written().unwrap() - began;
    let slots = Slot::BOTH.map(|slot| learner.store().slots().read(slot).unwrap().unwrap().len() as u64);
    let pictures = SHOTS * NEW.len() * learner.base_model().config.views;
    let backbone = pictures as u64 * of_backbone(learner.bundle());
    learner.undo(1, &mut ()).unwrap().durable().unwrap();
    drop(learner);
    let (measured, resident, files) = (opened + more, resident(bundle, state), files(bundle));
    Sheet {
        bundle: name.into(),
        known,
        estimated,
        measured,
        resident,
        files,
        slots: slots.iter().sum(),
        written,
        backbone,
    }
}

fn open(bundle: &Path, state: &Path) -> Learner {
    Learner::open(bundle, state).unwrap()
}

/// Labels with the features of their shots.
struct Session<'a> {
    labels: &'a [&'a str],
    shots: Vec<Array3<f32>>,
}

impl<'a> Session<'a> {
    fn of(labels: &'a [&'a str], learner: &Learner, random: &mut Random) -> Self {
        let shots = labels.iter().map(|_| class(learner.base_model(), random)).collect();
        Self { labels, shots }
    }

    fn learn(&self, learner: &mut Learner) {
        let shots = self.shots.iter().map(|shots| Shots::Features(shots.view()));
        let new: Vec<(&str, Shots<'_>)> = self.labels.iter().copied().zip(shots).collect();
        learner.learn_many(&new, &mut ()).unwrap().durable().unwrap();
    }
}

/// Multiply-adds of the backbone for a picture. Where it was imported as a file nobody counted them: those of the
/// shipped bundle with the same file then.
fn of_backbone(bundle: &Bundle) -> u64 {
    let same = |path: &PathBuf| {
        let other = Bundle::open(path).unwrap().manifest;
        let counted = other.backbone.multiply_adds;
        (counted > 0 && other.files[BACKBONE] == bundle.manifest.files[BACKBONE]).then_some(counted)
    };
    match bundle.manifest.backbone.multiply_adds {
        0 => shipped().iter().find_map(same).unwrap_or(0),
        counted => counted,
    }
}

/// Bytes of a bundle's files that a device needs.
fn files(bundle: &Path) -> u64 {
    let Bundle { manifest, .. } = Bundle::open(bundle).unwrap();
    let needed = manifest.files.keys().filter(|name| *name != BENCHMARK && !name.contains("int8"));
    needed.map(|name| fs::metadata(bundle.join(name)).unwrap().len()).sum()
}

/// Largest resident memory of a process of its own that learns the session's classes from pictures, in bytes.
fn resident(bundle: &Path, state: &Path) -> usize {
    let mut command = Command::new(env::current_exe().unwrap());
    let output = command.envs(OF_CHILD.into_iter().zip([bundle, state])).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// Learns the session's classes from pictures, and prints the largest resident memory.
fn learn_from_pictures(bundle: &Path, state: &Path) {
    let shots = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/shots/learn");
    let new = NEW.map(|label| (label, Shots::folder(shots.join(label)).unwrap()));
    open(bundle, state).learn_many(&new, &mut ()).unwrap().durable().unwrap();
    println!("{}", 1024 * status(std::process::id(), "VmHWM"));
}
