//! A system's result over several draws of the shots.

use serde::{Deserialize, Serialize};

use crate::accuracy_estimate::{AccuracyEstimateError, AccuracyEstimateErrors};
use crate::metrics::SessionAccuracy;
use crate::spread::{Spread, deviation, mean};

/// A number over all sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Metric {
    /// The mean of HM over sessions 1 to M.
    #[serde(rename = "aHM")]
    Ahm,
    /// HM of the last session, M.
    #[serde(rename = "last HM")]
    LastHm,
    /// The mean of top-1 over sessions 0 to M.
    #[serde(rename = "aACC")]
    Aacc,
    /// The mean of [`SessionAccuracy::area`] over sessions 1 to M.
    #[serde(rename = "area")]
    Area,
    /// Base decay: A_base of session 0 minus that of session M.
    #[serde(rename = "base decay")]
    BaseDecay,
    /// Performance decay: top-1 of session 0 minus that of session M.
    #[serde(rename = "performance decay")]
    PerformanceDecay,
    /// What a device estimates of base classes less what is measured.
    #[serde(rename = "base estimate error")]
    BaseEstimateError,
    /// The same of learned classes.
    #[serde(rename = "learned estimate error")]
    LearnedEstimateError,
    /// The same of all classes.
    #[serde(rename = "overall estimate error")]
    OverallEstimateError,
}

impl Metric {
    /// Accuracies of a system, in the order of tables.
    pub const ACCURACIES: [Self; 6] =
        [Self::Ahm, Self::LastHm, Self::Aacc, Self::Area, Self::BaseDecay, Self::PerformanceDecay];

    /// Errors of what a device estimates.
    pub const ESTIMATE_ERRORS: [Self; 3] =
        [Self::BaseEstimateError, Self::LearnedEstimateError, Self::OverallEstimateError];

    /// Its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ahm => "aHM",
            Self::LastHm => "last HM",
            Self::Aacc => "aACC",
            Self::Area => "area",
            Self::BaseDecay => "base decay",
            Self::PerformanceDecay => "performance decay",
            Self::BaseEstimateError => "base estimate error",
            Self::LearnedEstimateError => "learned estimate error",
            Self::OverallEstimateError => "overall estimate error",
        }
    }

    /// Its name in CSV.
    pub fn csv_name(self) -> &'static str {
        match self {
            Self::Ahm => "ahm",
            Self::LastHm => "last hm",
            Self::Aacc => "aacc",
            other => other.name(),
        }
    }
}

/// A system's result over several draws: means, with standard deviations beside them. Of one draw these are 0 here, and
/// null where it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredSummary", into = "StoredSummary")]
pub struct Summary {
    /// Name of the system.
    pub name: String,
    /// Draws that means and deviations are over; trainings, where the deviations are those between trainings.
    pub draws: usize,
    /// aHM: mean of HM over sessions 1 to M.
    pub ahm: f64,
    /// Its deviation over the draws.
    pub ahm_deviation: f64,
    /// Harmonic mean of the last session.
    pub last_hm: Option<f64>,
    /// Its deviation over the draws.
    pub last_hm_deviation: Option<f64>,
    /// aACC: mean of top-1 over sessions 0 to M.
    pub aacc: f64,
    /// Its deviation over the draws.
    pub aacc_deviation: f64,
    /// Mean of [`SessionAccuracy::area`] over sessions 1 to M, where it was measured.
    pub area: Option<f64>,
    /// Its deviation over the draws.
    pub area_deviation: Option<f64>,
    /// Base decay: A_base(0) - A_base(M).
    pub base_decay: f64,
    /// Its deviation over the draws.
    pub base_decay_deviation: f64,
    /// Performance decay: top-1(0) - top-1(M).
    pub performance_decay: f64,
    /// Its deviation over the draws.
    pub performance_decay_deviation: f64,
    /// What a device estimated less what was measured, where the system is one that estimates.
    pub estimate_errors: Option<AccuracyEstimateErrors>,
    /// Means over the draws, session by session.
    pub sessions: Vec<SessionAccuracy>,
    /// Deviations over the draws, session by session.
    pub deviations: Vec<SessionAccuracy>,
    /// Floating-point operations of learning all sessions of a draw, those of matrix products.
    pub operations: f64,
    /// Seconds of learning all sessions of a draw. Not among what is stored: it differs from run to run.
    pub seconds: f64,
}

