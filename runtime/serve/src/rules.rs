//! Rules: once a label was shown for a while, a rule calls a web address, starts a program, or switches a GPIO line.
//!
//! One thread reads what the camera shows twenty times a second and decides ([`RuleClock`]); another one acts, so that
//! a slow web server delays no decision. At most [`MAX_WAITING_OCCURRENCES`] wait; further ones are dropped, and the
//! log says so.

mod action;
mod clock;
mod file;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use orco_runtime::clock::seconds_since_1970;
use orco_runtime::state::escape::EscapedText;
use orco_runtime::state::label;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

pub use self::action::{Action, Gpio, Webhook};
pub use self::clock::RuleClock;
pub use self::file::{Rule, RulesError};
use crate::answers::Answers;
use crate::error::ServeError;
use crate::in_view::{InView, in_view};
use crate::knowledge::Knowledge;
use crate::live::LiveCameraReader;
use crate::live_snapshot::LiveSnapshot;
use crate::metric::RuleActionMetric;
use crate::service::Service;
use crate::worker::{self, Worker};

/// Time between two comparisons of what is shown with the rules: at most half the time that a picture of a folder is
/// shown.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Least time between two log entries about dropped occurrences.
const DROP_LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Most occurrences that may wait, each with all actions of its rule.
pub const MAX_WAITING_OCCURRENCES: usize = 32;

/// Something that a rule has noticed.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// The label that is shown.
    pub label: String,
    /// How probable it is, 0..1.
    pub probability: Option<f64>,
    /// Seconds since 1970.
    pub time: u64,
    /// A small JPEG of the frame.
    pub picture: Option<Bytes>,
}

/// Follows rules until it is dropped.
#[derive(Debug)]
pub struct Rules {
    rules: Arc<Vec<Rule>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Rules {
    /// Reads the rules of a file.
    ///
    /// # Errors
    /// [`RulesError`] says what cannot be used, and in which rule.
    pub fn read(path: &Path) -> Result<Vec<Rule>, RulesError> {
        file::read(path)
    }

    /// Starts to follow rules by what the service's camera shows. Without a camera nothing ever happens.
    ///
    /// # Errors
    /// [`ServeError`] if a thread cannot be started.
    pub fn start(service: &Service, rules: Vec<Rule>) -> Result<Self, ServeError> {
        let (rules, stop) = (Arc::new(rules), Arc::new(AtomicBool::new(false)));
        let Some(live) = service.live() else {
            log::warn!("there are rules, but no camera: nothing will ever happen");
            return Ok(Self { rules, stop, threads: Vec::new() });
        };
        let (sender, queue) = mpsc::sync_channel(MAX_WAITING_OCCURRENCES);
        let outcomes = ActionOutcomes(service.metrics.rule_actions.clone());
        let actor =
            ActionWorker { rules: Arc::clone(&rules), queue, outcomes: outcomes.clone(), stop: Arc::clone(&stop) };
        let actions = ActionQueue { queue: sender, last_logged: None, outcomes };
        let watcher = RuleWorker {
            rules: Arc::clone(&rules),
            answers: service.answers.clone(),
            missing: MissingLabels::default(),
            live: live.reader(),
            actions,
            stop: Arc::clone(&stop),
        };
        let threads = vec![worker::start(actor, &service.health)?, worker::start(watcher, &service.health)?];
        Ok(Self { rules, stop, threads })
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.rules.iter().flat_map(|rule| &rule.actions).for_each(Action::interrupt);
        self.threads.drain(..).for_each(worker::join);
    }
}

/// The labels of rules that no class has, as of the last search.
#[derive(Default)]
struct MissingLabels {
    /// Version of the knowledge that was searched.
    knowledge_version: Option<u64>,
    /// What was found.
    warning: Option<String>,
}

impl MissingLabels {
    /// The warning to log, if it is another than before. A class may be renamed or forgotten at any time.
    fn new_warning(&mut self, rules: &[Rule], known: &Knowledge) -> Option<String> {
        if self.knowledge_version.replace(known.version) == Some(known.version) {
            return None;
        }
        let before = std::mem::replace(&mut self.warning, missing_labels_warning(rules, known));
        self.warning.clone().filter(|_| self.warning != before)
    }
}

/// Says which labels of rules no class has: a class may still be taught, but a mistyped label never comes. Names the
/// class whose label differs in capitals alone, or in underscores, which the page shows as spaces.
fn missing_labels_warning(rules: &[Rule], known: &Knowledge) -> Option<String> {
    let is_shown = |label: &str| {
        [label::UNKNOWN, label::EMPTY].contains(&label) || known.classes.iter().any(|class| class.label == label)
    };
    let labels: BTreeSet<&str> = rules.iter().map(|rule| &*rule.label).filter(|label| !is_shown(label)).collect();
    let plain = |label: &str| label.to_lowercase().replace('_', " ");
    let quote = |label: &str| {
        let alike = known.classes.iter().find(|class| plain(&class.label) == plain(label));
        let hint = alike.map(|class| format!(" (one is called \"{}\")", EscapedText(&class.label)));
        format!("\"{}\"{}", EscapedText(label), hint.unwrap_or_default())
    };
    let quoted: Vec<String> = labels.into_iter().map(quote).collect();
    (!quoted.is_empty())
        .then(|| format!("no class is called {}: rules about that act once one is", quoted.join(" or ")))
}

/// Counts what came of actions, for Prometheus.
#[derive(Clone, Default)]
struct ActionOutcomes(Family<RuleActionMetric, Counter>);

impl ActionOutcomes {
    fn count(&self, outcome: &'static str) {
        self.0.get_or_create(&RuleActionMetric { outcome }).inc();
    }
}

/// A rule that is to act, and why.
struct DueRule {
    /// Its place in the file, from 0.
    number: usize,
    occurrence: Occurrence,
}

/// The queue to the thread that acts. It logs dropped occurrences at most once in [`DROP_LOG_INTERVAL`].
struct ActionQueue {
    queue: SyncSender<DueRule>,
    /// When a dropped occurrence was last logged.
    last_logged: Option<Instant>,
    outcomes: ActionOutcomes,
}

impl ActionQueue {
    /// Hands a rule on, or drops it where too many wait. Returns whether to log the drop: a rule without a pause may
    /// be due twenty times a second, and one entry a minute is enough.
    fn push(&mut self, due: DueRule, now: Instant) -> bool {
        let is_dropped = matches!(self.queue.try_send(due), Err(TrySendError::Full(_)));
        if is_dropped {
            self.outcomes.count("dropped");
        }
        let is_to_be_logged =
            is_dropped && self.last_logged.is_none_or(|logged| now.duration_since(logged) >= DROP_LOG_INTERVAL);
        if is_to_be_logged {
            self.last_logged = Some(now);
        }
        is_to_be_logged
    }
}

/// Compares what is shown with the rules.
struct RuleWorker {
    rules: Arc<Vec<Rule>>,
    answers: Answers,
    missing: MissingLabels,
    live: LiveCameraReader,
    actions: ActionQueue,
    stop: Arc<AtomicBool>,
}

impl Worker for RuleWorker {
    const NAME: &'static str = "rules";

