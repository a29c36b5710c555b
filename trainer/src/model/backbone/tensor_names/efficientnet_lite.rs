//! The names that `efficientnet-lite-pytorch` gives to the tensors of EfficientNet-Lite.
//!
//! | here, below `backbone.` | there |
//! |---|---|
//! | `stem` | `_conv_stem`, `_bn0` |
//! | `block3_expand` | `_blocks.2._expand_conv`, `_blocks.2._bn0` |
//! | `block3_depthwise` | `_blocks.2._depthwise_conv`, `_blocks.2._bn1` |
//! | `block3_project` | `_blocks.2._project_conv`, `_blocks.2._bn2` |
//! | `last` | `_conv_head`, `_bn1` |
//! | `.weight` | `.weight` of the convolution |
//! | `.norm_scale`, `.norm_bias` | `.weight`, `.bias` of the norm |
//! | `.norm_mean`, `.norm_variance` | `.running_mean`, `.running_var` of the norm |
//!
//! Shapes and values are the same. The classifier `_fc` and the counters `num_batches_tracked` have no counterpart.

/// What that package calls a tensor of ours; nothing if it has none like it.
pub fn name(own: &str) -> Option<String> {
    let (layer, part) = own.strip_prefix("backbone.")?.rsplit_once('.')?;
    let (convolution, norm) = match layer.split_once('_') {
        None if layer == "stem" => ("_conv_stem".to_owned(), "_bn0".to_owned()),
        None if layer == "last" => ("_conv_head".to_owned(), "_bn1".to_owned()),
        Some((block, layer)) => {
            let block = block.strip_prefix("block")?.parse::<usize>().ok()?.checked_sub(1)?;
            let norm = match layer {
                "expand" => 0,
                "depthwise" => 1,
                "project" => 2,
                _ => return None,
            };
            (format!("_blocks.{block}._{layer}_conv"), format!("_blocks.{block}._bn{norm}"))
        }
        None => return None,
    };
    super::published(&convolution, &norm, part)
}
