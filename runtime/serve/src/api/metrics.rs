//! Metrics for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::blocking;
use crate::metric::MetricFormat;
use crate::refusal::Refusal;
use crate::service::Service;

/// `GET /metrics`: for Prometheus, in OpenMetrics where that is asked for, else in its classic text.
///
/// # Errors
/// [`Refusal`] if checking the service's health fails.
pub async fn metrics(State(service): State<Arc<Service>>, headers: HeaderMap) -> Result<Response, Refusal> {
    let health = service.health.clone();
    let problems = blocking(move || health.problems()).await?;
    // What makes the state unusable is a problem of its own: `GET /v2/health/ready` counts both.
    let is_unusable = service.answers.knowledge().problem.is_some();
    service.metrics.set_problems(problems.len() + usize::from(is_unusable));
    let format = MetricFormat::of_request(&headers);
    Ok(format.response(service.metrics.text(format)))
}
