//! `cargo xtask bench`: the benchmarks beside a reference kernel, and how their ratios change over time.
//!
//! A benchmark tells its figures by [`orco_trials::benchmark::record`]. Times of different days and machines say
//! little, so each is divided by that of a [reference](mod@reference) kernel in the same run. [`history`] reads and
//! compares the runs that were kept in `docs/benchmarks.jsonl`, of which [`page`] makes a page of the book.

mod history;
mod page;
mod reference;

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

use clap::builder::PossibleValuesParser;
use orco_trials::benchmark::{Measurement, RECORD};
use orco_trials::{median, system};

use crate::environment::{Environment, cargo, exit_code, workspace};
use history::{Figure, Run};
use reference::Reading;

/// The runs that were kept.
const RUNS: &str = "docs/benchmarks.jsonl";

/// Benchmarks that measure time, and what is written, with arguments that keep each short. `session_cost` counts bytes,
/// and a test compares those.
const BENCHES: [(&str, &str); 8] = [
    ("step", ""),
    ("resize", ""),
    ("scene", ""),
    ("start", "everyday cifar100-edge"),
    ("growth", "everyday cifar100-edge"),
    ("frames", ""),
    ("features", "../models/everyday 60"),
    ("views", "alone resnet18 f32"),
];

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Benchmarks to run; all without it
    #[arg(value_parser = PossibleValuesParser::new(BENCHES.map(|(name, _)| name)))]
    names: Vec<String>,
    /// How often each runs; medians count
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// Add the run to docs/benchmarks.jsonl, and write the book's page anew
    #[arg(long)]
    append: bool,
    /// Fail if a ratio lost more than 10 % since the last run on this machine
    #[arg(long)]
    fail: bool,
}

