//! A pack: one learned class, to be learned by another device with the same bundle. `pack/PACK.md` lays its bytes out.
//!
//! Reading has two steps, so that a caller can check the signature before anything is decoded: [`UnverifiedPack::read`]
//! finds the parts and compares the checksum, [`UnverifiedPack::content`] decodes what was signed.

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::bank::Bank;
use crate::codec::{self, DecodeError, FileKind, bytes_at, from_postcard, to_postcard};
use crate::label::{self, MAX_TEXT};
use crate::session::StoredClass;
use crate::state::{BaseModel, Class, MAX_SHOTS, State};

/// Largest pack that is read, in bytes.
pub const MAX_FILE: u64 = 64 << 20;
/// Most thumbnails of a pack.
pub const MAX_THUMBNAILS: usize = 64;
/// Largest thumbnail, in bytes.
pub const MAX_THUMBNAIL: usize = 64 << 10;

/// Bytes of the number that precedes the signed part and gives its length.
const LENGTH: usize = 4;
/// Bytes of magic and version. The signed part repeats those of the envelope, so that a signature is valid for one
/// version only.
const SIGNED_START: usize = 8 + 2;

/// One class for another device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pack {
    /// Its label.
    pub label: String,
    /// SHA-256 of the learner file of the bundle that it was learned on.
    pub bundle_digest: [u8; 32],
    /// Its exemplars as the state stored them, all of class 0.
    pub exemplars: Bank,
    /// Small JPEG pictures of its shots, where the owner allows.
    #[serde(deserialize_with = "codec::bounded::<_, _, MAX_THUMBNAILS>")]
    pub thumbnails: Vec<Thumbnail>,
    /// Where it comes from.
    pub origin: PackOrigin,
}

/// The bytes of a small JPEG picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thumbnail(#[serde(with = "crate::codec::bytes")] pub Vec<u8>);

/// Where a pack comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackOrigin {
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackExportError {
    /// No class has this label.
    #[error("no class has the label \"{label}\"")]
    UnknownLabel {
        /// The label.
        label: String,
    },
    /// The class came with the bundle.
    #[error("\"{label}\" came with the bundle, so the other device knows it; only learned classes travel")]
    BaseClass {
        /// The label.
        label: String,
    },
    /// No exemplar of the class is left.
    #[error("no exemplars of \"{label}\" are left to export; give it shots again")]
    NoExemplars {
        /// The label.
        label: String,
    },
}

/// Why a pack cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// It is no pack of this version, damaged, or its content makes no sense.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A text of it is too long, or holds characters that cannot be seen.
    #[error(
        "its label, or another text of it, is empty, longer than {MAX_TEXT} bytes, or holds characters that cannot \
         be seen"
    )]
    Texts,
    /// It holds more exemplars than a class may have shots.
    #[error("it holds {shots} shots, but a class may have at most {MAX_SHOTS}")]
    TooManyShots {
        /// Exemplars of the pack.
        shots: usize,
    },
    /// It was made with another bundle.
    #[error(
        "it was made with another bundle, or another export, called \"{bundle}\"; a class travels only between devices \
         with the same one"
    )]
    OtherBundle {
        /// Name of that bundle.
        bundle: String,
    },
}

impl Pack {
    /// Takes a learned class out of a state.
    ///
    /// # Errors
    /// [`PackExportError`] if there is no such class, it came with the bundle, or none of its exemplars is left.
    pub fn of(base_model: &BaseModel, state: &State, label: &str, origin: PackOrigin) -> Result<Self, PackExportError> {
        let label = String::from(label);
        let Some(index) = state.find_class(base_model, &label) else {
            return Err(PackExportError::UnknownLabel { label });
        };
        let Some(learned) = base_model.learned_index(index) else {
            return Err(PackExportError::BaseClass { label });
        };
        let exemplars = state.exemplars.of_class(index as u32);
        if exemplars.is_empty() {
            return Err(PackExportError::NoExemplars { label });
        }
        let Class { label, session, .. } = state.classes[learned].clone();
        let origin = PackOrigin { session, ..origin };
        Ok(Self { label, bundle_digest: state.bundle_digest, exemplars, thumbnails: Vec::new(), origin })
    }

    /// The bytes that a signature covers.
    pub fn to_be_signed(&self) -> Vec<u8> {
        [signed_start(), to_postcard(self)].concat()
    }

    /// The trusted comment for the pack's signature.
    pub fn comment(&self) -> String {
        alloc::format!("orco pack {} from bundle {}", self.label, self.origin.bundle)
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
        let PackOrigin { bundle, program, device, created, .. } = &self.origin;
        let mut texts = [&self.label, bundle, program].into_iter().chain(device).chain(created);
        texts.all(|text| text.len() <= MAX_TEXT && label::is_plain(text)) && !self.label.trim().is_empty()
    }

    /// The class as a device with this bundle can learn it.
    ///
    /// # Errors
    /// [`PackError`] if the pack was made with another bundle.
    pub fn to_class(&self, bundle_digest: &[u8; 32]) -> Result<StoredClass, PackError> {
        if self.bundle_digest != *bundle_digest {
            return Err(PackError::OtherBundle { bundle: self.origin.bundle.clone() });
        }
        Ok(StoredClass { label: self.label.clone(), exemplars: self.exemplars.clone() })
    }
}

/// The first bytes of the signed part, [`SIGNED_START`] of them.
fn signed_start() -> Vec<u8> {
    [&FileKind::Pack.magic()[..], &FileKind::Pack.version().to_le_bytes()].concat()
}

/// The bytes of a pack, made of those [to be signed](Pack::to_be_signed) and the text of their signature, which is
/// empty where there is no key.
pub fn seal(signed: &[u8], signature: &str) -> Vec<u8> {
    let length = (signed.len() as u32).to_le_bytes();
    codec::seal(FileKind::Pack, FileKind::Pack.version(), &[&length, signed, signature.as_bytes()])
}

/// The parts of a pack whose checksum is right and whose signature is not checked yet.
#[derive(Clone, Copy, Debug)]
pub struct UnverifiedPack<'a> {
    signed: &'a [u8],
    signature: &'a str,
}

impl<'a> UnverifiedPack<'a> {
    /// Finds the parts of a pack and compares its checksum.
    ///
    /// # Errors
    /// [`PackError::Decode`] if the bytes are no pack, of another version, cut off or altered.
    pub fn read(bytes: &'a [u8]) -> Result<Self, PackError> {
        let content = codec::open_present(FileKind::Pack, bytes)?;
        let (length, rest) = content.split_at_checked(LENGTH).ok_or(DecodeError::Body)?;
        let length = u32::from_le_bytes(bytes_at(length, 0)) as usize;
        let (signed, signature) = rest.split_at_checked(length).ok_or(DecodeError::Body)?;
        if !signed.starts_with(&signed_start()) {
            return Err(DecodeError::Body.into());
        }
        let signature = core::str::from_utf8(signature).map_err(|_| DecodeError::Body)?;
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
        match from_postcard::<Pack>(&self.signed[SIGNED_START..]) {
            Some(pack) if !pack.texts_are_sound() => Err(PackError::Texts),
            Some(pack) if pack.exemplars.len() > MAX_SHOTS => {
                Err(PackError::TooManyShots { shots: pack.exemplars.len() })
            }
            Some(pack) if pack.is_sound() => Ok(pack),
            _ => Err(DecodeError::Body.into()),
        }
    }
}
