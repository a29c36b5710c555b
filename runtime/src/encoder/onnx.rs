//! The backbone in ONNX Runtime, whose shared library ([`super::library`]) is found when the program runs, and loaded
//! with its telemetry off ([`super::telemetry`]). Only this file names `ort`.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ndarray::{Array2, ArrayView4};
use ort::environment::Environment;
use ort::session::Session;
use ort::value::TensorRef;

use super::audit::audit;
use super::library::{self, LibraryError};
use super::{EncodeError, Encoder, check_input, rows, telemetry};
use crate::image::Preprocessing;

/// A backbone in ONNX Runtime on the CPU.
pub struct Onnx {
    session: Session,
    runtime: &'static Runtime,
}

impl Onnx {
    /// Loads a model from its bytes, after [`audit`] has looked through them.
    ///
    /// # Errors
    /// [`EncodeError::Refused`] if it is suspicious, [`EncodeError::Start`] if there is no usable library,
    /// [`EncodeError::Model`] if it refuses the model, [`EncodeError::Input`] if the model takes other pictures.
    pub fn open(model: &[u8], input: &Preprocessing) -> Result<Self, EncodeError> {
        audit(model).map_err(EncodeError::Refused)?;
        let runtime = runtime()?;
        let session = match session(runtime, model, None) {
            Ok(session) => session,
            // Perhaps no more threads can be started, while the caller's is there. If it is the model, that fails, too.
            Err(error) => {
                let alone = session(runtime, model, Some(1));
                let alone = alone.map_err(|_| EncodeError::Model(error.to_string()))?;
                log::warn!("ONNX Runtime cannot start threads, so it computes on one: {error}");
                alone
            }
        };
        if let Some(shape) = session.inputs().first().and_then(|model| model.dtype().tensor_shape()) {
            // A negative size is one that the model leaves open.
            let sizes: Vec<Option<usize>> = shape.iter().map(|size| usize::try_from(*size).ok()).collect();
            check_input(&sizes, input)?;
        }
        Ok(Self { session, runtime })
    }
}

/// A session on so many threads, or on as many as the machine has cores.
fn session(runtime: &Runtime, model: &[u8], threads: Option<usize>) -> ort::Result<Session> {
    let mut builder = Session::builder(&runtime.environment)?;
    if let Some(threads) = threads {
        builder = builder.with_intra_threads(threads)?;
    }
    builder.commit_from_memory(model)
}

impl Encoder for Onnx {
    fn engine(&self) -> String {
        format!("ONNX Runtime {} ({})", self.runtime.version, self.runtime.library.display())
    }

    fn encode(&mut self, images: ArrayView4<'_, f32>) -> Result<Array2<f32>, EncodeError> {
        let failed = |error: ort::Error| EncodeError::Run(error.to_string());
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
        telemetry::off().map_err(|error| refused(&error))?;
        let library = library::check(&named).map_err(|error| refused(&error))?;
        let version = library::load(&library, ort::MINOR_VERSION).map_err(|error| refused(&error))?;
        let builder = ort::init_from(&library).map_err(|error| refused(&error))?;
        let builder = builder.with_name("orco").with_telemetry(false);
        let environment = builder.build().map_err(|error| refused(&error))?;
        Ok(Runtime { environment, version, library: named })
    };
    LOADED.get_or_init(load).as_ref().map_err(|reason| EncodeError::Start(reason.clone()))
}