/// A [`Summary`] as it is stored. A single draw says nothing of deviations; older programs stored 0 for them.
#[derive(Serialize, Deserialize)]
struct StoredSummary {
    name: String,
    draws: usize,
    ahm: f64,
    ahm_deviation: Option<f64>,
    last_hm: Option<f64>,
    last_hm_deviation: Option<f64>,
    aacc: f64,
    aacc_deviation: Option<f64>,
    area: Option<f64>,
    area_deviation: Option<f64>,
    base_decay: f64,
    base_decay_deviation: Option<f64>,
    performance_decay: f64,
    performance_decay_deviation: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    estimate_errors: Option<StoredEstimateErrors>,
    sessions: Vec<SessionAccuracy>,
    deviations: Option<Vec<SessionAccuracy>>,
    operations: f64,
}

/// [`AccuracyEstimateErrors`] as they are stored.
#[derive(Serialize, Deserialize)]
struct StoredEstimateErrors {
    mean: AccuracyEstimateError,
    deviation: Option<AccuracyEstimateError>,
}

impl From<Summary> for StoredSummary {
    fn from(summary: Summary) -> Self {
        let deviates = summary.draws > 1;
        let of = |deviation: f64| deviates.then_some(deviation);
        let errors = summary.estimate_errors.map(|AccuracyEstimateErrors { mean, deviation }| StoredEstimateErrors {
            mean,
            deviation: deviates.then_some(deviation),
        });
        Self {
            name: summary.name,
            draws: summary.draws,
            ahm: summary.ahm,
            ahm_deviation: of(summary.ahm_deviation),
            last_hm: summary.last_hm,
            last_hm_deviation: summary.last_hm_deviation.and_then(of),
            aacc: summary.aacc,
            aacc_deviation: of(summary.aacc_deviation),
            area: summary.area,
            area_deviation: summary.area_deviation.and_then(of),
            base_decay: summary.base_decay,
            base_decay_deviation: of(summary.base_decay_deviation),
            performance_decay: summary.performance_decay,
            performance_decay_deviation: of(summary.performance_decay_deviation),
            estimate_errors: errors,
            sessions: summary.sessions,
            deviations: deviates.then_some(summary.deviations),
            operations: summary.operations,
        }
    }
}

impl From<StoredSummary> for Summary {
    fn from(stored: StoredSummary) -> Self {
        let of = |deviation: Option<f64>| deviation.unwrap_or(0.0);
        let none = |row: &SessionAccuracy| SessionAccuracy {
            session: row.session,
            base: 0.0,
            inc: row.inc.map(|_| 0.0),
            hm: row.hm.map(|_| 0.0),
            top1: 0.0,
            area: row.area.map(|_| 0.0),
        };
        let errors = stored.estimate_errors.map(|StoredEstimateErrors { mean, deviation }| AccuracyEstimateErrors {
            mean,
            deviation: deviation.unwrap_or_default(),
        });
        Self {
            name: stored.name,
            draws: stored.draws,
            ahm: stored.ahm,
            ahm_deviation: of(stored.ahm_deviation),
            last_hm: stored.last_hm,
            last_hm_deviation: stored.last_hm.map(|_| of(stored.last_hm_deviation)),
            aacc: stored.aacc,
            aacc_deviation: of(stored.aacc_deviation),
            area: stored.area,
            area_deviation: stored.area.map(|_| of(stored.area_deviation)),
            base_decay: stored.base_decay,
            base_decay_deviation: of(stored.base_decay_deviation),
            performance_decay: stored.performance_decay,
            performance_decay_deviation: of(stored.performance_decay_deviation),
            estimate_errors: errors,
            deviations: stored.deviations.unwrap_or_else(|| stored.sessions.iter().map(none).collect()),
            sessions: stored.sessions,
            operations: stored.operations,
            seconds: 0.0,
        }
    }
}

