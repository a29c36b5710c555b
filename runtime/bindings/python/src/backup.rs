//! All that a device knows in one file, and going over to another bundle: work on folders, with no learner open.

use std::path::PathBuf;

use orco_runtime::backup::{self, BackupContents};
use orco_runtime::bundle::Bundle;
use orco_runtime::files;
use orco_runtime::learner::upgrade::{self as to_bundle, UpgradeOptions};
use orco_runtime::store::Store;
use pyo3::prelude::*;

use crate::ending::detached;
use crate::error::PendingError;
use crate::interrupt::{self, report_of};
use crate::learner::warn;
use crate::options::{PyLearnerOptions, PyRestoreOptions};
use crate::output::PyReport;

/// What a backup holds.
#[pyclass(module = "orco", name = "Backup", frozen, get_all)]
pub struct PyBackup {
    /// Classes that were learned on the device.
    learned_classes: usize,
    /// Stored exemplars.
    exemplars: usize,
    /// Kept pictures of shots.
    pictures: usize,
    /// Bytes of the file.
    bytes: u64,
}

impl From<&BackupContents> for PyBackup {
    fn from(contents: &BackupContents) -> Self {
        let BackupContents { classes, exemplars, pictures, bytes, .. } = *contents;
        Self { learned_classes: classes, exemplars, pictures, bytes }
    }
}

#[pymethods]
impl PyBackup {
    fn __repr__(&self) -> String {
        let Self { learned_classes, exemplars, pictures, bytes } = self;
        format!("Backup(learned_classes={learned_classes}, exemplars={exemplars}, pictures={pictures}, bytes={bytes})")
    }
}

/// What going over to another bundle did.
#[pyclass(module = "orco", name = "Upgrade", frozen)]
pub struct PyUpgrade {
    /// How the new state answers.
    #[pyo3(get)]
    report: Py<PyReport>,
    /// The classes in the order of learning: label, share of the shots that was recognised when they were learned, and
    /// is now; None where it is not known.
    #[pyo3(get)]
    classes: Vec<(String, Option<f32>, Option<f32>)>,
    /// Labels of classes that were given up, since no picture of them was kept.
    #[pyo3(get)]
    dropped: Vec<String>,
}

#[pymethods]
impl PyUpgrade {
    fn __repr__(&self) -> String {
        format!("Upgrade(classes={:?}, dropped={:?})", self.classes, self.dropped)
    }
}

/// Puts what a backup holds into a state's folder.
#[pyfunction]
#[pyo3(signature = (bundle, state, path, options=None))]
pub fn restore(
    py: Python<'_>,
    bundle: PathBuf,
    state: PathBuf,
    path: PathBuf,
    options: Option<Bound<'_, PyAny>>,
) -> PyResult<PyBackup> {
    let options = PyRestoreOptions::new(py, options)?;
    let settings = options.settings()?;
    let outcome = detached(py, || -> Result<_, PendingError> {
        let options = options.restore_options()?;
        let bundle = Bundle::open_trusted(&bundle, options.public_key.as_ref())?;
        let unreadable = |error| PendingError::Backup(format!("{} cannot be read: {error}", path.display()));
        let mut file = files::open_regular(&path).map_err(unreadable)?;
        Ok(backup::restore(&bundle, &Store::new(&state), &settings, &mut file, &options)?)
    })?;
    Ok((&report_of(py, outcome)?).into())
}

/// Learns all that a device knows again on another bundle.
#[pyfunction]
#[pyo3(signature = (bundle, state, options=None, *, force=false, give_up_unkept=false))]
pub fn upgrade(
    py: Python<'_>,
    bundle: PathBuf,
    state: PathBuf,
    options: Option<Bound<'_, PyAny>>,
    force: bool,
    give_up_unkept: bool,
) -> PyResult<PyUpgrade> {
    let options = PyLearnerOptions::new(py, options)?;
    let settings = options.settings()?;
    let upgraded = interrupt::change(py, |observer| {
        let key = options.public_key()?;
        let bundle = Bundle::open_trusted(&bundle, key.as_ref())?;
        let options = UpgradeOptions::default().force(force).give_up_unkept(give_up_unkept);
        Ok(to_bundle::upgrade(&bundle, &Store::new(&state), &settings, &options, observer)?)
    })?;
    upgraded.warnings.iter().try_for_each(|warning| warn(py, warning))?;
    let classes = upgraded.classes.into_iter().map(|class| (class.label, class.before, class.after)).collect();
    let report = Py::new(py, PyReport::from(&upgraded.report))?;
    Ok(PyUpgrade { report, classes, dropped: upgraded.dropped })
}
