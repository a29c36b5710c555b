//! Chooses the engine that computes features. rten is part of the program, works everywhere, and computes a few
//! pictures before ONNX Runtime has started. Which of them is faster from then on depends on the machine and on the
//! backbone. So [`choose`] looks at the work ahead: ONNX Runtime has [`ONNX_RUNTIME_FROM`] pictures or more, and whole
//! data sets. From [`MEASURED_FROM`] on, as in a service, [`open`] has both compute a picture and takes the faster one;
//! rten where memory is short ([`MIN_MEMORY_TO_MEASURE`]).
//!
//! Features of the two differ by rounding. Features that a device stores come from one engine, however many pictures
//! there are: otherwise a further shot, or a machine without ONNX Runtime, would change the bytes of what was learned.
//! That engine is rten, which every device has. It learns a class of five shots in the same time as ONNX Runtime, in 20
//! to 100 MiB less memory (measured with cifar100-edge and cifar100-resnet12).

use std::fmt;
use std::time::{Duration, Instant};

use ndarray::Array4;

use super::{EncodeError, Encoder};
use crate::image::Preprocessing;
use crate::memory;

/// Pictures in one call from which starting ONNX Runtime pays.
///
/// It starts later than rten and takes less time for each picture. With the shipped backbones, small and large, that
/// pays from 7 to 14 pictures on (`docs/src/journal/2026-11-30-shot-checks.md`); `benches/start` measures it.
pub const ONNX_RUNTIME_FROM: usize = 12;

/// Pictures in one call from which both engines are measured: it takes them the time of eight pictures.
pub const MEASURED_FROM: usize = 100;

/// Available memory, in bytes, below which the engines are not measured, and rten is taken: opened together, they need
/// about 200 MiB with the bundle `everyday`, rten alone about 130 MiB.
pub const MIN_MEMORY_TO_MEASURE: u64 = 256 << 20;

/// Times that each engine computes a picture when both are measured, beside a first time that does not count. The
/// fastest counts: other work only adds.
const RUNS: usize = 3;

/// The engine that a user asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
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
    /// Features of this many pictures, each of which is encoded once.
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
    /// There is too little memory to measure both engines, and this one takes less.
    LittleMemory,
    /// Both engines were measured, and this one was faster.
    Faster {
        /// What it took for a picture.
        took: Duration,
        /// What the other engine took.
        other: Duration,
    },
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
            Self::LittleMemory => write!(f, "little memory is available, and it takes less"),
            Self::Faster { took, other } => {
                let [took, other] = [took, other].map(|time| 1e3 * time.as_secs_f64());
                write!(f, "it was measured to be faster, {took:.1} ms for a picture instead of {other:.1} ms")
            }
            Self::Fallback(reason) => write!(f, "{reason}"),
        }
    }
}

/// An engine, and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChosenEngine {
    /// The engine.
    pub engine: Engine,
    /// Why.
    pub reason: ChoiceReason,
}

/// A backbone that is ready, and why it runs on its engine.
#[non_exhaustive]
pub struct OpenedEncoder {
    /// The backbone.
    pub encoder: Box<dyn Encoder>,
    /// Why.
    pub reason: ChoiceReason,
}

impl fmt::Debug for OpenedEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut opened = f.debug_struct("OpenedEncoder");
        opened.field("engine", &self.encoder.engine()).field("reason", &self.reason).finish()
    }
}

impl OpenedEncoder {
    fn new(encoder: Box<dyn Encoder>, reason: ChoiceReason) -> Self {
        Self { encoder, reason }
    }
}

/// The engine for some work: rten for shots and for fewer than [`ONNX_RUNTIME_FROM`] pictures, ONNX Runtime for more;
/// none from [`MEASURED_FROM`] pictures on, where a measurement decides.
pub fn choose(work: Workload) -> Option<ChosenEngine> {
    let (engine, reason) = match work {
        Workload::Shots => (Engine::Rten, ChoiceReason::StoredFeatures),
        Workload::Pictures(count) if count < ONNX_RUNTIME_FROM => (Engine::Rten, ChoiceReason::FewPictures),
        Workload::Pictures(count) if count >= MEASURED_FROM => return None,
        Workload::Pictures(_) | Workload::Stream => (Engine::OnnxRuntime, ChoiceReason::ManyPictures),
    };
    Some(ChosenEngine { engine, reason })
}

/// Opens a backbone for some work with the engine that is asked for. With [`EngineChoice::Auto`], the other engine
/// takes over where the chosen one cannot be started, and a warning goes to `log`; only a note where no ONNX Runtime is
/// installed, which is no fault.
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
    match choice {
        EngineChoice::OnnxRuntime => requested(Engine::OnnxRuntime),
        EngineChoice::Rten => requested(Engine::Rten),
        EngineChoice::Auto => match choose(work) {
            Some(chosen) => open_chosen(&open, chosen),
            None if is_little(memory::available()) => {
                open_chosen(&open, ChosenEngine { engine: Engine::Rten, reason: ChoiceReason::LittleMemory })
            }
            None => open_faster(&open, input),
        },
    }
}

