//! The class `orco.Learner`. Documentation for people stands in `python/orco/_orco.pyi`.

use std::ffi::CString;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use numpy::ndarray::{Array2, Array3, Ix2};
use numpy::{IntoPyArray, PyArray2, PyArray3};
use orco_runtime::backup::{self, BackupError, BackupOptions};
use orco_runtime::bundle::Bundle;
use orco_runtime::files::destination::ExistingFile;
use orco_runtime::learner::{ChangeError, ChangeOutcome, Learner, Observer};
use orco_runtime::pack::{self, PackOrigin, WritePackError};
use orco_runtime::state::Balance;
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::Store;
use orco_runtime::threads::ProcessLock;
use pyo3::exceptions::{PyRuntimeWarning, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyMapping;

use crate::backup::PyBackup;
use crate::ending::{detached, in_python};
use crate::error::PendingError;
use crate::input::{self, PyPicture, PyShots};
use crate::interrupt;
use crate::options::PyLearnerOptions;
use crate::output::{PyAnswer, PyCounts, PyHistoryEntry, PyKnownClass, PyReport};

/// A device that classifies pictures and learns new classes: an opened bundle and the state that was learned on it.
#[pyclass(module = "orco", name = "Learner", frozen, weakref)]
pub struct PyLearner {
    /// It does not wait for other processes itself.
    learner: ProcessLock<Learner>,
    /// How long a change waits for another process.
    wait: Duration,
    /// Views of a shot, and features of a view.
    shape: [usize; 2],
    /// What Python shows of it: nothing that changes, so that nobody waits for another call.
    repr: String,
}

/// Warns through Python's `warnings`.
pub fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let text = CString::new(text.replace('\0', "\u{fffd}"))?;
    in_python(py, || PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1))
}

/// Warns of a file that is in place, but that a power cut could still lose.
fn warn_unsynced(py: Python<'_>, path: &Path, error: &io::Error) -> PyResult<()> {
    warn(py, &format!("{}: {error}", path.display()))
}

impl PyLearner {
    /// Uses the learner without Python's lock, after any other call.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Learner) -> Result<T, PendingError> + Send,
    ) -> PyResult<T> {
        Ok(detached(py, || work(&mut *self.learner.lock()?))?)
    }

    /// Makes a change and returns its report, with warnings of what was wrong with the state that it read before.
    fn change<T: Send>(
        &self,
        py: Python<'_>,
        mut change: impl FnMut(&mut Learner, &mut dyn Observer) -> Result<ChangeOutcome<T>, ChangeError> + Send,
    ) -> PyResult<T> {
        let mut found = Vec::new();
        let made = interrupt::change(py, self.wait, |observer| {
            let mut learner = self.learner.lock()?;
            let known = learner.warnings().to_vec();
            let made = change(&mut learner, observer)?;
            found.extend(learner.warnings().iter().filter(|warning| !known.contains(warning)).cloned());
            Ok(made)
        });
        // The learner does not repeat them: warn now, even if a signal ended the change.
        let told = found.iter().try_for_each(|warning| warn(py, warning));
        made.and_then(|report| told.map(|()| report))
    }

    /// Encodes pictures one after the other.
    fn encode<'py, T: Send>(
        &self,
        pictures: &Bound<'py, PyAny>,
        encode: impl Fn(&mut Learner, PyPicture) -> Result<T, PendingError> + Sync,
    ) -> PyResult<Vec<T>> {
        let encoded = input::pictures(pictures, None)?.map(|picture| {
            let picture = picture?;
            pictures.py().check_signals()?;
            self.with(pictures.py(), |learner| encode(learner, picture))
        });
        encoded.collect()
    }
}

#[pymethods]
impl PyLearner {
    #[new]
    #[pyo3(signature = (bundle, state, options=None))]
    fn new(py: Python<'_>, bundle: PathBuf, state: PathBuf, options: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let (bundle, state) = (input::not_empty(bundle, "bundle")?, input::not_empty(state, "state")?);
        let options = PyLearnerOptions::new(py, options)?;
        let mut settings = options.settings()?;
        let wait = mem::take(&mut settings.wait);
        let learner = detached(py, || -> Result<_, PendingError> {
            let key = options.public_key()?;
            let bundle = Bundle::open_trusted(&bundle, key.as_ref())?;
            Ok(Learner::new(bundle, Store::new(&state), settings)?)
        })?;
        learner.warnings().iter().try_for_each(|warning| warn(py, warning))?;
        let shape = [learner.base_model().config.views, learner.base_model().head.inputs];
        let repr =
            format!("<orco.Learner: bundle {:?}, state {:?}>", learner.bundle().folder, learner.store().folder());
        Ok(Self { learner: ProcessLock::new(learner), wait, shape, repr })
    }

    fn __repr__(&self) -> &str {
        &self.repr
    }

