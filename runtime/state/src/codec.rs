//! The one envelope around everything that is written, bundle files, slots of the state, packs: it says what the bytes
//! are, in which version, and whether they are whole.
//!
//! | offset | bytes | what (integers little endian) |
//! |---|---|---|
//! | 0 | 8 | what it is: `ORCOLRNR`, `ORCOSTAT`, `ORCOBNCH`, `ORCOSLOT`, `ORCOPTCH`, `ORCOPACK`, `ORCOBKUP` or `ORCOBGND` |
//! | 8 | 2 | version of the content |
//! | 10 | 8 | n, length of the content |
//! | 18 | 32 | SHA-256 of the bytes 0..18 and the content |
//! | 50 | n | the content |
//!
//! The envelope is the same in every release, so that damage is told from a newer version: only bytes whose checksum is
//! right are asked for their version. Nothing follows the content, but that of a slot: its patches, each in an
//! envelope.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::de::{DeserializeOwned, Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What an envelope holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// What a bundle knows: [`crate::state::BaseModel`] as postcard.
    Learner,
    /// What is known of the base classes' features: [`crate::statistics::Statistics`] as postcard.
    Statistics,
    /// Features for measuring, as postcard.
    Benchmark,
    /// A saved state: [`crate::slots::SlotFrame`].
    Slot,
    /// What a later save changed of a slot, in the version of the slot's body: [`crate::slots::SlotPatch`].
    Patch,
    /// A class for another device: [`crate::pack`].
    Pack,
    /// All that a device knows, for its replacement, as a tar archive.
    Backup,
    /// What a camera's empty place looks like, as postcard.
    Background,
}

impl FileKind {
    /// The bytes that an envelope of this kind starts with.
    pub const fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Learner => b"ORCOLRNR",
            Self::Statistics => b"ORCOSTAT",
            Self::Benchmark => b"ORCOBNCH",
            Self::Slot => b"ORCOSLOT",
            Self::Patch => b"ORCOPTCH",
            Self::Pack => b"ORCOPACK",
            Self::Backup => b"ORCOBKUP",
            Self::Background => b"ORCOBGND",
        }
    }

    /// Version of the content that this release writes, and the only one that [`decode`] takes: kinds with older
    /// versions have decoders of their own. Each kind has its own version, so that a change of one leaves the files of
    /// the others as they are.
    pub const fn version(self) -> u16 {
        match self {
            Self::Learner | Self::Benchmark | Self::Slot | Self::Pack => 1,
            Self::Patch => Self::Slot.version(),
            // The second has the ratio of accuracies; files without it are still written as the first.
            Self::Statistics => 2,
            // The second has a signature and the releases that were used.
            Self::Backup => 2,
            // The second has the light that the place was shown in.
            Self::Background => 2,
        }
    }
}

const DIGEST: usize = 32;
/// Bytes that the checksum covers besides the content.
const CHECKED: usize = 8 + 2 + 8;
/// Bytes before the content.
pub const HEADER: usize = CHECKED + DIGEST;

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes do not start as such a file does.
    #[error("it is not a file of this kind")]
    WrongKind,
    /// The file was written in another format version.
    #[error("it has format version {actual}, but this program reads {} {expected}", versions_read(*expected, *actual))]
    Version {
        /// Highest version that this program reads.
        expected: u16,
        /// Version of the file.
        actual: u16,
    },
    /// The content does not match its length or its checksum: the file is cut off or altered.
    #[error("its checksum does not match: it is cut off or damaged")]
    Checksum,
    /// The content matches its checksum, but is no such value.
    #[error("its content makes no sense")]
    Body,
    /// What follows a slot's frame is damaged, or a part of it is missing.
    #[error("a change that was appended to it is damaged or missing")]
    Patch,
}

/// Which versions a program reads that does not read `actual`, as words before its own version.
fn versions_read(own: u16, actual: u16) -> &'static str {
    if actual > own { "versions up to" } else { "only version" }
}

/// Puts content, given in parts, into an envelope.
pub fn seal(kind: FileKind, version: u16, content: &[&[u8]]) -> Vec<u8> {
    let length = content.iter().map(|part| part.len()).sum();
    let mut bytes = start_envelope(kind, version, length);
    content.iter().for_each(|part| bytes.extend_from_slice(part));
    finish_envelope(bytes)
}

/// An envelope whose content of `length` bytes is to follow, without its checksum.
fn start_envelope(kind: FileKind, version: u16, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + length);
    bytes.extend_from_slice(kind.magic());
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&(length as u64).to_le_bytes());
    bytes.extend_from_slice(&[0; DIGEST]);
    bytes
}

