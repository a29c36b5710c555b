//! Measurements that are kept in files under a fingerprint of all that they depend on: a stopped command goes on where
//! it was, and nothing is measured twice.

use std::fs;
use std::io;
use std::path::Path;

use orco_benchmark::REVISION;
use orco_runtime::files::replace;
use orco_runtime::manifest::hexadecimal;
use orco_state::codec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A digest of everything that a measurement depends on, in hexadecimal digits: settings, seeds, digests of data, and
/// the [`REVISION`] of what computes it. It does not depend on the order of an object's keys, which `serde_json`
/// chooses by what else a program is built of.
pub fn fingerprint(inputs: Value) -> String {
    digest(json!([REVISION, inputs]))
}

/// A digest of a value in hexadecimal digits, whatever order its objects keep their keys in.
pub fn digest(mut value: Value) -> String {
    value.sort_all_objects();
    hexadecimal(&codec::digest(value.to_string().as_bytes()))
}

/// What a file holds beside its digest.
#[derive(Serialize, Deserialize)]
struct KeptMeasurement<T> {
    fingerprint: String,
    measured: T,
}

/// What stands before and behind the digest of a file's content.
const SEAL: [&str; 2] = ["{\"digest\":\"", "\",\"kept\":"];

/// What a file keeps under this fingerprint; none where it keeps something else, cannot be read, or is damaged: a
/// number that a disk changed is no measurement.
pub fn read<T: DeserializeOwned>(path: &Path, fingerprint: &str) -> Option<T> {
    let text = fs::read_to_string(path).ok()?;
    let Some(kept) = opened::<KeptMeasurement<T>>(&text) else {
        log::warn!("{} is damaged, or from another version; it is measured again", path.display());
        return None;
    };
    (kept.fingerprint == fingerprint).then_some(kept.measured)
}

fn opened<T: DeserializeOwned>(text: &str) -> Option<T> {
    let [before, behind] = SEAL;
    let (digest, content) = text.strip_prefix(before)?.split_once(behind)?;
    let content = content.strip_suffix("}\n")?;
    (digest == hexadecimal(&codec::digest(content.as_bytes()))).then(|| serde_json::from_str(content).ok())?
}

/// Keeps what was measured. The file is complete or not there, even if others write it too.
///
/// # Errors
/// If it cannot be written.
pub fn keep(path: &Path, fingerprint: &str, measured: &impl Serialize) -> io::Result<()> {
    let kept = KeptMeasurement { fingerprint: fingerprint.to_owned(), measured };
    let content = serde_json::to_string(&kept)?;
    let [before, behind] = SEAL;
    let digest = hexadecimal(&codec::digest(content.as_bytes()));
    replace(path, format!("{before}{digest}{behind}{content}}}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_that_of_the_inputs_whatever_their_order() {
        let (one, other) = (json!({ "a": { "c": 1, "b": 2 }, "d": 3 }), json!({ "d": 3, "a": { "b": 2, "c": 1 } }));
        assert_eq!(fingerprint(one), fingerprint(other));
        assert_ne!(fingerprint(json!({ "a": 1 })), fingerprint(json!({ "a": 2 })));
    }

    #[test]
    fn what_was_damaged_or_depends_on_something_else_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.json");
        keep(&path, "one", &(0.1 + 0.2)).unwrap();
        assert_eq!((read(&path, "one"), read::<f64>(&path, "other")), (Some(0.1 + 0.2), None));
        let bytes = fs::read(&path).unwrap();
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, damaged).unwrap();
            assert_eq!(read::<f64>(&path, "one"), None, "bit {bit}");
        }
        for length in 0..bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            assert_eq!(read::<f64>(&path, "one"), None, "{length} bytes");
        }
        assert_eq!(read::<f64>(&folder.path().join("missing"), "one"), None);
    }
}
