//! The balance between base and learned classes.

use orco_runtime::state::Balance;

use crate::change::{OrcoReport, change_and_report};
use crate::learner::OrcoLearner;
use crate::pointer::{borrow, null};
use crate::status::{OrcoStatus, StatusError, guard};

/// How much base classes count against learned ones, when the border between both is chosen.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrcoBalance {
    /// Base classes keep their answers, wherever possible.
    KeepBase = 0,
    /// Between the two; every device starts there.
    Balanced = 1,
    /// Both count alike.
    FavourNew = 2,
}

impl From<Balance> for OrcoBalance {
    fn from(balance: Balance) -> Self {
        match balance {
            Balance::KeepBase => Self::KeepBase,
            Balance::Balanced => Self::Balanced,
            Balance::FavourNew => Self::FavourNew,
        }
    }
}

/// Tells how much base classes count against learned ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_balance(learner: *const OrcoLearner, balance: *mut OrcoBalance) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        if balance.is_null() {
            return Err(null("balance"));
        }
        balance.write(borrow(learner, "learner")?.lock()?.state().balance.into());
        Ok(())
    })
}

/// Changes how much base classes count against learned ones, and chooses the border between both anew; nothing is
/// trained. `balance` is an OrcoBalance. `report` may be NULL. Refused if the bundle's answers have no border.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_set_balance(
    learner: *const OrcoLearner,
    balance: u32,
    report: *mut OrcoReport,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        // A number, since an enumeration of Rust's must not hold others than its own.
        let Some(chosen) = Balance::ALL.into_iter().find(|known| OrcoBalance::from(*known) as u32 == balance) else {
            return Err(StatusError::unknown_variant("balance", balance, "OrcoBalance"));
        };
        change_and_report(learner, report, |learner| learner.set_balance(chosen, &mut ()), |report| report)
    })
}
