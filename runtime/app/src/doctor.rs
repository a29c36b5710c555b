//! The checks of `orco doctor`, one file for each subject. Every check is a finding; a failed one says how to mend it.

mod bundle;
mod engine;
#[cfg(feature = "hub")]
mod hub;
mod machine;
#[cfg(feature = "serve")]
mod service;
mod state;
mod writable;

use std::fmt;
#[cfg(feature = "serve")]
use std::path::Path;
use std::path::PathBuf;

use anyhow::Error;

use crate::advice;
use crate::config::SettingsFile;
use crate::options::Options;
#[cfg(feature = "serve")]
use crate::phone;

/// How a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Good,
    /// Nothing to mend, but to know.
    Note,
    /// To be mended.
    Wrong,
}

impl Level {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Wrong => "wrong",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Wrong => "WRONG",
        })
    }
}

/// What was found about one subject.
pub struct Finding {
    /// What it is about, in one or two words.
    pub subject: &'static str,
    /// How it is.
    pub level: Level,
    /// What was found; where it must be mended, how.
    pub text: String,
}

/// All findings, as they come.
#[derive(Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    fn add(&mut self, subject: &'static str, level: Level, text: impl Into<String>) {
        self.0.push(Finding { subject, level, text: text.into() });
    }

    fn good(&mut self, subject: &'static str, text: impl Into<String>) {
        self.add(subject, Level::Good, text);
    }

    fn note(&mut self, subject: &'static str, text: impl Into<String>) {
        self.add(subject, Level::Note, text);
    }

    fn wrong(&mut self, subject: &'static str, text: impl Into<String>) {
        self.add(subject, Level::Wrong, text);
    }

    /// What an error says and advises.
    fn failed(&mut self, subject: &'static str, error: impl Into<Error>) {
        self.wrong(subject, advice::sentence(&error.into()));
    }

    /// How many must be mended.
    pub fn wrongs(&self) -> usize {
        self.0.iter().filter(|finding| finding.level == Level::Wrong).count()
    }
}

/// Reports settings whose faults stop only the commands that use them.
pub fn examine_settings(file: Option<&SettingsFile>, findings: &mut Findings) {
    for fault in file.into_iter().flat_map(|file| file.faults.values()) {
        findings.wrong("settings", fault);
    }
}

/// Checks bundle, state, engines and machine. Returns the state's folder, where that is known.
pub fn examine(options: &Options, findings: &mut Findings) -> Option<PathBuf> {
    machine::processor(findings);
    machine::clock(findings);
    let bundle = bundle::check(options, findings);
    engine::onnx_runtime(options, findings);
    if let Some(bundle) = &bundle {
        engine::rten(options, bundle, findings);
    }
    let state = state::folder(options, bundle.as_ref(), findings);
    let needed = state.as_deref().and_then(|folder| state::check(options, folder, bundle, findings));
    machine::memory(needed, findings);
    machine::cameras(findings);
    state
}

/// Checks what the service on that state needs.
#[cfg(feature = "serve")]
pub fn examine_service(arguments: &crate::serve_options::ServeOptions, state: Option<&Path>, findings: &mut Findings) {
    // What is not given for phones lies there.
    let phone = state.filter(|_| arguments.phone).map(phone::folder_of);
    service::memory(arguments, findings);
    service::token(arguments, phone.as_deref(), findings);
    service::certificate(arguments, phone.as_deref(), findings);
    service::port(arguments, findings);
    service::camera(arguments, findings);
    service::regions(arguments, findings);
    service::rules(arguments, findings);
    service::sightings(arguments, findings);
    #[cfg(feature = "mqtt")]
    service::mqtt(arguments, findings);
}

/// Checks what rounds with the fleet's hub need.
#[cfg(feature = "hub")]
pub fn examine_fleet(
    options: &Options,
    arguments: &crate::fleet_options::FleetOptions,
    state: Option<&Path>,
    findings: &mut Findings,
) {
    hub::check(options, arguments, state, findings);
}
