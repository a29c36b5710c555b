//! One change, and the class set that it led to.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::num::ParseIntError;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::codec;
use crate::head::Head;
use crate::label;
use crate::state::{Balance, BaseModel, Class, FirstRecognitions, MAX_TARGETS, are_distinct, within_shot_limit};

/// What kind of change it was. States store its position (`slots/STATE.md`): a new kind goes to the end, and needs a
/// new version of a slot's body, since earlier releases cannot read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The device started to remember.
    Start,
    /// Classes were learned.
    Learn,
    /// A class got more shots.
    Add,
    /// A class was forgotten.
    Forget,
    /// A class got another label.
    Rename,
    /// Classes came from another device.
    Import,
    /// An undo or a redo: the class set of another entry came back.
    Undo,
    /// A class was forgotten together with its past.
    Purge,
    /// The balance between base and learned classes changed.
    Balance,
    /// Classes were learned again, on another bundle, from the pictures of their shots.
    Upgrade,
    /// A shot went from one class to another.
    Move,
    /// A class lost a shot.
    RemoveShot,
}

impl ChangeKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Start,
        Self::Learn,
        Self::Add,
        Self::Forget,
        Self::Rename,
        Self::Import,
        Self::Undo,
        Self::Purge,
        Self::Balance,
        Self::Upgrade,
        Self::Move,
        Self::RemoveShot,
    ];

    /// What programs call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Learn => "learn",
            Self::Add => "add",
            Self::Forget => "forget",
            Self::Rename => "rename",
            Self::Import => "import",
            Self::Undo => "undo",
            Self::Purge => "purge",
            Self::Balance => "balance",
            Self::Upgrade => "upgrade",
            Self::Move => "move",
            Self::RemoveShot => "remove",
        }
    }

    /// The change in the past tense, for sentences.
    pub fn past_tense(self) -> &'static str {
        match self {
            Self::Start => "started",
            Self::Learn => "learned",
            Self::Add => "added to",
            Self::Forget => "forgot",
            Self::Rename => "renamed",
            Self::Import => "imported",
            Self::Undo => "went back",
            Self::Purge => "purged",
            Self::Balance => "set the balance to",
            Self::Upgrade => "upgraded",
            Self::Move => "moved a shot from",
            Self::RemoveShot => "removed a shot of",
        }
    }
}

/// A change to be remembered, described by its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryChange {
    pub(super) kind: ChangeKind,
    pub(super) labels: Vec<String>,
    pub(super) restored_entry: Option<u32>,
    pub(super) seed: u64,
    pub(super) when: Option<u64>,
}

impl HistoryChange {
    /// A change whose alignment, if there was one, used that seed.
    pub fn new(kind: ChangeKind, seed: u64) -> Self {
        Self { kind, labels: Vec::new(), restored_entry: None, seed, when: None }
    }

    /// The classes that it was about; of [`ChangeKind::Rename`] the old label and the new one.
    pub fn labels<L: Into<String>>(self, labels: impl IntoIterator<Item = L>) -> Self {
        Self { labels: labels.into_iter().map(Into::into).collect(), ..self }
    }

    /// Of [`ChangeKind::Undo`]: number of the entry whose class set came back.
    pub fn restored_entry(self, number: u32) -> Self {
        Self { restored_entry: Some(number), ..self }
    }

    /// When, in seconds since 1970, if the caller knows.
    pub fn at(self, when: Option<u64>) -> Self {
        Self { when, ..self }
    }
}

/// A class in an entry. The identity stays when the label changes, and no two classes ever share it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryClass {
    /// Its identity.
    pub id: u32,
    /// The class as it was.
    pub class: Class,
}

/// A label that a change was about, with the identity of its class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedClass {
    /// The class, or [`NamedClass::BASE`].
    pub class: u32,
    /// Its label then; empty where the class was purged.
    pub label: String,
}

impl NamedClass {
    /// Stands for all classes of the bundle.
    pub const BASE: u32 = u32::MAX;
}

/// Tells whether a head is the one that an entry had, which keeps no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeadFingerprint {
    /// It was the bundle's: nothing was learned, or no head aligned.
    Bundle,
    /// SHA-256 of its parameters, little endian, in the order w1, b1, w2, b2.
    Digest([u8; 32]),
    /// Nothing: a class was purged from the class set since.
    Unknown,
}

