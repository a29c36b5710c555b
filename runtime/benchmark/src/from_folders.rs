//! A benchmark whose new classes are pictures of one's own, a folder for each.

use std::path::{Path, PathBuf};

use crate::benchmark::Benchmark;
use crate::encode::encode_into;
use orco_core::config::MethodConfig;
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::{EncodeError, Encoder};
use orco_runtime::image::{self, PictureFileError};
use orco_runtime::learner::{PictureFolder, ShotsError, pictures_in};
use orco_state::bank::Bank;
use orco_state::label;
use orco_state::sentence::counted;

/// How classes of one's own are learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderSessions {
    /// Classes of a session; the last one has the rest.
    pub ways: usize,
    /// Shots of a class.
    pub shots: usize,
}

/// Why a benchmark could not be computed from folders of pictures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FoldersError {
    /// A folder cannot be read, or holds no pictures.
    #[error(transparent)]
    Folder(#[from] ShotsError),
    /// A picture cannot be read.
    #[error(transparent)]
    Picture(#[from] PictureFileError),
    /// The backbone failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// There is no folder of a class.
    #[error("{} has no folders: put the pictures of each new class into one of its own", folder.display())]
    NoClasses {
        /// The folder that holds the classes' folders.
        folder: PathBuf,
    },
    /// A folder holds folders in place of pictures, as `train` and `test` do.
    #[error(
        "{} holds no pictures, but {}: name the folder that has one folder of pictures for each new class",
        folder.display(),
        counted(*folders, "folder")
    )]
    Nested {
        /// The folder that was taken for a class's.
        folder: PathBuf,
        /// Folders in it.
        folders: usize,
    },
    /// Nothing would be left to measure on.
    #[error(
        "{} has {}: with {} it needs {} at least, since shots are not measured on",
        folder.display(),
        counted(*pictures, "picture"),
        counted(*shots, "shot"),
        shots + 1
    )]
    TooFewPictures {
        /// The class's folder.
        folder: PathBuf,
        /// Its pictures.
        pictures: usize,
        /// Shots of a class.
        shots: usize,
    },
    /// The bundle knows a class of this label.
    #[error("the bundle has a class \"{label}\" already; give {} another name", folder.display())]
    KnownClass {
        /// The class.
        label: String,
        /// The class's folder.
        folder: PathBuf,
    },
    /// A folder's name is no label, or another folder has the same one.
    #[error(
        "the folder {} cannot name a class{}",
        folder.display(),
        if *is_repeated {
            ": another folder has the same name; give it another name"
        } else {
            "; give it another name, not unknown or empty, without \"=\""
        }
    )]
    Label {
        /// The class's folder.
        folder: PathBuf,
        /// Whether another folder has the same name.
        is_repeated: bool,
    },
    /// The bundle has too few targets.
    #[error("{} has {}, but the bundle has room for {room} more", folder.display(), counted(*classes, "class"))]
    TooManyClasses {
        /// The folder that holds the classes' folders.
        folder: PathBuf,
        /// Folders in it.
        classes: usize,
        /// Classes that the bundle could still learn.
        room: usize,
    },
}

