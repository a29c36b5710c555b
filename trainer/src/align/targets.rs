//! The pseudo-targets of a recipe, made so that one sees how far it is and can stop.

use anyhow::Result;
use orco_runtime::target::{Generator, Method, generate};

use crate::config::TargetConfig;
use crate::interrupt;
use crate::progress::Progress;

/// Makes the targets, rows `[count, dimension]`: those of [`generate`].
///
/// # Errors
/// If Ctrl-C was pressed.
pub(super) fn targets(config: &TargetConfig, dimension: usize, seed: u64) -> Result<Vec<f32>> {
    let TargetConfig { count, method, steps } = *config;
    interrupt::check()?;
    if method != Method::Optimised {
        return Ok(generate(method, count, dimension, steps, seed));
    }
    // The descent begins at random directions.
    let mut targets = generate(Method::Random, count, dimension, 0, seed);
    let mut generator = Generator::new(count, dimension);
    let mut progress = Progress::new("targets", steps as u64, 0);
    for _ in 0..steps {
        interrupt::check()?;
        generator.step(&mut targets, 1.0);
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
        for method in [Method::Optimised, Method::Simplex, Method::Random] {
            let config = TargetConfig { count: 20, method, steps: 30 };
            assert_eq!(targets(&config, 24, 7).unwrap(), generate(method, 20, 24, 30, 7), "{method:?}");
        }
    }
}
