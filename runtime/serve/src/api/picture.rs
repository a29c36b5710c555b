//! Pictures that are sent: admitted by what their headers say, decoded away from the threads that serve.

use axum::body::Bytes;
use orco_runtime::image::{self, ImageError};
use orco_runtime::image_rs::RgbImage;

use super::blocking;
use crate::admission::{Admitted, Permit, picture_bytes};
use crate::error::Refusal;
use crate::service::Service;

/// Waits until a picture may be decoded.
///
/// # Errors
/// [`Refusal`] if it is no picture that is taken, or too many are being processed.
pub(super) async fn admit(service: &Service, file: Bytes) -> Result<Permit, Refusal> {
    let input = service.manifest.preprocessing;
    let bytes = move || Ok(picture_bytes(&image::decoding_memory(&file)?, &input));
    let bytes = blocking(bytes).await?;
    service.admission.work(bytes.map_err(refused)?).await
}

/// Decodes a picture that was admitted, and does something with it and its file.
///
/// # Errors
/// [`Refusal`] if it is damaged.
pub(super) async fn decode<T: Send + 'static>(
    file: Bytes,
    permit: Permit,
    then: impl FnOnce(&[u8], RgbImage) -> T + Send + 'static,
) -> Result<Admitted<T>, Refusal> {
    // The permit goes along: whoever waits for the picture may leave, but its memory is still taken.
    let decoding = move || image::decode(&file).map(|picture| Admitted::new(then(&file, picture), permit));
    blocking(decoding).await?.map_err(refused)
}

/// The same of a picture alone.
///
/// # Errors
/// As for [`admit`] and [`decode`].
pub(super) async fn whole(service: &Service, file: Bytes) -> Result<Admitted<RgbImage>, Refusal> {
    let permit = admit(service, file.clone()).await?;
    decode(file, permit, |_, picture| picture).await
}

fn refused(error: ImageError) -> Refusal {
    Refusal::bad(format!("the picture {error}"))
}
