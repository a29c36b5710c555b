//! Metrics for Prometheus, for administrators. Those that a device's service has, too, keep their names.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use orco_serve::metric::{self, MetricFormat, RequestMetric};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::admin::has_token;
use super::health::DISK_TIMEOUT;
use super::{DEVICE_PATHS, HubService, device, health, not_found};
use crate::overview::{DeviceOverview, FleetOverview, ReleaseOverview};

/// Requests that were answered.
pub(super) type RequestCounter = Family<RequestMetric, Counter>;

/// A device that reports no problem.
const OK: &str = "ok";
/// A device that reports problems, or refused a release.
const PROBLEMS: &str = "problems";
/// A device that has not reported yet.
const NO_REPORT: &str = "no_report";

/// Devices by what they said of themselves last.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HealthMetric {
    health: &'static str,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeviceMetric {
    device: String,
    name: String,
    channel: String,
}

/// Devices that a release is for, by what became of it there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReleaseMetric {
    release: String,
    channel: String,
    kind: &'static str,
    outcome: &'static str,
}

/// Hands a request on, and counts its answer.
pub(super) async fn count(State(hub): State<Arc<HubService>>, request: Request, next: Next) -> Response {
    let route = match request.extensions().get::<MatchedPath>().map(MatchedPath::as_str) {
        Some(DEVICE_PATHS) => device::route_name(request.uri().path()),
        Some(path) => path,
        None => "none",
    };
    let route = route.to_owned();
    let response = next.run(request).await;
    let answered = RequestMetric { route, status: response.status().as_u16() };
    hub.requests.get_or_create(&answered).inc();
    response
}

/// `GET /metrics`: in OpenMetrics where that is asked for, else in Prometheus's classic text. A fleet that cannot be
/// read is left out.
pub(super) async fn metrics(State(hub): State<Arc<HubService>>, headers: HeaderMap) -> Response {
    if !has_token(&hub, &headers) {
        return not_found();
    }
    let begun = Instant::now();
    let is_ready = health::is_ready(&hub).await;
    let fleet = if hub.ready_check.hangs() {
        // Each read would hold one more thread.
        None
    } else {
        health::in_time(&hub, DISK_TIMEOUT.saturating_sub(begun.elapsed()), FleetOverview::without_packs).await
    };
    let format = MetricFormat::of_request(&headers);
    format.response(format.text(&registry(&hub.requests, is_ready, fleet.as_ref())))
}

/// All metrics at this moment.
fn registry(requests: &RequestCounter, is_ready: bool, fleet: Option<&FleetOverview>) -> Registry {
    let mut all = metric::process_registry();
    let registry = metric::orco_metrics(&mut all);
    registry.register("requests", "Requests that were answered", requests.clone());
    let ready: Gauge = Gauge::default();
    ready.set(i64::from(is_ready));
    registry.register("ready", "1 while the hub can read its database and write its folder", ready);
    if let Some(fleet) = fleet {
        register_devices(registry, &fleet.devices);
        register_releases(registry, fleet);
    }
    all
}

fn register_devices(registry: &mut Registry, devices: &[DeviceOverview]) {
    let health: Family<HealthMetric, Gauge> = Family::default();
    // 0 for a health that no device has.
    for name in [OK, PROBLEMS, NO_REPORT] {
        health.get_or_create(&HealthMetric { health: name }).set(0);
    }
    let seen: Family<DeviceMetric, Gauge> = Family::default();
    for device in devices {
        health.get_or_create(&HealthMetric { health: health_of(device) }).inc();
        let (id, name, channel) = (device.id.to_string(), escaped(&device.name), device.channel.clone());
        seen.get_or_create(&DeviceMetric { device: id, name, channel }).set(device.seen);
    }
    registry.register("hub_devices", "Devices by what they said of themselves last", health);
    registry.register("hub_device_seen_timestamp_seconds", "When a device's last request came", seen);
}

fn register_releases(registry: &mut Registry, fleet: &FleetOverview) {
    let devices: Family<ReleaseMetric, Gauge> = Family::default();
    for release in fleet.releases.iter().filter(|release| !release.withdrawn && !release.replaced) {
        let ReleaseOverview { held, refused, other_bundle, .. } = *release;
        // Those with another bundle never get it: an alert on the others must be able to end.
        let pending = release.devices.saturating_sub(held + refused + other_bundle);
        let outcomes = [("held", held), ("refused", refused), ("other_bundle", other_bundle), ("pending", pending)];
        for (outcome, count) in outcomes {
            let (number, channel, kind) = (release.id.to_string(), release.channel.clone(), release.kind.name());
            let metric = ReleaseMetric { release: number, channel, kind, outcome };
            devices.get_or_create(&metric).set(count as i64);
        }
    }
    registry.register("hub_release_devices", "Devices that a release in force is for, by what became of it", devices);
}