/// Sets the checksum of an envelope that has its content.
fn finish_envelope(mut bytes: Vec<u8>) -> Vec<u8> {
    let (header, content) = bytes.split_at_mut(HEADER);
    let checksum = checksum(&header[..CHECKED], &[content]);
    header[CHECKED..].copy_from_slice(&checksum);
    bytes
}

/// Takes content out of its envelope, whatever its version, which comes first.
///
/// # Errors
/// [`DecodeError::WrongKind`] if the bytes are no envelope of this kind, [`DecodeError::Checksum`] if they are cut off,
/// too long, or altered in any bit.
pub fn open(kind: FileKind, bytes: &[u8]) -> Result<(u16, &[u8]), DecodeError> {
    open_first(kind, bytes)?.alone()
}

/// Takes content of the present version out of its envelope.
///
/// # Errors
/// As for [`open`], and [`DecodeError::Version`] if it is of another version.
pub(crate) fn open_present(kind: FileKind, bytes: &[u8]) -> Result<&[u8], DecodeError> {
    open_first(kind, bytes)?.present(kind)
}

/// The first of several envelopes, opened.
pub(crate) struct Envelope<'a> {
    /// Version of the content.
    pub(crate) version: u16,
    /// The SHA-256 in its header.
    pub(crate) checksum: [u8; DIGEST],
    /// The content.
    pub(crate) content: &'a [u8],
    /// What follows the envelope.
    pub(crate) rest: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Its version and content, if nothing follows it.
    fn alone(self) -> Result<(u16, &'a [u8]), DecodeError> {
        if self.rest.is_empty() { Ok((self.version, self.content)) } else { Err(DecodeError::Checksum) }
    }

    /// Its content, if nothing follows it and it is of the present version.
    fn present(self, kind: FileKind) -> Result<&'a [u8], DecodeError> {
        let (actual, content) = self.alone()?;
        let expected = kind.version();
        if actual == expected { Ok(content) } else { Err(DecodeError::Version { expected, actual }) }
    }
}

/// Opens an envelope that others may follow.
///
/// # Errors
/// [`DecodeError::WrongKind`] if the bytes do not start with an envelope of this kind, [`DecodeError::Checksum`] if it
/// is cut off or altered in any bit.
pub(crate) fn open_first(kind: FileKind, bytes: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    let envelope = split_first(kind, bytes)?;
    let is_whole = envelope.checksum == checksum(&bytes[..CHECKED], &[envelope.content]);
    if is_whole { Ok(envelope) } else { Err(DecodeError::Checksum) }
}

/// Takes an envelope that others may follow apart, without computing its checksum.
fn split_first(kind: FileKind, bytes: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    if !bytes.starts_with(kind.magic()) {
        return Err(DecodeError::WrongKind);
    }
    let (header, content) = bytes.split_at_checked(HEADER).ok_or(DecodeError::Checksum)?;
    let (checked, sum) = header.split_at(CHECKED);
    // The length first: it costs nothing, and a file that is cut off is the commonest damage.
    let length = usize::try_from(u64::from_le_bytes(bytes_at(checked, 10))).ok();
    let (content, rest) = length.and_then(|length| content.split_at_checked(length)).ok_or(DecodeError::Checksum)?;
    let version = u16::from_le_bytes(bytes_at(checked, 8));
    Ok(Envelope { version, checksum: bytes_at(sum, 0), content, rest })
}

/// The SHA-256 that an envelope claims to have, unchecked; `None` if the bytes are too few for one.
pub(crate) fn claimed_checksum(envelope: &[u8]) -> Option<[u8; DIGEST]> {
    envelope.get(CHECKED..HEADER).map(|sum| bytes_at(sum, 0))
}

/// Encodes a value as postcard in an envelope of the present version.
pub fn encode<T: Serialize>(kind: FileKind, value: &T) -> Vec<u8> {
    seal_value(kind, kind.version(), &[], value)
}

/// Puts some bytes and a value, as postcard, into an envelope.
pub(crate) fn seal_value<T: Serialize>(kind: FileKind, version: u16, start: &[&[u8]], value: &T) -> Vec<u8> {
    let start = start.concat();
    // Serialised into the envelope: what is put there later takes twice the memory.
    let mut bytes = start_envelope(kind, version, start.len() + postcard_size(value));
    bytes.extend_from_slice(&start);
    finish_envelope(postcard::to_extend(value, bytes).expect("serialising into memory cannot fail"))
}

/// Decodes a value of the present version. The caller checks that its parts fit together.
///
/// # Errors
/// [`DecodeError`] if the bytes are no such file, of another version, or damaged.
pub fn decode<T: DeserializeOwned>(kind: FileKind, bytes: &[u8]) -> Result<T, DecodeError> {
    from_postcard(open_present(kind, bytes)?).ok_or(DecodeError::Body)
}

