//! Events, which the page and programs receive as they happen (`GET events`), and MQTT in part. Webhooks are none of
//! them: [`crate::rules`] look at the camera themselves.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::id::Id;
use crate::job::Job;
use crate::live_snapshot::LiveSnapshot;

/// Events that a slow listener may fall behind before it misses some.
const BACKLOG: usize = 256;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A change was queued, goes on or ended.
    Job(Job),
    /// What is known has changed, or how the service is.
    Changed {
        /// The change of this service that did it, if one did.
        job: Option<Id>,
    },
    /// A shot was taken or removed, or shots were learned or got another label.
    Shots {
        /// Its label.
        label: String,
        /// How many shots of that label wait to be learned.
        shots: usize,
    },
    /// A frame came into the inbox, or left it.
    Inbox {
        /// How many frames wait.
        frames: usize,
    },
    /// A class was purged.
    Purged {
        /// The jobs that named it.
        jobs: Vec<Id>,
    },
    /// The camera shows something else, or is in another state.
    Live(Arc<LiveSnapshot>),
    /// The camera saw something come, or sightings were removed.
    Sightings,
}

impl Event {
    /// Something changed that no job of this service did.
    pub const CHANGED: Self = Self::Changed { job: None };

    /// Its name for listeners.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Job(_) => "job",
            Self::Changed { .. } => "changed",
            Self::Shots { .. } => "shots",
            Self::Inbox { .. } => "inbox",
            Self::Purged { .. } => "purged",
            Self::Live(_) => "live",
            Self::Sightings => "sightings",
        }
    }

    /// What listeners get with the name.
    pub fn json(&self) -> Value {
        match self {
            Self::Job(job) => job.json(),
            Self::Changed { job } => json!({ "job": job }),
            Self::Shots { label, shots } => json!({ "label": label, "shots": shots }),
            Self::Inbox { frames } => json!({ "frames": frames }),
            Self::Purged { jobs } => json!({ "jobs": jobs }),
            Self::Live(live) => live.json(),
            Self::Sightings => json!({}),
        }
    }
}

/// Sends events.
#[derive(Clone, Debug)]
pub struct Events(broadcast::Sender<Event>);

impl Default for Events {
    fn default() -> Self {
        Self(broadcast::Sender::new(BACKLOG))
    }
}

impl Events {
    /// Sends an event to everybody who listens.
    pub fn send(&self, event: Event) {
        // It fails where nobody listens.
        let _ = self.0.send(event);
    }

    /// All events from now on.
    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OpenAPI 3.1 cannot tie schemas to the events of a stream, so its description names them.
    #[test]
    fn the_openapi_document_describes_what_events_hold() {
        let document: Value = serde_json::from_str(crate::page::OPENAPI).unwrap();
        let described = document["paths"]["/api/v1/events"]["get"]["description"].as_str().unwrap();
        let events = [
            (Event::CHANGED, "ChangedEvent"),
            (Event::Shots { label: "mug".into(), shots: 1 }, "ShotsEvent"),
            (Event::Inbox { frames: 1 }, "InboxEvent"),
            (Event::Purged { jobs: Vec::new() }, "PurgedEvent"),
        ];
        for (event, schema) in events {
            assert!(described.contains(&format!("\"{}\" ({schema})", event.name())), "{schema}");
            let fields: Vec<String> = event.json().as_object().unwrap().keys().cloned().collect();
            assert_eq!(document["components"]["schemas"][schema]["required"], json!(fields), "{schema}");
        }
    }
}
