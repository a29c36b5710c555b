//! Keeping a state so that it survives anything: two slots are written alternately, and the newest sound one is
//! current.
//!
//! `STATE.md` beside this module has the layout byte by byte and the argument why a power cut at any moment leaves the
//! old state or the new one.
//!
//! A change touches a small part of a state. Where the medium can, a save adds a [patch](SlotPatch) to a slot instead
//! of writing it whole.
//!
//! What a slot holds is a [`SavedState`]: the state, and the history of how it came to be. Each has a *generation*, the
//! number of the save that wrote it.
//!
//! [`load`], [`save`], [`purge`] and [`switch`] work on any [`Medium`]: `orco-runtime` has one that is a folder of a
//! file system; `flash`, behind the feature of that name, is one over raw NOR flash.

#[cfg(feature = "flash")]
pub mod flash;
mod frame;
mod medium;
mod patch;
mod rules;

pub use frame::{FrameId, HEADER, PatchId, SlotContent, SlotFrame, SlotPatch};
pub use medium::{Medium, Slot};
pub use rules::{DamagedSlot, FaultySlot, LoadError, MediumSnapshot, MediumState, NewestSlot, SaveError, SlotFault};

use core::iter;

use rules::SlotRules;

use crate::codec::{FileKind, from_postcard};
use crate::history::SavedState;
use crate::state::BaseModel;

/// Version of the bodies that this release writes, the highest that it reads.
pub const VERSION: u16 = FileKind::Slot.version();

/// Reads the newest sound state that was learned on `base_model`, whose file has the SHA-256 `digest`. Writes nothing.
///
/// # Errors
/// [`LoadError`] if there are slots, but none can be used, or the newest is another release's or bundle's.
pub fn load<M: Medium>(
    medium: &mut M,
    base_model: &BaseModel,
    digest: [u8; 32],
) -> Result<MediumSnapshot<M::Error>, LoadError<M::Error>> {
    with_base_model(base_model, digest, |rules| rules.load(medium))
}

/// Reads as [`load`] does, for a change, which must not start from an older state because the newest cannot be read.
///
/// # Errors
/// As for [`load`], and [`LoadError::Unreadable`] if any slot cannot be read.
pub fn load_to_change<M: Medium>(
    medium: &mut M,
    base_model: &BaseModel,
    digest: [u8; 32],
) -> Result<MediumSnapshot<M::Error>, LoadError<M::Error>> {
    with_base_model(base_model, digest, |rules| rules.load(medium))?.refuse_unreadable()
}

/// Saves a state with its history, made from the state of generation `from`. When this returns, it survives a power
/// cut; until then the old one is current.
///
/// # Errors
/// [`SaveError`] if the state would not be read again, what is there may not be replaced, cannot be read or is of
/// another generation, or the medium refused.
pub fn save<M: Medium>(
    medium: &mut M,
    base_model: &BaseModel,
    saved: &SavedState,
    from: u64,
) -> Result<NewestSlot, SaveError<M::Error>> {
    check_sound(base_model, saved)?;
    with_base_model(base_model, saved.state.bundle_digest, |rules| rules.save(medium, from, saved))
}

/// Saves as [`save`] does, but judges no slot first: for a caller that knows what both hold, since it has
/// [loaded](MediumSnapshot::newest_undisturbed) or saved them and nobody has changed them since. It reads at most the
/// slot that it appends to. `newest` holds what this state was made from.
///
/// # Errors
/// [`SaveError`] if the state would not be read again, or the medium refused.
pub fn save_next<M: Medium>(
    medium: &mut M,
    base_model: &BaseModel,
    saved: &SavedState,
    newest: NewestSlot,
) -> Result<NewestSlot, SaveError<M::Error>> {
    check_sound(base_model, saved)?;
    with_base_model(base_model, saved.state.bundle_digest, |rules| rules.save_next(medium, newest, saved))
}

/// Saves as [`save`] does, but into every slot, and removes everything else that was kept, so that nothing of what was
/// there before is left.
///
/// # Errors
/// As for [`save`]; where the medium refused, something of the old may be left.
pub fn purge<M: Medium>(
    medium: &mut M,
    base_model: &BaseModel,
    saved: &SavedState,
    from: u64,
) -> Result<NewestSlot, SaveError<M::Error>> {
    check_sound(base_model, saved)?;
    with_base_model(base_model, saved.state.bundle_digest, |rules| rules.replace_all(medium, from, saved))
}

