//! Chooses the engine that computes features. ONNX Runtime is faster once it runs, but rten computes a few pictures before
//! it has started; so [`choose`] looks at the work ahead.
//!
//! Features of the two differ by rounding. Features that a device stores come from one engine, however many pictures there
//! are: otherwise a further shot, or a machine without ONNX Runtime, would change the bytes of what was learned. That
//! engine is rten, which every device has. It learns a class of five shots in the same time as ONNX Runtime, in 20 to 100
//! MiB less memory (measured with cifar100-edge and cifar100-resnet12).

use std::fmt;

use super::{EncodeError, Encoder};
use crate::image::Preprocessing;

/// Pictures in one call from which starting ONNX Runtime pays.
///
/// It starts 33 to 147 ms later than rten, the later the larger the backbone, and gains 2.3 to 21 ms a picture.
/// Measured with the shipped backbones on two cores of an Intel Xeon with AMX (family 6, model 207), that pays from 14
/// pictures of 14 million multiply-adds each, in float and in int8, from 14 of 70 million, and from 7 of 1,046 million.
/// In multiply-adds these lie a factor of 38 apart, in pictures a factor of two; so pictures count. `benches/start`
/// measures it.
pub const ONNX_RUNTIME_FROM: usize = 12;

/// The engine that a user asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The one that suits the work ([`choose`]), or the other one where it cannot be used.
    #[default]
    Auto,
    /// ONNX Runtime, and nothing else.
    OnnxRuntime,
    /// rten, and nothing else.
    Rten,
}

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Microsoft's, a shared library that is found when the program runs.
    OnnxRuntime,
    /// In pure Rust, a part of the program.
    Rten,
}

/// The work for which a backbone is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Features of shots, which the device stores.
    Shots,
    /// Features of so many pictures, each of which is encoded once.
    Pictures(usize),
    /// Features of a data set, by [`encode_stream`](super::stream::encode_stream): engines side by side.
    Stream,
}

/// Why a backbone runs on an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChoiceReason {
    /// It was asked for.
    Requested,
    /// Features that a device stores come from rten.
    StoredFeatures,
    /// Too few pictures are ahead for starting ONNX Runtime to pay.
    FewPictures,
    /// So many pictures are ahead that starting ONNX Runtime pays.
    ManyPictures,
    /// The other engine cannot be used; why.
    Fallback(String),
}

impl fmt::Display for ChoiceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested => write!(f, "it was asked for"),
            Self::StoredFeatures => write!(f, "features that are kept come from one engine on every machine"),
            Self::FewPictures => write!(f, "few pictures are ahead, and it starts faster"),
            Self::ManyPictures => write!(f, "many pictures are ahead"),
            Self::Fallback(reason) => write!(f, "{reason}"),
        }
    }
}

/// An engine, and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenEngine {
    /// The engine.
    pub engine: Engine,
    /// Why.
    pub reason: ChoiceReason,
}

/// A backbone that is ready, and why it runs on its engine.
pub struct OpenedEncoder {
    /// The backbone.
    pub encoder: Box<dyn Encoder>,
    /// Why.
    pub reason: ChoiceReason,
}

impl OpenedEncoder {
    fn new(encoder: Box<dyn Encoder>, reason: ChoiceReason) -> Self {
        Self { encoder, reason }
    }
}

/// The engine for some work: rten for shots and for fewer than [`ONNX_RUNTIME_FROM`] pictures, else ONNX Runtime.
pub fn choose(work: Workload) -> ChosenEngine {
    let (engine, reason) = match work {
        Workload::Shots => (Engine::Rten, ChoiceReason::StoredFeatures),
        Workload::Pictures(count) if count < ONNX_RUNTIME_FROM => (Engine::Rten, ChoiceReason::FewPictures),
        Workload::Pictures(_) | Workload::Stream => (Engine::OnnxRuntime, ChoiceReason::ManyPictures),
    };
    ChosenEngine { engine, reason }
}

