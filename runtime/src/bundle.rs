//! A bundle: the folder that the workstation hands over. Opened once, checked, never written on the device.
//!
//! ```
//! use orco_runtime::bundle::Bundle;
//!
//! let bundle = Bundle::open("../models/cifar100-edge")?;
//! assert_eq!(bundle.manifest.name, "cifar100-edge");
//! assert_eq!(bundle.base_model.classes.len(), 60);
//! assert_eq!(bundle.base_model.target_count(), 100); // room for 40 more
//!
//! let missing = Bundle::open("../models").unwrap_err();
//! assert_eq!(missing.to_string(), "cannot read ../models/manifest.toml");
//! # Ok::<(), orco_runtime::bundle::OpenError>(())
//! ```

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use ::image::RgbImage;
use ndarray::Array2;

use crate::encoder::engine_choice::{self, EngineChoice, OpenedEncoder, Workload};
use crate::encoder::{EncodeError, Encoder, encode_pictures};
use crate::files;
use crate::manifest::{
    BACKBONE, BACKBONE_INT8, FORMAT, LABELS, LEARNER, MANIFEST, MAX_MANIFEST, Manifest, ManifestError, SIGNATURE,
    STATISTICS, hexadecimal,
};
use crate::signature::{self, PublicKey, SignatureError};
use crate::threads;
use orco_core::config::MethodConfig;
use orco_state::codec::{self, DecodeError, FileKind};
use orco_state::escape::EscapedText;
use orco_state::label;
use orco_state::state::{BaseModel, State};

/// Largest file of a bundle that is read, in bytes.
const MAX_FILE: u64 = 1 << 30;

/// An opened bundle.
#[derive(Clone)]
pub struct Bundle {
    /// Its folder.
    pub folder: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// Head, targets, base classes and their exemplars.
    pub base_model: BaseModel,
    /// SHA-256 of the learner file, by which states name their bundle.
    pub digest: [u8; 32],
    /// The backbone's bytes, the very ones that were checked.
    pub backbone: Vec<u8>,
}

/// Without the megabytes of its backbone and exemplars.
impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bundle = f.debug_struct("Bundle");
        bundle.field("folder", &self.folder).field("name", &self.manifest.name);
        bundle.field("classes", &self.base_model.classes.len()).finish_non_exhaustive()
    }
}

/// Why a bundle could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The manifest is not signed by whom it should be.
    #[error("{} is not trusted", path.display())]
    Signature {
        /// The file.
        path: PathBuf,
        /// What is wrong with its signature.
        source: SignatureError,
    },
    /// The manifest is no manifest.
    #[error("{} is no valid manifest: {reason}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// This program does not read the bundle's format.
    #[error(
        "the bundle {} has format {actual}, but this program reads formats up to {expected}; export it again with a \
         matching orco-train",
        folder.display()
    )]
    Version {
        /// The bundle.
        folder: PathBuf,
        /// Newest format that this program reads.
        expected: u32,
        /// The bundle's format.
        actual: i64,
    },
    /// The manifest does not list a file that every bundle has.
    #[error("the manifest of {} does not list {name}; the bundle is incomplete", folder.display())]
    Unlisted {
        /// Name of the file.
        name: &'static str,
        /// The bundle.
        folder: PathBuf,
    },
    /// A file is not the one that the manifest describes.
    #[error("{} is damaged: it does not match the digest in the manifest; copy the bundle again", path.display())]
    Digest {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be decoded.
    #[error("{} cannot be used", path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// A file contradicts another one, or holds a value that makes no sense.
    #[error("{} cannot be used: {reason}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The bundle has no int8 backbone.
    #[error(
        "the bundle {} carries no {BACKBONE_INT8}; take its float backbone, or export it again with int8 = true \
         under [export]",
        folder.display()
    )]
    NoInt8 {
        /// The bundle.
        folder: PathBuf,
    },
}

