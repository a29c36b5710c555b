//! Why a camera gives no pictures.

use std::io;

/// Why a source cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no camera: give a device (/dev/video0), an address (http://..., rtsp://...), gst:PIPELINE or \
     folder:PATH"
)]
pub struct SourceError(pub String);

/// Why a stream of pictures is broken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// It ended, in a picture or between two.
    #[error("the stream ended")]
    Ended,
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// No boundary between pictures was found in it.
    #[error("what it sends is no stream of pictures")]
    NoBoundary,
    /// A picture has more than [`MAX_PICTURE`](crate::frame::MAX_PICTURE) bytes.
    #[error("it sends a picture of more than {} MiB", crate::frame::MAX_PICTURE >> 20)]
    TooLarge,
}

/// Why a camera gives no pictures, for now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CameraError {
    /// The device or folder cannot be used.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The address cannot be understood.
    #[error("its address cannot be understood: {0}")]
    Address(#[from] url::ParseError),
    /// The address cannot be asked.
    #[error("{0}")]
    Http(Box<ureq::Error>),
    /// The address leads on to another host, or away from TLS.
    #[error("it sends on to {0}, which is not followed; if its pictures are there, name that address as the camera")]
    Redirect(String),
    /// The address leads on, and names no other address.
    #[error("it sends on without a usable address")]
    NoAddress,
    /// The address leads on too often.
    #[error("it sends on to another of its addresses more than {0} times in a row")]
    Redirects(u32),
    /// What the address answers is no picture.
    #[error("it answers with {0}, not with pictures (image/jpeg, image/png or multipart/x-mixed-replace)")]
    Content(String),
    /// The stream is broken.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// GStreamer is not installed.
    #[error(
        "gst-launch-1.0 is not there; install it (Debian: apt install gstreamer1.0-tools gstreamer1.0-plugins-base \
         gstreamer1.0-plugins-good, and gstreamer1.0-libav for H.264)"
    )]
    NoGstreamer,
    /// The pipeline ended; what GStreamer said last.
    #[error("the pipeline ended: {0}")]
    Pipeline(String),
    /// The device has no format that is read.
    #[error("the device gives neither MJPG, JPEG nor YUYV, but {0}; try it through gst:")]
    Format(String),
    /// Rows of raw pixels that are none.
    #[error("the device gives rows of {width} YUYV pixels in {stride} bytes, which make no sense; try it through gst:")]
    Rows {
        /// Pixels of a row.
        width: u32,
        /// Bytes from one row to the next.
        stride: usize,
    },
    /// Reading it panicked.
    #[error("reading it broke off: {0}")]
    BrokeOff(String),
    /// The folder has too many files to be watched.
    #[error("the folder has more than {0} files: move old ones away")]
    Crowded(usize),
    /// This system has no such cameras.
    #[error("devices are read on Linux only; try gst:")]
    Unsupported,
    /// The pictures cannot be decoded.
    #[error("{count} pictures one after another cannot be read; the last one {reason}")]
    Unreadable {
        /// How many.
        count: u32,
        /// What was wrong with the last.
        reason: String,
    },
}

impl From<ureq::Error> for CameraError {
    fn from(error: ureq::Error) -> Self {
        Self::Http(Box::new(error))
    }
}
