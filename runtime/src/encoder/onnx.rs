//! The backbone in ONNX Runtime, whose shared library ([`super::library`]) is found when the program runs, and loaded
//! with its telemetry off ([`super::telemetry`]). Only this file names `ort`.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ndarray::{Array2, ArrayView4};
use ort::environment::Environment;
use ort::session::Session;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::value::TensorRef;

use super::audit::bounds::{self, Bounds};
use super::library::{self, LibraryError};
use super::stream::EncoderPool;
use super::{EncodeError, Encoder, rows, telemetry, time_limit};
use crate::image::Preprocessing;
use crate::threads::{self, Process, usable_threads};

/// Has ONNX Runtime multiply int8 weights exactly on x86 processors without VNNI, where its fastest way saturates sums
/// of two products. Weights of 7 bits are as fast as ever.
const EXACT_INT8: &str = "session.x64quantprecision";

/// Names optimisers that are left out.
const DISABLED_OPTIMISERS: &str = "optimization.disable_specified_optimizers";
/// Up to ONNX Runtime 1.31, it has max pooling pad in the place of a node that pads with zeros. Pooling passes its own
/// padding over, so at the edges of maps below 0, such as the first of BiT and of Keras's ResNet50V2, it gives a number
/// below 0, not the zero.
const PAD_FUSION: &str = "Pad_Fusion";

/// A backbone in ONNX Runtime on the CPU.
pub struct Onnx {
    session: Session,
    bounds: Bounds,
    runtime: &'static Runtime,
    /// The process that has the session's threads.
    process: Process,
}

impl fmt::Debug for Onnx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Onnx").field("engine", &self.engine()).finish_non_exhaustive()
    }
}

impl Onnx {
    /// Loads a model from its bytes, after [`Bounds`] has told what it may cost, within [`time_limit::LIMIT`].
    ///
    /// # Errors
    /// [`EncodeError::Refused`] if it is suspicious or costs too much, [`EncodeError::Start`] if there is no usable
    /// library, [`EncodeError::Model`] if it refuses the model, [`EncodeError::Input`] if the model takes other
    /// pictures, [`EncodeError::Slow`] if it takes too long, [`EncodeError::Busy`] while another one does.
    pub fn open(model: &[u8], input: &Preprocessing) -> Result<Self, EncodeError> {
        let bounds = Bounds::of(model, input)?;
        Self::new(runtime()?, &model.into(), bounds, session_threads())
    }

    /// Loads a model for many pictures: sessions side by side, one for every core, or where there are more than eight
    /// cores, one for as many cores as give eight, since each holds the model and a batch.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn pool(model: &[u8], input: &Preprocessing) -> Result<EncoderPool, EncodeError> {
        const MAX_MEMBERS: usize = 8;
        let bounds = Bounds::of(model, input)?;
        let (runtime, model) = (runtime()?, model.into());
        let count = usable_threads().min(MAX_MEMBERS);
        let member = || -> Result<Box<dyn Encoder>, EncodeError> {
            Ok(Box::new(Self::new(runtime, &model, bounds.clone(), usable_threads() / count)?))
        };
        Ok(EncoderPool::new(member()?, (1..count).map(|_| member()).collect::<Result<_, _>>()?))
    }

    /// A session with a model that passed the audit, on `threads` threads, or on one where no more can be started.
    fn new(runtime: &'static Runtime, model: &Arc<[u8]>, bounds: Bounds, threads: usize) -> Result<Self, EncodeError> {
        let session = match session(runtime, model, threads) {
            // Perhaps the process may have no more threads. If the model is at fault, one thread fails as well.
            Err(EncodeError::Model(error)) => match session(runtime, model, 1) {
                Ok(session) => {
                    log::warn!("ONNX Runtime cannot start threads, so it computes on one: {error}");
                    session
                }
                Err(EncodeError::Model(_)) => return Err(EncodeError::Model(error)),
                Err(other) => return Err(other),
            },
            session => session?,
        };
        Ok(Self { session, bounds, runtime, process: Process::this() })
    }
}

/// Threads of a session that has the machine to itself: as many as the library takes, one that stays on each core,
/// unless this process may use fewer. The library would count cores that a container may not use.
fn session_threads() -> usize {
    /// The library's own choice.
    const OWN: usize = 0;
    let usable = usable_threads();
    if threads::limit().is_none() && num_cpus::get_physical() <= usable { OWN } else { usable }
}

/// What makes a session on `threads` threads. They sleep between pictures: those that wait for work by spinning take
/// half a core of a device whose camera sends ten pictures a second, and answer at most a millisecond sooner.
fn session_builder(runtime: &Runtime, threads: usize) -> ort::Result<SessionBuilder> {
    let builder = Session::builder(&runtime.environment)?.with_intra_threads(threads)?.with_intra_op_spinning(false)?;
    Ok(builder.with_config_entry(DISABLED_OPTIMISERS, PAD_FUSION)?)
}

/// A session on `threads` threads.
fn session(runtime: &'static Runtime, model: &Arc<[u8]>, threads: usize) -> Result<Session, EncodeError> {
    let builder = move || -> ort::Result<SessionBuilder> {
        Ok(session_builder(runtime, threads)?.with_config_entry(EXACT_INT8, "1")?)
    };
    open_within_limit(Arc::clone(model), builder)
}

