//! What a frame shows: each of its regions as a whole, or thing by thing where the empty place is known.

use std::time::Instant;

use orco_runtime::image_rs::RgbImage;
use orco_runtime::scene::{Foreground, NamedRegion, PixelRect, Region, Thing, Viewfinder};

use super::LiveWorker;
use crate::admission::{Admitted, Permit};
use crate::agreement::Agreement;
use crate::camera_scene::{SceneView, SeenRegion};
use crate::live_snapshot::ShownRegion;
use crate::prediction::PictureAnswer;
use crate::thing_tracks::{MAX_THINGS, ThingAnswer, ThingIds, Things};

/// Follows a region from frame to frame.
pub(super) struct RegionTrack {
    name: String,
    agreement: Agreement,
    things: Things,
}

impl RegionTrack {
    /// One for each of the regions, or for the frame where there are none; labels are agreed upon over so many frames.
    pub fn of_all(regions: &[NamedRegion], frames: usize, ids: &ThingIds) -> Vec<Self> {
        let track = |name: &str| Self {
            name: name.to_owned(),
            agreement: Agreement::of(frames),
            things: Things::of(frames, ids.clone()),
        };
        if regions.is_empty() { vec![track("")] } else { regions.iter().map(|named| track(&named.name)).collect() }
    }

    /// Forgets all frames.
    pub fn clear(&mut self) {
        self.agreement.clear();
        self.things.clear();
    }
}

impl LiveWorker {
    /// Asks what a picture shows, and offers it to the inbox; none if requests went first.
    fn ask(&self, picture: &RgbImage, permit: &Permit) -> Option<PictureAnswer> {
        match self.answers.try_answer(Admitted::new(self.input.fit(picture), permit.clone()))? {
            Ok(answer) => {
                self.inbox.offer_frame(picture, &answer);
                Some(answer)
            }
            Err(refusal) => {
                log::warn!("camera: {}", refusal.sentence);
                None
            }
        }
    }

    /// What the regions of a frame are shown as; none if requests went first.
    pub(super) fn show(
        &mut self,
        picture: &RgbImage,
        seen: Vec<SeenRegion>,
        permit: &Permit,
        taken: Instant,
    ) -> Option<Vec<ShownRegion>> {
        let show = |region: SeenRegion| {
            let SeenRegion { name, shares, bounds, view } = region;
            let shown = match view {
                SceneView::Whole => self.whole(picture, &name, bounds, permit, taken)?,
                SceneView::Things(foreground) => self.things(picture, &name, &foreground, permit, taken)?,
                SceneView::Small(problem) => {
                    self.track(&name).clear();
                    ShownRegion { problem: Some(problem), ..ShownRegion::default() }
                }
            };
            Some(ShownRegion { name, bounds: shares, ..shown })
        };
        seen.into_iter().map(show).collect()
    }

    /// What follows a region; the first one where the regions are others by now.
    fn track(&mut self, name: &str) -> &mut RegionTrack {
        let place = self.tracks.iter().position(|track| track.name == name).unwrap_or(0);
        &mut self.tracks[place]
    }

    /// What a region as a whole shows.
    fn whole(
        &mut self,
        picture: &RgbImage,
        name: &str,
        bounds: Option<PixelRect>,
        permit: &Permit,
        taken: Instant,
    ) -> Option<ShownRegion> {
        self.track(name).things.clear();
        let answer = match bounds {
            None => self.ask(picture, permit)?,
            Some(bounds) => {
                let region = NamedRegion { name: String::new(), region: Region::Pixels(bounds) };
                let viewfinder = Viewfinder { background: None, regions: vec![region], fill: self.input.mean_colour() };
                self.ask(&viewfinder.shot(picture).ok()?, permit)?
            }
        };
        let answer = self.track(name).agreement.add(taken, answer.classes, answer.known);
        Some(ShownRegion { answer, ..ShownRegion::default() })
    }

    /// What the things in a region are; the one in its middle is shown first. Nothing is no class, and what was there
    /// counts no more.
    fn things(
        &mut self,
        picture: &RgbImage,
        name: &str,
        foreground: &Foreground,
        permit: &Permit,
        taken: Instant,
    ) -> Option<ShownRegion> {
        self.track(name).agreement.clear();
        let mut things: Vec<&Thing> = foreground.things().iter().take(MAX_THINGS).collect();
        if things.is_empty() {
            return Some(ShownRegion { empty: true, ..ShownRegion::default() });
        }
        let central = foreground.central().map(|thing| thing.bounds);
        things.sort_by_key(|thing| Some(thing.bounds) != central);
        let fill = self.input.mean_colour();
        let mut answers = Vec::new();
        for thing in things {
            let PictureAnswer { classes, known, .. } = self.ask(&foreground.cut_out(picture, thing, fill), permit)?;
            answers.push(ThingAnswer { bounds: thing.bounds, classes, known });
        }
        let things = self.track(name).things.add(taken, [picture.width(), picture.height()], answers);
        let answer = things.first()?.answer.clone();
        Some(ShownRegion { answer, things, ..ShownRegion::default() })
    }
}
