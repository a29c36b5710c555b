//! The mean of the weights at the ends of the last epochs ("Averaging weights leads to wider optima and better
//! generalization", Izmailov et al., 2018), kept in the checkpoint until phase 1 ends.

use std::collections::HashMap;

use anyhow::{Error, Result, anyhow, ensure};
use tch::{Kind, Tensor, no_grad};

use crate::model::store::Parameter;

/// Name of the number of epochs in a checkpoint.
const EPOCHS: &str = "average.epochs";
/// What the names of the sums begin with there.
const SUM: &str = "average.sum.";

/// Sums of the weights over epochs.
#[derive(Debug, Default)]
pub(super) struct WeightAverage {
    epochs: i64,
    /// In f64, in the order of the parameters; empty before the first epoch.
    sums: Vec<Tensor>,
    names: Vec<String>,
}

impl WeightAverage {
    /// Adds the weights as they are now.
    pub fn add(&mut self, parameters: &[Parameter]) {
        let zeros =
            |parameter: &Parameter| Tensor::zeros(parameter.tensor.size(), (Kind::Double, parameter.tensor.device()));
        if self.sums.is_empty() {
            self.sums = parameters.iter().map(zeros).collect();
            self.names = parameters.iter().map(|parameter| parameter.name.clone()).collect();
        }
        no_grad(|| {
            for (sum, parameter) in self.sums.iter_mut().zip(parameters) {
                let _ = sum.g_add_(&parameter.tensor.detach().to_kind(Kind::Double));
            }
        });
        self.epochs += 1;
    }

    /// Sets the weights to their mean over the epochs that were added, if there are any, and forgets these.
    ///
    /// Returns the number of epochs. Running statistics of batch norm belong to other weights from now on.
    pub fn apply(&mut self, parameters: &[Parameter]) -> i64 {
        let Self { epochs, sums, .. } = std::mem::take(self);
        no_grad(|| {
            for (sum, parameter) in sums.iter().zip(parameters) {
                parameter.tensor.shallow_clone().copy_(&(sum / epochs));
            }
        });
        epochs
    }

    /// Tensors of the checkpoint; none before the first epoch that counts.
    pub fn tensors(&self) -> Vec<(String, Tensor)> {
        if self.epochs == 0 {
            return Vec::new();
        }
        let sums = self.names.iter().zip(&self.sums).map(|(name, sum)| (format!("{SUM}{name}"), sum.shallow_clone()));
        sums.chain([(EPOCHS.to_owned(), Tensor::from(self.epochs))]).collect()
    }

    /// From a checkpoint; one from before the first epoch that counts has none.
    ///
    /// # Errors
    /// If it has only some of them, or one has another shape: the mean would silently be over fewer epochs.
    pub fn of_checkpoint(tensors: &HashMap<String, Tensor>, parameters: &[Parameter]) -> Result<Self> {
        let Some(epochs) = tensors.get(EPOCHS) else {
            let some = tensors.keys().find(|name| name.starts_with(SUM));
            return some.map_or_else(|| Ok(Self::default()), |_| Err(lacks(EPOCHS)));
        };
        let sums = parameters.iter().map(|parameter| saved_sum(tensors, parameter)).collect::<Result<_>>()?;
        let names = parameters.iter().map(|parameter| parameter.name.clone()).collect();
        Ok(Self { epochs: epochs.int64_value(&[]), sums, names })
    }
}

/// The sum of one parameter in a checkpoint, on the parameter's device.
fn saved_sum(tensors: &HashMap<String, Tensor>, parameter: &Parameter) -> Result<Tensor> {
    let name = format!("{SUM}{}", parameter.name);
    let saved = tensors.get(&name).ok_or_else(|| lacks(&name))?;
    let (own, there) = (parameter.tensor.size(), saved.size());
    ensure!(there == own, "the checkpoint's {name} has shape {there:?}, the recipe's {own:?}");
    Ok(saved.to_device(parameter.tensor.device()).copy())
}

fn lacks(name: &str) -> Error {
    anyhow!(
        "the checkpoint has only a part of the averaged weights: it lacks {name}; put back a whole copy, or start again \
         with another --run folder"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(values: &[f32]) -> Parameter {
        Parameter { name: "head.w1".into(), tensor: Tensor::from_slice(values), decays: true }
    }

    #[test]
    fn weights_become_the_mean_of_what_was_added_across_a_checkpoint() {
        let parameters = [parameter(&[1.0, -4.0])];
        let mut average = WeightAverage::default();
        assert!(average.tensors().is_empty());
        average.add(&parameters);
        let saved: HashMap<String, Tensor> = average.tensors().into_iter().collect();
        let mut average = WeightAverage::of_checkpoint(&saved, &parameters).unwrap();
        no_grad(|| parameters[0].tensor.shallow_clone().copy_(&Tensor::from_slice(&[2.0f32, 8.0])));
        average.add(&parameters);
        assert_eq!(average.apply(&parameters), 2);
        assert_eq!(Vec::<f32>::try_from(&parameters[0].tensor).unwrap(), [1.5, 2.0]);
        assert!(average.tensors().is_empty());
    }

    #[test]
    fn a_part_of_an_average_is_refused() {
        let parameters = [parameter(&[1.0, -4.0])];
        let mut average = WeightAverage::default();
        average.add(&parameters);
        let saved = average.tensors();
        let without = |left_out: Option<&str>| -> HashMap<String, Tensor> {
            let kept = saved.iter().filter(|(name, _)| left_out != Some(name.as_str()));
            kept.map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect()
        };
        let refused = |tensors: &HashMap<String, Tensor>, parameters: &[Parameter]| {
            WeightAverage::of_checkpoint(tensors, parameters).unwrap_err().to_string()
        };
        for name in ["average.sum.head.w1", EPOCHS] {
            let said = refused(&without(Some(name)), &parameters);
            assert!(said.contains(&format!("it lacks {name}; put back a whole copy")), "{said}");
        }
        let said = refused(&without(None), &[parameter(&[1.0])]);
        assert!(said.contains("average.sum.head.w1 has shape [2], the recipe's [1]"), "{said}");
        assert_eq!(WeightAverage::of_checkpoint(&HashMap::new(), &parameters).unwrap().epochs, 0);
    }
}
