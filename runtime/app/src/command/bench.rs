//! `orco bench`: figures of this machine. Every bundle and engine is measured in a process of its own, so that start
//! and memory are its own.

mod camera_frame;

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use orco_benchmark::machine;
use orco_runtime::encoder::engine_choice::{OpenedEncoder, Workload};
use orco_runtime::encoder::{library, to_planes};
use orco_runtime::files;
use orco_runtime::image_rs::{Rgb, RgbImage};
use orco_runtime::learner::{Answer, Shots};
use orco_runtime::manifest::MANIFEST;
use orco_runtime::state::sentence::counted;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::camera_frame::{EmptyPlace, WholeFrames, place_frame};
use crate::device;
use crate::options::{EngineArgument, Options};
use crate::output::{Output, say};

/// Shots of the class that is learned.
const SHOTS: u32 = 5;
/// Its label, which no bundle has.
const LABEL: &str = "class of orco bench";
/// Pixels along a tile of the frames.
const TILE: u32 = 80;
/// What a process that measures says after its first answer.
const STARTED: &str = "started";

/// Arguments of `orco bench`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Bundles to measure; without any, those beside the one that every command takes.
    #[arg(value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// Frames that are classified.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    frames: u32,
    /// Width and height of the frames, in pixels.
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "640x480", value_parser = frame_size)]
    size: FrameSize,
    /// Measures in this process, for the one that compares.
    #[arg(long, hide = true)]
    measure: bool,
}

/// Width and height of frames, as many cameras give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameSize {
    width: u32,
    height: u32,
}

/// A size like `640x480`.
fn frame_size(text: &str) -> Result<FrameSize, String> {
    let sides = text.split_once('x').and_then(|(width, height)| Some([width.parse().ok()?, height.parse().ok()?]));
    match sides {
        Some([width, height]) if (16..=8192).contains(&width) && (16..=8192).contains(&height) => {
            Ok(FrameSize { width, height })
        }
        _ => Err("give width and height in pixels, 16 to 8192 each, such as 640x480".into()),
    }
}

impl fmt::Display for FrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
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
    /// Milliseconds that the engine alone takes for the prepared input of half of the frames at most.
    engine_p50: f64,
    /// Milliseconds that half of the frames take beside that at most: each frame's own time less its engine's.
    around_p50: f64,
    /// The same for a frame as the service treats one of its camera that is not surely recognised: it is checked as a
    /// shot would be, and its answer agreed with those before it.
    around_live_p50: f64,
    /// The same where the service was shown its empty place: the thing in the frame is found, cut out, answered,
    /// checked and followed. None where frames are too small for that.
    around_place_p50: Option<f64>,
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
        return measure(options, output, arguments).map(|()| json!({}));
    }
    let bundles = if arguments.bundles.is_empty() { found(&options.bundle)? } else { arguments.bundles.clone() };
    let engines = match options.engine {
        EngineArgument::Auto => vec![EngineArgument::OnnxRuntime, EngineArgument::Rten],
        engine => vec![engine],
    };
    say!(
        output,
        "{}, {}; frames of {} pixels, {} of them, one after the other; {SHOTS} shots\n",
        machine::processor().unwrap_or_else(|| std::env::consts::ARCH.into()),
        counted(orco_runtime::threads::usable_threads(), "thread"),
        arguments.size,
        arguments.frames
    )?;
    say!(output, "{HEADING}")?;
    let mut rows = Vec::new();
    for bundle in &bundles {
        for engine in &engines {
            rows.push(measured_row(options, output, arguments, bundle, *engine)?);
        }
    }
    Ok(json!({
        "processor": machine::processor(), "frames": arguments.frames, "size": arguments.size.to_string(),
        "shots": SHOTS, "rows": rows,
    }))
}

