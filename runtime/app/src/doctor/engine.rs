//! The engines that compute features.

use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::engine_choice::{EngineChoice, Workload};
use orco_runtime::encoder::{library, onnx};
use orco_runtime::state::sentence::with_causes;

use super::Findings;
use crate::options::{EngineArgument, Options};

/// Whether ONNX Runtime is there, which release, and where it lies.
pub fn onnx_runtime(options: &Options, findings: &mut Findings) {
    const SUBJECT: &str = "ONNX Runtime";
    if options.engine == EngineArgument::Rten {
        return findings.note(SUBJECT, "not tried: --engine rten does without it");
    }
    match (library::locate(), onnx::start()) {
        (_, Ok((version, path))) => findings.good(SUBJECT, format!("{version}, {}", path.display())),
        (None, Err(_)) if options.engine != EngineArgument::OnnxRuntime => findings.note(
            SUBJECT,
            "none was found, so rten does everything, slower for many pictures; name a library in ORT_DYLIB_PATH to \
             use it",
        ),
        (_, Err(error)) => findings.failed(SUBJECT, error),
    }
}

/// Whether rten runs the bundle's backbone.
pub fn rten(options: &Options, bundle: &Bundle, findings: &mut Findings) {
    const SUBJECT: &str = "rten";
    match bundle.encoder(EngineChoice::Rten, Workload::Shots) {
        Ok(_) => findings.good(SUBJECT, "runs the backbone"),
        Err(error) if options.engine == EngineArgument::Rten => findings.failed(SUBJECT, error),
        Err(error) => findings.note(SUBJECT, format!("{}; ONNX Runtime has to do everything", with_causes(&error))),
    }
}
