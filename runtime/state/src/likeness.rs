//! How alike pictures are by their features.

use orco_core::discriminant::direction;
use orco_core::math::normalise;

use crate::state::BaseModel;

/// Turns features into the direction that likeness is measured by: from the mean of all base features where the
/// bundle's statistics know it, else from zero.
pub fn centred_direction(base_model: &BaseModel, features: &mut [f32]) {
    direction_from(base_model.statistics.as_ref().map(|statistics| statistics.centre.as_slice()), features);
}

/// Turns features into the direction that likeness is measured by: from `centre`, or from zero without one.
pub fn direction_from(centre: Option<&[f32]>, features: &mut [f32]) {
    match centre {
        Some(centre) => direction(features, centre),
        None => {
            normalise(features);
        }
    }
}
