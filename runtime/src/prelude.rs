//! What most programs need, to be imported as a whole: `use orco_runtime::prelude::*;`.

pub use orco_state::state::Balance;

pub use crate::bundle::Bundle;
pub use crate::encoder::engine_choice::EngineChoice;
pub use crate::learner::{
    AlignmentTime, Answer, AnswerScope, ChangeError, ChangeOutcome, ChangeStep, Learner, LearnerSettings, Observer,
    PackClass, Score, ShotChecks, Shots,
};
pub use crate::signature::PublicKey;
pub use crate::store::Store;
