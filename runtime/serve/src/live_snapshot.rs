//! What the service's own camera shows at one moment. Rules, sightings, MQTT and listeners read it; programs get it as
//! JSON.

use std::sync::Arc;
use std::time::Duration;

use orco_camera::{CameraPhase, CameraStatus};
use serde_json::{Value, json};

use crate::agreement::AgreedAnswer;
use crate::camera_scene::SceneStatus;
use crate::thing_tracks::AnsweredThing;

/// What the camera shows at a moment, and its status.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LiveSnapshot {
    /// Where its frames come from.
    pub source: String,
    /// Whether it is there, and how many frames came.
    pub status: CameraStatus,
    /// Why frames cannot be processed.
    pub problem: Option<String>,
    /// What its regions show, or the frame as a whole; none while no frame was processed.
    pub regions: Arc<[ShownRegion]>,
    /// How the camera's background is doing.
    pub scene: SceneStatus,
    /// Number of the newest frame that was processed.
    pub frame: Option<u64>,
    /// Time since that frame came.
    pub age: Option<Duration>,
}

impl LiveSnapshot {
    /// Whether the camera gives pictures.
    pub fn is_running(&self) -> bool {
        self.status.phase == CameraPhase::Running
    }

    /// The frame as a whole, or its first region; one that shows nothing while no frame was processed.
    pub fn first_region(&self) -> &ShownRegion {
        self.regions.first().unwrap_or(&NOTHING)
    }

    /// The regions that have names; none where the frame is analysed as a whole.
    pub fn named_regions(&self) -> impl Iterator<Item = &ShownRegion> {
        self.regions.iter().filter(|region| region.shares.is_some())
    }

    /// As programs get it.
    pub fn json(&self) -> Value {
        let (first, status) = (self.first_region(), &self.status);
        let reason = match &status.phase {
            CameraPhase::Away { reason, .. } => Some(reason.as_str()),
            _ => None,
        };
        let things = self.regions.iter().flat_map(|region| &region.things).map(AnsweredThing::json);
        first.answer.json_with(json!({
            "source": self.source, "state": status.phase.name(),
            "reason": reason, "problem": self.problem,
            "provisional": first.answer.shown().is_some_and(|shown| shown.provisional),
            "empty": first.empty, "things": things.collect::<Vec<_>>(),
            "regions": self.named_regions().map(ShownRegion::json).collect::<Vec<_>>(), "scene": self.scene.json(),
            "frame": self.frame, "age_seconds": self.age.map(|age| age.as_secs_f32()),
            "frames_per_second": status.frames_per_second, "frames": status.frames, "opened": status.opened,
            "unreadable": status.unreadable, "unreadable_reason": status.unreadable_reason,
        }))
    }
}

/// What is shown while no frame was processed.
static NOTHING: ShownRegion = ShownRegion {
    name: String::new(),
    shares: None,
    answer: AgreedAnswer { classes: Vec::new(), frames: 0, known: false },
    problem: None,
    empty: false,
    things: Vec::new(),
};

/// What a region of a frame is shown as, or the frame where it has none.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ShownRegion {
    /// The region's name; empty if the frame has none.
    pub name: String,
    /// Where it is, as shares of the frame's sides: left edge, upper edge, width, height; none for a frame as a whole.
    pub shares: Option<[f32; 4]>,
    /// What it shows, or the thing in its middle.
    pub answer: AgreedAnswer,
    /// Why it cannot be answered.
    pub problem: Option<String>,
    /// Whether the place is empty, as far as it was shown.
    pub empty: bool,
    /// The things in front of the background; none where there is no background.
    pub things: Vec<AnsweredThing>,
}

impl ShownRegion {
    /// The region with the classes that programs are told ([`AgreedAnswer::summary`]).
    pub fn summary(&self) -> Self {
        let things = self.things.iter();
        Self {
            name: self.name.clone(),
            problem: self.problem.clone(),
            answer: self.answer.summary(),
            things: things.map(|thing| AnsweredThing { answer: thing.answer.summary(), ..*thing }).collect(),
            ..*self
        }
    }

    /// As programs get it.
    pub fn json(&self) -> Value {
        self.answer.json_with(json!({
            "name": self.name, "box": self.shares, "problem": self.problem, "empty": self.empty,
            "things": self.things.iter().map(AnsweredThing::json).collect::<Vec<_>>(),
        }))
    }
}
