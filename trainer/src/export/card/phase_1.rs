//! The card's lines on phase 1: losses, optimiser, views, and the time that it took.

use std::ffi::OsStr;
use std::fmt::Write;

use anyhow::Result;
use orco_benchmark::spread::median;
use orco_core::loss::contrast::ContrastForm;

use crate::config::{AugmentConfig, AugmentPolicy, OptimiserKind, Recipe};

/// What phase 1 was, if there was one.
pub(super) fn phase_1(text: &mut String, recipe: &Recipe) -> Result<()> {
    if let Some(weights) = &recipe.backbone.weights {
        // A card does not publish paths of the machine that trained.
        let file = weights.file_name().map_or_else(|| weights.to_string_lossy(), OsStr::to_string_lossy);
        writeln!(text, "- The backbone started from the weights {file}.")?;
    }
    if !recipe.has_phase_1() {
        writeln!(text, "- Phase 1: none, the backbone was given.")?;
        return Ok(());
    }
    let pretrain = &recipe.pretrain;
    writeln!(
        text,
        "- Phase 1: {} epochs, batch {}, {} view(s) of each image; loss weights: cross entropy {} (label smoothing \
         {}), SCL {}, SSCL {}{}; {}, learning rate {}, cosine, weight decay {}, arithmetic {:?}.",
        pretrain.epochs,
        pretrain.batch,
        pretrain.views,
        pretrain.cross_entropy,
        pretrain.label_smoothing,
        pretrain.supervised_contrast,
        pretrain.self_contrast,
        match pretrain.contrast_form {
            ContrastForm::Inside => String::new(),
            form => format!(" ({form:?})"),
        },
        match pretrain.optimiser {
            OptimiserKind::Sgd => "SGD (Nesterov)",
            OptimiserKind::Lars => "LARS",
        },
        pretrain.learning_rate,
        pretrain.weight_decay,
        pretrain.precision
    )?;
    let augment = &pretrain.augment;
    writeln!(
        text,
        "- Views of phase 1: crops of {} to {} of the area, flips{}.",
        augment.crop_scale[0],
        augment.crop_scale[1],
        further_augmentation(augment)
    )?;
    Ok(())
}

/// The time that phase 1 took, and the machines, where the run's metrics have them.
pub(super) fn training_time(text: &mut String, recipe: &Recipe, metrics: &[serde_json::Value]) -> Result<()> {
    let Some(seconds) = median(metrics.iter().filter_map(|line| line["seconds"].as_f64()).collect()) else {
        return Ok(());
    };
    let mut machines: Vec<&str> = metrics.iter().filter_map(|line| line["machine"].as_str()).collect();
    machines.dedup();
    let on = if machines.is_empty() { String::new() } else { format!(", on {}", machines.join(", then ")) };
    let all = seconds * recipe.pretrain.epochs as f64;
    let all = if all < 90.0 { format!("{all:.1} seconds") } else { format!("{:.0} minutes", all / 60.0) };
    let places = usize::from(seconds < 10.0);
    writeln!(text, "- Time: an epoch of phase 1 took {seconds:.places$} s (median), {all} in all{on}.")?;
    Ok(())
}

/// What else is done to views, in words: nothing of what a recipe leaves out.
fn further_augmentation(augment: &AugmentConfig) -> String {
    let mut words = String::new();
    if augment.jitter > 0.0 && augment.jitter_probability > 0.0 {
        words += &format!(", colour jitter {} (probability {})", augment.jitter, augment.jitter_probability);
    }
    if augment.grey_probability > 0.0 {
        words += &format!(", grey {}", augment.grey_probability);
    }
    if augment.erase_probability > 0.0 {
        words += &format!(", erasing {}", augment.erase_probability);
    }
    words += &match augment.policy {
        AugmentPolicy::None => String::new(),
        AugmentPolicy::AutoAugment => ", AutoAugment's policy for CIFAR".into(),
        AugmentPolicy::RandAugment { operations, magnitude } => {
            format!(", RandAugment of {operations} operations at magnitude {magnitude}")
        }
    };
    if augment.hue > 0.0 {
        words += &format!(", hue {}", augment.hue);
    }
    if augment.cutout > 0 {
        words += &format!(", cutout of {} pixels", augment.cutout);
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_card_names_weights_without_their_folder() {
        let mut recipe: Recipe = toml::from_str(include_str!("../../../recipes/cifar100-edge.toml")).unwrap();
        recipe.backbone.weights = Some("/home/somebody/lite0.pth".into());
        let mut text = String::new();
        phase_1(&mut text, &recipe).unwrap();
        assert!(text.starts_with("- The backbone started from the weights lite0.pth.\n"), "{text}");
    }

    #[test]
    fn a_card_tells_what_was_done_to_views_and_nothing_else() {
        let said = |recipe: &str| {
            let mut text = String::new();
            phase_1(&mut text, &toml::from_str(recipe).unwrap()).unwrap();
            text.lines().last().unwrap_or_default().to_owned()
        };
        assert_eq!(
            said(include_str!("../../../recipes/cifar100-edge.toml")),
            "- Views of phase 1: crops of 0.35 to 1 of the area, flips, colour jitter 0.4 (probability 0.5), grey 0.1."
        );
        assert_eq!(
            said(include_str!("../../../recipes/cifar100-resnet12.toml")),
            "- Views of phase 1: crops of 0.35 to 1 of the area, flips, AutoAugment's policy for CIFAR."
        );
    }

    #[test]
    fn the_time_names_the_machines_that_took_it() {
        let recipe: Recipe = toml::from_str(include_str!("../../../recipes/cifar100-edge.toml")).unwrap();
        let line = |machine: &str| json!({"seconds": 60.0, "machine": machine});
        let said = |lines: &[serde_json::Value]| {
            let mut text = String::new();
            training_time(&mut text, &recipe, lines).unwrap();
            text
        };
        assert!(
            said(&[line("2 CPU threads"), line("2 CPU threads"), line("an X100")])
                .ends_with("90 minutes in all, on 2 CPU threads, then an X100.\n")
        );
        assert!(said(&[json!({"seconds": 60.0})]).ends_with("90 minutes in all.\n"), "no machine is made up");
        assert_eq!(said(&[]), "");
        let brief = said(&[json!({"seconds": 0.26})]);
        assert_eq!(brief, "- Time: an epoch of phase 1 took 0.3 s (median), 23.4 seconds in all.\n");
    }
}