impl Summary {
    /// A number over all sessions; none where it was not measured.
    pub fn total(&self, metric: Metric) -> Option<Spread> {
        let estimates = |of: fn(&AccuracyEstimateError) -> f64| {
            self.estimate_errors.map_or((None, None), |errors| (Some(of(&errors.mean)), Some(of(&errors.deviation))))
        };
        let (mean, deviation) = match metric {
            Metric::Ahm => (Some(self.ahm), Some(self.ahm_deviation)),
            Metric::LastHm => (self.last_hm, self.last_hm_deviation),
            Metric::Aacc => (Some(self.aacc), Some(self.aacc_deviation)),
            Metric::Area => (self.area, self.area_deviation),
            Metric::BaseDecay => (Some(self.base_decay), Some(self.base_decay_deviation)),
            Metric::PerformanceDecay => (Some(self.performance_decay), Some(self.performance_decay_deviation)),
            Metric::BaseEstimateError => estimates(|error| error.base),
            Metric::LearnedEstimateError => estimates(|error| error.learned),
            Metric::OverallEstimateError => estimates(|error| error.overall),
        };
        self.spread(mean, deviation)
    }

    /// Every number over all sessions that was measured.
    pub fn totals(&self) -> impl Iterator<Item = (Metric, Spread)> {
        let all = Metric::ACCURACIES.into_iter().chain(Metric::ESTIMATE_ERRORS);
        all.filter_map(|metric| Some((metric, self.total(metric)?)))
    }

    /// A number over all sessions as a table shows it, `-` where it was not measured.
    pub fn cell(&self, metric: Metric) -> String {
        self.total(metric).map_or_else(|| "-".to_string(), |total| total.to_string())
    }

    /// The numbers of every session, those of [`SessionAccuracy::numbers`].
    pub fn session_numbers(&self) -> impl Iterator<Item = (usize, [Option<Spread>; 5])> {
        self.sessions.iter().zip(&self.deviations).map(|(means, deviations)| {
            let (of, deviations) = (means.numbers(), deviations.numbers());
            (means.session, std::array::from_fn(|number| self.spread(of[number], deviations[number])))
        })
    }

    fn spread(&self, mean: Option<f64>, deviation: Option<f64>) -> Option<Spread> {
        let (mean, deviation) = mean.zip(deviation)?;
        Some(Spread { mean, deviation: (self.draws > 1).then_some(deviation) })
    }

    /// The session rows below their heading, each number with its deviation where there is one.
    pub fn table(&self) -> String {
        if self.draws < 2 {
            let rows: String = self.sessions.iter().map(|row| format!("\n{row}")).collect();
            return format!("{}{rows}", SessionAccuracy::HEADING);
        }
        let mut table = "session".to_string();
        SessionAccuracy::NAMES.iter().for_each(|name| table += &format!("{name:>15}"));
        for (session, numbers) in self.session_numbers() {
            table += &format!("\n{session:>7}");
            for number in numbers {
                let shown =
                    number.and_then(|Spread { mean, deviation }| Some(format!("{mean:.2} ± {:5.2}", deviation?)));
                table += &format!("{:>15}", shown.unwrap_or_else(|| "-".to_string()));
            }
        }
        table
    }
}

/// What measuring over one draw gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draw {
    /// A row for every session.
    pub rows: Vec<SessionAccuracy>,
    /// For every session after which a device estimates accuracies, how far it is off.
    #[serde(default)]
    pub estimate_errors: Vec<AccuracyEstimateError>,
    /// Floating-point operations of learning all sessions, those of matrix products.
    pub operations: f64,
    /// Seconds of learning all sessions.
    pub seconds: f64,
}

impl Draw {
    /// A draw of which rows alone are known.
    pub fn of_rows(rows: Vec<SessionAccuracy>) -> Self {
        Self { rows, estimate_errors: Vec::new(), operations: 0.0, seconds: 0.0 }
    }
}

/// The numbers of a session over several draws, each combined by a function such as the mean.
fn combine(draws: &[&[SessionAccuracy]], session: usize, by: &dyn Fn(&[f64]) -> f64) -> SessionAccuracy {
    let each =
        |of: &dyn Fn(&SessionAccuracy) -> f64| by(&draws.iter().map(|rows| of(&rows[session])).collect::<Vec<_>>());
    let maybe = |of: &dyn Fn(&SessionAccuracy) -> Option<f64>| {
        of(&draws[0][session]).map(|_| each(&|row| of(row).unwrap_or(0.0)))
    };
    SessionAccuracy {
        session: draws[0][session].session,
        base: each(&|row| row.base),
        inc: maybe(&|row| row.inc),
        hm: maybe(&|row| row.hm),
        top1: each(&|row| row.top1),
        area: maybe(&|row| row.area),
    }
}

