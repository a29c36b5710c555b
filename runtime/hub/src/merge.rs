//! Packs of one label from several devices: merged into one class, or kept apart under names of their own.

use std::collections::{BTreeMap, BTreeSet};

use orco_runtime::pack::{MAX_THUMBNAILS, Pack, PackOrigin};
use orco_runtime::state::bank::Bank;
use orco_runtime::state::escape::EscapedText;
use orco_runtime::state::label;
use orco_runtime::state::state::MAX_SHOTS;

/// What the operator wants of packs that have the same label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SameLabel {
    /// Nothing: such packs are not released.
    #[default]
    Refuse,
    /// One class with the shots of all.
    Merge,
    /// A class each, named by label and device.
    Apart,
}

/// Why packs cannot be released together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The operator has not chosen.
    #[error("{count} packs have the label \"{label}\": merge them or keep them apart")]
    Undecided {
        /// The label.
        label: String,
        /// How many packs have it.
        count: usize,
    },
    /// They were made with different bundles, or store their shots in different ways.
    #[error("the packs of \"{label}\" were made with different bundles; only packs of one bundle are merged")]
    OtherBundle {
        /// The label.
        label: String,
    },
    /// Together they hold too many shots.
    #[error("the packs of \"{label}\" hold {shots} shots together, but a class may have at most {MAX_SHOTS}")]
    TooManyShots {
        /// The label.
        label: String,
        /// Their shots.
        shots: usize,
    },
    /// Two packs would have the same name although they are kept apart.
    #[error(
        "two packs of \"{label}\" come from the same device, or from devices of the same name: name one pack of each \
         device, or enrol one of the devices once more, under another name"
    )]
    SameDevice {
        /// The label.
        label: String,
    },
    /// The name of a device can be no part of a label, as in fleets that enrolled it with an older program.
    #[error(
        "the packs of \"{label}\" cannot be combined: \"{}\" can be no part of a label; enrol this device once more, \
         under another name",
        EscapedText(device)
    )]
    DeviceName {
        /// The label.
        label: String,
        /// The device.
        device: String,
    },
    /// The new label, or the names of the devices together, are too long.
    #[error("the label and the devices' names of \"{label}\" are too long together")]
    TooLong {
        /// The label.
        label: String,
    },
}

/// A pack that a device pushed.
#[derive(Clone, Debug)]
pub struct PushedPack<Id> {
    /// How the caller knows it.
    pub id: Id,
    /// Name of the device.
    pub device: String,
    /// The pack.
    pub pack: Pack,
}

/// A pack that is to be released.
#[derive(Clone, Debug)]
pub struct CombinedPack<Id> {
    /// Those that it was made of.
    pub origins: Vec<Id>,
    /// The pack.
    pub pack: Pack,
}

/// Combines packs for release, as the operator chose for those of the same label. Unless packs are kept apart, those
/// whose label no other has stay as they are.
///
/// # Errors
/// [`MergeError`] if packs of one label cannot be combined that way.
pub fn combine<Id>(packs: Vec<PushedPack<Id>>, choice: SameLabel) -> Result<Vec<CombinedPack<Id>>, MergeError> {
    let mut by_label: BTreeMap<String, Vec<PushedPack<Id>>> = BTreeMap::new();
    for pushed in packs {
        by_label.entry(label::normal(&pushed.pack.label)).or_default().push(pushed);
    }
    let mut combined = Vec::new();
    for (label, group) in by_label {
        match (group.len(), choice) {
            (_, SameLabel::Apart) => combined.extend(kept_apart(&label, group)?),
            (1, _) => {
                combined.extend(group.into_iter().map(|one| CombinedPack { origins: vec![one.id], pack: one.pack }))
            }
            (count, SameLabel::Refuse) => return Err(MergeError::Undecided { label, count }),
            (_, SameLabel::Merge) => combined.extend(merged(&label, group)?),
        }
    }
    Ok(combined)
}

