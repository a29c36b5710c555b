//! What is in front of the camera, as rules, MQTT and sightings see it: every thing in every region, or an empty place.

use crate::agreement::AgreedAnswer;
use crate::live_snapshot::{LiveSnapshot, ShownRegion};

/// What one place shows: a thing, or none.
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
        probability: f64,
    },
}

/// A known thing, and where it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KnownThing {
    /// The region's name; empty where the frame is analysed as a whole.
    pub region: String,
    /// Its label.
    pub label: String,
    /// How probable it is, 0..1.
    pub probability: f64,
}

/// All that the camera shows; nothing while it is away.
pub(crate) fn in_view(live: &LiveSnapshot) -> Vec<InView> {
    shown_regions(live).iter().flat_map(in_region).collect()
}

/// The known things that the camera shows, with their regions.
pub(crate) fn known_in_view(live: &LiveSnapshot) -> Vec<KnownThing> {
    let known = |region: &ShownRegion| {
        let name = region.name.clone();
        in_region(region).into_iter().filter_map(move |shown| match shown {
            InView::Known { label, probability } => Some(KnownThing { region: name.clone(), label, probability }),
            InView::Empty | InView::Unknown => None,
        })
    };
    shown_regions(live).iter().flat_map(known).collect()
}

/// Labels of the known things that the camera shows, sorted, each once.
#[cfg(any(feature = "mqtt", test))]
pub(crate) fn labels_in_view(live: &LiveSnapshot) -> Vec<String> {
    let mut labels: Vec<String> = known_in_view(live).into_iter().map(|thing| thing.label).collect();
    labels.sort_unstable();
    labels.dedup();
    labels
}

fn shown_regions(live: &LiveSnapshot) -> &[ShownRegion] {
    if live.is_running() { &live.regions } else { &[] }
}

fn in_region(region: &ShownRegion) -> Vec<InView> {
    if region.empty {
        return vec![InView::Empty];
    }
    let of_answer = |answer: &AgreedAnswer| {
        let shown = answer.shown()?;
        Some(if answer.known {
            InView::Known { label: shown.label.clone(), probability: shown.probability.into() }
        } else {
            InView::Unknown
        })
    };
    if region.things.is_empty() {
        return of_answer(&region.answer).into_iter().collect();
    }
    region.things.iter().filter_map(|thing| of_answer(&thing.answer)).collect()
}

#[cfg(test)]
mod tests {
    use orco_camera::CameraStatus;

    use super::*;
    use crate::tests::{answer, showing};
    use crate::thing_tracks::AnsweredThing;

    fn thing(label: &str, probability: f32, known: bool) -> AnsweredThing {
        AnsweredThing { id: 1, shares: [0.0; 4], answer: answer(label, probability, known) }
    }

    fn known(label: &str, probability: f64) -> InView {
        InView::Known { label: label.into(), probability }
    }

    #[test]
    fn every_thing_of_every_region_counts_and_nothing_of_a_camera_that_is_away() {
        let (mug, strange) = (thing("mug", 0.5, true), thing("mug", 0.25, false));
        let duck = ShownRegion { answer: answer("duck", 0.75, true), ..ShownRegion::default() };
        let with = |things: &[AnsweredThing]| showing(vec![ShownRegion { things: things.to_vec(), ..duck.clone() }]);
        assert_eq!(in_view(&with(&[])), [known("duck", 0.75)]);
        assert_eq!(in_view(&with(&[mug.clone(), strange.clone()])), [known("mug", 0.5), InView::Unknown]);
        let empty = ShownRegion { empty: true, ..duck.clone() };
        assert_eq!(in_view(&showing(vec![empty.clone()])), [InView::Empty]);
        assert_eq!(in_view(&LiveSnapshot { status: CameraStatus::default(), ..with(&[]) }), []);
        assert_eq!(in_view(&showing(vec![ShownRegion::default()])), [], "no answer yet");
        assert_eq!(in_view(&showing(Vec::new())), [], "no frame yet");
        let named = |name: &str, region: ShownRegion| ShownRegion {
            name: name.into(),
            shares: Some([0.0, 0.0, 0.5, 1.0]),
            ..region
        };
        let shelf = ShownRegion { things: vec![mug.clone()], ..duck.clone() };
        let both = showing(vec![named("left", empty), named("shelf", shelf)]);
        assert_eq!(in_view(&both), [InView::Empty, known("mug", 0.5)]);
        assert_eq!(labels_in_view(&both), ["mug"]);
        let placed = KnownThing { region: "shelf".into(), label: "mug".into(), probability: 0.5 };
        assert_eq!(known_in_view(&both), [placed]);
        let several = with(&[mug.clone(), thing("duck", 0.75, true), strange, mug]);
        assert_eq!(labels_in_view(&several), ["duck", "mug"]);
    }
}
