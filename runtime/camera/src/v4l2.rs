//! Cameras of Linux's own, by V4L2. (What stands here was not run against a device by our tests: they have none.)

use std::io;
use std::path::Path;
use std::time::Duration;

use linuxvideo::format::{PixFormat, PixelFormat};
use linuxvideo::stream::ReadStream;
use linuxvideo::{BufType, Device};

use crate::error::CameraError;
use crate::frame::CameraPicture;
use crate::motion_jpeg::with_tables;
use crate::source::OpenSource;
use crate::stop::Stop;
use crate::wait;
use crate::yuyv::Yuyv;

/// How long a device may give nothing.
const SILENCE: Duration = Duration::from_secs(5);
/// Formats that are read, the best first: compressed ones come at the full size of the sensor.
const FORMATS: [PixelFormat; 3] = [PixelFormat::MJPG, PixelFormat::JPEG, PixelFormat::YUYV];

pub(crate) struct V4l2Source {
    stream: ReadStream,
    format: PixelFormat,
    /// Width and height in pixels.
    size: [u32; 2],
    /// Bytes of a row.
    stride: usize,
    stop: Stop,
}

impl V4l2Source {
    /// Opens a device at the largest size that it gives.
    pub fn open(path: &Path, stop: &Stop) -> Result<Self, CameraError> {
        let device = Device::open(path)?;
        let given: io::Result<Vec<PixelFormat>> =
            device.formats(BufType::VIDEO_CAPTURE).map(|format| Ok(format?.pixel_format())).collect();
        let given = given?;
        let unreadable = |given: &[PixelFormat]| {
            let names: Vec<String> = given.iter().map(|format| format!("{format:?}")).collect();
            CameraError::Format(if names.is_empty() { "nothing".into() } else { names.join(", ") })
        };
        let wanted = FORMATS.into_iter().find(|format| given.contains(format)).ok_or_else(|| unreadable(&given))?;
        // The driver takes the nearest size that it has.
        let capture = device.video_capture(PixFormat::new(u32::MAX, u32::MAX, wanted))?;
        let given = capture.format();
        log::info!("camera: {} gives {given:?}", path.display());
        let format = given.pixel_format();
        if !FORMATS.contains(&format) {
            return Err(unreadable(&[format]));
        }
        let (size, stride) = ([given.width(), given.height()], given.bytes_per_line() as usize);
        Ok(Self { stream: capture.into_stream()?, format, size, stride, stop: stop.clone() })
    }
}

impl OpenSource for V4l2Source {
    fn next_picture(&mut self) -> Result<Option<CameraPicture>, CameraError> {
        wait::for_input(&self.stream, SILENCE)?;
        if self.stop.is_set() {
            return Ok(None);
        }
        let (format, [width, height], stride) = (self.format, self.size, self.stride);
        let picture = self.stream.dequeue(|buffer| {
            Ok(match format {
                // The next one is not far.
                PixelFormat::YUYV if buffer.is_error() => None,
                PixelFormat::YUYV => Yuyv::new(width, height, stride, &buffer).map(CameraPicture::Yuyv),
                _ => Some(CameraPicture::File(with_tables(&buffer).into_owned())),
            })
        })?;
        Ok(picture)
    }
}
