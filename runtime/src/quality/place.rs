//! Checks whether pictures of one thing show different places, by what is along their edges.
//!
//! By features, pictures of a narrow domain are alike wherever they were taken: faces, signs, surfaces. Only their
//! backgrounds tell whether five of them come from one scene.

use super::Quality;

/// Most pictures that are compared in pairs; of more, as many at even distances.
const MAX_COMPARED: usize = 16;
/// Mean edge mismatch from which pictures show different places. How often that errs is in
/// `docs/src/journal/2026-11-30-one-scene.md`.
const MIN_EDGE_MISMATCH: f32 = 0.3;

/// Whether pictures show different places: on average over all pairs, more than three in ten cells along the edge
/// have another colour ([`PictureFingerprint::edge_mismatch`](super::PictureFingerprint::edge_mismatch)). False for
/// fewer than two pictures.
pub fn show_different_places(pictures: &[Quality]) -> bool {
    let step = pictures.len().div_ceil(MAX_COMPARED).max(1);
    let compared: Vec<&Quality> = pictures.iter().step_by(step).collect();
    let pairs = compared.iter().enumerate().flat_map(|(at, one)| compared[..at].iter().map(move |other| (one, other)));
    let mismatches: Vec<f32> = pairs.map(|(one, other)| one.fingerprint.edge_mismatch(&other.fingerprint)).collect();
    mismatches.iter().sum::<f32>() > MIN_EDGE_MISMATCH * mismatches.len() as f32
}
