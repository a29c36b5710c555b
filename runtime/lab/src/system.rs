//! The systems that are measured side by side: ours, its forms, and its rivals as far as they are a head on given
//! features.
//!
//! Each is a [`Learner`]: it is given the shots of one session after the other, as a device is, and scores pictures in
//! between. Methods that live in the training of the backbone are not among them; [`crate::published`] says which, and
//! why.

mod bounds;
mod c_fscil;
mod device;
mod fecam;
mod means;
mod nc_fscil;
mod pull;
mod ridge;

use orco_core::align::{AlignError, AlignProgress};
use orco_core::config::{AnswerWeights, Config};
use orco_core::workers::Workers;
use orco_state::session::{LearnError, NewClass, OnProgress};
use orco_state::state::{BaseModel, State};

use crate::ablation::Ablation;
use crate::evaluate::Measurement;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The device's learner with the settings it is measured with.
    Orco,
    /// The same, changed.
    Ablated(Ablation),
    /// Phase 3 by the published program's settings for the benchmark ([`crate::published::program`]), answers by
    /// pseudo-targets alone.
    Program,
    /// The same by the paper's text where it differs.
    Text,
    /// Imprinting in the projected space, without training: a new class is the mean projection of its shots, a base
    /// class its pseudo-target; the head of phase 2 stays (Qi et al., CVPR 2018; IW in the paper's tables).
    Imprint,
    /// Nearest class mean on backbone features (cosine): base classes over all their training images, new classes over
    /// their shots.
    Ncm,
    /// The same with the means of new classes moved halfway to the base means that are like them (TEEN, Wang et al.,
    /// NeurIPS 2023: alpha 0.5, tau 16).
    Teen,
    /// Nearest class mean, seen from the mean of all base features, with a border chosen as ours is.
    NcmBorder,
    /// The linear discriminant with the covariance that base classes share, shrunk by half, on the roots of features,
    /// with a border chosen as ours is.
    LdaBorder,
    /// Ridge regression on random features, fitted to the bundle's exemplars and the shots, with a border chosen as
    /// ours is (RanPAC, McDonnell et al., NeurIPS 2023).
    Ridge,
    /// Mahalanobis distance under one shrunk, normalised covariance of the base classes, the means of new classes
    /// calibrated as in [`System::Teen`] (C-FeCAM, Goswami et al., CVPR Workshops 2024).
    CFecam,
    /// The head pulled to the vertices of a simplex by dot-regression (NC-FSCIL, Yang et al., ICLR 2023).
    NcFscil,
    /// The head pulled to prototypes that were nudged apart (C-FSCIL mode 3, Hersche et al., CVPR 2022).
    CFscil,
    /// The head trained on by cross entropy on the new shots alone, from session to session.
    FineTuning,
    /// The head of phase 2 trained by cross entropy on all exemplars and shots so far together.
    Joint,
}

impl System {
    /// The systems that train nothing, which are set side by side everywhere, ours first.
    pub const ALL: [Self; 7] =
        [Self::Orco, Self::Imprint, Self::Ncm, Self::Teen, Self::NcmBorder, Self::LdaBorder, Self::Ridge];

    /// Those that a report adds: most of them train a head in every session.
    pub const FURTHER: [Self; 7] =
        [Self::Program, Self::Text, Self::CFecam, Self::NcFscil, Self::CFscil, Self::FineTuning, Self::Joint];

