//! What most programs need, to be imported as a whole: `use orco_runtime::prelude::*;`.

pub use crate::bundle::Bundle;
pub use crate::learner::{
    Answer, ChangeOutcome, ChangeStep, Learner, LearnerSettings, Observer, PackClass, Score, ShotChecks, Shots,
};
pub use crate::signature::PublicKey;
pub use crate::store::Store;
