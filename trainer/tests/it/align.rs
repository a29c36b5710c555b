//! Phase 2 stopped and killed wherever it happens to be: it goes on to the same numbers.

#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{error_text, failure, send};

/// How long phase 2 takes.
#[derive(Clone, Copy, PartialEq)]
enum Length {
    Epochs(i64),
    /// So many steps at most, while images set aside say that it helps.
    Steps(i64),
}

/// A recipe of a very small network on few synthetic objects, with many short epochs of phase 2.
fn recipe(folder: &Path, length: Length, train_backbone: bool) {
    let mut recipe: toml::Table = include_str!("../../recipes/synthetic-tiny.toml").parse().unwrap();
    if matches!(length, Length::Steps(_)) {
        recipe["align"].as_table_mut().unwrap().remove("epochs");
    }
    let mut set = |path: &[&str], value: toml::Value| {
        let (last, tables) = path.split_last().unwrap();
        let table = tables.iter().fold(&mut recipe, |table, name| table[*name].as_table_mut().unwrap());
        table.insert((*last).into(), value);
    };
    set(&["data", "train_per_class"], 12.into());
    set(&["data", "test_per_class"], 2.into());
    // Few steps an epoch: stops need epochs, not images.
    set(&["split", "base_classes"], 10.into());
    set(&["split", "sessions"], 2.into());
    set(&["split", "ways"], 2.into());
    set(&["backbone", "width"], 2.into());
    set(&["pretrain", "epochs"], 1.into());
    set(&["pretrain", "warmup_epochs"], 0.into());
    set(&["pretrain", "augment", "erase_probability"], 0.5.into());
    set(&["pretrain", "augment", "cutout"], 6.into());
    let policy: toml::Table = "kind = \"randaugment\"\noperations = 2\nmagnitude = 9".parse().unwrap();
    set(&["pretrain", "augment", "policy"], policy.into());
    set(&["targets", "steps"], 40.into());
    match length {
        Length::Epochs(epochs) => set(&["align", "epochs"], epochs.into()),
        Length::Steps(steps) => {
            set(&["align", "steps"], steps.into());
            set(&["split", "set_aside_per_class"], 2.into());
        }
    }
    set(&["align", "batch"], 32.into());
    set(&["align", "learning_rate"], 0.05.into());
    set(&["align", "train_backbone"], train_backbone.into());
    set(&["export", "candidates_per_class"], 5.into());
    fs::write(folder.join("recipe.toml"), recipe.to_string()).unwrap();
}

fn align(folder: &Path, run: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco-train"));
    command.args(["align", "recipe.toml", "--run", run, "--threads", "1", "--device", "cpu"]);
    command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Epoch and loss of the lines of phase 2.
fn losses(run: &Path) -> Vec<(u64, f64)> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let ours = lines.filter(|line| line["phase"] == "align");
    ours.map(|line| (line["epoch"].as_u64().unwrap(), line["loss"].as_f64().unwrap())).collect()
}

/// Runs phase 2 once without a stop and once with several, by Ctrl-C and by SIGKILL; both must end alike.
fn same_after_stops(length: Length, train_backbone: bool) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, length, train_backbone);
    let straight = align(folder, "straight").output().unwrap();
    assert!(straight.status.success(), "{}", error_text(&straight));
    let stopped = folder.join("stopped");
    let mut within = 0;
    for (stop, signal) in ["-INT", "-KILL", "-TERM", "-INT"].into_iter().cycle().enumerate() {
        // A stop may fall between two epochs; the phase has epochs enough for some more.
        if stop >= 4 && within > 0 {
            break;
        }
        let done = losses(&stopped).len();
        let mut child = align(folder, "stopped").spawn().unwrap();
        while losses(&stopped).len() <= done {
            assert!(child.try_wait().unwrap().is_none(), "the program ended before an epoch");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(3 * (stop % 4) as u64));
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        let said = error_text(&output);
        if signal != "-KILL" {
            assert_eq!(output.status.code(), Some(130), "{said}");
            assert!(said.contains("stopped by Ctrl-C or SIGTERM; phase 2 is saved up to its last step"), "{said}");
        }
        assert!(!stopped.join("align.safetensors").exists(), "phase 2 was over too soon: {said}");
        let tensors = tch::Tensor::read_safetensors(stopped.join("align-unfinished.safetensors")).unwrap();
        let steps = tensors.iter().find(|(name, _)| name == "steps").unwrap().1.int64_value(&[]);
        within += usize::from(steps > 0);
    }
    let last = align(folder, "stopped").output().unwrap();
    assert!(last.status.success() && error_text(&last).contains("phase 2 continues after"), "{}", error_text(&last));
    let read = |run: &str| fs::read(folder.join(run).join("align.safetensors")).unwrap();
    assert!(read("straight") == read("stopped"), "the resumed phase differs");
    assert!(!stopped.join("align-unfinished-previous.safetensors").exists(), "two generations are enough");
    let expected = losses(&folder.join("straight"));
    match length {
        Length::Epochs(epochs) => assert_eq!(expected.len() as i64, epochs),
        Length::Steps(steps) => {
            let said = error_text(&straight);
            assert!(
                said.contains("phase 2 ends after ") && said.contains("was the best on images set aside: no later one"),
                "{said}"
            );
            assert!((expected.len() as i64) < steps, "it did not end before its time");
        }
    }
    assert_eq!(losses(&stopped), expected, "every epoch has one line");
    let again = align(folder, "stopped").output().unwrap();
    assert!(error_text(&again).contains("phase 2 was finished before"), "{}", error_text(&again));
}

#[test]
fn a_frozen_backbone_ends_in_the_same_numbers_after_stops() {
    same_after_stops(Length::Epochs(160), false);
}

#[test]
fn a_trained_backbone_ends_in_the_same_numbers_after_stops() {
    same_after_stops(Length::Epochs(12), true);
}

#[test]
fn a_phase_that_ends_when_nothing_is_gained_ends_alike_after_stops() {
    same_after_stops(Length::Steps(4000), false);
}

#[test]
fn other_settings_begin_phase_2_anew() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, Length::Epochs(3), false);
    assert!(align(folder, "run").output().unwrap().status.success());
    // What a stop leaves is of no use to other settings.
    fs::copy(folder.join("run/align.safetensors"), folder.join("run/align-unfinished.safetensors")).unwrap();
    recipe(folder, Length::Epochs(4), false);
    let output = align(folder, "run").output().unwrap();
    assert!(output.status.success() && !error_text(&output).contains("phase 2 continues"), "{}", error_text(&output));
    assert_eq!(losses(&folder.join("run")).len(), 4, "the lines of the epochs that count");
}

#[test]
fn an_exploding_phase_is_one_sentence_that_can_be_followed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, Length::Epochs(4), false);
    let text = fs::read_to_string(folder.join("recipe.toml")).unwrap();
    let mut table: toml::Table = text.parse().unwrap();
    let align_table = table["align"].as_table_mut().unwrap();
    align_table.insert("learning_rate".into(), 100.0.into());
    align_table.insert("dampening".into(), 0.0.into());
    align_table.insert("weight_decay".into(), 1.0.into());
    fs::write(folder.join("recipe.toml"), table.to_string()).unwrap();
    let output = align(folder, "run").output().unwrap();
    let said = failure(&output);
    assert!(said.starts_with("error: phase 2: ") && said.ends_with("; lower align.learning_rate"), "{said}");
    assert!(!folder.join("run/align.safetensors").exists());
    fs::write(folder.join("recipe.toml"), text).unwrap();
    assert!(align(folder, "run").output().unwrap().status.success());
}
