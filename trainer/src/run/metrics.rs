//! `metrics.jsonl`: a line of JSON for every epoch, which ends in its own checksum. A kill may cut the last one.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result};
use orco_runtime::files::open_own;
use serde_json::Value;

use crate::run::files::write_atomically;

/// What stands before a line's checksum.
const CHECKSUM: &str = ",\"crc32c\":\"";

/// Appends a line; one that was cut off before does not swallow it.
pub(super) fn append(path: &Path, line: &Value) -> Result<()> {
    let write = || -> io::Result<()> {
        let mut file = open_own(OpenOptions::new().create(true).read(true).append(true), path)?;
        let mut last = [b'\n'];
        if file.metadata()?.len() > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        let start = if last == *b"\n" { "" } else { "\n" };
        file.write_all(format!("{start}{}\n", with_checksum(line)).as_bytes())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// The lines of a phase; lines that were cut off or damaged are passed over.
pub(super) fn read(path: &Path, phase: &str) -> Vec<Value> {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<Option<Value>> = text.lines().map(parse).collect();
    let damaged = lines.iter().filter(|line| line.is_none()).count();
    if damaged > 0 {
        log::warn!("lines of {} that are cut off or damaged: {damaged}; they are passed over", path.display());
    }
    lines.into_iter().flatten().filter(|line| line["phase"] == phase).collect()
}

/// A line with the CRC-32C of what it is without it.
fn with_checksum(line: &Value) -> String {
    let text = line.to_string();
    match text.strip_suffix('}').filter(|fields| fields.len() > 1) {
        Some(fields) => format!("{fields}{CHECKSUM}{:08x}\"}}", crc32c::crc32c(text.as_bytes())),
        None => text,
    }
}

/// A line without its checksum, if it is whole: lines of older programs have none.
fn parse(line: &str) -> Option<Value> {
    let text = match line.rsplit_once(CHECKSUM) {
        None => line.to_owned(),
        Some((fields, sum)) => {
            let text = format!("{fields}}}");
            (sum == format!("{:08x}\"}}", crc32c::crc32c(text.as_bytes()))).then_some(text)?
        }
    };
    serde_json::from_str(&text).ok()
}

/// Drops a phase's lines of epochs after `epoch`; a file without any is left as it is.
pub(super) fn rewind(path: &Path, phase: &str, epoch: usize) -> Result<()> {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let is_later = |line: &&str| {
        let line = parse(line).unwrap_or_default();
        line["phase"] == phase && line["epoch"].as_u64().is_some_and(|number| number > epoch as u64)
    };
    let (later, kept): (Vec<&str>, Vec<&str>) = text.lines().partition(is_later);
    if later.is_empty() {
        return Ok(());
    }
    let kept: String = kept.into_iter().flat_map(|line| [line, "\n"]).collect();
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
    fn a_damaged_line_is_no_measurement() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        fs::write(&path, "{\"phase\":\"pretrain\",\"epoch\":1,\"seconds\":2.5}\n").unwrap();
        append(&path, &json!({"phase": "pretrain", "epoch": 2, "seconds": 3.5})).unwrap();
        let whole = read(&path, "pretrain");
        assert_eq!(
            whole,
            [
                json!({"phase": "pretrain", "epoch": 1, "seconds": 2.5}),
                json!({"phase": "pretrain", "epoch": 2, "seconds": 3.5})
            ]
        );
        let bytes = fs::read(&path).unwrap();
        let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for bit in 8 * second..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, damaged).unwrap();
            // Where the name of the checksum is hit, the rest is whole.
            let read = read(&path, "pretrain");
            assert!(read.iter().all(|line| line["seconds"] == 2.5 || line["seconds"] == 3.5), "bit {bit}: {read:?}");
        }
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
