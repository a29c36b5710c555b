//! The regions of the service's own camera: parts of its frames, each with answers of its own.
//!
//! They come from the settings, or people draw them. Drawn regions are kept beside the state and apply where the
//! settings name none.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use orco_runtime::scene::{NamedRegion, Region, RegionFile};
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::Store;
use orco_runtime::threads::lock;
use serde_json::{Value, json};

use crate::error::ServeError;
use crate::refusal::Refusal;

/// Most regions of a camera.
pub const MAX_REGIONS: usize = 8;

/// The regions, shared by the camera's thread and those that serve. Each has a name, and shares of the frame: frames
/// are analysed at other sizes than the camera's.
#[derive(Clone)]
pub struct CameraRegions(Arc<SharedRegions>);

struct SharedRegions {
    kept: RegionFile,
    regions: Mutex<Arc<[NamedRegion]>>,
}

impl CameraRegions {
    /// Reads the regions that are kept beside a state. If they cannot be read or used, there are none, and the log says
    /// why.
    pub fn of(store: &Store) -> Self {
        let kept = RegionFile::of(store.folder());
        let regions = kept.read().map_err(|error| with_causes(&error)).and_then(|regions| match problem(&regions) {
            Some(problem) => Err(format!("the regions that were kept cannot be used: {problem}; draw them again")),
            None => Ok(regions),
        });
        let regions = regions.unwrap_or_else(|why| {
            log::warn!("{why}");
            Vec::new()
        });
        Self(Arc::new(SharedRegions { kept, regions: Mutex::new(regions.into()) }))
    }

    /// The regions; none if frames are analysed as a whole.
    pub fn get(&self) -> Arc<[NamedRegion]> {
        Arc::clone(&lock(&self.0.regions))
    }

    /// Takes the regions of the settings, as long as the service runs.
    ///
    /// # Errors
    /// [`ServeError::Camera`] if they cannot be used.
    pub fn set(&self, regions: Vec<NamedRegion>) -> Result<(), ServeError> {
        check(&regions)?;
        *lock(&self.0.regions) = regions.into();
        Ok(())
    }

    /// Takes other regions, and keeps them.
    ///
    /// # Errors
    /// [`Refusal`] if they cannot be used or kept; the earlier ones hold then.
    pub fn keep(&self, regions: Vec<NamedRegion>) -> Result<(), Refusal> {
        if let Some(problem) = problem(&regions) {
            return Err(Refusal::bad_request(problem));
        }
        let mut held = lock(&self.0.regions);
        self.0.kept.keep(&regions).map_err(|error| Refusal::storage(&error))?;
        *held = regions.into();
        Ok(())
    }

    /// As programs get them.
    pub fn json(&self) -> Value {
        let region = |named: &NamedRegion| match named.region {
            Region::Shares(shares) => json!({ "name": named.name, "box": shares }),
            _ => json!({ "name": named.name }),
        };
        self.get().iter().map(region).collect()
    }
}

/// Whether a camera can have these regions.
///
/// # Errors
/// [`ServeError::Camera`] if not.
pub fn check(regions: &[NamedRegion]) -> Result<(), ServeError> {
    problem(regions).map_or(Ok(()), |problem| Err(ServeError::Camera(problem)))
}

/// Why regions cannot be used, in a sentence.
fn problem(regions: &[NamedRegion]) -> Option<String> {
    if regions.len() > MAX_REGIONS {
        return Some(format!("a camera has at most {MAX_REGIONS} regions, these are {}", regions.len()));
    }
    let names: BTreeSet<&str> = regions.iter().map(|named| named.name.as_str()).collect();
    if names.contains("") {
        return Some("every region needs a name: NAME=X,Y,WIDTH,HEIGHT".into());
    }
    if names.len() < regions.len() {
        return Some("two regions have one name".into());
    }
    let in_pixels = regions.iter().find(|named| !matches!(named.region, Region::Shares(_)))?;
    Some(format!("the region {in_pixels} is in pixels: give shares of the frame, such as 0.5,0,0.5,1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::warnings;

    #[test]
    fn regions_are_kept_and_those_that_cannot_be_used_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<NamedRegion>>();
        let regions = CameraRegions::of(&store);
        regions.keep(parse(&["shelf=0,0,1,0.5", "table=0,0.5,1,0.5"])).unwrap();
        assert_eq!(CameraRegions::of(&store).json()[1], json!({ "name": "table", "box": [0.0, 0.5, 1.0, 0.5] }));
        for (wrong, why) in [
            (&["0,0,1,0.5"][..], "needs a name"),
            (&["a=0,0,1,0.5", "a=0,0.5,1,0.5"], "two regions have one name"),
            (&["a=0,0,320,200"], "the region a=0,0,320,200 is in pixels"),
        ] {
            let refused = regions.keep(parse(wrong)).unwrap_err();
            assert!(refused.sentence.contains(why), "{}", refused.sentence);
        }
        regions.set(parse(&["door=0.2,0,0.5,1"])).unwrap();
        assert_eq!(regions.get()[0].name, "door");
        assert_eq!(CameraRegions::of(&store).get().len(), 2, "those of the settings are not kept");
        regions.keep(Vec::new()).unwrap();
        assert!(CameraRegions::of(&store).get().is_empty());
        std::fs::write(folder.path().join("regions"), "a=0,0,1,0.5\na=0,0.5,1,0.5\n").unwrap();
        warnings();
        assert!(CameraRegions::of(&store).get().is_empty());
        let said = "the regions that were kept cannot be used: two regions have one name; draw them again";
        assert_eq!(warnings(), [said]);
    }
}
