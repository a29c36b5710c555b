//! What a tensor of ours is called in files of others: torchvision and timm for ResNet-18, and
//! `efficientnet-lite-pytorch`. Layers themselves are in [`families`](super::families).

mod efficientnet_lite;
pub(crate) mod torchvision;

/// What others call a tensor of ours below `backbone.`: torchvision and timm for ResNet-18, and
/// `efficientnet-lite-pytorch`.
pub fn published_names(own: &str) -> impl Iterator<Item = String> {
    torchvision::name(own).into_iter().chain(efficientnet_lite::name(own))
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
