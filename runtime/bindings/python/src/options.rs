//! Options as Python gives them: the classes of `python/orco/options.py`, which has their documentation and defaults.

use std::path::PathBuf;
use std::time::Duration;

use orco_runtime::backup::RestoreOptions;
use orco_runtime::encoder::engine_choice::EngineChoice;
use orco_runtime::learner::{AlignmentTime, AnswerScope, LearnerSettings, ShotChecks};
use orco_runtime::signature::PublicKey;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error::PendingError;
use crate::input::describe;

/// `orco.LearnerOptions`.
pub struct PyLearnerOptions {
    public_key: Option<PathBuf>,
    seed: u64,
    forgetting_budget: Option<f32>,
    false_alarms: f32,
    scope: String,
    keep_shots: bool,
    align: String,
    check_shots: bool,
    wait: f64,
    engine: String,
}

/// `orco.RestoreOptions`.
pub struct PyRestoreOptions {
    public_key: Option<PathBuf>,
    replace: bool,
    other_bundle: bool,
    wait: f64,
}

impl PyLearnerOptions {
    /// The options that were given, or else the defaults.
    pub fn new(py: Python<'_>, given: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let given = &given_or_default(py, given, "LearnerOptions")?;
        Ok(Self {
            public_key: option(given, "public_key")?,
            seed: option(given, "seed")?,
            forgetting_budget: option(given, "forgetting_budget")?,
            false_alarms: option(given, "false_alarms")?,
            scope: option(given, "scope")?,
            keep_shots: option(given, "keep_shots")?,
            align: option(given, "align")?,
            check_shots: option(given, "check_shots")?,
            wait: option(given, "wait")?,
            engine: option(given, "engine")?,
        })
    }

    /// These options as the library takes them.
    pub fn settings(&self) -> PyResult<LearnerSettings> {
        let settings = LearnerSettings::default()
            .seed(self.seed)
            .forgetting_budget(self.forgetting_budget)
            .false_alarms(self.false_alarms)
            .scope(scope(&self.scope)?)
            .wait(seconds(self.wait)?)
            .engine(engine(&self.engine)?)
            .compare_releases(self.public_key.is_some())
            .keep_shots(self.keep_shots)
            .alignment(alignment(&self.align)?)
            .shot_checks(if self.check_shots { ShotChecks::Refuse } else { ShotChecks::Off });
        settings.check().map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(settings)
    }

    /// The key that bundles must be signed with.
    pub fn public_key(&self) -> Result<Option<PublicKey>, PendingError> {
        read_key(self.public_key.as_ref())
    }
}

impl PyRestoreOptions {
    /// The options that were given, or else the defaults.
    pub fn new(py: Python<'_>, given: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let given = &given_or_default(py, given, "RestoreOptions")?;
        Ok(Self {
            public_key: option(given, "public_key")?,
            replace: option(given, "replace")?,
            other_bundle: option(given, "other_bundle")?,
            wait: option(given, "wait")?,
        })
    }

    /// How the state is locked.
    pub fn settings(&self) -> PyResult<LearnerSettings> {
        Ok(LearnerSettings::default().wait(seconds(self.wait)?))
    }

    /// These options as the library takes them, with the key read.
    pub fn restore_options(&self) -> Result<RestoreOptions, PendingError> {
        let key = read_key(self.public_key.as_ref())?;
        Ok(RestoreOptions::default().replace(self.replace).other_bundle(self.other_bundle).public_key(key))
    }
}

fn given_or_default<'py>(
    py: Python<'py>,
    given: Option<Bound<'py, PyAny>>,
    class: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let expected = py.import("orco.options")?.getattr(class)?;
    match given {
        None => expected.call0(),
        Some(given) if given.is_instance(&expected)? => Ok(given),
        Some(given) => Err(PyTypeError::new_err(format!("options are orco.{class}, not {}", describe(&given)))),
    }
}

/// One of the options. Where it is of another type or out of its type's range, the sentence names it as Python does.
fn option<'py, T: FromPyObjectOwned<'py>>(given: &Bound<'py, PyAny>, name: &str) -> PyResult<T> {
    let value = given.getattr(name)?;
    value.extract::<T>().map_err(|error| {
        let error: PyErr = error.into();
        let text = format!("the option {name}: {}", error.value(given.py()));
        if error.is_instance_of::<PyOverflowError>(given.py()) {
            PyOverflowError::new_err(text)
        } else {
            PyTypeError::new_err(text)
        }
    })
}

fn read_key(path: Option<&PathBuf>) -> Result<Option<PublicKey>, PendingError> {
    Ok(path.map(PublicKey::read).transpose()?)
}

fn seconds(wait: f64) -> PyResult<Duration> {
    let wrong = |_| PyValueError::new_err(format!("wait is a finite number of seconds, 0 or more, not {wait:?}"));
    Duration::try_from_secs_f64(wait).map_err(wrong)
}

fn scope(name: &str) -> PyResult<AnswerScope> {
    AnswerScope::named(name).ok_or_else(|| PyValueError::new_err("scope is \"auto\", \"learned\" or \"all\""))
}

fn alignment(name: &str) -> PyResult<AlignmentTime> {
    match name {
        "now" => Ok(AlignmentTime::Now),
        "later" => Ok(AlignmentTime::Later),
        _ => Err(PyValueError::new_err("align is \"now\" or \"later\"")),
    }
}

fn engine(name: &str) -> PyResult<EngineChoice> {
    match name {
        "auto" => Ok(EngineChoice::Auto),
        "onnxruntime" => Ok(EngineChoice::OnnxRuntime),
        "rten" => Ok(EngineChoice::Rten),
        _ => Err(PyValueError::new_err("engine is \"auto\", \"onnxruntime\" or \"rten\"")),
    }
}
