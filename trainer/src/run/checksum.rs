//! Checksums inside the files of a run, checked when a run reads them again.
//!
//! The checksum is the SHA-256 of all bytes of the file, its own 64 digits taken as zeros. Its name is `file_sha256`: a
//! field of JSON, a comment of TOML, an entry in the metadata of safetensors, so other programs still read the files.
//! File and checksum are one write, so a crash cannot separate them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use orco_runtime::manifest::hexadecimal;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// What stands before the digits.
pub(crate) const NAME: &str = "file_sha256";
/// The digits before they are known.
pub(crate) const BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What a file's checksum says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The file is as it was written.
    Matches,
    /// It is not.
    Differs,
    /// It carries none: it is from an older program, or somebody else wrote it.
    Absent,
}

impl Checksum {
    /// Checks a text.
    pub fn of(bytes: &[u8]) -> Self {
        Self::at(bytes, place(bytes))
    }

    /// Checks a file whose checksum begins at this byte, if it has one.
    pub(crate) fn at(bytes: &[u8], place: Option<usize>) -> Self {
        let Some(at) = place else { return Self::Absent };
        match bytes.get(at..at + BLANK.len()) {
            Some(digits) if digits == sum(bytes, at).as_bytes() => Self::Matches,
            _ => Self::Differs,
        }
    }
}

/// Whether a file may be used: it is as it was written, or says nothing about that. The first file of the latter kind
/// is warned of.
pub fn may_be_used(path: &Path, checksum: Checksum) -> bool {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if checksum == Checksum::Absent && !WARNED.swap(true, Ordering::Relaxed) {
        log::warn!(
            "{} carries no checksum: an older orco-train or somebody else wrote it; it is used unverified, and so are \
             other files like it",
            path.display()
        );
    }
    checksum != Checksum::Differs
}

/// Writes the digits into a file that has [`NAME`] and [`BLANK`].
///
/// # Panics
/// If it has not.
pub(crate) fn fill(mut bytes: Vec<u8>) -> Vec<u8> {
    let at = place(&bytes).filter(|at| bytes[*at..].starts_with(BLANK.as_bytes())).expect("a place for the checksum");
    let digits = sum(&bytes, at);
    bytes[at..at + BLANK.len()].copy_from_slice(digits.as_bytes());
    bytes
}

/// A struct as JSON, one field a line, with a checksum before its first field.
///
/// # Errors
/// If it cannot be JSON.
pub fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    let text = serde_json::to_string_pretty(value)?;
    let fields = text.strip_prefix('{').context("a struct with fields")?;
    Ok(fill(format!("{{\n  \"{NAME}\": \"{BLANK}\",{fields}").into_bytes()))
}

/// A text of TOML with a checksum in a comment before it, behind which `words` stand.
pub(crate) fn toml(text: &str, words: &str) -> Vec<u8> {
    fill(format!("# {NAME} = \"{BLANK}\" {words}\n{text}").into_bytes())
}

/// Where the first digit stands, if there are digits.
pub(crate) fn place(head: &[u8]) -> Option<usize> {
    let name = head.windows(NAME.len()).position(|window| window == NAME.as_bytes())? + NAME.len();
    let between = head[name..].iter().take_while(|byte| b"\": =".contains(byte)).count();
    Some(name + between)
}

fn sum(bytes: &[u8], at: usize) -> String {
    let mut sum = Sha256::new();
    sum.update(&bytes[..at]);
    sum.update(BLANK);
    sum.update(bytes.get(at + BLANK.len()..).unwrap_or_default());
    hexadecimal(&sum.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, serde::Deserialize)]
    struct NumberedFact {
        number: f64,
    }

    #[test]
    fn every_flipped_bit_of_a_text_is_found() {
        let json = json(&NumberedFact { number: 0.1 + 0.2 }).unwrap();
        assert_eq!(serde_json::from_slice::<NumberedFact>(&json).unwrap().number, 0.1 + 0.2);
        let toml = toml("a = 1\n", "(checked)");
        assert_eq!(std::str::from_utf8(&toml).unwrap().parse::<toml::Table>().unwrap()["a"].as_integer(), Some(1));
        for text in [json, toml] {
            assert_eq!(Checksum::of(&text), Checksum::Matches);
            let name = place(&text).unwrap() - NAME.len() - 4..place(&text).unwrap();
            for bit in 0..8 * text.len() {
                let mut damaged = text.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                // Where the name itself is hit, all else is whole.
                let expected = name.contains(&(bit / 8));
                assert!(Checksum::of(&damaged) == Checksum::Differs || expected, "bit {bit}");
            }
            for length in place(&text).unwrap()..text.len() {
                assert_eq!(Checksum::of(&text[..length]), Checksum::Differs);
            }
        }
        assert_eq!(Checksum::of(b"a = 1\n"), Checksum::Absent);
    }
}
