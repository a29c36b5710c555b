//! What a frame shows: each of its regions as a whole, or thing by thing where the background is known.

use std::time::Instant;

use orco_runtime::image_rs::RgbImage;
use orco_runtime::scene::{Foreground, NamedRegion, PixelRect, Region, Thing, Viewfinder};

use super::LiveWorker;
use crate::admission::{Admitted, Permit};
use crate::agreement::Agreement;
use crate::camera_scene::{SceneView, SeenRegion};
use crate::live_snapshot::ShownRegion;
use crate::prediction::PictureAnswer;
use crate::thing_tracks::{MAX_ANSWERED_THINGS, ThingAnswer, ThingIds, ThingTracks};

/// A frame that was decoded, and whose memory is admitted.
#[derive(Clone, Copy)]
pub(super) struct AdmittedFrame<'a> {
    pub picture: &'a RgbImage,
    /// Holds the picture's memory.
    pub permit: &'a Permit,
    /// When the camera gave it.
    pub taken: Instant,
}

/// Why a frame got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// Requests went first: the same frame may be answered later.
    RequestsFirst,
    /// An answer was refused; the log says why.
    Refused,
}

/// Follows a region from frame to frame.
pub(super) struct RegionTrack {
    name: String,
    agreement: Agreement,
    things: ThingTracks,
}

impl RegionTrack {
    /// One for each of the regions, or for the frame where there are none; labels are agreed upon over `max_frames`
    /// frames at most.
    pub fn of_all(regions: &[NamedRegion], max_frames: usize, ids: &ThingIds) -> Vec<Self> {
        let track = |name: &str| Self {
            name: name.to_owned(),
            agreement: Agreement::new(max_frames),
            things: ThingTracks::new(max_frames, ids.clone()),
        };
        if regions.is_empty() { vec![track("")] } else { regions.iter().map(|named| track(&named.name)).collect() }
    }

    /// Forgets all frames.
    pub fn clear(&mut self) {
        self.agreement.clear();
        self.things.clear();
    }

    /// Forgets all answers: what is known changed. Things stay the same ones.
    pub fn forget_answers(&mut self) {
        self.agreement.clear();
        self.things.forget_answers();
    }
}

impl LiveWorker {
    /// Asks what a picture shows, and offers it to the inbox.
    fn ask(&self, picture: &RgbImage, permit: &Permit) -> Result<PictureAnswer, NoAnswer> {
        let answer = self.answers.try_answer(Admitted::new(self.input.fit(picture), permit.clone()));
        let answer = answer.ok_or(NoAnswer::RequestsFirst)?.map_err(|refusal| {
            log::warn!("camera: {}", refusal.sentence);
            NoAnswer::Refused
        })?;
        self.inbox.offer_frame(picture, &answer);
        Ok(answer)
    }

    /// What the regions of a frame are shown as.
    pub(super) fn show(
        &mut self,
        frame: AdmittedFrame<'_>,
        seen: Vec<SeenRegion>,
    ) -> Result<Vec<ShownRegion>, NoAnswer> {
        seen.into_iter().map(|region| self.show_region(frame, region)).collect()
    }

    fn show_region(&mut self, frame: AdmittedFrame<'_>, region: SeenRegion) -> Result<ShownRegion, NoAnswer> {
        let SeenRegion { name, shares, bounds, view } = region;
        let shown = match view {
            SceneView::Whole => self.show_whole(frame, &name, bounds)?,
            SceneView::Things(foreground) => self.show_things(frame, &name, bounds, &foreground)?,
            SceneView::TooSmall(problem) => {
                self.track(&name).clear();
                ShownRegion { problem: Some(problem), ..ShownRegion::default() }
            }
        };
        Ok(ShownRegion { name, shares, ..shown })
    }

    /// The track of a region; the first one if the regions have changed meanwhile.
    fn track(&mut self, name: &str) -> &mut RegionTrack {
        let place = self.tracks.iter().position(|track| track.name == name).unwrap_or(0);
        &mut self.tracks[place]
    }

