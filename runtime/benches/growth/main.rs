//! What one more class costs beside ten, a hundred and a thousand learned ones, on every shipped bundle:
//!
//! ```sh
//! cargo bench -p orco-runtime --bench growth              # or some: -- everyday cifar100-edge
//! ```
//!
//! "One more" is the time until the class is kept and answers in closed form, "aligned" what it then takes until the
//! head is aligned to it and kept, too.
//!
//! Shots are features drawn around the features of the bundle's exemplars, five for each class, with the views that the
//! bundle keeps. Where a bundle has too few pseudo-targets for a thousand classes, random directions are put beside
//! them.

#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::time::Instant;

use ndarray::{Array2, Array3, ArrayView3, Axis};
use orco_core::random::Random;
use orco_runtime::learner::{AlignmentTime, Learner, Shots};
use orco_runtime::state::classify::Classifier;
use orco_runtime::state::session::NewClass;
use orco_trials::benchmark::{Unit, record};
use orco_trials::median;
use support::{bundles, class, roomy};

const KNOWN: [usize; 3] = [10, 100, 1000];
/// Times that everything is measured; the median counts.
const RUNS: usize = 3;

fn main() {
    let bundles = bundles();
    println!(
        "{:<20} {:>6} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "bundle", "known", "first answer", "next answer", "provisional", "one more", "aligned", "state"
    );
    println!("{:<20} {:>6} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}", "", "", "ms", "ms", "ms", "ms", "ms", "KB");
    for bundle in bundles {
        measure(&bundle);
    }
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
        let runs: Vec<[f64; 5]> =
            (0..RUNS).map(|_| one_more(open, &class(learner.base_model(), &mut random))).collect();
        let bytes = fs::metadata(state.join("slot-a")).unwrap().len();
        let [first, next, provisional, more, aligned]: [f64; 5] =
            std::array::from_fn(|column| 1e3 * median::<f64>(runs.iter().map(|run| run[column]).collect()));
        println!(
            "{name:<20} {known:>6} {first:>12.1} {next:>12.2} {provisional:>12.2} {more:>12.0} {aligned:>12.0} \
             {:>12.0}",
            bytes as f64 / 1e3
        );
        for (what, took) in [("first answer", first), ("next answer", next), ("one more", more), ("aligned", aligned)] {
            record(format!("{name} beside {known}, {what}"), took, Unit::Milliseconds);
        }
    }
}

/// Seconds until the first answer and until the next one, until one more class with these shots answers, until it is
/// kept, and until the head is aligned to it. The class is taken back at the end.
fn one_more(open: impl Fn() -> Learner, shots: &Array3<f32>) -> [f64; 5] {
    let picture = shots.index_axis(Axis(0), 0).row(0).to_owned().insert_axis(Axis(0));
    // The bundle is open already on a device that answers all day; the state is not.
    let started = Instant::now();
    let mut learner = open();
    answer(&mut learner, &picture);
    let first = started.elapsed().as_secs_f64();
    let next = seconds(|| answer(&mut learner, &picture));
    let provisional = imprinting(&learner, shots.view());
    learner.settings_mut().alignment = AlignmentTime::Later;
    let kept = seconds(|| {
        learner.learn_many(&[("one more", Shots::Features(shots.view()))], &mut ()).unwrap().durable().unwrap();
    });
    let aligned = seconds(|| {
        learner.align(&mut ()).unwrap().durable().unwrap();
    });
    learner.settings_mut().alignment = AlignmentTime::Now;
    learner.undo(1, &mut ()).unwrap().durable().unwrap();
    [first, next, provisional, kept, aligned]
}

/// Seconds that a call takes.
fn seconds(call: impl FnOnce()) -> f64 {
    let started = Instant::now();
    call();
    started.elapsed().as_secs_f64()
}

fn answer(learner: &mut Learner, picture: &Array2<f32>) {
    assert_eq!(learner.classify_features(picture.view()).len(), 1);
}

/// Seconds until a new class answers, from the features of its shots: before the session that learns it has run.
fn imprinting(learner: &Learner, shots: ArrayView3<'_, f32>) -> f64 {
    let mut classifier = Classifier::new(learner.base_model(), learner.state());
    let shots = shots.outer_iter().map(|shot| shot.iter().copied().collect()).collect();
    let class = NewClass { label: "one more".into(), shots };
    seconds(|| classifier.imprint(&class.shots))
}