/// Computes a benchmark with a bundle's backbone: new classes are the folders in `folder`, base classes those of the
/// benchmark `bundled` with it. Candidate shots are the first half of a class's pictures by name, or the first `shots` of
/// them if that is more; the rest is measured on. So pictures taken one after the other seldom fall on both sides.
///
/// `on_progress` is told how many pictures of how many are done.
///
/// # Errors
/// [`FoldersError`] if a folder or a picture cannot be read, a class has too few pictures, the bundle cannot learn the
/// classes, or the backbone fails.
pub fn from_folders(
    bundle: &Bundle,
    bundled: &Benchmark,
    encoder: &mut dyn Encoder,
    folder: &Path,
    sessions: FolderSessions,
    on_progress: &mut dyn FnMut(usize, usize),
) -> Result<Benchmark, FoldersError> {
    let classes = classes_in(bundle, folder, sessions.shots)?;
    let base = bundle.base_model.classes.len();
    let MethodConfig { views, precision, .. } = bundle.base_model.config;
    let total = classes.iter().map(|class| class.candidates.len() + class.measured.len()).sum();
    let mut done = 0;
    let mut encode = |bank: &mut Bank, part: fn(&FolderClass) -> &[PathBuf]| -> Result<(), FoldersError> {
        let files = classes.iter().enumerate().flat_map(|(class, of)| part(of).iter().map(move |file| (class, file)));
        let mut unreadable = None;
        // Ends at the first unreadable one, so that this is the one that is named.
        let pictures = files.map_while(|(class, file)| match image::open(file) {
            Ok(picture) => Some(((base + class) as u32, picture)),
            Err(error) => {
                unreadable = Some(error);
                None
            }
        });
        encode_into(bank, bundle, encoder, pictures.fuse(), || {
            done += 1;
            on_progress(done, total);
        })?;
        unreadable.map_or(Ok(()), |error| Err(error.into()))
    };
    let of_base: Vec<usize> =
        (0..bundled.measured.len()).filter(|&picture| (bundled.measured.classes()[picture] as usize) < base).collect();
    let mut measured = bundled.measured.only(&of_base);
    encode(&mut measured, |class| &class.measured)?;
    let mut candidates = Bank::new(bundle.base_model.head.inputs, views, precision);
    encode(&mut candidates, |class| &class.candidates)?;
    let new = measured.len() - of_base.len();
    let of_new = candidates.len() as u32..(candidates.len() + new) as u32;
    Ok(Benchmark {
        source: format!("pictures of {}", folder.display()),
        ways: classes.chunks(sessions.ways).map(|session| session.len() as u32).collect(),
        labels: classes.into_iter().map(|class| class.label).collect(),
        shots: sessions.shots as u32,
        base_means: bundled.base_means.clone(),
        measured_sources: of_base.iter().map(|&picture| bundled.measured_sources[picture]).chain(of_new).collect(),
        measured,
        measured_on_test: bundled.measured_on_test,
        candidate_sources: (0..candidates.len() as u32).collect(),
        candidates,
        fixed_draw: false,
    })
}

/// A new class.
struct FolderClass {
    label: String,
    /// Pictures of which shots are drawn.
    candidates: Vec<PathBuf>,
    /// Pictures to measure on.
    measured: Vec<PathBuf>,
}

/// The new classes, by the names of their folders.
fn classes_in(bundle: &Bundle, folder: &Path, shots: usize) -> Result<Vec<FolderClass>, FoldersError> {
    let base_model = &bundle.base_model;
    let folders = PictureFolder::read(folder)?.folders;
    let room = base_model.target_count() - base_model.classes.len();
    if folders.is_empty() {
        return Err(FoldersError::NoClasses { folder: folder.into() });
    }
    if folders.len() > room {
        return Err(FoldersError::TooManyClasses { folder: folder.into(), classes: folders.len(), room });
    }
    let label_of = |folder: &PathBuf| label::normal(&folder.file_name().unwrap_or_default().to_string_lossy());
    let labels: Vec<String> = folders.iter().map(label_of).collect();
    if let Some(repeated) = label::first_repeated(&labels.iter().map(String::as_str).collect::<Vec<_>>()) {
        return Err(FoldersError::Label { folder: folders[repeated].clone(), is_repeated: true });
    }
    let class = |(folder, label): (PathBuf, String)| {
        if base_model.classes.iter().any(|class| label::same(&class.label, &label)) {
            return Err(FoldersError::KnownClass { label, folder });
        }
        if !label::is_usable(&label) {
            return Err(FoldersError::Label { folder, is_repeated: false });
        }
        let mut candidates = match pictures_in(&folder) {
            Err(ShotsError::Empty { folders: folders @ 1.., unsupported, .. }) if unsupported.is_empty() => {
                return Err(FoldersError::Nested { folder, folders });
            }
            pictures => pictures?,
        };
        if candidates.len() <= shots {
            return Err(FoldersError::TooFewPictures { folder, pictures: candidates.len(), shots });
        }
        let measured = candidates.split_off(shots.max(candidates.len() / 2));
        Ok(FolderClass { label, candidates, measured })
    };
    folders.into_iter().zip(labels).map(class).collect()
}