/// One pack with the shots of all, in order, each once: a device that learned an earlier merge pushes the shots of the
/// others again. Its origin names every device.
fn merged<Id>(label: &str, group: Vec<PushedPack<Id>>) -> Result<Option<CombinedPack<Id>>, MergeError> {
    let devices: Vec<&str> = group.iter().map(|pushed| pushed.device.as_str()).collect();
    if let Some(device) = devices.iter().find(|device| !label::is_plain(device)) {
        return Err(MergeError::DeviceName { label: label.into(), device: (*device).into() });
    }
    let devices = devices.join(", ");
    let mut group = group.into_iter();
    let Some(first) = group.next() else { return Ok(None) };
    let mut all = CombinedPack { origins: vec![first.id], pack: first.pack };
    let mut known: BTreeSet<[u8; 32]> = digests(&all.pack.exemplars).collect();
    for PushedPack { id, pack, .. } in group {
        if pack.bundle_digest != all.pack.bundle_digest || !pack.exemplars.has_layout_of(&all.pack.exemplars) {
            return Err(MergeError::OtherBundle { label: label.into() });
        }
        for (exemplar, digest) in digests(&pack.exemplars).enumerate() {
            if known.insert(digest) {
                all.pack.exemplars.push_from(&pack.exemplars, exemplar, 0);
            }
        }
        // The same pictures again would keep others out, since there is room for a few only.
        for thumbnail in pack.thumbnails {
            if !all.pack.thumbnails.contains(&thumbnail) {
                all.pack.thumbnails.push(thumbnail);
            }
        }
        all.origins.push(id);
    }
    let shots = all.pack.exemplars.len();
    if shots > MAX_SHOTS {
        return Err(MergeError::TooManyShots { label: label.into(), shots });
    }
    all.pack.thumbnails.truncate(MAX_THUMBNAILS);
    all.pack.origin = PackOrigin { device: Some(devices), created: None, ..all.pack.origin };
    checked(label, all).map(Some)
}

fn digests(exemplars: &Bank) -> impl Iterator<Item = [u8; 32]> {
    (0..exemplars.len()).map(|exemplar| exemplars.digest_of(exemplar))
}

/// The packs under names that tell them apart.
fn kept_apart<Id>(label: &str, group: Vec<PushedPack<Id>>) -> Result<Vec<CombinedPack<Id>>, MergeError> {
    let rename = |PushedPack { id, device, mut pack }: PushedPack<Id>| {
        pack.label = label::normal(&format!("{label} ({device})"));
        if pack.label.len() <= label::MAX_TEXT && !label::is_usable(&pack.label) {
            return Err(MergeError::DeviceName { label: label.into(), device });
        }
        checked(label, CombinedPack { origins: vec![id], pack })
    };
    let renamed = group.into_iter().map(rename).collect::<Result<Vec<_>, _>>()?;
    let labels: Vec<&str> = renamed.iter().map(|combined| combined.pack.label.as_str()).collect();
    if label::first_repeated(&labels).is_some() {
        return Err(MergeError::SameDevice { label: label.into() });
    }
    Ok(renamed)
}

fn checked<Id>(label: &str, combined: CombinedPack<Id>) -> Result<CombinedPack<Id>, MergeError> {
    if combined.pack.is_sound() { Ok(combined) } else { Err(MergeError::TooLong { label: label.into() }) }
}

#[cfg(test)]
mod tests {
    use orco_runtime::method::exemplar::ExemplarPrecision;

    use super::*;

    fn pushed(id: u32, label: &str, device: &str, shots: usize) -> PushedPack<u32> {
        let mut exemplars = Bank::new(2, 1, ExemplarPrecision::F16);
        (0..shots).for_each(|shot| exemplars.push(0, &[id as f32, shot as f32]));
        let origin = PackOrigin { device: Some(device.into()), ..PackOrigin::default() };
        let pack = Pack { label: label.into(), bundle_digest: [7; 32], exemplars, thumbnails: Vec::new(), origin };
        PushedPack { id, device: device.into(), pack }
    }

