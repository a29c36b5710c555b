//! `orco-train-lab rival`: what it trains, what it shares, what it keeps, and how it goes on after a stop.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use orco_trials::heavy;

use crate::support::{lines, recipe, train};

/// All of them, in the order of the table.
const NAMES: [&str; 9] = ["baseline", "fact", "savc", "cec", "c-fscil", "limit", "bidist", "lcwof", "nc-fscil"];
/// Those of them that take as many steps on the smallest data as on the largest: nine tenths of the time of all. They
/// are left to the long trials.
const LONG: [&str; 3] = ["cec", "bidist", "lcwof"];
/// Backbones that they train, BiDist's among the long ones.
fn backbones() -> usize {
    if heavy() { 5 } else { 4 }
}

/// What its recipe has beside that of all.
const MORE: [(&str, &str, i64); 1] = [("pretrain", "batch", 32)];

fn rival(folder: &Path, names: &str) -> Output {
    train(folder, "rival", names, &["--draws", "2"])
}

#[test]
fn rivals_are_trained_once_and_stand_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, &MORE);
    let trained = |output: &Output| String::from_utf8_lossy(&output.stderr).matches("phase 1: epoch 1/2").count();
    let first = rival(folder, NAMES[0]);
    assert_eq!((lines(&first).len(), trained(&first)), (3, 1), "{}", String::from_utf8_lossy(&first.stderr));
    let expected: Vec<&str> = NAMES.into_iter().filter(|name| heavy() || !LONG.contains(name)).collect();
    let wanted = if heavy() { "all".to_owned() } else { expected.join(",") };
    let all = rival(folder, &wanted);
    let table = lines(&all);
    assert_eq!(table[0], "synthetic-tiny, draws: 2");
    assert_eq!(table[2], lines(&first)[2]);
    let names: Vec<&str> = table[2..].iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, expected);
    assert!(table[1].ends_with("base decay"), "nothing was published on these data: {table:?}");
    assert_eq!(trained(&all), backbones() - 1, "{}", String::from_utf8_lossy(&all.stderr));

    // Of each there is a picture of who is taken for whom, made of counts of all images measured.
    let runs: Vec<_> = fs::read_dir(folder.join("run")).unwrap().map(|entry| entry.unwrap().path()).collect();
    for name in &expected {
        let file =
            |kind: &str| runs.iter().map(|run| run.join(format!("confusion-{name}.{kind}"))).find(|path| path.exists());
        assert!(file("svg").is_some() && file("png").is_some(), "{name}");
        let json: serde_json::Value = serde_json::from_slice(&fs::read(file("json").unwrap()).unwrap()).unwrap();
        let rows = json["counts"].as_array().unwrap();
        let of_class =
            |row: &serde_json::Value| row.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum::<u64>();
        let of_class: Vec<u64> = rows.iter().map(of_class).collect();
        assert!(of_class[0] > 0 && of_class.iter().all(|count| *count == of_class[0]), "{name}: {of_class:?}");
    }

    let again = rival(folder, &wanted);
    assert_eq!((lines(&again), trained(&again)), (table, 0));

    let json: serde_json::Value = serde_json::from_slice(&fs::read(folder.join("run/rivals.json")).unwrap()).unwrap();
    let rivals = json["systems"].as_array().unwrap();
    assert_eq!(rivals.len(), expected.len());
    let command =
        format!("cargo xtask train-lab rival {wanted} recipe.toml --run RUN --draws 2 --threads 1 --device cpu");
    assert_eq!(json["run"]["command"].as_str(), Some(&*command));
    assert!(json["run"]["steps"].as_u64().is_some_and(|steps| steps >= 2), "{}", json["run"]);
    let lengths = json["run"]["lengths"].as_array().unwrap();
    assert!(lengths.contains(&"LIMIT all 20 epochs of its authors".into()), "{lengths:?}");
    for (rival, name) in rivals.iter().zip(&expected) {
        assert_eq!(rival["name"].as_str(), Some(*name));
        let sessions = rival["sessions"].as_array().unwrap();
        assert_eq!(sessions.len(), 3);
        let percent = |value: &serde_json::Value| (0.0..=100.0).contains(&value.as_f64().unwrap());
        assert!(sessions[1..].iter().all(|row| percent(&row["inc"]) && percent(&row["area"])), "{rival}");
    }
    // Measured over fewer draws, one stands beside the others all the same.
    let fewer = train(folder, "rival", NAMES[0], &["--draws", "1"]);
    assert_eq!((lines(&fewer).len(), trained(&fewer)), (3, 0));
    let json: serde_json::Value = serde_json::from_slice(&fs::read(folder.join("run/rivals.json")).unwrap()).unwrap();
    let draws: Vec<_> = json["systems"].as_array().unwrap().iter().map(|rival| rival["draws"].as_u64()).collect();
    assert_eq!(draws, [vec![Some(1)], vec![Some(2); expected.len() - 1]].concat());
    let csv = fs::read_to_string(folder.join("run/rivals.csv")).unwrap();
    assert!(expected[1..].iter().all(|name| csv.contains(&format!("{name},2,2,hm,"))), "{csv}");
    let line = csv.lines().find(|line| line.starts_with("baseline,1,2,hm,")).expect("a line of the single draw");
    assert!(line.ends_with(','), "one draw has no deviation: {line}");
}

