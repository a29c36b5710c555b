//! Opening a learner, its settings, closing it.

use std::ffi::{CString, c_char};
use std::sync::MutexGuard;
use std::time::Duration;

use orco_runtime::bundle::Bundle;
use orco_runtime::learner::{AlignmentTime, AnswerScope, Learner, LearnerSettings, ShotChecks};
use orco_runtime::signature::PublicKey;
use orco_runtime::store::Store;
use orco_runtime::threads::{ProcessLock, ProcessLockError};

use crate::pointer::{borrow, c_string, free_handle, null, read_path, write_handle};
use crate::status::{OrcoStatus, StatusError, guard};

/// A device that classifies pictures and learns new classes: an opened bundle and the state that was learned on it.
/// Any thread may use it; calls wait for one another.
pub struct OrcoLearner(ProcessLock<Learner>);

/// Which classes are answered.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrcoAnswerScope {
    /// All that are known.
    All = 0,
    /// All, until three classes are learned; then those alone. The program `orco` and its service start with it.
    Auto = 1,
    /// Learned classes alone. What is none of them is unknown.
    Learned = 2,
}

impl From<AnswerScope> for OrcoAnswerScope {
    fn from(scope: AnswerScope) -> Self {
        match scope {
            AnswerScope::All => Self::All,
            AnswerScope::Auto => Self::Auto,
            AnswerScope::Learned => Self::Learned,
        }
    }
}

/// What the header promises of threads.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<OrcoLearner>();
};

impl OrcoLearner {
    /// Waits until no other call uses the learner.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, Learner>, StatusError> {
        self.0.lock().map_err(|error| match error {
            ProcessLockError::Forked => StatusError::of(OrcoStatus::EngineFailed, &error),
            _ => StatusError::new(
                OrcoStatus::Fault,
                "an earlier call met a fault in liborco; free the learner and open it anew",
            ),
        })
    }
}

/// The public key in a file; none for NULL.
///
/// # Safety
/// Pointers are as the header says.
pub(crate) unsafe fn read_key(path: *const c_char) -> Result<Option<PublicKey>, StatusError> {
    if path.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let path = unsafe { read_path(path, "public_key") }?;
    Ok(Some(PublicKey::read(path)?))
}

/// Changes how the learner works from the next call on.
///
/// # Safety
/// Pointers are as the header says.
unsafe fn set(learner: *const OrcoLearner, change: impl FnOnce(&mut LearnerSettings)) -> Result<(), StatusError> {
    // SAFETY: the caller's promise.
    change(unsafe { borrow(learner, "learner") }?.lock()?.settings_mut());
    Ok(())
}

/// Opens a bundle's folder and the folder of the state that was learned on it, which need not be there yet. The
/// learner is to be freed with orco_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_open(
    bundle: *const c_char,
    state: *const c_char,
    learner: *mut *mut OrcoLearner,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        write_handle(learner, "learner", || {
            let (bundle, state) = (read_path(bundle, "bundle")?, read_path(state, "state")?);
            Ok(OrcoLearner(ProcessLock::new(Learner::open(bundle, state)?)))
        })
    })
}

/// As orco_open(), for bundles that are signed with the key in the file `public_key`, written by minisign; others are
/// refused, and so are older releases than were used before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_open_signed(
    bundle: *const c_char,
    state: *const c_char,
    public_key: *const c_char,
    learner: *mut *mut OrcoLearner,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        write_handle(learner, "learner", || {
            let (bundle, state) = (read_path(bundle, "bundle")?, read_path(state, "state")?);
            let key = PublicKey::read(read_path(public_key, "public_key")?)?;
            let bundle = Bundle::open_trusted(bundle, Some(&key))?;
            let settings = LearnerSettings::default().compare_releases(true);
            Ok(OrcoLearner(ProcessLock::new(Learner::new(bundle, Store::new(state), settings)?)))
        })
    })
}

