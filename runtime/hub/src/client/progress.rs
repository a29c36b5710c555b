//! How far a device has come: what it learned from its channel, pushed and refused.

use std::collections::BTreeSet;

use orco_runtime::state::label;
use serde::{Deserialize, Serialize};

use crate::protocol::{MAX_TEXT, ObjectDigest, ReleaseId, ReleaseOutcome};

/// Pushed versions of one label that are remembered.
const MAX_PUSHED_PER_LABEL: usize = 16;
/// Packs that are remembered after the channel replaced them or took them back.
const MAX_FORMER: usize = 256;

/// A pack that the device learned because its channel holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LearnedPack {
    /// The released pack.
    pub pack: ObjectDigest,
    /// Digest of the learner file of its bundle.
    #[serde(rename = "bundle")]
    pub bundle_digest: ObjectDigest,
    /// The class's label; empty where the class was purged.
    pub label: String,
    /// Digest of the class's shots as they were learned ([`super::shots_digest::shots_digest`]).
    #[serde(rename = "content")]
    pub shots_digest: ObjectDigest,
}

/// A class that the device pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PushedClass {
    /// The class's label; empty where the class was purged.
    pub label: String,
    /// Digest of its shots as they were pushed.
    #[serde(rename = "content")]
    pub shots_digest: ObjectDigest,
    /// The pack.
    pub pack: ObjectDigest,
    /// Digest of the learner file of its bundle. Older programs did not write it.
    #[serde(rename = "bundle", default)]
    pub bundle_digest: Option<ObjectDigest>,
    /// Whether its pictures were pushed, too.
    pub pictures: bool,
    /// How many pictures that were. Older programs did not write it: their pictures are pushed once more.
    #[serde(default)]
    pub picture_count: Option<u32>,
}

impl PushedClass {
    /// Whether it is a version of that class with these shots.
    pub fn has_shots(&self, label: &str, shots_digest: ObjectDigest) -> bool {
        self.shots_digest == shots_digest && label::same(&self.label, label)
    }
}

/// A release that the device refused for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RefusedRelease {
    /// The release.
    pub release: ReleaseId,
    /// Its bundle's manifest: a hub that was restored from a backup may give the number again. Older programs did not
    /// write it; what they refused is tried once more.
    #[serde(default)]
    pub manifest: Option<ObjectDigest>,
    /// Why.
    pub reason: String,
}

/// How far a device has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SyncProgress {
    pub learned: Vec<LearnedPack>,
    /// Packs that were learned and that the channel replaced or took back since: a backup may bring their classes back.
    #[serde(default)]
    pub former: Vec<LearnedPack>,
    /// Whether a backup was restored since the last round, so that this one looks for classes of former packs.
    #[serde(default)]
    pub is_restored: bool,
    /// The pack that is about to be learned: after a power cut, the state tells whether it was.
    #[serde(default)]
    pub learning: Option<LearnedPack>,
    pub pushed: Vec<PushedClass>,
    pub refused: Vec<RefusedRelease>,
    /// What became of the releases of the channel in the last round.
    #[serde(default)]
    pub outcomes: Vec<ReleaseOutcome>,
    /// Rounds in a row that began with a number that the hub had seen before.
    #[serde(default)]
    pub replays: u32,
}

impl SyncProgress {
    /// Why a release with this manifest was refused for good, if it was.
    pub fn refusal(&self, release: ReleaseId, manifest: ObjectDigest) -> Option<&str> {
        let is_meant = |refused: &&RefusedRelease| refused.release == release && refused.manifest == Some(manifest);
        self.refused.iter().find(is_meant).map(|refused| refused.reason.as_str())
    }

    /// Remembers a class that was pushed, beside the newest few versions of its label: undo may bring an earlier one
    /// back. A version that is pushed once more takes the place of its record: the hub had lost it, or it was purged,
    /// taught and shared again.
    pub fn remember_pushed(&mut self, class: PushedClass) {
        self.pushed.retain(|pushed| pushed.pack != class.pack && !pushed.has_shots(&class.label, class.shots_digest));
        let same: Vec<usize> =
            (0..self.pushed.len()).filter(|&index| label::same(&self.pushed[index].label, &class.label)).collect();
        if let Some(oldest) = same.first().filter(|_| same.len() >= MAX_PUSHED_PER_LABEL) {
            self.pushed.remove(*oldest);
        }
        self.pushed.push(class);
    }

    /// The record of a class with these shots, if it was pushed.
    pub fn pushed(&self, label: &str, shots_digest: ObjectDigest) -> Option<&PushedClass> {
        self.pushed.iter().find(|pushed| pushed.has_shots(label, shots_digest))
    }

    /// Whether this device pushed a pack.
    pub fn has_pushed(&self, pack: &ObjectDigest) -> bool {
        self.pushed.iter().any(|pushed| pushed.pack == *pack)
    }