#[test]
fn seeds_are_trained_once_each_and_stand_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, &MORE);
    let one = rival(folder, NAMES[0]);
    let three = train(folder, "rival", NAMES[0], &["--draws", "2", "--seeds", "3"]);
    let table = lines(&three);
    assert_eq!(table[0], "synthetic-tiny, seed 1, draws: 2");
    assert_eq!(table[2], lines(&one)[2], "the first is the recipe's own");
    assert!(table[3].contains("seed 2") && table[6].contains("seed 3") && table[5] != table[2], "{table:#?}");
    assert!(table[9].starts_with("mean ± draws ± seeds") && table[10].starts_with(NAMES[0]), "{table:#?}");
    let told = String::from_utf8_lossy(&three.stderr);
    assert_eq!(told.matches("phase 1: epoch 1/2").count(), 2, "the first was trained before: {told}");

    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("run/rivals-seeds.json")).unwrap()).unwrap();
    assert_eq!(json["training_seeds"], serde_json::json!([1, 2, 3]));
    let system = &json["systems"][0];
    let each: Vec<f64> =
        system["trainings"]["each"].as_array().unwrap().iter().map(|one| one["ahm"].as_f64().unwrap()).collect();
    let mean = each.iter().sum::<f64>() / 3.0;
    let over = &system["trainings"]["over_seeds"];
    assert!(each.len() == 3 && (over["ahm"].as_f64().unwrap() - mean).abs() < 1e-9, "{system}");
    let csv = fs::read_to_string(folder.join("run/rivals-seeds.csv")).unwrap();
    assert!(csv.contains(&format!("{},,ahm,{}", NAMES[0], over["ahm"])), "{csv}");

    // What was measured of others stays, and the seeds' images are those of the first: another run may have its own.
    train(folder, "rival", "fact", &["--draws", "2", "--seeds", "3"]);
    let csv = fs::read_to_string(folder.join("run/rivals-seeds.csv")).unwrap();
    assert!(["baseline,,ahm,", "fact,,ahm,"].iter().all(|start| csv.contains(start)), "{csv}");
    let second = train(folder, "rival", NAMES[0], &["--draws", "2", "--seed", "2"]);
    assert_ne!(lines(&second)[2], table[5]);
}

/// As the lab measures a bundle: equal shots say nothing of deviations.
#[test]
fn draws_that_are_the_same_are_measured_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, &[&MORE[..], &[("export", "candidates_per_class", 5)]].concat());
    let table = lines(&rival(folder, NAMES[0]));
    assert!(table[0].ends_with("so all draws hold the same shots"), "{table:#?}");
    assert!(table[1] == "synthetic-tiny, draws: 1" && !table[3].contains('±'), "{table:#?}");
    let json: serde_json::Value = serde_json::from_slice(&fs::read(folder.join("run/rivals.json")).unwrap()).unwrap();
    assert_eq!((&json["draws"], &json["systems"][0]["draws"]), (&1.into(), &1.into()));
    assert!(json["systems"][0]["ahm_deviation"].is_null(), "{json}");
}

#[test]
fn what_there_is_not_is_named_with_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    recipe(folder.path(), &MORE);
    let known = |why: &str| format!("{why}; known are all, baseline, fact");
    for (names, expected) in [
        ("topic", known("there is no rival topic")),
        ("fact,", known("a name is empty")),
        ("fact,cec,fact", "fact is named twice".to_owned()),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orco-train-lab"));
        command.args(["rival", names, "recipe.toml", "--run", "run"]).current_dir(&folder);
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(&expected), "{told}");
    }
}
