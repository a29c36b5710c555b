//! What a device tells the hub of itself: its bundle, its classes, how it is, and what became of releases.

use std::path::Path;

#[cfg(unix)]
use orco_runtime::files;
use orco_runtime::learner::Learner;
use orco_runtime::state::sentence::join_first;

use super::Round;
use crate::protocol::{
    ClassReport, DeviceHealth, DeviceReport, MAX_CLASSES, MAX_WARNINGS, ObjectDigest, ReportedBundle, bounded,
};

/// Bytes of all labels of a report, so that it stays below [`crate::protocol::MAX_MESSAGE`] whatever they are.
const MAX_LABELS: usize = 1 << 20;

/// Most labels that one sentence names.
const MAX_NAMED: usize = 5;

/// Steps in which free bytes are reported.
const FREE_STEP: u64 = 64 << 20;

impl Round<'_, '_> {
    /// The report as things are now. What is told once in a round is not here.
    pub(super) fn report(&self) -> DeviceReport {
        let learner = self.learner.as_ref();
        let said = learner.map_or(&[][..], Learner::warnings).iter().chain(&self.warnings).cloned();
        let said = said.chain(learner.and_then(unanswered_sentence));
        let warnings = said.take(MAX_WARNINGS).map(|warning| bounded(&warning)).collect();
        DeviceReport {
            version: self.device.settings.version.clone(),
            bundle: learner.map(|learner| ReportedBundle {
                name: bounded(&learner.bundle().manifest.name),
                release: learner.bundle().manifest.release,
                bundle_digest: ObjectDigest::new(learner.bundle().digest),
            }),
            classes: learner.map(class_reports).unwrap_or_default(),
            // In steps, so that a report does not change with every file.
            health: DeviceHealth {
                free_bytes: free_bytes(&self.device.state).map(|free| free / FREE_STEP * FREE_STEP),
                warnings,
            },
            outcomes: self.progress.outcomes.clone(),
            pushed: Vec::new(),
            pictured: Vec::new(),
            nonce: None,
        }
    }
}

/// Names classes that got shots and that no answer names, such as learned ones that the bundle brings now, if there are
/// any.
fn unanswered_sentence(learner: &Learner) -> Option<String> {
    let unanswered = learner.unanswered_classes();
    let labels = join_first(unanswered.iter().map(|label| format!("\"{label}\"")), MAX_NAMED, ", ");
    (!unanswered.is_empty()).then(|| {
        format!("no answer names {labels}, which the bundle brings: answers name only what was learned (`answers`)")
    })
}

fn class_reports(learner: &Learner) -> Vec<ClassReport> {
    let (state, base) = (learner.state(), learner.base_model().classes.len());
    let mut shots = vec![0; state.classes.len()];
    for class in state.exemplars.classes() {
        if let Some(count) = (*class as usize).checked_sub(base).and_then(|learned| shots.get_mut(learned)) {
            *count += 1;
        }
    }
    let mut bytes = 0;
    let classes = state.classes.iter().zip(shots).take_while(|(class, _)| {
        bytes += class.label.len();
        bytes <= MAX_LABELS
    });
    classes.take(MAX_CLASSES).map(|(class, shots)| ClassReport { label: class.label.clone(), shots }).collect()
}

/// Bytes that are free where a folder lies, if that is known.
pub(super) fn free_bytes(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let place = files::path_and_parents(folder).find(|place| place.exists())?;
        let facts = rustix::fs::statvfs(place).ok()?;
        Some(facts.f_bavail.saturating_mul(facts.f_frsize))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}
