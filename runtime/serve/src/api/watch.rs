//! What happens, as it happens, and figures.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::{Stream, StreamExt};
use tokio_stream::wrappers::BroadcastStream;

use crate::event::Event;
use crate::service::Service;

/// `GET /api/v1/events`: server-sent events. A listener that fell behind is told to read everything again.
pub async fn events(
    State(service): State<Arc<Service>>,
) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>> + Send> {
    let events = BroadcastStream::new(service.events.listen()).map(|event| {
        let Event { kind, data } = event.unwrap_or_else(|_| Event { kind: "changed", data: "{}".into() });
        Ok(sse::Event::default().event(kind).data(data))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
}

/// `GET /metrics`: for Prometheus.
pub async fn metrics(State(service): State<Arc<Service>>) -> impl IntoResponse {
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], service.metrics.text())
}