/// Opens a model within [`time_limit::LIMIT`].
fn open_within_limit(
    model: Arc<[u8]>,
    builder: impl FnOnce() -> ort::Result<SessionBuilder> + Send + 'static,
) -> Result<Session, EncodeError> {
    let commit = move |cancel: &time_limit::Cancel| -> ort::Result<Session> {
        let mut builder = builder()?;
        let canceler = builder.canceler();
        cancel.by(move || drop(canceler.cancel()));
        builder.commit_from_memory(&model)
    };
    time_limit::within_limit(commit)?.map_err(|error| EncodeError::Model(error.to_string()))
}

/// What ONNX Runtime makes of a model once it has computed whatever depends on constants alone, and left out nodes that
/// change nothing (its basic optimisations): ONNX's own operators still. The model may hold operators that make
/// constants; whether some are left, [`audit`](super::audit::audit) says of the result.
///
/// # Errors
/// [`EncodeError::Refused`] if the model is suspicious otherwise, [`EncodeError::Start`] if there is no usable library,
/// [`EncodeError::Model`] if it refuses the model or cannot write the other.
pub fn fold_constants(model: &[u8]) -> Result<Vec<u8>, EncodeError> {
    bounds::check_unfolded(model).map_err(EncodeError::Refused)?;
    let runtime = runtime()?;
    let written = |error: std::io::Error| EncodeError::Model(format!("the folded model cannot be kept: {error}"));
    // The library writes to a file only.
    let folder = tempfile::tempdir().map_err(written)?;
    let path = folder.path().join("folded.onnx");
    let target = path.clone();
    let builder = move || -> ort::Result<SessionBuilder> {
        let builder = session_builder(runtime, 1)?.with_prepacking(false)?;
        let builder = builder.with_optimization_level(GraphOptimizationLevel::Level1)?;
        Ok(builder.with_optimized_model_path(&target)?)
    };
    open_within_limit(model.into(), builder)?;
    std::fs::read(&path).map_err(written)
}

impl Encoder for Onnx {
    fn engine(&self) -> String {
        format!("ONNX Runtime {} ({})", self.runtime.version, self.runtime.library.display())
    }

    fn encode(&mut self, images: ArrayView4<'_, f32>) -> Result<Array2<f32>, EncodeError> {
        let failed = |error: ort::Error| EncodeError::Run(error.to_string());
        self.bounds.admit(images.shape())?;
        if !self.process.is_this() {
            return Err(EncodeError::Forked);
        }
        let images = images.as_standard_layout();
        let tensor = TensorRef::from_array_view(images.view()).map_err(failed)?;
        let outputs = self.session.run(ort::inputs![tensor]).map_err(failed)?;
        let features = outputs[0].try_extract_array::<f32>().map_err(failed)?;
        rows(images.dim().0, features.iter().copied().collect())
    }
}

/// Loads the library, so that a missing one is known before anything is computed. Returns its version and its file.
///
/// # Errors
/// [`EncodeError::Start`] if there is no usable library.
pub fn start() -> Result<(&'static str, &'static Path), EncodeError> {
    runtime().map(|runtime| (runtime.version.as_str(), runtime.library.as_path()))
}

/// ONNX Runtime in this process.
struct Runtime {
    environment: Environment,
    version: String,
    library: PathBuf,
}

/// The library, loaded once per process with its telemetry off.
fn runtime() -> Result<&'static Runtime, EncodeError> {
    static LOADED: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let load = || {
        let named = library::locate().ok_or_else(|| LibraryError::Missing.to_string())?;
        let refused = |error: &dyn Display| format!("{}: {error}", named.display());
        telemetry::turn_off().map_err(|error| refused(&error))?;
        let library = library::check(&named).map_err(|error| refused(&error))?;
        let version = library::load(&library, ort::MINOR_VERSION).map_err(|error| refused(&error))?;
        let builder = ort::init_from(&library).map_err(|error| refused(&error))?;
        let builder = builder.with_name("orco").with_telemetry(false);
        let environment = builder.build().map_err(|error| refused(&error))?;
        Ok(Runtime { environment, version, library: named })
    };
    LOADED.get_or_init(load).as_ref().map_err(|reason| EncodeError::Start(reason.clone()))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use orco_trials::alone::alone_with;
    use orco_trials::skipped;
    use orco_trials::threads::on_one_processor;

    use super::*;
    use crate::image::Look;

    /// Threads of this process.
    fn threads() -> usize {
        std::fs::read_dir("/proc/self/task").unwrap().count()
    }

    /// As in a container with one processor, which sees all cores of the machine. In a process of its own: threads of
    /// other tests would be counted, too.
    #[test]
    fn a_process_with_one_processor_gets_a_session_without_further_threads() {
        if library::locate().is_none() {
            return skipped("ONNX Runtime on one processor (no library was found)");
        }
        let name = "encoder::onnx::tests::a_process_with_one_processor_gets_a_session_without_further_threads";
        let without_telemetry = |command: &mut Command| {
            command.env(telemetry::VARIABLE, "1");
        };
        alone_with(name, without_telemetry, || {
            on_one_processor();
            assert_eq!(usable_threads(), 1);
            let backbone = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/cifar100-edge/backbone.onnx");
            let backbone = std::fs::read(backbone).unwrap();
            let input = Preprocessing { width: 32, height: 32, mean: [0.5; 3], deviation: [0.5; 3], look: Look::WHOLE };
            let open = || Onnx::open(&backbone, &input).unwrap();
            let first = open();
            let before = threads();
            let second = open();
            assert_eq!(threads(), before);
            drop((first, second));
        });
    }
}
