//! Measures all that a report shows.

use std::ops::{ControlFlow, Range};
use std::sync::Mutex;

use orco_runtime::bundle::Bundle;
use orco_state::state::{BaseModel, State};
use orco_state::target::{argmax, cosines};

use super::similarity::{KINDS, Similarities, SimilarityKind};
use super::{BundleReport, Confusion, FeaturePlane, Forgetting, PlaneClass, TradeOff, angles};
use orco_benchmark::benchmark::Benchmark;
use orco_benchmark::{EvaluateError, SessionScores, summarise};

use crate::geometry::measured_projections;
use crate::measurement::Measurement;
use crate::published::PaperTable;
use crate::results::Results;
use crate::system::System;

/// Classes whose pictures are shown in a plane, half of them base classes.
const SHOWN: usize = 8;
/// Pictures of each of these classes.
const PICTURES: usize = 40;
/// Points that are kept of a curve.
const POINTS: usize = 160;

/// What a report keeps of a system's way through the draws.
#[derive(Default)]
struct Collector {
    trade_off: Option<TradeOff>,
    confusion: Vec<Confusion>,
    /// Of every draw and session.
    accuracies: Vec<ClassAccuracies>,
    /// Before the first session and after the last one, each with its session.
    states: Vec<(usize, State)>,
}

/// The accuracies of all classes after a session of a draw, in percent.
struct ClassAccuracies {
    draw: usize,
    session: usize,
    classes: Vec<Option<f64>>,
}

/// What a report measures.
#[derive(Clone, Copy)]
pub struct ReportPlan<'a> {
    /// The bundle.
    pub bundle: &'a Bundle,
    /// Its own benchmark.
    pub benchmark: &'a Benchmark,
    /// The systems, [`System::DEVICE`] first.
    pub systems: &'a [System],
    /// Draws of the shots; of those that are one and the same, one is measured.
    pub draws: usize,
    /// Seed of the draws, of shuffling and of perturbation.
    pub seed: u64,
    /// The command that makes the report.
    pub command: &'a str,
}

/// Measures all systems of a plan. `on_system` is told of each before it is measured, `on_epoch` of every epoch of
/// training, from any thread, and may cancel there. A system that the bundle lacks something for is left out.
///
/// # Errors
/// [`EvaluateError`] if a session cannot be learned.
pub fn collect(
    plan: &ReportPlan<'_>,
    on_system: &mut dyn FnMut(System),
    on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync),
) -> Result<BundleReport, EvaluateError> {
    let ReportPlan { bundle, benchmark, systems, seed, command, .. } = *plan;
    let draws = benchmark.distinct_draws(plan.draws);
    let base_model = &bundle.base_model;
    let config = &base_model.config;
    let mut report = BundleReport {
        results: Results { seed, ..Results::new(&bundle.manifest.name, &benchmark.source, draws) },
        command: command.into(),
        base: base_model.classes.len(),
        ways: benchmark.ways.clone(),
        shots: benchmark.shots,
        paper: PaperTable::of(&benchmark.source, base_model.classes.len(), &benchmark.ways)
            .filter(|_| benchmark.measured_on_test),
        trade_off: Vec::new(),
        confusion: Vec::new(),
        forgetting: Vec::new(),
        planes: None,
        similarities: Vec::new(),
        angles: angles::during_generation(base_model, bundle.manifest.provenance.seed),
    };
    for system in systems.iter().copied().filter(|system| system.fits(base_model)) {
        on_system(system);
        let measurement = Measurement { base_model, benchmark, system, config, seed };
        let collector = Mutex::new(Collector::default());
        let look = |draw: usize, scored: &SessionScores<'_>| {
            // What a panic left half done is of no use, but the panic itself comes through.
            let Ok(mut collector) = collector.lock() else { return };
            collector.look(system, draw, benchmark.ways.len(), scored);
        };
        let measured = measurement.draws_seen(draws, on_epoch, &look)?;
        report.results.systems.push(summarise(system.name(), &measured).into());
        let mut collected = collector.into_inner().unwrap_or_default();
        report.trade_off.extend(collected.trade_off.take());
        if system == System::DEVICE {
            report.forgetting = forgetting(&report, base_model, benchmark, &collected.accuracies);
            report.confusion = collected.confusion;
        } else if system == System::PROGRAM {
            if let Some((_, last)) = collected.states.last() {
                report.planes = planes(base_model, benchmark, last);
            }
            let similar = |(session, state): &_| similarities(base_model, benchmark, *session, state);
            report.similarities = collected.states.iter().map(similar).collect();
        }
    }
    Ok(report)
}

