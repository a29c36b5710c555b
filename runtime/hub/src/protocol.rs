//! Messages between devices and the hub, and how they are authenticated.
//!
//! Every request carries the device's identifier, a sequence number and a signature ([`RequestHead`]); every answer
//! carries a signature of the hub over the request that it answers ([`AnswerHead`]). So nothing can be replayed: an old
//! request has an old number, and an old answer belongs to another request. TLS is not needed for that. It is needed
//! where nobody else may read what devices learn.
//!
//! | header | holds |
//! |---|---|
//! | `orco-device` | identifier of the device, 32 hexadecimal digits |
//! | `orco-sequence` | a number that rises with every request of the device |
//! | `orco-body` | SHA-256 of the body, 64 hexadecimal digits |
//! | `orco-signature` | Ed25519 over [`RequestHead`] or [`AnswerHead`], 128 hexadecimal digits |

mod enrolment_code;
mod head;
mod hex;
mod key;
mod message;

pub use enrolment_code::{CodeError, CodeId, CodeKey, EnrolmentCode};
pub use head::{
    AnswerHead, BODY_HEADER, ByteRange, DEVICE_HEADER, HUB_FIELD, RequestHead, SEQUENCE_HEADER, SIGNATURE_HEADER,
};
pub use key::{DeviceId, Fingerprint, ObjectDigest, Signature, SigningKey, VerifyingKey};
pub use message::{
    BundleTarget, ChannelTarget, ClassReport, DeviceHealth, DeviceReport, Enrolment, EnrolmentAnswer, HubRefusal,
    PackTarget, PushAnswer, PushedPictures, RefusalKind, ReleaseId, ReleaseOutcome, ReleasedFile, ReportedBundle,
};
pub use orco_serve::transfer::MAX_PACK;

use std::collections::BTreeSet;
use std::time::Duration;

use orco_runtime::state::escape::EscapedText;
use orco_runtime::state::label;

/// Largest body of a message that is no pack or picture, and of an answer that is no part of an object, in bytes. A
/// channel of [`MAX_RELEASES`] packs with labels of usual length takes half of it.
pub const MAX_MESSAGE: usize = 8 << 20;
/// Largest body of an enrolment, the only message that a stranger may send, in bytes.
pub const MAX_ENROLMENT: usize = 4 << 10;
/// Largest picture that is pushed, in bytes.
pub const MAX_PICTURE: usize = 5 << 20;
/// Bytes of an object that one answer carries at most.
pub const MAX_CHUNK: u64 = 1 << 20;
/// Largest object, in bytes: a file of a bundle, a pack, a picture.
pub const MAX_OBJECT: u64 = 1 << 30;
/// Most classes that a report lists.
pub const MAX_CLASSES: usize = 10_000;
/// Most warnings that a report lists.
pub const MAX_WARNINGS: usize = 20;
/// Most packs and bundles that a channel holds for a device.
pub const MAX_RELEASES: usize = 10_000;
/// Most files of a bundle.
pub const MAX_FILES: usize = 64;
/// Longest name or reason, in bytes; longer ones are cut.
pub const MAX_TEXT: usize = 512;
/// Longest label, in bytes.
pub const MAX_LABEL: usize = orco_runtime::state::label::MAX_TEXT;

/// Where a device enrols.
pub const ENROL_PATH: &str = "/v1/enrol";
/// Where a device reports, and learns what its channel holds.
pub const REPORT_PATH: &str = "/v1/report";
/// Where a device pushes packs; `/DIGEST/pictures` below it takes a pack's pictures.
pub const PACKS_PATH: &str = "/v1/packs";
/// Where objects lie, by their digests.
pub const OBJECTS_PATH: &str = "/v1/objects";

/// A text of at most [`MAX_TEXT`] bytes, cut between letters.
pub fn bounded(text: &str) -> String {
    let end = text.char_indices().map(|(at, letter)| at + letter.len_utf8()).take_while(|end| *end <= MAX_TEXT).last();
    text[..end.unwrap_or(0)].to_owned()
}

/// Whether a device can be called so: people tell devices apart by their names, which become parts of labels.
pub(crate) fn is_device_name(text: &str) -> bool {
    !text.trim().is_empty() && label::is_part(text)
}

/// How long a body may take: a minute for each 64 KB, a link of 9 kbit/s, and ten at most.
pub fn body_time(length: usize) -> Duration {
    const IN_A_MINUTE: usize = 64 << 10;
    const MAX_MINUTES: usize = 10;
    Duration::from_mins(length.div_ceil(IN_A_MINUTE).clamp(1, MAX_MINUTES) as u64)
}

/// What speaks against names of a bundle's files: a bundle is one folder, and nothing outside of it is read or written.
pub fn fault_of_files<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<String> {
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || b".-_".contains(&letter);
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(plain) {
            return Some(format!("a bundle's file may not be called \"{}\"", EscapedText(name)));
        }
        if !seen.insert(name) {
            return Some(format!("a bundle lists its file {name} twice"));
        }
    }
    (seen.len() > MAX_FILES).then(|| format!("a bundle lists {} files, but may have {MAX_FILES}", seen.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_bodies_may_take_longer() {
        let seconds = [0, 64 << 10, 100_000, MAX_PICTURE].map(|length| body_time(length).as_secs());
        assert_eq!(seconds, [60, 60, 120, 600]);
    }

    #[test]
    fn files_of_a_bundle_lie_in_its_folder() {
        for name in ["", "../hub/key", "sub/learner.postcard", "/etc/passwd", "..", ".lock", "ä"] {
            assert!(fault_of_files(["manifest.toml", name]).is_some(), "{name}");
        }
        assert_eq!(fault_of_files(["manifest.toml", "backbone-int8.onnx"]), None);
        assert!(fault_of_files(["manifest.toml", "manifest.toml"]).is_some());
        let many: Vec<String> = (0..=MAX_FILES).map(|number| format!("{number}.onnx")).collect();
        assert!(fault_of_files(many.iter().map(String::as_str)).is_some());
        assert_eq!(fault_of_files(many[1..].iter().map(String::as_str)), None);
    }

    #[test]
    fn a_device_has_a_name_that_can_be_seen() {
        assert!(["door 3", "Tür-3 (Süd)"].into_iter().all(is_device_name));
        assert!(!["", " ", "cam=1", "door\t3"].into_iter().any(is_device_name));
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(bounded("mug"), "mug");
        assert_eq!(bounded(&"ä".repeat(MAX_TEXT)).len(), MAX_TEXT);
        assert_eq!(bounded(&format!("x{}", "ä".repeat(MAX_TEXT))).len(), MAX_TEXT - 1);
    }
}
