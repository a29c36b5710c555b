//! The training loop: epochs, checkpoints, stops, progress. A [`TrainingPhase`] fills in what a step is.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Map, Value, json};
use tch::{Device, Tensor};

use crate::data::dataset::{Images, Split};
use crate::platform::interrupt::{self, Activity, Interrupted};
use crate::run::Run;
use crate::run::progress::WorkProgress;

/// A checkpoint is saved at least this often, so that a power cut costs no more.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(300);
/// A GPU waits while its weights are fetched and written, so epochs of seconds do not each end in a checkpoint there.
const MIN_CHECKPOINT_INTERVAL_GPU: Duration = Duration::from_secs(30);
/// Most epochs that leave a line on the terminal: where images are few, an epoch is a single step.
const MAX_EPOCH_LINES: usize = 100;
/// Steps between two checks of the loss on a device that would otherwise wait for each.
const LOSS_CHECK_INTERVAL: usize = 8;

/// The base session: what phases 1 and 2 train on, and the folder that keeps what they reach.
#[derive(Clone, Copy, Debug)]
pub struct BaseSession<'a> {
    /// All training images.
    pub images: &'a Images,
    /// Which of them are the base session's.
    pub split: &'a Split,
    /// The recipe's seed.
    pub seed: u64,
    /// Takes checkpoints and metrics.
    pub run: &'a Run,
}

/// How far a training has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Epochs that are done.
    pub epoch: usize,
    /// Steps of the next epoch that are done.
    pub step: usize,
}

impl Position {
    /// Where a checkpoint stands, by its numbers `epochs` and `steps`; one that is missing is 0.
    pub(super) fn of_checkpoint(tensors: &HashMap<String, Tensor>) -> Self {
        let count = |name: &str| tensors.get(name).map_or(0, |count| count.int64_value(&[]) as usize);
        Self { epoch: count("epochs"), step: count("steps") }
    }

    /// Steps of the phase that are done.
    pub fn global_step(self, steps_per_epoch: usize) -> u64 {
        (self.epoch * steps_per_epoch + self.step) as u64
    }
}

impl fmt::Display for Position {
    /// The last epoch or step that is done: `epoch 3`, or `step 5 of epoch 4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            0 => write!(f, "epoch {}", self.epoch),
            step => write!(f, "step {step} of epoch {}", self.epoch + 1),
        }
    }
}

/// The steps of an epoch that this process took, and how long it took for them.
#[derive(Clone, Copy, Debug)]
pub struct EpochTime {
    /// Steps; fewer than the epoch has where a run was continued within it.
    pub steps: usize,
    /// How long they took.
    pub duration: Duration,
}

/// What a phase reports of an epoch.
pub struct EpochReport {
    /// Mean loss over its steps.
    pub loss: f64,
    /// Further numbers for its line of metrics.
    pub metrics: Map<String, Value>,
    /// Further words for its line on the terminal.
    pub summary: String,
}

/// The steps and epochs of one phase, as [`TrainingLoop`] calls them.
pub trait TrainingPhase {
    /// Begins an epoch: chooses the order of its images, and replays the random draws of the steps before `at`, so that
    /// a run that continues ends in the same numbers as one that was never stopped.
    fn begin(&mut self, at: Position) -> Result<()>;

    /// Takes the next step; `at` is the position before it.
    ///
    /// # Errors
    /// If another rank is gone, or gradients overflow in f16 at any scale.
    fn step(&mut self, at: Position) -> Result<()>;

    /// Mean loss over the steps of this epoch; waits for the device.
    ///
    /// # Errors
    /// If it is not finite.
    fn loss(&self, at: Position) -> Result<f64>;

    /// Ends the epoch; `at` is the position after its last step.
    ///
    /// # Errors
    /// If the loss is not finite, another rank is gone, or an engine outside this program fails.
    fn end(&mut self, at: Position, time: EpochTime) -> Result<EpochReport>;

    /// Whether training ends after this many epochs, before the last one of the schedule.
    fn should_stop_early(&self, _epochs: usize) -> bool {
        false
    }

    /// Writes the checkpoint.
    ///
    /// # Errors
    /// If a weight is not finite, or the file cannot be written; the checkpoint before is then still there.
    fn save(&mut self, at: Position, run: &Run) -> Result<()>;
}

