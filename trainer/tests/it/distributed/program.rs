//! The program as two ranks: killed, silent, stopped, refused.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use orco_trainer::config::Recipe;
use orco_trainer::run::RunRecord;

use super::{LIMIT, RANKS, as_rank, ended, free_port, picture_recipe, pictures, recipe};
use crate::support::{epochs, error_text, failure, send};

fn program(folder: &Path, verb: &str, run: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco-train"));
    command.args([verb, "recipe.toml", "--run", run, "--threads", "1", "--device", "cpu"]);
    command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts the program as two ranks.
fn ranks(folder: &Path, verb: &str, run: &str) -> [Child; RANKS] {
    let port = free_port();
    [0, 1].map(|rank| {
        let mut command = program(folder, verb, run);
        as_rank(&mut command, rank, port);
        command.spawn().unwrap()
    })
}

/// Waits for an epoch and its checkpoint, which comes after its metrics, as long as all ranks run.
fn wait_for_epoch(ranks: &mut [Child; RANKS], run: &Path) {
    let before = epochs(run);
    while epochs(run) == before || !run.join("pretrain.safetensors").exists() {
        for rank in ranks.iter_mut() {
            assert!(rank.try_wait().unwrap().is_none(), "a rank ended before an epoch");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_killed_rank_ends_the_other_and_one_process_continues() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, 400, &[]);
    let run = folder.join("run");
    let mut two = ranks(folder, "pretrain", "run");
    wait_for_epoch(&mut two, &run);
    let [first, second] = two;
    let process = second.id();
    send("-KILL", &second);
    assert!(!ended(second, LIMIT).status.success());
    let output = ended(first, LIMIT);
    let said = failure(&output);
    assert!(said.starts_with("error: phase 1: ") && said.contains("lost the other ranks: "), "{said}");
    assert!(said.ends_with("the log of the rank that ended first says why, and the same command continues the run"));
    assert_eq!(RunRecord::read(&run).unwrap().ranks, RANKS);

    // The first rank alone wrote.
    let names: Vec<_> = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let names: Vec<_> = names.iter().map(|name| name.to_str().unwrap()).collect();
    assert!(names.contains(&"pretrain.safetensors") && names.contains(&"run.json"), "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("events.out.tfevents.")).count(), 1, "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with(&format!(".{process}"))), "{names:?}");

    let done = epochs(&run);
    let mut alone = program(folder, "pretrain", "run");
    let output = alone.args(["--until", &(done + 2).to_string()]).output().unwrap();
    let said = error_text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("begun by 2 ranks; by one process it draws other views"), "{said}");
    assert!(said.contains("phase 1 continues after"), "{said}");
    assert_eq!(epochs(&run), done + 2);
    assert_eq!(RunRecord::read(&run).unwrap().ranks, 1);
}

/// A machine that hangs keeps its connections open, so only waiting tells.
#[test]
fn a_silent_rank_ends_the_other() {
    if !orco_trials::heavy() {
        return orco_trials::skipped("waiting for a silent rank (heavy: `cargo xtask test full`)");
    }
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), 4000, &[]);
    let mut two = ranks(folder.path(), "pretrain", "run");
    wait_for_epoch(&mut two, &folder.path().join("run"));
    let [first, mut second] = two;
    send("-STOP", &second);
    let output = ended(first, 2 * LIMIT);
    second.kill().unwrap();
    second.wait().unwrap();
    let said = failure(&output);
    assert!(said.starts_with("error: phase 1: ") && said.contains("lost the other ranks: "), "{said}");
}