/// Measures a bundle with an engine and prints its row. A failure is noted, and does not stop the other measurements.
fn measured_row(
    options: &Options,
    output: &Output,
    arguments: &Arguments,
    bundle: &Path,
    engine: EngineArgument,
) -> Result<BenchRow> {
    let name = bundle.file_name().unwrap_or(bundle.as_os_str()).to_string_lossy().into_owned();
    let chosen = engine.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    let row = BenchRow { bundle: name.clone(), engine: chosen.clone(), ..BenchRow::default() };
    let is_optional = engine == EngineArgument::OnnxRuntime && options.engine == EngineArgument::Auto;
    if is_optional && library::locate().is_none() {
        say!(output, "{name:<22} {chosen:<12} left out: no library was found (`orco doctor`)")?;
        return Ok(BenchRow { left_out: Some("no library was found"), ..row });
    }
    match in_its_own_process(options, bundle, &chosen, arguments) {
        Ok((start, figures)) => {
            say!(output, "{name:<22} {chosen:<12} {}", columns(start, &figures))?;
            Ok(BenchRow { start_seconds: Some(start), figures: Some(figures), ..row })
        }
        Err(error) => {
            output.note_error(format!("{name} with {chosen}: {error:#}"));
            Ok(BenchRow { error: Some(format!("{error:#}")), ..row })
        }
    }
}

/// What the JSON says of a bundle on an engine: figures, why it was left out, or why it failed.
#[derive(Default, Serialize)]
struct BenchRow {
    bundle: String,
    engine: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    figures: Option<Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

const HEADING: &str = "bundle                 engine         start s   p50 ms   p95 ms  engine ms  around ms  live ms  \
                       place ms  frames/s  shots to answer s  memory MiB";

/// The figures as they stand below [`HEADING`]; `start` in seconds.
fn columns(start: f64, figures: &Figures) -> String {
    let Figures { p50, p95, engine_p50, around_p50, around_live_p50, around_place_p50, rate, learned, memory, .. } =
        figures;
    let memory = memory.map_or_else(|| "?".into(), |bytes| format!("{:.0}", bytes as f64 / f64::from(1 << 20)));
    let place = around_place_p50.map_or_else(|| "-".into(), |around| format!("{around:.2}"));
    format!(
        "{start:>9.2} {p50:>8.1} {p95:>8.1} {engine_p50:>10.2} {around_p50:>10.2} {around_live_p50:>8.2} {place:>9} \
         {rate:>9.1} {learned:>18.2} {memory:>11}"
    )
}

/// The bundles that lie beside one, that one among them.
fn found(bundle: &Path) -> Result<Vec<PathBuf>> {
    let is_bundle = |folder: &PathBuf| folder.join(MANIFEST).is_file();
    // The last part of a path such as `.` or `bundle/..` is no name of its folder.
    let place = bundle.canonicalize().unwrap_or_else(|_| bundle.to_owned());
    let folder = files::folder_of(&place);
    let entries = fs::read_dir(folder).with_context(|| format!("cannot look for bundles in {}", folder.display()))?;
    let mut bundles: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_bundle).collect();
    bundles.sort();
    ensure!(!bundles.is_empty(), "there is no bundle in {}: name those to be measured", folder.display());
    Ok(bundles)
}

/// The arguments of a process that measures a bundle with an engine.
fn child_arguments(options: &Options, bundle: &Path, engine: &str, arguments: &Arguments) -> Vec<OsString> {
    let (frames, size) = (arguments.frames.to_string(), arguments.size.to_string());
    let measure = ["bench", "--measure", "--frames", &frames, "--size", &size, "--engine", engine];
    let mut given: Vec<OsString> = measure.map(Into::into).into();
    given.extend(["--bundle".into(), bundle.into(), "--backbone".into(), options.backbone.name().into()]);
    if let Some(threads) = options.threads {
        given.extend(["--threads".into(), threads.to_string().into()]);
    }
    for (option, file) in [("--public-key", &options.public_key), ("--config", &options.config)] {
        given.extend(file.iter().flat_map(|file| [option.into(), file.into()]));
    }
    given
}

