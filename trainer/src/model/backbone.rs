//! Backbones: one layer description builds both the tch network and the ONNX file.

mod build;
mod description;
mod efficientnet;
mod families;
mod head;
mod imported_onnx;
mod network;
mod norm;
mod probe;
pub mod pth;
mod source;
pub(crate) mod torchvision;
pub mod unfold;

pub use build::Builder;
pub use description::{Activation, Block, ConvNorm, Description, Shortcut};
pub use head::{ProjectionHead, unit};
pub use network::{ForwardMode, Network};
pub(crate) use probe::cosine;
pub(crate) use source::UNSOUND_METADATA;
pub use source::{FeatureSource, LookingSource, OnnxBackbone, OnnxBackboneError, parts};

/// What others call a tensor of ours below `backbone.`: torchvision and timm for ResNet-18, and
/// `efficientnet-lite-pytorch`.
pub fn published_names(own: &str) -> impl Iterator<Item = String> {
    torchvision::name(own).into_iter().chain(efficientnet::name(own))
}

/// What a tensor of ours may be called in a file: its own name first.
pub fn names_of(own: &str) -> impl Iterator<Item = String> {
    std::iter::once(own.to_owned()).chain(published_names(own))
}

/// PyTorch's name of a part of a convolution with a norm.
fn published(convolution: &str, norm: &str, part: &str) -> Option<String> {
    Some(match part {
        "weight" => format!("{convolution}.weight"),
        "norm_scale" => format!("{norm}.weight"),
        "norm_bias" => format!("{norm}.bias"),
        "norm_mean" => format!("{norm}.running_mean"),
        "norm_variance" => format!("{norm}.running_var"),
        _ => return None,
    })
}
