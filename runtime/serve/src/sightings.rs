//! What the service's own camera saw, and when. Off unless a folder is named.
//!
//! A known thing that was there and has left is a [`Sighting`]: a line of [`LIST_FILE`] and a small picture in that
//! folder, which keeps the newest [`MAX_SIGHTINGS`]. A thing that is still there is listed, too, and written when it
//! leaves or the service ends; a power cut loses that line. [`crate::sighting_recorder`] follows the camera.

mod folder;
mod tracker;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use jiff::Timestamp;
use orco_runtime::files::lock::HeldFile;
use orco_runtime::threads::lock;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::folder::SightingFolder;
use self::tracker::{OngoingSighting, Tracker};
use crate::error::ServeError;
use crate::in_view::KnownThing;

pub use self::folder::{LIST_FILE, MAX_SIGHTINGS};

/// A known thing that was in front of the camera for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sighting {
    /// Names it, and its picture: digits and a dash.
    pub id: String,
    /// When it came.
    pub started: Timestamp,
    /// How long it stayed, in seconds; none while it is there.
    pub seconds: Option<u64>,
    /// The region of the frame; empty where there are none.
    pub region: String,
    /// What it was called then.
    pub label: String,
    /// The highest probability of that label, 0..1.
    pub probability: Option<f64>,
}

impl Sighting {
    fn json(&self) -> Value {
        let Self { id, started, seconds, region, label, probability } = self;
        let region = Some(region).filter(|region| !region.is_empty());
        json!({
            "id": id, "label": label, "probability": probability, "region": region,
            "seconds_since_1970": started.as_second(), "seconds": seconds,
        })
    }
}

/// The sightings, shared by the thread that follows the camera and those that serve. There are none until a folder is
/// opened for them.
#[derive(Clone, Default)]
pub struct Sightings(Arc<OnceLock<Mutex<SightingStore>>>);

struct SightingStore {
    folder: SightingFolder,
    tracker: Tracker,
    /// Keeps other services out of the folder until this one ends.
    claim: Option<HeldFile>,
}

impl fmt::Debug for Sightings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sightings").finish_non_exhaustive()
    }
}

impl Sightings {
    /// Whether they can be kept in a folder that is there; nothing is written.
    ///
    /// # Errors
    /// [`ServeError::Sightings`] if it is no folder, cannot be read, or holds other files and no sightings.
    pub fn check(folder: &Path) -> Result<(), ServeError> {
        folder::read_list(folder).map(drop)
    }

    /// Whether they are kept.
    pub fn are_kept(&self) -> bool {
        self.0.get().is_some()
    }

    /// Keeps them in a folder from now on, which is made if it is not there. A second folder is not taken.
    ///
    /// # Errors
    /// [`ServeError::Sightings`] if it cannot be read or made, is another service's, or holds other files and no
    /// sightings.
    pub(crate) fn open(&self, folder: &Path) -> Result<(), ServeError> {
        if self.are_kept() {
            return Ok(());
        }
        let _ = self.0.set(Mutex::new(SightingStore::open(folder, Timestamp::now())?));
        Ok(())
    }

    /// Takes up what is shown now; returns whether something has come or left. `picture` makes a JPEG of the frame.
    pub(crate) fn see(&self, shown: Vec<KnownThing>, picture: impl Fn() -> Option<Vec<u8>>) -> bool {
        let Some(store) = self.0.get() else { return false };
        let (mut store, now) = (lock(store), Instant::now());
        let has_come = store.tracker.see(now, Timestamp::now(), shown, picture);
        let left = store.tracker.left(now);
        let has_changed = has_come || !left.is_empty();
        left.into_iter().for_each(|ended| store.keep(ended));
        has_changed
    }

    /// Nothing more will be seen: whatever is there was seen until now, and another service may take the folder.
    pub(crate) fn end(&self) {
        let Some(store) = self.0.get() else { return };
        let mut store = lock(store);
        let ended = store.tracker.end();
        ended.into_iter().for_each(|ended| store.keep(ended));
        drop(store.claim.take());
    }