/// Opens the backbone in an engine.
type Open<'a> = &'a dyn Fn(Engine) -> Result<Box<dyn Encoder>, EncodeError>;

/// Whether that is too little memory for two engines at once. Where it is not known, it is enough.
fn is_little(available: Option<u64>) -> bool {
    available.is_some_and(|bytes| bytes < MIN_MEMORY_TO_MEASURE)
}

/// Opens the backbone in the chosen engine, or in the other one.
fn open_chosen(open: Open<'_>, chosen: ChosenEngine) -> Result<OpenedEncoder, EncodeError> {
    let ChosenEngine { engine, reason } = chosen;
    match (open(engine), engine) {
        (Ok(encoder), _) => Ok(OpenedEncoder::new(encoder, reason)),
        (Err(failed), Engine::OnnxRuntime) => without_onnx_runtime(open, failed),
        // rten does not know every operator.
        (Err(failed @ (EncodeError::Start(_) | EncodeError::Model(_))), Engine::Rten) => {
            let Ok(encoder) = open(Engine::OnnxRuntime) else { return Err(failed) };
            log::warn!("{failed}; ONNX Runtime takes over");
            Ok(OpenedEncoder::new(encoder, ChoiceReason::Fallback(failed.to_string())))
        }
        (Err(error), _) => Err(error),
    }
}

/// Opens the backbone in rten, since ONNX Runtime could not be started.
fn without_onnx_runtime(open: Open<'_>, failed: EncodeError) -> Result<OpenedEncoder, EncodeError> {
    if !matches!(failed, EncodeError::Start(_)) {
        return Err(failed);
    }
    let encoder = match open(Engine::Rten) {
        Ok(encoder) => encoder,
        // That says more than that an engine is missing.
        Err(refused @ EncodeError::Refused(_)) => return Err(refused),
        Err(_) => return Err(failed),
    };
    let level = if is_installed() { log::Level::Warn } else { log::Level::Info };
    log::log!(level, "{failed}; the built-in engine rten takes over");
    Ok(OpenedEncoder::new(encoder, ChoiceReason::Fallback(failed.to_string())))
}

/// Whether there is a library of ONNX Runtime, usable or not.
fn is_installed() -> bool {
    #[cfg(feature = "onnx")]
    {
        super::library::locate().is_some()
    }
    #[cfg(not(feature = "onnx"))]
    {
        false
    }
}

/// Opens the backbone in both engines, and keeps the one that is faster with a single picture.
fn open_faster(open: Open<'_>, input: &Preprocessing) -> Result<OpenedEncoder, EncodeError> {
    let mut onnx_runtime = match open(Engine::OnnxRuntime) {
        Ok(encoder) => encoder,
        Err(failed) => return without_onnx_runtime(open, failed),
    };
    let mut rten = match open(Engine::Rten) {
        Ok(encoder) => encoder,
        Err(failed) => return Ok(OpenedEncoder::new(onnx_runtime, ChoiceReason::Fallback(failed.to_string()))),
    };
    let (engine, reason) = match [onnx_runtime.as_mut(), rten.as_mut()].map(|encoder| time_of_a_picture(encoder, input))
    {
        [Ok(onnx_runtime), Ok(rten)] => faster([onnx_runtime, rten]),
        [Ok(_), Err(failed)] => (Engine::OnnxRuntime, ChoiceReason::Fallback(failed.to_string())),
        // If both fail, the next picture tells.
        [Err(failed), _] => (Engine::Rten, ChoiceReason::Fallback(failed.to_string())),
    };
    let encoder = match engine {
        Engine::OnnxRuntime => onnx_runtime,
        Engine::Rten => rten,
    };
    Ok(OpenedEncoder::new(encoder, reason))
}

/// Which of ONNX Runtime and rten is the faster one by these times, in this order; rten, which takes less memory, if
/// neither is.
fn faster([onnx_runtime, rten]: [Duration; 2]) -> (Engine, ChoiceReason) {
    if onnx_runtime < rten {
        (Engine::OnnxRuntime, ChoiceReason::Faster { took: onnx_runtime, other: rten })
    } else {
        (Engine::Rten, ChoiceReason::Faster { took: rten, other: onnx_runtime })
    }
}

/// What a picture takes, with all parts that the look has.
fn time_of_a_picture(encoder: &mut dyn Encoder, input: &Preprocessing) -> Result<Duration, EncodeError> {
    let shape = (input.look.parts().len(), 3, input.height as usize, input.width as usize);
    let picture = Array4::from_shape_fn(shape, |(_, _, y, x)| ((31 * y + x) % 251) as f32 / 251.0 - 0.5);
    let mut time = || {
        let started = Instant::now();
        encoder.encode(picture.view()).map(|_| started.elapsed())
    };
    // Memory is taken in the first run.
    let mut fastest = time()?;
    for _ in 0..RUNS {
        fastest = fastest.min(time()?);
    }
    Ok(fastest)
}

