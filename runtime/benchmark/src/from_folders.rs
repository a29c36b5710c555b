//! A benchmark whose new classes are pictures of one's own, a folder for each.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::benchmark::Benchmark;
use crate::encode::encode_into;
use orco_core::config::MethodConfig;
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::{EncodeError, Encoder};
use orco_runtime::image;
use orco_runtime::learner::{PictureFolder, ShotsError};
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
    /// A folder cannot be read, or holds no pictures, or pictures cannot be read: all that cannot.
    #[error(transparent)]
    Shots(#[from] ShotsError),
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

/// New classes, each a folder of pictures. Candidate shots are the first half of a class's pictures by name, or the
/// first `shots` of them if that is more; the rest is measured on. So pictures taken one after the other seldom fall on
/// both sides.
#[derive(Debug)]
pub struct FolderClasses {
    /// The folder that holds the classes' folders.
    folder: PathBuf,
    sessions: FolderSessions,
    classes: Vec<FolderClass>,
}

/// A new class.
#[derive(Debug)]
struct FolderClass {
    label: String,
    /// Pictures of which shots are drawn.
    candidates: Vec<PathBuf>,
    /// Pictures to measure on.
    measured: Vec<PathBuf>,
}

impl FolderClasses {
    /// Lists the classes in a folder, by the names of their folders. `warn` is told what is passed over, and which
    /// pictures are on both sides.
    ///
    /// # Errors
    /// [`FoldersError`] if a folder cannot be read, a class has too few pictures, or the bundle cannot learn the
    /// classes.
    pub fn read(
        bundle: &Bundle,
        folder: &Path,
        sessions: FolderSessions,
        warn: &mut dyn FnMut(String),
    ) -> Result<Self, FoldersError> {
        let base_model = &bundle.base_model;
        let listed = PictureFolder::read(folder)?;
        warn_of_passed_over(folder, &listed, "the pictures are passed over: put each into its class's folder", warn);
        let folders = listed.folders;
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
        let mut classes = Vec::with_capacity(folders.len());
        for (folder, label) in folders.into_iter().zip(labels) {
            if base_model.classes.iter().any(|class| label::same(&class.label, &label)) {
                return Err(FoldersError::KnownClass { label, folder });
            }
            if !label::is_usable(&label) {
                return Err(FoldersError::Label { folder, is_repeated: false });
            }
            let listed = match PictureFolder::read_filled(&folder) {
                Err(ShotsError::Empty { folders: folders @ 1.., unsupported, .. }) if unsupported.is_empty() => {
                    return Err(FoldersError::Nested { folder, folders });
                }
                listed => listed?,
            };
            let advice = "the folders are passed over: put all pictures of a class into one folder";
            warn_of_passed_over(&folder, &listed, advice, warn);
            let mut candidates = listed.pictures;
            if candidates.len() <= sessions.shots {
                let (pictures, shots) = (candidates.len(), sessions.shots);
                return Err(FoldersError::TooFewPictures { folder, pictures, shots });
            }
            let measured = candidates.split_off(sessions.shots.max(candidates.len() / 2));
            classes.push(FolderClass { label, candidates, measured });
        }
        let listed = Self { folder: folder.into(), sessions, classes };
        listed.copies_warning().into_iter().for_each(warn);
        Ok(listed)
    }

    /// A warning where files that are measured on are candidate shots, too: accuracy would be too high.
    fn copies_warning(&self) -> Option<String> {
        // A file that cannot be read is refused later.
        let length = |file: &PathBuf| fs::metadata(file).ok().map(|facts| facts.len());
        let mut candidates = BTreeMap::<u64, Vec<&PathBuf>>::new();
        for file in self.classes.iter().flat_map(|class| &class.candidates) {
            length(file).into_iter().for_each(|length| candidates.entry(length).or_default().push(file));
        }
        let identical_candidate = |file: &PathBuf| {
            let alike = candidates.get(&length(file)?)?;
            let bytes = fs::read(file).ok()?;
            alike.iter().find(|shot| fs::read(shot).is_ok_and(|shot| shot == bytes)).copied()
        };
        let measured = self.classes.iter().flat_map(|class| &class.measured);
        let copies: Vec<(&PathBuf, &PathBuf)> =
            measured.filter_map(|file| Some((file, identical_candidate(file)?))).collect();
        let (measured, shot) = copies.first()?;
        let others = if copies.len() > 1 { format!(" ({} such pairs)", copies.len()) } else { String::new() };
        Some(format!(
            "{} is measured on and is the same picture as {}, of which shots are drawn{others}: results are too good; \
             remove the copies",
            measured.display(),
            shot.display()
        ))
    }

    /// Computes a benchmark with a bundle's backbone: these classes beside the base classes of the benchmark `bundled`
    /// with it.
    ///
    /// `on_progress` is told how many pictures of how many are done.
    ///
    /// # Errors
    /// [`FoldersError`] if pictures cannot be read, or the backbone fails.
    pub fn benchmark(
        self,
        bundle: &Bundle,
        bundled: &Benchmark,
        encoder: &mut dyn Encoder,
        on_progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Benchmark, FoldersError> {
        let Self { folder, sessions, classes, .. } = self;
        let base = bundle.base_model.classes.len();
        let MethodConfig { views, precision, .. } = bundle.base_model.config;
        let total = classes.iter().map(|class| class.candidates.len() + class.measured.len()).sum();
        let (mut done, mut broken) = (0, Vec::new());
        let mut encode = |bank: &mut Bank, part: fn(&FolderClass) -> &[PathBuf]| -> Result<(), EncodeError> {
            let files =
                classes.iter().enumerate().flat_map(|(class, of)| part(of).iter().map(move |file| (class, file)));
            // After one that cannot be read no more are encoded, but all are checked: all that cannot are named.
            let pictures = files.filter_map(|(class, file)| match image::open(file) {
                Ok(picture) => broken.is_empty().then_some(((base + class) as u32, picture)),
                Err(error) => {
                    broken.push(error.into());
                    None
                }
            });
            encode_into(bank, bundle, encoder, pictures, || {
                done += 1;
                on_progress(done, total);
            })
        };
        let of_base: Vec<usize> = (0..bundled.measured.len())
            .filter(|&picture| (bundled.measured.classes()[picture] as usize) < base)
            .collect();
        let mut measured = bundled.measured.only(&of_base);
        encode(&mut measured, |class| &class.measured)?;
        let mut candidates = Bank::new(bundle.base_model.head.inputs, views, precision);
        encode(&mut candidates, |class| &class.candidates)?;
        if !broken.is_empty() {
            return Err(ShotsError::Pictures(broken).into());
        }
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
}

/// Warns of what is passed over in a folder: files that are not read, and, where it holds both pictures and folders,
/// the kind that `advice` names.
fn warn_of_passed_over(folder: &Path, listed: &PictureFolder, advice: &str, warn: &mut dyn FnMut(String)) {
    let PictureFolder { pictures, unsupported, folders } = listed;
    unsupported.iter().for_each(|file| warn(file.to_string()));
    if !pictures.is_empty() && !folders.is_empty() {
        let (pictures, folders) = (counted(pictures.len(), "picture"), counted(folders.len(), "folder"));
        warn(format!("{} holds {pictures} beside {folders}: {advice}", folder.display()));
    }
}