    /// The systems of [`System::ALL`] that can be measured on a bundle.
    pub fn on(base_model: &BaseModel) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|system| system.fits(base_model))
    }

    /// Whether it trains a head in every session, whatever the settings it is measured with.
    pub fn trains(self) -> bool {
        let trained = [Self::Program, Self::Text, Self::NcFscil, Self::CFscil, Self::FineTuning, Self::Joint];
        trained.contains(&self)
    }

    /// Whether a bundle has what the system needs: those with a border need its statistics, and so does C-FeCAM.
    pub fn fits(self, base_model: &BaseModel) -> bool {
        let needs_them = matches!(self, Self::NcmBorder | Self::LdaBorder | Self::Ridge | Self::CFecam);
        base_model.statistics.is_some() || !needs_them
    }

    /// The settings that a system brings instead of those it is measured with; `program` are the published program's.
    pub(crate) fn settings(self, config: &Config, program: Config) -> Option<Config> {
        let none = AnswerWeights { targets: 0.0, means: 0.0, discriminant: 0.0 };
        let alone = |answer| Some(Config { epochs: 0, answer: Some(answer), ..config.clone() });
        // How exemplars are stored is the bundle's.
        let stored = |preset: Config| {
            Some(Config { views: config.views, precision: config.precision, ..preset.by_targets_alone() })
        };
        match self {
            Self::NcmBorder => alone(AnswerWeights::NEAREST_MEAN),
            Self::LdaBorder => alone(AnswerWeights { discriminant: 1.0, ..none }),
            Self::Program => stored(program),
            Self::Text => stored(program.by_the_text()),
            Self::FineTuning => stored(bounds::fine_tuning(program)),
            Self::Joint => stored(bounds::joint(program)),
            _ => None,
        }
    }

    /// Name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Orco => "orco",
            Self::Ablated(_) => "orco, ablated",
            Self::Program => "orco, published program",
            Self::Text => "orco, the paper's text",
            Self::Imprint => "imprint",
            Self::Ncm => "ncm",
            Self::Teen => "teen",
            Self::NcmBorder => "ncm + border",
            Self::LdaBorder => "lda + border",
            Self::Ridge => "ridge + border",
            Self::CFecam => "c-fecam",
            Self::NcFscil => "nc-fscil's head",
            Self::CFscil => "c-fscil's head",
            Self::FineTuning => "fine-tuning",
            Self::Joint => "joint training",
        }
    }

    /// What it is in a line, as far as its name does not say it.
    pub fn about(self) -> &'static str {
        match self {
            Self::Orco => "what the device does by default",
            Self::Ablated(_) => "",
            Self::Program => "phase 3, answers by targets",
            Self::Text => "phase 3 where the text differs",
            Self::Imprint => "IW: mean projections on the head of phase 2",
            Self::Ncm => "nearest class mean",
            Self::Teen => "new means moved to similar base means; NeurIPS 2023",
            Self::NcmBorder => "class means alone, our border",
            Self::LdaBorder => "discriminant alone, our border",
            Self::Ridge => "RanPAC on exemplars and shots, our border; NeurIPS 2023",
            Self::CFecam => "common covariance, calibrated means; CVPRW 2024",
            Self::NcFscil => "simplex, dot-regression; ICLR 2023",
            Self::CFscil => "mode 3, nudged prototypes; CVPR 2022",
            Self::FineTuning => "the head on new shots alone",
            Self::Joint => "the head on the few exemplars and shots kept: no upper bound",
        }
    }

    /// The system of [`System::ALL`] and [`System::FURTHER`] that has this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().chain(Self::FURTHER).find(|system| system.name() == name)
    }

    /// The system before its first session.
    pub(crate) fn start<'a>(
        self,
        of: &Measurement<'a>,
        config: &'a Config,
        workers: &'a dyn Workers,
    ) -> Box<dyn Learner + 'a> {
        let Measurement { base_model, benchmark, seed, .. } = *of;
        match self {
            Self::Orco | Self::NcmBorder | Self::LdaBorder | Self::Program | Self::Text | Self::Joint => {
                Box::new(device::Device::new(base_model, config, seed, workers, None))
            }
            Self::Ablated(ablation) => Box::new(device::Device::new(base_model, config, seed, workers, Some(ablation))),
            Self::Imprint => Box::new(means::Imprinted::new(base_model)),
            Self::Ncm => Box::new(means::Means::new(base_model, benchmark, None)),
            Self::Teen => Box::new(means::Means::new(base_model, benchmark, Some(means::TEEN))),
            Self::Ridge => Box::new(ridge::Ridge::new(base_model, seed)),
            Self::CFecam => Box::new(fecam::CFecam::new(base_model)),
            Self::NcFscil => Box::new(nc_fscil::NcFscil::new(base_model, benchmark, seed, workers)),
            Self::CFscil => Box::new(c_fscil::CFscil::new(base_model, benchmark, seed, workers)),
            Self::FineTuning => Box::new(bounds::FineTuned::new(base_model, config, seed, workers)),
        }
    }
}

/// A system on its way through the sessions of a draw.
pub(crate) trait Learner {
    /// Learns the classes of a session and returns the floating-point operations of its training, those of matrix
    /// products, as far as they are counted.
    fn learn(&mut self, new: &[NewClass], on_progress: OnProgress<'_>) -> Result<f64, LearnError>;

    /// Scores of every class seen: `features` `[n, inputs]`, result `[n, classes]`.
    fn scores(&self, features: &[f32]) -> Vec<f32>;

    /// The state of a device, where it is one.
    fn state(&self) -> Option<&State> {
        None
    }
}

/// Tells of an epoch that trained something else than phase 3, and asks whether to go on.
pub(crate) fn told(epoch: usize, epochs: usize, on_progress: OnProgress<'_>) -> Result<(), LearnError> {
    let progress = AlignProgress { epoch: epoch + 1, epochs, losses: Default::default() };
    if on_progress(progress).is_break() { Err(AlignError::Cancelled.into()) } else { Ok(()) }
}

/// The clean views of a class's shots, `[shots, inputs]`.
pub(crate) fn clean(class: &NewClass, inputs: usize) -> Vec<f32> {
    class.shots.iter().flat_map(|shot| &shot[..inputs]).copied().collect()
}
