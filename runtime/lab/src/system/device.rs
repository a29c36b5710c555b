//! The device's learner: with the settings it is measured with, with those of the published program, and with parts of
//! its answers alone.

use orco_benchmark::{DeviceLearner, FeatureLearner};
use orco_core::config::{AnswerWeights, MethodConfig};
use orco_state::state::Balance;

use crate::method::Method;

use super::{SystemContext, SystemSpec, as_measured, stored_as};

pub(super) static DEVICE: SystemSpec = DEVICE_SPEC;

const DEVICE_SPEC: SystemSpec = SystemSpec {
    method: Method {
        name: "device",
        description: "What a device does with the bundle's settings: discriminant, class means and OrCo's projections \
                       score together, and every session chooses the border between base classes and learned ones. \
                       More than the paper's method.",
        paper_row: None,
    },
    about: "what the device does by default",
    trains: false,
    needs_statistics: false,
    settings: as_measured,
    start: device,
};

pub(super) static KEEP_BASE: SystemSpec = SystemSpec {
    method: Method {
        name: "device, keep-base",
        description: "The same with `orco balance keep-base`: old answers stay as they were, wherever possible.",
        paper_row: None,
    },
    about: "the default with orco balance keep-base",
    needs_statistics: true,
    start: |context| Box::new(of(context).with_balance(Balance::KeepBase)),
    ..DEVICE_SPEC
};

pub(super) static FAVOUR_NEW: SystemSpec = SystemSpec {
    method: Method {
        name: "device, favour-new",
        description: "The same with `orco balance favour-new`: base classes and learned ones count alike.",
        paper_row: None,
    },
    about: "the default with orco balance favour-new",
    needs_statistics: true,
    start: |context| Box::new(of(context).with_balance(Balance::FavourNew)),
    ..DEVICE_SPEC
};

pub(super) static PROGRAM: SystemSpec = SystemSpec {
    method: Method {
        name: "OrCo, published program",
        description: "Phase 3 by the settings of the authors' program for the benchmark, on the few views of a shot \
                       that a device stores (the program draws new ones in every epoch); answers by pseudo-targets \
                       alone.",
        paper_row: Some("OrCo"),
    },
    about: "phase 3, answers by targets",
    trains: true,
    settings: |available| stored_as(available.measured_with, available.program),
    ..DEVICE_SPEC
};

pub(super) static TEXT: SystemSpec = SystemSpec {
    method: Method {
        name: "OrCo, paper's text",
        description: "The same by the paper's text where it differs from the program.",
        paper_row: Some("OrCo"),
    },
    about: "phase 3 where the text differs",
    trains: true,
    settings: |available| stored_as(available.measured_with, available.program.with_paper_text()),
    ..DEVICE_SPEC
};

pub(super) static NCM_BORDER: SystemSpec = SystemSpec {
    method: Method {
        name: "ncm + border",
        description: "Class means alone, seen from the mean of all base features, with a border chosen as ours is.",
        paper_row: None,
    },
    about: "class means alone, our border",
    needs_statistics: true,
    settings: |available| answering_by(available.measured_with, AnswerWeights::NEAREST_MEAN),
    ..DEVICE_SPEC
};

pub(super) static LDA_BORDER: SystemSpec = SystemSpec {
    method: Method {
        name: "lda + border",
        description: "The linear discriminant alone: the covariance that base classes share, shrunk by half, on the \
                       roots of features, with a border chosen as ours is.",
        paper_row: None,
    },
    about: "discriminant alone, our border",
    needs_statistics: true,
    settings: |available| {
        answering_by(
            available.measured_with,
            AnswerWeights { means: 0.0, discriminant: 1.0, ..AnswerWeights::NEAREST_MEAN },
        )
    },
    ..DEVICE_SPEC
};

/// These settings with other weights of answers. The covariance counts as much beside the scatter of shots as it does
/// in the bundle's answers.
fn answering_by(config: &MethodConfig, weights: AnswerWeights) -> Option<MethodConfig> {
    let scatter_prior = config.answer.map_or(weights.scatter_prior, |own| own.scatter_prior);
    Some(MethodConfig { epochs: 0, answer: Some(AnswerWeights { scatter_prior, ..weights }), ..config.clone() })
}

/// A device that has learned nothing yet, with the context's settings.
pub(super) fn device<'a>(context: &SystemContext<'a>) -> Box<dyn FeatureLearner + 'a> {
    Box::new(of(context))
}

fn of<'a>(context: &SystemContext<'a>) -> DeviceLearner<'a> {
    let SystemContext { base_model, config, seed, workers, .. } = *context;
    DeviceLearner::new(base_model, config, seed, workers)
}
