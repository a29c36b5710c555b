//! Files of a run's folder that a disk damaged: the run is refused, or it ends in the bundle of a run that was not
//! harmed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{self, error_text};

/// What its recipe has beside that of all.
const MORE: [(&str, &str, i64); 8] = [
    ("pretrain", "epochs", 3),
    ("pretrain", "batch", 16),
    ("head", "hidden", 32),
    ("head", "projection", 16),
    ("targets", "count", 12),
    ("targets", "steps", 20),
    ("align", "epochs", 3),
    ("align", "batch", 16),
];

/// What a disk does to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A block of 4 KiB in the middle reads as zeros.
    Zeros,
    /// One bit, at this share of the file in thousandths.
    Bit(usize),
    Half,
    Empty,
}

impl Damage {
    const ALL: [Self; 9] = [
        Self::Zeros,
        Self::Bit(0),
        Self::Bit(25),
        Self::Bit(330),
        Self::Bit(500),
        Self::Bit(770),
        Self::Bit(999),
        Self::Half,
        Self::Empty,
    ];

    fn of(self, mut bytes: Vec<u8>) -> Vec<u8> {
        let (length, middle) = (bytes.len(), bytes.len() / 2);
        match self {
            Self::Zeros => bytes[middle.saturating_sub(2048)..(middle + 2048).min(length)].fill(0),
            Self::Bit(share) => bytes[length * share / 1000] ^= 1 << (share % 8),
            Self::Half => bytes.truncate(middle),
            Self::Empty => bytes.clear(),
        }
        bytes
    }
}

fn train(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco-train"));
    command.args(arguments).current_dir(folder).output().unwrap()
}

/// The files of a folder by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// The line of a card that comes from the run's log.
const LOGGED: &str = "- Accuracy on base training images after phase 2: ";

/// The files of a bundle; of its card, what no clock measured, and that line apart.
fn bundle(folder: &Path) -> (BTreeMap<String, Vec<u8>>, Option<String>) {
    let mut files = files(folder);
    let card = String::from_utf8(files.remove("README.md").unwrap()).unwrap();
    let logged = card.lines().find(|line| line.starts_with(LOGGED)).map(str::to_owned);
    let kept: Vec<&str> =
        card.lines().filter(|line| !line.starts_with("- Time: ") && !line.starts_with(LOGGED)).collect();
    files.insert("README.md".into(), kept.join("\n").into_bytes());
    (files, logged)
}

/// A run that was stopped in phase 1, one that was stopped in phase 2, one that ended, each by its files; and the
/// bundle that all of them end in.
struct Runs {
    root: tempfile::TempDir,
    stages: Vec<(&'static str, BTreeMap<String, Vec<u8>>)>,
    expected: BTreeMap<String, Vec<u8>>,
    logged: String,
}

impl Runs {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path();
        support::recipe(folder, &MORE);
        let words = |verb: &'static str| [verb, "recipe.toml", "--run", "run", "--threads", "1", "--device", "cpu"];
        let output = |output: Output| assert!(output.status.success(), "{}", error_text(&output));
        output(train(folder, &[&words("run")[..], &["--output", "bundle"]].concat()));
        let run = folder.join("run");
        let ended = files(&run);
        let (expected, logged) = bundle(&folder.join("bundle"));
        // As kills after the second epoch of each phase leave it.
        fs::remove_dir_all(&run).unwrap();
        output(train(folder, &[&words("pretrain")[..], &["--until", "2"]].concat()));
        let record = |files: &mut BTreeMap<String, Vec<u8>>| {
            files.insert("run.json".into(), ended["run.json"].clone());
        };
        let mut first = files(&run);
        record(&mut first);
        let mut second = ended.clone();
        second.remove("align.safetensors");
        Self {
            stages: vec![("phase 1", first), ("phase 2", second), ("the end", ended)],
            root,
            expected,
            logged: logged.unwrap(),
        }
    }

    /// Continues a run with one file damaged, and says what came of it.
    fn continued(&self, files: &BTreeMap<String, Vec<u8>>, name: &str, damage: Damage) -> (String, bool) {
        let (run, output) = (self.root.path().join("run"), self.root.path().join("bundle"));
        let _ = (fs::remove_dir_all(&run), fs::remove_dir_all(&output));
        fs::create_dir(&run).unwrap();
        for (own, bytes) in files {
            fs::write(run.join(own), bytes).unwrap();
        }
        let damaged = damage.of(files[name].clone());
        fs::write(run.join(name), &damaged).unwrap();
        let ended = train(self.root.path(), &["resume", "run"]);
        let said = error_text(&ended);
        if !ended.status.success() {
            assert_eq!(ended.status.code(), Some(1), "{said}");
            // Errors of TOML show the place, on lines of their own.
            let error = said.split("error: ").nth(1).expect("an error");
            assert!(error.lines().next().unwrap().contains(name), "{damage:?}: {said}");
            assert!(!output.exists(), "{said}");
            return (said, false);
        }
        let (made, logged) = bundle(&output);
        let others: Vec<_> = made.iter().filter(|(name, bytes)| self.expected.get(*name) != Some(bytes)).collect();
        assert!(made.len() == self.expected.len() && others.is_empty(), "another bundle: {others:?}\n{said}");
        // Where the log lost a line, the card lacks what it said.
        let is_lost =
            logged.is_none() && name == "metrics.jsonl" && said.contains("the card goes without its accuracy");
        assert!(logged.as_ref() == Some(&self.logged) || is_lost, "{damage:?}: {logged:?}\n{said}");
        // Nothing that was damaged is lost.
        if name.ends_with(".safetensors") && said.contains("was set aside") {
            assert!(self::files(&run).values().any(|bytes| *bytes == damaged), "{said}");
        }
        (said, true)
    }
}

