//! `orco bench`: figures of this machine. Every bundle and engine is measured in a process of its own, so that start
//! and memory are its own.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use orco_benchmark::machine;
use orco_runtime::encoder::engine_choice::Workload;
use orco_runtime::encoder::library;
use orco_runtime::image_rs::{Rgb, RgbImage};
use orco_runtime::learner::{Answer, Shots};
use orco_runtime::manifest::MANIFEST;
use orco_runtime::state::sentence::counted;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::device;
use crate::options::{Engine, Options};
use crate::output::{Output, say};

/// Shots of the class that is learned.
const SHOTS: u32 = 5;
/// Its label, which no bundle has.
const LABEL: &str = "class of orco bench";
/// Size of the frames, as many cameras give them.
const WIDTH: u32 = 640;
/// Their height.
const HEIGHT: u32 = 480;
/// What a process that measures says after its first answer.
const STARTED: &str = "started";

/// Arguments of `orco bench`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Bundles to measure; without any, those beside the one that every verb takes.
    #[arg(value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// Frames that are classified.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    frames: u32,
    /// Measures in this process, for the one that compares.
    #[arg(long, hide = true)]
    measure: bool,
}

/// What a process measures of itself.
#[derive(Debug, Deserialize, Serialize)]
struct Figures {
    /// The engine, with its release.
    engine: String,
    /// Milliseconds that half of the frames took at most.
    p50: f64,
    /// Milliseconds that 95 of 100 frames took at most.
    p95: f64,
    /// Frames a second, one after the other.
    rate: f64,
    /// Seconds from the shots of a new class to an answer that knows it.
    learned: f64,
    /// Most memory that was resident, in bytes; Linux tells.
    memory: Option<u64>,
}

/// Prints a row for every bundle and engine.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    if arguments.measure {
        return measure(options, output, arguments.frames).map(|()| json!({}));
    }
    let bundles = if arguments.bundles.is_empty() { found(&options.bundle)? } else { arguments.bundles.clone() };
    let engines = match options.engine {
        Engine::Auto => vec![Engine::OnnxRuntime, Engine::Rten],
        engine => vec![engine],
    };
    say!(
        output,
        "{}, {}; frames of {WIDTH} x {HEIGHT}, {} of them, one after the other; {SHOTS} shots\n",
        machine::processor().unwrap_or_else(|| std::env::consts::ARCH.into()),
        counted(orco_runtime::threads::cores(), "thread"),
        arguments.frames
    )?;
    say!(output, "{HEADING}")?;
    let mut rows = Vec::new();
    for bundle in &bundles {
        let name = bundle.file_name().unwrap_or(bundle.as_os_str()).to_string_lossy().into_owned();
        for engine in &engines {
            let chosen = engine.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
            if *engine == Engine::OnnxRuntime && options.engine == Engine::Auto && library::locate().is_none() {
                say!(output, "{name:<22} {chosen:<12} left out: no library was found (`orco doctor`)")?;
                rows.push(json!({ "bundle": name, "engine": chosen, "left_out": "no library was found" }));
                continue;
            }
            match in_its_own_process(options, bundle, &chosen, arguments.frames) {
                Ok((start, figures)) => {
                    say!(output, "{name:<22} {chosen:<12} {}", row(start, &figures))?;
                    let mut result = json!({ "bundle": name, "engine": chosen, "start_seconds": start });
                    result["figures"] = json!(figures);
                    rows.push(result);
                }
                Err(error) => {
                    output.error(format!("{name} with {chosen}: {error:#}"));
                    rows.push(json!({ "bundle": name, "engine": chosen, "error": format!("{error:#}") }));
                }
            }
        }
    }
    Ok(json!({ "processor": machine::processor(), "frames": arguments.frames, "shots": SHOTS, "rows": rows }))
}

const HEADING: &str =
    "bundle                 engine         start s   p50 ms   p95 ms  frames/s  shots to answer s  memory MiB";

fn row(start: f64, figures: &Figures) -> String {
    let Figures { p50, p95, rate, learned, memory, .. } = figures;
    let memory = memory.map_or_else(|| "?".into(), |bytes| format!("{:.0}", bytes as f64 / f64::from(1 << 20)));
    format!("{start:>9.2} {p50:>8.1} {p95:>8.1} {rate:>9.1} {learned:>18.2} {memory:>11}")
}

/// The bundles that lie beside one, that one among them.
fn found(bundle: &Path) -> Result<Vec<PathBuf>> {
    let is_bundle = |folder: &PathBuf| folder.join(MANIFEST).is_file();
    let folder = bundle.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = fs::read_dir(folder).with_context(|| format!("cannot look for bundles in {}", folder.display()))?;
    let mut bundles: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_bundle).collect();
    bundles.sort();
    ensure!(!bundles.is_empty(), "there is no bundle in {}: name those to be measured", folder.display());
    Ok(bundles)
}

