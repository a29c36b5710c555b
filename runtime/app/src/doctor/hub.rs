//! The fleet's hub, as far as `orco sync` needs it.

use std::path::Path;

use orco_hub::client::SyncError;
use orco_runtime::state::sentence::with_causes;

use super::Findings;
use crate::fleet_options::FleetOptions;
use crate::options::Options;

/// Whether the hub answers, and whether this device has enrolled; nothing is sent that tells which device asks. Without
/// the state's folder, enrolment is not checked.
pub fn check(options: &Options, arguments: &FleetOptions, state: Option<&Path>, findings: &mut Findings) {
    const SUBJECT: &str = "hub";
    let is_enrolled = state.map(|state| options.fleet_folder(state).is_enrolled()).transpose();
    let Some(hub) = arguments.hub() else {
        if matches!(is_enrolled, Ok(Some(true))) {
            findings.note(SUBJECT, "none is named, though this device is enrolled: name it with --hub URL");
        }
        return;
    };
    let mut transport = match arguments.transport(hub) {
        Ok(transport) => transport,
        Err(error) => return findings.failed(SUBJECT, error),
    };
    if let Err(error) = transport.probe() {
        return findings.wrong(SUBJECT, with_causes(&error));
    }
    match is_enrolled {
        Ok(Some(false)) => findings.note(SUBJECT, format!("it answers, but {}", SyncError::NotEnrolled)),
        Ok(_) => findings.good(SUBJECT, "it answers; run `orco sync` to see whether it knows this device"),
        Err(error) => findings.failed(SUBJECT, error),
    }
}
