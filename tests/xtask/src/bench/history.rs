//! Runs of the benchmarks, a line of JSON each, and what became slower.

use orco_trials::benchmark::Unit;
use serde::{Deserialize, Serialize};

/// Share of a ratio that may be lost before it is reported.
const LIMIT: f64 = 0.1;
/// Processors that may be busy beside the reference kernel on a quiet machine.
const QUIET: f64 = 0.1;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Day, UTC, as 2026-11-27.
    pub date: String,
    /// What git calls the checkout; it ends in `-dirty` if files were changed.
    pub commit: String,
    /// Processor and number of threads. Only runs on one machine are compared.
    pub machine: String,
    /// How often every benchmark ran; medians count.
    pub rounds: usize,
    /// Milliseconds of the reference kernel, the median.
    pub reference: f64,
    /// Most processors that were busy beside the reference kernel.
    pub busy_beside: f64,
    /// What was measured.
    pub figures: Vec<Figure>,
}

/// A point of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The series, as `BENCHMARK: WHAT`.
    pub name: String,
    /// The median of what was measured, in that unit.
    pub value: f64,
    /// Of the value.
    pub unit: Unit,
    /// How often it is done while the reference kernel runs once: more is faster. Of KB, how often in a megabyte.
    pub ratio: f64,
}

impl Run {
    /// What readers should know of it, in words.
    pub fn notes(&self) -> Vec<&'static str> {
        let dirty = self.commit.ends_with("-dirty").then_some("uncommitted changes");
        let busy = (self.busy_beside > QUIET).then_some("the machine was not quiet");
        dirty.into_iter().chain(busy).collect()
    }
}

/// Reads the file's lines.
///
/// # Errors
/// With the number of a line that is no run.
pub fn parse(text: &str) -> Result<Vec<Run>, String> {
    let line = |(index, line)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1));
    text.lines().enumerate().map(line).collect()
}

/// A figure beside the one before it.
#[derive(Debug)]
pub struct Comparison<'a> {
    pub figure: &'a Figure,
    /// The last ratio of the same series on the same machine.
    pub before: Option<f64>,
}

impl Comparison<'_> {
    /// Change of the ratio since then, as a share: -0.1 is a tenth slower.
    pub fn change(&self) -> Option<f64> {
        self.before.map(|before| self.figure.ratio / before - 1.0)
    }

    /// Whether that is to be reported.
    pub fn is_slower(&self) -> bool {
        self.change().is_some_and(|change| change < -LIMIT)
    }
}

/// Compares the figures of a run with the last ones on the same machine.
pub fn compare<'a>(run: &'a Run, earlier: &[Run]) -> Vec<Comparison<'a>> {
    let before = |name: &str| {
        let runs = earlier.iter().rev().filter(|earlier| earlier.machine == run.machine);
        runs.flat_map(|run| &run.figures).find(|figure| figure.name == name).map(|figure| figure.ratio)
    };
    run.figures.iter().map(|figure| Comparison { figure, before: before(&figure.name) }).collect()
}

/// Every series of a machine in the order of its last run: the name, and its ratios from the first run on.
pub fn series<'a>(runs: &[&'a Run]) -> Vec<(&'a Figure, Vec<f64>)> {
    let ratios = |name: &str| {
        let figures = runs.iter().flat_map(|run| &run.figures);
        figures.filter(|figure| figure.name == name).map(|figure| figure.ratio).collect()
    };
    let mut newest: Vec<&Figure> = Vec::new();
    for figure in runs.iter().rev().flat_map(|run| &run.figures) {
        if newest.iter().all(|known| known.name != figure.name) {
            newest.push(figure);
        }
    }
    newest.into_iter().map(|figure| (figure, ratios(&figure.name))).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A run with these ratios.
    pub fn run(machine: &str, figures: &[(&str, f64)]) -> Run {
        let figure =
            |&(name, ratio): &(&str, f64)| Figure { name: name.into(), value: 2.5, unit: Unit::Milliseconds, ratio };
        let (date, commit) = ("2026-11-27".into(), "1cf81cc9abcd".into());
        let figures = figures.iter().map(figure).collect();
        Run { date, commit, machine: machine.into(), rounds: 3, reference: 60.0, busy_beside: 0.0, figures }
    }

    #[test]
    fn a_run_is_read_as_it_was_written_and_a_bad_line_is_named() {
        let runs = [run("one", &[("step: ours", 8.0)]), run("two", &[])];
        let text: String = runs.iter().map(|run| serde_json::to_string(run).unwrap() + "\n").collect();
        assert_eq!(parse(&text).unwrap(), runs);
        assert!(text.contains(r#""unit":"ms""#), "{text}");
        assert!(parse(&(text + "{}\n")).unwrap_err().starts_with("line 3: missing field"));
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn a_loss_of_more_than_a_tenth_is_reported() {
        let earlier = [run("one", &[("a", 10.0), ("b", 10.0), ("c", 10.0)])];
        let now = run("one", &[("a", 8.99), ("b", 9.01), ("c", 12.0), ("new", 1.0)]);
        let compared = compare(&now, &earlier);
        let slower: Vec<bool> = compared.iter().map(Comparison::is_slower).collect();
        assert_eq!(slower, [true, false, false, false]);
        assert!((compared[2].change().unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(compared[3].change(), None);
    }

    #[test]
    fn only_the_last_figure_of_the_same_machine_counts() {
        let earlier = [
            run("one", &[("a", 20.0), ("b", 7.0)]),
            run("one", &[("a", 10.0)]),
            run("other", &[("a", 90.0), ("b", 90.0)]),
        ];
        let now = run("one", &[("a", 10.0), ("b", 7.0)]);
        let before: Vec<Option<f64>> = compare(&now, &earlier).iter().map(|compared| compared.before).collect();
        assert_eq!(before, [Some(10.0), Some(7.0)], "b was left out of the last run");
    }

    #[test]
    fn a_series_goes_through_the_runs_that_measured_it() {
        let runs = [run("one", &[("a", 1.0), ("gone", 2.0)]), run("one", &[("a", 3.0)]), run("one", &[("b", 4.0)])];
        let series = series(&runs.iter().collect::<Vec<_>>());
        let found: Vec<(&str, &[f64])> = series.iter().map(|(newest, ratios)| (&*newest.name, &**ratios)).collect();
        assert_eq!(found, [("b", &[4.0][..]), ("a", &[1.0, 3.0]), ("gone", &[2.0])]);
    }

    #[test]
    fn changed_files_and_a_busy_machine_are_told() {
        let quiet = run("one", &[]);
        assert!(quiet.notes().is_empty());
        let busy = Run { commit: "1cf81cc9abcd-dirty".into(), busy_beside: 0.5, ..quiet };
        assert_eq!(busy.notes(), ["uncommitted changes", "the machine was not quiet"]);
    }
}