fn health_of(device: &DeviceOverview) -> &'static str {
    match &device.report {
        None => NO_REPORT,
        Some(_) if device.problems().is_empty() => OK,
        Some(_) => PROBLEMS,
    }
}

/// A text as the value of a label, which the library does not escape.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::protocol::{DeviceReport, ReleaseId, ReleaseOutcome, SigningKey};
    use crate::rollout::RolloutStage;
    use crate::store::ReleaseKind;
    use crate::tests::path_in_checkout;

    /// A device that is well, one that refused a release, one that never reported; and three releases.
    fn fleet() -> FleetOverview {
        let device = |name: &str, report| {
            let id = SigningKey::generate().unwrap().verifying_key().device();
            DeviceOverview { id, name: name.into(), channel: "stable".into(), seen: 1_700_000_000, report }
        };
        let outcome = ReleaseOutcome { release: ReleaseId(3), refused: Some("no room".into()) };
        let refusing = DeviceReport { outcomes: vec![outcome], ..DeviceReport::default() };
        let devices = vec![
            device("door \"3\"", Some(DeviceReport::default())),
            device("gate", Some(refusing)),
            device("new", None),
        ];
        let release = |id, withdrawn, replaced| ReleaseOverview {
            id: ReleaseId(id),
            channel: "stable".into(),
            kind: ReleaseKind::Bundle,
            name: "everyday".into(),
            stage: RolloutStage::All,
            withdrawn,
            replaced,
            created: 1_700_000_000,
            devices: 4,
            held: 1,
            refused: 1,
            other_bundle: 1,
        };
        let releases = vec![release(3, false, false), release(2, false, true), release(1, true, false)];
        FleetOverview { devices, packs: Vec::new(), releases }
    }

    fn text(is_ready: bool, fleet: Option<&FleetOverview>) -> String {
        let requests = RequestCounter::default();
        requests.get_or_create(&RequestMetric { route: "/metrics".into(), status: 200 }).inc();
        MetricFormat::Classic.text(&registry(&requests, is_ready, fleet))
    }

    #[test]
    fn metrics_tell_of_devices_and_of_releases_in_force() {
        let fleet = fleet();
        let text = text(true, Some(&fleet));
        let device = format!(r#"device="{}",name="door \"3\"",channel="stable""#, fleet.devices[0].id);
        let seen = format!("orco_hub_device_seen_timestamp_seconds{{{device}}} 1700000000");
        let release = |outcome: &str| {
            let labels = format!(r#"release="3",channel="stable",kind="bundle",outcome="{outcome}""#);
            format!("orco_hub_release_devices{{{labels}}} 1")
        };
        let expected = [
            "orco_ready 1".to_owned(),
            "orco_requests_total{route=\"/metrics\",status=\"200\"} 1".to_owned(),
            "orco_hub_devices{health=\"ok\"} 1".to_owned(),
            "orco_hub_devices{health=\"problems\"} 1".to_owned(),
            "orco_hub_devices{health=\"no_report\"} 1".to_owned(),
            seen,
            release("held"),
            release("refused"),
            release("other_bundle"),
            release("pending"),
        ];
        for line in expected {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(!text.contains("release=\"2\"") && !text.contains("release=\"1\""), "{text}");
    }

    #[test]
    fn a_hub_that_is_not_ready_says_so_without_its_fleet() {
        let text = text(false, None);
        assert!(text.lines().any(|line| line == "orco_ready 0") && !text.contains("orco_hub_"), "{text}");
    }

    #[test]
    fn the_guide_lists_every_metric_with_its_type() {
        let Some(page) = path_in_checkout("docs/src/guides/hub.md", "the guide's list of metrics") else { return };
        let page = fs::read_to_string(page).unwrap();
        let text = text(true, Some(&fleet()));
        let known = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        // The table of a device's service has those of the process.
        let known = known.filter(|(name, _)| name.starts_with("orco_"));
        let listed = page.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|');
            let name = cells.next()?.trim().strip_suffix('`')?;
            Some((name, cells.next()?.trim())).filter(|_| name.starts_with("orco_"))
        });
        assert_eq!(listed.collect::<BTreeSet<_>>(), known.collect::<BTreeSet<_>>());
        assert!(!cfg!(target_os = "linux") || text.contains("\nprocess_open_fds "), "{text}");
    }
}
