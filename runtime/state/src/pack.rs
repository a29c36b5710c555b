//! A pack: one learned class, to be learned by another device with the same bundle. `pack/PACK.md` lays its bytes out.
//!
//! Reading goes in two steps, so that nothing is believed before the signature is checked: [`Sealed::read`] finds the
//! parts and compares the checksum, [`Sealed::content`] decodes what was signed.

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::bank::Bank;
use crate::codec::digest;
use crate::label;
use crate::session::StoredClass;
use crate::state::{Class, Foundation, MAX_SHOTS, MAX_TEXT, State};

/// Version of the layout that this release writes and reads.
pub const VERSION: u16 = 1;
/// Largest pack that is read, in bytes.
pub const MAX_FILE: u64 = 64 << 20;
/// Most thumbnails of a pack.
pub const MAX_THUMBNAILS: usize = 64;
/// Largest thumbnail, in bytes.
pub const MAX_THUMBNAIL: usize = 64 << 10;

const MAGIC: &[u8; 8] = b"ORCOPACK";
const DIGEST: usize = 32;
/// Magic, version, length of the content.
const HEADER: usize = 8 + 2 + 4;

/// One class for another device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pack {
    /// Its label.
    pub label: String,
    /// SHA-256 of the learner file of the bundle that it was learned on.
    pub foundation: [u8; 32],
    /// Its exemplars as the state stored them, all of class 0.
    pub exemplars: Bank,
    /// Small JPEG pictures of its shots, where the owner allows.
    #[serde(deserialize_with = "few")]
    pub thumbnails: Vec<Thumbnail>,
    /// Where it comes from.
    pub provenance: Provenance,
}

/// The bytes of a small JPEG picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thumbnail(#[serde(with = "crate::codec::bytes")] pub Vec<u8>);

/// Where a pack comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Name of the bundle.
    pub bundle: String,
    /// Program and version that wrote the pack.
    pub program: String,
    /// The device, if its owner names it.
    pub device: Option<String>,
    /// When it was written, if its owner says so.
    pub created: Option<String>,
    /// Session in which the class was learned.
    pub session: u32,
}

/// Why a class cannot be exported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportError {
    /// No class has this label.
    UnknownLabel {
        /// The label.
        label: String,
    },
    /// The class came with the bundle.
    BaseClass {
        /// The label.
        label: String,
    },
    /// No exemplar of the class is left.
    NoExemplars {
        /// The label.
        label: String,
    },
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownLabel { label } => write!(f, "no class has the label \"{label}\"; `orco list` shows all"),
            Self::BaseClass { label } => {
                write!(f, "\"{label}\" came with the bundle, so the other device knows it; only learned classes travel")
            }
            Self::NoExemplars { label } => {
                write!(f, "no exemplars of \"{label}\" are left to export; give it shots again with `orco add`")
            }
        }
    }
}

impl core::error::Error for ExportError {}

/// Why a pack cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackError {
    /// The bytes do not start as a pack does.
    Foreign,
    /// It was written in another version.
    Version {
        /// Version that this program reads.
        expected: u16,
        /// Version of the pack.
        actual: u16,
    },
    /// It is cut off or altered.
    Damaged,
    /// The checksum is right, but the content makes no sense.
    Content,
    /// A text of it is too long, or holds characters that cannot be seen.
    Texts,
    /// It holds more exemplars than a class may have shots.
    TooManyShots {
        /// Exemplars of the pack.
        shots: usize,
    },
    /// It was made with another bundle.
    OtherBundle {
        /// Name of that bundle.
        bundle: String,
    },
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(f, "it is no pack of a class"),
            Self::Version { expected, actual } => {
                write!(f, "it has version {actual}, but this program reads version {expected}")
            }
            Self::Damaged => write!(f, "its checksum does not match: it is cut off or damaged; copy it again"),
            Self::Content => write!(f, "its content makes no sense"),
            Self::Texts => write!(
                f,
                "its label, or another text of it, is empty, longer than {MAX_TEXT} bytes, or holds characters that cannot be seen"
            ),
            Self::TooManyShots { shots } => {
                write!(f, "it holds {shots} shots, but a class may have at most {MAX_SHOTS}")
            }
            Self::OtherBundle { bundle } => write!(
                f,
                "it was made with another bundle, or another export, called \"{bundle}\"; a class travels only between devices with the same one"
            ),
        }
    }
}

impl core::error::Error for PackError {}

impl Pack {
    /// Takes a learned class out of a state.
    ///
    /// # Errors
    /// [`ExportError`] if there is no such class, it came with the bundle, or none of its exemplars is left.
    pub fn of(
        foundation: &Foundation,
        state: &State,
        label: &str,
        provenance: Provenance,
    ) -> Result<Self, ExportError> {
        let label = String::from(label);
        let Some(place) = state.classes.iter().position(|class| label::same(&class.label, &label)) else {
            let base = foundation.classes.iter().any(|class| label::same(&class.label, &label));
            return Err(if base { ExportError::BaseClass { label } } else { ExportError::UnknownLabel { label } });
        };
        let exemplars = state.exemplars.of_class((foundation.classes.len() + place) as u32);
        if exemplars.is_empty() {
            return Err(ExportError::NoExemplars { label });
        }
        let Class { label, session, .. } = state.classes[place].clone();
        let provenance = Provenance { session, ..provenance };
        Ok(Self { label, foundation: state.foundation, exemplars, thumbnails: Vec::new(), provenance })
    }

    /// The bytes that a signature covers: header and content.
    pub fn to_be_signed(&self) -> Vec<u8> {
        let content = postcard::to_allocvec(self).expect("serialising into memory cannot fail");
        let mut bytes = Vec::with_capacity(HEADER + content.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&content);
        bytes
    }

