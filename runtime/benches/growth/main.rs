//! What one more class costs beside ten, a hundred and a thousand learned ones, on every shipped bundle:
//!
//! ```sh
//! cargo bench -p orco-runtime --bench growth              # or some: -- everyday cifar100-edge
//! ```
//!
//! "One more" is the time until the class is kept and answers in closed form, "aligned" what it then takes until the
//! head is aligned to it and kept, too; in KB, what each of the two hands to the file system. "Undo", "forget" and
//! "rename" are of that one class, once the head is aligned to it: as "one more", until the change is kept and answers
//! follow from it in closed form.
//!
//! Shots are features drawn around the features of the bundle's exemplars, five for each class, with the views that the
//! bundle keeps. Where a bundle has too few pseudo-targets for a thousand classes, random directions are put beside
//! them.

#[path = "../support/mod.rs"]
mod support;

use std::fmt::Display;
use std::path::Path;

use ndarray::{Array2, Array3, ArrayView3, Axis};
use orco_core::random::Random;
use orco_runtime::learner::{AlignmentTime, Learner, Shots};
use orco_runtime::state::classify::Classifier;
use orco_runtime::state::session::NewClass;
use orco_trials::benchmark::{Unit, milliseconds, record};
use orco_trials::folder::copy_all;
use orco_trials::median;
use support::{bundles, bytes_written, class, copy_with_room};

const KNOWN: [usize; 3] = [10, 100, 1000];
/// Times that everything is measured; the median counts.
const RUNS: usize = 3;

/// What is measured, and in which unit.
const COLUMNS: [(&str, &str); 10] = [
    ("first answer", "ms"),
    ("next answer", "ms"),
    ("provisional", "ms"),
    ("one more", "ms"),
    ("aligned", "ms"),
    ("undo", "ms"),
    ("forget", "ms"),
    ("rename", "ms"),
    ("one more", "KB"),
    ("aligned", "KB"),
];

/// Label of the class that is one more, and what it is renamed to.
const LABEL: &str = "one more";
const NEW_LABEL: &str = "one more, renamed";

fn main() {
    let bundles = bundles();
    println!("{:<20} {:>6}{}", "bundle", "known", in_columns(COLUMNS.map(|(what, _)| what)));
    println!("{:<20} {:>6}{}", "", "", in_columns(COLUMNS.map(|(_, unit)| unit)));
    for bundle in bundles {
        measure(&bundle);
    }
}

fn in_columns<T: Display>(cells: [T; COLUMNS.len()]) -> String {
    cells.into_iter().map(|cell| format!(" {cell:>12}")).collect()
}