/// Opens a backbone for some work with the engine that is asked for. With [`EngineChoice::Auto`], the other engine takes
/// over where the chosen one cannot be started, and a warning goes to `log`.
///
/// # Errors
/// [`EncodeError`] if the engine that is asked for, or none, can be started, or the model is refused.
pub fn open(
    model: &[u8],
    input: &Preprocessing,
    choice: EngineChoice,
    work: Workload,
) -> Result<OpenedEncoder, EncodeError> {
    let open = |engine| open_in(engine, model, input, work);
    let requested = |engine| Ok(OpenedEncoder::new(open(engine)?, ChoiceReason::Requested));
    let ChosenEngine { engine, reason } = match choice {
        EngineChoice::OnnxRuntime => return requested(Engine::OnnxRuntime),
        EngineChoice::Rten => return requested(Engine::Rten),
        EngineChoice::Auto => choose(work),
    };
    match (open(engine), engine) {
        (Ok(encoder), _) => Ok(OpenedEncoder::new(encoder, reason)),
        (Err(failed @ EncodeError::Start(_)), Engine::OnnxRuntime) => {
            let encoder = match open(Engine::Rten) {
                Ok(encoder) => encoder,
                // That says more than that an engine is missing.
                Err(refused @ EncodeError::Refused(_)) => return Err(refused),
                Err(_) => return Err(failed),
            };
            log::warn!("{failed}; the built-in engine rten takes over");
            Ok(OpenedEncoder::new(encoder, ChoiceReason::Fallback(failed.to_string())))
        }
        // rten does not know every operator.
        (Err(failed @ (EncodeError::Start(_) | EncodeError::Model(_))), Engine::Rten) => {
            let Ok(encoder) = open(Engine::OnnxRuntime) else { return Err(failed) };
            log::warn!("{failed}; ONNX Runtime takes over");
            Ok(OpenedEncoder::new(encoder, ChoiceReason::Fallback(failed.to_string())))
        }
        (Err(error), _) => Err(error),
    }
}

/// Opens a backbone in one engine.
fn open_in(
    engine: Engine,
    model: &[u8],
    input: &Preprocessing,
    work: Workload,
) -> Result<Box<dyn Encoder>, EncodeError> {
    #[cfg(not(all(feature = "onnx", feature = "rten")))]
    let missing = |name: &str| {
        let _ = (model, input, work);
        Err(EncodeError::Start(std::format!("this program was built without {name}")))
    };
    match engine {
        #[cfg(feature = "onnx")]
        Engine::OnnxRuntime if work == Workload::Stream => Ok(Box::new(super::onnx::Onnx::pool(model, input)?)),
        #[cfg(feature = "onnx")]
        Engine::OnnxRuntime => Ok(Box::new(super::onnx::Onnx::open(model, input)?)),
        #[cfg(not(feature = "onnx"))]
        Engine::OnnxRuntime => missing("ONNX Runtime"),
        #[cfg(feature = "rten")]
        Engine::Rten => Ok(Box::new(super::rten::Rten::open(model, input)?)),
        #[cfg(not(feature = "rten"))]
        Engine::Rten => missing("rten"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rten_encodes_shots_and_few_pictures() {
        let engine = |work| choose(work).engine;
        assert_eq!(engine(Workload::Shots), Engine::Rten);
        assert_eq!(engine(Workload::Pictures(0)), Engine::Rten);
        assert_eq!(engine(Workload::Pictures(ONNX_RUNTIME_FROM - 1)), Engine::Rten);
        assert_eq!(engine(Workload::Pictures(ONNX_RUNTIME_FROM)), Engine::OnnxRuntime);
        assert_eq!(engine(Workload::Pictures(usize::MAX)), Engine::OnnxRuntime);
        assert_eq!(engine(Workload::Stream), Engine::OnnxRuntime);
    }
}
