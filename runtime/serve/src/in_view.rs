//! What is in front of the camera, as rules, brokers and sightings have it: every thing of every region, or that a
//! place is empty.

use serde_json::Value;

/// One thing, or none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum InView {
    /// The place is empty.
    Empty,
    /// Something that is like nothing known.
    Unknown,
    /// Something that is known.
    Known {
        /// Its label.
        label: String,
        /// How probable it is, 0..1.
        probability: Option<f64>,
    },
}

/// A known thing, and where it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KnownThing {
    /// The region's name; empty where the frame is looked at as a whole.
    pub region: String,
    /// Its label.
    pub label: String,
    /// How probable it is, 0..1.
    pub probability: Option<f64>,
}

/// All that the camera shows, of what [`crate::live::Live::json`] says; nothing while it is away.
pub(crate) fn in_view(live: &Value) -> Vec<InView> {
    regions(live).iter().flat_map(in_region).collect()
}

/// The known things among them, with their regions.
pub(crate) fn known_in_view(live: &Value) -> Vec<KnownThing> {
    let known = |region: &Value| {
        let name = region["name"].as_str().unwrap_or_default().to_owned();
        in_region(region).into_iter().filter_map(move |shown| match shown {
            InView::Known { label, probability } => Some(KnownThing { region: name.clone(), label, probability }),
            InView::Empty | InView::Unknown => None,
        })
    };
    regions(live).iter().flat_map(known).collect()
}

/// What is shown of each region; without regions of its own, the frame is one.
fn regions(live: &Value) -> &[Value] {
    if live["state"] != "running" {
        return &[];
    }
    let regions = live["regions"].as_array().filter(|regions| !regions.is_empty());
    regions.map_or_else(|| std::slice::from_ref(live), Vec::as_slice)
}

/// Labels of the known things among them, in order, each once.
#[cfg(any(feature = "mqtt", test))]
pub(crate) fn labels_in_view(live: &Value) -> Vec<String> {
    let known = |shown| if let InView::Known { label, .. } = shown { Some(label) } else { None };
    let mut labels: Vec<String> = in_view(live).into_iter().filter_map(known).collect();
    labels.sort_unstable();
    labels.dedup();
    labels
}

fn in_region(region: &Value) -> Vec<InView> {
    if region["empty"] == true {
        return vec![InView::Empty];
    }
    let things = region["things"].as_array().filter(|things| !things.is_empty());
    let shown = things.map_or_else(|| std::slice::from_ref(region), Vec::as_slice);
    let of_thing = |shown: &Value| {
        let label = shown["label"].as_str()?.to_owned();
        let is_known = shown["known"] == true;
        Some(if is_known {
            InView::Known { label, probability: shown["probability"].as_f64() }
        } else {
            InView::Unknown
        })
    };
    shown.iter().filter_map(of_thing).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn known(label: &str, probability: Option<f64>) -> InView {
        InView::Known { label: label.into(), probability }
    }

    #[test]
    fn every_thing_of_every_region_counts_and_nothing_of_a_camera_that_is_away() {
        let mug = json!({ "label": "mug", "probability": 0.9, "known": true });
        let strange = json!({ "label": "mug", "probability": 0.2, "known": false });
        let duck = json!({ "state": "running", "label": "duck", "known": true });
        let with = |key: &str, value: Value| {
            let mut live = duck.clone();
            live[key] = value;
            live
        };
        assert_eq!(in_view(&duck), [known("duck", None)]);
        assert_eq!(in_view(&with("things", json!([]))), [known("duck", None)]);
        assert_eq!(in_view(&with("things", json!([mug, strange]))), [known("mug", Some(0.9)), InView::Unknown]);
        assert_eq!(in_view(&with("empty", true.into())), [InView::Empty]);
        assert_eq!(in_view(&with("state", "away".into())), []);
        let empty = json!({ "name": "left", "empty": true, "things": [] });
        let shelf = json!({ "name": "shelf", "empty": false, "label": "mug", "known": true, "things": [mug] });
        let both = with("regions", json!([empty, shelf]));
        assert_eq!(in_view(&both), [InView::Empty, known("mug", Some(0.9))]);
        assert_eq!(labels_in_view(&both), ["mug"]);
        let placed = KnownThing { region: "shelf".into(), label: "mug".into(), probability: Some(0.9) };
        assert_eq!(known_in_view(&both), [placed]);
        assert_eq!(labels_in_view(&with("things", json!([mug, duck, strange, mug]))), ["duck", "mug"]);
    }
}
