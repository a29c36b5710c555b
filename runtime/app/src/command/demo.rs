//! `orco demo`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use orco_benchmark::benchmark::Benchmark;
use orco_benchmark::terminal::progress_bar;
use orco_benchmark::{DeviceLearner, SessionAccuracy, SessionWalk};
use orco_runtime::encoder::engine_choice::Workload;
use orco_runtime::files::is_hidden;
use orco_runtime::image;
use orco_runtime::learner::{Answer, Learner, Shots, pictures_in};
use orco_runtime::method::align::AlignProgress;
use orco_runtime::state::classify::{Match, Score};
use orco_runtime::state::escape::EscapedText;
use orco_runtime::state::label;
use orco_runtime::state::sentence::counted;
use orco_runtime::threads::Threads;
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{Output, say};
use crate::progress::ProgressBars;
use crate::session_report;

const SEED: u64 = 1;
/// Probability from which the demonstration calls an answer sure.
const SURE: f32 = 0.9;

/// Arguments of `orco demo`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Folder with the sample pictures: `learn/CLASS/*.jpg` and `try/CLASS/*.jpg`.
    #[arg(long, value_name = "DIR", default_value = "examples/shots")]
    shots: PathBuf,
    /// Opens the web page on what was learned, until Ctrl-C.
    #[cfg(feature = "serve")]
    #[arg(long)]
    page: bool,
}

/// How other pictures of the learned classes are answered.
#[derive(Clone, Copy, Debug, Default)]
struct PictureCounts {
    /// Those that are answered by their class, and not unknown.
    right: usize,
    /// Answers, right or wrong, of which the learner is sure.
    sure: usize,
    total: usize,
}

impl PictureCounts {
    /// One picture of a class, and how it is answered. What is unknown is neither recognised nor sure.
    fn of(label: &str, answer: &Answer) -> Self {
        let is_sure = answer.score.probability().is_some_and(|probability| probability >= SURE);
        Self::answered(label, &answer.label, answer.is_unknown(), is_sure)
    }

    /// One picture of the class `label`, answered with `answer`.
    fn answered(label: &str, answer: &str, is_unknown: bool, is_sure: bool) -> Self {
        let is_right = !is_unknown && label::same(answer, label);
        Self { right: is_right.into(), sure: (is_sure && !is_unknown).into(), total: 1 }
    }

    fn plus(self, other: Self) -> Self {
        Self { right: self.right + other.right, sure: self.sure + other.sure, total: self.total + other.total }
    }
}

/// Runs the sessions of the bundle's benchmark, then learns and recognises the classes of the sample pictures. The
/// device's own state is left alone: the demonstration's is in `state`, which must know nothing yet, or in a temporary
/// folder where none is named.
pub fn run(options: &Options, output: &Output, arguments: &Arguments, state: Option<&Path>) -> Result<Value> {
    let started = Instant::now();
    let folder = tempfile::tempdir()
        .context("cannot make a temporary folder for the demonstration's state: name one with TMPDIR=DIR")?;
    let options = Options { state: Some(state.unwrap_or(folder.path()).into()), ..options.clone() };
    let learner = device::open(&options, output)?;
    ensure!(
        learner.history().entries().len() == 1,
        "the state in {} knows something already, and the demonstration begins with nothing: name a new folder with \
         --state DIR, or none",
        learner.store().folder().display()
    );
    let rows = sessions(&learner, output)?;
    say!(output, "")?;
    let labels = learn_samples(&options, output, arguments, state.is_some())?;
    let PictureCounts { right, sure, total } = classify_samples(&options, output, arguments, &labels)?;
    let seconds = started.elapsed().as_secs_f64();
    say!(output, "\nthe demonstration took {seconds:.1} s")?;
    #[cfg(feature = "serve")]
    if arguments.page {
        crate::command::serve::show(&options, output)?;
    }
    Ok(json!({
        "sessions": rows, "pictures": { "right": right, "sure": sure, "total": total }, "seconds": seconds,
    }))
}

/// The benchmark's sessions, a row after each.
fn sessions(learner: &Learner, output: &Output) -> Result<Vec<SessionAccuracy>> {
    let (bundle, base_model) = (learner.bundle(), learner.base_model());
    let benchmark = Benchmark::of(bundle).context(
        "the demonstration needs a bundle with its benchmark, and sample pictures: both are in the repository's folder",
    )?;
    say!(
        output,
        "{}: {} base classes, then {} of new classes, {} each, measured on {} ({})\n",
        bundle.manifest.name,
        base_model.classes.len(),
        counted(benchmark.ways.len(), "session"),
        counted(benchmark.shots as usize, "shot"),
        benchmark.measured.len(),
        benchmark.source
    )?;
    say!(output, "{}", SessionAccuracy::HEADING)?;
    let bar = progress_bar(benchmark.ways.len() * base_model.config.epochs, "learning");
    let mut on_progress = |session: usize, progress: AlignProgress| {
        bar.set_position(((session - 1) * base_model.config.epochs + progress.epoch) as u64);
        bar.set_message(format!("session {session}"));
        ControlFlow::Continue(())
    };
    let mut printed = Ok(());
    let mut on_session = |row: &SessionAccuracy| {
        if printed.is_ok() {
            printed = bar.suspend(|| say!(output, "{row}"));
        }
    };
    let threads = Threads::usable();
    let mut device = DeviceLearner::new(base_model, &base_model.config, SEED, &threads);
    let walk = SessionWalk { base_model, benchmark: &benchmark, draw: 0, seed: SEED };
    let rows = walk.measure(&mut device, &mut on_progress, &mut |_, row| on_session(row))?.rows;
    bar.finish_and_clear();
    printed.map(|()| rows)
}

