//! Events as they happen.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::{StreamExt, stream};
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use super::UNBUFFERED;
use crate::service::Service;
use crate::stream_end::StreamEnd;

/// Name of the event that a listener gets in place of events that it missed.
const LAGGED: &str = "lagged";

/// `GET /api/v1/events`: server-sent events. A listener that fell behind is told to read everything again.
pub async fn events(
    State(service): State<Arc<Service>>,
    Extension(streams): Extension<StreamEnd>,
) -> impl IntoResponse {
    let events = BroadcastStream::new(service.events.listen()).map(|event| {
        let (name, data) = match event {
            Ok(event) => (event.name(), event.json().to_string()),
            Err(BroadcastStreamRecvError::Lagged(_)) => (LAGGED, "{}".to_owned()),
        };
        Ok::<_, Infallible>(sse::Event::default().event(name).data(data))
    });
    // Firefox hands a page no answer before something of its body has come.
    let beginning = stream::iter([Ok(sse::Event::default().comment("connected"))]);
    let all = beginning.chain(events).take_until(streams.reached());
    ([UNBUFFERED], Sse::new(all).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}