/// How a phase is trained.
#[derive(Clone, Copy)]
pub struct TrainingLoop<'a> {
    /// Takes checkpoints and metrics.
    pub run: &'a Run,
    /// Its name in the metrics.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What a stop interrupts.
    pub work: Activity,
    /// Where it is trained.
    pub device: Device,
    /// Steps of an epoch.
    pub steps: usize,
    /// Epochs of the schedule.
    pub epochs: usize,
    /// Epochs after which this run ends; fewer than `epochs` where it is to stop before.
    pub until: usize,
    /// Views that go through the backbone in a step; `None` if the speed is not reported.
    pub views: Option<usize>,
}

/// What all ranks do after a step.
#[derive(Default)]
struct RankAgreement {
    stop: Option<Interrupted>,
    save: bool,
}

impl TrainingLoop<'_> {
    /// Trains from `at` on. A checkpoint is saved after every epoch (on a GPU, not sooner than half a minute after the
    /// one before), every five minutes, and when a stop is asked for.
    ///
    /// # Errors
    /// If the loss stops being finite, a file cannot be written, or a stop was asked for.
    pub fn run(&self, phase: &mut dyn TrainingPhase, mut at: Position) -> Result<()> {
        let Self { run, title, steps, epochs, until, .. } = *self;
        let mut progress = WorkProgress::new(title, "steps", (epochs * steps) as u64, at.global_step(steps));
        let (on_cpu, mut saved) = (self.device == Device::Cpu, Instant::now());
        run.group().barrier()?;
        interrupt::enter(self.work);
        while at.epoch < until {
            phase.begin(at)?;
            let time = self.take_steps(phase, &mut at, &mut progress, &mut saved)?;
            let EpochReport { loss, metrics, summary } = phase.end(at, time)?;
            at = Position { epoch: at.epoch + 1, step: 0 };
            // Before the checkpoint; see `Run::rewind`.
            run.log(&self.metrics_line(metrics, at.epoch, loss, time))?;
            let last = at.epoch == until || phase.should_stop_early(at.epoch);
            let due = on_cpu || saved.elapsed() > MIN_CHECKPOINT_INTERVAL_GPU || last;
            let RankAgreement { stop, save } = self.agreement(true, due)?;
            if save {
                self.save(phase, at, &mut saved)?;
            }
            let speed = self.speed(time);
            let line = format!("epoch {}/{epochs}: loss {loss:.3}, {summary}{speed}", at.epoch);
            if last {
                progress.end_here();
            }
            if last || at.epoch.is_multiple_of(until.div_ceil(MAX_EPOCH_LINES)) {
                progress.milestone(&line);
            } else {
                progress.show(at.global_step(steps), || line);
            }
            if last {
                break;
            }
            if let Some(stop) = stop {
                return Err(stop.into());
            }
        }
        interrupt::enter(Activity::Run);
        progress.finish();
        Ok(())
    }

    /// Takes the steps that are left of an epoch; saves a checkpoint where the last one is too long ago, or a stop was
    /// asked for.
    fn take_steps(
        &self,
        phase: &mut dyn TrainingPhase,
        at: &mut Position,
        progress: &mut WorkProgress,
        saved: &mut Instant,
    ) -> Result<EpochTime> {
        let Self { steps, epochs, .. } = *self;
        let (started, first) = (Instant::now(), at.step);
        while at.step < steps {
            phase.step(*at)?;
            at.step += 1;
            let check = self.device == Device::Cpu || at.step.is_multiple_of(LOSS_CHECK_INTERVAL) || at.step == steps;
            let RankAgreement { stop, save } = self.agreement(check, saved.elapsed() > CHECKPOINT_INTERVAL)?;
            if check || save {
                let loss = phase.loss(*at)?;
                let time = EpochTime { steps: at.step - first, duration: started.elapsed() };
                progress.show(at.global_step(steps), || {
                    format!("epoch {}/{epochs} loss {loss:.3}{}", at.epoch + 1, self.speed(time))
                });
            }
            if save && at.step < steps {
                self.save(phase, *at, saved)?;
            }
            if at.step < steps
                && let Some(stop) = stop
            {
                return Err(stop.into());
            }
        }
        Ok(EpochTime { steps: steps - first, duration: started.elapsed() })
    }

    /// The line of metrics after this many epochs.
    fn metrics_line(&self, of_phase: Map<String, Value>, epochs: usize, loss: f64, time: EpochTime) -> Value {
        let mut line = of_phase;
        let own = [("phase", json!(self.name)), ("epoch", json!(epochs)), ("loss", json!(loss))];
        line.extend(own.map(|(field, value)| (field.to_owned(), value)));
        line.insert("seconds".into(), json!(time.duration.as_secs_f64()));
        if let Some(views) = self.views_per_second(time) {
            line.insert("views_per_second".into(), json!(views));
        }
        line.into()
    }

    /// The stop that was asked for, if one was, and whether a checkpoint is saved: where one is `due`, and before a
    /// stop. Signals and clocks differ from rank to rank. Where `check` says so, all agree on a stop that any of them
    /// was asked for, and on what the first one, which writes the checkpoint, finds due; in between they go on.
    fn agreement(&self, check: bool, due: bool) -> Result<RankAgreement> {
        let group = self.run.group();
        if group.size() == 1 {
            let stop = interrupt::check().err();
            return Ok(RankAgreement { save: due || stop.is_some(), stop });
        }
        if !check {
            return Ok(RankAgreement::default());
        }
        let [stop, due] = group.each_on_any([interrupt::check().is_err(), due && group.is_first()])?;
        if stop {
            interrupt::request_stop();
        }
        let stop = if stop { interrupt::check().err() } else { None };
        Ok(RankAgreement { save: due || stop.is_some(), stop })
    }

    /// Saves a checkpoint. It may take the first rank, which writes it, longer than the others would wait in a step.
    fn save(&self, phase: &mut dyn TrainingPhase, at: Position, saved: &mut Instant) -> Result<()> {
        phase.save(at, self.run)?;
        self.run.group().wait_for_first()?;
        *saved = Instant::now();
        Ok(())
    }

    fn views_per_second(&self, time: EpochTime) -> Option<f64> {
        self.views.map(|views| (time.steps * views) as f64 / time.duration.as_secs_f64())
    }

    /// Views per second in words, after a comma.
    fn speed(&self, time: EpochTime) -> String {
        self.views_per_second(time).map_or_else(String::new, |views| format!(", {views:.0} views/s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Recipe;

    /// Notes what it is asked for; the loss is the step's number.
    struct RecordingPhase(Vec<String>);

    impl TrainingPhase for RecordingPhase {
        fn begin(&mut self, at: Position) -> Result<()> {
            self.0.push(format!("begin {}.{}", at.epoch, at.step));
            Ok(())
        }

        fn step(&mut self, at: Position) -> Result<()> {
            self.0.push(format!("step {}.{}", at.epoch, at.step));
            Ok(())
        }

        fn loss(&self, at: Position) -> Result<f64> {
            anyhow::ensure!(at.epoch < 3, "the loss became NaN");
            Ok(at.step as f64)
        }

        fn end(&mut self, at: Position, time: EpochTime) -> Result<EpochReport> {
            self.0.push(format!("end {}.{} after {}", at.epoch, at.step, time.steps));
            Ok(EpochReport { loss: self.loss(at)?, metrics: Map::new(), summary: "fine".into() })
        }

        fn save(&mut self, at: Position, _: &Run) -> Result<()> {
            self.0.push(format!("save {}.{}", at.epoch, at.step));
            Ok(())
        }
    }

    #[test]
    fn a_phase_is_led_from_where_it_stands_to_where_it_shall_stop() {
        let folder = tempfile::tempdir().unwrap();
        let recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap();
        let run = &Run::open(folder.path(), &recipe).unwrap();
        let training_loop = TrainingLoop {
            run,
            name: "noted",
            title: "noted",
            work: Activity::Unsaved,
            device: Device::Cpu,
            steps: 2,
            epochs: 9,
            until: 2,
            views: Some(8),
        };
        let mut phase = RecordingPhase(Vec::new());
        training_loop.run(&mut phase, Position { epoch: 0, step: 1 }).unwrap();
        let expected = ["begin 0.1", "step 0.1", "end 0.2 after 1", "save 1.0", "begin 1.0"];
        assert_eq!(phase.0[..5], expected);
        assert_eq!(phase.0[5..], ["step 1.0", "step 1.1", "end 1.2 after 2", "save 2.0"]);
        let lines = run.metrics("noted");
        assert_eq!((lines.len(), &lines[1]["epoch"], &lines[1]["loss"]), (2, &json!(2), &json!(2.0)));
        assert!(lines.iter().all(|line| line["seconds"].is_f64() && line["views_per_second"].is_f64()));

        // What is done is not done again, and what goes wrong is not saved.
        let mut phase = RecordingPhase(Vec::new());
        training_loop.run(&mut phase, Position { epoch: 2, step: 0 }).unwrap();
        assert!(phase.0.is_empty());
        let far = TrainingLoop { until: 4, ..training_loop };
        assert!(far.run(&mut phase, Position { epoch: 3, step: 0 }).is_err());
        assert_eq!(phase.0, ["begin 3.0", "step 3.0"]);
    }
}