/// Frees a learner; NULL is allowed. No other call may be using it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_free(learner: *mut OrcoLearner) {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { free_handle(learner) };
}

/// The seed of all random draws, 1 unless it is set. The same bundle, shots and seed give the same state, byte
/// for byte, but for the times in its history.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_set_seed(learner: *const OrcoLearner, seed: u64) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe { set(learner, |settings| settings.seed = seed) })
}

/// Whether a change returns before the head is aligned to it, and orco_align() aligns it; answers follow the change at
/// once, and may change then. A change aligns the head itself, unless it is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_set_align_later(learner: *const OrcoLearner, later: bool) -> OrcoStatus {
    let alignment = if later { AlignmentTime::Later } else { AlignmentTime::Now };
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe { set(learner, |settings| settings.alignment = alignment) })
}

/// How long a change waits, at most, for another process that is changing the same state; 0 unless it is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_set_wait(learner: *const OrcoLearner, milliseconds: u32) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe { set(learner, |settings| settings.wait = Duration::from_millis(milliseconds.into())) })
}

/// The share of their samples, 0 to 1, that classes may lose over all sessions: those of the bundle together, learned
/// ones together, and each where it is certain; a change that would cost more is refused. Nothing is refused unless
/// it is set; NAN takes the budget away again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_set_forgetting_budget(learner: *const OrcoLearner, share: f32) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| {
        if !share.is_nan() && !(0.0..=1.0).contains(&share) {
            return Err(StatusError::new(
                OrcoStatus::BadArgument,
                "the budget is a share from 0 to 1, or NAN for none",
            ));
        }
        let budget = (!share.is_nan()).then_some(share);
        unsafe { set(learner, |settings| settings.forgetting_budget = budget) }
    })
}

/// Whether the pictures of shots that are learned from now on are kept beside the state, at the size that the backbone
/// sees, so that orco_upgrade() can learn them again on another bundle. They are not, unless it is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_set_keep_shots(learner: *const OrcoLearner, keep: bool) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe { set(learner, |settings| settings.keep_shots = keep) })
}

/// Whether pictures are checked before they are learned: orco_learn() and orco_add() then refuse those that are too
/// dark or too bright, blurred, noise, or the same as another one of the call. All are taken, unless it is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_set_check_shots(learner: *const OrcoLearner, check: bool) -> OrcoStatus {
    let checks = if check { ShotChecks::Refuse } else { ShotChecks::Off };
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe { set(learner, |settings| settings.shot_checks = checks) })
}

/// Which classes are answered from the next call on: all that are known, unless it is set. `scope` is an
/// OrcoAnswerScope.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_set_scope(learner: *const OrcoLearner, scope: u32) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| {
        // A number, since an enumeration of Rust's must not hold others than its own.
        let is_meant = |known: &AnswerScope| OrcoAnswerScope::from(*known) as u32 == scope;
        let Some(chosen) = AnswerScope::CHOICES.into_iter().find(is_meant) else {
            return Err(StatusError::unknown_variant("scope", scope, "OrcoAnswerScope"));
        };
        unsafe { set(learner, |settings| settings.scope = chosen) }
    })
}

/// Reads the state anew, which another process may have changed. Every change does so by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_refresh(learner: *const OrcoLearner) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| Ok(unsafe { borrow(learner, "learner") }?.lock()?.refresh()?))
}

/// What was wrong with the state's files when they were last read, a sentence a line; empty if nothing was. The text
/// is to be freed with orco_text_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_warnings(learner: *const OrcoLearner, text: *mut *mut c_char) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        if text.is_null() {
            return Err(null("text"));
        }
        text.write(std::ptr::null_mut());
        let warnings = borrow(learner, "learner")?.lock()?.warnings().join("\n");
        text.write(c_string(&warnings).into_raw());
        Ok(())
    })
}

/// Frees a text that a call handed over; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_text_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it comes from `into_raw`, and the caller does not use it again.
        drop(unsafe { CString::from_raw(text) });
    }
}
