//! Reads frames from cameras: V4L2, Motion JPEG over HTTP, GStreamer pipelines (also RTSP), and watched folders. A
//! camera that goes away is opened again; only the newest frame is kept.
//!
//! Modules stand along the way of a picture, each importing only from those above:
//!
//! - [`yuyv`]: raw pixels; [`frame`]: a picture as it came, decoded by [`orco_runtime::image`];
//! - [`error`]: why there are no pictures; `password`: what is masked in addresses and messages; `http_address`: the
//!   name and password in an address, as HTTP sends them; [`source`]: where pictures come from, as people write it;
//! - [`motion_jpeg`]: JPEG without its tables; [`multipart`]: pictures in a stream;
//! - `stop`, `wait` and `deadline`: how a thread that waits for pictures is stopped, and gives up waiting;
//! - `redirect`: which redirects of a camera are followed;
//! - `http`, `gstreamer`, `folder`, `v4l2`: one file for each kind of source; `opening`: opens any of them;
//! - [`status`]: whether a camera is there; [`camera`]: the thread that reads one.
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
//!     // A folder then gives its next picture at once.
//!     camera.done_with(frame.number);
//! }
//! println!("{:?}", camera.status());
//! # assert_eq!(camera.status().frames, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod camera;
mod deadline;
pub mod error;
mod folder;
pub mod frame;
mod gstreamer;
mod http;
mod http_address;
pub mod motion_jpeg;
pub mod multipart;
mod opening;
mod password;
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
pub use frame::{CameraFrame, CameraPicture, MAX_PICTURE_BYTES};
pub use http_address::basic_authorization;
pub use multipart::Multipart;
pub use password::mask_address;
pub use source::CameraSource;
pub use status::{CameraPhase, CameraStatus};
