//! The names that torchvision (and timm after it) gives to the tensors of ResNet-18.
//!
//! | here, below `backbone.` | there |
//! |---|---|
//! | `stem` | `conv1`, `bn1` |
//! | `stage1_block1_conv1` | `layer1.0.conv1`, `layer1.0.bn1` |
//! | `stage2_block1_shortcut` | `layer2.0.downsample.0`, `layer2.0.downsample.1` |
//! | `.weight` | `.weight` of the convolution |
//! | `.norm_scale`, `.norm_bias` | `.weight`, `.bias` of the norm |
//! | `.norm_mean`, `.norm_variance` | `.running_mean`, `.running_var` of the norm |
//!
//! Shapes and values are the same. The classifier `fc` and the counters `num_batches_tracked` have no counterpart.

use std::collections::HashMap;

use tch::Tensor;

/// Whether tensors are those of a ResNet that torchvision publishes, all of which were trained on ImageNet: networks
/// for smaller images often go by the same names, but do not begin with a 7x7 convolution.
pub fn is_of_imagenet(tensors: &HashMap<String, Tensor>) -> bool {
    tensors.get("conv1.weight").is_some_and(|weight| weight.size().get(2..) == Some(&[7, 7]))
}

/// What torchvision calls a tensor of ours; nothing if it has none like it.
pub fn name(own: &str) -> Option<String> {
    let (layer, part) = own.strip_prefix("backbone.")?.rsplit_once('.')?;
    let (convolution, norm) = match layer.split('_').collect::<Vec<_>>()[..] {
        ["stem"] => ("conv1".to_owned(), "bn1".to_owned()),
        [stage, block, layer] => {
            let stage = stage.strip_prefix("stage")?;
            let block = block.strip_prefix("block")?.parse::<usize>().ok()?.checked_sub(1)?;
            let block_name = format!("layer{stage}.{block}");
            match layer {
                "shortcut" => (format!("{block_name}.downsample.0"), format!("{block_name}.downsample.1")),
                _ => {
                    let number = layer.strip_prefix("conv")?;
                    (format!("{block_name}.conv{number}"), format!("{block_name}.bn{number}"))
                }
            }
        }
        _ => return None,
    };
    super::published(&convolution, &norm, part)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::Recipe;
    use crate::data::dataset::ChannelStatistics;
    use crate::model::{LoadedWeights, Model, Norms, WeightChannels, WeightFile};

    fn model() -> Model {
        let mut recipe: Recipe = toml::from_str(include_str!("../../../../recipes/cub200-published.toml")).unwrap();
        recipe.backbone.width = 4;
        Model::new(&recipe, [3, 32, 32], tch::Device::Cpu)
    }

    #[test]
    fn every_tensor_has_its_own_name() {
        let tensors = model().tensors();
        let own = tensors.iter().map(|(name, _)| name).filter(|name| name.starts_with("backbone."));
        let names: BTreeSet<String> = own.clone().map(|own| name(own).unwrap()).collect();
        // torchvision's ResNet-18: 20 convolutions and 20 norms of four tensors, the counters aside.
        assert_eq!((own.count(), names.len()), (100, 100));
        for known in [
            "conv1.weight",
            "bn1.running_var",
            "layer1.0.conv1.weight",
            "layer1.1.bn2.bias",
            "layer2.0.downsample.0.weight",
            "layer4.0.downsample.1.running_mean",
            "layer4.1.conv2.weight",
        ] {
            assert!(names.contains(known), "{known}");
        }
        assert!(!names.iter().any(|name| name.starts_with("layer1.0.downsample")));
        assert_eq!(name("head.w1"), None);
    }

    #[test]
    fn weights_are_found_under_either_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resnet18.safetensors");
        let other = model();
        let renamed =
            other.tensors().into_iter().filter_map(|(own, tensor)| Some((name(&own)?, tensor.detach() + 0.5)));
        let mut renamed: Vec<_> = renamed.map(|(name, tensor)| (name, tensor.contiguous())).collect();
        renamed.push(("fc.weight".into(), tch::Tensor::zeros([1000, 32], (tch::Kind::Float, tch::Device::Cpu))));
        tch::Tensor::write_safetensors(&renamed, &path).unwrap();
        let mut model = model();
        let loaded = model.load_weights(&WeightFile::read(&path).unwrap()).unwrap();
        let channels = WeightChannels::Published(ChannelStatistics::IMAGENET);
        assert_eq!(
            (loaded, model.channels),
            (LoadedWeights { norms: Norms::Whole, channels }, ChannelStatistics::IMAGENET)
        );
        for ((own, loaded), (_, there)) in model.tensors().iter().zip(other.tensors()) {
            assert!(!own.starts_with("backbone.") || loaded.equal(&(there.detach() + 0.5)), "{own}");
        }
        renamed.retain(|(name, _)| name != "layer3.1.bn1.running_var");
        tch::Tensor::write_safetensors(&renamed, &path).unwrap();
        let error = model.load_weights(&WeightFile::read(&path).unwrap()).unwrap_err().to_string();
        assert!(error.contains("lack the tensor backbone.stage3_block2_conv1.norm_variance"), "{error}");
        assert!(!error.contains("may be it"), "{error}");
    }

    #[test]
    fn weights_of_a_deeper_network_and_names_with_more_before_them_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights.safetensors");
        let (mut model, mut published) = (model(), Vec::new());
        for (own, tensor) in model.tensors() {
            published.extend(name(&own).map(|name| (name, tensor.detach().contiguous())));
        }
        let mut refused = |tensors: &[(String, tch::Tensor)]| {
            tch::Tensor::write_safetensors(tensors, &path).unwrap();
            model.load_weights(&WeightFile::read(&path).unwrap()).map(|_| ()).map_err(|error| error.to_string())
        };
        let counter = published[0].1.shallow_clone();
        published.push(("layer1.0.bn1.num_batches_tracked".into(), counter.shallow_clone()));
        assert_eq!(refused(&published), Ok(()));
        let prefixed: Vec<_> =
            published.iter().map(|(name, tensor)| (format!("module.{name}"), tensor.shallow_clone())).collect();
        let error = refused(&prefixed).unwrap_err();
        assert!(error.ends_with("may be it: save the tensors without \"module.\" before their names"), "{error}");
        // As ResNet-34 has them, which begins with the blocks of ResNet-18.
        published.push(("layer1.2.conv1.weight".into(), counter));
        let error = refused(&published).unwrap_err();
        assert!(error.ends_with("which has no layer for their tensor layer1.2.conv1.weight"), "{error}");
    }
}
