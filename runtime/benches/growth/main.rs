//! What one more class costs beside ten, a hundred and a thousand learned ones, on every shipped bundle:
//!
//! ```sh
//! cargo bench -p orco-runtime --bench growth              # or some: -- everyday cifar100-edge
//! ```
//!
//! "One more" is the time until the class is kept and answers in closed form, "aligned" what it then takes until the
//! head is aligned to it and kept, too; in KB, what each of the two hands to the file system.
//!
//! Shots are features drawn around the features of the bundle's exemplars, five for each class, with the views that the
//! bundle keeps. Where a bundle has too few pseudo-targets for a thousand classes, random directions are put beside
//! them.

#[path = "../support/mod.rs"]
mod support;

use std::fmt::Display;
use std::path::Path;
use std::time::Instant;

use ndarray::{Array2, Array3, ArrayView3, Axis};
use orco_core::random::Random;
use orco_runtime::learner::{AlignmentTime, Learner, Shots};
use orco_runtime::state::classify::Classifier;
use orco_runtime::state::session::NewClass;
use orco_trials::benchmark::{Unit, record};
use orco_trials::median;
use support::{bundles, bytes_written, class, roomy};

const KNOWN: [usize; 3] = [10, 100, 1000];
/// Times that everything is measured; the median counts.
const RUNS: usize = 3;

/// What is measured, and in which unit.
const COLUMNS: [(&str, &str); 7] = [
    ("first answer", "ms"),
    ("next answer", "ms"),
    ("provisional", "ms"),
    ("one more", "ms"),
    ("aligned", "ms"),
    ("one more", "KB"),
    ("aligned", "KB"),
];

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
    let bundle = roomy(bundle, &folder.path().join("bundle"), KNOWN[KNOWN.len() - 1] + 1);
    let mut random = Random::new(1, "growth");
    let state = folder.path().join("state");
    let mut known = 0;
    for goal in KNOWN {
        let open = || Learner::open(&bundle, &state).unwrap();
        let mut learner = open();
        let labels: Vec<String> = (known..goal).map(|class| format!("class {class}")).collect();
        let shots: Vec<Array3<f32>> = labels.iter().map(|_| class(learner.base_model(), &mut random)).collect();
        let new: Vec<(&str, Shots<'_>)> =
            labels.iter().zip(&shots).map(|(label, shots)| (label.as_str(), Shots::Features(shots.view()))).collect();
        learner.learn_many(&new, &mut ()).unwrap().durable().unwrap();
        known = goal;
        let runs: Vec<[f64; COLUMNS.len()]> =
            (0..RUNS).map(|_| one_more(open, &class(learner.base_model(), &mut random))).collect();
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

/// The [columns](COLUMNS) for one more class with these shots. The class is taken back at the end.
fn one_more(open: impl Fn() -> Learner, shots: &Array3<f32>) -> [f64; COLUMNS.len()] {
    let picture = shots.index_axis(Axis(0), 0).row(0).to_owned().insert_axis(Axis(0));
    let mut learner = None;
    let first = milliseconds(|| answer(learner.insert(open()), &picture));
    let mut learner = learner.expect("it has answered");
    let next = milliseconds(|| answer(&mut learner, &picture));
    let provisional = imprinting(&learner, shots.view());
    learner.settings_mut().alignment = AlignmentTime::Later;
    // 0 where the system does not tell.
    let kilobytes_written = || bytes_written().unwrap_or(0) as f64 / 1e3;
    let mut written = vec![kilobytes_written()];
    let kept = milliseconds(|| {
        learner.learn_many(&[("one more", Shots::Features(shots.view()))], &mut ()).unwrap().durable().unwrap();
    });
    written.push(kilobytes_written());
    let aligned = milliseconds(|| {
        learner.align(&mut ()).unwrap().durable().unwrap();
    });
    written.push(kilobytes_written());
    learner.settings_mut().alignment = AlignmentTime::Now;
    learner.undo(1, &mut ()).unwrap().durable().unwrap();
    [first, next, provisional, kept, aligned, written[1] - written[0], written[2] - written[1]]
}

/// Milliseconds that a call takes.
fn milliseconds(call: impl FnOnce()) -> f64 {
    let started = Instant::now();
    call();
    1e3 * started.elapsed().as_secs_f64()
}

fn answer(learner: &mut Learner, picture: &Array2<f32>) {
    assert_eq!(learner.classify_features(picture.view()).len(), 1);
}

/// Milliseconds until a new class answers, from the features of its shots: before the session that learns it has run.
fn imprinting(learner: &Learner, shots: ArrayView3<'_, f32>) -> f64 {
    let mut classifier = Classifier::new(learner.base_model(), learner.state());
    let shots = shots.outer_iter().map(|shot| shot.iter().copied().collect()).collect();
    let class = NewClass { label: "one more".into(), shots };
    milliseconds(|| classifier.imprint(&class.shots))
}
