//! All that a device knows in one file, and moving to another bundle: work on folders, with no learner open.

use std::mem;
use std::path::PathBuf;

use orco_runtime::backup::{self, BackupContents};
use orco_runtime::bundle::Bundle;
use orco_runtime::files;
use orco_runtime::learner::upgrade::{self as to_bundle, UpgradeOptions};
use orco_runtime::store::Store;
use pyo3::prelude::*;

use crate::ending::detached;
use crate::error::PendingError;
use crate::input::not_empty;
use crate::interrupt::{self, report_of};
use crate::learner::warn;
use crate::options::{PyLearnerOptions, PyRestoreOptions};
use crate::output::{PyReport, into_class};

/// What a backup holds.
pub struct PyBackup {
    learned_classes: usize,
    exemplars: usize,
    pictures: usize,
    bytes: u64,
}

into_class!(PyBackup, "Backup", learned_classes, exemplars, pictures, bytes);

impl From<&BackupContents> for PyBackup {
    fn from(contents: &BackupContents) -> Self {
        let BackupContents { classes, exemplars, pictures, bytes, .. } = *contents;
        Self { learned_classes: classes, exemplars, pictures, bytes }
    }
}

/// What moving to another bundle did.
pub struct PyUpgrade {
    report: PyReport,
    /// Label, share of the shots that was recognised when they were learned, and is now.
    classes: Vec<(String, Option<f32>, Option<f32>)>,
    dropped: Vec<String>,
}

into_class!(PyUpgrade, "Upgrade", report, classes, dropped);

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
    let (bundle, state) = (not_empty(bundle, "bundle")?, not_empty(state, "state")?);
    let path = not_empty(path, "path")?;
    let options = PyRestoreOptions::new(py, options)?;
    let settings = options.settings()?;
    let outcome = detached(py, || -> Result<_, PendingError> {
        let options = options.restore_options()?;
        let bundle = Bundle::open_trusted(&bundle, options.public_key.as_ref())?;
        let unreadable = |error| PendingError::Backup(format!("{} cannot be read: {error}", path.display()));
        let mut file = files::open_regular(&path).map_err(unreadable)?;
        backup::restore(&bundle, &Store::new(&state), &settings, &mut file, &options)
            .map_err(|error| PendingError::from(error).of_file(&path))
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
    let (bundle, state) = (not_empty(bundle, "bundle")?, not_empty(state, "state")?);
    let options = PyLearnerOptions::new(py, options)?;
    let mut settings = options.settings()?;
    let wait = mem::take(&mut settings.wait);
    let bundle = detached(py, || -> Result<_, PendingError> {
        let key = options.public_key()?;
        Ok(Bundle::open_trusted(&bundle, key.as_ref())?)
    })?;
    let options = UpgradeOptions::default().force(force).give_up_unkept(give_up_unkept);
    let upgraded = interrupt::change(py, wait, |observer| {
        Ok(to_bundle::upgrade(&bundle, &Store::new(&state), &settings, &options, observer)?)
    })?;
    upgraded.warnings.iter().try_for_each(|warning| warn(py, warning))?;
    let classes = upgraded.classes.into_iter().map(|class| (class.label, class.before, class.after)).collect();
    Ok(PyUpgrade { report: (&upgraded.report).into(), classes, dropped: upgraded.dropped })
}