    /// Says what pictures show.
    #[pyo3(signature = (pictures, *, most=5))]
    fn classify(&self, pictures: &Bound<'_, PyAny>, most: usize) -> PyResult<Vec<PyAnswer>> {
        self.encode(pictures, |learner, picture| {
            let answer = learner.classify(&picture.open()?)?;
            Ok(PyAnswer::new(learner, &answer, most))
        })
    }

    /// Says what pictures show whose features are known.
    #[pyo3(signature = (features, *, most=5))]
    fn classify_features(&self, features: &Bound<'_, PyAny>, most: usize) -> PyResult<Vec<PyAnswer>> {
        let given = input::float_array::<Ix2>(features).ok_or_else(|| {
            let given = input::describe(features);
            PyTypeError::new_err(format!("expected features, an array of float32 [pictures, features], not {given}"))
        })?;
        let given = given.as_array().to_owned();
        if given.ncols() != self.shape[1] {
            return Err(PyValueError::new_err(format!(
                "features are [pictures, {}] with this bundle, not {:?}",
                self.shape[1],
                given.shape()
            )));
        }
        input::finite_rows(given.view())?;
        self.with(features.py(), |learner| {
            let answers = learner.classify_features(given.view());
            Ok(answers.iter().map(|answer| PyAnswer::new(learner, answer, most)).collect())
        })
    }

