//! Whether the hub answers, for probes. No token is needed: the answers tell nothing about the fleet. Paths and answers
//! are those of a device's service, but for the field by which devices tell a hub.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use orco_runtime::state::sentence::with_causes;
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{HubService, blocking};
use crate::error::HubError;
use crate::protocol::HUB_FIELD;
use crate::store::HubStore;

/// Beyond this time the disk counts as hanging. Prometheus gives up after ten seconds.
pub(super) const DISK_TIMEOUT: Duration = Duration::from_secs(8);

/// `GET /v2/health/live`: the hub answers.
pub(super) async fn live() -> Response {
    Json(json!({ "live": true, HUB_FIELD: true })).into_response()
}

/// `GET /v2/health/ready`: 200 while the hub can read its database and write its folder, else 503; the log says what is
/// wrong.
pub(super) async fn ready(State(hub): State<Arc<HubService>>) -> Response {
    if is_ready(&hub).await {
        Json(json!({ "live": true, "ready": true })).into_response()
    } else {
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    }
}

/// Whether the hub can read its database and write its folder.
pub(super) async fn is_ready(hub: &Arc<HubService>) -> bool {
    if hub.ready_check.begin() {
        let service = Arc::clone(hub);
        let check = spawn_blocking(move || {
            service.ready_check.run(|| service.store.check().err().map(|error| with_causes(&error)));
        });
        // The check goes on and ends even if nobody waits for it any more.
        let _ = timeout(DISK_TIMEOUT, check).await;
    }
    hub.ready_check.logged_problem(hub.store.folder(), "the hub is ready again").is_none()
}

/// What reading the store gives; `None` if it fails or takes longer than `limit`, which is logged.
pub(super) async fn in_time<T: Send + 'static>(
    hub: &Arc<HubService>,
    limit: Duration,
    read: impl FnOnce(&HubStore) -> Result<T, HubError> + Send + 'static,
) -> Option<T> {
    match timeout(limit, blocking(hub, read)).await {
        Ok(done) => done.ok(),
        Err(_) => {
            log::error!("the disk of the hub's folder does not answer");
            None
        }
    }
}
