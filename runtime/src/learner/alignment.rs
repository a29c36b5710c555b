//! Aligning the head to what a change brought, after the change is kept.

use orco_core::align::Sampling;
use orco_core::config::MethodConfig;
use orco_state::session::ChangeReport;
use orco_state::state::State;

use super::Learner;
use super::change::ChangeOutcome;
use super::error::ChangeError;
use super::observer::Observer;
use super::settings::AlignmentTime;
use crate::store::{LockedStore, uncertainty};

impl Learner {
    /// Whether a head is still to be aligned to what was learned: [`Learner::align`] does it, and answers may change.
    /// Until then they follow from class means, the discriminant and the head of phase 2.
    pub fn awaits_alignment(&self) -> bool {
        let base_model = self.base_model();
        self.state().awaits_alignment(&base_model.config) && base_model.scoring(&base_model.config).is_some()
    }

    /// Aligns the head to what was learned, where that is still to be done: phase 3 (OrCo, section 3.4). It is part of
    /// the last change, and is undone with it.
    ///
    /// # Errors
    /// [`ChangeError`] if training diverged, old classes would lose more than the budget, the observer cancels, or the
    /// state cannot be saved. Answers are as before then.
    pub fn align(&mut self, observer: &mut dyn Observer) -> Result<ChangeOutcome<Option<ChangeReport>>, ChangeError> {
        let locked = self.lock()?;
        let before = self.saved.state.clone();
        self.align_locked(&locked, &before, observer)
    }

    /// How the method runs in the session that makes a change: without alignment where answers follow in closed form;
    /// the head is aligned afterwards then.
    pub(super) fn config_of_change(&self) -> MethodConfig {
        let base_model = self.base_model();
        match base_model.scoring(&base_model.config) {
            Some(_) if base_model.config.epochs > 0 => base_model.config.without_alignment(),
            _ => base_model.config.clone(),
        }
    }

    /// Aligns the head after a change that was kept, where that is wanted now; `before` is the state before the change.
    /// An alignment that fails does not fail the change: [`ChangeOutcome::unaligned`] says why.
    pub(super) fn align_after(
        &mut self,
        locked: &LockedStore,
        before: &State,
        outcome: ChangeOutcome,
        observer: &mut dyn Observer,
    ) -> ChangeOutcome {
        // A change that may not survive a power cut is not built upon; the next one aligns.
        if self.settings.alignment != AlignmentTime::Now || outcome.uncertain.is_some() {
            return outcome;
        }
        match self.align_locked(locked, before, observer) {
            Err(error) => ChangeOutcome { unaligned: Some(error), ..outcome },
            Ok(ChangeOutcome { report: None, .. }) => outcome,
            Ok(ChangeOutcome { report: Some(report), uncertain, .. }) => {
                ChangeOutcome { report, uncertain: outcome.uncertain.or(uncertain), unaligned: None }
            }
        }
    }

    fn align_locked(
        &mut self,
        locked: &LockedStore,
        before: &State,
        observer: &mut dyn Observer,
    ) -> Result<ChangeOutcome<Option<ChangeReport>>, ChangeError> {
        if !self.awaits_alignment() {
            return Ok(ChangeOutcome { report: None, uncertain: None, unaligned: None });
        }
        let config = self.base_model().config.clone();
        let sampling = Sampling::seeded(self.saved.seed());
        let (aligned, report) =
            self.run_session_with(&config, observer, |session, state| session.align(before, state.clone(), sampling))?;
        self.check_budget(&report)?;
        let saved = self.saved.with_alignment(aligned);
        let uncertain = uncertainty(locked.save(&self.bundle, &saved))?;
        self.adopt_saved(locked, saved);
        Ok(ChangeOutcome { report: Some(report), uncertain, unaligned: None })
    }
}
