//! One learned class in a file, for another device with the same bundle: [`orco_state::pack`], opened with the checks
//! that a file from elsewhere needs.
//!
//! ```
//! use orco_runtime::pack::{self, PackOrigin};
//! use orco_runtime::prelude::*;
//!
//! # let (giver, taker) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! # let mut learner = Learner::open("../models/cifar100-edge", giver.path())?;
//! # learner.learn("duck", Shots::folder("../examples/shots/learn/rubber-duck")?)?.durable()?;
//! let pack = learner.export("duck", PackOrigin::default())?;
//! let bytes = pack::unsigned(&pack).expect("its label is short");
//!
//! let mut other = Learner::open("../models/cifar100-edge", taker.path())?;
//! let pack = pack::open(&bytes, None)?;
//! other.import(&[PackClass { pack: &pack, label: None }], &mut ())?.durable()?;
//! assert!(other.classes().any(|class| class.label == "duck"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io::{self, Write};
use std::path::Path;

use ::image::ImageFormat;

pub use orco_state::pack::{
    MAX_FILE, MAX_THUMBNAIL, MAX_THUMBNAILS, Pack, PackError, PackExportError, PackOrigin, Thumbnail, UnverifiedPack,
    seal,
};

use crate::files;
use crate::files::destination::{self, ExistingFile};
use crate::image::{self, ImageError};
use crate::signature::{PublicKey, SignatureError};
use crate::store::Store;

/// Longest side of a thumbnail, in pixels.
pub const MAX_THUMBNAIL_SIDE: u32 = 96;

/// Why a pack is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenPackError {
    /// Not a pack, damaged, or inconsistent.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// A key is given, and the pack was not signed with its secret key.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// A thumbnail is something else than a JPEG picture.
    #[error("thumbnail {number} is no JPEG picture")]
    ThumbnailFormat {
        /// Its number, from 1.
        number: usize,
    },
    /// A thumbnail cannot be decoded.
    #[error("thumbnail {number} {reason}")]
    ThumbnailDamaged {
        /// Its number, from 1.
        number: usize,
        /// What is wrong with it.
        reason: ImageError,
    },
    /// A thumbnail is a large picture.
    #[error("thumbnail {number} has {width} x {height} pixels; a side may have at most {MAX_THUMBNAIL_SIDE}")]
    ThumbnailSize {
        /// Its number, from 1.
        number: usize,
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
}

/// Why a pack is not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WritePackError {
    /// No device would take it ([`Pack::is_sound`]).
    #[error("the label or the device's name is too long for a pack, or has characters that cannot be seen")]
    Unsound,
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The file is in place as a whole, but [unsynced](files::is_unsynced): a power cut could still lose it.
    #[error("{error}")]
    Unsynced {
        /// Its size in bytes.
        size: usize,
        /// Why its folder could not be synced.
        error: io::Error,
    },
}

/// The bytes of a pack without a signature; `None` if no device would take it ([`Pack::is_sound`]).
pub fn unsigned(pack: &Pack) -> Option<Vec<u8>> {
    pack.is_sound().then(|| seal(&pack.to_be_signed(), ""))
}

/// Writes a pack of a store's class, without a signature, into a file, as a whole or not at all; returns the file's
/// size in bytes. The file lies outside the store's folder, whose own files it could replace; a link is followed.
///
/// # Errors
/// [`WritePackError`] if no device would take the pack, there is an `existing` file that is to stay, or the file cannot
/// be written.
pub fn write_unsigned(
    store: &Store,
    path: &Path,
    pack: &Pack,
    existing: ExistingFile,
) -> Result<usize, WritePackError> {
    let bytes = unsigned(pack).ok_or(WritePackError::Unsound)?;
    let path = destination::file(path, store.folder(), existing)?;
    match existing.write_with(&path, |new| new.write_all(&bytes)) {
        Ok(()) => Ok(bytes.len()),
        Err(error) if files::is_unsynced(&error) => Err(WritePackError::Unsynced { size: bytes.len(), error }),
        Err(error) => Err(error.into()),
    }
}

/// Opens a pack. With a key, nothing that the pack says is believed before its signature was checked; its thumbnails
/// are checked last.
///
/// [`Pack::to_class`] and [`Learner::import`](crate::learner::Learner::import) check that it belongs to the bundle.
///
/// # Errors
/// [`OpenPackError`] if the bytes are no sound pack, or not signed with that key.
pub fn open(bytes: &[u8], key: Option<&PublicKey>) -> Result<Pack, OpenPackError> {
    let unverified = UnverifiedPack::read(bytes)?;
    if let Some(key) = key {
        key.check(unverified.signed(), unverified.signature().ok_or(SignatureError::Missing)?)?;
    }
    let pack = unverified.content()?;
    for (number, Thumbnail(jpeg)) in (1..).zip(&pack.thumbnails) {
        check_thumbnail(number, jpeg)?;
    }
    Ok(pack)
}

/// Makes sure that bytes are a small JPEG picture.
fn check_thumbnail(number: usize, jpeg: &[u8]) -> Result<(), OpenPackError> {
    if ::image::guess_format(jpeg).ok() != Some(ImageFormat::Jpeg) {
        return Err(OpenPackError::ThumbnailFormat { number });
    }
    let damaged = |reason| OpenPackError::ThumbnailDamaged { number, reason };
    // Before it is decoded: a few bytes may claim to be a large picture.
    let (width, height) = image::size(jpeg).map_err(damaged)?;
    if width.max(height) > MAX_THUMBNAIL_SIDE {
        return Err(OpenPackError::ThumbnailSize { number, width, height });
    }
    image::decode(jpeg).map(drop).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use orco_state::codec::{DecodeError, FileKind};

    use super::*;

    #[test]
    fn nothing_is_believed_before_the_signature_is_checked() {
        let text = "untrusted comment: minisign public key\nRWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\n";
        let key = PublicKey::parse(text).unwrap();
        // Whole, but its content makes no sense.
        let start = [&FileKind::Pack.magic()[..], &FileKind::Pack.version().to_le_bytes()].concat();
        let bytes = seal(&[&start[..], b"garbage"].concat(), "");
        let refused = open(&bytes, Some(&key)).unwrap_err();
        assert!(matches!(refused, OpenPackError::Signature(SignatureError::Missing)), "{refused}");
        let refused = open(&bytes, None).unwrap_err();
        assert!(matches!(refused, OpenPackError::Pack(PackError::Decode(DecodeError::Body))), "{refused}");
        // The checksum comes first of all.
        let refused = open(&bytes[..bytes.len() - 1], Some(&key)).unwrap_err();
        assert!(matches!(refused, OpenPackError::Pack(PackError::Decode(_))), "{refused}");
    }
}
