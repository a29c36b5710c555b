//! Runs the firmware on QEMU's board mps2-an500, a Cortex-M7 with 4 MiB of flash and 4 MiB of RAM, and the same orders
//! on the host. A session without an allocator recognises its shots. Then five classes are learned from five shots each
//! in two sessions, the power goes at chosen moments, and after every restart the device answers as the host does, by
//! what was known before the session or after it. `cargo xtask test micro` builds the firmware and starts this.

mod device;
mod lesson;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use orco_bare::session::BareMemory;
use orco_core::config::MethodConfig;
use orco_micro::board::UncountedBoard;
use orco_micro::exchange::{Cut, Order, Outcome, Task, WriteFate};
use orco_micro::run::{Files, run, run_without_allocator};
use orco_runtime::bundle::Bundle;
use orco_runtime::manifest::{LEARNER, STATISTICS};

use device::{Device, RunEnd};
use lesson::Lesson;

/// Scores of device and host may differ by so much.
const TOLERANCE: f32 = 1e-4;
/// Bytes of the flash chip that hold the state, as in the firmware.
const CHIP: usize = 1 << 20;

/// The firmware on QEMU beside the host
#[derive(Parser)]
struct Arguments {
    /// The firmware, an ELF file
    #[arg(long)]
    firmware: PathBuf,
    /// QEMU
    #[arg(long, default_value = "qemu-system-arm")]
    qemu: PathBuf,
    /// The bundle that the firmware was built with
    #[arg(long, default_value = "models/cifar100-micro")]
    bundle: PathBuf,
    /// A folder of classes to learn, each a folder of pictures
    #[arg(long, default_value = "examples/shots/learn")]
    learn: PathBuf,
    /// A folder of classes whose pictures are classified
    #[arg(long, default_value = "examples/shots/try")]
    ask: PathBuf,
    /// Moments at which the power goes
    #[arg(long, default_value_t = 6)]
    cuts: usize,
}

fn main() -> ExitCode {
    match trial(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The host in the device's place.
struct Host<'a> {
    files: Files<'a>,
    chip: Vec<u8>,
}

impl Host<'_> {
    fn run(&mut self, order: &Order) -> Result<Outcome> {
        run(self.files, order, &mut self.chip, &UncountedBoard).map_err(|error| anyhow::anyhow!("on the host, {error}"))
    }
}

fn trial(arguments: &Arguments) -> Result<()> {
    let bundle = Bundle::open(&arguments.bundle)?;
    ensure!(bundle.manifest.learn == MethodConfig::closed_form(), "the firmware takes bundles with preset closed-form");
    let (learner, statistics) = (bundle.read(LEARNER)?, bundle.read(STATISTICS)?);
    let files = Files { learner: &learner, statistics: &statistics };
    let lesson = Lesson::of(&bundle, &arguments.learn, &arguments.ask)?;
    let order = |task, cut| Order { task, questions: lesson.questions.clone(), cut };
    let (first, second) = lesson.classes.split_at(3);

    let mut host = Host { files, chip: vec![0xFF; CHIP] };
    let before = host.run(&order(Task::Learn(first.to_vec()), None))?;
    let after = host.run(&order(Task::Learn(second.to_vec()), None))?;
    let mut table = report::Table::new();

    let device = Device::new(&arguments.qemu, &arguments.firmware)?;
    let bare = run_without_allocator(&mut BareMemory::new(), &UncountedBoard).map_err(anyhow::Error::msg)?;
    ensure!(bare.scores == [[1.0]], "the host recognises {:?} of the shots without an allocator", bare.scores);
    let learned = device.finish(&order(Task::WithoutAllocator, None))?;
    same(&learned, &bare).context("without an allocator")?;
    table.add("without an allocator: 2 made-up classes of 4 shots", &learned);

    let mut learned = device.finish(&order(Task::Learn(first.to_vec()), None))?;
    same(&learned, &before).context("after the first session")?;
    table.add("first session: 3 classes of 5 shots", &learned);

    let start = device.chip()?;
    let session = order(Task::Learn(second.to_vec()), None);
    let answer = order(Task::Answer, None);
    let PowerCuts { kept, torn } = cut_power(&device, &session, arguments.cuts, &start, [&before, &after], &answer)?;
    // On with what the last power cut has left that came before the end.
    device.set_chip(&torn)?;
    learned = device.finish(&session)?;
    same(&learned, &after).context("after the second session")?;
    table.add("second session: 2 classes of 5 shots", &learned);
    let restarted = device.finish(&answer)?;
    same(&restarted, &after).context("after a restart")?;
    table.add("restart", &restarted);

    println!("{table}");
    let right = lesson.right(&after);
    println!(
        "{} power cuts: {} times the state before, {} times the one after, 0 lost; {right} of {} pictures recognised; \
         scores differ from the host's by {:.1e} at most",
        kept[0] + kept[1],
        kept[0],
        kept[1],
        lesson.questions.len(),
        difference(&restarted.scores.concat(), &after.scores.concat()),
    );
    Ok(())
}

/// What power cuts in a session came to.
struct PowerCuts {
    /// How often the device had the state before the session, and how often the one after it.
    kept: [usize; 2],
    /// The chip after the last cut that left the state before.
    torn: Vec<u8>,
}

/// Cuts the power in the middle of a session, at `count` places, each time from the chip `start`. The order `answer`
/// then has the device classify: its outcome must be the host's before the session or after it.
fn cut_power(
    device: &Device,
    session: &Order,
    count: usize,
    start: &[u8],
    [before, after]: [&Outcome; 2],
    answer: &Order,
) -> Result<PowerCuts> {
    let places = (0..count).map(|number| after.changes * number / count.max(2).saturating_sub(1));
    let mut cuts = PowerCuts { kept: [0; 2], torn: start.to_vec() };
    for (number, at) in places.enumerate() {
        let fate = [WriteFate::Before, WriteFate::Amid, WriteFate::After][number % 3];
        let cut = Cut { after: at.min(after.changes - 1), fate };
        device.set_chip(start)?;
        let ended = device.start(&Order { cut: Some(cut), ..session.clone() })?;
        ensure!(matches!(ended, RunEnd::PowerCut), "the power did not go at {cut:?}");
        let found = device.finish(answer)?;
        let is_before = found.generation == before.generation;
        same(&found, if is_before { before } else { after })
            .with_context(|| format!("after a power cut at {cut:?}"))?;
        if is_before {
            cuts.torn = device.chip()?;
        }
        cuts.kept[usize::from(!is_before)] += 1;
        println!("power cut at change {} of {} ({fate:?}): {} classes", cut.after, after.changes, found.learned.len());
    }
    Ok(cuts)
}

/// Whether the device came to what the host came to.
fn same(device: &Outcome, host: &Outcome) -> Result<()> {
    ensure!(device.learned == host.learned, "the device knows {:?}, the host {:?}", device.learned, host.learned);
    ensure!(device.generation == host.generation, "the device saved {} times", device.generation);
    let scores = [&device.scores, &host.scores].map(|scores| scores.concat());
    ensure!(
        scores[0].len() == scores[1].len(),
        "the device gives {} scores, the host {}",
        scores[0].len(),
        scores[1].len()
    );
    let difference = difference(&scores[0], &scores[1]);
    ensure!(difference <= TOLERANCE, "scores of device and host differ by {difference}");
    Ok(())
}

/// The largest difference; NaN counts as infinite.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    let each = a.iter().zip(b).map(|(a, b)| if (a - b).is_nan() { f32::INFINITY } else { (a - b).abs() });
    each.fold(0.0, f32::max)
}
