//! Metrics for Prometheus.

mod format;
#[cfg(target_os = "linux")]
mod process;

pub use format::MetricFormat;

use std::fmt;
use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry, Unit};

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestMetric {
    /// The route, as it was registered.
    pub route: String,
    /// The status.
    pub status: u16,
}

/// A change that ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ChangeMetric {
    /// What it was to do.
    pub change: &'static str,
    /// `done` or `failed`.
    pub outcome: &'static str,
}

/// What came of an action of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RuleActionMetric {
    /// `done`, `failed`, or `dropped` where too many waited.
    pub outcome: &'static str,
}

/// A program that answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildMetric {
    version: &'static str,
}

/// A gauge that is not written until it is set: an alert on 0 must not fire on a device that lacks the part.
#[derive(Clone, Debug, Default)]
pub struct OptionalGauge(Arc<OnceLock<Gauge>>);

impl OptionalGauge {
    /// Sets it; it is written from now on.
    pub fn set(&self, value: i64) {
        self.0.get_or_init(Gauge::default).set(value);
    }
}

impl EncodeMetric for OptionalGauge {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0.get().map_or(Ok(()), |gauge| gauge.encode(encoder))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }

    fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }
}

/// Metrics of the service's own camera.
#[derive(Clone, Debug)]
pub struct CameraMetrics {
    /// 1 while it gives pictures; none without a camera.
    pub running: OptionalGauge,
    /// Frames that came.
    pub frames: Counter,
    /// Frames that could not be decoded.
    pub unreadable: Counter,
    /// How often it was opened and gave a picture.
    pub opened: Counter,
}

/// Metrics of the connection to an MQTT broker.
#[derive(Clone, Debug)]
pub struct MqttMetrics {
    /// 1 while the broker is there; none without a broker.
    pub connected: OptionalGauge,
    /// How often it was connected to.
    pub connections: Counter,
    /// Messages that it confirmed.
    pub messages: Counter,
    /// Results of changes that it never got: too many waited.
    pub dropped: Counter,
}

/// All metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    /// Requests that were answered.
    pub requests: Family<RequestMetric, Counter>,
    /// Time to classify a picture, decoding and waiting apart.
    pub classify_seconds: Histogram,
    /// 1 while nothing is wrong.
    pub ready: Gauge,
    /// Number of problems.
    pub problems: Gauge,
    /// Changes that ended.
    pub changes: Family<ChangeMetric, Counter>,
    /// Changes that wait or are being made.
    pub queued: Gauge,
    /// Known classes.
    pub classes: Gauge,
    /// Pseudo-targets that no class has.
    pub free_targets: Gauge,
    /// Shots that were taken and not learned yet.
    pub shots: Gauge,
    /// 1 while sightings cannot be written.
    pub sightings_failing: Gauge,
    /// Actions of rules.
    pub rule_actions: Family<RuleActionMetric, Counter>,
    /// The service's own camera.
    pub camera: CameraMetrics,
    /// The connection to an MQTT broker.
    pub mqtt: MqttMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut all = process_registry();
        let registry = orco_metrics(&mut all);
        let requests = register(registry, "requests", "Requests that were answered");
        // From a millisecond to sixteen seconds.
        let classify_seconds = Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let help = "Time to classify a picture, decoding and waiting apart";
        registry.register_with_unit("classify", help, Unit::Seconds, classify_seconds.clone());
        let changes = register(registry, "changes", "Changes that ended");
        let rule_actions = register(registry, "rule_actions", "Actions of rules, by what came of them");
        let help = "1 while it answers and can learn; camera and broker have metrics of their own";
        let ready = register(registry, "ready", help);
        let problems = register(registry, "problems", "What is wrong with the service, counted");
        let queued = register(registry, "changes_queued", "Changes that wait or are being made");
        let classes = register(registry, "classes", "Known classes");
        let free_targets = register(registry, "free_targets", "Pseudo-targets that no class has");
        let shots = register(registry, "shots_waiting", "Shots that were taken and not learned yet");
        let sightings_failing =
            register(registry, "sightings_failing", "1 while what the camera saw cannot be written");
        let camera = CameraMetrics {
            running: register(registry, "camera_running", "1 while the service's own camera gives pictures"),
            frames: register(registry, "camera_frames", "Frames of the service's own camera"),
            unreadable: register(registry, "camera_unreadable", "Frames of it that could not be decoded"),
            opened: register(registry, "camera_opened", "How often it was opened and gave a picture"),
        };
        let mqtt = MqttMetrics {
            connected: register(registry, "mqtt_connected", "1 while the MQTT broker is there"),
            connections: register(registry, "mqtt_connections", "How often the MQTT broker was connected to"),
            messages: register(registry, "mqtt_messages", "Messages that the MQTT broker confirmed"),
            dropped: register(registry, "mqtt_dropped", "Results of changes that the MQTT broker never got"),
        };
        Self {
            registry: Arc::new(all),
            requests,
            classify_seconds,
            ready,
            problems,
            changes,
            queued,
            classes,
            free_targets,
            shots,
            sightings_failing,
            rule_actions,
            camera,
            mqtt,
        }
    }
}

