//! Whether the hub answers, for probes. No token is needed: nothing of the fleet is told. Paths and answers are those
//! of a device's service.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::time::timeout;

use super::{HubService, blocking};
use crate::error::HubError;
use crate::store::HubStore;

/// A disk that takes longer hangs.
const DISK_TIMEOUT: Duration = Duration::from_secs(10);

/// `GET /v2/health/live`: the hub answers.
pub(super) async fn live() -> Response {
    Json(json!({ "live": true })).into_response()
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
    in_time(hub, HubStore::check).await.is_some()
}

/// What reading the store gives; `None` if it fails or its disk hangs, which is logged.
pub(super) async fn in_time<T: Send + 'static>(
    hub: &Arc<HubService>,
    read: impl FnOnce(&HubStore) -> Result<T, HubError> + Send + 'static,
) -> Option<T> {
    match timeout(DISK_TIMEOUT, blocking(hub, read)).await {
        Ok(done) => done.ok(),
        Err(_) => {
            log::error!("the disk of the hub's folder does not answer");
            None
        }
    }
}