/// Measures a bundle with an engine. Returns the seconds from starting the program to its first answer, too.
fn in_its_own_process(options: &Options, bundle: &Path, engine: &str, arguments: &Arguments) -> Result<(f64, Figures)> {
    let mut command = Command::new(std::env::current_exe().context("this program cannot be found")?);
    command.args(child_arguments(options, bundle, engine, arguments));
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
fn measure(options: &Options, output: &Output, arguments: &Arguments) -> Result<()> {
    let folder =
        tempfile::tempdir().context("cannot make a temporary folder for the state: name one with TMPDIR=DIR")?;
    let options = Options { state: Some(folder.path().into()), ..options.clone() };
    let mut learner = device::open_for(&options, output, usize::MAX)?;
    let engine = learner.engine(Workload::Pictures(usize::MAX))?.name;
    learner.classify(&frame(arguments.size, 0))?;
    tell(STARTED)?;
    let pictures: Vec<RgbImage> = (0..arguments.frames.min(8)).map(|number| frame(arguments.size, number)).collect();
    let frames = || pictures.iter().cycle().take(arguments.frames as usize);
    let mut took = Vec::new();
    for picture in frames() {
        took.push(seconds(|| learner.classify(picture))?);
    }
    let rate = took.len() as f64 / took.iter().sum::<f64>();
    let shots: Vec<RgbImage> = (0..SHOTS).map(|number| frame(arguments.size, 1000 + number)).collect();
    let started = Instant::now();
    learner.learn(LABEL, Shots::Pictures(&shots))?.durable()?;
    let Answer { matches, .. } = learner.classify(&shots[0])?;
    let learned = started.elapsed().as_secs_f64();
    ensure!(matches.iter().any(|found| learner.label(found.class) == LABEL), "the new class was not learned");
    let memory = machine::memory_peak();
    // The engine alone, frame by frame beside all of it, so that both see the same machine.
    let bundle = options.open_bundle()?;
    let input = bundle.manifest.preprocessing;
    let OpenedEncoder { mut encoder, .. } = bundle.encoder(options.engine.choice(), Workload::Pictures(usize::MAX))?;
    let (mut alone, mut around, mut around_live, mut around_place) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut live, mut place) = (WholeFrames::new(), EmptyPlace::learn(arguments.size)?);
    let things: Vec<RgbImage> = (0..2).map(|number| place_frame(arguments.size, 1000 + number, true)).collect();
    for (picture, thing) in frames().zip(things.iter().cycle()) {
        let planes = to_planes(&input, &[input.fit(picture)]);
        let engine = seconds(|| encoder.encode(planes.view()))?;
        around.push(seconds(|| learner.classify(picture))? - engine);
        around_live.push(seconds(|| live.treat(&mut learner, picture))? - engine);
        if let Some(place) = &mut place {
            around_place.push(seconds(|| place.treat(&mut learner, thing))? - engine);
        }
        alone.push(engine);
    }
    let median = |took: &[f64]| 1e3 * percentile(took, 50);
    let figures = Figures {
        engine,
        p50: median(&took),
        p95: 1e3 * percentile(&took, 95),
        engine_p50: median(&alone),
        around_p50: median(&around),
        around_live_p50: median(&around_live),
        around_place_p50: place.is_some().then(|| median(&around_place)),
        rate,
        learned,
        memory,
    };
    tell(&serde_json::to_string(&figures)?)
}

/// Seconds that a call takes.
fn seconds<T, E>(call: impl FnOnce() -> Result<T, E>) -> Result<f64, E> {
    let started = Instant::now();
    call()?;
    Ok(started.elapsed().as_secs_f64())
}

/// Tells the process that compares.
fn tell(line: &str) -> Result<()> {
    let mut standard = io::stdout().lock();
    writeln!(standard, "{line}")?;
    Ok(standard.flush()?)
}

/// The value that `percent` % of the values do not exceed.
fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

/// Mixes the bits of a number.
fn mixed(value: u32) -> u32 {
    let value = value.wrapping_mul(0x9E37_79B9) ^ (value >> 15);
    let value = value.wrapping_mul(0x85EB_CA6B);
    value ^ (value >> 13)
}

