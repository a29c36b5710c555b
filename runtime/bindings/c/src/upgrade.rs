//! Moving to another bundle.

use std::ffi::c_char;
use std::time::Duration;

use orco_runtime::bundle::Bundle;
use orco_runtime::learner::LearnerSettings;
use orco_runtime::learner::upgrade::{self, UpgradeOptions};
use orco_runtime::store::Store;

use crate::change::{OrcoReport, check_complete};
use crate::learner::read_key;
use crate::pointer::{read_path, write_lines, write_optional};
use crate::status::{OrcoStatus, guard};

/// How a device moves to another bundle. The strictest is all zero: `{0}` in C, `{}` in C++.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OrcoUpgradeOptions {
    /// The file of a public key, written by minisign; NULL for none. With a key, the bundle must be signed with it, and
    /// be no older release than was used before.
    pub public_key: *const c_char,
    /// Whether classes of which no picture is left are given up, and others recognised clearly worse than when they
    /// were learned; it is refused otherwise.
    pub force: bool,
    /// Whether classes of which no picture is left are given up, such as those of packs; it is still refused if others
    /// are recognised clearly worse.
    pub give_up_unkept: bool,
    /// How long a change of another process is waited for, at most.
    pub wait_milliseconds: u32,
}

impl Default for OrcoUpgradeOptions {
    fn default() -> Self {
        Self { public_key: std::ptr::null(), force: false, give_up_unkept: false, wait_milliseconds: 0 }
    }
}

/// Learns the classes in the folder `state` again on the bundle `bundle`, from the pictures that orco_set_keep_shots()
/// kept. No learner may be open on that folder; open one with the new bundle afterwards. The old state is kept aside.
/// `options` may be NULL for all zero, and `report` may be NULL.
///
/// `warnings`, which may be NULL, gets what was given up and which pictures could not be used, a sentence a line, to be
/// freed with orco_text_free(), or NULL if there is nothing to tell.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_upgrade(
    bundle: *const c_char,
    state: *const c_char,
    options: *const OrcoUpgradeOptions,
    report: *mut OrcoReport,
    warnings: *mut *mut c_char,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        write_lines(warnings, &[]);
        let (bundle, state) = (read_path(bundle, "bundle")?, Store::new(read_path(state, "state")?));
        let options = options.as_ref().copied().unwrap_or_default();
        let key = read_key(options.public_key)?;
        let bundle = Bundle::open_trusted(bundle, key.as_ref())?;
        let wait = Duration::from_millis(options.wait_milliseconds.into());
        let settings = LearnerSettings::default().wait(wait).compare_releases(key.is_some());
        let options = UpgradeOptions::default().force(options.force).give_up_unkept(options.give_up_unkept);
        let outcome = upgrade::upgrade(&bundle, &state, &settings, &options, &mut ())?;
        write_optional(report, (&outcome.report.report).into());
        let dropped = outcome.report.dropped.iter();
        let dropped = dropped.map(|label| format!("\"{label}\" is given up: no picture of it was kept"));
        write_lines(warnings, &dropped.chain(outcome.report.warnings.iter().cloned()).collect::<Vec<_>>());
        check_complete(outcome)
    })
}
