//! Backbones that a learner has started, with the inputs of the choice of their engine.

use std::sync::{Mutex, PoisonError};

use super::LearnerSettings;
use crate::bundle::Bundle;
use crate::encoder::engine_choice::{ChoiceReason, EngineChoice, OpenedEncoder, Workload};
use crate::encoder::{EncodeError, Encoder};

/// What an engine is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EngineSettings {
    engine: EngineChoice,
    work: Workload,
}

/// A backbone that was started.
struct StartedEncoder {
    /// Never locked: an engine may not be shared by threads, but a learner may, which reaches the engine only by
    /// `&mut`.
    encoder: Mutex<Box<dyn Encoder>>,
    settings: EngineSettings,
}

impl StartedEncoder {
    fn new(encoder: Box<dyn Encoder>, settings: EngineSettings) -> Self {
        Self { encoder: Mutex::new(encoder), settings }
    }

    fn encoder(&mut self) -> &mut dyn Encoder {
        self.encoder.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut()
    }
}

/// A backbone for each kind of work, once it was started.
#[derive(Default)]
pub(super) struct StartedEncoders {
    for_pictures: Option<StartedEncoder>,
    for_shots: Option<StartedEncoder>,
}

impl StartedEncoders {
    /// Starts the backbone for some work, whether or not it runs; tells why on this engine.
    pub fn start(
        &mut self,
        bundle: &Bundle,
        settings: &LearnerSettings,
        work: Workload,
    ) -> Result<(&mut dyn Encoder, ChoiceReason), EncodeError> {
        let OpenedEncoder { encoder, reason } = bundle.encoder(settings.engine, work)?;
        let started = StartedEncoder::new(encoder, EngineSettings { engine: settings.engine, work });
        Ok((self.slot(work).insert(started).encoder(), reason))
    }

    /// The backbone for some work. It is started unless it runs, and started again where it runs for other work, or the
    /// settings are others since.
    pub fn get(
        &mut self,
        bundle: &Bundle,
        settings: &LearnerSettings,
        work: Workload,
    ) -> Result<&mut dyn Encoder, EncodeError> {
        let wanted = EngineSettings { engine: settings.engine, work };
        let slot = self.slot(work);
        let started = match slot.take().filter(|started| started.settings == wanted) {
            Some(started) => started,
            None => StartedEncoder::new(bundle.encoder(settings.engine, work)?.encoder, wanted),
        };
        Ok(slot.insert(started).encoder())
    }

    fn slot(&mut self, work: Workload) -> &mut Option<StartedEncoder> {
        match work {
            Workload::Pictures(_) | Workload::Stream => &mut self.for_pictures,
            Workload::Shots => &mut self.for_shots,
        }
    }
}
