//! Errors of reading images.

use std::io;
use std::path::PathBuf;

use orco_benchmark::cifar100::Cifar100Error;
use orco_runtime::image::UnsupportedFormat;

use super::SplitError;
use crate::platform::distributed::RankError;
use crate::platform::interrupt::Interrupted;

/// Why a data set could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// No folder was named.
    #[error("{title}: the images are read from a folder; name it with --data")]
    NoFolder {
        /// The data set.
        title: &'static str,
    },
    /// A file of the layout could not be read.
    #[error("cannot read {}: {reason}; {layout}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said; part of the sentence, so no source, which would be printed once more.
        reason: io::Error,
        /// What the folder must hold.
        layout: &'static str,
    },
    /// CIFAR-100's binary version is not as published.
    #[error(transparent)]
    Binary(#[from] Cifar100Error),
    /// A line of a text file is not as its layout says.
    #[error("{}, line {line}: \"{text}\" is not {expected}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number from 1.
        line: usize,
        /// What stands there.
        text: String,
        /// What should.
        expected: &'static str,
    },
    /// Something is there in the wrong number.
    #[error("{} holds {actual} {what}, but {expected} are expected", path.display())]
    Count {
        /// The file or folder.
        path: PathBuf,
        /// What was counted.
        what: &'static str,
        /// How many there should be.
        expected: String,
        /// How many there are.
        actual: usize,
    },
    /// The folder of a class holds no pictures at all.
    #[error("{} holds no JPEG, PNG or WebP files; put the class's pictures there, or remove it", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// What should be the folder of a class holds folders.
    #[error(
        "{} holds folders, but no JPEG, PNG or WebP files, so it is no class; --data takes the folder whose folders are \
         the classes, or that holds train and test, in lower case",
        path.display()
    )]
    Nested {
        /// The folder.
        path: PathBuf,
    },
    /// What should be the folder of a class holds pictures of other kinds alone.
    #[error(
        "{} holds no JPEG, PNG or WebP files, but others, such as {}, {} {} file, which cannot be read: {}",
        path.display(), file.display(), format.article, format.name, format.remedy
    )]
    Unsupported {
        /// The folder.
        path: PathBuf,
        /// Name of the first of these pictures.
        file: PathBuf,
        /// Its kind.
        format: UnsupportedFormat,
    },
    /// Training images have no folder of test images beside them, or the other way round.
    #[error(
        "there is no folder {missing} beside {}: name the folder of the {images} images {missing}, in lower case, or \
         give {} itself as --data; a share of its images then becomes test images",
        path.display(), path.display()
    )]
    Unpaired {
        /// The folder that is there.
        path: PathBuf,
        /// The one that is not.
        missing: &'static str,
        /// What it should hold.
        images: &'static str,
    },
    /// A class has the wrong number of images.
    #[error("{} holds {actual} images of {class}, but {expected} are expected", path.display())]
    ClassCount {
        /// The list.
        path: PathBuf,
        /// Name of the class.
        class: String,
        /// How many there should be.
        expected: String,
        /// How many there are.
        actual: usize,
    },
    /// An image is to be trained on and measured on.
    #[error(
        "{} names {name}, which train.csv names too; take it out of one of them: accuracy on what was trained on says \
         nothing",
        path.display()
    )]
    TrainedOn {
        /// The list of test images.
        path: PathBuf,
        /// `class/file` of the image.
        name: String,
    },
    /// An image cannot be decoded.
    #[error("the image {} {reason}; repair or remove it, or leave such images out with --skip-broken", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The recipe's split has more classes than the data.
    #[error(
        "the recipe's split has {expected} classes, but the data ({title}) have {actual}; lower base_classes, sessions or \
         ways of [split]"
    )]
    Classes {
        /// The data set.
        title: &'static str,
        /// Classes of the split.
        expected: usize,
        /// Classes of the data.
        actual: usize,
    },
    /// A class cannot be named on devices, in lists and on terminals.
    #[error(
        "the class name \"{}\" cannot be used: it is white space, or \"unknown\" or \"empty\", which are answers of \
         their own; it holds \"=\" or characters that cannot be seen or typed; or it is the name of another class in \
         another spelling; rename the class",
        name.escape_debug()
    )]
    ClassName {
        /// The name.
        name: String,
    },
    /// The images do not fit into memory.
    #[error(
        "{count} images of {side} x {side} pixels take {wanted} of memory, but this process can have {free}; lower \
         data.image_size or use fewer images"
    )]
    Room {
        /// Number of images.
        count: usize,
        /// Width and height of one.
        side: u32,
        /// What they take.
        wanted: String,
        /// What there is at most.
        free: String,
    },
    /// The name of a file or folder is no text.
    #[error(
        "the name of {} is not valid Unicode; rename it, or leave such files out with --skip-broken",
        path.display()
    )]
    Name {
        /// The file or folder.
        path: PathBuf,
    },
    /// Reading was stopped on purpose.
    #[error("{0}")]
    Stopped(#[source] Interrupted),
    /// The ranks that read the images together lost each other.
    #[error(transparent)]
    Rank(#[from] RankError),
    /// The split could not be made.
    #[error(transparent)]
    Split(#[from] SplitError),
}

impl DataError {
    /// A file that cannot be read, beside what the layout asks for.
    pub(super) fn read(path: impl Into<PathBuf>, layout: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |reason| Self::Read { path, reason, layout }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let error = DataError::read("/d", "it must hold x")(io::Error::other("broken"));
        assert_eq!(format!("{:#}", anyhow::Error::from(error)), "cannot read /d: broken; it must hold x");
    }
}