impl HeadFingerprint {
    /// That of a state's head.
    pub fn of(head: Option<&Head>) -> Self {
        match head {
            None => Self::Bundle,
            Some(head) => {
                let numbers = head.parameters().into_iter().flatten();
                Self::Digest(codec::digest(&numbers.flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>()))
            }
        }
    }
}

/// A change that is remembered, and the class set after it. States store its fields in this order, without names
/// (`slots/STATE.md`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// Number, which an entry keeps; 0 for the first.
    pub number: u32,
    /// What was done.
    pub kind: ChangeKind,
    /// To which classes.
    #[serde(deserialize_with = "codec::bounded::<_, _, MAX_TARGETS>")]
    pub names: Vec<NamedClass>,
    /// Of [`ChangeKind::Undo`]: number of the entry whose class set came back.
    pub restored_entry: Option<u32>,
    /// When, in seconds since 1970, if that was known.
    pub when: Option<u64>,
    /// Seed of the alignment that gave the head.
    pub seed: u64,
    /// Sessions learned until then.
    pub sessions: u32,
    /// How much base classes counted against learned ones.
    pub balance: Balance,
    /// The learned classes, in their order.
    #[serde(deserialize_with = "codec::bounded::<_, _, MAX_TARGETS>")]
    pub classes: Vec<EntryClass>,
    /// Their exemplars, in their order: indices of the present state's exemplars, then of the history's past ones.
    pub(super) exemplars: Vec<u32>,
    /// Class of each of them, base classes counted first.
    pub(super) exemplar_classes: Vec<u32>,
    /// What the head was.
    pub head: HeadFingerprint,
    /// How the classes were recognised at first, as in the state.
    pub(super) first_recognitions: FirstRecognitions,
}

/// Which entry is meant. In a state that was restored, purged or begun anew, another entry may have the number; it has
/// another mark.
///
/// As a text it is the number, a hyphen, and the mark in hexadecimal: `3-5f0c2a91d3b84e67`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId {
    /// [`HistoryEntry::number`].
    pub number: u32,
    /// The first 8 bytes of SHA-256 over the entry's content.
    pub mark: u64,
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.number, self.mark)
    }
}

impl FromStr for EntryId {
    type Err = ParseIntError;

    /// # Errors
    /// If it is not written as [`EntryId`] says.
    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (number, mark) = text.split_once('-').unwrap_or((text, ""));
        Ok(Self { number: number.parse()?, mark: u64::from_str_radix(mark, 16)? })
    }
}

impl HistoryEntry {
    /// Tells the entry from any other.
    pub fn id(&self) -> EntryId {
        let Self { number, kind, names, restored_entry, when, seed, sessions, balance, classes, .. } = self;
        // Indices of exemplars and what the head was may change while the entry stays.
        let exemplars = self.exemplars.len() as u64;
        let content = (number, kind, names, restored_entry, when, seed, sessions, balance, classes, exemplars);
        let digest = codec::digest(&codec::to_postcard(&content));
        EntryId { number: *number, mark: u64::from_be_bytes(codec::bytes_at(&digest, 0)) }
    }

    /// Number of exemplars that the learned classes had.
    pub fn exemplars(&self) -> usize {
        self.exemplars.len()
    }

    /// What it takes in memory, in units of a class.
    pub(super) fn weight(&self) -> usize {
        const OWN: usize = 8;
        OWN + self.names.len() + self.classes.len()
    }

    /// Identities of the classes by their labels.
    pub(super) fn class_ids(&self) -> BTreeMap<String, u32> {
        self.classes.iter().map(|known| (label::normal(&known.class.label), known.id)).collect()
    }

    /// Identity of the class that has this label.
    pub(super) fn class_id(&self, label: &str) -> Option<u32> {
        self.classes.iter().find(|known| label::same(&known.class.label, label)).map(|known| known.id)
    }

    pub(super) fn is_sound(&self, base_model: &BaseModel, pool: usize, next_class: u32) -> bool {
        let learned = self.classes.iter().map(|known| &known.class);
        let all = base_model.classes.len() + self.classes.len();
        self.exemplars.len() == self.exemplar_classes.len()
            && self.exemplars.iter().all(|exemplar| (*exemplar as usize) < pool)
            && self.exemplar_classes.iter().all(|class| (*class as usize) < all)
            && self.classes.iter().all(|known| known.id < next_class)
            && self.first_recognitions.is_sound(self.classes.len())
            && within_shot_limit(&self.exemplar_classes)
            && learned.clone().all(|class| (1..=self.sessions).contains(&class.session))
            && are_distinct(&base_model.classes, learned, base_model.target_count())
    }
}