    /// Whether this device pushed a pack of a class that was purged since.
    pub fn has_purged(&self, pack: &ObjectDigest) -> bool {
        self.pushed.iter().any(|pushed| pushed.pack == *pack && pushed.label.is_empty())
    }

    /// Forgets what was pushed of classes that are gone though nobody forgot them, so that the channel may bring them
    /// back. Returns whether anything changed.
    pub fn forget_pushed(&mut self, is_gone: impl Fn(&PushedClass) -> bool) -> bool {
        let before = self.pushed.len();
        self.pushed.retain(|pushed| pushed.label.is_empty() || !is_gone(pushed));
        self.pushed.len() < before
    }

    /// Forgets what was learned and pushed of classes that a restored backup does not have; returns whether anything
    /// changed. The next round compares the former packs with the classes that it has.
    pub fn retain_labels(&mut self, labels: &BTreeSet<String>) -> bool {
        let before = self.clone();
        let is_gone = |label: &str| !labels.iter().any(|kept| label::same(kept, label));
        self.learned.retain(|learned| learned.label.is_empty() || !is_gone(&learned.label));
        self.forget_pushed(|pushed| is_gone(&pushed.label));
        self.is_restored |= !self.former.is_empty();
        *self != before
    }

    /// Remembers a pack that was learned, in the place of an earlier one of its label.
    pub fn remember_learned(&mut self, pack: LearnedPack) {
        self.retire(|learned| label::same(&learned.label, &pack.label));
        self.former.retain(|former| former.pack != pack.pack);
        self.learned.push(pack);
        self.learning = None;
    }

    /// Makes packs that were learned former ones, of which the newest are remembered.
    pub fn retire(&mut self, is_meant: impl Fn(&LearnedPack) -> bool) {
        let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.learned).into_iter().partition(is_meant);
        self.learned = kept;
        self.former.extend(gone.into_iter().filter(|former| !former.label.is_empty()));
        self.former.drain(..self.former.len().saturating_sub(MAX_FORMER));
    }

    /// Whether one of these labels stands in it, as a label or, in a sentence, in quotes: a bare word may be no label.
    pub fn mentions(&self, labels: &BTreeSet<String>) -> bool {
        let learned = self.learned.iter().chain(&self.former).chain(&self.learning).map(|learned| &learned.label);
        let mut known = learned.chain(self.pushed.iter().map(|pushed| &pushed.label));
        let refused = self.refused.iter().map(|refused| &refused.reason);
        let mut reasons = refused.chain(self.outcomes.iter().filter_map(|outcome| outcome.refused.as_ref()));
        known.any(|known| labels.iter().any(|label| label::same(label, known)))
            || reasons.any(|reason| labels.iter().any(|label| is_quoted(label, reason)))
    }

    /// Forgets labels of a purged class; returns whether anything changed. The digests of packs that were learned or
    /// pushed stay, without their labels, so that the next round does not learn the class again.
    pub fn forget_labels(&mut self, labels: &BTreeSet<String>) -> bool {
        let before = self.clone();
        let is_gone = |label: &str| labels.iter().any(|gone| label::same(gone, label));
        if let Some(learning) = self.learning.take_if(|learning| is_gone(&learning.label)) {
            // It was learned, and the power failed before that was noted.
            self.remember_learned(learning);
        }
        self.former.retain(|former| !is_gone(&former.label));
        for learned in self.learned.iter_mut().filter(|learned| is_gone(&learned.label)) {
            learned.label.clear();
            learned.shots_digest = ObjectDigest::of(&[]);
        }
        for pushed in self.pushed.iter_mut().filter(|pushed| is_gone(&pushed.label)) {
            pushed.label.clear();
            pushed.shots_digest = ObjectDigest::of(&[]);
        }
        let refused = self.refused.iter_mut().map(|refused| &mut refused.reason);
        let reasons = refused.chain(self.outcomes.iter_mut().filter_map(|outcome| outcome.refused.as_mut()));
        // Rather one sentence too many than a label that stays.
        let tells_of = |label: &String, reason: &str| label::is_mentioned(label, reason) || is_quoted(label, reason);
        reasons.filter(|reason| labels.iter().any(|label| tells_of(label, reason))).for_each(|reason| {
            *reason = label::PURGED.into();
        });
        *self != before
    }

    /// The record of a pack that was learned.
    pub fn learned(&self, pack: &ObjectDigest) -> Option<&LearnedPack> {
        self.learned.iter().find(|learned| learned.pack == *pack)
    }
}