#[test]
fn a_damaged_file_is_refused_or_replaced_by_the_one_before() {
    let mut trial = orco_trials::trial!(24, "damaged files of a run");
    let runs = Runs::new();
    let heavy = orco_trials::heavy();
    let mut number = 0;
    for (stage, files) in &runs.stages {
        for name in files.keys().filter(|name| *name != "lock" && !name.starts_with("events.")) {
            // In short, every file has one damage in one stage.
            let is_new = *stage == "the end" || !runs.stages.last().unwrap().1.contains_key(name);
            if !heavy && !is_new && !name.starts_with("pretrain.") && !name.starts_with("align-unfinished.") {
                continue;
            }
            number += 1;
            let rotated = Damage::ALL.iter().cycle().skip(if *name == "align.safetensors" { 0 } else { 2 * number });
            for damage in rotated.take(if heavy { Damage::ALL.len() } else { 1 }) {
                let (said, done) = runs.continued(files, name, *damage);
                trial.count(1);
                if !name.ends_with(".safetensors") || name.contains("-previous") {
                    continue;
                }
                let case = format!("{stage}, {name}, {damage:?}: {said}");
                // Nothing reads the unfinished checkpoint of a finished phase.
                let is_read = !(*stage == "the end" && name.contains("-unfinished"));
                assert!(done && (!is_read || said.contains("set aside")), "{case}");
                if name == "pretrain.safetensors" {
                    assert!(said.contains(" 6 steps are lost") || said.contains("the steps after step "), "{case}");
                }
            }
        }
    }
    // The same for both generations at once: nothing is made up.
    let (_, files) = &runs.stages[0];
    let mut files = files.clone();
    files.insert("pretrain-previous.safetensors".into(), Vec::new());
    let (said, done) = runs.continued(&files, "pretrain.safetensors", Damage::Zeros);
    assert!(!done && said.contains("no whole checkpoint is left"), "{said}");
}

#[test]
fn a_run_of_an_older_program_goes_on_with_a_warning() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    support::recipe(folder, &MORE);
    let pretrained = |run: &str, more: &[&str]| {
        let words = ["pretrain", "recipe.toml", "--run", run, "--threads", "1", "--device", "cpu"];
        let output = train(folder, &[&words[..], more].concat());
        assert!(output.status.success(), "{}", error_text(&output));
        error_text(&output)
    };
    pretrained("straight", &[]);
    pretrained("run", &["--until", "2"]);
    let run = folder.join("run");
    // Older programs wrote the same without checksums, and one checkpoint only.
    fs::remove_file(run.join("pretrain-previous.safetensors")).unwrap();
    for name in ["recipe.toml", "run.json", "trained-on.json"] {
        let text = fs::read_to_string(run.join(name)).unwrap();
        let kept: Vec<&str> = text.lines().filter(|line| !line.contains("file_sha256")).collect();
        fs::write(run.join(name), kept.join("\n")).unwrap();
    }
    let checkpoint = run.join("pretrain.safetensors");
    let tensors = tch::Tensor::read_safetensors(&checkpoint).unwrap();
    tch::Tensor::write_safetensors(&tensors, &checkpoint).unwrap();
    let said = pretrained("run", &[]);
    assert_eq!(said.matches("carries no checksum").count(), 1, "{said}");
    assert!(fs::read(checkpoint).unwrap() == fs::read(folder.join("straight/pretrain.safetensors")).unwrap());
    let said = pretrained("run", &[]);
    assert!(!said.contains("carries no checksum"), "{said}");
}

#[test]
fn a_recipe_that_lies_in_the_folder_stays_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    support::recipe(root.path(), &MORE);
    let before = fs::read(root.path().join("recipe.toml")).unwrap();
    let output = train(root.path(), &["pretrain", "recipe.toml", "--run", ".", "--device", "cpu"]);
    let said = error_text(&output);
    assert!(!output.status.success() && said.contains("holds recipe.toml, which is no file of a run"), "{said}");
    assert_eq!(fs::read(root.path().join("recipe.toml")).unwrap(), before);
}
