//! Defaults of recipe keys for serde, and tests for them in `skip_serializing_if`: a key with its default value is not
//! serialised, so digests of runs from before the key existed stay the same.

use orco_core::loss::contrast::ContrastForm;

/// Eta of the published program.
pub(super) fn trust() -> f64 {
    0.02
}

/// The published program's form of contrast in phase 1.
pub(super) fn inside() -> ContrastForm {
    ContrastForm::Inside
}

pub(super) fn is_inside(form: &ContrastForm) -> bool {
    *form == ContrastForm::Inside
}

pub(super) fn target_steps() -> usize {
    500
}

pub(super) fn one() -> f64 {
    1.0
}

pub(super) fn is_one(value: &f64) -> bool {
    *value == 1.0
}

pub(super) fn yes() -> bool {
    true
}

pub(super) fn is_yes(value: &bool) -> bool {
    *value
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
