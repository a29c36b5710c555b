//! The page of the book about `--json` shows what the program writes.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Device, argument, orco, shots, text, workspace};

/// Every command of the page, in order, with the JSON that stands below it.
fn examples(page: &str) -> Vec<(Vec<String>, Value)> {
    let blocks = page.split("\n    orco ").skip(1).map(|rest| {
        let (command, rest) = rest.split_once('\n').unwrap();
        let json = rest.split_once("```json\n").unwrap().1.split_once("```").unwrap().0;
        (command.split_whitespace().map(str::to_owned).collect(), serde_json::from_str(json).unwrap())
    });
    blocks.collect()
}

/// Adds the paths of all values of a JSON text: `images[].matches[].label`.
fn add_paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| add_paths(value, &format!("{path}.{key}"), found));
        }
        Value::Array(values) => values.iter().for_each(|value| add_paths(value, &format!("{path}[]"), found)),
        _ => {}
    }
    found.insert(path.to_owned());
}

fn paths(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    add_paths(value, "", &mut found);
    found
}

#[test]
fn the_json_of_the_book_has_the_keys_that_the_program_writes() {
    let page = fs::read_to_string(workspace().join("docs/src/reference/json.md")).unwrap();
    let examples = examples(&page);
    let shown: Vec<&str> = examples.iter().map(|(command, _)| command[0].as_str()).collect();
    assert_eq!(shown, ["learn", "classify", "info", "history"]);
    let folder = TempDir::new().unwrap();
    for (command, expected) in &examples {
        let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        let mut command = orco(&workspace().join("models/everyday"), &folder.path().join("state"), &arguments);
        let output = command.current_dir(workspace()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        let written: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(paths(expected), paths(&written), "{arguments:?} writes {written:#}");
    }
}

#[test]
fn the_json_of_other_commands_has_the_keys_of_the_table() {
    let page = fs::read_to_string(workspace().join("docs/src/reference/json.md")).unwrap();
    let keys = |value: &Value| -> BTreeSet<String> {
        let beside = ["changed", "warnings"];
        value.as_object().unwrap().keys().filter(|key| !beside.contains(&key.as_str())).cloned().collect()
    };
    let of_change = keys(&examples(&page)[0].1);
    let table = page.split_once("## Other commands\n").unwrap().1;
    let device = Device::new();
    let file = |name: &str| device.folder.path().join(name).display().to_string();
    let (pack, backup, mug) = (file("mug.orcopack"), file("door.orcobackup"), argument("mug", &shots("learn", "mug")));
    device.json(&["learn", "--align", "later", &mug]);
    let manual = file("manual");
    let commands: [&[&str]; 10] = [
        &["align"],
        &["balance", "keep-base"],
        &["undo"],
        &["rename", "mug", "jug"],
        &["list"],
        &["export", "jug", "-o", &pack],
        &["backup", &backup],
        &["scene", "show"],
        &["config"],
        &["generate", &manual],
    ];
    for command in commands {
        let row = table.lines().find(|row| row.starts_with(&format!("| `{}`", command[0]))).unwrap();
        let cell = row.split('|').nth(2).unwrap();
        let mut expected: BTreeSet<String> = cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        if cell.contains("those of a change") {
            expected.extend(of_change.iter().cloned());
        }
        assert_eq!(keys(&device.json(command)), expected, "{command:?}");
    }
}