impl Collector {
    fn look(&mut self, system: System, draw: usize, last: usize, scored: &SessionScores<'_>) {
        let first_draw = draw == 0;
        if system == System::DEVICE {
            let (session, classes) = (scored.session, scored.counts().of_classes());
            self.accuracies.push(ClassAccuracies { draw, session, classes });
            if first_draw {
                self.confusion.push(confusion(scored));
            }
        }
        if first_draw && scored.session == last {
            let measured = scored.counts();
            let row = measured.row(last);
            let rounded = |(base, new): (f64, f64)| ((base * 1e3).round() / 1e3, (new * 1e3).round() / 1e3);
            let curve = measured.curve();
            let every = curve.len().div_ceil(POINTS).max(1);
            let end = curve.last().copied();
            let points = curve.into_iter().step_by(every).chain(end).map(rounded).collect();
            let own = (row.base, row.inc.unwrap_or(0.0));
            self.trade_off = Some(TradeOff { system: system.name().into(), points, own });
        }
        if first_draw && system == System::PROGRAM && (scored.session == 0 || scored.session == last) {
            self.states.extend(scored.state.map(|state| (scored.session, state.clone())));
        }
    }
}

pub(super) fn confusion(scored: &SessionScores<'_>) -> Confusion {
    let mut counts = vec![vec![0; scored.classes]; scored.classes];
    scored.pictures().for_each(|(class, scores)| counts[class][argmax(scores)] += 1);
    Confusion { session: scored.session, counts }
}

/// Means over the draws, of every class of which there are measured pictures.
fn forgetting(
    report: &BundleReport,
    base_model: &BaseModel,
    benchmark: &Benchmark,
    accuracies: &[ClassAccuracies],
) -> Vec<Forgetting> {
    let labels = base_model.classes.iter().map(|class| &class.label).chain(&benchmark.labels);
    let last = report.ways.len();
    let of_class = |(class, label): (usize, &String)| {
        let session = report.session_of(class);
        let at = |draw: usize, session: usize| {
            let found = accuracies.iter().find(|after| (after.draw, after.session) == (draw, session));
            found.and_then(|after| after.classes[class])
        };
        let mean = |of: &dyn Fn(usize) -> Option<f64>| {
            let sum: Option<f64> = (0..report.results.draws).map(of).sum();
            Some(sum? / report.results.draws as f64)
        };
        let best = |draw: usize| (session..last).filter_map(|session| at(draw, session)).fold(0.0, f64::max);
        Some(Forgetting {
            label: label.clone(),
            session,
            first: mean(&|draw| at(draw, session))?,
            last: mean(&|draw| at(draw, last))?,
            forgotten: if session < last { mean(&|draw| Some(best(draw) - at(draw, last)?)) } else { None },
        })
    };
    labels.enumerate().filter_map(of_class).collect()
}

/// The pictures that are shown in planes.
pub(super) struct ShownPictures {
    /// Their classes, half of them base classes.
    pub(super) classes: Vec<usize>,
    /// Features, `[pictures, inputs]`.
    pub(super) rows: Vec<f32>,
    /// For every picture, which of the classes.
    pub(super) of: Vec<usize>,
}

impl ShownPictures {
    /// The classes by their names in a state; `None` if it does not know one.
    pub(super) fn plane_classes(&self, base_model: &BaseModel, state: &State) -> Option<Vec<PlaneClass>> {
        let base = base_model.classes.len();
        let named = |class: &usize| {
            Some(PlaneClass { label: state.class(base_model, *class)?.label.clone(), is_base: *class < base })
        };
        self.classes.iter().map(named).collect()
    }
}