    /// What a region is shown as where it counts as a whole.
    fn show_whole(
        &mut self,
        frame: AdmittedFrame<'_>,
        name: &str,
        bounds: Option<PixelRect>,
    ) -> Result<ShownRegion, NoAnswer> {
        let AdmittedFrame { picture, permit, taken } = frame;
        self.track(name).things.clear();
        let answer = match bounds {
            None => self.ask(picture, permit)?,
            Some(bounds) => {
                let region = NamedRegion { name: String::new(), region: Region::Pixels(bounds) };
                let viewfinder = Viewfinder { background: None, regions: vec![region], fill: self.input.mean_colour() };
                // The region was found in this frame before.
                let shot = viewfinder.shot(picture).map_err(|_| NoAnswer::Refused)?;
                self.ask(&shot, permit)?
            }
        };
        let answer = self.track(name).agreement.add(taken, answer.classes, answer.known);
        Ok(ShownRegion { answer, ..ShownRegion::default() })
    }

    /// What a region is shown as where its things count; the one in its middle comes first. Where there is none, the
    /// region is empty, and what was there counts no more.
    fn show_things(
        &mut self,
        frame: AdmittedFrame<'_>,
        name: &str,
        bounds: Option<PixelRect>,
        foreground: &Foreground,
    ) -> Result<ShownRegion, NoAnswer> {
        let AdmittedFrame { picture, permit, taken } = frame;
        self.track(name).agreement.clear();
        let whole = PixelRect { x: 0, y: 0, width: picture.width(), height: picture.height() };
        let things = answered_things(foreground, bounds.unwrap_or(whole));
        if things.is_empty() {
            self.track(name).things.add_frame_without_things();
            return Ok(ShownRegion { empty: true, ..ShownRegion::default() });
        }
        let fill = self.input.mean_colour();
        let mut answers = Vec::new();
        for thing in things {
            let PictureAnswer { classes, known, .. } = self.ask(&foreground.cut_out(picture, thing, fill), permit)?;
            answers.push(ThingAnswer { bounds: thing.bounds, classes, known });
        }
        let things = self.track(name).things.add(taken, [picture.width(), picture.height()], answers);
        let answer = things.first().map(|central| central.answer.clone()).unwrap_or_default();
        Ok(ShownRegion { answer, things, ..ShownRegion::default() })
    }
}

/// The things of a region that are answered: the one in its middle, which shots are taken of, then the largest.
fn answered_things(foreground: &Foreground, bounds: PixelRect) -> Vec<&Thing> {
    let [x, y] = bounds.middle();
    let central = foreground.at(x, y);
    let mut things: Vec<&Thing> = foreground.things().iter().collect();
    things.sort_by_key(|thing| Some(*thing) != central);
    things.truncate(MAX_ANSWERED_THINGS);
    things
}

#[cfg(test)]
mod tests {
    use orco_runtime::image_rs::Rgb;
    use orco_runtime::scene::Background;

    use super::*;

    const SIZE: [u32; 2] = [640, 360];
    const GREY: [u8; 3] = [127; 3];

    /// Middle and radius of a ball, in pixels.
    type Ball = ([i32; 2], i32);

    /// A chequered place with balls.
    fn frame(balls: &[Ball]) -> RgbImage {
        RgbImage::from_fn(SIZE[0], SIZE[1], |x, y| {
            let holds_pixel = |([middle_x, middle_y], radius): &Ball| {
                let (across, down) = (x as i32 - middle_x, y as i32 - middle_y);
                across * across + down * down < radius * radius
            };
            let light = (x / 16 % 2 * 40 + y / 16 % 2 * 60) as u8;
            Rgb(if balls.iter().any(holds_pixel) { [230, 210, 40] } else { [60 + light, 90 + light, 160] })
        })
    }

    #[test]
    fn the_first_answer_of_a_region_is_of_the_thing_that_shots_are_taken_of() {
        let background = Background::learn(&[frame(&[])]).unwrap();
        // The larger one is nearer to the middle of the frame.
        let picture = frame(&[([150, 180], 36), ([272, 180], 44)]);
        let left = "left=0,0,0.5,1".parse::<NamedRegion>().unwrap();
        let bounds = left.region.in_frame(SIZE[0], SIZE[1]).unwrap();
        let foreground = background.compare(&picture, Some(bounds)).unwrap();
        let [first, second] = answered_things(&foreground, bounds)[..] else { panic!("{:?}", foreground.things()) };
        assert!(first.bounds.contains([150, 180]) && second.bounds.contains([272, 180]), "{first:?} {second:?}");
        let viewfinder = Viewfinder { background: Some(background.into()), regions: vec![left], fill: GREY };
        assert!(viewfinder.shot(&picture).unwrap() == foreground.cut_out(&picture, first, GREY));

        let frame = PixelRect { x: 0, y: 0, width: SIZE[0], height: SIZE[1] };
        assert_eq!(answered_things(&foreground, frame), [second, first]);
    }
}