impl Metrics {
    /// All metrics, as text.
    pub fn text(&self, format: MetricFormat) -> String {
        format.text(&self.registry)
    }

    /// Sets the number of problems, and whether the service is ready.
    pub fn set_problems(&self, count: usize) {
        self.problems.set(count as i64);
        self.ready.set(i64::from(count == 0));
    }
}

/// Registers a metric that begins empty, and returns it.
fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// A registry with the metrics of the process, where the system tells them: `process_...`.
pub fn process_registry() -> Registry {
    #[cfg(target_os = "linux")]
    return process::registry();
    #[cfg(not(target_os = "linux"))]
    Registry::default()
}

/// The part of a registry for a program's own metrics, `orco_...`. It begins with `orco_build_info`: 1, with the
/// program's version as a label.
pub fn orco_metrics(all: &mut Registry) -> &mut Registry {
    let registry = all.sub_registry_with_prefix("orco");
    let build: Family<BuildMetric, Gauge> = Family::default();
    build.get_or_create(&BuildMetric { version: env!("CARGO_PKG_VERSION") }).set(1);
    registry.register("build_info", "1, with the program's version as a label", build);
    registry
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn a_service_with_problems_is_not_ready() {
        let metrics = Metrics::default();
        for (problems, lines) in [(0, "orco_ready 1|orco_problems 0"), (2, "orco_ready 0|orco_problems 2")] {
            metrics.set_problems(problems);
            let text = metrics.text(MetricFormat::Classic);
            assert!(lines.split('|').all(|line| text.lines().any(|found| found == line)), "{text}");
        }
    }

    #[test]
    fn a_device_without_camera_or_broker_has_no_gauge_of_theirs() {
        let metrics = Metrics::default();
        let has = |name: &str| metrics.text(MetricFormat::Classic).contains(name);
        assert!(!has("orco_camera_running") && !has("orco_mqtt_connected"));
        metrics.camera.running.set(0);
        metrics.mqtt.connected.set(1);
        assert!(has("orco_camera_running 0\n") && has("orco_mqtt_connected 1\n"));
    }

    #[test]
    fn the_book_lists_every_metric_with_its_type() {
        let page =
            fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/reference/http.md")).unwrap();
        let metrics = Metrics::default();
        // A family without members is not written, nor is an optional gauge that was not set.
        [&metrics.camera.running, &metrics.mqtt.connected].iter().for_each(|gauge| gauge.set(0));
        metrics.requests.get_or_create(&RequestMetric { route: "/metrics".into(), status: 200 }).inc();
        metrics.changes.get_or_create(&ChangeMetric { change: "learn", outcome: "done" }).inc();
        metrics.rule_actions.get_or_create(&RuleActionMetric { outcome: "done" }).inc();
        let text = metrics.text(MetricFormat::Classic);
        let known = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let listed = page.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|');
            let name = cells.next()?.trim().strip_suffix('`')?;
            let is_told = name.starts_with("orco_") || cfg!(target_os = "linux") && name.starts_with("process_");
            Some((name, cells.next()?.trim())).filter(|_| is_told)
        });
        assert_eq!(listed.collect::<BTreeSet<_>>(), known.collect::<BTreeSet<_>>());
    }
}