    /// Features of pictures, to be classified.
    fn features<'py>(&self, pictures: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let rows = self.encode(pictures, |learner, picture| Ok(learner.features(&picture.open()?)?))?;
        let values: Vec<f32> = rows.iter().flatten().copied().collect();
        let features = Array2::from_shape_vec((rows.len(), self.shape[1]), values).expect("a row a picture");
        Ok(features.into_pyarray(pictures.py()))
    }

    /// Features of all views of pictures, to be learned.
    fn shot_features<'py>(&self, pictures: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray3<f32>>> {
        let shots = self.encode(pictures, |learner, picture| Ok(learner.shot_features(&picture.open()?)?))?;
        let values: Vec<f32> = shots.iter().flatten().copied().collect();
        let shape = (shots.len(), self.shape[0], self.shape[1]);
        let features = Array3::from_shape_vec(shape, values).expect("all views of every picture");
        Ok(features.into_pyarray(pictures.py()))
    }

    /// Learns new classes in one session and saves them.
    fn learn(&self, py: Python<'_>, classes: &Bound<'_, PyMapping>) -> PyResult<PyReport> {
        let mut given: Vec<(String, PyShots)> = Vec::new();
        for item in classes.items()?.iter() {
            let (label, shots): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            let label =
                label.extract::<String>().map_err(|error| input::reworded(error, "a label is a str", &label))?;
            let shots = PyShots::of(&shots, &label, self.shape)?;
            given.push((label, shots));
        }
        let report = self.change(py, |learner, observer| {
            let classes: Vec<_> = given.iter().map(|(label, shots)| (label.as_str(), shots.shots())).collect();
            learner.learn_many(&classes, observer)
        })?;
        Ok((&report).into())
    }

    /// Gives a known class further shots.
    fn add(&self, py: Python<'_>, label: &str, shots: &Bound<'_, PyAny>) -> PyResult<PyReport> {
        let shots = PyShots::of(shots, label, self.shape)?;
        let report = self.change(py, |learner, observer| learner.add(label, shots.shots(), observer))?;
        Ok((&report).into())
    }

    /// Forgets a learned class.
    fn forget(&self, py: Python<'_>, label: &str) -> PyResult<PyReport> {
        Ok((&self.change(py, |learner, observer| learner.forget(label, observer))?).into())
    }

    /// Gives a learned class another label.
    fn rename(&self, py: Python<'_>, old: &str, new: &str) -> PyResult<()> {
        self.change(py, |learner, _| learner.rename(old, new))
    }

    /// Moves a stored shot of a class to another known class.
    fn move_shot(&self, py: Python<'_>, label: &str, number: usize, to: &str) -> PyResult<PyReport> {
        Ok((&self.change(py, |learner, observer| learner.move_shot(label, number, to, observer))?).into())
    }

    /// Removes a stored shot of a class.
    fn remove_shot(&self, py: Python<'_>, label: &str, number: usize) -> PyResult<PyReport> {
        Ok((&self.change(py, |learner, observer| learner.remove_shot(label, number, observer))?).into())
    }

    /// Forgets a class together with its past. Returns `None` where it was forgotten before.
    fn purge(&self, py: Python<'_>, label: &str) -> PyResult<Option<PyReport>> {
        let purged = self.change(py, |learner, observer| learner.purge(label, observer))?;
        Ok(purged.as_ref().map(Into::into))
    }

    /// Writes all that is known into a file.
    #[pyo3(signature = (path, *, replace=false))]
    fn backup(&self, py: Python<'_>, path: PathBuf, replace: bool) -> PyResult<PyBackup> {
        let path = input::not_empty(path, "path")?;
        let (contents, unsynced) = self.with(py, |learner| {
            let options = BackupOptions::default().replace(replace);
            let settings = learner.settings().clone().wait(self.wait);
            match backup::write_to(learner.bundle(), learner.store(), &settings, &path, &options) {
                Err(BackupError::Unsynced { contents, error }) => Ok((*contents, Some(error))),
                written => Ok((written.map_err(|error| PendingError::from(error).of_file(&path))?, None)),
            }
        })?;
        unsynced.iter().try_for_each(|error| warn_unsynced(py, &path, error))?;
        contents.warnings.iter().try_for_each(|warning| warn(py, warning))?;
        Ok((&contents).into())
    }

    /// Writes a learned class into a pack.
    #[pyo3(signature = (label, path, *, device=None, replace=false))]
    fn export(
        &self,
        py: Python<'_>,
        label: &str,
        path: PathBuf,
        device: Option<String>,
        replace: bool,
    ) -> PyResult<usize> {
        let path = input::not_empty(path, "path")?;
        let (bytes, unsynced) = self.with(py, |learner| {
            let pack = learner.export(label, PackOrigin { device, ..PackOrigin::default() })?;
            match pack::write_unsigned(learner.store(), &path, &pack, ExistingFile::replace_if(replace)) {
                Ok(bytes) => Ok((bytes, None)),
                Err(WritePackError::Unsynced { size, error }) => Ok((size, Some(error))),
                Err(WritePackError::File(error)) => {
                    let named = io::Error::new(error.kind(), format!("{}: {error}", path.display()));
                    Err(PendingError::Python(named.into()))
                }
                Err(error) => Err(PendingError::Change(with_causes(&error))),
            }
        })?;
        unsynced.iter().try_for_each(|error| warn_unsynced(py, &path, error))?;
        Ok(bytes)
    }

    /// Changes how much base classes count against learned ones.
    fn set_balance(&self, py: Python<'_>, balance: &str) -> PyResult<PyReport> {
        let unknown = || {
            let names = Balance::ALL.map(Balance::name).join(", ");
            PyValueError::new_err(format!("balance is one of {names}, not {balance}"))
        };
        let chosen = Balance::named(balance).ok_or_else(unknown)?;
        Ok((&self.change(py, |learner, observer| learner.set_balance(chosen, observer))?).into())
    }

    /// How much base classes count against learned ones.
    fn balance(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |learner| Ok(learner.state().balance.name()))
    }

    /// The changes that are remembered.
    fn history(&self, py: Python<'_>) -> PyResult<Vec<PyHistoryEntry>> {
        self.with(py, |learner| {
            let history = learner.history();
            let present = history.timeline().present();
            Ok(history.entries().iter().map(|entry| PyHistoryEntry::new(entry, present)).collect())
        })
    }

    /// Undoes the last changes.
    #[pyo3(signature = (changes=1))]
    fn undo(&self, py: Python<'_>, changes: usize) -> PyResult<PyReport> {
        let undone = self.change(py, |learner, observer| learner.undo(changes, observer))?;
        Ok((&undone.report).into())
    }

    /// Redoes the last changes that were undone.
    #[pyo3(signature = (changes=1))]
    fn redo(&self, py: Python<'_>, changes: usize) -> PyResult<PyReport> {
        let redone = self.change(py, |learner, observer| learner.redo(changes, observer))?;
        Ok((&redone.report).into())
    }

    /// Aligns the head to what was learned, where that is still to be done. Returns `None` where it is not.
    fn align(&self, py: Python<'_>) -> PyResult<Option<PyReport>> {
        let aligned = self.change(py, |learner, observer| learner.align(observer))?;
        Ok(aligned.as_ref().map(Into::into))
    }

    /// Reads the state anew.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        let warnings = self.with(py, |learner| {
            learner.refresh()?;
            Ok(learner.warnings().to_vec())
        })?;
        warnings.iter().try_for_each(|warning| warn(py, warning))
    }

    /// The known classes.
    fn classes(&self, py: Python<'_>) -> PyResult<Vec<PyKnownClass>> {
        let class = |class: &orco_runtime::state::Class| PyKnownClass {
            label: class.label.clone(),
            learned: class.session > 0,
        };
        self.with(py, |learner| Ok(learner.classes().map(class).collect()))
    }

    /// How much is known.
    fn counts(&self, py: Python<'_>) -> PyResult<PyCounts> {
        self.with(py, |learner| {
            Ok(PyCounts {
                base_classes: learner.base_model().classes.len(),
                learned_classes: learner.state().classes.len(),
                free_targets: learner.state().free_targets(learner.base_model()).len(),
                changes: learner.history().timeline().earlier().len(),
            })
        })
    }
}