/// A few measured pictures of a few classes, which are spread over all that have such pictures.
pub(super) fn shown_pictures(base_model: &BaseModel, benchmark: &Benchmark) -> ShownPictures {
    let (base, new) = (base_model.classes.len(), benchmark.labels.len());
    let mut is_measured = vec![false; base + new];
    benchmark.measured.classes().iter().for_each(|class| is_measured[*class as usize] = true);
    let spread = |of: Range<usize>| {
        let measured: Vec<usize> = of.filter(|&class| is_measured[class]).collect();
        let shown = measured.len().min(SHOWN / 2);
        (0..shown).map(move |n| measured[n * measured.len() / shown])
    };
    let classes: Vec<usize> = spread(0..base).chain(spread(base..base + new)).collect();
    let inputs = base_model.head.inputs;
    let (mut rows, mut of) = (Vec::new(), Vec::new());
    let features = benchmark.measured.clean();
    for (number, &class) in classes.iter().enumerate() {
        let own = benchmark.measured.classes().iter().enumerate().filter(|(_, of)| **of as usize == class);
        for (picture, _) in own.take(PICTURES) {
            rows.extend_from_slice(&features[picture * inputs..][..inputs]);
            of.push(number);
        }
    }
    ShownPictures { classes, rows, of }
}

/// Pictures of some classes by their features, and by the head as the last session of the published program left it.
fn planes(base_model: &BaseModel, benchmark: &Benchmark, state: &State) -> Option<[FeaturePlane; 2]> {
    let shown = shown_pictures(base_model, benchmark);
    let named = shown.plane_classes(base_model, state)?;
    let ShownPictures { mut rows, of, .. } = shown;
    let inputs = base_model.head.inputs;
    let projected = state.head(base_model).project(&rows);
    orco_core::math::normalise_rows(&mut rows, inputs);
    Some([
        FeaturePlane::of(&rows, inputs, &of, named.clone()),
        FeaturePlane::of(&projected, base_model.dimension, &of, named),
    ])
}

/// Of the pictures of all classes that the state knows.
fn similarities(base_model: &BaseModel, benchmark: &Benchmark, session: usize, state: &State) -> Similarities {
    let dimension = base_model.dimension;
    let classes = base_model.classes.len() + state.classes.len();
    let (projected, of) = measured_projections(base_model, benchmark, state, classes);
    let assigned = cosines(&projected, &state.assigned_targets(base_model), dimension);
    let free: Vec<f32> =
        state.free_targets(base_model).into_iter().flat_map(|target| base_model.target(target)).copied().collect();
    let (mut own_base, mut own_new, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (row, class) in assigned.chunks_exact(classes).zip(of) {
        let own = if class < base_model.classes.len() { &mut own_base } else { &mut own_new };
        own.push(row[class]);
        others.extend(row.iter().enumerate().filter(|(of, _)| *of != class).map(|(_, cosine)| *cosine));
    }
    let kinds = [own_base, own_new, others, cosines(&projected, &free, dimension)];
    let kinds = KINDS.iter().zip(kinds).filter_map(|(name, cosines)| SimilarityKind::of(name, &cosines));
    Similarities { session, kinds: kinds.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_that_are_shown_have_pictures() {
        let bundle = Bundle::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/cifar100-micro")).unwrap();
        let mut benchmark = Benchmark::of(&bundle).unwrap();
        let all = shown_pictures(&bundle.base_model, &benchmark).classes;
        assert_eq!(all, [0, 15, 30, 45, 60, 70, 80, 90]);
        let is_kept = |picture: &usize| ![0, 60, 61].contains(&benchmark.measured.classes()[*picture]);
        let kept: Vec<usize> = (0..benchmark.measured.len()).filter(is_kept).collect();
        benchmark.measured = benchmark.measured.only(&kept);
        let ShownPictures { classes, of, .. } = shown_pictures(&bundle.base_model, &benchmark);
        assert_eq!((classes[0], classes[4], classes.len()), (1, 62, 8));
        assert!((0..classes.len()).all(|number| of.contains(&number)));
    }
}
