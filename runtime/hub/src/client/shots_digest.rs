//! Digests by which the shots of classes are compared: two devices that hold the same shots compute the same digest,
//! whatever they call the class.

use orco_runtime::learner::Learner;
use orco_runtime::pack::{Pack, PackOrigin};

use crate::protocol::ObjectDigest;

/// The digest of a pack's shots and their bundle.
pub(super) fn shots_digest(pack: &Pack) -> ObjectDigest {
    let bare = Pack {
        label: String::new(),
        bundle_digest: pack.bundle_digest,
        exemplars: pack.exemplars.clone(),
        thumbnails: Vec::new(),
        origin: PackOrigin::default(),
    };
    ObjectDigest::of(&bare.to_be_signed())
}

/// The digest of a learned class's shots; none if there is no such class.
pub(super) fn class_shots_digest(learner: &Learner, label: &str) -> Option<ObjectDigest> {
    let pack = Pack::of(learner.base_model(), learner.state(), label, PackOrigin::default()).ok()?;
    Some(shots_digest(&pack))
}
