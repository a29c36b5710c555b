//! What the bundle carries besides the models.

use orco_runtime::manifest::WeightFormat;
use serde::{Deserialize, Serialize};

use super::SHOTS;
use super::check::{ConfigError, count, demand};

/// What the bundle carries besides the models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportConfig {
    /// Exemplars of each base class.
    #[serde(default = "exemplars")]
    pub exemplars_per_class: usize,
    /// Candidate shots of each incremental class in the benchmark file.
    #[serde(default = "candidates")]
    pub candidates_per_class: usize,
    /// Draws of the shots that the card's numbers are means of, where there are more candidates than shots.
    #[serde(default = "draws", skip_serializing_if = "is_usual")]
    pub draws: usize,
    /// How the backbone's file stores the weights of convolutions; it is computed in f32 whatever is chosen.
    #[serde(default, skip_serializing_if = "WeightFormat::is_f32")]
    pub weights: WeightFormat,
    /// Whether the backbone is written with int8 arithmetic too, as a file of its own.
    #[serde(default)]
    pub int8: bool,
    /// Base training images that the ranges of int8 activations are measured on.
    #[serde(default = "calibration_images")]
    pub calibration_images: usize,
    /// Author, for the metadata of the ONNX files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// License of the weights, for card and metadata; by default this program's, and unknown of an imported backbone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Date, for the metadata; by default that of `SOURCE_DATE_EPOCH`, and none without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
}

impl Default for ExportConfig {
    fn default() -> Self {
        Self {
            exemplars_per_class: exemplars(),
            candidates_per_class: candidates(),
            draws: draws(),
            weights: WeightFormat::F32,
            int8: false,
            calibration_images: calibration_images(),
            author: None,
            license: None,
            date: None,
        }
    }
}

fn draws() -> usize {
    3
}

fn exemplars() -> usize {
    SHOTS
}

fn candidates() -> usize {
    2 * SHOTS
}

fn is_usual(count: &usize) -> bool {
    *count == draws()
}

fn calibration_images() -> usize {
    500
}

impl ExportConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        count("export.exemplars_per_class", self.exemplars_per_class, 1..=1000, "from 1 to 1000")?;
        let expected = "from 5, the shots of one draw, to 10000";
        count("export.candidates_per_class", self.candidates_per_class, SHOTS..=10_000, expected)?;
        count("export.draws", self.draws, 1..=1000, "from 1 to 1000")?;
        count("export.calibration_images", self.calibration_images, 1..=1_000_000, "from 1 to 1000000")?;
        let is_named = self.license.as_ref().is_none_or(|license| !license.trim().is_empty());
        demand("export.license", "empty", is_named, "the name of a license, or left out")
    }
}