impl Bundle {
    /// Opens and checks a bundle: its format, digests, and that all parts fit together.
    ///
    /// # Errors
    /// [`OpenError`] if something is missing, damaged, or of a format that this program does not read.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_trusted(folder, None)
    }

    /// Opens and checks a bundle. Where a key is given, the manifest must carry that key's signature, which is checked
    /// before anything in it is believed; the manifest holds the digests of the other files.
    ///
    /// # Errors
    /// [`OpenError`] as for [`Bundle::open`], and if the signature is missing or not that key's.
    pub fn open_trusted(folder: impl AsRef<Path>, key: Option<&PublicKey>) -> Result<Self, OpenError> {
        let folder = folder.as_ref();
        let manifest = read_manifest(folder, key)?;
        // Most of the time goes into the digests, of which the backbone's takes as long as all others.
        let read_backbone = || read_checked(folder, &manifest, BACKBONE);
        let (backbone, learner) = threads::join(read_backbone, || read_learner(folder, &manifest));
        let (backbone, (base_model, digest)) = (backbone?.bytes, learner?);
        Ok(Self { folder: folder.into(), manifest, base_model, digest, backbone })
    }

    /// This bundle with its int8 backbone in the place of the float one.
    ///
    /// The bundle's own exemplars and benchmark stay features of the float backbone, and a state does not remember
    /// which of the two its shots went through: their features differ by little, and both may be mixed. The measured
    /// loss stands in the journal of the book.
    ///
    /// # Errors
    /// [`OpenError`] if the bundle has none, or it is damaged.
    pub fn with_int8(mut self) -> Result<Self, OpenError> {
        if !self.manifest.files.contains_key(BACKBONE_INT8) {
            return Err(OpenError::NoInt8 { folder: self.folder });
        }
        self.backbone = read_checked(&self.folder, &self.manifest, BACKBONE_INT8)?.bytes;
        Ok(self)
    }

    /// Starts the backbone for some work on the engine that is asked for; tells why on this one.
    ///
    /// # Errors
    /// [`EncodeError`] if that engine cannot be started, or does not take it.
    pub fn encoder(&self, choice: EngineChoice, work: Workload) -> Result<OpenedEncoder, EncodeError> {
        engine_choice::open(&self.backbone, &self.manifest.preprocessing, choice, work)
    }

    /// Features of `views` views of a picture, the clean one first, `[views, features]`.
    ///
    /// # Errors
    /// [`EncodeError`] if the picture has no pixels, or the backbone fails.
    pub fn features(
        &self,
        encoder: &mut dyn Encoder,
        picture: &RgbImage,
        views: usize,
    ) -> Result<Array2<f32>, EncodeError> {
        if picture.is_empty() {
            return Err(EncodeError::NoPixels);
        }
        let drawn = self.views(picture, views);
        encode_pictures(encoder, &self.manifest.preprocessing, self.base_model.head.inputs, &drawn)
    }

    /// `count` views of a picture, the clean one first, as the backbone is fed with them.
    ///
    /// # Panics
    /// If the picture has no pixels.
    pub fn views(&self, picture: &RgbImage, count: usize) -> Vec<RgbImage> {
        let Manifest { preprocessing, views, provenance, .. } = &self.manifest;
        views.draw(picture, preprocessing, count, provenance.seed)
    }

    /// The state of a device that has learned nothing on this bundle.
    pub fn fresh_state(&self) -> State {
        State::fresh(&self.base_model, self.digest)
    }

    /// Reads one of the bundle's files and compares it with its digest in the manifest.
    ///
    /// # Errors
    /// [`OpenError::Unlisted`] if the manifest does not list it, or another if it is missing or damaged.
    pub fn read(&self, name: &'static str) -> Result<Vec<u8>, OpenError> {
        Ok(read_checked(&self.folder, &self.manifest, name)?.bytes)
    }
}

/// The manifest; where a key is given, it must carry that key's signature and say the same as its trusted comment.
fn read_manifest(folder: &Path, key: Option<&PublicKey>) -> Result<Manifest, OpenError> {
    let path = folder.join(MANIFEST);
    let text = read_text(&path, MAX_MANIFEST).map_err(|source| OpenError::Read { path: path.clone(), source })?;
    let comment = key.map(|key| signed_comment(folder, &text, key)).transpose()?;
    let manifest = Manifest::parse(&text).map_err(|error| match error {
        ManifestError::Toml(reason) => OpenError::Manifest { path: path.clone(), reason },
        ManifestError::Version(actual) => OpenError::Version { folder: folder.into(), expected: FORMAT, actual },
    })?;
    match comment.filter(|comment| *comment != manifest.comment()) {
        None => Ok(manifest),
        Some(actual) => {
            let source = SignatureError::Comment { expected: manifest.comment(), actual };
            Err(OpenError::Signature { path, source })
        }
    }
}

/// The bundle's base model, checked against all other files but the backbone, and the SHA-256 of the learner file.
fn read_learner(folder: &Path, manifest: &Manifest) -> Result<(BaseModel, [u8; 32]), OpenError> {
    let learner = read_checked(folder, manifest, LEARNER)?;
    let labels = read_checked(folder, manifest, LABELS)?;
    let base_model = decode_base_model(folder, manifest, &learner.bytes)?;
    check_inputs(folder, manifest, &base_model)?;
    check_labels(folder, &base_model, &labels.bytes)?;
    Ok((base_model, learner.digest))
}

/// The base model of a learner file that was compared with the manifest, with the manifest's settings and the bundle's
/// statistics.
fn decode_base_model(folder: &Path, manifest: &Manifest, learner: &[u8]) -> Result<BaseModel, OpenError> {
    let path = folder.join(LEARNER);
    let mut base_model: BaseModel = codec::decode_verified(FileKind::Learner, learner)
        .map_err(|source| OpenError::Decode { path: path.clone(), source })?;
    if let Some(problem) = manifest.learn.problem() {
        return unfit(folder, MANIFEST, format!("in its [learn], {problem}"));
    }
    base_model.config = manifest.learn.clone();
    if !base_model.is_sound() {
        return Err(OpenError::Decode { path, source: DecodeError::Body });
    }
    check_storage(folder, &base_model)?;
    base_model.shrink_to_fit();
    if manifest.files.contains_key(STATISTICS) {
        let bytes = read_checked(folder, manifest, STATISTICS)?.bytes;
        let decode = |source| OpenError::Decode { path: folder.join(STATISTICS), source };
        let mut statistics = base_model.decode_statistics(&bytes).map_err(decode)?;
        // Every change asks for them.
        statistics.set_aside.keep_digests();
        base_model.statistics = Some(statistics);
    } else if manifest.learn.answer.is_some() {
        let reason = format!("its [learn.answer] needs {STATISTICS}, which it does not list");
        return unfit(folder, MANIFEST, reason);
    }
    Ok(base_model)
}

