//! Going over to another bundle.

use std::ffi::c_char;
use std::path::Path;
use std::time::Duration;

use orco_runtime::bundle::Bundle;
use orco_runtime::learner::LearnerSettings;
use orco_runtime::learner::upgrade::{self, UpgradeOptions};
use orco_runtime::signature::PublicKey;
use orco_runtime::store::Store;

use crate::change::{OrcoReport, doubtless};
use crate::pointer::{lines, text};
use crate::status::{Failure, OrcoStatus, guarded};

/// Learns all that the device knows, by the state in the folder `state`, again on another bundle, from the pictures that
/// orco_set_keep_shots() kept; no learner may be open on that folder, and those of the new bundle are opened
/// afterwards. The old state is kept aside. Refused where a class has no picture left, or is recognised clearly worse
/// than when it was learned, unless `force` is set: the former is given up then. A change of another process is waited
/// for `wait_milliseconds` at most.
///
/// `public_key` may be NULL; where it is not, the bundle must be signed with the key in that file, and be no older
/// release than was used before. `report` may be NULL, and so may `warnings`, which gets what was given up and which
/// pictures could not be used, a sentence a line, to be freed with orco_text_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_upgrade(
    bundle: *const c_char,
    state: *const c_char,
    public_key: *const c_char,
    force: bool,
    wait_milliseconds: u32,
    report: *mut OrcoReport,
    warnings: *mut *mut c_char,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guarded(|| unsafe {
        lines(warnings, &[]);
        let (bundle, state) = (text(bundle, "bundle")?, Store::new(Path::new(text(state, "state")?)));
        let key = if public_key.is_null() { None } else { Some(Path::new(text(public_key, "public_key")?)) };
        let key = key.map(PublicKey::read).transpose().map_err(|error| Failure::of(OrcoStatus::CannotOpen, &error))?;
        let bundle = Bundle::open_trusted(Path::new(bundle), key.as_ref());
        let bundle = bundle.map_err(|error| Failure::of(OrcoStatus::CannotOpen, &error))?;
        let wait = Duration::from_millis(wait_milliseconds.into());
        let settings = LearnerSettings::default().wait(wait).compare_releases(key.is_some());
        let made = upgrade::upgrade(&bundle, &state, &settings, &UpgradeOptions::default().force(force), &mut ())?;
        if !report.is_null() {
            report.write((&made.report.report).into());
        }
        let dropped = made.report.dropped.iter();
        let dropped = dropped.map(|label| format!("\"{label}\" is given up: no picture of it was kept"));
        lines(warnings, &dropped.chain(made.report.warnings.iter().cloned()).collect::<Vec<_>>());
        doubtless(made)
    })
}
