//! Metrics for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;

use crate::metric::MetricFormat;
use crate::service::Service;

/// `GET /metrics`: for Prometheus, in OpenMetrics where that is asked for, else in its classic text.
pub async fn metrics(State(service): State<Arc<Service>>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let format = MetricFormat::accepted(&accept.collect::<Vec<_>>().join(","));
    ([(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")], service.metrics.text(format))
}
