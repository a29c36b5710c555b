//! Why a camera gives no pictures.

use std::error::Error;
use std::io;
use std::time::Duration;

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
    /// A picture has more than [`MAX_PICTURE_BYTES`](crate::frame::MAX_PICTURE_BYTES) bytes.
    #[error("it sends a picture of more than {} MiB", crate::frame::MAX_PICTURE_BYTES >> 20)]
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
    InvalidAddress(#[source] Box<dyn Error + Send + Sync>),
    /// The request failed.
    #[error("{0}")]
    Http(Box<dyn Error + Send + Sync>),
    /// Its certificate is from no authority that is trusted, or for another host; why.
    #[error(
        "its certificate is not trusted ({0}); if it is self-signed, for Motion JPEG use gst:souphttpsrc with its \
         location and ssl-strict=false, then ! multipartdemux; for single pictures let another program fetch them into \
         folder:PATH"
    )]
    UntrustedCertificate(String),
    /// Nothing came for this long.
    #[error("nothing came for {} s", .0.as_secs())]
    Silent(Duration),
    /// No connection could be made for this long.
    #[error("it cannot be reached within {} s", .0.as_secs())]
    Unreachable(Duration),
    /// It wants a name and password, and the address has none.
    #[error("it wants a name and password: give them in its address, as NAME:PASSWORD@ before the host")]
    NoPassword,
    /// The name and password in its address are wrong.
    #[error("it refuses this name and password")]
    WrongPassword,
    /// It takes name and password by digest authentication alone (RFC 7616), which is not supported.
    #[error(
        "it wants digest authentication, which is not supported here; for Motion JPEG use gst:souphttpsrc with its \
         location, user-id and user-pw, then ! multipartdemux; for single pictures let another program fetch them into \
         folder:PATH"
    )]
    DigestAuthentication,
    /// It answers with a status other than success.
    #[error("{}", status_sentence(*.0))]
    Status(u16),
    /// It redirects to another host, or from https to http: neither is followed.
    #[error("it sends on to {0}, which is not followed; if its pictures are there, name that address as the camera")]
    RedirectElsewhere(String),
    /// It redirects without an address that can be used.
    #[error("it sends on without a usable address")]
    RedirectWithoutAddress,
    /// It redirects too many times in a row.
    #[error("it sends on to another of its addresses more than {0} times in a row")]
    TooManyRedirects(u32),
    /// It answers with a content type that is neither a picture's nor a stream's of pictures.
    #[error("it answers with {0}, not with pictures (image/jpeg, image/png, image/webp or multipart/x-mixed-replace)")]
    ContentType(String),
    /// The stream is broken.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// GStreamer is not installed.
    #[error(
        "gst-launch-1.0 is not there; install it (Debian: apt install gstreamer1.0-tools gstreamer1.0-plugins-base \
         gstreamer1.0-plugins-good gstreamer1.0-plugins-bad, and gstreamer1.0-libav for H.264)"
    )]
    NoGstreamer,
    /// The pipeline ended; what GStreamer said last.
    #[error("the pipeline ended: {0}")]
    Pipeline(String),
    /// The device has no format that is read.
    #[error("the device gives neither MJPG, JPEG nor YUYV, but {0}; try it through gst:")]
    Format(String),
    /// Rows of raw pixels have an odd width or none, or too few bytes for their pixels.
    #[error("the device gives rows of {width} YUYV pixels in {stride} bytes, which make no sense; try it through gst:")]
    BadStride {
        /// Pixels of a row.
        width: u32,
        /// Bytes from one row to the next.
        stride: usize,
    },
    /// Reading it panicked.
    #[error("reading it failed because of a fault in the program: {0}")]
    Panicked(String),
    /// The folder has too many files to be watched.
    #[error("the folder has more than {0} files: move old ones away")]
    TooManyFiles(usize),
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

/// What an answer without pictures says.
fn status_sentence(status: u16) -> String {
    let meaning = match status {
        403 => "it forbids this address",
        404 => "it has nothing at this address",
        503 => "it is too busy, perhaps since others watch it",
        _ => "it cannot answer",
    };
    format!("{meaning} (HTTP status {status})")
}
