//! Cameras of Linux's own, by V4L2. (No test reads a device: there is none. What needs no device is tested below.)

use std::io;
use std::path::Path;

use linuxvideo::format::{FrameSizes, PixFormat, PixelFormat};
use linuxvideo::stream::ReadStream;
use linuxvideo::{BufType, Device};

use crate::deadline::SILENCE;
use crate::error::CameraError;
use crate::frame::CameraPicture;
use crate::motion_jpeg::completed;
use crate::source::{MAX_UNREADABLE, OpenSource};
use crate::stop::Stop;
use crate::wait;
use crate::yuyv::Yuyv;

/// Formats that are read, the best first: compressed ones come at the full size of the sensor.
const FORMATS: [PixelFormat; 3] = [PixelFormat::MJPG, PixelFormat::JPEG, PixelFormat::YUYV];

/// Width and height, in pixels, that are asked for at most, and where a device does not list its sizes: more than
/// sensors have, and not so much that a driver takes it for a negative number.
const MAX_EDGE: u32 = 16_384;

pub(crate) struct V4l2Source {
    stream: ReadStream,
    format: PixelFormat,
    /// Width and height in pixels.
    size: [u32; 2],
    /// Bytes of a row.
    stride: usize,
    unusable: UnusableBuffers,
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
        let sizes = device.frame_sizes(wanted).map(|sizes| given_sizes(&sizes)).unwrap_or_default();
        // The driver takes the nearest size that it has.
        let [width, height] = largest(&sizes).unwrap_or([MAX_EDGE; 2]).map(|edge| edge.min(MAX_EDGE));
        let capture = device.video_capture(PixFormat::new(width, height, wanted))?;
        let given = capture.format();
        log::info!("camera: {} gives {given:?}", path.display());
        let format = given.pixel_format();
        if !FORMATS.contains(&format) {
            return Err(unreadable(&[format]));
        }
        let (size, stride) = ([given.width(), given.height()], given.bytes_per_line() as usize);
        if format == PixelFormat::YUYV {
            check_rows(size[0], stride)?;
        }
        let (stream, unusable) = (capture.into_stream()?, UnusableBuffers::default());
        Ok(Self { stream, format, size, stride, unusable, stop: stop.clone() })
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
                _ => Some(CameraPicture::File(completed(&buffer).into_owned())),
            })
        })?;
        self.unusable.pass(picture)
    }
}

/// Widths and heights that a device lists; of a range, the largest.
fn given_sizes(sizes: &FrameSizes) -> Vec<[u32; 2]> {
    match sizes {
        FrameSizes::Discrete(sizes) => sizes.iter().map(|size| [size.width(), size.height()]).collect(),
        FrameSizes::Stepwise(range) | FrameSizes::Continuous(range) => vec![[range.max_width(), range.max_height()]],
    }
}

/// The size with the most pixels, if one has any.
fn largest(sizes: &[[u32; 2]]) -> Option<[u32; 2]> {
    let pixels = |[width, height]: &[u32; 2]| u64::from(*width) * u64::from(*height);
    sizes.iter().copied().max_by_key(pixels).filter(|size| pixels(size) > 0)
}

/// Whether rows of raw pixels can be read at all.
fn check_rows(width: u32, stride: usize) -> Result<(), CameraError> {
    let is_sound = width > 0 && width.is_multiple_of(2) && stride >= 2 * width as usize;
    if is_sound { Ok(()) } else { Err(CameraError::BadStride { width, stride }) }
}

/// Buffers one after another that hold no picture.
#[derive(Default)]
struct UnusableBuffers(u32);

impl UnusableBuffers {
    /// Passes on what a buffer holds; an error after [`MAX_UNREADABLE`] of them that hold nothing.
    fn pass(&mut self, picture: Option<CameraPicture>) -> Result<Option<CameraPicture>, CameraError> {
        self.0 = if picture.is_some() { 0 } else { self.0 + 1 };
        if self.0 < MAX_UNREADABLE {
            return Ok(picture);
        }
        let reason = "is marked as broken, or has too few bytes".into();
        Err(CameraError::Unreadable { count: self.0, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_all_of_whose_buffers_fail_is_an_error() {
        let mut unusable = UnusableBuffers::default();
        for _ in 0..2 {
            (1..MAX_UNREADABLE).for_each(|_| assert!(matches!(unusable.pass(None), Ok(None))));
            // One that can be read makes good for those before it.
            assert!(matches!(unusable.pass(Some(CameraPicture::File(vec![1]))), Ok(Some(_))));
        }
        (1..MAX_UNREADABLE).for_each(|_| assert!(matches!(unusable.pass(None), Ok(None))));
        let error = unusable.pass(None).unwrap_err();
        assert!(matches!(error, CameraError::Unreadable { count: MAX_UNREADABLE, .. }), "{error}");
    }

    #[test]
    fn the_largest_size_is_the_one_with_the_most_pixels() {
        assert_eq!(largest(&[[640, 480], [1920, 1080], [2048, 768], [1080, 720]]), Some([1920, 1080]));
        assert_eq!(largest(&[[u32::MAX, 1], [u32::MAX, u32::MAX]]), Some([u32::MAX, u32::MAX]));
        assert_eq!((largest(&[]), largest(&[[0, 480]])), (None, None));
    }

    #[test]
    fn rows_that_make_no_sense_are_refused_when_the_device_is_opened() {
        assert!(check_rows(640, 1280).is_ok() && check_rows(640, 1344).is_ok());
        for (width, stride) in [(0, 1280), (641, 1344), (640, 1279), (640, 0)] {
            assert!(matches!(check_rows(width, stride), Err(CameraError::BadStride { .. })), "{width} {stride}");
        }
    }
}
