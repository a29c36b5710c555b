//! Weights to start from: what a file may be, which tensors it gives the backbone, and what is known of its images.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use orco_runtime::files;
use orco_runtime::manifest::hexadecimal;
use sha2::{Digest, Sha256};
use tch::{Tensor, no_grad};

use super::Model;
use crate::data::dataset::ChannelStatistics;
use crate::model::backbone::{Description, UNSOUND_METADATA, exported_onnx, names_of, pth, torchvision};
use crate::run::checkpoint::TensorFile;
use crate::run::checksum::Checksum;

impl Model {
    /// Sets the backbone's tensors from a checkpoint of another run, from weights under the names of their publishers
    /// ([`published_names`](crate::model::backbone::published_names)), or from the `backbone.onnx` of a bundle; and the
    /// channel statistics, where those of the weights are known. Heads, classifiers and counters are passed over.
    ///
    /// # Errors
    /// If the file is none of these, a tensor of the backbone is missing or has another shape, or the file has further
    /// layers; the model is then as it was.
    pub fn load_weights(&mut self, file: &WeightFile) -> Result<LoadedWeights> {
        let shown = file.path.display();
        let read = decode_weights(&file.bytes, &self.backbone.description);
        let read = read.with_context(|| format!("cannot read the weights {shown}"))?;
        let tensors = read.tensors;
        let network = &self.backbone.description.name;
        let finite = |tensor: &Tensor| !tensor.is_floating_point() || tensor.isfinite().all().int64_value(&[]) != 0;
        let own = self.tensors().into_iter().filter(|(name, _)| name.starts_with("backbone."));
        let (mut pairs, mut taken) = (Vec::new(), HashSet::new());
        for (name, own) in own {
            let Some((key, saved)) = names_of(&name).find_map(|name| tensors.get_key_value(&name)) else {
                bail!("the weights {shown} lack the tensor {name} of {network}{}", remedy_for(&name, &tensors));
            };
            if saved.size() != own.size() {
                bail!(
                    "the tensor {name} of the weights {shown} has shape {:?}, but {network} needs {:?}",
                    saved.size(),
                    own.size()
                );
            }
            if !finite(saved) {
                bail!("the tensor {name} of the weights {shown} holds numbers that are not finite");
            }
            taken.insert(key);
            pairs.push((own, saved));
        }
        if let Some(left) = tensors.keys().filter(|&name| is_of_layer(name) && !taken.contains(name)).min() {
            bail!(
                "the weights {shown} are of another network than {network}, which has no layer for their tensor {left}"
            );
        }
        no_grad(|| pairs.iter_mut().for_each(|(own, saved)| own.copy_(saved)));
        let channels = match read.channels {
            Some(stated) => WeightChannels::Stated(stated),
            None if torchvision::is_of_imagenet(&tensors) => WeightChannels::Published(ChannelStatistics::IMAGENET),
            None => WeightChannels::Unknown,
        };
        if let WeightChannels::Stated(known) | WeightChannels::Published(known) = channels {
            self.channels = known;
        }
        Ok(LoadedWeights { norms: read.norms, channels })
    }
}

/// The form of batch norm in a file of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Norms {
    /// As they were trained.
    Whole,
    /// Folded into the convolutions: before anything is trained, [`Model::restore_norms`] has to be called.
    Folded,
}

/// The channel statistics that weights were trained with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WeightChannels {
    /// Those that the file states, as a bundle's does.
    Stated(ChannelStatistics),
    /// Those that the publishers of such weights train with.
    Published(ChannelStatistics),
    /// Neither the file nor its publishers state them.
    Unknown,
}

/// What [`Model::load_weights`] found in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct LoadedWeights {
    /// How the norms came.
    pub norms: Norms,
    /// What the weights are fed with.
    pub channels: WeightChannels,
}

/// What a file of weights holds.
struct DecodedWeights {
    tensors: HashMap<String, Tensor>,
    norms: Norms,
    channels: Option<ChannelStatistics>,
}

/// A file of weights, read once: for the model, and for the digest that a run keeps.
#[derive(Clone, Debug)]
pub struct WeightFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl WeightFile {
    /// Refuses at once what cannot be read; what it holds is checked when the model takes it.
    ///
    /// # Errors
    /// If it cannot be opened, or is no file.
    pub fn check(path: &Path) -> Result<()> {
        files::open_regular(path).map(drop).with_context(|| unreadable(path))
    }