    /// What trusted comments of packs' signatures say.
    pub fn comment(&self) -> String {
        alloc::format!("orco pack {} from bundle {}", self.label, self.provenance.bundle)
    }

    /// Whether the parts fit together and the texts can be shown.
    pub fn is_sound(&self) -> bool {
        self.texts_are_sound()
            && self.exemplars.is_sound()
            && (1..=MAX_SHOTS).contains(&self.exemplars.len())
            && self.exemplars.classes().iter().all(|class| *class == 0)
            && self.thumbnails.len() <= MAX_THUMBNAILS
            && self.thumbnails.iter().all(|Thumbnail(bytes)| bytes.len() <= MAX_THUMBNAIL)
    }

    /// Whether the texts can be shown, and the label can be seen as it is.
    fn texts_are_sound(&self) -> bool {
        let Provenance { bundle, program, device, created, .. } = &self.provenance;
        let mut texts = [&self.label, bundle, program].into_iter().chain(device).chain(created);
        texts.all(|text| text.len() <= MAX_TEXT && label::is_plain(text)) && !self.label.trim().is_empty()
    }

    /// The class as a device with this bundle can learn it.
    ///
    /// # Errors
    /// [`PackError`] if the pack was made with another bundle.
    pub fn to_class(&self, foundation: &[u8; 32]) -> Result<StoredClass, PackError> {
        if self.foundation != *foundation {
            return Err(PackError::OtherBundle { bundle: self.provenance.bundle.clone() });
        }
        Ok(StoredClass { label: self.label.clone(), exemplars: self.exemplars.clone() })
    }
}

/// The bytes of a pack, made of those [to be signed](Pack::to_be_signed) and the text of their signature, which is empty
/// where there is no key.
pub fn seal(mut bytes: Vec<u8>, signature: &str) -> Vec<u8> {
    bytes.extend_from_slice(&(signature.len() as u32).to_le_bytes());
    bytes.extend_from_slice(signature.as_bytes());
    let checksum = digest(&bytes);
    bytes.extend_from_slice(&checksum);
    bytes
}

/// A pack's parts, whole, but not believed yet.
#[derive(Clone, Copy, Debug)]
pub struct Sealed<'a> {
    signed: &'a [u8],
    signature: &'a str,
}

impl<'a> Sealed<'a> {
    /// Finds the parts of a pack and compares its checksum.
    ///
    /// # Errors
    /// [`PackError`] if the bytes are no pack, of another version, cut off or altered.
    pub fn read(bytes: &'a [u8]) -> Result<Self, PackError> {
        let header = bytes.get(..HEADER).ok_or(PackError::Foreign)?;
        if header[..8] != *MAGIC {
            return Err(PackError::Foreign);
        }
        let actual = u16::from_le_bytes([header[8], header[9]]);
        if actual != VERSION {
            return Err(PackError::Version { expected: VERSION, actual });
        }
        let end = bytes.len().checked_sub(DIGEST).ok_or(PackError::Damaged)?;
        let (sealed, checksum) = bytes.split_at(end);
        if digest(sealed) != *checksum {
            return Err(PackError::Damaged);
        }
        let content = length_at(bytes, 10).ok_or(PackError::Damaged)?;
        let (signed, rest) = sealed.split_at_checked(HEADER.saturating_add(content)).ok_or(PackError::Damaged)?;
        let length = length_at(rest, 0).ok_or(PackError::Damaged)?;
        let signature = core::str::from_utf8(&rest[4..]).map_err(|_| PackError::Damaged)?;
        if signature.len() != length {
            return Err(PackError::Damaged);
        }
        Ok(Self { signed, signature })
    }

    /// The bytes that the signature covers.
    pub fn signed(&self) -> &'a [u8] {
        self.signed
    }

    /// The text of the signature, if there is one.
    pub fn signature(&self) -> Option<&'a str> {
        Some(self.signature).filter(|signature| !signature.is_empty())
    }

    /// Decodes what the pack holds, after its signature was checked where that is asked for.
    ///
    /// # Errors
    /// [`PackError`] if it makes no sense, has more than [`MAX_SHOTS`] exemplars, or texts that cannot be shown.
    pub fn content(&self) -> Result<Pack, PackError> {
        match postcard::take_from_bytes::<Pack>(&self.signed[HEADER..]) {
            Ok((pack, [])) if !pack.texts_are_sound() => Err(PackError::Texts),
            Ok((pack, [])) if pack.exemplars.len() > MAX_SHOTS => {
                Err(PackError::TooManyShots { shots: pack.exemplars.len() })
            }
            Ok((pack, [])) if pack.is_sound() => Ok(pack),
            _ => Err(PackError::Content),
        }
    }
}

/// Decodes at most as many thumbnails as a pack may have: an empty one takes a byte in the file, but far more in memory.
fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Thumbnail>, D::Error> {
    struct Few;
    impl<'de> Visitor<'de> for Few {
        type Value = Vec<Thumbnail>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX_THUMBNAILS} thumbnails")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
            let mut thumbnails = Vec::new();
            while let Some(thumbnail) = sequence.next_element()? {
                if thumbnails.len() == MAX_THUMBNAILS {
                    return Err(A::Error::invalid_length(MAX_THUMBNAILS + 1, &self));
                }
                thumbnails.push(thumbnail);
            }
            Ok(thumbnails)
        }
    }
    deserializer.deserialize_seq(Few)
}

fn length_at(bytes: &[u8], place: usize) -> Option<usize> {
    let length = bytes.get(place..place + 4)?;
    usize::try_from(u32::from_le_bytes(length.try_into().ok()?)).ok()
}
