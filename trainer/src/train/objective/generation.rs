//! Generates the pseudo-targets of a recipe, with progress, until a stop is asked for.

use anyhow::Result;
use orco_state::target::{TargetGenerator, TargetMethod, generate};

use crate::config::TargetConfig;
use crate::platform::interrupt;
use crate::run::progress::WorkProgress;

/// Makes the targets, rows `[count, dimension]`: those of [`generate`], unless the recipe descends otherwise.
///
/// # Errors
/// If a stop was asked for.
pub fn pseudo_targets(config: &TargetConfig, dimension: usize, seed: u64) -> Result<Vec<f32>> {
    let TargetConfig { count, method, steps, learning_rate, accumulate } = *config;
    interrupt::check()?;
    if method != TargetMethod::Optimised {
        return Ok(generate(method, count, dimension, steps, seed));
    }
    // The descent begins at random directions.
    let mut targets = generate(TargetMethod::Random, count, dimension, 0, seed);
    let mut generator = TargetGenerator::new(count, dimension);
    let mut progress = WorkProgress::new("targets", "steps", steps as u64, 0);
    for _ in 0..steps {
        interrupt::check()?;
        if !accumulate {
            generator.reset_gradient();
        }
        generator.step(&mut targets, learning_rate as f32);
        progress.advance(1, "");
    }
    progress.finish();
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_are_those_of_the_runtime() {
        for method in [TargetMethod::Optimised, TargetMethod::Simplex, TargetMethod::Random] {
            let config = TargetConfig { count: 20, method, steps: 30, learning_rate: 1.0, accumulate: true };
            assert_eq!(pseudo_targets(&config, 24, 7).unwrap(), generate(method, 20, 24, 30, 7), "{method:?}");
        }
    }

    /// The paper's text: small steps, each along the gradient at its own point alone.
    #[test]
    fn a_descent_that_does_not_accumulate_goes_where_the_gradient_points() {
        let made = |steps, accumulate| {
            let config =
                TargetConfig { count: 20, method: TargetMethod::Optimised, steps, learning_rate: 0.5, accumulate };
            pseudo_targets(&config, 24, 7).unwrap()
        };
        let mut expected = made(0, false);
        for _ in 0..3 {
            TargetGenerator::new(20, 24).step(&mut expected, 0.5);
        }
        assert_eq!(made(3, false), expected);
        assert_eq!(made(1, true), made(1, false));
        assert_ne!(made(2, true), made(2, false));
        // Both end at the simplex, where every cosine is -1/19.
        let farthest = orco_state::target::cosines(&made(2000, false), &made(2000, false), 24)
            .into_iter()
            .filter(|cosine| *cosine < 0.9)
            .map(|cosine| (cosine + 1.0 / 19.0).abs())
            .fold(0.0, f32::max);
        assert!(farthest < 0.01, "{farthest}");
    }
}
