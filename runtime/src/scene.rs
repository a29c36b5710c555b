//! What is in front of a camera that stands still: the things in its frames, apart from the place.
//!
//! A backbone that sees whole frames learns the place with the thing, and does not know the thing elsewhere. A fixed
//! camera can be shown its place empty: a [`Background`] is made from a few such views. Every frame is then compared
//! with it: what differs is its [`Foreground`], which falls into [things](Thing), each with its box. A
//! [cut-out](Foreground::cut_out) holds one thing on plain grey, as a square: learn from it and classify it like any
//! other picture. Where nothing differs, the place is empty, which is an answer and never a class.
//!
//! ```
//! use orco_runtime::image_rs::{Rgb, RgbImage};
//! use orco_runtime::scene::Background;
//!
//! let place = RgbImage::from_fn(160, 120, |x, y| Rgb([(x + y / 3) as u8, 120, (y * 2) as u8]));
//! let background = Background::learn(&[place.clone(), place.clone(), place.clone()])?;
//! assert!(background.compare(&place, None)?.things().is_empty());
//!
//! let mut frame = place;
//! (40..80).flat_map(|x| (30..70).map(move |y| (x, y))).for_each(|(x, y)| frame.put_pixel(x, y, Rgb([200, 30, 40])));
//! let foreground = background.compare(&frame, None)?;
//! let [thing] = foreground.things() else { panic!("there is one thing") };
//! assert!(thing.bounds.x.abs_diff(40) <= 2 && thing.bounds.width.abs_diff(40) <= 4);
//! let picture = foreground.cut_out(&frame, thing, [127; 3]);
//! assert_eq!(picture.width(), picture.height());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How frames are compared
//!
//! What is known of the place is colour and noise of each pixel: `background`, made from the views by
//! `background/empty_views.rs`. Each step of a comparison is a file, in this order:
//!
//! 1. `small_frame`: frames are compared at a small size ([`SIDE`]), so that a frame of any camera takes the same time
//!    and memory.
//! 2. `exposure`: each channel's brightness is brought to that of the background, by the most frequent ratio. A thing
//!    that covers half of the frame does not matter, nor does a camera that changes its exposure or white balance, or a
//!    lamp that flickers.
//! 3. `difference`: says of each pixel how much it differs. It does if it is off by more than the noise of the camera,
//!    of the pixel itself, and of a small shake at edges allow. It does not if it has the background's colour and is
//!    only darker, or a little brighter, by a ratio that is smooth around it: that is a shadow or a reflection
//!    (Horprasert, Harwood and Davis, 1999). A frame without colours, as some cameras give at night, is compared by
//!    brightness alone.
//! 4. `structure`: where something differs, looks for blocks of the place that the frame shows in whatever light.
//! 5. `light_field`: by these, says how the light has changed from one part of the place to another, as by a lamp at
//!    one side, and what then differs no more.
//! 6. `camera_pose`: by the same blocks, says whether the place is seen where it was, or shifted or turned. How well a
//!    frame fits the place by `difference` and `camera_pose` is in `place_fit`.
//! 7. `foreground`: tells the things in what is left apart, by morphology and connected components (`imageproc`).
//!
//! A [`Viewfinder`] puts this together with [regions](Region): what of a picture is learned or answered. [`SceneWatch`]
//! compares the frames of a running camera: it follows slow changes of light where it sees the place, and notices when
//! the camera was moved, or when a thing that was taken for a part of the place is gone (`hole`, `still_pieces`).
//! [`BackgroundFile`] and [`RegionFile`] keep both beside a device's state.

mod background;
mod background_file;
mod camera_pose;
mod cut_out;
mod difference;
mod exposure;
mod filter;
mod foreground;
mod hole;
mod light_field;
mod place_fit;
mod region;
mod region_file;
mod small_frame;
mod still_pieces;
mod streak;
mod structure;
#[cfg(test)]
mod tests;
mod viewed_picture;
mod viewfinder;
mod watch;

pub use background::{Background, BackgroundError, FrameSizeError, MAX_VIEWS};
pub use background_file::{BackgroundFile, BackgroundFileError};
pub use camera_pose::CameraPose;
pub use foreground::{Foreground, MAX_THINGS, Thing};
pub use place_fit::PlaceFit;
pub use region::{NamedRegion, PixelRect, Region, RegionError, intersection_over_union};
pub use region_file::{RegionFile, RegionFileError};
pub use small_frame::SIDE;
pub use viewed_picture::ViewedPicture;
pub(crate) use viewfinder::ShotView;
pub use viewfinder::{RegionView, ThingView, ViewError, Viewfinder};
pub use watch::{FrameContent, SceneWatch};