    fn run(&mut self, up: &mut dyn FnMut()) -> Result<(), ServeError> {
        let rules = Arc::clone(&self.rules);
        let mut clocks: Vec<RuleClock> = rules.iter().map(RuleClock::of).collect();
        self.log_missing_labels();
        up();
        while !worker::sleep(POLL_INTERVAL, || self.is_stopping()) {
            self.log_missing_labels();
            let shown = shown_labels(&self.live.snapshot());
            for (number, (rule, clock)) in rules.iter().zip(&mut clocks).enumerate() {
                let found = shown.iter().find(|(label, _)| rule.is_about(label));
                if clock.tick(found.is_some(), Instant::now())
                    && let Some((label, probability)) = found
                {
                    self.act(number, label, *probability);
                }
            }
        }
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl RuleWorker {
    fn log_missing_labels(&mut self) {
        if let Some(warning) = self.missing.new_warning(&self.rules, &self.answers.knowledge()) {
            log::warn!("{warning}");
        }
    }

    fn act(&mut self, number: usize, label: &str, probability: Option<f64>) {
        let time = seconds_since_1970();
        let picture = self.live.jpeg();
        let occurrence = Occurrence { label: label.to_owned(), probability, time, picture };
        if self.actions.push(DueRule { number, occurrence }, Instant::now()) {
            let seconds = DROP_LOG_INTERVAL.as_secs();
            log::warn!(
                "rule {}: an action was dropped, since {MAX_WAITING_OCCURRENCES} wait already; further drops are not \
                 logged for {seconds} s",
                number + 1
            );
        }
    }
}

/// What is shown, in the words of rules: labels with their probabilities.
fn shown_labels(live: &LiveSnapshot) -> Vec<(String, Option<f64>)> {
    let in_words = |shown| match shown {
        InView::Empty => (label::EMPTY.to_owned(), None),
        InView::Unknown => (label::UNKNOWN.to_owned(), None),
        InView::Known { label, probability } => (label, Some(probability)),
    };
    in_view(live).into_iter().map(in_words).collect()
}

/// Acts, one action after the other.
struct ActionWorker {
    rules: Arc<Vec<Rule>>,
    queue: Receiver<DueRule>,
    outcomes: ActionOutcomes,
    stop: Arc<AtomicBool>,
}

impl Worker for ActionWorker {
    const NAME: &'static str = "actions";

    fn run(&mut self, up: &mut dyn FnMut()) -> Result<(), ServeError> {
        up();
        while !self.is_stopping() {
            match self.queue.recv_timeout(POLL_INTERVAL) {
                Ok(DueRule { number, occurrence }) => {
                    for action in &self.rules[number].actions {
                        match action.perform(&occurrence, &|| self.is_stopping()) {
                            Ok(()) => self.outcomes.count("done"),
                            Err(reason) => {
                                self.outcomes.count("failed");
                                log::warn!("rule {}: {action} failed: {reason}", number + 1);
                            }
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
