//! The report of an export: how close the written backbone is to the trained one, and what its files cost.

use std::path::PathBuf;

use super::fidelity::Fidelity;

/// Largest deviation between ONNX Runtime and tch that an export may have, as a share of the largest feature: rounding
/// grows with the features.
pub(super) const PARITY: f64 = 1e-4;

/// What an export was found to be.
#[derive(Debug)]
pub struct ExportReport {
    /// The bundle's folder.
    pub folder: PathBuf,
    /// How far ONNX Runtime is from tch; none for an imported backbone.
    pub parity: Option<Parity>,
    /// How many of the base classes' measured images the classifier of phase 1 recognises, in percent, if cross entropy
    /// trained it.
    pub classifier_accuracy: Option<f64>,
    /// What storing weights in fewer bits cost, if the recipe asks for that.
    pub stored: Option<Fidelity>,
    /// What the int8 backbone was found to be, if the recipe asks for one.
    pub int8: Option<Fidelity>,
}

/// How far ONNX Runtime is from tch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parity {
    /// Largest deviation of a feature.
    pub deviation: f64,
    /// Size of the largest feature.
    pub largest: f64,
    /// Images on which both were compared.
    pub images: usize,
}

impl Parity {
    /// What was measured, for people.
    pub fn sentence(&self, network: &str) -> String {
        format!(
            "ONNX Runtime equals {network} within {:.1e} on {} training images (largest feature: {:.1})",
            self.deviation, self.images, self.largest
        )
    }

    /// Whether the deviation is explained by rounding; not a number is not.
    pub(super) fn is_rounding(&self) -> bool {
        self.deviation <= PARITY * self.largest.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_grows_with_the_features() {
        let parity = |deviation, largest| Parity { deviation, largest, images: 1 };
        assert!(parity(9e-5, 0.1).is_rounding() && parity(2.1e-4, 22.0).is_rounding());
        assert!(!parity(2e-4, 0.5).is_rounding() && !parity(3e-3, 22.0).is_rounding());
        assert!(!parity(f64::NAN, 22.0).is_rounding());
    }
}
