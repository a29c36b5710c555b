//! Frames of cameras, wherever they are: V4L2, Motion JPEG over HTTP, GStreamer's pipelines (RTSP among them), watched
//! folders. A camera that goes away comes back; the newest frame wins.
//!
//! Modules stand along the way of a picture, each importing only from those above:
//!
//! - [`source`]: where pictures come from, as people write it; [`error`]: why there are none;
//! - [`frame`]: one of them, as it came, decoded by [`orco_runtime::image`]; [`yuyv`] (raw pixels), [`motion_jpeg`]
//!   (JPEG without its tables), [`multipart`] (pictures in a stream);
//! - `redirect`: where a camera on the network may send on to;
//! - `http`, `gstreamer`, `folder`, `v4l2`: one file for each kind of source;
//! - [`camera`]: the thread that reads one, with its [`status`].
//!
//! ```
//! use std::time::Duration;
//! use orco_camera::Camera;
//!
//! # let folder = tempfile::tempdir()?;
//! # let place = folder.path().to_path_buf();
//! let camera = Camera::open(format!("folder:{}", place.display()).parse()?)?;
//! # std::thread::sleep(Duration::from_millis(500));
//! # std::fs::copy("../../examples/shots/learn/mug/1.jpg", place.join("1.jpg"))?;
//! // The first frame, and later any after that one.
//! if let Some(frame) = camera.wait(0, Duration::from_secs(10)) {
//!     let picture = camera.decode(&frame, None)?;
//!     println!("frame {}: {} x {}", frame.number, picture.width(), picture.height());
//! }
//! println!("{:?}", camera.status());
//! # assert_eq!(camera.status().frames, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod camera;
pub mod error;
mod folder;
pub mod frame;
mod gstreamer;
mod http;
pub mod motion_jpeg;
pub mod multipart;
mod redirect;
pub mod source;
pub mod status;
mod stop;
#[cfg(target_os = "linux")]
mod v4l2;
#[cfg(unix)]
mod wait;
pub mod yuyv;

pub use camera::Camera;
pub use frame::{Frame, Picture};
pub use multipart::{MAX_PICTURE, Multipart};
pub use source::Source;
pub use status::{Phase, Status};
