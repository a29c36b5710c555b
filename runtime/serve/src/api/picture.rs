//! Pictures that are sent: admitted by what their headers say, decoded away from the threads that serve.

use axum::body::Bytes;
use orco_runtime::image::{self, DecodingCost};
use orco_runtime::image_rs::RgbImage;

use super::blocking;
use crate::admission::{Admitted, Permit, processing_bytes};
use crate::refusal::Refusal;
use crate::service::Service;

/// A picture that may be decoded.
pub(super) struct AdmittedPicture {
    file: Bytes,
    /// What decoding it takes, by its header.
    pub(super) cost: DecodingCost,
    /// Holds its memory.
    pub(super) permit: Permit,
}

/// Waits until a picture may be decoded.
///
/// # Errors
/// [`Refusal`] if it is no picture that is taken, or too many are being processed.
pub(super) async fn admit(service: &Service, file: Bytes) -> Result<AdmittedPicture, Refusal> {
    let measured = file.clone();
    let cost = blocking(move || image::decoding_cost(&measured)).await?.map_err(|error| Refusal::from(&error))?;
    let permit = service.admission.admit(processing_bytes(&cost, &service.manifest.preprocessing)).await?;
    Ok(AdmittedPicture { file, cost, permit })
}

/// Decodes a picture that was admitted, and does something with it.
///
/// # Errors
/// [`Refusal`] if it is damaged.
pub(super) async fn decode<T: Send + 'static>(
    AdmittedPicture { file, permit, .. }: AdmittedPicture,
    then: impl FnOnce(RgbImage) -> T + Send + 'static,
) -> Result<Admitted<T>, Refusal> {
    // The permit goes along: the client may disconnect, but the memory is still taken.
    let decoding = move || image::decode(&file).map(|picture| Admitted::new(then(picture), permit));
    blocking(decoding).await?.map_err(|error| Refusal::from(&error))
}

/// Admits a picture and decodes it.
///
/// # Errors
/// As for [`admit`] and [`decode`].
pub(super) async fn admit_and_decode(service: &Service, file: Bytes) -> Result<Admitted<RgbImage>, Refusal> {
    decode(admit(service, file).await?, |picture| picture).await
}
