//! Which score tells pictures of unknown classes from known ones? Measured on base classes alone: a fifth of them in
//! turn is taken out of the bundle, and its samples set aside are the unknowns among those of all.
//!
//!     cargo run -p orco-lab --example unknown -- models/everyday

use orco_core::config::{AnswerWeights, MethodConfig};
use orco_core::math::{exp, highest, ln};
use orco_lab::unknown::auroc;
use orco_runtime::bundle::Bundle;
use orco_state::bank::Bank;
use orco_state::classify::Classifier;
use orco_state::state::{BaseModel, State};

const FOLDS: usize = 5;

fn main() {
    for folder in std::env::args().skip(1) {
        let bundle = Bundle::open(&folder).expect("a bundle's folder");
        let base_model = &bundle.base_model;
        let Some(statistics) = &base_model.statistics else {
            println!("{folder}: no statistics");
            continue;
        };
        let aside = &statistics.set_aside;
        println!("{folder}: {} samples set aside of {} classes", aside.len(), base_model.classes.len());
        let mut areas: Vec<(String, f64)> = Vec::new();
        for fold in 0..FOLDS {
            let is_out = |class: usize| class % FOLDS == fold;
            let reduced = without(base_model, &is_out);
            for (name, scores) in candidates(&reduced, &aside.clean()) {
                let side = |out: bool| -> Vec<f32> {
                    let own = scores.iter().zip(aside.classes()).filter(|(_, class)| is_out(**class as usize) == out);
                    own.map(|(score, _)| *score).collect()
                };
                let area = auroc(&side(false), &side(true)).expect("both sides have samples") / FOLDS as f64;
                match areas.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum += area,
                    None => areas.push((name, area)),
                }
            }
        }
        areas.iter().for_each(|(name, area)| println!("  {name:44} AUROC {:.3}", area));
    }
}

/// The bundle without some of its classes.
fn without(base_model: &BaseModel, is_out: &dyn Fn(usize) -> bool) -> BaseModel {
    let mut reduced = base_model.clone();
    for class in (0..base_model.classes.len()).rev().filter(|class| is_out(*class)) {
        reduced.classes.remove(class);
        reduced.exemplars.remove_class(class as u32);
        if let Some(statistics) = &mut reduced.statistics {
            let banks: [&mut Bank; 3] =
                [&mut statistics.directions, &mut statistics.whitened, &mut statistics.set_aside];
            banks.into_iter().for_each(|bank| bank.remove_class(class as u32));
        }
    }
    reduced
}

/// Scores of every row of features, higher for what is known.
fn candidates(base_model: &BaseModel, features: &[f32]) -> Vec<(String, Vec<f32>)> {
    let state = State::fresh(base_model, [0; 32]);
    let count = base_model.classes.len();
    let rows = |answer: Option<AnswerWeights>| {
        let config = MethodConfig { answer: answer.or(base_model.config.answer), ..base_model.config.clone() };
        Classifier::with_config(base_model, &state, &config).scores(features)
    };
    let each = |rows: &[f32], score: &dyn Fn(&[f32]) -> f32| rows.chunks_exact(count).map(score).collect::<Vec<f32>>();
    let energy = |temperature: f32| {
        move |row: &[f32]| {
            let top = highest(row);
            top + temperature * ln(row.iter().map(|score| exp((score - top) / temperature)).sum())
        }
    };
    let probability = |temperature: f32| {
        move |row: &[f32]| {
            let top = highest(row);
            1.0 / row.iter().map(|score| exp((score - top) / temperature)).sum::<f32>()
        }
    };
    let lead = |row: &[f32]| {
        let top = highest(row);
        top - row.iter().filter(|score| **score < top).copied().fold(f32::MIN, f32::max)
    };
    let over_mean = |row: &[f32]| highest(row) - row.iter().sum::<f32>() / row.len() as f32;
    let none = AnswerWeights { means: 0.0, ..AnswerWeights::NEAREST_MEAN };
    let all = rows(None);
    let targets = rows(Some(AnswerWeights { targets: 1.0, ..none }));
    let means = rows(Some(AnswerWeights { means: 1.0, ..none }));
    let discriminant = rows(Some(AnswerWeights { discriminant: 1.0, ..none }));
    let mut found = vec![
        ("all parts: largest score".to_owned(), each(&all, &highest)),
        ("all parts: lead over the second".to_owned(), each(&all, &lead)),
        ("all parts: largest over mean".to_owned(), each(&all, &over_mean)),
        ("largest cosine to a target".to_owned(), each(&targets, &highest)),
        ("largest cosine to a mean".to_owned(), each(&means, &highest)),
        ("largest discriminant (distance less |z|^2)".to_owned(), each(&discriminant, &highest)),
        ("smallest distance, whitened".to_owned(), distance(base_model, features)),
    ];
    for temperature in [0.05, 0.1, 0.2, 0.4, 0.8] {
        found.push((format!("all parts: energy, T {temperature}"), each(&all, &energy(temperature))));
        found.push((format!("all parts: probability, T {temperature}"), each(&all, &probability(temperature))));
    }
    found
}

/// Minus the smallest squared distance to a class mean, under the whitened covariance.
fn distance(base_model: &BaseModel, features: &[f32]) -> Vec<f32> {
    use orco_core::discriminant::{Whitening, root_direction};
    use orco_core::math::normalise_rows;
    let statistics = base_model.statistics.as_ref().expect("asked by the caller");
    let inputs = base_model.head.inputs;
    let mut axes = statistics.axes.clean();
    normalise_rows(&mut axes, inputs);
    let whitening = Whitening { axes: &axes, damping: &statistics.damping, factor: statistics.factor };
    let means = statistics.whitened.clean();
    let nearest = |row: &[f32]| {
        let mut z = row.to_vec();
        root_direction(&mut z, &statistics.root_centre);
        whitening.apply(&mut z);
        let to = |mean: &[f32]| mean.iter().zip(&z).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
        -means.chunks_exact(inputs).map(to).fold(f32::MAX, f32::min)
    };
    features.chunks_exact(inputs).map(nearest).collect()
}
