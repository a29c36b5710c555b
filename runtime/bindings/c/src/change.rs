//! Learning, adding and moving shots, forgetting, renaming, undoing.

use std::ffi::c_char;

use orco_runtime::learner::{ChangeError, ChangeOutcome, Learner};
use orco_runtime::session::SessionReport;

use crate::learner::OrcoLearner;
use crate::pointer::{borrowed, text};
use crate::shots::OrcoShots;
use crate::status::{Failure, OrcoStatus, guarded};

/// What a change did, measured on the stored exemplars. Shares are 0 to 1, and NAN where no exemplar says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OrcoReport {
    /// Classes that can still be learned.
    pub free_targets: usize,
    /// Share of the exemplars of the new classes that are recognised.
    pub new_accuracy: f32,
    /// The same of the classes that were known before, before the change.
    pub old_accuracy_before: f32,
    /// The same after it.
    pub old_accuracy_after: f32,
}

impl From<&SessionReport> for OrcoReport {
    fn from(report: &SessionReport) -> Self {
        let old = report.old_accuracy().unwrap_or((f32::NAN, f32::NAN));
        Self {
            free_targets: report.free_targets,
            new_accuracy: report.new_accuracy().unwrap_or(f32::NAN),
            old_accuracy_before: old.0,
            old_accuracy_after: old.1,
        }
    }
}

/// Makes a change and reports it where `report` points to, unless that is NULL.
///
/// # Safety
/// Pointers are as the header says.
unsafe fn changed<T>(
    learner: *const OrcoLearner,
    report: *mut OrcoReport,
    change: impl FnOnce(&mut Learner) -> Result<ChangeOutcome<T>, ChangeError>,
    of: impl FnOnce(&T) -> &SessionReport,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let made = change(&mut *unsafe { borrowed(learner, "learner") }?.lock()?)?;
    if !report.is_null() {
        // SAFETY: not NULL; the rest is the caller's promise.
        unsafe { report.write(of(&made.report).into()) };
    }
    doubtless(made)
}

/// A change that is made, but perhaps not safely kept, is no failure, and yet the caller is told.
pub(crate) fn doubtless<T>(made: ChangeOutcome<T>) -> Result<(), Failure> {
    made.uncertain.map_or(Ok(()), |doubt| Err(Failure::of(OrcoStatus::Uncertain, &doubt)))
}

/// Learns new classes in one session and saves them; or nothing is changed. `report` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_learn(
    learner: *const OrcoLearner,
    shots: *const OrcoShots,
    report: *mut OrcoReport,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guarded(|| unsafe {
        let classes = borrowed(shots, "shots")?.classes();
        changed(learner, report, |learner| learner.learn_many(&classes, &mut ()), |report| report)
    })
}

/// Gives one known class, of the bundle or learned, further shots. `report` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_add(
    learner: *const OrcoLearner,
    shots: *const OrcoShots,
    report: *mut OrcoReport,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guarded(|| unsafe {
        let Ok([(label, shots)]) = <[_; 1]>::try_from(borrowed(shots, "shots")?.classes()) else {
            return Err(Failure::new(OrcoStatus::BadArgument, "shots are to be of one class for orco_add"));
        };
        changed(learner, report, |learner| learner.add(label, shots, &mut ()), |report| report)
    })
}

/// Forgets a learned class; orco_undo() brings it back. `report` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_forget(
    learner: *const OrcoLearner,
    label: *const c_char,
    report: *mut OrcoReport,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guarded(|| unsafe {
        let label = text(label, "label")?;
        changed(learner, report, |learner| learner.forget(label, &mut ()), |report| report)
    })
}

/// Gives a learned class another label.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_rename(
    learner: *const OrcoLearner,
    from: *const c_char,
    to: *const c_char,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guarded(|| unsafe {
        let (from, to) = (text(from, "from")?, text(to, "to")?);
        doubtless(borrowed(learner, "learner")?.lock()?.rename(from, to)?)
    })
}

/// Moves a stored shot of the class `from`, numbered from 1 as they were stored, to another known class. `report` may be
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_move_shot(
    learner: *const OrcoLearner,
    from: *const c_char,
    number: usize,
    to: *const c_char,
    report: *mut OrcoReport,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guarded(|| unsafe {
        let (from, to) = (text(from, "from")?, text(to, "to")?);
        changed(learner, report, |learner| learner.move_shot(from, number, to, &mut ()), |report| report)
    })
}

/// Takes the last `changes` changes back. Undoing is a change, too, and can be taken back. `report` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_undo(learner: *const OrcoLearner, changes: usize, report: *mut OrcoReport) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guarded(|| unsafe { changed(learner, report, |learner| learner.undo(changes, &mut ()), |undone| &undone.report) })
}
