//! Two ranks on this machine train as one process does: the same gradients, one folder, an end for all when one ends.

#![cfg(unix)]

mod checkpoint;
mod gradients;
mod images;
mod program;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use orco_trainer::config::Recipe;

use crate::support::{error_text, synthetic};

const RANKS: usize = 2;
/// Tells a process of this program that it is a rank, and which folder to work in.
const FOLDER: &str = "ORCO_TEST_FOLDER";
/// How long a rank may live on after another one, in the words of the promise.
const LIMIT: Duration = Duration::from_secs(60);

/// A port that nobody listens at.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The variables of torchrun for a rank.
fn as_rank(command: &mut Command, rank: usize, port: u16) {
    let numbers = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", RANKS), ("MASTER_PORT", port.into())];
    command.envs(numbers.map(|(name, number)| (name, number.to_string()))).env("MASTER_ADDR", "127.0.0.1");
    command.env_remove("TORCHELASTIC_USE_AGENT_STORE");
}

/// The output of a process, which is killed at the limit.
fn ended(mut child: Child, limit: Duration) -> Output {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > limit {
            child.kill().unwrap();
            panic!("it did not end: {}", error_text(&child.wait_with_output().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

/// A rank that runs one test of this program, which takes it for a rank by its variables.
fn rank_of_test(test: &str, folder: &Path, rank: usize, port: u16) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(FOLDER, folder);
    as_rank(&mut command, rank, port);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A recipe of a very small network on few synthetic objects.
fn recipe(folder: &Path, epochs: i64, changes: &[(&str, &str, toml::Value)]) {
    let small = [
        ("data", "train_per_class", 12.into()),
        ("data", "test_per_class", 2.into()),
        ("split", "base_classes", 10.into()),
        ("split", "sessions", 2.into()),
        ("split", "ways", 2.into()),
        ("backbone", "width", 2.into()),
        ("pretrain", "epochs", epochs.into()),
        ("pretrain", "warmup_epochs", 0.into()),
        ("targets", "steps", 40.into()),
        ("align", "epochs", 3.into()),
        ("export", "candidates_per_class", 5.into()),
    ];
    synthetic(folder, &[&small[..], changes].concat());
}

/// Pictures of four classes, training and test; one training picture is broken.
fn pictures(folder: &Path) {
    for (part, each) in [("train", 13), ("test", 3)] {
        for class in 0..4 {
            let into = folder.join(part).join(format!("class {class}"));
            fs::create_dir_all(&into).unwrap();
            for number in 0..each {
                let colour = image::Rgb([class * 60, number * 15, 80]);
                image::RgbImage::from_pixel(30, 24, colour).save(into.join(format!("{number:02}.png"))).unwrap();
            }
        }
    }
    fs::write(folder.join("train/class 1/04.png"), b"no picture").unwrap();
}

fn picture_recipe() -> Recipe {
    let mut recipe: toml::Table = include_str!("../../../recipes/synthetic-tiny.toml").parse().unwrap();
    recipe["data"] = toml::toml! { kind = "folders" image_size = 24 }.into();
    recipe["split"] = toml::toml! { base_classes = 2 sessions = 1 ways = 2 measure_on = "test" }.into();
    recipe["export"]["candidates_per_class"] = 5.into();
    recipe.try_into().unwrap()
}