    #[test]
    fn packs_of_one_label_need_a_choice() {
        let packs = || vec![pushed(1, "mug", "door 3", 2), pushed(2, "mug", "door 7", 3), pushed(3, "cup", "gate", 1)];
        let refused = combine(packs(), SameLabel::Refuse).unwrap_err();
        assert_eq!(refused, MergeError::Undecided { label: "mug".into(), count: 2 });
        let merged = combine(packs(), SameLabel::Merge).unwrap();
        assert_eq!(merged.len(), 2);
        assert_eq!((merged[0].pack.label.as_str(), &merged[0].origins[..]), ("cup", &[3][..]));
        assert_eq!((merged[1].pack.label.as_str(), &merged[1].origins[..]), ("mug", &[1, 2][..]));
        assert_eq!(merged[1].pack.exemplars.len(), 5);
        assert_eq!(merged[1].pack.origin.device.as_deref(), Some("door 3, door 7"));
        let apart = combine(packs(), SameLabel::Apart).unwrap();
        let labels: Vec<&str> = apart.iter().map(|combined| combined.pack.label.as_str()).collect();
        assert_eq!(labels, ["cup (gate)", "mug (door 3)", "mug (door 7)"]);
        assert_eq!(apart[2].origins, [2]);
    }

    #[test]
    fn merging_keeps_every_shot_in_order() {
        let packs = vec![pushed(1, "mug", "a", 2), pushed(2, "mug", "b", 1)];
        let merged = combine(packs, SameLabel::Merge).unwrap().remove(0).pack.exemplars;
        assert_eq!(merged.clean(), [1.0, 0.0, 1.0, 1.0, 2.0, 0.0]);
        assert_eq!(merged.classes(), [0, 0, 0]);
    }

    /// Both devices learned the merged pack, and one was given a further shot.
    #[test]
    fn merging_again_doubles_no_shot() {
        let packs = vec![pushed(1, "mug", "a", 600), pushed(2, "mug", "b", 300)];
        let merged = combine(packs, SameLabel::Merge).unwrap().remove(0).pack;
        let mut further = merged.clone();
        further.exemplars.push(0, &[3.0, 0.0]);
        let of = |id, device: &str, pack: &Pack| PushedPack { id, device: device.into(), pack: pack.clone() };
        let again = combine(vec![of(3, "a", &merged), of(4, "b", &further)], SameLabel::Merge).unwrap().remove(0);
        assert_eq!(again.origins, [3, 4]);
        assert_eq!(again.pack.exemplars.len(), 901);
        assert_eq!(again.pack.exemplars.clean(), further.exemplars.clean());
    }

    #[test]
    fn what_cannot_be_combined_is_refused() {
        let mut other = pushed(2, "mug", "b", 1);
        other.pack.bundle_digest = [8; 32];
        let refused = combine(vec![pushed(1, "mug", "a", 1), other], SameLabel::Merge).unwrap_err();
        assert_eq!(refused, MergeError::OtherBundle { label: "mug".into() });
        let many = combine(vec![pushed(1, "mug", "a", 600), pushed(2, "mug", "b", 500)], SameLabel::Merge);
        assert_eq!(many.unwrap_err(), MergeError::TooManyShots { label: "mug".into(), shots: 1100 });
        let twice = combine(vec![pushed(1, "mug", "a", 1), pushed(2, "mug", "a", 1)], SameLabel::Apart);
        assert_eq!(twice.unwrap_err(), MergeError::SameDevice { label: "mug".into() });
        for (device, choice) in
            [("cam=1", SameLabel::Apart), ("door\t3", SameLabel::Apart), ("door\u{200b}3", SameLabel::Merge)]
        {
            let refused = combine(vec![pushed(1, "mug", device, 1), pushed(2, "mug", "b", 1)], choice).unwrap_err();
            assert_eq!(refused, MergeError::DeviceName { label: "mug".into(), device: device.into() });
        }
        let long = "x".repeat(1000);
        let packs = vec![pushed(1, "mug", &long, 1), pushed(2, "mug", &long[1..], 1)];
        assert_eq!(combine(packs, SameLabel::Merge).unwrap_err(), MergeError::TooLong { label: "mug".into() });
    }
}
