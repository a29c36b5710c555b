//! All that a device knows in one file, and going over to another bundle: work on folders, with no learner open.

use std::path::PathBuf;
use std::time::Duration;

use orco_runtime::backup::{self, BackupContents, RestoreOptions};
use orco_runtime::bundle::Bundle;
use orco_runtime::files;
use orco_runtime::learner::LearnerSettings;
use orco_runtime::learner::upgrade::{self as to_bundle, UpgradeOptions};
use orco_runtime::signature::PublicKey;
use orco_runtime::store::Store;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::Failure;
use crate::learner::{Signals, doubted, engine_of, warn};
use crate::output::Report;

/// What a backup holds.
#[pyclass(module = "orco", frozen, get_all)]
pub struct Backup {
    /// Classes that were learned on the device.
    learned_classes: usize,
    /// Stored exemplars.
    exemplars: usize,
    /// Kept pictures of shots.
    pictures: usize,
    /// Bytes of the file.
    bytes: u64,
}

impl From<&BackupContents> for Backup {
    fn from(contents: &BackupContents) -> Self {
        let BackupContents { classes, exemplars, pictures, bytes, .. } = *contents;
        Self { learned_classes: classes, exemplars, pictures, bytes }
    }
}

#[pymethods]
impl Backup {
    fn __repr__(&self) -> String {
        let Self { learned_classes, exemplars, pictures, bytes } = self;
        format!("Backup(learned_classes={learned_classes}, exemplars={exemplars}, pictures={pictures}, bytes={bytes})")
    }
}

/// What going over to another bundle did.
#[pyclass(module = "orco", frozen)]
pub struct Upgrade {
    /// How the new state answers.
    #[pyo3(get)]
    report: Py<Report>,
    /// The classes in the order of learning: label, share of the shots that was recognised when they were learned, and
    /// is now; None where it is not known.
    #[pyo3(get)]
    classes: Vec<(String, Option<f32>, Option<f32>)>,
    /// Labels of classes that were given up, since no picture of them was kept.
    #[pyo3(get)]
    dropped: Vec<String>,
}

#[pymethods]
impl Upgrade {
    fn __repr__(&self) -> String {
        format!("Upgrade(classes={:?}, dropped={:?})", self.classes, self.dropped)
    }
}

/// A number of seconds.
pub fn seconds(wait: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(wait).map_err(|_| PyValueError::new_err("wait is a number of seconds, 0 or more"))
}

/// Puts what a backup holds into a state's folder.
#[pyfunction]
#[pyo3(signature = (bundle, state, path, *, replace=false, other_bundle=false, wait=0.0))]
pub fn restore(
    py: Python<'_>,
    bundle: PathBuf,
    state: PathBuf,
    path: PathBuf,
    replace: bool,
    other_bundle: bool,
    wait: f64,
) -> PyResult<Backup> {
    let wait = seconds(wait)?;
    let made = py.detach(|| -> Result<_, Failure> {
        let bundle = Bundle::open(&bundle)?;
        let unreadable = |error| Failure::Backup(format!("{} cannot be read: {error}", path.display()));
        let mut file = files::open_regular(&path).map_err(unreadable)?;
        let settings = LearnerSettings::default().wait(wait);
        let options = RestoreOptions::default().replace(replace).other_bundle(other_bundle);
        Ok(backup::restore(&bundle, &Store::new(&state), &settings, &mut file, &options)?)
    })?;
    let contents = doubted(py, made)?;
    Ok((&contents).into())
}

/// Learns all that a device knows again on another bundle.
#[pyfunction]
#[pyo3(signature = (bundle, state, *, public_key=None, force=false, seed=1, wait=0.0, engine="auto"))]
#[expect(clippy::too_many_arguments, reason = "Python's are named")]
pub fn upgrade(
    py: Python<'_>,
    bundle: PathBuf,
    state: PathBuf,
    public_key: Option<PathBuf>,
    force: bool,
    seed: u64,
    wait: f64,
    engine: &str,
) -> PyResult<Upgrade> {
    let (wait, engine) = (seconds(wait)?, engine_of(engine)?);
    let compare_releases = public_key.is_some();
    let settings = LearnerSettings::default().seed(seed).wait(wait).engine(engine).compare_releases(compare_releases);
    let made = py.detach(|| -> Result<_, Failure> {
        let key = public_key.map(|path| PublicKey::read(&path)).transpose()?;
        let bundle = Bundle::open_trusted(&bundle, key.as_ref())?;
        let mut signals = Signals::default();
        let options = UpgradeOptions::default().force(force);
        let made = to_bundle::upgrade(&bundle, &Store::new(&state), &settings, &options, &mut signals);
        made.map_err(|error| match signals.0 {
            Some(interrupt) => Failure::Python(interrupt),
            None => error.into(),
        })
    })?;
    let upgraded = doubted(py, made)?;
    upgraded.warnings.iter().try_for_each(|warning| warn(py, warning))?;
    let classes = upgraded.classes.into_iter().map(|class| (class.label, class.before, class.after)).collect();
    let report = Py::new(py, Report::from(&upgraded.report))?;
    Ok(Upgrade { report, classes, dropped: upgraded.dropped })
}
