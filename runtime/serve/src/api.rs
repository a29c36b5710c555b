//! The handlers, by what they are about.

pub mod camera;
pub mod changes;
pub mod inbox;
pub mod inference;
pub mod known;
pub mod shots;
pub mod thumbnails;
pub mod watch;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use orco_runtime::image;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::label;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task;

use crate::answers::Named;
use crate::error::Refusal;

/// A body of JSON; one that is not understood is refused in a sentence.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let bytes = Bytes::from_request(request, state).await.map_err(|_| Refusal::bad("the body broke off"))?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| Refusal::bad(format!("the request: {error}")))
    }
}

/// Decodes a picture, away from the threads that serve.
///
/// # Errors
/// [`Refusal`] if it is no picture that is taken.
pub(crate) async fn decode(bytes: Bytes) -> Result<RgbImage, Refusal> {
    let decoded = task::spawn_blocking(move || image::decode(&bytes)).await;
    let decoded = decoded.map_err(|_| Refusal::bad("the picture cannot be decoded"))?;
    decoded.map_err(|error| Refusal::bad(format!("the picture {error}")))
}

/// A label in its normal form, if it is one that a class may have.
///
/// # Errors
/// [`Refusal`] if it is not.
pub(crate) fn usable(label: &str) -> Result<String, Refusal> {
    let normal = label::normal(label);
    if label::is_usable(&normal) {
        return Ok(normal);
    }
    Err(Refusal::bad(
        "this label cannot be used: it is empty, too long, or holds \"=\" or characters that cannot be seen",
    ))
}

/// The first `top` matches.
pub(crate) fn matches(named: &[Named], top: usize) -> Value {
    let one = |named: &Named| json!({ "label": named.label, "probability": named.probability, "provisional": named.provisional });
    named.iter().take(top.max(1)).map(one).collect()
}
