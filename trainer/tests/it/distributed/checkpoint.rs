//! The first rank writes checkpoints, for which the others wait.

use std::fs;
use std::path::Path;
use std::time::Duration;

use orco_trainer::config::Recipe;
use orco_trainer::data::dataset::{self, DataOrigin};
use orco_trainer::data::digest::digest_training_data;
use orco_trainer::platform::device::DeviceChoice;
use orco_trainer::platform::distributed::RankGroup;
use orco_trainer::platform::interrupt::Activity;
use orco_trainer::run::Run;
use orco_trainer::train::training_loop::{EpochReport, EpochTime, Position, TrainingLoop, TrainingPhase};
use tch::Device;

use super::{FOLDER, LIMIT, ended, free_port, rank_of_test, recipe};
use crate::support::error_text;

/// A phase whose checkpoint takes the first rank a while, in one process of several.
struct SlowCheckpoint<'a> {
    folder: &'a Path,
    group: &'a RankGroup,
}

impl TrainingPhase for SlowCheckpoint<'_> {
    fn begin(&mut self, at: Position) -> anyhow::Result<()> {
        let saved = self.folder.join(format!("saved-{}", at.epoch));
        anyhow::ensure!(at.epoch == 0 || saved.exists(), "epoch {} began before the checkpoint was written", at.epoch);
        Ok(())
    }

    fn step(&mut self, _: Position) -> anyhow::Result<()> {
        Ok(())
    }

    fn loss(&self, _: Position) -> anyhow::Result<f64> {
        Ok(0.0)
    }

    fn end(&mut self, _: Position, _: EpochTime) -> anyhow::Result<EpochReport> {
        Ok(EpochReport { loss: 0.0, metrics: serde_json::Map::new(), summary: "fine".into() })
    }

    fn save(&mut self, at: Position, _: &Run) -> anyhow::Result<()> {
        if self.group.is_first() {
            std::thread::sleep(Duration::from_secs(1));
            fs::write(self.folder.join(format!("saved-{}", at.epoch)), "")?;
        }
        Ok(())
    }
}

/// Not a test of its own: what the ranks of the next one do.
#[test]
fn a_rank_waits_for_the_checkpoint() {
    let Some(folder) = std::env::var_os(FOLDER).map(std::path::PathBuf::from) else { return };
    let group = RankGroup::from_environment(DeviceChoice::Cpu).unwrap();
    assert_eq!(group.each_on_any([false, group.is_first(), !group.is_first()]).unwrap(), [false, true, true]);
    let recipe = Recipe::read(&folder.join("recipe.toml")).unwrap();
    let data = dataset::open(&recipe, &DataOrigin { group: group.clone(), ..DataOrigin::default() }).unwrap();
    let on = |digest| digest_training_data(&data, None, Some(digest)).unwrap();
    let refused = Run::compare_ranks(&recipe, &on([group.rank() as u8; 32]), &group).unwrap_err().to_string();
    assert!(
        refused.starts_with("rank 1 has a file of backbone.weights or backbone.onnx other than rank 0's"),
        "{refused}"
    );
    Run::compare_ranks(&recipe, &on([7; 32]), &group).unwrap();
    let run = &Run::open_on(&folder.join("run"), &recipe, &on([7; 32]), &group).unwrap();
    let (name, title, work, device) = ("slow", "slow", Activity::Unsaved, Device::Cpu);
    let training_loop = TrainingLoop { run, name, title, work, device, steps: 1, epochs: 2, until: 2, views: None };
    training_loop.run(&mut SlowCheckpoint { folder: &folder, group: &group }, Position::default()).unwrap();
}

/// A checkpoint may take longer to write than a step waits, so the others wait for it before they go on.
#[test]
fn ranks_go_on_once_a_checkpoint_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, 1, &[]);
    let port = free_port();
    for child in
        [0, 1].map(|rank| rank_of_test("distributed::checkpoint::a_rank_waits_for_the_checkpoint", folder, rank, port))
    {
        let output = ended(child, LIMIT);
        assert!(output.status.success(), "{}", error_text(&output));
    }
    assert!(folder.join("saved-2").exists());
}
