//! The device's learner: with the settings it is measured with, with those of the published program, and with parts of
//! its answers alone.

use orco_benchmark::{DeviceLearner, FeatureLearner};
use orco_core::config::{AnswerWeights, LearnConfig};
use orco_state::state::Balance;

use crate::method::Method;

use super::{Definition, SystemContext, as_measured, stored_as};

pub(super) static ORCO: Definition = ORCO_DEFINITION;

const ORCO_DEFINITION: Definition = Definition {
    method: Method {
        name: "orco",
        definition: "What a device does with the bundle's settings: discriminant, class means and targets score \
                       together, and every session chooses the border between base classes and learned ones.",
        paper_row: Some("OrCo"),
    },
    about: "what the device does by default",
    trains: false,
    needs_statistics: false,
    settings: as_measured,
    start: device,
};

pub(super) static KEEP_BASE: Definition = Definition {
    method: Method {
        name: "orco, keep-base",
        definition: "The same with `orco balance keep-base`: old answers stay as they were, wherever possible.",
        paper_row: None,
    },
    about: "the default with orco balance keep-base",
    needs_statistics: true,
    start: |context| Box::new(of(context).with_balance(Balance::KeepBase)),
    ..ORCO_DEFINITION
};

pub(super) static FAVOUR_NEW: Definition = Definition {
    method: Method {
        name: "orco, favour-new",
        definition: "The same with `orco balance favour-new`: base classes and learned ones count alike.",
        paper_row: None,
    },
    about: "the default with orco balance favour-new",
    needs_statistics: true,
    start: |context| Box::new(of(context).with_balance(Balance::FavourNew)),
    ..ORCO_DEFINITION
};

pub(super) static PROGRAM: Definition = Definition {
    method: Method {
        name: "orco, published program",
        definition: "Phase 3 by the settings of the authors' program for the benchmark; answers by pseudo-targets \
                       alone.",
        paper_row: Some("OrCo"),
    },
    about: "phase 3, answers by targets",
    trains: true,
    settings: |config, program| stored_as(config, program),
    ..ORCO_DEFINITION
};

pub(super) static TEXT: Definition = Definition {
    method: Method {
        name: "orco, the paper's text",
        definition: "The same by the paper's text where it differs from the program.",
        paper_row: Some("OrCo"),
    },
    about: "phase 3 where the text differs",
    trains: true,
    settings: |config, program| stored_as(config, program.by_the_text()),
    ..ORCO_DEFINITION
};

pub(super) static NCM_BORDER: Definition = Definition {
    method: Method {
        name: "ncm + border",
        definition: "Class means alone, seen from the mean of all base features, with a border chosen as ours is.",
        paper_row: None,
    },
    about: "class means alone, our border",
    needs_statistics: true,
    settings: |config, _| answering_by(config, AnswerWeights::NEAREST_MEAN),
    ..ORCO_DEFINITION
};

pub(super) static LDA_BORDER: Definition = Definition {
    method: Method {
        name: "lda + border",
        definition: "The linear discriminant alone: the covariance that base classes share, shrunk by half, on the \
                       roots of features, with a border chosen as ours is.",
        paper_row: None,
    },
    about: "discriminant alone, our border",
    needs_statistics: true,
    settings: |config, _| {
        answering_by(config, AnswerWeights { means: 0.0, discriminant: 1.0, ..AnswerWeights::NEAREST_MEAN })
    },
    ..ORCO_DEFINITION
};

fn answering_by(config: &LearnConfig, answer: AnswerWeights) -> Option<LearnConfig> {
    Some(LearnConfig { epochs: 0, answer: Some(answer), ..config.clone() })
}

/// A device that has learned nothing yet, with the context's settings.
pub(super) fn device<'a>(context: &SystemContext<'a>) -> Box<dyn FeatureLearner + 'a> {
    Box::new(of(context))
}

fn of<'a>(context: &SystemContext<'a>) -> DeviceLearner<'a> {
    let SystemContext { base_model, config, seed, workers, .. } = *context;
    DeviceLearner::new(base_model, config, seed, workers)
}
