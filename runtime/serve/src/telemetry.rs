//! Where the service's threads report: health, events and metrics, together.

use crate::event::Events;
use crate::health::Health;
use crate::metric::Metrics;

/// Where a thread of the service reports what it does.
#[derive(Clone)]
pub(crate) struct Telemetry {
    /// What is wrong, if anything is.
    pub health: Health,
    /// Events.
    pub events: Events,
    /// Metrics for Prometheus.
    pub metrics: Metrics,
}