    /// As programs get them, the newest first: those of things that are still there, then the others.
    pub fn json(&self) -> Value {
        let Some(store) = self.0.get() else {
            return json!({ "kept": false, "most": 0, "problem": null, "sightings": [] });
        };
        let store = lock(store);
        let ongoing = store.tracker.ongoing().map(|ongoing| ongoing.sighting.json());
        let sightings: Vec<Value> = ongoing.chain(store.folder.newest_first().map(Sighting::json)).collect();
        json!({ "kept": true, "most": MAX_SIGHTINGS, "problem": store.folder.problem(), "sightings": sightings })
    }

    /// Whether they could not be written at the last attempt.
    pub fn are_failing(&self) -> bool {
        self.0.get().is_some_and(|store| lock(store).folder.problem().is_some())
    }

    /// The file of those whose thing has left.
    pub fn csv(&self) -> Vec<u8> {
        self.0.get().map(|store| lock(store).folder.csv()).unwrap_or_default()
    }

    /// The picture of one, a JPEG.
    pub fn picture(&self, id: &str) -> Option<Vec<u8>> {
        let store = lock(self.0.get()?);
        let ongoing = store.tracker.ongoing().find(|ongoing| ongoing.sighting.id == id);
        ongoing.map_or_else(|| store.folder.picture(id), |ongoing| ongoing.picture.clone())
    }

    /// Removes those of some labels, also of things that are there.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn remove(&self, labels: &BTreeSet<String>) -> io::Result<()> {
        self.remove_where(|sighting| labels.contains(&sighting.label))
    }

    /// Removes all. A thing that is still there is seen anew.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn clear(&self) -> io::Result<()> {
        self.remove_where(|_| true)
    }

    fn remove_where(&self, is_gone: impl Fn(&Sighting) -> bool) -> io::Result<()> {
        let Some(store) = self.0.get() else { return Ok(()) };
        let mut store = lock(store);
        store.tracker.remove(&is_gone);
        store.folder.remove(&is_gone)
    }
}

impl SightingStore {
    fn open(folder: &Path, now: Timestamp) -> Result<Self, ServeError> {
        // Before anything of it is read.
        let claim = folder::claim(folder)?;
        let (folder, mut tracker) = (SightingFolder::open(folder)?, Tracker::default());
        // The clock may be behind an earlier run's: a board without a battery starts at the same second each time.
        tracker.continue_after(folder.newest_id().map_or(now, |newest| newest.max(now)));
        Ok(Self { folder, tracker, claim })
    }

    fn keep(&mut self, ended: OngoingSighting) {
        self.folder.add(ended.sighting, ended.picture.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_folder_is_one_services_until_that_ends() {
        let place = tempfile::TempDir::new().unwrap();
        let [first, second] = [(); 2].map(|()| Sightings::default());
        first.open(place.path()).unwrap();
        let refused = second.open(place.path()).unwrap_err();
        assert!(refused.to_string().contains("another service keeps its sightings there"), "{refused}");
        assert!(!second.are_kept());
        first.end();
        second.open(place.path()).unwrap();
    }

    #[test]
    fn ids_go_on_behind_those_of_the_folder_where_the_clock_starts_earlier() {
        let place = tempfile::TempDir::new().unwrap();
        let second = |second| Timestamp::from_second(second).unwrap();
        let sighting = Sighting {
            id: "2000-1".into(),
            started: second(2000),
            seconds: Some(3),
            region: String::new(),
            label: "mug".into(),
            probability: None,
        };
        SightingFolder::open(place.path()).unwrap().add(sighting, Some(b"one"));
        let mut store = SightingStore::open(place.path(), second(1000)).unwrap();
        let (thing, start) =
            (KnownThing { region: String::new(), label: "mug".into(), probability: 0.9 }, Instant::now());
        for since in [Duration::ZERO, Duration::from_secs(1)] {
            store.tracker.see(start + since, second(1000), vec![thing.clone()], || Some(vec![2]));
        }
        let ended = store.tracker.end();
        ended.into_iter().for_each(|ended| store.keep(ended));
        assert_eq!(store.folder.problem(), None);
        let ids: Vec<&str> = store.folder.newest_first().map(|sighting| sighting.id.as_str()).collect();
        assert_eq!(ids, ["2001-1", "2000-1"]);
        assert_eq!(["2000-1", "2001-1"].map(|id| store.folder.picture(id)), [Some(b"one".to_vec()), Some(vec![2])]);
    }
}
