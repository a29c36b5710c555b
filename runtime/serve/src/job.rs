//! Changes that were requested, with their progress.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::id::{Id, IdSource};
use crate::refusal::Refusal;

/// Changes that are remembered after they ended.
pub const MAX_ENDED_JOBS: usize = 64;

/// How far a change has come.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum JobProgress {
    /// It waits.
    Queued,
    /// It is being made: the share that is done, 0..1.
    Running(f32),
    /// It was made.
    Done {
        /// What it did ([`crate::change_json::of_report`]); null where there is nothing to say of it.
        report: Value,
        /// What people should know about it, in a sentence.
        warning: Option<String>,
    },
    /// It was refused; nothing was changed.
    Failed(Refusal),
    /// The thread panicked, and whether the change was saved cannot be told.
    Lost(Refusal),
}

/// A change that was asked for, with how far it has come.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Job {
    /// Identifies it.
    pub id: Id,
    /// What it does: `learn`, `forget`, ... ([`ChangeRequest::name`](crate::changes::ChangeRequest::name)).
    pub change: &'static str,
    /// The class that it is about; none where that was purged.
    pub label: Option<String>,
    /// The new label of a class that is renamed, or the class that a stored shot is moved to; none where it was purged.
    pub to_label: Option<String>,
    /// How far it has come.
    pub progress: JobProgress,
}

impl Job {
    /// Whether it was made or refused.
    pub fn has_ended(&self) -> bool {
        matches!(self.progress, JobProgress::Done { .. } | JobProgress::Failed(_) | JobProgress::Lost(_))
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let mut job = json!({ "id": self.id, "change": self.change, "label": self.label });
        if let Some(to_label) = &self.to_label {
            job["to_label"] = to_label.as_str().into();
        }
        match &self.progress {
            JobProgress::Queued => job["state"] = "queued".into(),
            JobProgress::Running(share) => (job["state"], job["progress"]) = ("running".into(), (*share).into()),
            JobProgress::Done { report, warning } => {
                job["state"] = "done".into();
                (job["report"], job["warning"]) = (report.clone(), warning.clone().into());
            }
            JobProgress::Failed(refusal) => {
                (job["state"], job["changed"]) = ("failed".into(), false.into());
                refusal.add_to(&mut job);
            }
            JobProgress::Lost(refusal) => {
                (job["state"], job["changed"]) = ("failed".into(), Value::Null);
                refusal.add_to(&mut job);
            }
        }
        job
    }
}

/// Those that have not ended, and the last that have.
#[derive(Default)]
pub(crate) struct Jobs {
    /// Where their identifiers come from.
    pub ids: IdSource,
    /// Whether no more are taken, since nobody makes them.
    pub are_closed: bool,
    /// Oldest first.
    listed: VecDeque<Job>,
}

impl Jobs {
    /// Adds a job, the newest.
    pub fn push(&mut self, job: Job) {
        self.listed.push_back(job);
    }

    pub fn find(&self, id: Id) -> Option<&Job> {
        self.listed.iter().find(|job| job.id == id)
    }

    pub fn unfinished(&self) -> impl Iterator<Item = &Job> {
        self.listed.iter().filter(|job| !job.has_ended())
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.listed.iter_mut()
    }

    /// Sets how far a job has come. If more than [`MAX_ENDED_JOBS`] have ended then, the oldest of those is forgotten.
    pub fn set_progress(&mut self, id: Id, progress: JobProgress) -> Option<&Job> {
        self.listed.iter_mut().find(|job| job.id == id)?.progress = progress;
        let ended = self.listed.iter().filter(|job| job.has_ended()).count();
        if ended > MAX_ENDED_JOBS
            && let Some(oldest) = self.listed.iter().position(|job| job.has_ended() && job.id != id)
        {
            self.listed.remove(oldest);
        }
        self.find(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_ended_are_remembered_and_none_that_waits_is_forgotten() {
        let mut jobs = Jobs::default();
        let list = |jobs: &mut Jobs| {
            let job = Job {
                id: jobs.ids.next_id(),
                change: "learn",
                label: None,
                to_label: None,
                progress: JobProgress::Queued,
            };
            jobs.push(job.clone());
            job.id
        };
        let waiting = list(&mut jobs);
        let ended: Vec<Id> = (0..3 * MAX_ENDED_JOBS).map(|_| list(&mut jobs)).collect();
        for id in &ended {
            jobs.set_progress(*id, JobProgress::Done { report: Value::Null, warning: None });
        }
        let (old, new) = ended.split_at(2 * MAX_ENDED_JOBS);
        assert!(old.iter().all(|id| jobs.find(*id).is_none() && jobs.ids.issued(*id)));
        assert!(new.iter().all(|id| jobs.find(*id).is_some()));
        assert!(jobs.unfinished().map(|job| job.id).eq([waiting]));
        assert_eq!(jobs.listed.len(), MAX_ENDED_JOBS + 1);
    }
}
