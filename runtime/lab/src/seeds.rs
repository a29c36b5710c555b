//! One recipe trained with several seeds: what chance in the training does, beside what the draw of the shots does.

use std::fmt::{self, Write as _};

use orco_runtime::bundle::Bundle;
use orco_runtime::manifest::Manifest;
use orco_state::state::BaseModel;
use serde::{Deserialize, Serialize};

use orco_benchmark::benchmark::Benchmark;
use orco_benchmark::csv::csv_quoted;
use orco_benchmark::spread::{Spread, two_decimals};
use orco_benchmark::{
    AccuracyEstimateError, AccuracyEstimateErrors, Draw, Metric, SessionAccuracy, Summary, summarise,
};

/// A system, measured on what was trained with every seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedSummary {
    /// Number of the seeds.
    pub seeds: usize,
    /// Draws of the shots with each of them.
    pub draws: usize,
    /// Means over all draws and seeds. Deviations are those of the seeds' means, each over its draws; `draws` counts
    /// the seeds.
    pub over_seeds: Summary,
    /// Means over all draws and seeds. Deviations are over the draws of one seed: the root mean square of all seeds'
    /// ones.
    pub over_draws: Summary,
}

/// Why bundles do not differ by their seeds alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeedsError {
    /// There is one bundle at most.
    #[error("one bundle says nothing about seeds; name two or more, trained by one recipe with different seeds")]
    Few,
    /// Two trainings had the same seed.
    #[error("{first} and {second} were both trained with seed {seed}; train one of them with `orco-train run --seed`")]
    SameSeed {
        /// A bundle's folder.
        first: String,
        /// Another one's.
        second: String,
        /// The seed of both.
        seed: u64,
    },
    /// They differ in more.
    #[error("{first} and {second} differ in {what}, so not by their seeds alone")]
    Other {
        /// A bundle's folder.
        first: String,
        /// Another one's.
        second: String,
        /// What differs.
        what: &'static str,
    },
}

/// Makes sure that bundles differ by the seed of their training alone, as far as manifests tell - rate and losses of
/// the training are not in them -, and are measured on the same images.
///
/// # Errors
/// [`SeedsError`] names the first two that do not.
pub fn check(bundles: &[(Bundle, Benchmark)]) -> Result<(), SeedsError> {
    let Some(((first, measured), others)) = bundles.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Err(SeedsError::Few);
    };
    let shown = |bundle: &Bundle| bundle.folder.display().to_string();
    for (bundle, benchmark) in others {
        if let Some(what) = difference([first, bundle], [measured, benchmark]) {
            return Err(SeedsError::Other { first: shown(first), second: shown(bundle), what });
        }
    }
    for (index, (bundle, _)) in bundles.iter().enumerate() {
        let seed = bundle.manifest.provenance.seed;
        let same = bundles[..index].iter().find(|(other, _)| other.manifest.provenance.seed == seed);
        if let Some((other, _)) = same {
            return Err(SeedsError::SameSeed { first: shown(other), second: shown(bundle), seed });
        }
    }
    Ok(())
}

/// What two bundles, with their benchmarks, differ in beside the seed of their training.
fn difference(bundles: [&Bundle; 2], benchmarks: [&Benchmark; 2]) -> Option<&'static str> {
    let [ours, theirs] = bundles.map(|bundle| &bundle.manifest);
    let [base_model, other_base_model] = bundles.map(|bundle| &bundle.base_model);
    let [measured, other_measured] = benchmarks;
    let epochs = |manifest: &Manifest| (manifest.provenance.pretrain_epochs, manifest.provenance.align_epochs);
    let classes = |base_model: &BaseModel, benchmark: &Benchmark| {
        let base = base_model.classes.iter().map(|class| class.label.clone());
        base.chain(benchmark.labels.iter().cloned()).collect::<Vec<_>>()
    };
    let head = |base_model: &BaseModel| (base_model.head.inputs, base_model.head.hidden, base_model.head.outputs);
    // Mean and deviation of the colours follow from the base images that a seed leaves to the training.
    let prepared = |manifest: &Manifest| {
        let prepared = &manifest.preprocessing;
        (prepared.width, prepared.height, prepared.look)
    };
    let differences = [
        ("their backbones", ours.backbone != theirs.backbone),
        ("the sizes of their heads", head(base_model) != head(other_base_model)),
        ("what they were trained on", ours.provenance.trained_on != theirs.provenance.trained_on),
        ("how long they were trained", epochs(ours) != epochs(theirs)),
        ("how they prepare pictures", prepared(ours) != prepared(theirs)),
        ("how they draw views", ours.views != theirs.views),
        ("their settings", base_model.config != other_base_model.config),
        (
            "their classes, which a seed draws of synthetic data",
            classes(base_model, measured) != classes(other_base_model, other_measured),
        ),
        ("their sessions", (&measured.ways, measured.shots) != (&other_measured.ways, other_measured.shots)),
        (
            "the images that they are measured on, which a seed draws where no folder `test` sets them apart",
            (&measured.source, measured.measured_on_test, &measured.measured_sources)
                != (&other_measured.source, other_measured.measured_on_test, &other_measured.measured_sources),
        ),
    ];
    differences.into_iter().find(|(_, differs)| *differs).map(|(what, _)| what)
}

