//! Frames as the service treats those of its camera: whole ones, and those with a thing in front of a place that it was
//! shown empty.
//!
//! What the service calls is called here, too. Its threads, the decoding of a camera's bytes, and what its inbox keeps
//! of a frame are left out; in a program that was built without the service, so is the agreement over frames.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use orco_runtime::image_rs::{Rgb, RgbImage};
use orco_runtime::learner::{Answer, Learner};
use orco_runtime::quality::{Quality, Thresholds};
use orco_runtime::scene::{Background, BackgroundError, Foreground, FrameContent, SceneWatch};
#[cfg(feature = "serve")]
use orco_serve::{
    agreement::Agreement,
    live::LiveSettings,
    prediction::ClassProbability,
    thing_tracks::{ThingAnswer, ThingIds, ThingTracks},
};

use super::{FrameSize, mixed};

/// Empty views that the background is learned from, as many as the service takes (`camera_scene::VIEWS`).
const VIEWS: u32 = 3;
/// Tiles of the place from its left to its right.
const TILES: u32 = 8;
/// Colour of the thing in front of it.
const THING: [u8; 3] = [225, 215, 30];

/// Treats frames that are answered as a whole.
pub(super) struct WholeFrames {
    #[cfg(feature = "serve")]
    agreement: Agreement,
}

impl WholeFrames {
    /// No frame was seen yet.
    pub(super) fn new() -> Self {
        Self {
            #[cfg(feature = "serve")]
            agreement: Agreement::new(LiveSettings::default().agreement_frames),
        }
    }

    /// Answers a frame, checks it, and agrees upon a label.
    pub(super) fn treat(&mut self, learner: &mut Learner, frame: &RgbImage) -> Result<()> {
        let answer = checked_answer(learner, frame)?;
        #[cfg(feature = "serve")]
        {
            let classes = ClassProbability::of_answer(learner, &answer);
            drop(black_box(self.agreement.add(Instant::now(), classes, !answer.is_unknown())));
        }
        #[cfg(not(feature = "serve"))]
        drop(black_box(answer));
        Ok(())
    }
}

/// Treats frames that show a thing in front of a place whose background was learned.
pub(super) struct EmptyPlace {
    watch: SceneWatch,
    started: Instant,
    #[cfg(feature = "serve")]
    things: ThingTracks,
}

impl EmptyPlace {
    /// Learns the background from views of the empty [place](place_frame). `None` where frames are too small for a
    /// thing to be found.
    pub(super) fn learn(size: FrameSize) -> Result<Option<Self>> {
        let views: Vec<RgbImage> = (0..VIEWS).map(|number| place_frame(size, number, false)).collect();
        let background = match Background::learn(&views) {
            Err(BackgroundError::Small { .. }) => return Ok(None),
            learned => learned?,
        };
        if background.compare(&place_frame(size, VIEWS, true), None)?.things().len() != 1 {
            return Ok(None);
        }
        Ok(Some(Self {
            watch: SceneWatch::new(background),
            started: Instant::now(),
            #[cfg(feature = "serve")]
            things: ThingTracks::new(LiveSettings::default().agreement_frames, ThingIds::default()),
        }))
    }

    /// Finds the thing in a frame, answers and checks its cut-out, and agrees upon its label.
    pub(super) fn treat(&mut self, learner: &mut Learner, frame: &RgbImage) -> Result<()> {
        let at = self.started.elapsed();
        let foreground = self.foreground(frame, at)?;
        let thing = foreground.things().first().context("the thing before the empty place is not found")?;
        let fill = learner.bundle().manifest.preprocessing.mean_colour();
        let answer = checked_answer(learner, &foreground.cut_out(frame, thing, fill))?;
        #[cfg(feature = "serve")]
        {
            let (classes, known) = (ClassProbability::of_answer(learner, &answer), !answer.is_unknown());
            let found = vec![ThingAnswer { bounds: thing.bounds, classes, known }];
            drop(black_box(self.things.add(Instant::now(), [frame.width(), frame.height()], found)));
        }
        #[cfg(not(feature = "serve"))]
        drop(black_box(answer));
        Ok(())
    }

    /// What is in front of the place in a frame, which is seen so long after the first.
    fn foreground(&mut self, frame: &RgbImage, at: Duration) -> Result<Foreground> {
        match self.watch.see(frame, &[], at)? {
            FrameContent::Things(foregrounds) => foregrounds.into_iter().next().context("a frame is one region"),
            FrameContent::Empty => bail!("the place counts as empty, with a thing in front of it"),
            FrameContent::Moved => bail!("the camera counts as moved"),
        }
    }
}

/// The answer to a picture, which is also checked for what would speak against it as a shot.
fn checked_answer(learner: &mut Learner, picture: &RgbImage) -> Result<Answer> {
    let input = learner.bundle().manifest.preprocessing;
    let answer = learner.classify(&input.fit(picture))?;
    drop(black_box(Thresholds::default().flaws(&Quality::of(picture))));
    Ok(answer)
}

/// A frame of a camera that stands still and has little noise: a place of coarse tiles, in front of whose middle there
/// may be a bright thing. Each number has noise of its own.
pub(super) fn place_frame(size: FrameSize, number: u32, has_thing: bool) -> RgbImage {
    let side = size.width.div_ceil(TILES);
    let is_middle = |at: u32, length: u32| (length / 3..2 * length / 3).contains(&at);
    RgbImage::from_fn(size.width, size.height, |x, y| {
        let tile = mixed((x / side) * 31 + y / side);
        let noise = mixed(number.wrapping_mul(0x1_0001) ^ (y * size.width + x));
        let is_thing = has_thing && is_middle(x, size.width) && is_middle(y, size.height);
        let colour = if is_thing { THING } else { [0, 8, 16].map(|shift| 60 + (tile >> shift) as u8 / 4) };
        Rgb([0, 1, 2].map(|channel| colour[channel] + (noise >> (8 * channel)) as u8 / 32))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_before_the_place_is_found_for_as_long_as_the_camera_runs() {
        for [width, height] in [[64, 48], [640, 480], [1280, 720]] {
            let size = FrameSize { width, height };
            let mut place = EmptyPlace::learn(size).unwrap().unwrap();
            for second in 0..12 {
                let frame = place_frame(size, 1000 + second, true);
                let found = place.foreground(&frame, Duration::from_secs(second.into())).unwrap();
                let [thing] = found.things() else { panic!("{size} after {second} s: {:?}", found.things()) };
                let is_near = |found: u32, shown: u32| found.abs_diff(shown) <= width / 16;
                let bounds = thing.bounds;
                assert!(is_near(bounds.x, width / 3) && is_near(bounds.width, width / 3), "{size}: {bounds:?}");
            }
            let empty = place.foreground(&place_frame(size, 2000, false), Duration::from_secs(12));
            assert!(empty.unwrap_err().to_string().contains("empty"), "{size}");
        }
    }

    #[test]
    fn frames_may_be_too_small_for_a_place() {
        assert!(EmptyPlace::learn(FrameSize { width: 16, height: 16 }).unwrap().is_none());
    }
}
