//! Opens a source: one arm for each kind of camera.

use crate::error::CameraError;
use crate::folder::{FolderSource, KnownFiles};
use crate::gstreamer::{self, GstreamerSource};
use crate::http::HttpSource;
use crate::source::{CameraSource, OpenSource};
use crate::stop::Stop;
#[cfg(target_os = "linux")]
use crate::v4l2::V4l2Source;

/// As [`open`]; tests open sources of their own. What is known of a folder outlives the source that reads it.
pub(crate) type OpenFunction =
    for<'a> fn(&CameraSource, &Stop, &'a mut KnownFiles) -> Result<OpenedSource<'a>, CameraError>;

/// Gives pictures until it is dropped.
pub(crate) type OpenedSource<'a> = Box<dyn OpenSource + 'a>;

/// Opens a source; whatever its kind, it then gives pictures one by one.
pub(crate) fn open<'a>(
    source: &CameraSource,
    stop: &Stop,
    known: &'a mut KnownFiles,
) -> Result<OpenedSource<'a>, CameraError> {
    Ok(match source {
        CameraSource::Http(url) => Box::new(HttpSource::open(url, stop)?),
        CameraSource::Rtsp(url) => Box::new(GstreamerSource::open(gstreamer::pipeline_for_url(url), stop)?),
        CameraSource::Gstreamer(pipeline) => {
            Box::new(GstreamerSource::open(gstreamer::parse_pipeline(pipeline)?, stop)?)
        }
        CameraSource::Folder(path) => Box::new(FolderSource::open(path, stop, known)?),
        #[cfg(target_os = "linux")]
        CameraSource::V4l2(path) => Box::new(V4l2Source::open(path, stop)?),
        #[cfg(not(target_os = "linux"))]
        CameraSource::V4l2(_) => return Err(CameraError::Unsupported),
    })
}
