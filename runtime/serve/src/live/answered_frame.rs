//! What a frame shows: as a whole, or thing by thing where the empty place is known.

use std::time::Instant;

use orco_runtime::image_rs::RgbImage;
use orco_runtime::scene::{Foreground, Thing};

use super::LiveWorker;
use crate::admission::{Admitted, Permit};
use crate::prediction::{ClassProbability, PictureAnswer};
use crate::thing_tracks::{self, AnsweredThing, ThingAnswer};

/// What a frame is shown as.
#[derive(Default)]
pub(super) struct ShownFrame {
    pub matches: Vec<ClassProbability>,
    pub agreed: usize,
    pub known: bool,
    pub empty: bool,
    pub things: Vec<AnsweredThing>,
}

impl LiveWorker {
    /// Asks what a picture shows, and offers it to the inbox; none if requests went first.
    fn ask(&self, picture: &RgbImage, permit: &Permit) -> Option<PictureAnswer> {
        match self.answers.try_answer(Admitted::new(self.input.fit(picture), permit.clone()))? {
            Ok(answer) => {
                self.inbox.offer(picture, &answer);
                Some(answer)
            }
            Err(refusal) => {
                log::warn!("camera: {}", refusal.sentence);
                None
            }
        }
    }

    /// What a frame as a whole shows.
    pub(super) fn whole(&mut self, picture: &RgbImage, permit: &Permit, taken: Instant) -> Option<ShownFrame> {
        self.things.clear();
        let answer = self.ask(picture, permit)?;
        let matches = self.agreement.add(taken, answer.classes, answer.known);
        let (agreed, known) = (self.agreement.frames(), self.agreement.is_known());
        Some(ShownFrame { matches, agreed, known, ..ShownFrame::default() })
    }

    /// Nothing: that is no class, and what was there counts no more.
    pub(super) fn empty(&mut self) -> Option<ShownFrame> {
        self.agreement.clear();
        Some(ShownFrame { empty: true, ..ShownFrame::default() })
    }

    /// What the things in a frame are; the one in the middle is shown first.
    pub(super) fn things(
        &mut self,
        picture: &RgbImage,
        foreground: &Foreground,
        permit: &Permit,
        taken: Instant,
    ) -> Option<ShownFrame> {
        self.agreement.clear();
        let mut things: Vec<&Thing> = foreground.things().iter().take(thing_tracks::MOST).collect();
        let central = foreground.central().map(|thing| thing.bounds);
        things.sort_by_key(|thing| Some(thing.bounds) != central);
        let fill = self.input.mean_colour();
        let mut answers = Vec::new();
        for thing in things {
            let PictureAnswer { classes, known, .. } = self.ask(&foreground.cut_out(picture, thing, fill), permit)?;
            answers.push(ThingAnswer { bounds: thing.bounds, classes, known });
        }
        let things = self.things.add(taken, [picture.width(), picture.height()], answers);
        let first = things.first()?;
        let (matches, agreed, known) = (first.matches.clone(), first.agreed, first.known);
        Some(ShownFrame { matches, agreed, known, empty: false, things })
    }
}
