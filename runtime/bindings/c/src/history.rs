//! The changes that are remembered.

use std::ffi::{CString, c_char};

use orco_runtime::state::history::HistoryEntry;

use crate::balance::OrcoBalance;
use crate::learner::OrcoLearner;
use crate::pointer::{borrow, c_string, free_handle, write_handle};
use crate::status::{OrcoStatus, guard};

/// The remembered changes at one moment, oldest first; the first entry is the state before all of them. Any number of
/// threads may read it.
#[derive(Debug)]
pub struct OrcoHistory {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    number: u32,
    change: CString,
    labels: Vec<CString>,
    when: Option<u64>,
    balance: OrcoBalance,
    present: bool,
}

impl Entry {
    /// An entry of a history that is at the entry `present`.
    fn new(entry: &HistoryEntry, present: u32) -> Self {
        Self {
            number: entry.number,
            change: c_string(entry.kind.name()),
            labels: entry.names.iter().map(|name| c_string(&name.label)).collect(),
            when: entry.when,
            balance: entry.balance.into(),
            present: entry.number == present,
        }
    }
}

/// The entry of that index; none where the history is NULL or has no such entry.
///
/// # Safety
/// Pointers are as the header says.
unsafe fn entry<'a>(history: *const OrcoHistory, index: usize) -> Option<&'a Entry> {
    // SAFETY: the caller's promise.
    unsafe { history.as_ref() }.and_then(|history| history.entries.get(index))
}

/// Lists the changes that are remembered. The list is to be freed with orco_history_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_history(learner: *const OrcoLearner, history: *mut *mut OrcoHistory) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        write_handle(history, "history", || {
            let learner = borrow(learner, "learner")?.lock()?;
            let remembered = learner.history();
            let present = remembered.timeline().present();
            Ok(OrcoHistory { entries: remembered.entries().iter().map(|entry| Entry::new(entry, present)).collect() })
        })
    })
}

/// How many entries a history has; 0 if it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_history_count(history: *const OrcoHistory) -> usize {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { history.as_ref() }.map_or(0, |history| history.entries.len())
}

/// The number of an entry, which it keeps; 0 for the state before all changes, and if there is no such entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_history_number(history: *const OrcoHistory, index: usize) -> u32 {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { entry(history, index) }.map_or(0, |entry| entry.number)
}

/// What was done, such as "learn", the same as over HTTP; "start" for the state before all changes. It lives as
/// long as the history. NULL if there is no such entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_history_change(history: *const OrcoHistory, index: usize) -> *const c_char {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { entry(history, index) }.map_or(std::ptr::null(), |entry| entry.change.as_ptr())
}

/// To how many classes it was done; 0 if there is no such entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_history_label_count(history: *const OrcoHistory, index: usize) -> usize {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { entry(history, index) }.map_or(0, |entry| entry.labels.len())
}

/// The label of one of these classes, empty where the class was purged; it lives as long as the history. NULL if there
/// is no such entry or class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_history_label(history: *const OrcoHistory, index: usize, class: usize) -> *const c_char {
    // SAFETY: the caller keeps what the header says of pointers.
    let found = unsafe { entry(history, index) }.and_then(|entry| entry.labels.get(class));
    found.map_or(std::ptr::null(), |label| label.as_ptr())
}

/// When, in seconds since 1970; -1 where that was not known, and if there is no such entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_history_when(history: *const OrcoHistory, index: usize) -> i64 {
    // SAFETY: the caller keeps what the header says of pointers.
    let when = unsafe { entry(history, index) }.and_then(|entry| entry.when);
    when.and_then(|seconds| seconds.try_into().ok()).unwrap_or(-1)
}

/// How much base classes counted against learned ones from then on; ORCO_BALANCE_BALANCED if there is no such entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_history_balance(history: *const OrcoHistory, index: usize) -> OrcoBalance {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { entry(history, index) }.map_or(OrcoBalance::Balanced, |entry| entry.balance)
}

/// Whether this entry is the present state; false if there is no such entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_history_present(history: *const OrcoHistory, index: usize) -> bool {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { entry(history, index) }.is_some_and(|entry| entry.present)
}

/// Frees a history; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_history_free(history: *mut OrcoHistory) {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { free_handle(history) };
}
