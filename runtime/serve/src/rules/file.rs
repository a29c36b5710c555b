//! The file of rules.
//!
//! ```toml
//! [[rule]]
//! label = "mug"                       # "unknown" and "empty" are labels, too
//! for = 2                             # seconds that it must be shown
//! pause = 60                          # seconds before the rule acts again
//! webhook = { url = "https://example.org/seen", secret-file = "secret", picture = true }
//! command = ["/usr/local/bin/open-door"]
//! gpio = { chip = "/dev/gpiochip0", line = 17, seconds = 0.5 }
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::Uri;
use orco_camera::mask_address;
use orco_runtime::files;
use orco_runtime::state::label;
use serde::Deserialize;

use super::action::{Action, Gpio, Webhook};
use crate::address_port::port_of;
use crate::secret_file;

/// Most bytes of a file of rules.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Longest time in a rule, in seconds.
const MAX_TIME_SECONDS: f64 = 7.0 * 24.0 * 3600.0;
/// Longest pulse, in seconds: other actions wait for its end.
const MAX_PULSE_SECONDS: f64 = 60.0;
/// Most bytes of a secret.
const MAX_SECRET_BYTES: u64 = 4096;

/// What is done once a label was shown for a while.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The label that must be shown.
    pub label: String,
    /// For how long it must be shown.
    pub shown_for: Duration,
    /// Time before the rule acts again.
    pub pause: Duration,
    /// What it does, in this order.
    pub actions: Vec<Action>,
}

impl Rule {
    /// Whether a label that is shown is the rule's.
    pub fn is_about(&self, label: &str) -> bool {
        self.label == label
    }
}

/// Why rules cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no file of rules.
    #[error("{} holds no rules: {reason}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A rule cannot be used.
    #[error("rule {number} of {}: {reason}", path.display())]
    Rule {
        /// The file.
        path: PathBuf,
        /// The rule, from 1.
        number: usize,
        /// What is wrong with it.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    #[serde(default)]
    rule: Vec<WrittenRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table [[rule]]")]
struct WrittenRule {
    label: String,
    #[serde(default = "default_shown_for", rename = "for")]
    shown_for: f64,
    #[serde(default = "default_pause")]
    pause: f64,
    webhook: Option<WrittenWebhook>,
    command: Option<Vec<String>>,
    gpio: Option<WrittenGpio>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "{ url = \"...\" }")]
struct WrittenWebhook {
    url: String,
    secret_file: Option<PathBuf>,
    #[serde(default)]
    picture: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "{ chip = \"...\", line = ... }")]
struct WrittenGpio {
    chip: PathBuf,
    line: u32,
    #[serde(default = "default_pulse")]
    seconds: f64,
    #[serde(default)]
    active_low: bool,
}

fn default_shown_for() -> f64 {
    2.0
}

fn default_pause() -> f64 {
    60.0
}

fn default_pulse() -> f64 {
    0.5
}

/// Reads a file of rules, and looks whether all of them can be used; nothing is called or switched.
pub(super) fn read(path: &Path) -> Result<Vec<Rule>, RulesError> {
    let unreadable = |source| RulesError::Read { path: path.into(), source };
    let malformed = |reason: String| RulesError::Form { path: path.into(), reason };
    let bytes = files::read(path, MAX_FILE_BYTES).map_err(unreadable)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| malformed(error.to_string()))?;
    let file: RuleFile = toml::from_str(text).map_err(|error| malformed(fault_of(&error, text)))?;
    if file.rule.is_empty() {
        return Err(malformed("it has no table [[rule]]".into()));
    }
    // Files are named as from the folder of the file that names them.
    let folder = path.parent().unwrap_or(Path::new(""));
    let rules = file.rule.into_iter().enumerate().map(|(number, written)| {
        let wrong = |reason| RulesError::Rule { path: path.into(), number: number + 1, reason };
        checked(written, folder).map_err(wrong)
    });
    rules.collect()
}

/// What is wrong, and in which line. The line itself is not shown: a password may stand in it. What the message repeats
/// of it is masked.
fn fault_of(error: &toml::de::Error, text: &str) -> String {
    let message = mask_address(&error.message().trim_end().replace('\n', ", "));
    match error.span().and_then(|span| text.as_bytes().get(..span.start)) {
        Some(before) => format!("line {}: {message}", 1 + before.iter().filter(|byte| **byte == b'\n').count()),
        None => message,
    }
}

fn checked(written: WrittenRule, folder: &Path) -> Result<Rule, String> {
    let WrittenRule { label: written_label, shown_for, pause, webhook, command, gpio } = written;
    let label = label::normal(&written_label);
    if label.is_empty() {
        return Err("its label is empty".into());
    }
    let mut actions = Vec::new();
    if let Some(webhook) = webhook {
        actions.push(Action::Webhook(checked_webhook(webhook, folder)?));
    }
    if let Some(command) = command {
        match command.first() {
            Some(program) if Path::new(program).is_absolute() => actions.push(Action::Command(command)),
            Some(program) => return Err(format!("command: name the program by its full path, not \"{program}\"")),
            None => return Err("command: it names no program".into()),
        }
    }
    if let Some(WrittenGpio { chip, line, seconds, active_low }) = gpio {
        if !cfg!(target_os = "linux") {
            return Err("gpio: this system has no lines that can be switched".into());
        }
        let pulse = seconds_up_to(MAX_PULSE_SECONDS, "gpio: seconds", seconds)?;
        actions.push(Action::Gpio(Gpio { chip, line, pulse, active_low }));
    }
    if actions.is_empty() {
        return Err("it does nothing: give it a webhook, a command or a gpio line".into());
    }
    let shown_for = seconds_up_to(MAX_TIME_SECONDS, "for", shown_for)?;
    let pause = seconds_up_to(MAX_TIME_SECONDS, "pause", pause)?;
    Ok(Rule { label, shown_for, pause, actions })
}

fn checked_webhook(written: WrittenWebhook, folder: &Path) -> Result<Webhook, String> {
    let WrittenWebhook { url, secret_file, picture } = written;
    let shown = mask_address(&url);
    let uri: Uri = url.parse().map_err(|_| format!("webhook: \"{shown}\" is no web address"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return Err(format!("webhook: \"{shown}\" does not begin with http:// or https:// and a host"));
    }
    port_of(&uri).map_err(|why| format!("webhook: \"{shown}\" {why}"))?;
    let secret = secret_file.map(|path| secret(&folder.join(path))).transpose()?;
    Ok(Webhook::new(url, secret, picture))
}

/// Reads a secret, which its owner alone may read.
fn secret(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: io::Error| format!("webhook: cannot read {}: {error}", path.display());
    let exposed = || format!("webhook: others may read {}: make it private (chmod 600)", path.display());
    let file = secret_file::open(path).map_err(unreadable)?.ok_or_else(exposed)?;
    let secret = files::read_opened(file, MAX_SECRET_BYTES).map_err(unreadable)?.trim_ascii().to_vec();
    if secret.is_empty() {
        return Err(format!("webhook: {} is empty", path.display()));
    }
    Ok(secret)
}

fn seconds_up_to(max: f64, name: &str, seconds: f64) -> Result<Duration, String> {
    if (0.0..=max).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("{name}: {seconds} is no number of seconds from 0 to {max}"))
    }
}
