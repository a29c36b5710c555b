//! The backbone in ONNX Runtime, whose shared library is found when the program runs. Only this file names `ort`.

use std::env;
use std::format;
use std::fs;
use std::path::PathBuf;
use std::string::{String, ToString};
use std::sync::OnceLock;
use std::vec::Vec;

use ort::environment::Environment;
use ort::session::Session;
use ort::value::TensorRef;

use super::audit::audit;
use super::{EncodeError, Encoder, check_input};
use crate::image::Preprocessing;

/// Oldest release that does not read outside a model's folder.
const OLDEST: [u32; 3] = [1, 28, 3];

/// A backbone in ONNX Runtime on the CPU.
pub struct Onnx {
    session: Session,
    input: Preprocessing,
    library: PathBuf,
}

impl Onnx {
    /// Loads a model from its bytes, after [`audit`] has looked through them.
    ///
    /// # Errors
    /// [`EncodeError::Refused`] if it is suspicious, [`EncodeError::Start`] if there is no usable library,
    /// [`EncodeError::Model`] if it refuses the model, [`EncodeError::Input`] if the model takes other pictures.
    pub fn open(model: &[u8], input: &Preprocessing) -> Result<Self, EncodeError> {
        audit(model).map_err(EncodeError::Refused)?;
        let (environment, library) = environment()?;
        let refused = |error: ort::Error| EncodeError::Model(error.to_string());
        let session = Session::builder(environment).map_err(refused)?.commit_from_memory(model).map_err(refused)?;
        if let Some(shape) = session.inputs().first().and_then(|model| model.dtype().tensor_shape()) {
            // A negative size is one that the model leaves open.
            let sizes: Vec<Option<usize>> = shape.iter().map(|size| usize::try_from(*size).ok()).collect();
            check_input(&sizes, input)?;
        }
        Ok(Self { session, input: *input, library: library.clone() })
    }
}

impl Encoder for Onnx {
    fn engine(&self) -> String {
        format!("ONNX Runtime ({})", self.library.display())
    }

    fn encode(&mut self, images: &[f32], count: usize) -> Result<Vec<f32>, EncodeError> {
        let failed = |error: ort::Error| EncodeError::Run(error.to_string());
        let shape = [count, 3, self.input.height as usize, self.input.width as usize];
        let tensor = TensorRef::from_array_view((shape, images)).map_err(failed)?;
        let outputs = self.session.run(ort::inputs![tensor]).map_err(failed)?;
        let (_, features) = outputs[0].try_extract_tensor::<f32>().map_err(failed)?;
        Ok(features.to_vec())
    }
}

/// Loads the library, so that a missing one is known before anything is computed.
///
/// # Errors
/// [`EncodeError::Start`] if there is no usable library.
pub fn start() -> Result<(), EncodeError> {
    environment().map(|_| ())
}

/// The library, loaded once per process, and where it was found.
fn environment() -> Result<&'static (Environment, PathBuf), EncodeError> {
    static LOADED: OnceLock<Result<(Environment, PathBuf), String>> = OnceLock::new();
    LOADED
        .get_or_init(|| {
            let library = locate().ok_or("no ONNX Runtime library was found (ORT_DYLIB_PATH is not set)")?;
            let shown = library.display();
            let builder = ort::init_from(&library).map_err(|error| format!("{shown}: {error}"))?;
            let environment = builder.with_name("orco").build().map_err(|error| format!("{shown}: {error}"))?;
            Ok((environment, library))
        })
        .as_ref()
        .map_err(|reason| EncodeError::Start(reason.clone()))
}

/// Where the library lies: `ORT_DYLIB_PATH`, else the newest in the cache that `cargo xtask setup` fills (the order of
/// folders is that of `tests/xtask/src/cache.rs`).
pub fn locate() -> Option<PathBuf> {
    if let Some(path) = env::var_os("ORT_DYLIB_PATH").filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let xdg = || set("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let user = || xdg().or_else(|| Some(env::home_dir()?.join(".cache"))).map(|cache| cache.join("orco"));
    let cache = set("ORCO_CACHE").or_else(user)?;
    let name = match () {
        () if cfg!(target_os = "macos") => "libonnxruntime.dylib",
        () if cfg!(windows) => "onnxruntime.dll",
        () => "libonnxruntime.so",
    };
    let folders = fs::read_dir(cache).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let version = |path: &PathBuf| -> Option<Vec<u32>> {
        let name = path.file_name()?.to_str()?.strip_prefix("onnxruntime-")?;
        let version: Option<Vec<u32>> = name.split('.').map(|part| part.parse().ok()).collect();
        version.filter(|version| version.as_slice() >= OLDEST.as_slice())
    };
    let found = folders.filter_map(|path| Some((version(&path)?, path.join(name)))).filter(|(_, path)| path.is_file());
    found.max().map(|(_, path)| path)
}