impl SeedSummary {
    /// Takes together what was measured of one system with each seed.
    ///
    /// # Panics
    /// If there is nothing, or sessions or numbers of draws differ.
    pub fn of(each: &[Summary]) -> Self {
        let draws = each[0].draws;
        assert!(each.iter().all(|summary| summary.draws == draws), "as many draws with each seed");
        let means = |summary: &Summary| Draw {
            rows: summary.sessions.clone(),
            estimate_errors: summary.estimate_errors.iter().map(|errors| errors.mean).collect(),
            operations: summary.operations,
            seconds: summary.seconds,
        };
        let over_seeds = summarise(&each[0].name, &each.iter().map(means).collect::<Vec<_>>());
        let root_mean_square = |of: &dyn Fn(&Summary) -> f64| {
            (each.iter().map(|summary| of(summary).powi(2)).sum::<f64>() / each.len() as f64).sqrt()
        };
        let if_measured = |of: &dyn Fn(&Summary) -> Option<f64>| {
            of(&each[0]).map(|_| root_mean_square(&|summary| of(summary).unwrap_or(0.0)))
        };
        let row = |at: usize| SessionAccuracy {
            session: over_seeds.sessions[at].session,
            base: root_mean_square(&|summary| summary.deviations[at].base),
            inc: if_measured(&|summary| summary.deviations[at].inc),
            hm: if_measured(&|summary| summary.deviations[at].hm),
            top1: root_mean_square(&|summary| summary.deviations[at].top1),
            area: if_measured(&|summary| summary.deviations[at].area),
        };
        let estimate = |of: fn(&AccuracyEstimateError) -> f64| {
            root_mean_square(&|summary| summary.estimate_errors.map_or(0.0, |errors| of(&errors.deviation)))
        };
        let of_draws = AccuracyEstimateError {
            base: estimate(|of| of.base),
            learned: estimate(|of| of.learned),
            overall: estimate(|of| of.overall),
        };
        let means = over_seeds.clone();
        // No `..`: a new metric needs its deviation here.
        let over_draws = Summary {
            name: means.name,
            draws,
            ahm: means.ahm,
            last_hm: means.last_hm,
            aacc: means.aacc,
            area: means.area,
            base_decay: means.base_decay,
            performance_decay: means.performance_decay,
            sessions: means.sessions,
            operations: means.operations,
            seconds: means.seconds,
            estimate_errors: means
                .estimate_errors
                .map(|errors| AccuracyEstimateErrors { deviation: of_draws, ..errors }),
            ahm_deviation: root_mean_square(&|summary| summary.ahm_deviation),
            last_hm_deviation: if_measured(&|summary| summary.last_hm_deviation),
            aacc_deviation: root_mean_square(&|summary| summary.aacc_deviation),
            area_deviation: if_measured(&|summary| summary.area_deviation),
            base_decay_deviation: root_mean_square(&|summary| summary.base_decay_deviation),
            performance_decay_deviation: root_mean_square(&|summary| summary.performance_decay_deviation),
            deviations: (0..over_seeds.sessions.len()).map(row).collect(),
        };
        Self { seeds: each.len(), draws, over_seeds, over_draws }
    }

    /// A number over all sessions; none where it was not measured.
    fn total(&self, metric: Metric) -> Option<SeedStatistic> {
        SeedStatistic::total(&self.over_draws, &self.over_seeds, metric)
    }

    /// Every number of all sessions together, or of one.
    pub fn numbers(&self) -> Vec<SeedStatistic> {
        let totals = self.over_draws.totals().filter_map(|(metric, _)| self.total(metric));
        let rows = self.over_draws.session_numbers().zip(self.over_seeds.session_numbers());
        let of_rows = rows.flat_map(|((session, draws), (_, seeds))| {
            let numbers = SessionAccuracy::NAMES.into_iter().zip(draws).zip(seeds);
            numbers
                .filter_map(move |((name, draws), seeds)| Some(SeedStatistic::of(Some(session), name, draws?, seeds?)))
        });
        totals.chain(of_rows).collect()
    }

    /// The numbers over all sessions on a line below [`SeedSummary::heading`].
    pub fn line(&self) -> String {
        let name = format!("{:<24}", self.over_seeds.name);
        COLUMNS.iter().fold(name, |line, metric| {
            line + &format!("{:>24}", self.total(*metric).map_or_else(|| "-".into(), |total| total.to_string()))
        })
    }

    /// What stands above such lines.
    pub fn heading() -> String {
        let columns = COLUMNS.map(|metric| format!("{:>24}", metric.csv_name()));
        format!("{:<24}{}", "mean ± draws ± seeds", columns.concat())
    }

