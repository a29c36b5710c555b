//! Bytes of bundle files and saved states: a small envelope around a postcard body.
//!
//! Layout: 8 bytes magic, 2 bytes format version (little endian), 32 bytes SHA-256 of the body, the body.

use alloc::vec::Vec;
use core::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What a bundle knows: [`crate::state::Foundation`].
    Learner,
    /// What the device has learned since, in the one file of releases before the slots: [`crate::state::State`].
    State,
    /// Features for measuring: `benchmark::Benchmark`.
    Benchmark,
}

impl Kind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Learner => b"ORCOLRNR",
            Self::State => b"ORCOSTAT",
            Self::Benchmark => b"ORCOBNCH",
        }
    }

    /// Newest version of the layout. Each kind has its own, so that a change of one leaves the files of the others as they
    /// are.
    fn version(self) -> u16 {
        match self {
            Self::Learner => 4,
            Self::State | Self::Benchmark => 2,
        }
    }

    /// Oldest version that this release reads.
    const OLDEST: u16 = 2;
}

/// What a version's file lacks of the next one's: only learners have had more than one version, each ending in one more
/// number than the one before ([`Config::class_means`](orco_core::config::Config::class_means) in version 3,
/// [`Config::base_cross_entropy`](orco_core::config::Config::base_cross_entropy) in version 4), which is 0 where it is missing.
const LACKING: [u8; 4] = 0.0f32.to_le_bytes();

const DIGEST: usize = 32;
const HEADER: usize = 8 + 2 + DIGEST;

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes do not start as such a file does.
    Foreign,
    /// The file was written in another format version.
    Version {
        /// Newest version that this program reads.
        expected: u16,
        /// Version of the file.
        actual: u16,
    },
    /// The body does not match its checksum: the file is cut off or altered.
    Checksum,
    /// The body matches its checksum, but is no such value.
    Body,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(f, "it is not a file of this kind"),
            Self::Version { expected, actual } => {
                write!(f, "it has format version {actual}, but this program reads versions up to {expected}")
            }
            Self::Checksum => write!(f, "its checksum does not match: it is cut off or damaged"),
            Self::Body => write!(f, "its content makes no sense"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// Encodes a value, in the oldest version that holds it, so that older releases read what needs nothing new.
pub fn encode<T: Serialize>(kind: Kind, value: &T) -> Vec<u8> {
    let mut body = postcard::to_allocvec(value).expect("serialising into memory cannot fail");
    let mut version = kind.version();
    while version > Kind::OLDEST && body.ends_with(&LACKING) {
        body.truncate(body.len() - LACKING.len());
        version -= 1;
    }
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(kind.magic());
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&Sha256::digest(&body));
    bytes.extend_from_slice(&body);
    bytes
}

/// Decodes a value. The caller checks that its parts fit together.
///
/// # Errors
/// [`DecodeError`] if the bytes are no such file, of another version, or damaged.
pub fn decode<T: DeserializeOwned>(kind: Kind, bytes: &[u8]) -> Result<T, DecodeError> {
    let (header, body) = bytes.split_at_checked(HEADER).ok_or(DecodeError::Foreign)?;
    let (magic, rest) = header.split_at(8);
    if magic != kind.magic() {
        return Err(DecodeError::Foreign);
    }
    let actual = u16::from_le_bytes([rest[0], rest[1]]);
    if !(Kind::OLDEST..=kind.version()).contains(&actual) {
        return Err(DecodeError::Version { expected: kind.version(), actual });
    }
    if rest[2..] != Sha256::digest(body)[..] {
        return Err(DecodeError::Checksum);
    }
    let completed;
    let body = match kind.version() - actual {
        0 => body,
        lacking => {
            completed = [body, &LACKING.repeat(lacking.into())].concat();
            &completed
        }
    };
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        _ => Err(DecodeError::Body),
    }
}

/// SHA-256 of some bytes.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST] {
    Sha256::digest(bytes).into()
}

/// Serialises `Vec<u8>` as one run of bytes.
pub(crate) mod bytes {
    use alloc::vec::Vec;

    use serde::de::{Deserializer, Error, SeqAccess, Visitor};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(values: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(values)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(bytes.to_vec())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(byte) = sequence.next_element()? {
                    values.push(byte);
                }
                Ok(values)
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_truncation_is_noticed() {
        let bytes = encode(Kind::State, &(7u32, [1.5f32; 4]));
        assert_eq!(decode::<(u32, [f32; 4])>(Kind::State, &bytes), Ok((7, [1.5; 4])));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode::<(u32, [f32; 4])>(Kind::State, &damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(decode::<(u32, [f32; 4])>(Kind::State, &bytes[..length]).is_err(), "length {length}");
        }
        assert_eq!(decode::<(u32, [f32; 4])>(Kind::Learner, &bytes), Err(DecodeError::Foreign));
    }
}