/// Measures a bundle with an engine. Returns the seconds from starting the program to its first answer, too.
fn in_its_own_process(options: &Options, bundle: &Path, engine: &str, frames: u32) -> Result<(f64, Figures)> {
    let mut command = Command::new(std::env::current_exe().context("this program cannot be found")?);
    command.args(["bench", "--measure", "--frames", &frames.to_string(), "--engine", engine, "--bundle"]).arg(bundle);
    command.args(["--backbone", options.backbone.name()]);
    if let Some(threads) = options.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    let started = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.context("this program cannot be started once more")?;
    let mut lines = BufReader::new(child.stdout.take().context("its output is missing")?).lines();
    let first = lines.next().transpose()?;
    let start = started.elapsed().as_secs_f64();
    let figures = lines.next().transpose()?;
    let mut said = String::new();
    child.stderr.take().context("its output is missing")?.read_to_string(&mut said)?;
    let status = child.wait()?;
    match (first.as_deref(), figures) {
        (Some(STARTED), Some(figures)) if status.success() => Ok((start, serde_json::from_str(&figures)?)),
        _ => match said.lines().find_map(|line| line.strip_prefix("error: ")) {
            Some(error) => bail!("{error}"),
            None => bail!("the process that measured it ended too early ({status})"),
        },
    }
}

/// Measures in this process; says on standard output when the first answer was given, and the figures.
fn measure(options: &Options, output: &Output, frames: u32) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder for the state")?;
    let options = Options { state: Some(folder.path().into()), ..options.clone() };
    let mut learner = device::open_for(&options, output, usize::MAX)?;
    let engine = learner.engine(Workload::Pictures(usize::MAX))?.name;
    learner.classify(&frame(0))?;
    tell(STARTED)?;
    let pictures: Vec<RgbImage> = (0..frames.min(8)).map(frame).collect();
    let mut took = Vec::new();
    for picture in pictures.iter().cycle().take(frames as usize) {
        let started = Instant::now();
        learner.classify(picture)?;
        took.push(started.elapsed().as_secs_f64());
    }
    let rate = took.len() as f64 / took.iter().sum::<f64>();
    took.sort_by(f64::total_cmp);
    let shots: Vec<RgbImage> = (0..SHOTS).map(|number| frame(1000 + number)).collect();
    let started = Instant::now();
    learner.learn(LABEL, Shots::Pictures(&shots))?.durable()?;
    let Answer { matches, .. } = learner.classify(&shots[0])?;
    let learned = started.elapsed().as_secs_f64();
    ensure!(matches.iter().any(|found| learner.label(found.class) == LABEL), "the new class was not learned");
    let (p50, p95) = (1e3 * percentile(&took, 50), 1e3 * percentile(&took, 95));
    tell(&serde_json::to_string(&Figures { engine, p50, p95, rate, learned, memory: machine::memory_peak() })?)
}

/// Tells the process that compares.
fn tell(line: &str) -> Result<()> {
    let mut standard = io::stdout().lock();
    writeln!(standard, "{line}")?;
    Ok(standard.flush()?)
}

/// The value that so many of a hundred do not exceed, of sorted ones.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

/// A frame that nobody shot: coarse tiles of colours that hang on the number, and noise.
fn frame(number: u32) -> RgbImage {
    let mixed = |value: u32| {
        let value = value.wrapping_mul(0x9E37_79B9) ^ (value >> 15);
        let value = value.wrapping_mul(0x85EB_CA6B);
        value ^ (value >> 13)
    };
    RgbImage::from_fn(WIDTH, HEIGHT, |x, y| {
        let tile = mixed(number / 1000 * 7919 + (x / 80) * 31 + y / 80);
        let noise = mixed(number.wrapping_mul(0x1_0001) ^ (y * WIDTH + x));
        Rgb([0, 8, 16].map(|shift| ((tile >> shift) as u8 / 2).saturating_add((noise >> shift) as u8 / 4)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([50, 95, 100].map(|percent| percentile(&hundred, percent)), [50.0, 95.0, 100.0]);
        assert_eq!([50, 95].map(|percent| percentile(&[3.0], percent)), [3.0, 3.0]);
        assert_eq!(percentile(&[1.0, 2.0], 95), 2.0);
    }

    #[test]
    fn frames_differ_and_come_again() {
        assert_eq!(frame(3), frame(3));
        assert_ne!(frame(3), frame(4));
        assert_ne!(frame(0).get_pixel(0, 0), frame(1000).get_pixel(0, 0));
    }
}
