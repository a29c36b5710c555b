//! The mean of the weights at the ends of the last epochs ("Averaging weights leads to wider optima and better
//! generalization", Izmailov et al., 2018), kept in the checkpoint until phase 1 ends.

use std::collections::HashMap;

use tch::{Kind, Tensor, no_grad};

use crate::train::optimiser::Parameter;

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

    /// Reads them back; a checkpoint that lacks one is as if no epoch had counted yet.
    pub fn restored(tensors: &HashMap<String, Tensor>, parameters: &[Parameter]) -> Self {
        let sum = |parameter: &Parameter| {
            let saved = tensors.get(&format!("{SUM}{}", parameter.name))?;
            (saved.size() == parameter.tensor.size()).then(|| saved.to_device(parameter.tensor.device()).copy())
        };
        let sums: Option<Vec<Tensor>> = parameters.iter().map(sum).collect();
        let Some((epochs, sums)) = tensors.get(EPOCHS).zip(sums) else { return Self::default() };
        let names = parameters.iter().map(|parameter| parameter.name.clone()).collect();
        Self { epochs: epochs.int64_value(&[]), sums, names }
    }
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
        let mut average = WeightAverage::restored(&saved, &parameters);
        no_grad(|| parameters[0].tensor.shallow_clone().copy_(&Tensor::from_slice(&[2.0f32, 8.0])));
        average.add(&parameters);
        assert_eq!(average.apply(&parameters), 2);
        assert_eq!(Vec::<f32>::try_from(&parameters[0].tensor).unwrap(), [1.5, 2.0]);
        assert!(average.tensors().is_empty());
        assert_eq!(WeightAverage::restored(&saved, &[parameter(&[1.0])]).epochs, 0);
    }
}
