//! What is known: classes and counts.

use std::ffi::{CString, c_char};

use crate::learner::OrcoLearner;
use crate::pointer::{borrow, c_string, free_handle, null, write_handle};
use crate::status::{OrcoStatus, guard};

/// The known classes at one moment, those of the bundle first. Any number of threads may read it.
#[derive(Debug)]
pub struct OrcoClasses {
    /// Labels, and whether the class was learned on the device.
    classes: Vec<(CString, bool)>,
}

/// How much is known.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OrcoCounts {
    /// Classes that the bundle brought.
    pub base_classes: usize,
    /// Classes that were learned since.
    pub learned_classes: usize,
    /// Classes that can still be learned.
    pub free_targets: usize,
    /// Changes that can be undone.
    pub changes: usize,
}

/// Counts what is known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_counts(learner: *const OrcoLearner, counts: *mut OrcoCounts) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        if counts.is_null() {
            return Err(null("counts"));
        }
        let learner = borrow(learner, "learner")?.lock()?;
        counts.write(OrcoCounts {
            base_classes: learner.base_model().classes.len(),
            learned_classes: learner.state().classes.len(),
            free_targets: learner.state().free_targets(learner.base_model()).len(),
            changes: learner.history().timeline().earlier().len(),
        });
        Ok(())
    })
}

/// Lists the known classes. The list is to be freed with orco_classes_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_classes(learner: *const OrcoLearner, classes: *mut *mut OrcoClasses) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        write_handle(classes, "classes", || {
            let learner = borrow(learner, "learner")?.lock()?;
            let classes = learner.classes().map(|class| (c_string(&class.label), class.session > 0)).collect();
            Ok(OrcoClasses { classes })
        })
    })
}

/// How many classes a list has; 0 if it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_classes_count(classes: *const OrcoClasses) -> usize {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { classes.as_ref() }.map_or(0, |classes| classes.classes.len())
}

/// The label of a class; it lives as long as the list. NULL if there is no such class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_classes_label(classes: *const OrcoClasses, index: usize) -> *const c_char {
    // SAFETY: the caller keeps what the header says of pointers.
    let found = unsafe { classes.as_ref() }.and_then(|classes| classes.classes.get(index));
    found.map_or(std::ptr::null(), |(label, _)| label.as_ptr())
}

/// Whether a class was learned on the device; false if there is no such class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_classes_learned(classes: *const OrcoClasses, index: usize) -> bool {
    // SAFETY: the caller keeps what the header says of pointers.
    let found = unsafe { classes.as_ref() }.and_then(|classes| classes.classes.get(index));
    found.is_some_and(|(_, learned)| *learned)
}

/// Frees a list of classes; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_classes_free(classes: *mut OrcoClasses) {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { free_handle(classes) };
}
