//! Learning, adding and moving shots, forgetting, renaming, undoing.

use std::ffi::c_char;

use orco_runtime::learner::{ChangeError, ChangeOutcome, Learner};
use orco_runtime::state::session::{AccuracyChange, ChangeReport};

use crate::learner::OrcoLearner;
use crate::pointer::{borrow, read_text, write_optional};
use crate::shots::OrcoShots;
use crate::status::{OrcoStatus, StatusError, guard};

/// What a change did, measured on samples that the bundle set aside and on shots left out in turn (on the exemplars,
/// where answers follow the paper). Shares are 0 to 1, and NAN where no sample says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OrcoReport {
    /// Classes that can still be learned.
    pub free_targets: usize,
    /// Mean accuracy of the new classes.
    pub new_accuracy: f32,
    /// Mean accuracy of the classes known before, before the change.
    pub old_accuracy_before: f32,
    /// Mean accuracy of the classes known before, after the change.
    pub old_accuracy_after: f32,
}

impl From<&ChangeReport> for OrcoReport {
    fn from(report: &ChangeReport) -> Self {
        let summary = report.summary(0);
        let old = summary.old_accuracy.unwrap_or(AccuracyChange { before: f32::NAN, after: f32::NAN });
        Self {
            free_targets: summary.free_targets,
            new_accuracy: summary.new_accuracy.unwrap_or(f32::NAN),
            old_accuracy_before: old.before,
            old_accuracy_after: old.after,
        }
    }
}

/// Makes a change and reports it where `report` points to, unless that is NULL.
///
/// # Safety
/// Pointers are as the header says.
pub(crate) unsafe fn change_and_report<T>(
    learner: *const OrcoLearner,
    report: *mut OrcoReport,
    change: impl FnOnce(&mut Learner) -> Result<ChangeOutcome<T>, ChangeError>,
    of: impl FnOnce(&T) -> &ChangeReport,
) -> Result<(), StatusError> {
    // SAFETY: the caller's promise.
    let outcome = change(&mut *unsafe { borrow(learner, "learner") }?.lock()?)?;
    // SAFETY: the caller's promise.
    unsafe { write_optional(report, of(&outcome.report).into()) };
    check_complete(outcome)
}

/// Returns the status of a change that is made, but that a power cut could lose, or to which the head was not aligned.
pub(crate) fn check_complete<T>(outcome: ChangeOutcome<T>) -> Result<(), StatusError> {
    match (outcome.uncertain, outcome.unaligned) {
        (Some(doubt), _) => Err(StatusError::of(OrcoStatus::Uncertain, &doubt)),
        (None, Some(error)) => Err(StatusError::of(OrcoStatus::Unaligned, &error)),
        (None, None) => Ok(()),
    }
}

/// Learns new classes in one session and saves them; or nothing is changed. `report` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_learn(
    learner: *const OrcoLearner,
    shots: *const OrcoShots,
    report: *mut OrcoReport,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        let classes = borrow(shots, "shots")?.classes();
        change_and_report(learner, report, |learner| learner.learn_many(&classes, &mut ()), |report| report)
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
    guard(|| unsafe {
        let Ok([(label, shots)]) = <[_; 1]>::try_from(borrow(shots, "shots")?.classes()) else {
            return Err(StatusError::new(OrcoStatus::BadArgument, "shots are to be of one class for orco_add"));
        };
        change_and_report(learner, report, |learner| learner.add(label, shots, &mut ()), |report| report)
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
    guard(|| unsafe {
        let label = read_text(label, "label")?;
        change_and_report(learner, report, |learner| learner.forget(label, &mut ()), |report| report)
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
    guard(|| unsafe {
        let (from, to) = (read_text(from, "from")?, read_text(to, "to")?);
        check_complete(borrow(learner, "learner")?.lock()?.rename(from, to)?)
    })
}

/// Moves a stored shot of the class `from`, numbered from 1 as they were stored, to another known class. `report` may
/// be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_move_shot(
    learner: *const OrcoLearner,
    from: *const c_char,
    number: usize,
    to: *const c_char,
    report: *mut OrcoReport,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        let (from, to) = (read_text(from, "from")?, read_text(to, "to")?);
        change_and_report(learner, report, |learner| learner.move_shot(from, number, to, &mut ()), |report| report)
    })
}

/// Removes a stored shot of a class, numbered from 1 as they were stored; never the last one of a learned class.
/// orco_undo() brings it back. `report` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_remove_shot(
    learner: *const OrcoLearner,
    label: *const c_char,
    number: usize,
    report: *mut OrcoReport,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        let label = read_text(label, "label")?;
        change_and_report(learner, report, |learner| learner.remove_shot(label, number, &mut ()), |report| report)
    })
}

/// Forgets a learned class together with its past, for good: its exemplars, its pictures and every label it ever had
/// disappear from the state's folder. `report` may be NULL; it is left as it is where the class was forgotten before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_purge(
    learner: *const OrcoLearner,
    label: *const c_char,
    report: *mut OrcoReport,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        let label = read_text(label, "label")?;
        let outcome = borrow(learner, "learner")?.lock()?.purge(label, &mut ())?;
        if let Some(made) = &outcome.report {
            write_optional(report, made.into());
        }
        check_complete(outcome)
    })
}

/// Aligns the head to what was learned, where that is still to be done (after orco_set_align_later()); part of the last
/// change, and undone with it. `aligned` says whether there was something to do; if not, `report` is left as it is. Both
/// may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_align(
    learner: *const OrcoLearner,
    aligned: *mut bool,
    report: *mut OrcoReport,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        let outcome = borrow(learner, "learner")?.lock()?.align(&mut ())?;
        write_optional(aligned, outcome.report.is_some());
        if let Some(made) = &outcome.report {
            write_optional(report, made.into());
        }
        check_complete(outcome)
    })
}

/// Undoes the last `changes` changes; called again, it goes further back. orco_redo() redoes them. `report`
/// may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_undo(learner: *const OrcoLearner, changes: usize, report: *mut OrcoReport) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        change_and_report(learner, report, |learner| learner.undo(changes, &mut ()), |undone| &undone.report)
    })
}

/// Redoes the last `changes` changes that were undone. `report` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_redo(learner: *const OrcoLearner, changes: usize, report: *mut OrcoReport) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        change_and_report(learner, report, |learner| learner.redo(changes, &mut ()), |redone| &redone.report)
    })
}
