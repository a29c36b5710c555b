//! The learner for Python: the compiled half of the package `orco`, whose other half is in `python/orco`.
//!
//! Thin over [`orco_runtime::learner::Learner`]. Python's lock is released while the library works, so other threads
//! of Python go on; calls of one learner wait for one another. Modules:
//!
//! - `error`, the exceptions;
//! - `ending`, how threads work without Python's lock, and what becomes of them when Python ends;
//! - `input`, pictures and features as Python gives them;
//! - `interrupt`, changes that Ctrl-C stops;
//! - `options`, how a learner works and a backup is restored;
//! - `output`, answers and reports as Python gets them;
//! - `learner`, the class that does the work;
//! - `backup`, all of it in one file, and moving to another bundle.
//!
//! What Python sees is documented in `python/orco/_orco.pyi`, which type checkers read, and, for options and what calls
//! return, in the classes of `options.py` and `output.py` beside it; this crate is to agree with them.

mod backup;
mod ending;
mod error;
mod input;
mod interrupt;
mod learner;
mod options;
mod output;

use pyo3::prelude::*;

/// Learns new image classes on the device, from five shots each.
#[pymodule]
mod _orco {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::backup::{restore, upgrade};
    #[pymodule_export]
    use super::error::{BackupError, BusyError, ChangeError, EngineError, OpenError, OrcoError, PictureError};
    #[pymodule_export]
    use super::input::read_picture;
    #[pymodule_export]
    use super::learner::PyLearner;

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // A call that imports it while Python ends would die within, and one without it would panic.
        module.py().import("numpy")?;
        super::ending::register(module)
    }
}