/// Runs the benchmarks, prints what changed since the last run on this machine, and keeps the run if that is wanted.
///
/// # Errors
/// If Cargo does not start, a benchmark fails, or a file cannot be read or written.
pub fn run(arguments: &Arguments, environment: &Environment) -> Result<ExitCode, Box<dyn Error>> {
    let earlier = kept()?;
    let chosen =
        |(name, _): &&(&str, &str)| arguments.names.is_empty() || arguments.names.iter().any(|own| own == name);
    let benches: Vec<(&str, &str)> = BENCHES.iter().filter(chosen).copied().collect();
    let mut build = bench(environment);
    build.arg("--no-run").args(benches.iter().flat_map(|(name, _)| ["--bench", name]));
    let built = build.status()?;
    if !built.success() {
        return Ok(exit_code(built));
    }
    let run = measure(&benches, arguments.rounds.into(), environment)?;
    println!("\n{}", page::table(&run, &earlier));
    let Run { machine, reference, busy_beside, .. } = &run;
    println!("{machine}; reference {reference:.1} ms, processors busy beside it {busy_beside:.2}");
    run.notes().iter().for_each(|note| println!("note: {note}"));
    let slower = history::compare(&run, &earlier).iter().filter(|compared| compared.is_slower()).count();
    println!("{slower} of {} figures are more than 10 % slower than before, or write more", run.figures.len());
    if arguments.append {
        let mut file = OpenOptions::new().create(true).append(true).open(workspace().join(RUNS))?;
        writeln!(file, "{}", serde_json::to_string(&run)?)?;
        write_page(&workspace().join("docs/src/results"))?;
    }
    Ok(if arguments.fail && slower > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Writes the book's page into the folder of its results.
///
/// # Errors
/// If the runs cannot be read, or the page cannot be written.
pub fn write_page(folder: &Path) -> Result<(), Box<dyn Error>> {
    Ok(fs::write(folder.join("benchmarks.md"), page::of(&kept()?))?)
}

fn kept() -> Result<Vec<Run>, Box<dyn Error>> {
    let text = fs::read_to_string(workspace().join(RUNS)).map_err(|error| format!("cannot read {RUNS}: {error}"))?;
    Ok(history::parse(&text).map_err(|error| format!("{RUNS}, {error}"))?)
}

/// What Cargo is asked in every case.
fn bench(environment: &Environment) -> Command {
    let mut command = cargo();
    command.args(["bench", "--workspace"]).current_dir(workspace()).stdin(Stdio::null());
    environment.apply(&mut command);
    // Neither PyTorch nor other settings than those of the other runs.
    command.env_remove("ORCO_PYTHON").env_remove("ORCO_BENCH_PRESET");
    command
}

/// Runs each benchmark in every round, with the reference kernel before and after it.
fn measure(benches: &[(&str, &str)], rounds: usize, environment: &Environment) -> Result<Run, Box<dyn Error>> {
    let mut readings = vec![Reading::take()];
    let mut found: Vec<(Measurement, f64)> = Vec::new();
    for round in 1..=rounds {
        for (number, (name, arguments)) in benches.iter().enumerate() {
            eprintln!("\n=== {name}, {} of {}, round {round} of {rounds}", number + 1, benches.len());
            let measured = measure_one(name, arguments, environment)?;
            let before = readings[readings.len() - 1].milliseconds;
            readings.push(Reading::take());
            let reference = (before + readings[readings.len() - 1].milliseconds) / 2.0;
            found.extend(measured.into_iter().map(|figure| {
                let ratio = figure.ratio(reference);
                (figure, ratio)
            }));
        }
    }
    Ok(Run {
        date: system::today(),
        commit: system::commit(),
        machine: format!("{}, {} threads", system::processor_with_model(), thread::available_parallelism()?),
        rounds,
        reference: significant(median(readings.iter().map(|reading| reading.milliseconds).collect())),
        busy_beside: significant(readings.iter().map(|reading| reading.busy_beside).fold(0.0, f64::max)),
        figures: medians(&found),
    })
}

/// Figures of one run of one benchmark, their names with its own before them.
fn measure_one(name: &str, arguments: &str, environment: &Environment) -> Result<Vec<Measurement>, Box<dyn Error>> {
    let file = tempfile::NamedTempFile::new()?;
    let mut command = bench(environment);
    command.args(["--bench", name, "--"]).args(arguments.split_whitespace()).env(RECORD, file.path());
    let status = command.status()?;
    if !status.success() {
        return Err(format!("the benchmark {name} failed ({status})").into());
    }
    let line = |line: &str| -> Result<Measurement, serde_json::Error> {
        let measured: Measurement = serde_json::from_str(line)?;
        Ok(Measurement { name: format!("{name}: {}", measured.name), ..measured })
    };
    Ok(fs::read_to_string(file.path())?.lines().map(line).collect::<Result<_, _>>()?)
}

/// Every figure as in its middle round by the ratio, or in the slower of two in the middle, in the order in which they
/// were measured.
fn medians(found: &[(Measurement, f64)]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for (Measurement { name, unit, .. }, _) in found {
        if figures.iter().all(|known| known.name != *name) {
            let mut same: Vec<_> = found.iter().filter(|(figure, _)| figure.name == *name).collect();
            same.sort_by(|(_, one), (_, other)| one.total_cmp(other));
            let (Measurement { value, .. }, ratio) = same[(same.len() - 1) / 2];
            let (value, ratio) = (significant(*value), significant(*ratio));
            figures.push(Figure { name: name.clone(), value, unit: *unit, ratio });
        }
    }
    figures
}

/// The number with five digits that count, which keeps lines short.
fn significant(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orco_trials::benchmark::Unit;

    #[test]
    fn the_page_is_what_the_kept_runs_make() {
        let committed = fs::read_to_string(workspace().join("docs/src/results/benchmarks.md")).unwrap();
        assert!(page::of(&kept().unwrap()) == committed, "benchmarks.md is another one: cargo xtask book");
    }

    #[test]
    fn the_middle_round_counts() {
        let measured =
            |name: &str, value, ratio| (Measurement { name: name.into(), value, unit: Unit::PerSecond }, ratio);
        let found = [
            measured("b", 1.0, 0.1),
            measured("a", 7.0, 0.7),
            measured("b", 900.0, 90.0),
            measured("b", 2.000_001, 0.2),
        ];
        let [b, a] = &*medians(&found) else { panic!() };
        assert_eq!((&*b.name, b.value, b.ratio), ("b", 2.0, 0.2));
        assert_eq!((&*a.name, a.value, a.ratio), ("a", 7.0, 0.7));
        let [b] = &*medians(&[measured("b", 4.0, 0.4), measured("b", 3.0, 0.3)]) else { panic!() };
        assert_eq!((b.value, b.ratio), (3.0, 0.3), "the slower of two, value and ratio of one round");
    }

    #[test]
    fn numbers_keep_five_digits() {
        assert_eq!([123_456.7, 0.001_234_567, 0.0].map(significant), [123_460.0, 0.001_234_6, 0.0]);
    }
}