#[test]
fn a_stop_of_one_rank_stops_both_and_they_go_on_exactly() {
    for (train_backbone, sync_batch_norm) in [(false, false), (true, true)] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let changes = [
            ("pretrain", "sync_batch_norm", sync_batch_norm.into()),
            ("align", "train_backbone", train_backbone.into()),
            ("align", "batch", 32.into()),
        ];
        recipe(folder, 16, &changes);
        let finish = |run: &str| {
            for (rank, child) in ranks(folder, "align", run).into_iter().enumerate() {
                let output = ended(child, Duration::from_secs(300));
                let said = error_text(&output);
                assert!(output.status.success(), "{said}");
                // The others have nothing to say.
                assert_eq!(said.contains("phase 2"), rank == 0, "rank {rank}: {said}");
            }
        };
        finish("straight");
        let mut two = ranks(folder, "align", "stopped");
        wait_for_epoch(&mut two, &folder.join("stopped"));
        send("-INT", &two[1]);
        for child in two {
            let output = ended(child, LIMIT);
            assert_eq!(output.status.code(), Some(130), "{}", error_text(&output));
        }
        assert!(!folder.join("stopped/align.safetensors").exists(), "it was over too soon");
        finish("stopped");
        let read = |run: &str, name: &str| fs::read(folder.join(run).join(name)).unwrap();
        for name in ["pretrain.safetensors", "align.safetensors"] {
            assert!(read("straight", name) == read("stopped", name), "{name} differs");
        }
    }
}

#[test]
fn a_batch_that_ranks_cannot_share_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, 1, &[("pretrain", "batch", 31.into())]);
    let [first, second] = ranks(folder, "pretrain", "run").map(|child| ended(child, LIMIT));
    let said = error_text(&first);
    assert_eq!((first.status.code(), second.status.code()), (Some(1), Some(1)), "{said}");
    let expected =
        "error: pretrain.batch is 31, which 2 ranks cannot share equally; start a number of ranks that divides it";
    assert_eq!(said.lines().last(), Some(expected));
    assert!(!folder.join("run").exists(), "a refused run leaves no folder");
    recipe(folder, 1, &[("align", "batch", 33.into())]);
    let [first, second] = ranks(folder, "align", "run").map(|child| ended(child, LIMIT));
    assert!(
        error_text(&first).ends_with(
            "align.batch is 33, which 2 ranks cannot share equally; start a number of ranks that divides it\n"
        )
    );
    assert_eq!(second.status.code(), Some(1), "before phase 1");
}

/// Each machine has its own copy of the data.
#[test]
fn ranks_with_other_data_or_another_recipe_are_refused() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let refused = || {
        let port = free_port();
        let ranks = [0, 1].map(|rank| {
            let mut command = program(folders[rank].path(), "pretrain", "run");
            as_rank(command.args(["--data", "pictures", "--skip-broken"]), rank, port);
            command.spawn().unwrap()
        });
        ranks.map(|rank| failure(&ended(rank, LIMIT)))
    };
    for folder in &folders {
        pictures(&folder.path().join("pictures"));
        fs::write(folder.path().join("recipe.toml"), toml::to_string(&picture_recipe()).unwrap()).unwrap();
    }
    let other = |what| {
        format!(
            "error: rank 1 has {what} other than rank 0's; give every rank the same recipe, data, lists and weights"
        )
    };
    fs::remove_file(folders[1].path().join("pictures/train/class 3/00.png")).unwrap();
    assert_eq!(refused(), ["pictures"; 2].map(other));
    pictures(&folders[1].path().join("pictures"));
    let recipe = Recipe { seed: 9, ..picture_recipe() };
    fs::write(folders[1].path().join("recipe.toml"), toml::to_string(&recipe).unwrap()).unwrap();
    assert_eq!(refused(), ["a recipe"; 2].map(other));
    assert!(!folders[0].path().join("run").exists(), "a refused run leaves no folder");
}

/// A launcher that gives up must not wait for ten minutes.
#[test]
fn a_signal_ends_a_rank_that_waits_for_the_others() {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), 1, &[]);
    let mut command = program(folder.path(), "pretrain", "run");
    as_rank(&mut command, 1, free_port());
    let child = command.spawn().unwrap();
    // It says nothing at first. Whenever the signal comes, before it is watched for or while it waits, it must end.
    std::thread::sleep(Duration::from_secs(2));
    send("-TERM", &child);
    let output = ended(child, LIMIT);
    assert!(!output.status.success());
    assert!(!folder.path().join("run").exists());
}