/// Opens a backbone in one engine.
fn open_in(
    engine: Engine,
    model: &[u8],
    input: &Preprocessing,
    work: Workload,
) -> Result<Box<dyn Encoder>, EncodeError> {
    #[cfg(not(all(feature = "onnx", feature = "rten")))]
    let missing = |name: &str, feature: &str| {
        let _ = (model, input, work);
        let why = format!("this program was built without {name}, the feature \"{feature}\" of orco-runtime");
        Err(EncodeError::Start(why))
    };
    match engine {
        #[cfg(feature = "onnx")]
        Engine::OnnxRuntime if work == Workload::Stream => Ok(Box::new(super::onnx::Onnx::pool(model, input)?)),
        #[cfg(feature = "onnx")]
        Engine::OnnxRuntime => Ok(Box::new(super::onnx::Onnx::open(model, input)?)),
        #[cfg(not(feature = "onnx"))]
        Engine::OnnxRuntime => missing("ONNX Runtime", "onnx"),
        #[cfg(feature = "rten")]
        Engine::Rten => Ok(Box::new(super::rten::Rten::open(model, input)?)),
        #[cfg(not(feature = "rten"))]
        Engine::Rten => missing("rten", "rten"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Look;

    #[test]
    fn rten_encodes_shots_and_few_pictures() {
        let engine = |work| choose(work).map(|chosen| chosen.engine);
        assert_eq!(engine(Workload::Shots), Some(Engine::Rten));
        assert_eq!(engine(Workload::Pictures(0)), Some(Engine::Rten));
        assert_eq!(engine(Workload::Pictures(ONNX_RUNTIME_FROM - 1)), Some(Engine::Rten));
        assert_eq!(engine(Workload::Pictures(ONNX_RUNTIME_FROM)), Some(Engine::OnnxRuntime));
        assert_eq!(engine(Workload::Pictures(MEASURED_FROM - 1)), Some(Engine::OnnxRuntime));
        assert_eq!(engine(Workload::Pictures(MEASURED_FROM)), None);
        assert_eq!(engine(Workload::Pictures(usize::MAX)), None);
        assert_eq!(engine(Workload::Stream), Some(Engine::OnnxRuntime));
    }

    #[test]
    fn two_engines_are_measured_only_where_there_is_memory_for_both() {
        assert!(is_little(Some(MIN_MEMORY_TO_MEASURE - 1)));
        assert!(!is_little(Some(MIN_MEMORY_TO_MEASURE)) && !is_little(None));
    }

    /// An engine of that name, which fails where it is told to.
    struct Fake(Engine, bool);

    impl Encoder for Fake {
        fn engine(&self) -> String {
            format!("{:?}", self.0)
        }

        fn encode(&mut self, images: ndarray::ArrayView4<'_, f32>) -> Result<ndarray::Array2<f32>, EncodeError> {
            assert_eq!(images.dim(), (1, 3, 4, 6));
            if self.1 { Err(EncodeError::NotFinite) } else { Ok(ndarray::Array2::zeros((1, 2))) }
        }
    }

    fn opened(open: Open<'_>) -> Result<(String, ChoiceReason), EncodeError> {
        let input = Preprocessing { width: 6, height: 4, mean: [0.5; 3], deviation: [0.25; 3], look: Look::WHOLE };
        open_faster(open, &input).map(|opened| (opened.encoder.engine(), opened.reason))
    }

    #[test]
    fn the_faster_engine_is_taken_and_rten_where_both_are_alike() {
        let ms = Duration::from_millis;
        assert_eq!(faster([ms(3), ms(7)]), (Engine::OnnxRuntime, ChoiceReason::Faster { took: ms(3), other: ms(7) }));
        assert_eq!(faster([ms(7), ms(3)]).0, Engine::Rten);
        assert_eq!(faster([ms(3), ms(3)]).0, Engine::Rten);
        assert_eq!(
            faster([ms(3), ms(7)]).1.to_string(),
            "it was measured to be faster, 3.0 ms for a picture instead of 7.0 ms"
        );
        // One that fails is never the faster one.
        for broken in [Engine::OnnxRuntime, Engine::Rten] {
            let (engine, _) = opened(&|engine| Ok(Box::new(Fake(engine, engine == broken)))).unwrap();
            assert_ne!(engine, format!("{broken:?}"));
        }
    }

    #[test]
    fn where_one_engine_cannot_be_opened_the_other_is_taken_unmeasured() {
        let without = |missing: Engine, error: fn() -> EncodeError| {
            opened(&move |engine| if engine == missing { Err(error()) } else { Ok(Box::new(Fake(engine, false))) })
        };
        let start = || EncodeError::Start("there is none".into());
        for (missing, other) in [(Engine::OnnxRuntime, "Rten"), (Engine::Rten, "OnnxRuntime")] {
            let (engine, reason) = without(missing, start).unwrap();
            assert_eq!(engine, other);
            assert!(matches!(reason, ChoiceReason::Fallback(why) if why.contains("there is none")));
        }
        // What ONNX Runtime refuses is not tried in the other one.
        assert!(matches!(without(Engine::OnnxRuntime, || EncodeError::Busy), Err(EncodeError::Busy)));
    }
}
