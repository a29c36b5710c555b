//! Named tensors: as a checkpoint has them, as an optimiser takes them.

use std::collections::HashMap;

use anyhow::{Result, bail};
use tch::nn::VarStore;
use tch::{Tensor, no_grad};

use crate::model::backbone::names_of;

/// A tensor that is trained.
#[derive(Debug)]
pub struct Parameter {
    /// Name in checkpoints.
    pub name: String,
    /// The trained tensor.
    pub tensor: Tensor,
    /// Whether weight decay applies.
    pub decays: bool,
}

/// Every tensor by name, sorted.
pub fn tensors(store: &VarStore) -> Vec<(String, Tensor)> {
    let mut named: Vec<_> = store.variables().into_iter().collect();
    named.sort_by(|a, b| a.0.cmp(&b.0));
    named
}

/// Those that are trained; norms and biases do not decay.
pub fn parameters(named: impl IntoIterator<Item = (String, Tensor)>) -> Vec<Parameter> {
    let trained = named.into_iter().filter(|(_, tensor)| tensor.requires_grad());
    trained.map(|(name, tensor)| Parameter { decays: tensor.dim() > 1, name, tensor }).collect()
}

/// Sets every one of them from a checkpoint's.
///
/// # Errors
/// If one is missing or has another shape.
pub fn restore(named: Vec<(String, Tensor)>, saved: &HashMap<String, Tensor>) -> Result<()> {
    for (name, mut own) in named {
        let found = names_of(&name).find_map(|name| saved.get(&name));
        let Some(saved) = found else { bail!("the checkpoint lacks the tensor {name}") };
        if saved.size() != own.size() {
            bail!("the checkpoint's {name} has shape {:?}, the recipe's {:?}", saved.size(), own.size());
        }
        no_grad(|| own.copy_(saved));
    }
    Ok(())
}

/// Copies of tensors by name, which keep their values while the originals are trained.
pub fn copies(named: Vec<(String, Tensor)>) -> HashMap<String, Tensor> {
    named.into_iter().map(|(name, tensor)| (name, tensor.detach().copy())).collect()
}

/// Copies the values of tensors to those of the same names in `to`.
pub fn copy(from: impl IntoIterator<Item = (String, Tensor)>, to: &HashMap<String, Tensor>) {
    no_grad(|| {
        for (name, tensor) in from {
            if let Some(to) = to.get(&name) {
                to.shallow_clone().copy_(&tensor);
            }
        }
    });
}
