//! Checkpoints: the same bytes each time, damage is found, and the one before stands in.

use std::fs;

use tch::{Device, Tensor};

use super::*;
use crate::config::Recipe;

const NAME: &str = "pretrain.safetensors";

fn run(folder: &Path) -> Run {
    let recipe: Recipe = toml::from_str(include_str!("../../../recipes/synthetic-tiny.toml")).unwrap();
    Run::open(folder, &recipe).unwrap()
}

/// Tensors that say which steps they are of.
fn tensors(steps: i64) -> Vec<(String, Tensor)> {
    let weight = Tensor::arange(2000, (Kind::Float, Device::Cpu)) + steps;
    vec![("weight".into(), weight.view([40, 50])), ("epochs".into(), Tensor::from(steps))]
}

/// The steps that loaded tensors are of, all of which are as they were saved.
fn steps_of(loaded: &Tensors) -> i64 {
    let steps = loaded["epochs"].int64_value(&[]);
    assert!(loaded.len() == 2 && tensors(steps).iter().all(|(name, tensor)| loaded[name].equal(tensor)));
    steps
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.contains("pretrain")).collect();
    names.sort();
    names
}

#[test]
fn a_checkpoint_is_the_same_bytes_each_time_and_others_can_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    run.save(NAME, &tensors(3), 3).unwrap();
    assert!(fs::read(run.path(NAME)).unwrap() == encode(&tensors(3), Some(3)).unwrap());
    assert_eq!(names(folder.path()), [NAME]);
    let read: Tensors = Tensor::read_safetensors(run.path(NAME)).unwrap().into_iter().collect();
    assert_eq!(steps_of(&read), 3);
    assert_eq!(Header::of(&fs::read(run.path(NAME)).unwrap()).steps(), Some(3));
}

#[test]
fn whatever_is_damaged_is_found() {
    let path = Path::new(NAME);
    let bytes = encode(&tensors(3), Some(3)).unwrap();
    let header = Header::of(&bytes).bytes.len();
    let flips = (0..8 * header).chain((8 * header..8 * bytes.len()).step_by(1001));
    for bit in flips {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(path, &damaged).is_err(), "bit {bit}");
    }
    for length in [0, 4, 8, 9, header - 1, header, bytes.len() / 2, bytes.len() - 1] {
        assert!(decode(path, &bytes[..length]).is_err(), "{length} bytes");
    }
    let mut zeros = bytes.clone();
    zeros[header + 100..header + 4196].fill(0);
    let damage = decode(path, &zeros).unwrap_err();
    assert_eq!((damage.reason, damage.steps), ("it does not match its checksum", Some(3)));
    assert_eq!(lost(damage.steps, Some(1)), "2 steps are lost and computed again");
    assert_eq!(lost(None, Some(1)), "the steps after step 1 are lost and computed again");
}

#[test]
fn the_checkpoint_before_stands_in_for_a_damaged_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    assert!(run.load(NAME).unwrap().is_none());
    for step in 1..4 {
        run.save(NAME, &tensors(step), step as u64).unwrap();
        assert_eq!(steps_of(&run.load(NAME).unwrap().unwrap()), step);
    }
    let cut = |name: &str| fs::write(run.path(name), &fs::read(run.path(name)).unwrap()[..5000]).unwrap();
    cut(NAME);
    assert_eq!(steps_of(&run.load(NAME).unwrap().unwrap()), 2);
    assert_eq!(names(folder.path()), ["pretrain-damaged-1.safetensors", "pretrain-previous.safetensors"]);
    // As a kill at this place leaves it.
    assert_eq!(steps_of(&run.load(NAME).unwrap().unwrap()), 2);
    run.save(NAME, &tensors(3), 3).unwrap();
    assert_eq!(steps_of(&run.load(NAME).unwrap().unwrap()), 3);
    // Nothing that was set aside is overwritten.
    cut(NAME);
    assert_eq!(steps_of(&run.load(NAME).unwrap().unwrap()), 2);
    assert!(run.path("pretrain-damaged-1.safetensors").exists() && run.path("pretrain-damaged-2.safetensors").exists());
    run.save(NAME, &tensors(3), 3).unwrap();

    for name in [NAME, "pretrain-previous.safetensors"] {
        cut(name);
    }
    let before = names(folder.path());
    let refused = run.load(NAME).unwrap_err().to_string();
    assert!(refused.contains("no whole checkpoint is left") && refused.contains("pretrain-previous"), "{refused}");
    assert_eq!(names(folder.path()), before);
    assert!(run.load_whole(NAME).unwrap().is_none());
    assert!(run.load(NAME).unwrap().is_none());
    run.save(NAME, &tensors(1), 1).unwrap();
    run.save(NAME, &tensors(2), 2).unwrap();
    run.remove(NAME).unwrap();
    assert!(run.load(NAME).unwrap().is_none());
}

