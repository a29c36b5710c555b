//! Which things come and go.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::Sighting;
use crate::in_view::KnownThing;

/// Shortest stay that is a sighting: answers change while a hand puts something down.
const MIN_STAY: Duration = Duration::from_secs(1);
/// A thing that is not seen for this long has left. Until then, somebody may just stand in front of it.
const MAX_ABSENCE: Duration = Duration::from_secs(5);

/// A sighting whose thing is there, or was a moment ago.
#[derive(Clone, Debug)]
pub(super) struct OngoingSighting {
    pub sighting: Sighting,
    /// A JPEG of the frame, once it was there long enough to count.
    pub picture: Option<Vec<u8>>,
    first: Instant,
    last: Instant,
}

impl OngoingSighting {
    /// Whether it has lasted long enough to be a sighting.
    fn counts(&self) -> bool {
        self.last - self.first >= MIN_STAY
    }

    fn ended(mut self) -> Self {
        self.sighting.seconds = Some((self.last - self.first).as_secs());
        self
    }
}

/// Follows what is shown, by region and label.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    /// In the order in which they came.
    ongoing: Vec<OngoingSighting>,
    /// The second of the last id, and how many ids that second had.
    last_id: (i64, u32),
}

impl Tracker {
    /// Starts ids two seconds after `time`: an earlier run may have used ids of any second up to the one after it.
    pub fn continue_after(&mut self, time: Timestamp) {
        self.last_id = (time.as_second() + 1, 0);
    }

    /// Those that count, the newest first.
    pub fn ongoing(&self) -> impl Iterator<Item = &OngoingSighting> {
        self.ongoing.iter().rev().filter(|ongoing| ongoing.counts())
    }

    /// Takes up what is shown at a moment; returns whether something is there now that was not before. `picture` makes
    /// a JPEG of the frame.
    pub fn see(
        &mut self,
        now: Instant,
        time: Timestamp,
        shown: Vec<KnownThing>,
        picture: impl Fn() -> Option<Vec<u8>>,
    ) -> bool {
        let mut has_begun = false;
        for thing in shown {
            let is_same = |known: &&mut OngoingSighting| {
                known.sighting.label == thing.label && known.sighting.region == thing.region
            };
            let Some(ongoing) = self.ongoing.iter_mut().find(is_same) else {
                let sighting = Sighting {
                    id: self.next_id(time),
                    started: Timestamp::from_second(time.as_second()).unwrap_or(time),
                    seconds: None,
                    region: thing.region,
                    label: thing.label,
                    probability: Some(thing.probability),
                };
                self.ongoing.push(OngoingSighting { sighting, picture: None, first: now, last: now });
                continue;
            };
            let counted = ongoing.counts();
            ongoing.last = now;
            let before = ongoing.sighting.probability;
            ongoing.sighting.probability =
                Some(before.map_or(thing.probability, |before| before.max(thing.probability)));
            if ongoing.counts() && !counted {
                ongoing.picture = picture();
                has_begun = true;
            }
        }
        has_begun
    }

    /// Takes out those whose thing has left.
    pub fn left(&mut self, now: Instant) -> Vec<OngoingSighting> {
        self.take(|ongoing| now.saturating_duration_since(ongoing.last) >= MAX_ABSENCE)
    }

    /// Takes out all.
    pub fn end(&mut self) -> Vec<OngoingSighting> {
        self.take(|_| true)
    }

    /// Removes some.
    pub fn remove(&mut self, is_gone: impl Fn(&Sighting) -> bool) {
        self.ongoing.retain(|ongoing| !is_gone(&ongoing.sighting));
    }

    fn take(&mut self, has_left: impl Fn(&OngoingSighting) -> bool) -> Vec<OngoingSighting> {
        let (left, ongoing) = std::mem::take(&mut self.ongoing).into_iter().partition(has_left);
        self.ongoing = ongoing;
        left.into_iter().filter(OngoingSighting::counts).map(OngoingSighting::ended).collect()
    }

    /// The second at which it comes, and a number within that second. Where the clock was set back, seconds go on.
    fn next_id(&mut self, time: Timestamp) -> String {
        let (second, count) = self.last_id;
        self.last_id = if time.as_second() > second { (time.as_second(), 1) } else { (second, count + 1) };
        format!("{}-{}", self.last_id.0, self.last_id.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thing(label: &str, probability: f64) -> KnownThing {
        KnownThing { region: String::new(), label: label.into(), probability }
    }

    /// Shows labels for each tenth of a second; returns what has left by then.
    fn show(tracker: &mut Tracker, start: Instant, tenths: std::ops::Range<u32>, label: Option<&str>) -> Vec<Sighting> {
        let mut left = Vec::new();
        for tenth in tenths {
            let since = Duration::from_millis(100) * tenth;
            let time = Timestamp::from_second(1000 + i64::from(tenth / 10)).unwrap();
            let shown = label.into_iter().map(|label| thing(label, f64::from(tenth) / 1000.0)).collect();
            tracker.see(start + since, time, shown, || Some(vec![1]));
            left.extend(tracker.left(start + since).into_iter().map(|ongoing| ongoing.sighting));
        }
        left
    }

    #[test]
    fn a_thing_is_seen_once_however_often_somebody_stands_before_it() {
        let (mut tracker, start) = (Tracker::default(), Instant::now());
        assert_eq!(show(&mut tracker, start, 0..30, Some("mug")), []);
        assert_eq!(show(&mut tracker, start, 30..70, None), []);
        assert_eq!(tracker.ongoing().count(), 1, "it may come back");
        assert_eq!(show(&mut tracker, start, 70..100, Some("mug")), []);
        let left = show(&mut tracker, start, 100..160, None);
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!((left[0].seconds, left[0].started.as_second()), (Some(9), 1000));
        assert_eq!(left[0].probability, Some(0.099), "the highest one");
        assert_eq!(tracker.ongoing().count(), 0);
    }

    #[test]
    fn what_is_there_for_a_moment_is_no_sighting() {
        let (mut tracker, start) = (Tracker::default(), Instant::now());
        show(&mut tracker, start, 0..5, Some("mug"));
        assert_eq!(tracker.ongoing().count(), 0);
        assert_eq!(show(&mut tracker, start, 5..100, None), []);
        assert!(tracker.end().is_empty());
    }

    #[test]
    fn ids_are_new_also_where_the_clock_is_set_back() {
        let mut tracker = Tracker::default();
        let id = |tracker: &mut Tracker, second| tracker.next_id(Timestamp::from_second(second).unwrap());
        assert_eq!(
            [1000, 1000, 900, 1001].map(|second| id(&mut tracker, second)),
            ["1000-1", "1000-2", "1000-3", "1001-1"]
        );
        tracker.continue_after(Timestamp::from_second(1001).unwrap());
        assert_eq!(id(&mut tracker, 1001), "1002-1");
    }
}