/// A frame that nobody shot: coarse tiles of colours that hang on the number, and noise.
fn frame(size: FrameSize, number: u32) -> RgbImage {
    RgbImage::from_fn(size.width, size.height, |x, y| {
        let tile = mixed(number / 1000 * 7919 + (x / TILE) * 31 + y / TILE);
        let noise = mixed(number.wrapping_mul(0x1_0001) ^ (y * size.width + x));
        Rgb([0, 8, 16].map(|shift| ((tile >> shift) as u8 / 2).saturating_add((noise >> shift) as u8 / 4)))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// The arguments of `orco bench` alone.
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn a_process_that_measures_gets_the_options_that_count_for_it() {
        let given = |line: &[&str]| {
            let Line { options, arguments } = Line::parse_from([&["orco"], line].concat());
            let given = child_arguments(&options, Path::new("bundle"), "rten", &arguments);
            let given: Vec<String> = given.into_iter().map(|word| word.into_string().unwrap()).collect();
            given.join(" ")
        };
        let line = given(&["--public-key", "our key.pub", "--config", "orco.toml", "--threads", "2"]);
        for expected in ["--public-key our key.pub", "--config orco.toml", "--threads 2", "--bundle bundle"] {
            assert!(line.contains(expected), "{expected}: {line}");
        }
        // Unless the environment of the tests names them.
        let unset = |variable: &str| std::env::var_os(variable).is_none();
        assert!(!unset("ORCO_PUBLIC_KEY") || !given(&[]).contains("--public-key"));
        assert!(!unset("ORCO_CONFIG") || !given(&[]).contains("--config"));
    }

    #[test]
    fn bundles_are_found_beside_one_however_its_path_ends() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        let bundles = ["a", "b"].map(|name| place.join(name));
        for bundle in &bundles {
            fs::create_dir_all(bundle.join("report")).unwrap();
            fs::write(bundle.join(MANIFEST), "").unwrap();
        }
        for path in ["a", "b/", "a/report/..", "a/report/../."] {
            assert_eq!(found(&place.join(path)).unwrap(), bundles, "{path}");
        }
        assert_eq!(found(&place.join("none")).unwrap(), bundles, "one that is not there has neighbours all the same");
        assert!(found(&bundles[0].join("report")).unwrap_err().to_string().contains("there is no bundle in"));
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!([50, 95, 100].map(|percent| percentile(&hundred, percent)), [50.0, 95.0, 100.0]);
        assert_eq!([50, 95].map(|percent| percentile(&[3.0], percent)), [3.0, 3.0]);
        assert_eq!(percentile(&[2.0, 1.0], 95), 2.0);
    }

    #[test]
    fn rows_stand_below_their_heading() {
        let figures = Figures {
            engine: "rten".into(),
            p50: 10.0,
            p95: 12.0,
            engine_p50: 9.0,
            around_p50: 1.0,
            around_live_p50: 2.0,
            around_place_p50: Some(3.0),
            rate: 100.0,
            learned: 0.5,
            memory: Some(64 << 20),
        };
        let row = |figures: &Figures| format!("{:<22} {:<12} {}", "everyday", "rten", columns(0.25, figures));
        assert_eq!(row(&figures).len(), HEADING.len());
        let small = Figures { around_place_p50: None, ..figures };
        assert_eq!(row(&small).len(), HEADING.len());
        assert!(row(&small).contains("    2.00         -     100.0 "), "{}", row(&small));
    }

    #[test]
    fn a_size_is_two_numbers_within_bounds() {
        let size = FrameSize { width: 4608, height: 2592 };
        assert_eq!((frame_size("4608x2592"), &*size.to_string()), (Ok(size), "4608x2592"));
        for wrong in ["", "640", "640x", "x480", "640*480", "15x480", "640x8193", "-1x480", "640x480x3"] {
            assert!(frame_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn frames_differ_and_come_again() {
        let frame = |number| frame(FrameSize { width: 64, height: 48 }, number);
        assert_eq!(frame(3), frame(3));
        assert_ne!(frame(3), frame(4));
        assert_ne!(frame(0).get_pixel(0, 0), frame(1000).get_pixel(0, 0));
    }
}