/// Refuses settings by which exemplars are stored otherwise than those of the learner file. The learner file tells a
/// bundle from others, so a state made before such a change would be taken for one of this bundle, and for damaged.
fn check_storage(folder: &Path, base_model: &BaseModel) -> Result<(), OpenError> {
    let MethodConfig { views, precision, .. } = base_model.config;
    let stored = base_model.exemplars.as_exemplars();
    if (views, precision) == (stored.views, stored.precision) {
        return Ok(());
    }
    let name = stored.precision.name();
    let reason = format!(
        "the exemplars in {LEARNER} have views = {} and precision = \"{name}\", and its [learn] must say the same",
        stored.views
    );
    unfit(folder, MANIFEST, reason)
}

/// Refuses a manifest by which no inputs of a backbone can be made, or whose features the head does not take.
fn check_inputs(folder: &Path, manifest: &Manifest, base_model: &BaseModel) -> Result<(), OpenError> {
    if !manifest.preprocessing.is_sound() {
        let demand = "width and height from 1 to 1024 (divided by the smallest side of its look, if it has one), \
                      finite means, deviations above 0";
        return unfit(folder, MANIFEST, format!("its [preprocessing] must have {demand}"));
    }
    if !manifest.views.is_sound() {
        return unfit(folder, MANIFEST, "its [views] must have shares from 0 to 1, and a crop_scale above 0".into());
    }
    let (said, inputs) = (manifest.backbone.features, base_model.head.inputs);
    if said != inputs {
        let reason = format!("it speaks of {said} features, but the head in {LEARNER} takes {inputs}");
        return unfit(folder, MANIFEST, reason);
    }
    Ok(())
}

/// Refuses labels that are not those of the base classes, and labels of base classes that people cannot tell apart.
fn check_labels(folder: &Path, base_model: &BaseModel, listed: &[u8]) -> Result<(), OpenError> {
    let base: Vec<&str> = base_model.classes.iter().map(|class| class.label.as_str()).collect();
    if !String::from_utf8_lossy(listed).lines().eq(base.iter().copied()) {
        let count = base.len();
        let reason = format!("it does not list the {count} base classes of {LEARNER}, a line for each");
        return unfit(folder, LABELS, reason);
    }
    let unseen = base.iter().position(|label| !label::is_plain(label));
    match unseen.or_else(|| label::first_repeated(&base)) {
        None => Ok(()),
        Some(index) => {
            let shown = EscapedText(base[index]);
            let reason = format!("its label {shown} holds characters that cannot be seen, or is there twice");
            unfit(folder, LEARNER, reason)
        }
    }
}

fn unfit<T>(folder: &Path, name: &str, reason: String) -> Result<T, OpenError> {
    Err(OpenError::Unfit { path: folder.join(name), reason })
}

fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    files::read(path, limit)
        .and_then(|bytes| String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)))
}

/// Checks the signature of the manifest's text and returns its trusted comment.
fn signed_comment(folder: &Path, manifest: &str, key: &PublicKey) -> Result<String, OpenError> {
    let refused = |source| OpenError::Signature { path: folder.join(MANIFEST), source };
    let path = folder.join(SIGNATURE);
    let signature = match read_text(&path, signature::MAX_FILE) {
        Ok(signature) => signature,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(refused(SignatureError::Missing)),
        // Too long for one, or no text.
        Err(error) if matches!(error.kind(), io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidData) => {
            return Err(refused(SignatureError::NotMinisign));
        }
        Err(source) => return Err(OpenError::Read { path, source }),
    };
    key.check(manifest.as_bytes(), &signature).map_err(refused)
}

/// A file of the bundle, as the manifest lists it.
struct CheckedFile {
    bytes: Vec<u8>,
    /// SHA-256 of the bytes.
    digest: [u8; 32],
}

/// Reads a file of the bundle and compares it with its digest in the manifest.
fn read_checked(folder: &Path, manifest: &Manifest, name: &'static str) -> Result<CheckedFile, OpenError> {
    let expected = manifest.files.get(name).ok_or(OpenError::Unlisted { name, folder: folder.into() })?;
    let path = folder.join(name);
    let bytes = files::read(&path, MAX_FILE).map_err(|source| OpenError::Read { path: path.clone(), source })?;
    let digest = codec::digest(&bytes);
    if hexadecimal(&digest) == *expected { Ok(CheckedFile { bytes, digest }) } else { Err(OpenError::Digest { path }) }
}