    /// The numbers of every session, a line for each.
    pub fn table(&self) -> String {
        let heading =
            SessionAccuracy::NAMES.iter().fold("session".to_owned(), |line, name| line + &format!("{name:>24}"));
        let numbers = self.numbers();
        let lines = self.over_seeds.sessions.iter().map(|row| {
            SessionAccuracy::NAMES.iter().fold(format!("\n{:>7}", row.session), |line, wanted| {
                let own = numbers.iter().find(|number| number.session == Some(row.session) && number.name == *wanted);
                line + &format!("{:>24}", own.map_or_else(|| "-".into(), SeedStatistic::to_string))
            })
        });
        heading + &lines.collect::<String>()
    }
}

/// Metrics of a line.
const COLUMNS: [Metric; 4] = [Metric::Ahm, Metric::LastHm, Metric::Aacc, Metric::Area];

/// A number with what it deviates by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeedStatistic {
    /// The session, of which it is; none if of all together.
    pub session: Option<usize>,
    /// What it is.
    pub name: &'static str,
    /// Its mean over draws and seeds.
    pub mean: f64,
    /// Its deviation over the draws of a seed; none where there is one draw with each.
    pub draws: Option<f64>,
    /// Its deviation over the seeds.
    pub seeds: f64,
}

impl SeedStatistic {
    /// A number over all sessions, of draws and of seeds; none where it was not measured.
    pub(crate) fn total(over_draws: &Summary, over_seeds: &Summary, metric: Metric) -> Option<Self> {
        Some(Self::of(None, metric.csv_name(), over_draws.total(metric)?, over_seeds.total(metric)?))
    }

    fn of(session: Option<usize>, name: &'static str, draws: Spread, seeds: Spread) -> Self {
        Self { session, name, mean: draws.mean, draws: draws.deviation, seeds: seeds.deviation.unwrap_or(0.0) }
    }
}

impl fmt::Display for SeedStatistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mean, draws, seeds, .. } = self;
        let mean = two_decimals(*mean);
        match draws {
            Some(draws) => write!(f, "{mean} ± {draws:.2} ± {seeds:.2}"),
            None => write!(f, "{mean} ± - ± {seeds:.2}"),
        }
    }
}

/// All numbers of all systems as CSV, one to a line.
pub fn csv(all: &[SeedSummary]) -> String {
    let mut text = "system,session,metric,mean,deviation over draws,deviation over seeds\n".to_owned();
    for system in all {
        for SeedStatistic { session, name, mean, draws, seeds } in system.numbers() {
            let session = session.map_or_else(String::new, |session| session.to_string());
            let draws = draws.map_or_else(String::new, |draws| draws.to_string());
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{},{session},{name},{mean},{draws},{seeds}", csv_quoted(&system.over_seeds.name));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(base: f64, inc: f64, top1: f64) -> Draw {
        let row = |session, inc: Option<f64>| SessionAccuracy { session, base, inc, hm: inc, top1, area: None };
        Draw::of_rows(vec![row(0, None), row(1, Some(inc))])
    }

    #[test]
    fn one_draw_with_each_seed_deviates_from_nothing() {
        let seed = |inc| summarise("ours", &[draw(80.0, inc, 50.0)]);
        let over = SeedSummary::of(&[seed(10.0), seed(30.0)]);
        assert_eq!((over.seeds, over.draws, over.over_draws.draws), (2, 1, 1));
        assert!(over.line().contains("20.00 ± - ± 14.14"), "{}", over.line());
        let text = csv(std::slice::from_ref(&over));
        assert!(text.contains("ours,,ahm,20,,14.14"), "{text}");
    }

    #[test]
    fn draws_and_seeds_are_told_apart() {
        let seed = |incs: [f64; 2]| summarise("ours, all", &incs.map(|inc| draw(80.0, inc, 50.0)));
        let over = SeedSummary::of(&[seed([10.0, 30.0]), seed([40.0, 40.0])]);
        let (seeds, draws) = (&over.over_seeds, &over.over_draws);
        assert_eq!((seeds.ahm, draws.ahm, seeds.aacc), (30.0, 30.0, 50.0));
        // Sample deviations: of the seeds' means 20 and 40, and of the first one's draws 10 and 30, the root of 200;
        // the second one's draws are equal.
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(seeds.ahm_deviation, 200f64.sqrt()) && close(draws.ahm_deviation, 10.0), "{over:?}");
        assert!(close(draws.deviations[1].inc.unwrap(), 10.0) && draws.deviations[0].inc.is_none());
        let text = csv(std::slice::from_ref(&over));
        assert!(text.contains("\"ours, all\",,ahm,30,10"), "{text}");
        // Five totals without an area, two numbers of session 0 and four of session 1.
        assert_eq!(text.lines().count(), 1 + 5 + 2 + 4);
        assert!(over.line().contains("30.00 ± 10.00 ± 14.14") && over.line().ends_with(" -"), "{}", over.line());
        assert!(over.table().lines().count() == 3 && over.table().contains("80.00 ± 0.00 ± 0.00"), "{}", over.table());
    }
}