/// Whether a reason has a label in quotes, or ends in the middle of it because it was [cut](crate::protocol::bounded).
fn is_quoted(label: &str, reason: &str) -> bool {
    let quoted = format!("\"{label}\"");
    let mut beginnings = quoted.char_indices().skip(2).map(|(end, _)| &quoted[..end]);
    // One more letter, of four bytes at most, would have been too many.
    let is_cut = reason.len() + 4 > MAX_TEXT;
    reason.contains(&quoted) || (is_cut && beginnings.any(|beginning| reason.ends_with(beginning)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::bounded;

    #[test]
    fn a_label_in_which_a_reason_was_cut_is_purged_from_it() {
        let labels = |label: &str| BTreeSet::from([label.to_owned()]);
        let (purged, other) = (labels("rubber d\u{fc}ck"), labels("d\u{fc}ck"));
        let progress = |left: usize| {
            let reason = format!("{}\"rubber d\u{fc}ck\" 20 % of 5 shots", "x".repeat(MAX_TEXT - left));
            let refused = RefusedRelease { release: ReleaseId(7), manifest: None, reason: bounded(&reason) };
            SyncProgress { refused: vec![refused], ..SyncProgress::default() }
        };
        assert!(!progress(1).mentions(&purged), "only the mark before a label is left");
        for left in 2..=14 {
            let mut progress = progress(left);
            assert!(!progress.mentions(&other), "{left}");
            assert!(progress.mentions(&purged) && progress.forget_labels(&purged), "{left}");
            assert_eq!(progress.refused[0].reason, label::PURGED);
        }
        let mut short = progress(14);
        short.refused[0].reason = "the bundle \"r".into();
        assert!(!short.mentions(&purged), "it was not cut");
    }

    #[test]
    fn a_refusal_stands_for_one_manifest() {
        let [first, second] = ["first", "second"].map(|text| ObjectDigest::of(text.as_bytes()));
        let refused = RefusedRelease { release: ReleaseId(7), manifest: Some(first), reason: "worse".into() };
        let progress = SyncProgress { refused: vec![refused], ..SyncProgress::default() };
        let read: SyncProgress = serde_json::from_slice(&serde_json::to_vec(&progress).unwrap()).unwrap();
        assert_eq!(read, progress);
        assert_eq!(read.refusal(ReleaseId(7), first), Some("worse"));
        assert_eq!(read.refusal(ReleaseId(7), second), None);
        assert_eq!(read.refusal(ReleaseId(8), first), None);
    }

    #[test]
    fn what_older_programs_pushed_is_known() {
        let digest = ObjectDigest::of(b"pack");
        let pushed = format!(r#"{{"label":"mug","content":"{digest}","pack":"{digest}","pictures":true}}"#);
        let old = format!(r#"{{"learned":[],"pushed":[{pushed}],"refused":[]}}"#);
        let read: SyncProgress = serde_json::from_str(&old).unwrap();
        assert!(read.has_pushed(&digest) && !read.has_purged(&digest));
        assert_eq!((read.pushed[0].bundle_digest, read.pushed[0].picture_count), (None, None));
    }

    #[test]
    fn a_class_that_is_shared_again_counts_as_purged_no_more() {
        let digest = |text: &str| ObjectDigest::of(text.as_bytes());
        let (label, shots_digest, pack) = ("mug".to_owned(), digest("content"), digest("pack"));
        let class =
            PushedClass { label, shots_digest, pack, bundle_digest: None, pictures: false, picture_count: None };
        let mut progress = SyncProgress::default();
        progress.remember_pushed(class.clone());
        progress.forget_labels(&BTreeSet::from(["mug".to_owned()]));
        assert!(progress.has_purged(&pack));
        progress.remember_pushed(class.clone());
        assert!(!progress.has_purged(&pack) && progress.has_pushed(&pack));
        assert_eq!(progress.pushed, [class]);
    }

    #[test]
    fn packs_that_were_replaced_or_taken_back_are_remembered_until_their_class_is_purged() {
        let digest = |text: &str| ObjectDigest::of(text.as_bytes());
        let learned = |text: &str| LearnedPack {
            pack: digest(text),
            bundle_digest: digest("bundle"),
            label: "mug".into(),
            shots_digest: digest(text),
        };
        let [first, second] = ["first", "second"].map(learned);
        let mut progress = SyncProgress::default();
        progress.remember_learned(first.clone());
        progress.remember_learned(second.clone());
        assert_eq!((&progress.learned[..], &progress.former[..]), (&[second.clone()][..], &[first.clone()][..]));
        progress.remember_learned(first.clone());
        assert_eq!((&progress.learned[..], &progress.former[..]), (&[first.clone()][..], &[second][..]));
        progress.retire(|learned| learned.pack == first.pack);
        assert!(progress.learned.is_empty() && progress.former.len() == 2);
        let label = BTreeSet::from(["mug".to_owned()]);
        assert!(progress.mentions(&label) && progress.forget_labels(&label) && !progress.mentions(&label));
    }

    #[test]
    fn refusals_of_older_programs_are_read_and_tried_again() {
        let old = r#"{"learned":[],"pushed":[],"refused":[{"release":7,"reason":"worse"}]}"#;
        let read: SyncProgress = serde_json::from_str(old).unwrap();
        assert_eq!(read.refused.len(), 1);
        assert_eq!(read.refusal(ReleaseId(7), ObjectDigest::of(b"any")), None);
    }
}
