//! `orco-train-lab ablate`: what it trains, what it shares, and what it keeps.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::support::{lines, recipe, train};
use orco_trainer::config::Recipe;
use orco_trainer::data::dataset::{self, DataOrigin, write_lists};
use orco_trainer::platform::distributed::RankGroup;

/// What its recipe has beside that of all.
const MORE: [(&str, &str, i64); 5] = [
    ("head", "hidden", 32),
    ("head", "projection", 16),
    ("targets", "count", 12),
    ("targets", "steps", 40),
    ("align", "epochs", 2),
];

fn ablate(folder: &Path, question: &str) -> Output {
    train(folder, "ablate", question, &[])
}

#[test]
fn variants_share_what_they_have_in_common_and_are_measured_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recipe(folder, &MORE);
    let first = ablate(folder, "targets");
    let table = lines(&first);
    assert_eq!(table[0], "targets on synthetic-tiny, draws: 1; the published program's settings for CIFAR-100");
    let names: Vec<&str> = table[2..].iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["optimised", "random", "orthonormal", "simplex"]);
    assert!(table[2].ends_with("aHM 58.12"), "{table:?}");
    let trained = |output: &Output| String::from_utf8_lossy(&output.stderr).matches("epoch 1/2").count();
    // Phase 1 once, phase 2 four times, on the same features.
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert_eq!((trained(&first), said.matches("features: those of the alignment before").count()), (5, 3), "{said}");

    let file = |name: &str| fs::read_to_string(folder.join("run").join(name)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&file("targets.json")).unwrap();
    assert_eq!(json["systems"].as_array().unwrap().len(), 4);
    let published = serde_json::json!([{ "table": "mini-ImageNet", "metric": "aHM", "value": 58.12 }]);
    assert_eq!(json["systems"][0]["published"], published);
    assert!(names.iter().all(|name| file("targets.csv").contains(&format!("{name},1,2,hm,"))));

    // What is shared changes nothing: without the variants before, the last one comes to the same.
    let measured = |variant: &str| fs::read(folder.join("run/targets").join(variant).join("targets.json")).unwrap();
    let shared = measured("simplex");
    fs::remove_dir_all(folder.join("run/targets/simplex")).unwrap();
    let alone = ablate(folder, "targets");
    assert_eq!((lines(&alone), trained(&alone)), (table.clone(), 1));
    assert!(measured("simplex") == shared);

    let again = ablate(folder, "targets");
    assert_eq!((lines(&again), trained(&again)), (table.clone(), 0));

    // Other shots are measured anew, though nothing else is other.
    let recipe = Recipe::read(&folder.join("recipe.toml")).unwrap();
    let origin = DataOrigin { folder: None, lists: None, skip_broken: false, group: RankGroup::alone() };
    let data = dataset::open(&recipe, &origin).unwrap();
    write_lists(&data.split, &data.names, &folder.join("lists")).unwrap();
    let listed = train(folder, "ablate", "targets", &["--lists", "lists"]);
    assert!(lines(&listed)[2..] != table[2..] && trained(&listed) == 0, "{:?}", lines(&listed));
    assert_eq!(lines(&ablate(folder, "targets")), table);

    // The backbone of the others is there already.
    let frozen = ablate(folder, "frozen");
    let table = lines(&frozen);
    assert!(table[2].starts_with("g, as on the device") && table[4].starts_with("f and g, "), "{table:?}");
    assert!(table[4].ends_with("base decay 20.52, performance decay 28.94"), "{table:?}");
    assert_eq!(trained(&frozen), 1);

    // What varies the head alone finds all trained, and keeps every draw.
    let exemplars = ablate(folder, "exemplars");
    let table = lines(&exemplars);
    assert_eq!((table.len(), trained(&exemplars)), (7, 0), "{table:?}");
    assert!(table[2].starts_with("0 ") && table[4].ends_with("aHM 58.10"), "{table:?}");
    fs::remove_file(folder.join("run/recipe/exemplars.json")).unwrap();
    let draws = fs::read_dir(folder.join("run/recipe/variants")).unwrap().count();
    assert_eq!((draws, lines(&ablate(folder, "exemplars"))), (5, table));

    // The other reading of the paper is measured beside it.
    let (results, kept) = (file("exemplars.json"), file("recipe/exemplars.json"));
    let by_text = train(folder, "ablate", "exemplars", &["--by", "text"]);
    assert!(lines(&by_text)[0].contains("text"), "{by_text:?}");
    assert_eq!((file("exemplars.json"), file("recipe/exemplars.json")), (results, kept));
    assert!(file("exemplars-text.json") != file("exemplars.json"));
    let shared = fs::read_dir(folder.join("run")).unwrap();
    let shared = shared.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("phase-1-"));
    assert_eq!(shared.count(), 1);
}
