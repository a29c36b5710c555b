//! Events, which the page and programs receive as they happen.

use serde::Serialize;
use tokio::sync::broadcast;

/// Events that a slow listener may fall behind before it misses some.
const KEPT: usize = 256;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `job` (one was queued, goes on or ended), `changed` (what is known, or how the service is), `shots` (what was
    /// taken), `inbox` (how many frames wait), `purged` (jobs that told of a class that was purged), `live` (what the
    /// camera shows) or `sightings` (something came or left).
    pub kind: &'static str,
    /// JSON.
    pub data: String,
}

/// Sends events.
#[derive(Clone, Debug)]
pub struct Events(broadcast::Sender<Event>);

impl Default for Events {
    fn default() -> Self {
        Self(broadcast::Sender::new(KEPT))
    }
}

impl Events {
    /// Sends an event to everybody who listens.
    ///
    /// # Panics
    /// If the value has no form in JSON.
    pub fn tell(&self, kind: &'static str, value: &impl Serialize) {
        let data = serde_json::to_string(value).expect("events have a form in JSON");
        // It fails where nobody listens.
        let _ = self.0.send(Event { kind, data });
    }

    /// All events from now on.
    pub fn listen(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}
