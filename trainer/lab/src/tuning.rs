//! Choosing the settings of phase 3 on held-out base classes that serve as incremental ones, never on test data.

use std::path::Path;

use anyhow::{Context, Result, bail};
use orco_benchmark::Metric;
use orco_benchmark::benchmark::Benchmark;
use orco_core::config::MethodConfig;
use orco_lab::ablation::Ablation;
use orco_lab::format::{print, say_of_draws};
use orco_lab::{Measurement, System};
use orco_runtime::bundle::Bundle;
use orco_trainer::config::with_changes;
use orco_trainer::platform::interrupt;

/// Measures trial settings on a bundle's benchmark file and prints a line for each; the baselines follow.
///
/// A trial is the inside of a TOML table with fields of [`MethodConfig`], such as `epochs = 50, learning_rate = 0.2`;
/// they change the bundle's settings, or those of a `preset` named among them. Fields of [`Ablation`] may stand beside
/// them.
///
/// # Errors
/// If the bundle cannot be opened, was made from test data, a trial makes no sense, or a stop was asked for.
pub fn tune(bundle: &Path, trials: &[String], asked: usize, seed: u64) -> Result<()> {
    let bundle = Bundle::open(bundle)?;
    let (base_model, benchmark) = (&bundle.base_model, Benchmark::of(&bundle)?);
    if benchmark.measured_on_test {
        bail!(
            "the benchmark of {} is test data, on which nothing may be chosen; make a bundle with measure_on = \
             \"holdout\"",
            bundle.manifest.name
        );
    }
    let changes = trials.iter().map(|trial| changed(&base_model.config, trial)).collect::<Result<Vec<_>>>()?;
    let draws = benchmark.distinct_draws(asked);
    print(format!("measured on {}, draws: {draws}", benchmark.source))?;
    say_of_draws(draws, asked)?;
    print("aHM            aACC")?;
    let show = |name: &str, system: System, config: &MethodConfig| -> Result<()> {
        let measurement = Measurement { base_model, benchmark: &benchmark, system, config, seed };
        let measured = measurement.run(draws, &interrupt::flow);
        interrupt::check()?;
        let summary = measured?;
        let [ahm, aacc] = [Metric::Ahm, Metric::Aacc].map(|metric| summary.cell(metric));
        Ok(print(format!("{ahm:<14} {aacc:<14} {name}"))?)
    };
    for (trial, (config, ablation)) in trials.iter().zip(&changes) {
        show(trial, System::ablated(*ablation), config)?;
    }
    show("imprint", System::IMPRINT, &base_model.config)?;
    show("ncm", System::NCM, &base_model.config)
}

/// The settings with the trial's fields changed, and what it ablates.
fn changed(config: &MethodConfig, trial: &str) -> Result<(MethodConfig, Ablation)> {
    let wrapped: toml::Table = format!("trial = {{ {trial} }}")
        .parse()
        .with_context(|| format!("--try \"{trial}\" is no list of settings"))?;
    let Some(toml::Value::Table(mut fields)) = wrapped.get("trial").cloned() else { bail!("--try \"{trial}\"") };
    let preset = match fields.remove("preset") {
        None => config.clone(),
        Some(name) => {
            name.as_str().and_then(MethodConfig::preset).with_context(|| format!("there is no preset {name}"))?
        }
    };
    let is_ablation = |name: &String| Ablation::NAMES.contains(&name.as_str());
    let (ablated, fields): (toml::Table, toml::Table) = fields.into_iter().partition(|(name, _)| is_ablation(name));
    let ablation = ablated.try_into().with_context(|| format!("--try \"{trial}\""))?;
    let changed = with_changes(&preset, fields).with_context(|| format!("--try \"{trial}\""))?;
    if let Some(problem) = changed.problem() {
        bail!("--try \"{trial}\": {problem}");
    }
    Ok((changed, ablation))
}

#[cfg(test)]
mod tests {
    use orco_lab::ablation::Assignment;

    use super::*;

    #[test]
    fn a_trial_changes_what_it_names() {
        let base = MethodConfig::published();
        let (changed, ablation) = changed(&base, "epochs = 7, assignment = \"random\"").unwrap();
        assert_eq!(changed, MethodConfig { epochs: 7, ..base });
        assert_eq!(ablation, Ablation { assignment: Assignment::Random, ..Ablation::default() });
    }

    #[test]
    fn a_trial_of_an_unknown_setting_or_value_is_refused() {
        for trial in
            ["epochs = 0", "epoch = 3", "epochs", "temperature = -1.0", "keep = \"best\"", "cross_entropy_on = \"all\""]
        {
            let said = changed(&MethodConfig::published(), trial).unwrap_err().to_string();
            assert!(said.contains(trial), "{said}");
        }
    }
}