/// Decodes a value of the present version from a whole file whose SHA-256 is known to be right, as a bundle's manifest
/// names it: the envelope's own is not computed. The caller checks that its parts fit together.
///
/// # Errors
/// As for [`decode`]; bytes whose length is not that of the envelope are damaged.
pub fn decode_verified<T: DeserializeOwned>(kind: FileKind, bytes: &[u8]) -> Result<T, DecodeError> {
    from_postcard(split_first(kind, bytes)?.present(kind)?).ok_or(DecodeError::Body)
}

/// Bytes that a value takes as postcard.
pub(crate) fn postcard_size<T: Serialize + ?Sized>(value: &T) -> usize {
    postcard::serialize_with_flavor(value, postcard::ser_flavors::Size::default()).expect("counting cannot fail")
}

/// A value as postcard.
pub(crate) fn to_postcard<T: Serialize>(value: &T) -> Vec<u8> {
    // Bytes that grew as they came would take up to three times the memory.
    let bytes = Vec::with_capacity(postcard_size(value));
    postcard::to_extend(value, bytes).expect("serialising into memory cannot fail")
}

/// The value that is encoded in all of these bytes, if it is one.
pub(crate) fn from_postcard<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

/// Decodes at most `MOST` elements: one may take a byte in a file, but far more in memory.
pub(crate) fn bounded<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MOST: usize>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let mut elements = Vec::new();
    for_each(deserializer, |element| {
        elements.push(element);
        if elements.len() > MOST { Err("too many elements") } else { Ok(()) }
    })?;
    Ok(elements)
}

/// Decodes the last elements that together weigh at most `most`, and leaves earlier ones out.
pub(crate) fn last_within<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
    most: usize,
    weight: fn(&T) -> usize,
) -> Result<Vec<T>, D::Error> {
    let (mut elements, mut total) = (VecDeque::new(), 0);
    for_each(deserializer, |element| {
        total += weight(&element);
        elements.push_back(element);
        while total > most
            && let Some(first) = elements.pop_front()
        {
            total -= weight(&first);
        }
        Ok(())
    })?;
    Ok(elements.into())
}

/// Decodes elements one by one.
fn for_each<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
    take: impl FnMut(T) -> Result<(), &'static str>,
) -> Result<(), D::Error> {
    struct Each<T, F>(F, PhantomData<T>);
    impl<'de, T: Deserialize<'de>, F: FnMut(T) -> Result<(), &'static str>> Visitor<'de> for Each<T, F> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }
        fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<(), A::Error> {
            while let Some(element) = sequence.next_element()? {
                (self.0)(element).map_err(A::Error::custom)?;
            }
            Ok(())
        }
    }
    deserializer.deserialize_seq(Each(take, PhantomData))
}

/// SHA-256 of some bytes.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST] {
    Sha256::digest(bytes).into()
}

/// SHA-256 of several parts, one after the other.
pub(crate) fn digest_of_parts(parts: &[&[u8]]) -> [u8; DIGEST] {
    checksum(&[], parts)
}

fn checksum(checked: &[u8], content: &[&[u8]]) -> [u8; DIGEST] {
    let start = Sha256::new().chain_update(checked);
    content.iter().fold(start, |sum, part| sum.chain_update(part)).finalize().into()
}

/// The `N` bytes at an offset.
///
/// # Panics
/// If there are fewer.
pub(crate) fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut copy = [0; N];
    copy.copy_from_slice(&bytes[offset..][..N]);
    copy
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
        let bytes = encode(FileKind::Learner, &(7u32, [1.5f32; 4]));
        assert_eq!(decode::<(u32, [f32; 4])>(FileKind::Learner, &bytes), Ok((7, [1.5; 4])));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode::<(u32, [f32; 4])>(FileKind::Learner, &damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(decode::<(u32, [f32; 4])>(FileKind::Learner, &bytes[..length]).is_err(), "length {length}");
        }
    }

    #[test]
    fn kinds_and_versions_are_told_apart() {
        let bytes = encode(FileKind::Learner, &7u32);
        assert_eq!(decode::<u32>(FileKind::Benchmark, &bytes), Err(DecodeError::WrongKind));
        let later = seal(FileKind::Learner, 2, &[&[7]]);
        assert_eq!(decode::<u32>(FileKind::Learner, &later), Err(DecodeError::Version { expected: 1, actual: 2 }));
        let longer = seal(FileKind::Learner, 1, &[&[7, 0]]);
        assert_eq!(decode::<u32>(FileKind::Learner, &longer), Err(DecodeError::Body));
    }
}
