//! The card's lines on what a device does, which follow its bundle's settings.

use std::fmt::Write;

use anyhow::Result;
use orco_core::config::MethodConfig;
use orco_state::state::BaseModel;
use orco_state::statistics::Statistics;

use super::front_matter::TASK;

/// How the accuracy that a device estimates of base classes follows from that on the samples set aside.
fn estimates(statistics: &Statistics) -> String {
    let source = match statistics.base_accuracy_ratio {
        None => "a usual ratio; no unseen pictures were measured",
        Some(1.0) => "no phase was trained on them",
        Some(_) => "the ratio that pictures held out from all phases gave",
    };
    let ratio = statistics.accuracy_ratio();
    format!("base accuracy is told as {ratio:.2} times that on the samples set aside ({source})")
}

/// How lines begin that tell what a device does.
const ON_DEVICE: [&str; 5] = ["- Phase 3", "- On the device", "- Answers:", "- Estimates:", "- Samples set aside:"];
/// What cards say where the samples by which devices choose the border are training images.
const WERE_TRAINED_ON: &str = " The training had seen these samples.";
/// The heading of what was measured.
pub(super) const MEASURED: &str = "## Measured\n";
/// What stands below that heading once the settings were changed. A card does not know whether a later change brought
/// them back, so it says no more than that.
const WITH_OTHER_SETTINGS: &str =
    "\nThese numbers were measured before the bundle's settings were changed; the command below measures again.\n";
/// What stands in the place of [`TASK`] then, for those who read `model-index` alone.
const TASK_WITH_OTHER_SETTINGS: &str = "name: few-shot class-incremental before its settings changed}";

/// A card with what devices do by the settings that the bundle has now. Whether the samples set aside were trained on
/// is as the card says where it is not given.
pub(in crate::export) fn with_settings(
    card: &str,
    base_model: &BaseModel,
    were_trained_on: Option<bool>,
) -> Result<String> {
    let mut lines = String::new();
    on_device(&mut lines, base_model, were_trained_on.unwrap_or_else(|| card.contains(WERE_TRAINED_ON)))?;
    let mut lines = Some(lines);
    let mut text = String::new();
    for line in card.split_inclusive('\n') {
        match ON_DEVICE.iter().any(|start| line.starts_with(start)) {
            true => text.push_str(&lines.take().unwrap_or_default()),
            false => text.push_str(line),
        }
    }
    if text != card && !text.contains(WITH_OTHER_SETTINGS) {
        text = text.replacen(MEASURED, &format!("{MEASURED}{WITH_OTHER_SETTINGS}"), 1);
        text = text.replacen(TASK, TASK_WITH_OTHER_SETTINGS, 1);
    }
    Ok(text)
}

/// What a device does: phase 3, and how it answers.
pub(super) fn on_device(text: &mut String, base_model: &BaseModel, were_trained_on: bool) -> Result<()> {
    let config = &base_model.config;
    let samples = base_model.statistics.as_ref().map_or(0, |statistics| statistics.set_aside.len());
    let were_trained_on = were_trained_on && samples > 0;
    match config.epochs {
        0 => writeln!(text, "- On the device nothing is trained; {} views of a shot are stored.", config.views)?,
        _ => phase_3(text, config)?,
    }
    if let Some(weights) = config.answer {
        writeln!(
            text,
            "- Answers: by {weights}; every change chooses the border between base and learned classes by {samples} \
             samples set aside and by the shots.{}",
            if were_trained_on { WERE_TRAINED_ON } else { "" }
        )?;
        if let Some(statistics) = &base_model.statistics {
            writeln!(text, "- Estimates: {}.", estimates(statistics))?;
        }
    } else if config.class_means > 0.0 {
        let weight = config.class_means;
        writeln!(
            text,
            "- Answers: by the cosines to a class's target and to its exemplars' mean, weighed 1 to {weight}."
        )?;
    }
    if were_trained_on && config.answer.is_none() {
        // Not lost by settings that need none: others may follow.
        writeln!(text, "- Samples set aside: not used by these settings.{WERE_TRAINED_ON}")?;
    }
    Ok(())
}

/// What phase 3 does on the device.
fn phase_3(text: &mut String, config: &MethodConfig) -> Result<()> {
    writeln!(
        text,
        "- Phase 3 (on the device{}): {} epochs{}, batch {}, {} exemplars of a base class, {} stored views of each{}.",
        if config.answer.is_some() { ", after a change that answers at once" } else { "" },
        config.epochs,
        match config.epoch_samples {
            0 => String::new(),
            most => format!(" of {most} samples at most"),
        },
        config.batch,
        config.base_exemplars,
        config.views,
        match config.base_cross_entropy {
            0.0 => String::new(),
            weight => format!(", cross entropy over base classes weighed {weight}"),
        }
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use orco_runtime::bundle::Bundle;

    use super::*;

    #[test]
    fn a_card_follows_other_settings_and_says_that_its_numbers_do_not() {
        let mut base_model = Bundle::open("../models/cifar100-edge").unwrap().base_model;
        let card = fs::read_to_string("../models/cifar100-edge/README.md").unwrap();
        assert!(card.contains("- Phase 3 (on the device"), "{card}");
        base_model.config = MethodConfig::preset("closed-form").unwrap();
        let other = with_settings(&card, &base_model, None).unwrap();
        let on_device = |text: &str| -> Vec<String> {
            text.lines()
                .filter(|line| ON_DEVICE.iter().any(|start| line.starts_with(start)))
                .map(str::to_owned)
                .collect()
        };
        let [phase_3, answers, estimates] = &on_device(&other)[..] else { panic!("{other}") };
        assert!(phase_3.starts_with("- On the device nothing is trained"), "{phase_3}");
        assert!(answers.ends_with("The training had seen these samples."), "{answers}");
        assert_eq!(*estimates, on_device(&card)[2]);
        assert!(other.contains(&format!("{MEASURED}{WITH_OTHER_SETTINGS}")));
        assert!(card.contains(TASK) && other.contains(TASK_WITH_OTHER_SETTINGS) && !other.contains(TASK), "{other}");
        assert_eq!(with_settings(&other, &base_model, None).unwrap(), other, "said once");
        assert_eq!(other.lines().count(), card.lines().count() + 2);
        let shipped = Bundle::open("../models/cifar100-edge").unwrap().base_model;
        assert_eq!(with_settings(&card, &shipped, None).unwrap(), card, "the same settings change nothing");
        base_model.config.answer = None;
        let without = with_settings(&card, &base_model, None).unwrap();
        let back = with_settings(&without, &shipped, None).unwrap();
        assert!(!back.contains("settings that the bundle had before"), "it has them again: {back}");
        let back = back.replace(WITH_OTHER_SETTINGS, "").replace(TASK_WITH_OTHER_SETTINGS, TASK);
        assert_eq!(back, card, "and back");
    }

    #[test]
    fn no_samples_are_not_said_to_be_trained_on() {
        let mut base_model = Bundle::open("../models/cifar100-edge").unwrap().base_model;
        let said = |base_model: &BaseModel| {
            let mut text = String::new();
            on_device(&mut text, base_model, true).unwrap();
            text
        };
        assert!(said(&base_model).contains(WERE_TRAINED_ON));
        let set_aside = &mut base_model.statistics.as_mut().unwrap().set_aside;
        *set_aside = set_aside.empty_like();
        let none = said(&base_model);
        assert!(none.contains(" 0 samples set aside") && !none.contains(WERE_TRAINED_ON), "{none}");
    }
}
