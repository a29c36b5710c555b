//! The parts of requests and answers that are signed.

use super::key::{DeviceId, ObjectDigest, Signature, SigningKey, VerifyingKey};

/// Header of the device's identifier.
pub const DEVICE_HEADER: &str = "orco-device";
/// Header of the sequence number.
pub const SEQUENCE_HEADER: &str = "orco-sequence";
/// Header of the body's digest.
pub const BODY_HEADER: &str = "orco-body";
/// Header of the signature.
pub const SIGNATURE_HEADER: &str = "orco-signature";

/// Field by which the answer to `GET /v2/health/live` tells a hub from a device's service.
pub const HUB_FIELD: &str = "hub";

/// The part of an object that a request asks for, as a `Range` header names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// Last byte; the answer ends earlier where the object does.
    pub last: u64,
}

impl ByteRange {
    /// Reads `bytes=START-LAST`.
    pub fn parse(text: &str) -> Option<Self> {
        let (start, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        let range = Self { start: start.parse().ok()?, last: last.parse().ok()? };
        (range.start <= range.last).then_some(range)
    }
}

impl std::fmt::Display for ByteRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "bytes={}-{}", self.start, self.last)
    }
}

/// What a device signs. The body counts by its digest, so that a signature can be checked before the body is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// `GET` or `POST`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The `Range` header, where there is one.
    pub range: Option<ByteRange>,
    /// Who asks.
    pub device: DeviceId,
    /// Rises with every request of the device.
    pub sequence: u64,
    /// Digest of the body.
    pub body: ObjectDigest,
}

impl RequestHead {
    /// The first line names version and direction, so that no other text of ours can stand for this one.
    fn text(&self) -> String {
        let Self { method, path, range, device, sequence, body } = self;
        let range = range.map_or_else(String::new, |range| range.to_string());
        format!("orco-hub request 1\n{method}\n{path}\n{range}\n{device}\n{sequence}\n{body}\n")
    }

    /// Signs it.
    pub fn sign(&self, key: &SigningKey) -> Signature {
        key.sign(self.text().as_bytes())
    }

    /// Whether the owner of the key signed it.
    pub fn is_signed(&self, key: &VerifyingKey, signature: &Signature) -> bool {
        key.verifies(self.text().as_bytes(), signature)
    }

    /// Its digest, by which an answer names the request.
    pub fn digest(&self) -> ObjectDigest {
        ObjectDigest::of(self.text().as_bytes())
    }
}

/// What the hub signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// The request that it answers.
    pub request: ObjectDigest,
    /// Status of HTTP.
    pub status: u16,
    /// Digest of the body.
    pub body: ObjectDigest,
}

impl AnswerHead {
    fn text(&self) -> String {
        let Self { request, status, body } = self;
        format!("orco-hub answer 1\n{request}\n{status}\n{body}\n")
    }

    /// Signs it.
    pub fn sign(&self, key: &SigningKey) -> Signature {
        key.sign(self.text().as_bytes())
    }

    /// Whether the owner of the key signed it.
    pub fn is_signed(&self, key: &VerifyingKey, signature: &Signature) -> bool {
        key.verifies(self.text().as_bytes(), signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_covers_every_part_of_a_request() {
        let key = SigningKey::generate().unwrap();
        let head = RequestHead {
            method: "GET".into(),
            path: "/v1/objects/x".into(),
            range: Some(ByteRange { start: 0, last: 9 }),
            device: key.verifying_key().device(),
            sequence: 7,
            body: ObjectDigest::of(b""),
        };
        let signature = head.sign(&key);
        assert!(head.is_signed(&key.verifying_key(), &signature));
        let other = SigningKey::generate().unwrap().verifying_key();
        let changed = [
            RequestHead { method: "POST".into(), ..head.clone() },
            RequestHead { path: "/v1/objects/y".into(), ..head.clone() },
            RequestHead { range: None, ..head.clone() },
            RequestHead { device: other.device(), ..head.clone() },
            RequestHead { sequence: 8, ..head.clone() },
            RequestHead { body: ObjectDigest::of(b"x"), ..head.clone() },
        ];
        for changed in changed {
            assert!(!changed.is_signed(&key.verifying_key(), &signature), "{changed:?}");
            assert_ne!(changed.digest(), head.digest());
        }
        assert!(!head.is_signed(&other, &signature));
    }

    #[test]
    fn an_answer_belongs_to_one_request() {
        let key = SigningKey::generate().unwrap();
        let body = ObjectDigest::of(b"body");
        let head = AnswerHead { request: ObjectDigest::of(b"one"), status: 200, body };
        let signature = head.sign(&key);
        assert!(head.is_signed(&key.verifying_key(), &signature));
        for changed in [
            AnswerHead { request: ObjectDigest::of(b"two"), ..head },
            AnswerHead { status: 404, ..head },
            AnswerHead { body: ObjectDigest::of(b""), ..head },
        ] {
            assert!(!changed.is_signed(&key.verifying_key(), &signature), "{changed:?}");
        }
    }

    #[test]
    fn ranges_have_one_spelling() {
        assert_eq!(ByteRange::parse("bytes=3-9"), Some(ByteRange { start: 3, last: 9 }));
        for text in ["", "bytes=", "bytes=3-", "bytes=-9", "bytes=9-3", "bytes=1-2,4-5", "lines=1-2"] {
            assert_eq!(ByteRange::parse(text), None, "{text}");
        }
    }
}
