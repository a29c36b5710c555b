//! How learned classes were recognised at first.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// How many shots of a learned class were recognised right after the session that learned it, by the answers of then:
/// what later sessions are compared with. (Base classes need nothing stored: the bundle tells.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstRecognition {
    /// Shots of the session, which are the class's first exemplars; 0 where nothing is known.
    pub shots: u32,
    /// How many of them were recognised.
    pub recognised: u32,
}

impl FirstRecognition {
    /// For classes of which this was not recorded.
    pub const UNKNOWN: Self = Self { shots: 0, recognised: 0 };

    /// Whether the numbers fit together.
    fn is_sound(&self) -> bool {
        self.recognised <= self.shots
    }
}

/// First recognitions of the learned classes, in their order. Those of an older release are missing at the end, and
/// stay so on the disk until a session notes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstRecognitions(Vec<FirstRecognition>);

impl FirstRecognitions {
    /// That of a class; [`FirstRecognition::UNKNOWN`] where it was not recorded.
    pub fn of(&self, class: usize) -> FirstRecognition {
        self.0.get(class).copied().unwrap_or(FirstRecognition::UNKNOWN)
    }

    /// Those that are recorded.
    pub fn iter(&self) -> impl Iterator<Item = &FirstRecognition> {
        self.0.iter()
    }

    /// Records that this many classes are known; new ones are unknown.
    pub(crate) fn extend_to(&mut self, classes: usize) {
        self.0.resize(classes, FirstRecognition::UNKNOWN);
    }

    /// Those of all classes, to be noted where they are unknown.
    pub(crate) fn unknown_mut(&mut self) -> impl Iterator<Item = (usize, &mut FirstRecognition)> {
        self.0.iter_mut().enumerate().filter(|(_, recognition)| recognition.shots == 0)
    }

    /// Drops what was recorded of a class, which stays.
    pub(crate) fn clear(&mut self, class: usize) {
        if let Some(recognition) = self.0.get_mut(class) {
            *recognition = FirstRecognition::UNKNOWN;
        }
    }

    /// Removes a class; those after it move up.
    pub(crate) fn remove(&mut self, class: usize) {
        if class < self.0.len() {
            self.0.remove(class);
        }
    }

    /// Whether they can be those of this many classes.
    pub(crate) fn is_sound(&self, classes: usize) -> bool {
        self.0.len() <= classes && self.0.iter().all(FirstRecognition::is_sound)
    }
}
