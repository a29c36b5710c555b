//! Dynamic scaling of the loss: f16 gradients that would round to zero are kept, those that overflow skip their step.

use std::collections::HashMap;

use anyhow::{Result, bail};
use tch::Tensor;

/// Scale of the first step; this, the interval below, doubling and halving are the defaults of `torch.amp.GradScaler`.
const INITIAL: f64 = 65_536.0;
/// Good steps in a row after which the scale doubles.
const GROWTH_INTERVAL: i64 = 2_000;
/// Highest scale: beyond it f32 losses would overflow themselves.
const HIGHEST: f64 = 16_777_216.0;
/// Below this scale the gradients overflow by themselves: training has diverged.
const LOWEST: f64 = 1.0 / 65_536.0;

/// The scale of the loss, halved when gradients overflow and doubled after 2000 good steps (Micikevicius et al.,
/// "Mixed Precision Training", 2018). Unlike `torch.amp.GradScaler` it has a highest scale, and fails below a lowest
/// one.
#[derive(Clone, Debug, PartialEq)]
pub struct LossScaler {
    scale: f64,
    good_steps: i64,
}

impl Default for LossScaler {
    fn default() -> Self {
        Self { scale: INITIAL, good_steps: 0 }
    }
}

impl LossScaler {
    /// What the loss is multiplied by, and the gradients are divided by.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Takes note of a step; `finite` says whether every gradient was. Returns whether the step is to be taken.
    ///
    /// # Errors
    /// If gradients overflow however small the scale is.
    pub fn update(&mut self, finite: bool) -> Result<bool> {
        if !finite {
            (self.scale, self.good_steps) = (self.scale * 0.5, 0);
            if self.scale < LOWEST {
                bail!(
                    "gradients overflow in f16 at any scale; start again with another --run folder and a lower \
                     pretrain.learning_rate, or train in bf16 or f32"
                );
            }
            return Ok(false);
        }
        self.good_steps += 1;
        if self.good_steps == GROWTH_INTERVAL {
            (self.scale, self.good_steps) = ((self.scale * 2.0).min(HIGHEST), 0);
        }
        Ok(true)
    }

    /// The scale and the count of good steps, for a checkpoint.
    pub fn state(&self) -> Vec<(String, Tensor)> {
        vec![("scaler.scale".into(), Tensor::from(self.scale)), ("scaler.good".into(), Tensor::from(self.good_steps))]
    }

    /// Takes the state out of a checkpoint's tensors; without one there, stays as it is.
    pub fn restore(&mut self, tensors: &HashMap<String, Tensor>) {
        if let (Some(scale), Some(good)) = (tensors.get("scaler.scale"), tensors.get("scaler.good")) {
            (self.scale, self.good_steps) = (scale.double_value(&[]), good.int64_value(&[]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_follows_overflow_and_good_steps() {
        let mut scaler = LossScaler::default();
        assert!(!scaler.update(false).unwrap());
        assert_eq!(scaler.scale(), 32_768.0);
        for _ in 0..GROWTH_INTERVAL - 1 {
            assert!(scaler.update(true).unwrap());
        }
        assert_eq!(scaler.scale(), 32_768.0);
        scaler.update(true).unwrap();
        assert_eq!(scaler.scale(), 65_536.0);
        // An overflow starts the count anew.
        (0..GROWTH_INTERVAL - 1).for_each(|_| assert!(scaler.update(true).unwrap()));
        scaler.update(false).unwrap();
        scaler.update(true).unwrap();
        assert_eq!(scaler.scale(), 32_768.0);
    }

    #[test]
    fn the_scale_stays_within_bounds() {
        let mut scaler = LossScaler::default();
        (0..100 * GROWTH_INTERVAL).for_each(|_| assert!(scaler.update(true).unwrap()));
        assert_eq!(scaler.scale(), HIGHEST);
        let error = (0..60).find_map(|_| scaler.update(false).err()).expect("an end to halving");
        assert!(error.to_string().contains("gradients overflow"), "{error}");
    }

    #[test]
    fn the_state_survives_a_checkpoint() {
        let mut scaler = LossScaler::default();
        scaler.update(false).unwrap();
        scaler.update(true).unwrap();
        let mut restored = LossScaler::default();
        restored.restore(&scaler.state().into_iter().collect());
        assert_eq!(restored, scaler);
        restored.restore(&HashMap::new());
        assert_eq!(restored, scaler);
    }
}
