//! Forgetting a class together with its past.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::{ChangeKind, HeadFingerprint, History, HistoryChange, HistoryEntry, HistoryLimits, NamedClass, SavedState};
use crate::state::{BaseModel, State};

/// Why a class cannot be purged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PurgeError {
    /// Neither the state nor its history knows the label.
    #[error("no class has or had the label \"{label}\"")]
    Unknown {
        /// The label.
        label: String,
    },
    /// Shots were added to a class of the bundle that has the label; it cannot be forgotten.
    #[error("\"{label}\" came with the bundle")]
    BaseClass {
        /// The label.
        label: String,
    },
    /// The label is what a class was called before it was renamed.
    #[error("the class \"{label}\" is called \"{now}\" now; give that label to purge it")]
    Renamed {
        /// The label.
        label: String,
        /// Its label now.
        now: String,
    },
    /// The class is still in the state that is to be kept.
    #[error("the class \"{label}\" must be forgotten before it is purged")]
    StillKnown {
        /// The label.
        label: String,
    },
}

impl SavedState {
    /// Whether a learned class that is known or remembered has this label, or had it.
    pub fn mentions(&self, label: &str) -> bool {
        let named = |entry: &HistoryEntry| entry.names.iter().any(|name| name.label == label);
        self.history.entries.iter().any(|entry| entry.class_id(label).is_some() || named(entry))
    }

    /// Goes on to `next`, which no longer has the class `label`, and removes that class from all that is remembered:
    /// its exemplars, every label it ever had, and every class of that label before it. Exemplars that another class
    /// has, too, stay with that one. Entries that say nothing any more are dropped, and those in which a class that is
    /// still known had this label. Undoing goes past the purge, to the change before it.
    ///
    /// # Errors
    /// [`PurgeError`] if there is no such class, or `next` still has it.
    pub fn purge(
        &self,
        base_model: &BaseModel,
        next: State,
        label: &str,
        change: &HistoryChange,
        limits: HistoryLimits,
    ) -> Result<Self, PurgeError> {
        if next.classes.iter().any(|class| class.label == label) {
            return Err(PurgeError::StillKnown { label: label.into() });
        }
        let mut purged = self.successor(
            next,
            &HistoryChange { kind: ChangeKind::Purge, labels: Vec::new(), ..change.clone() },
            limits,
        );
        let bearers = self.label_bearers(&purged.history, label)?;
        purged.history.remove_classes(label, &bearers, base_model.classes.len() as u32);
        purged.history.sweep(purged.state.exemplars.len());
        Ok(purged)
    }

    /// The classes that a purge of the label is about; `after` is the history after it, whose last entry says which are
    /// still known.
    fn label_bearers(&self, after: &History, label: &str) -> Result<LabelBearers, PurgeError> {
        // Taken from before the limits dropped anything, and from after: identities are the same.
        let bearers = self.history.entries.iter().filter_map(|entry| entry.class_id(label));
        let named = self.history.entries.iter().flat_map(|entry| &entry.names).filter(|name| name.label == label);
        let mut ids: Vec<u32> = bearers.chain(named.map(|name| name.class)).collect();
        ids.sort_unstable();
        ids.dedup();
        let last = after.entries.last().map_or(&[][..], |last| &last.classes);
        let known = |id: &u32| last.iter().find(|known| known.id == *id);
        let renamed = ids.iter().find_map(known).map(|known| known.class.label.clone());
        let living: Vec<u32> = ids.iter().copied().filter(|id| known(id).is_some()).collect();
        let has_base = ids.contains(&NamedClass::BASE);
        ids.retain(|id| !living.contains(id) && *id != NamedClass::BASE);
        if !ids.is_empty() {
            return Ok(LabelBearers { purged: ids, living });
        }
        let label = label.into();
        Err(match renamed {
            Some(now) => PurgeError::Renamed { label, now },
            None if has_base => PurgeError::BaseClass { label },
            None => PurgeError::Unknown { label },
        })
    }
}

/// The classes that have or had a label, by their identities.
struct LabelBearers {
    /// Those that are purged, at least one, in ascending order.
    purged: Vec<u32>,
    /// Those that are still known, by another label.
    living: Vec<u32>,
}

impl History {
    /// Removes the purged classes and the label from all entries, and drops entries as [`SavedState::purge`] says;
    /// `base` is the number of base classes. Exemplars that nothing has any more are left for [`History::sweep`].
    fn remove_classes(&mut self, label: &str, bearers: &LabelBearers, base: u32) {
        let LabelBearers { purged, living } = bearers;
        let newest = self.entries.last().map(|last| last.number);
        let mut kept: Vec<HistoryEntry> = Vec::with_capacity(self.entries.len());
        // For each entry that repeats the one before it, which stays: an undo that went back to the one went back to
        // the other.
        let mut repeated: BTreeMap<u32, u32> = BTreeMap::new();
        for mut entry in core::mem::take(&mut self.entries) {
            let last = Some(entry.number) == newest;
            let bears = entry.class_id(label).is_some_and(|id| living.contains(&id));
            let changed = entry.remove(purged, base) || entry.is_only_about(purged);
            for name in entry.names.iter_mut().filter(|name| purged.contains(&name.class) || name.label == label) {
                name.label.clear();
            }
            entry.restored_entry = entry.restored_entry.map(|number| repeated.get(&number).copied().unwrap_or(number));
            let before = kept.last().filter(|before| changed && before.same_classes(&entry));
            match before.map(|before| before.number) {
                Some(before) if !last => {
                    repeated.insert(entry.number, before);
                }
                _ if last || !bears => kept.push(entry),
                _ => {}
            }
        }
        self.entries = kept;
    }
}

impl HistoryEntry {
    /// Removes classes from the class set; says whether there were any.
    fn remove(&mut self, ids: &[u32], base: u32) -> bool {
        let mut changed = false;
        for index in
            (0..self.classes.len()).rev().filter(|index| ids.contains(&self.classes[*index].id)).collect::<Vec<_>>()
        {
            let gone = base + index as u32;
            self.classes.remove(index);
            self.first_recognitions.remove(index);
            let classes = core::mem::take(&mut self.exemplar_classes);
            let exemplars = core::mem::take(&mut self.exemplars);
            for (exemplar, class) in exemplars.into_iter().zip(classes).filter(|(_, class)| *class != gone) {
                self.exemplars.push(exemplar);
                self.exemplar_classes.push(if class > gone { class - 1 } else { class });
            }
            changed = true;
        }
        if changed {
            self.head = if self.classes.is_empty() && self.exemplars.is_empty() {
                HeadFingerprint::Bundle
            } else {
                HeadFingerprint::Unknown
            };
        }
        changed
    }

    /// Whether the change was about these classes alone.
    fn is_only_about(&self, ids: &[u32]) -> bool {
        !self.names.is_empty() && self.names.iter().all(|name| ids.contains(&name.class))
    }

    /// Whether both led to the same class set.
    pub(super) fn same_classes(&self, other: &Self) -> bool {
        self.classes == other.classes
            && self.exemplars == other.exemplars
            && self.exemplar_classes == other.exemplar_classes
            && self.balance == other.balance
    }
}