/// Prints a line for each number of known classes.
fn measure(bundle: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let name = bundle.file_name().unwrap().to_string_lossy().into_owned();
    let bundle = copy_with_room(bundle, &folder.path().join("bundle"), KNOWN[KNOWN.len() - 1] + 1);
    let mut random = Random::new(1, "growth");
    let state = folder.path().join("state");
    let mut known = 0;
    for goal in KNOWN {
        let mut learner = Learner::open(&bundle, &state).unwrap();
        let labels: Vec<String> = (known..goal).map(|class| format!("class {class}")).collect();
        let shots: Vec<Array3<f32>> = labels.iter().map(|_| class(learner.base_model(), &mut random)).collect();
        let new: Vec<(&str, Shots<'_>)> =
            labels.iter().zip(&shots).map(|(label, shots)| (label.as_str(), Shots::Features(shots.view()))).collect();
        learner.learn_many(&new, &mut ()).unwrap().durable().unwrap();
        known = goal;
        let mut run = || {
            // Every run begins with the same state, whatever the one before it did.
            let copy = tempfile::tempdir_in(folder.path()).unwrap();
            copy_all(&state, copy.path());
            one_more(|| Learner::open(&bundle, copy.path()).unwrap(), &class(learner.base_model(), &mut random))
        };
        let runs: Vec<[f64; COLUMNS.len()]> = (0..RUNS).map(|_| run()).collect();
        let medians: [f64; COLUMNS.len()] =
            std::array::from_fn(|column| median::<f64>(runs.iter().map(|run| run[column]).collect()));
        println!("{name:<20} {known:>6}{}", in_columns(medians.map(|median| format!("{median:.1}"))));
        for ((what, unit), median) in COLUMNS.into_iter().zip(medians) {
            let name = format!("{name} beside {known}, {what}");
            match unit {
                "ms" if what != "provisional" => record(name, median, Unit::Milliseconds),
                // None where the system does not tell.
                "KB" if median > 0.0 => record(format!("{name}, written"), median, Unit::Kilobytes),
                _ => {}
            }
        }
    }
}

/// The [columns](COLUMNS) for one more class with these shots.
fn one_more(open: impl Fn() -> Learner, shots: &Array3<f32>) -> [f64; COLUMNS.len()] {
    let picture = shots.index_axis(Axis(0), 0).row(0).to_owned().insert_axis(Axis(0));
    let mut learner = None;
    let first = milliseconds(|| answer(learner.insert(open()), &picture));
    let mut learner = learner.expect("it has answered");
    let next = milliseconds(|| answer(&mut learner, &picture));
    let provisional = imprinting(&learner, shots.view());
    learner.settings_mut().alignment = AlignmentTime::Later;
    let known = learner.classes().count();
    // 0 where the system does not tell.
    let kilobytes_written = || bytes_written().unwrap_or(0) as f64 / 1e3;
    let mut written = vec![kilobytes_written()];
    let kept = milliseconds(|| learn(&mut learner, shots));
    written.push(kilobytes_written());
    let aligned = milliseconds(|| align(&mut learner));
    written.push(kilobytes_written());
    let undone = milliseconds(|| {
        learner.undo(1, &mut ()).unwrap().durable().unwrap();
    });
    assert!(!is_known(&learner, LABEL) && learner.classes().count() == known, "what was learned is undone");
    // Not measured: the class comes back, so that there is one to rename.
    learn(&mut learner, shots);
    align(&mut learner);
    let renamed = milliseconds(|| learner.rename(LABEL, NEW_LABEL).unwrap().durable().unwrap());
    assert!(is_known(&learner, NEW_LABEL) && learner.classes().count() == known + 1, "it has another label");
    let forgotten = milliseconds(|| {
        learner.forget(NEW_LABEL, &mut ()).unwrap().durable().unwrap();
    });
    assert!(!is_known(&learner, NEW_LABEL) && learner.classes().count() == known, "it is forgotten");
    let [kept_kilobytes, aligned_kilobytes] = [0, 1].map(|change| written[change + 1] - written[change]);
    [first, next, provisional, kept, aligned, undone, forgotten, renamed, kept_kilobytes, aligned_kilobytes]
}

/// Learns the class, which then answers in closed form.
fn learn(learner: &mut Learner, shots: &Array3<f32>) {
    learner.learn(LABEL, Shots::Features(shots.view())).unwrap().durable().unwrap();
}

/// Aligns the head to what was learned.
fn align(learner: &mut Learner) {
    learner.align(&mut ()).unwrap().durable().unwrap();
}

fn is_known(learner: &Learner, label: &str) -> bool {
    learner.classes().any(|class| class.label == label)
}

fn answer(learner: &mut Learner, picture: &Array2<f32>) {
    assert_eq!(learner.classify_features(picture.view()).len(), 1);
}

/// Milliseconds until a new class answers, from the features of its shots: before the session that learns it has run.
fn imprinting(learner: &Learner, shots: ArrayView3<'_, f32>) -> f64 {
    let mut classifier = Classifier::new(learner.base_model(), learner.state());
    let shots = shots.outer_iter().map(|shot| shot.iter().copied().collect()).collect();
    let class = NewClass { label: LABEL.into(), shots };
    milliseconds(|| classifier.imprint(&class.shots))
}