/// SHA-256 of the learner file of the bundle that the newest slot belongs to; `None` if no slot says so.
pub fn newest_bundle_digest<M: Medium>(medium: &mut M) -> Option<[u8; 32]> {
    rules::newest_bundle_digest(medium)
}

/// Reads the newest sound state, whatever bundle it belongs to, as [`load_to_change`] does. Without the bundle, only
/// whether its parts [fit together](SavedState::is_consistent) can be checked.
///
/// # Errors
/// As for [`load_to_change`].
pub fn load_any<M: Medium>(medium: &mut M) -> Result<MediumSnapshot<M::Error>, LoadError<M::Error>> {
    let bundle_digest = newest_bundle_digest(medium).unwrap_or_default();
    without_base_model(bundle_digest, |rules| rules.load(medium))?.refuse_unreadable()
}

/// Replaces the state of generation `from`, which belongs to the bundle `from_digest`, by this one in every slot. The
/// new state usually belongs to another bundle. Until this returns, the old state is current. The new one's bundle is
/// not at hand: the caller makes sure that it is [sound](SavedState::is_sound).
///
/// # Errors
/// As for [`save`], [`SaveError::Unsound`] aside.
pub fn switch<M: Medium>(
    medium: &mut M,
    from_digest: [u8; 32],
    saved: &SavedState,
    from: u64,
) -> Result<NewestSlot, SaveError<M::Error>> {
    without_base_model(from_digest, |rules| rules.switch(medium, saved.state.bundle_digest, from, saved))
}

/// A state with its history out of the bytes of a slot; `None` if they are damaged, of a later release, or make no
/// sense even without the bundle.
pub fn read(slot: &[u8]) -> Option<SavedState> {
    read_content(&SlotContent::decode(slot).ok()?)
}

/// All states out of the bytes of a slot, the oldest first: that with which it was written whole, and what each save
/// has made of it since. `None` for one that cannot be read, as for [`read`].
pub fn read_each(slot: &[u8]) -> impl Iterator<Item = Option<SavedState>> {
    let mut next = Some(SlotContent::decode_frame(slot.into()));
    iter::from_fn(move || {
        let Ok(mut content) = next.take()? else { return Some(None) };
        let saved = read_content(&content);
        next = content.apply_next().map(|applied| applied.then_some(content)).transpose();
        Some(saved)
    })
}

fn read_content(content: &SlotContent<'_>) -> Option<SavedState> {
    let saved = decode(content.version, &content.body())?;
    (saved.is_consistent() && saved.state.bundle_digest == content.bundle_digest).then_some(saved)
}

/// A state that would not be read again must not take the place of one that is.
fn check_sound<E>(base_model: &BaseModel, saved: &SavedState) -> Result<(), SaveError<E>> {
    if saved.is_sound(base_model) { Ok(()) } else { Err(SaveError::Unsound) }
}

/// Calls `act` with the rules for states of a bundle that is not at hand: whether they fit its base model is unknown.
fn without_base_model<T>(bundle_digest: [u8; 32], act: impl FnOnce(SlotRules<'_>) -> T) -> T {
    by_rules(bundle_digest, SavedState::is_consistent, act)
}

/// Calls `act` with the rules for states on a base model, whose file has the SHA-256 `digest`.
fn with_base_model<T>(base_model: &BaseModel, digest: [u8; 32], act: impl FnOnce(SlotRules<'_>) -> T) -> T {
    by_rules(digest, |saved| saved.is_sound(base_model), act)
}

/// Calls `act` with the rules for states of a bundle; those that are not sound count as damaged.
fn by_rules<T>(
    bundle_digest: [u8; 32],
    is_sound: impl Fn(&SavedState) -> bool,
    act: impl FnOnce(SlotRules<'_>) -> T,
) -> T {
    let decode = |version, body: &[u8]| {
        decode(version, body).filter(|saved| is_sound(saved) && saved.state.bundle_digest == bundle_digest)
    };
    act(SlotRules { bundle_digest, version: VERSION, decode: &decode })
}

/// Reads a body of any version up to [`VERSION`]: an arm for each. An earlier version is decoded into types of its own,
/// which a conversion fills up with what they lack.
fn decode(version: u16, body: &[u8]) -> Option<SavedState> {
    match version {
        1 => from_postcard(body),
        _ => None,
    }
}