    /// Reads it.
    ///
    /// # Errors
    /// If it cannot be read, or is no file.
    pub fn read(path: &Path) -> Result<Self> {
        // A pipe would be waited for without end.
        let bytes = files::read(path, u64::MAX - 1);
        let bytes = bytes.with_context(|| unreadable(path))?;
        Ok(Self { path: path.into(), bytes })
    }

    /// Its SHA-256, in hexadecimal.
    pub fn digest(&self) -> String {
        hexadecimal(&Sha256::digest(&self.bytes))
    }
}

/// What is said of a file of weights that cannot be read.
fn unreadable(path: &Path) -> String {
    format!("cannot read the weights {}", path.display())
}

/// Whether a tensor has the published name of one in a block.
fn is_of_published_block(name: &str) -> bool {
    ["layer1.", "layer2.", "layer3.", "layer4.", "_blocks."].iter().any(|start| name.starts_with(start))
}

/// Whether a tensor is one of a backbone's layers; heads, classifiers and counters are not.
fn is_of_layer(name: &str) -> bool {
    (name.starts_with("backbone.") || is_of_published_block(name)) && !name.ends_with(".num_batches_tracked")
}

/// The end of a sentence about a missing tensor: what to do where the file has it with a prefix, as `DataParallel` and
/// Lightning write it, else nothing.
fn remedy_for(own: &str, tensors: &HashMap<String, Tensor>) -> String {
    let known: Vec<String> = names_of(own).collect();
    // "layer1.0.bn1.weight" is no "bn1.weight" with a prefix.
    let prefixed = tensors.keys().filter(|name| !is_of_published_block(name)).filter_map(|name| {
        let prefix = known.iter().find_map(|known| name.strip_suffix(known.as_str()))?;
        prefix.ends_with('.').then_some((name, prefix))
    });
    prefixed.min().map_or_else(String::new, |(name, prefix)| {
        format!("; {name:?} may be it: save the tensors without {prefix:?} before their names")
    })
}

/// Tensors of a file by name: safetensors, PyTorch's format from before its zip one, or an ONNX file of ours.
fn decode_weights(bytes: &[u8], description: &Description) -> Result<DecodedWeights> {
    let whole = |tensors| DecodedWeights { tensors, norms: Norms::Whole, channels: None };
    // PyTorch writes zip archives since 1.6.
    if pth::is_pth(bytes) || bytes.starts_with(b"PK") {
        return Ok(whole(pth::read(bytes)?.into_iter().collect()));
    }
    // After its length, the header of a safetensors file is JSON.
    if bytes.get(8) == Some(&b'{') {
        // What this program wrote, as a checkpoint is, says itself whether it is whole.
        let file = TensorFile::open(bytes).ok().filter(|file| file.checksum() != Checksum::Differs);
        let tensors = file.and_then(|file| file.tensors());
        return Ok(whole(tensors.context("it is damaged or cut off; copy it here again")?));
    }
    let model = exported_onnx::model(bytes)?;
    let channels = model.three("orco.mean").zip(model.three("orco.deviation"));
    let channels = channels.map(|(mean, deviation)| ChannelStatistics { mean, deviation });
    if channels.is_some_and(|channels| !channels.is_sound()) {
        bail!(UNSOUND_METADATA);
    }
    let tensors = exported_onnx::tensors(&model, description)?.into_iter().collect();
    Ok(DecodedWeights { tensors, norms: Norms::Folded, channels })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn weights_that_cannot_be_read_are_refused_by_a_look_and_by_reading() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights.pth");
        let refused = |path: &Path| {
            let [look, read] = [WeightFile::check(path), WeightFile::read(path).map(drop)];
            let said = format!("{:#}", look.unwrap_err());
            assert_eq!(said, format!("{:#}", read.unwrap_err()));
            said
        };
        assert!(refused(&path).starts_with("cannot read the weights "));
        assert!(refused(folder.path()).ends_with(": it is a folder"));
        fs::write(&path, "weights").unwrap();
        WeightFile::check(&path).unwrap();
    }
}