/// Summarises several draws.
///
/// # Panics
/// If there is no draw, or draws have different sessions.
pub fn summarise(name: &str, all: &[Draw]) -> Summary {
    let draws: Vec<&[SessionAccuracy]> = all.iter().map(|draw| draw.rows.as_slice()).collect();
    let sessions = draws[0].len();
    let every = |of: &dyn Fn(&[SessionAccuracy]) -> f64| draws.iter().map(|rows| of(rows)).collect::<Vec<f64>>();
    let over = |rows: &[SessionAccuracy], of: &dyn Fn(&SessionAccuracy) -> Option<f64>| {
        mean(&rows.iter().filter_map(of).collect::<Vec<_>>())
    };
    let decay = |of: fn(&SessionAccuracy) -> f64| every(&|rows| of(&rows[0]) - of(&rows[sessions - 1]));
    let harmonic = every(&|rows| over(rows, &|row| row.hm));
    let top1 = every(&|rows| over(rows, &|row| Some(row.top1)));
    let areas = every(&|rows| over(rows, &|row| row.area));
    let (base_decay, performance_decay) = (decay(|row| row.base), decay(|row| row.top1));
    let means: Vec<SessionAccuracy> = (0..sessions).map(|session| combine(&draws, session, &mean)).collect();
    let deviations: Vec<SessionAccuracy> = (0..sessions).map(|session| combine(&draws, session, &deviation)).collect();
    let has_area = means.iter().any(|row| row.area.is_some());
    Summary {
        name: name.into(),
        draws: all.len(),
        ahm: mean(&harmonic),
        ahm_deviation: deviation(&harmonic),
        last_hm: means[sessions - 1].hm,
        last_hm_deviation: deviations[sessions - 1].hm,
        aacc: mean(&top1),
        aacc_deviation: deviation(&top1),
        area: has_area.then(|| mean(&areas)),
        area_deviation: has_area.then(|| deviation(&areas)),
        base_decay: mean(&base_decay),
        base_decay_deviation: deviation(&base_decay),
        performance_decay: mean(&performance_decay),
        performance_decay_deviation: deviation(&performance_decay),
        estimate_errors: AccuracyEstimateErrors::over(all.iter().map(|draw| draw.estimate_errors.as_slice())),
        sessions: means,
        deviations,
        operations: mean(&all.iter().map(|draw| draw.operations).collect::<Vec<_>>()),
        seconds: mean(&all.iter().map(|draw| draw.seconds).collect::<Vec<_>>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_over_draws_stand_beside_the_means() {
        let row =
            |session, base, top1| SessionAccuracy { session, base, inc: Some(50.0), hm: Some(top1), top1, area: None };
        let draw = |last: f64| Draw::of_rows(vec![row(0, 80.0, 80.0), row(1, last, last)]);
        let summary = summarise("two", &[draw(70.0), draw(66.0)]);
        // Decays 10 and 14: mean 12, sample deviation sqrt(8).
        assert_eq!((summary.base_decay, summary.performance_decay), (12.0, 12.0));
        assert!((summary.base_decay_deviation - 8f64.sqrt()).abs() < 1e-9);
        assert_eq!((summary.last_hm, summary.area, summary.area_deviation), (Some(68.0), None, None));
        let table = summary.table();
        assert!(table.ends_with("68.00 ±  2.83              -"), "{table}");
        assert!(summarise("one", &[draw(70.0)]).table().starts_with(SessionAccuracy::HEADING));
    }

    #[test]
    fn a_metric_has_one_name_in_tables_and_in_json() {
        for metric in Metric::ACCURACIES.into_iter().chain(Metric::ESTIMATE_ERRORS) {
            let read =
                Metric::deserialize(serde::de::value::StrDeserializer::<serde::de::value::Error>::new(metric.name()));
            assert_eq!(read, Ok(metric));
        }
    }
}
