//! `metrics.jsonl`: a line of JSON for every epoch. A kill may cut the last one.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::files::write_atomically;

/// Appends a line; one that was cut off before does not swallow it.
pub(super) fn append(path: &Path, line: &Value) -> Result<()> {
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let mut last = [b'\n'];
        if file.metadata()?.len() > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        let start = if last == *b"\n" { "" } else { "\n" };
        file.write_all(format!("{start}{line}\n").as_bytes())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// The lines of a phase; lines that were cut off are passed over.
pub(super) fn read(path: &Path, phase: &str) -> Vec<Value> {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["phase"] == phase).collect()
}

/// Drops a phase's lines of epochs after `epoch`; a file without any is left as it is.
pub(super) fn rewind(path: &Path, phase: &str, epoch: usize) -> Result<()> {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let is_later = |line: &&str| {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        line["phase"] == phase && line["epoch"].as_u64().is_some_and(|number| number > epoch as u64)
    };
    if !text.lines().any(|line| is_later(&line)) {
        return Ok(());
    }
    let kept: String = text.lines().filter(|line| !is_later(line)).flat_map(|line| [line, "\n"]).collect();
    write_atomically(path, kept.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_cut_by_a_kill_swallows_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        append(&path, &json!({"phase": "pretrain", "epoch": 1})).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], &whole[..9]].concat()).unwrap();
        append(&path, &json!({"phase": "pretrain", "epoch": 2})).unwrap();
        let epochs: Vec<u64> = read(&path, "pretrain").iter().filter_map(|line| line["epoch"].as_u64()).collect();
        assert_eq!(epochs, [1, 2]);
    }

    #[test]
    fn lines_that_no_checkpoint_has_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        for (phase, epoch) in [("pretrain", 1), ("align", 7), ("pretrain", 2), ("pretrain", 3)] {
            append(&path, &json!({"phase": phase, "epoch": epoch})).unwrap();
        }
        rewind(&path, "pretrain", 1).unwrap();
        assert_eq!((read(&path, "pretrain").len(), read(&path, "align").len()), (1, 1));
        let before = fs::read(&path).unwrap();
        rewind(&path, "pretrain", 1).unwrap();
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}
