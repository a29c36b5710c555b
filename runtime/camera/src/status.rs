//! The status of a camera: whether it is connected, and what it delivers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Over how long frames are counted.
const WINDOW: Duration = Duration::from_secs(3);
/// Most frames that are counted: the rate of a faster camera is still right.
const MAX_FRAMES: usize = 512;

/// Whether a camera is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CameraPhase {
    /// It is being opened, or is open and gave no picture yet.
    #[default]
    Opening,
    /// It gives pictures.
    Running,
    /// It is not there, and will be tried again.
    Away {
        /// Why.
        reason: String,
        /// How often it was tried since it was there.
        tries: u32,
    },
}

impl CameraPhase {
    /// Its name for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Running => "running",
            Self::Away { .. } => "away",
        }
    }
}

/// What is known of a camera.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CameraStatus {
    /// Whether it is there.
    pub phase: CameraPhase,
    /// Frames that came since it was first opened.
    pub frames: u64,
    /// Frames a second, over the last three seconds.
    pub frames_per_second: f32,
    /// Frames of those that were decoded that could not be.
    pub unreadable: u64,
    /// What was wrong with the last of them.
    pub unreadable_reason: Option<String>,
    /// How often it was opened and gave a picture.
    pub opened: u64,
}

/// Counts frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrameRate(VecDeque<Instant>);

impl FrameRate {
    pub fn count(&mut self, now: Instant) {
        while self.0.len() >= MAX_FRAMES || self.0.front().is_some_and(|first| now.duration_since(*first) > WINDOW) {
            self.0.pop_front();
        }
        self.0.push_back(now);
    }

    /// Intervals between the frames of the window, over the time from the first of them until the last, or until now if
    /// that is overdue.
    pub fn per_second(&self, now: Instant) -> f32 {
        let recent: Vec<&Instant> = self.0.iter().filter(|frame| now.duration_since(**frame) <= WINDOW).collect();
        let [first, .., last] = recent[..] else { return 0.0 };
        let (intervals, time) = ((recent.len() - 1) as f32, last.duration_since(*first).as_secs_f32());
        let overdue = now.duration_since(*last).as_secs_f32() - time / intervals;
        if time > 0.0 { intervals / (time + overdue.max(0.0)) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_over_the_last_seconds() {
        let (mut rate, start) = (FrameRate::default(), Instant::now());
        assert_eq!(rate.per_second(start), 0.0);
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        (0..100).for_each(|frame| rate.count(at(100 * frame)));
        assert!((rate.per_second(at(9_900)) - 10.0).abs() < 0.1);
        assert!(rate.per_second(at(11_900)) < 5.0, "it has stopped");
        assert_eq!(rate.per_second(at(20_000)), 0.0);
        (0..2_000).for_each(|frame| rate.count(at(30_000 + frame)));
        assert!((rate.per_second(at(32_000)) - 1_000.0).abs() < 10.0);
        assert!(rate.0.len() <= MAX_FRAMES);
    }
}