/// Learns the classes of the sample pictures; returns their labels. What was learned counts as a change where the state
/// is kept.
fn learn_samples(options: &Options, output: &Output, arguments: &Arguments, is_kept: bool) -> Result<Vec<String>> {
    let mut learner = device::open(options, output)?;
    learner.settings_mut().seed = SEED;
    say!(output, "engine: {}", learner.engine(Workload::Shots)?.name)?;
    let started = Instant::now();
    let folder = arguments.shots.join("learn");
    let labels = classes_in(&folder)?;
    let new = labels.iter().map(|label| Ok((label.as_str(), Shots::folder(folder.join(label))?)));
    let new = new.collect::<Result<Vec<_>>>()?;
    let outcome = learner.learn_many(&new, &mut ProgressBars::default())?;
    let report = if is_kept { session_report::note_outcome(output, outcome) } else { outcome.report };
    let what = format!("learned {}", session_report::list_classes(&new));
    session_report::print(output, &report, &what, started.elapsed().as_secs_f64(), learner.answered_classes())?;
    Ok(labels)
}

/// Opens the saved state again, and classifies other pictures of the classes that were learned.
fn classify_samples(
    options: &Options,
    output: &Output,
    arguments: &Arguments,
    labels: &[String],
) -> Result<PictureCounts> {
    let mut learner = device::open(options, output)?;
    let probable = learner.base_model().scoring(&learner.base_model().config).is_some();
    let known = learner.classes().count();
    let named = if learner.is_learned_only() { learner.state().classes.len() } else { known };
    say!(output, "\nthe saved state, opened again, on other pictures; answers name {named} of {known} classes:\n")?;
    say!(output, "{:<16} {:>10} {:>8}  not sure", "class", "recognised", "sure")?;
    let mut all = PictureCounts::default();
    for label in labels {
        let (mut of_class, mut doubts) = (PictureCounts::default(), Vec::new());
        for path in pictures_in(arguments.shots.join("try").join(label))? {
            let answer = learner.classify(&image::open(&path)?)?;
            let picture = PictureCounts::of(label, &answer);
            of_class = of_class.plus(picture);
            if (picture.right, picture.sure) != (1, 1) {
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                let unknown = if answer.is_unknown() { "unknown, else " } else { "" };
                doubts.push(format!("{file}: {unknown}{}", candidates(&learner, &answer.matches)));
            }
        }
        all = all.plus(of_class);
        let PictureCounts { right, sure, total } = of_class;
        let sure = if probable { format!("{sure} of {total}") } else { "-".into() };
        say!(
            output,
            "{:<16} {:>10} {sure:>8}  {}",
            EscapedText(label).to_string(),
            format!("{right} of {total}"),
            doubts.join("; ")
        )?;
    }
    let PictureCounts { right, sure, total } = all;
    say!(output, "\n{right} of {total} pictures recognised")?;
    if probable {
        say!(output, "sure of {sure}: one class is at least {:.0} % probable", 100.0 * SURE)?;
    }
    Ok(all)
}

/// Names of a folder's sub-folders, sorted: a class each.
fn classes_in(folder: &Path) -> Result<Vec<String>> {
    let cannot = || format!("cannot read the sample pictures in {}; name their folder with --shots", folder.display());
    let mut labels = Vec::new();
    for entry in folder.read_dir().with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        if entry.path().is_dir() && !is_hidden(&entry.path()) {
            labels.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    ensure!(!labels.is_empty(), "{} has no sub-folder with pictures of a class", folder.display());
    labels.sort();
    Ok(labels)
}

/// The first two classes that a picture may show.
fn candidates(learner: &Learner, matches: &[Match]) -> String {
    let name = |found: &Match| {
        let label = EscapedText(learner.label(found.class));
        match found.score {
            Score::Probability(probability) => format!("{label} {:.0} %", 100.0 * probability),
            Score::Cosine(cosine) => format!("{label} {cosine:.2}"),
        }
    };
    matches.iter().take(2).map(name).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_not_recognised_and_labels_are_compared_as_labels() {
        let counts = |label: &str, answer: &str, is_unknown: bool, is_sure: bool| {
            let PictureCounts { right, sure, total } = PictureCounts::answered(label, answer, is_unknown, is_sure);
            [right, sure, total]
        };
        assert_eq!(counts("mug", "mug", false, true), [1, 1, 1]);
        assert_eq!(counts("mug", "cup", false, true), [0, 1, 1]);
        assert_eq!(counts("mug", "mug", true, true), [0, 0, 1]);
        // An accent of its own, as some systems name folders.
        assert_eq!(counts("co\u{302}ne", "c\u{f4}ne", false, false), [1, 0, 1]);
    }
}