#[test]
fn what_is_kept_when_a_checkpoint_cannot_be_saved_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    // As a full disk, a folder keeps the new file from being written.
    let in_the_way = |is_there: bool| {
        let partial = files::partial(&run.path(NAME));
        if is_there { fs::create_dir(partial).unwrap() } else { fs::remove_dir(partial).unwrap() }
    };
    in_the_way(true);
    let first = run.save(NAME, &tensors(1), 1).unwrap_err().to_string();
    assert_eq!(first, "cannot save the first checkpoint; the phase begins again when the run continues");
    in_the_way(false);
    run.save(NAME, &tensors(1), 1).unwrap();
    in_the_way(true);
    let second = run.save(NAME, &tensors(2), 2).unwrap_err().to_string();
    assert_eq!(second, "cannot save the checkpoint; the one before it is kept");
    assert_eq!(steps_of(&run.load(NAME).unwrap().unwrap()), 1);
}

#[test]
fn checkpoints_of_older_programs_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    Tensor::write_safetensors(&tensors(1), run.path(NAME)).unwrap();
    assert_eq!(steps_of(&run.load(NAME).unwrap().unwrap()), 1);
    run.save(NAME, &tensors(2), 2).unwrap();
    fs::write(run.path(NAME), "").unwrap();
    assert_eq!(steps_of(&run.load(NAME).unwrap().unwrap()), 1);
}

#[test]
fn a_kill_at_any_step_of_saving_leaves_a_whole_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    run.save(NAME, &tensors(1), 1).unwrap();
    let (path, previous) = (run.path(NAME), run.path("pretrain-previous.safetensors"));
    let whole = |at_least: i64| assert!(steps_of(&run.load(NAME).unwrap().unwrap()) >= at_least);
    // Half of the new one is written.
    fs::write(files::partial(&path), b"half").unwrap();
    whole(1);
    // The old one is about to be the previous one, then has both names.
    fs::hard_link(&path, files::partial(&previous)).unwrap();
    whole(1);
    keep(&path, &previous).unwrap();
    whole(1);
    keep(&path, &previous).unwrap();
    whole(1);
    run.save(NAME, &tensors(2), 2).unwrap();
    whole(2);
    assert_eq!(names(folder.path()), ["pretrain-previous.safetensors", NAME]);
    // A file system without hard links: only one name is left in between.
    fs::rename(&path, &previous).unwrap();
    whole(2);
}

#[test]
fn a_checkpoint_is_taken_over_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (run(&folder.path().join("first")), run(&folder.path().join("second")));
    second.take_over(NAME, first.folder()).unwrap();
    first.save(NAME, &tensors(1), 1).unwrap();
    second.take_over(NAME, first.folder()).unwrap();
    assert_eq!(steps_of(&second.load(NAME).unwrap().unwrap()), 1);
    // An own one that is damaged comes from there again.
    fs::write(second.path(NAME), "").unwrap();
    second.take_over(NAME, first.folder()).unwrap();
    assert_eq!(steps_of(&second.load(NAME).unwrap().unwrap()), 1);
    fs::remove_file(second.path(NAME)).unwrap();
    fs::write(first.path(NAME), "").unwrap();
    assert!(second.take_over(NAME, first.folder()).unwrap_err().to_string().contains("is damaged"));
    assert!(!second.has(NAME));
}
