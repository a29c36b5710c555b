//! The systems that are measured side by side: ours, variants of it, and those rivals that are a head on given
//! features.
//!
//! Each is a [`FeatureLearner`]: it is given the shots of one session after the other, as a device is, and scores
//! pictures in between. Methods that live in the training of the backbone are not among them; [`crate::published`] says
//! which, and why.

mod ablated;
mod baselines;
mod c_fscil;
mod device;
mod fecam;
mod goal;
mod means;
mod nc_fscil;
mod ridge;

use std::fmt;

use orco_benchmark::FeatureLearner;
use orco_benchmark::benchmark::Benchmark;
use orco_core::align::{AlignError, AlignProgress};
use orco_core::config::MethodConfig;
use orco_core::math::add_scaled;
use orco_core::workers::Workers;
use orco_state::session::{LearnError, NewClass, OnProgress};
use orco_state::state::BaseModel;

use crate::ablation::Ablation;
use crate::method::Method;
use crate::published::PaperRow;

/// What a system is, as tables, reports and commands know it. Each file of this folder defines those that it
/// implements; [`System::COMPARED`] or [`System::ON_REQUEST`] lists them.
pub(crate) struct SystemSpec {
    /// Its name, and where it comes from.
    pub method: Method,
    /// What it is in a line, as far as its name does not say it.
    pub about: &'static str,
    /// Whether it trains a head in every session, whatever the settings it is measured with.
    pub trains: bool,
    /// Whether it needs the bundle's statistics.
    pub needs_statistics: bool,
    /// The settings that it brings instead of those it is measured with.
    pub settings: fn(AvailableSettings<'_>) -> Option<MethodConfig>,
    /// Makes its learner.
    pub start: for<'a> fn(&SystemContext<'a>) -> Box<dyn FeatureLearner + 'a>,
}

/// What a system may make its settings from.
pub(crate) struct AvailableSettings<'a> {
    /// Those it is measured with.
    pub measured_with: &'a MethodConfig,
    /// Those of the published program.
    pub program: MethodConfig,
}

/// A system that takes the settings it is measured with.
pub(crate) fn as_measured(_: AvailableSettings<'_>) -> Option<MethodConfig> {
    None
}

/// A preset that answers by pseudo-targets alone; how exemplars are stored is the bundle's.
pub(crate) fn stored_as(config: &MethodConfig, preset: MethodConfig) -> Option<MethodConfig> {
    Some(MethodConfig { views: config.views, precision: config.precision, ..preset.by_targets_alone() })
}

/// A system that can be measured.
#[derive(Clone, Copy)]
pub struct System {
    spec: &'static SystemSpec,
    /// What the device's learner does otherwise.
    ablation: Option<Ablation>,
}

impl System {
    /// The device's learner with the settings it is measured with.
    pub const DEVICE: Self = Self::of(&device::DEVICE);
    /// [`System::DEVICE`] with the balance `keep-base`.
    pub const KEEP_BASE: Self = Self::of(&device::KEEP_BASE);
    /// [`System::DEVICE`] with the balance `favour-new`.
    pub const FAVOUR_NEW: Self = Self::of(&device::FAVOUR_NEW);
    /// Phase 3 by the published program's settings for the benchmark ([`crate::published::program`]), answers by
    /// pseudo-targets alone.
    pub const PROGRAM: Self = Self::of(&device::PROGRAM);
    /// [`System::PROGRAM`], by the paper's text where it differs.
    pub const TEXT: Self = Self::of(&device::TEXT);
    /// Imprinting in the projected space.
    pub const IMPRINT: Self = Self::of(&means::IMPRINT);
    /// Nearest class mean on backbone features (IW in the paper's tables).
    pub const NCM: Self = Self::of(&means::NCM);
    /// [`System::NCM`] with calibrated means of new classes.
    pub const TEEN: Self = Self::of(&means::TEEN);
    /// Ridge regression on random features (RanPAC).
    pub const RIDGE: Self = Self::of(&ridge::RIDGE);
    /// NC-FSCIL's head.
    pub const NC_FSCIL: Self = Self::of(&nc_fscil::NC_FSCIL);
    /// C-FSCIL's head.
    pub const C_FSCIL: Self = Self::of(&c_fscil::C_FSCIL);
    /// The head trained on by cross entropy on the new shots alone.
    pub const FINE_TUNING: Self = Self::of(&baselines::FINE_TUNING);

    /// The systems that are set side by side everywhere, ours first. None trains a head that its settings do not ask
    /// for.
    pub const COMPARED: [Self; 9] = [
        Self::DEVICE,
        Self::KEEP_BASE,
        Self::FAVOUR_NEW,
        Self::IMPRINT,
        Self::NCM,
        Self::TEEN,
        Self::of(&device::NCM_BORDER),
        Self::of(&device::LDA_BORDER),
        Self::RIDGE,
    ];

    /// Those that a report adds: most of them train a head in every session.
    pub const ON_REQUEST: [Self; 7] = [
        Self::PROGRAM,
        Self::TEXT,
        Self::of(&fecam::C_FECAM),
        Self::NC_FSCIL,
        Self::C_FSCIL,
        Self::FINE_TUNING,
        Self::of(&baselines::JOINT),
    ];

    const fn of(spec: &'static SystemSpec) -> Self {
        Self { spec, ablation: None }
    }

    /// The device's learner, changed.
    pub const fn ablated(ablation: Ablation) -> Self {
        Self { spec: &ablated::ABLATED, ablation: Some(ablation) }
    }

    /// The systems of [`System::COMPARED`] that can be measured on a bundle.
    pub fn supported_by(base_model: &BaseModel) -> impl Iterator<Item = Self> {
        Self::COMPARED.into_iter().filter(|system| system.fits(base_model))
    }

    /// Whether it trains a head in every session, whatever the settings it is measured with.
    pub fn trains(self) -> bool {
        self.spec.trains
    }

    /// Whether a bundle has what the system needs.
    pub fn fits(self, base_model: &BaseModel) -> bool {
        base_model.statistics.is_some() || !self.spec.needs_statistics
    }

    /// The settings that a system brings instead of those it is measured with.
    pub(crate) fn settings(self, available: AvailableSettings<'_>) -> Option<MethodConfig> {
        (self.spec.settings)(available)
    }

    /// Name in tables and JSON.
    pub fn name(self) -> &'static str {
        self.spec.method.name
    }

    /// What it is in a line, as far as its name does not say it.
    pub fn about(self) -> &'static str {
        self.spec.about
    }

    /// What it does in full sentences, for those who read its numbers.
    pub fn description(self) -> &'static str {
        self.spec.method.description
    }

    /// All systems: [`System::COMPARED`], then [`System::ON_REQUEST`].
    pub fn every() -> impl Iterator<Item = Self> {
        Self::COMPARED.into_iter().chain(Self::ON_REQUEST)
    }

    /// The one that has this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::every().find(|system| system.name() == name)
    }

    /// Those of a list of names with commas between, in its order, each once. Names hold commas themselves: where
    /// several fit, the longest counts.
    ///
    /// # Errors
    /// The first part of the list that no name begins with.
    pub fn listed(list: &str) -> Result<Vec<Self>, &str> {
        let parts: Vec<&str> = list.split(',').map(str::trim).collect();
        let mut systems = Vec::new();
        let mut at = 0;
        while at < parts.len() {
            let named = |end: usize| Some((end, Self::named(&parts[at..end].join(", "))?));
            let (end, system) = (at + 1..=parts.len()).rev().find_map(named).ok_or(parts[at])?;
            if !systems.contains(&system) {
                systems.push(system);
            }
            at = end;
        }
        Ok(systems)
    }

    /// Those that stand for a row of the paper's tables.
    pub fn of_row(row: &PaperRow) -> impl Iterator<Item = Self> {
        Self::every().filter(|system| system.spec.method.paper_row == Some(row.name))
    }

    /// What the device's learner does otherwise, where the system is an ablation.
    pub(crate) fn ablation(self) -> Option<Ablation> {
        self.ablation
    }

    /// The system before its first session.
    pub(crate) fn start<'a>(self, context: &SystemContext<'a>) -> Box<dyn FeatureLearner + 'a> {
        (self.spec.start)(context)
    }
}

impl PartialEq for System {
    fn eq(&self, other: &Self) -> bool {
        (self.name(), self.ablation) == (other.name(), other.ablation)
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").field("name", &self.name()).field("ablation", &self.ablation).finish()
    }
}

/// What a system starts from.
pub(crate) struct SystemContext<'a> {
    pub base_model: &'a BaseModel,
    pub benchmark: &'a Benchmark,
    /// How the method runs: the system's own settings, where it brings some.
    pub config: &'a MethodConfig,
    pub seed: u64,
    pub workers: &'a dyn Workers,
    /// What the device's learner does otherwise, where the system is an ablation.
    pub ablation: Option<Ablation>,
}

/// Reports an epoch of a training other than phase 3.
///
/// # Errors
/// [`AlignError::Cancelled`] if `on_progress` breaks.
pub(crate) fn report_epoch(epoch: usize, epochs: usize, on_progress: OnProgress<'_>) -> Result<(), LearnError> {
    let progress = AlignProgress { epoch: epoch + 1, epochs, losses: Default::default() };
    if on_progress(progress).is_break() { Err(AlignError::Cancelled.into()) } else { Ok(()) }
}

/// The clean views of a class's shots, `[shots, inputs]`.
pub(crate) fn clean(class: &NewClass, inputs: usize) -> Vec<f32> {
    class.shots.iter().flat_map(|shot| &shot[..inputs]).copied().collect()
}

/// The mean of rows `[n, dimension]`; zero of none.
pub(crate) fn mean(rows: &[f32], dimension: usize) -> Vec<f32> {
    let mut mean = vec![0.0; dimension];
    let weight = 1.0 / (rows.len() / dimension).max(1) as f32;
    rows.chunks_exact(dimension).for_each(|row| add_scaled(&mut mean, weight, row));
    mean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::ROWS;

    #[test]
    fn every_system_can_be_named_in_a_list() {
        fn named(list: &str) -> Result<Vec<&'static str>, &str> {
            System::listed(list).map(|systems| systems.into_iter().map(System::name).collect())
        }
        let all: Vec<&str> = System::every().map(System::name).collect();
        assert_eq!(named(&all.join(",")), Ok(all));
        assert_eq!(
            named("OrCo, published program , ncm + border"),
            Ok(vec!["OrCo, published program", "ncm + border"])
        );
        assert_eq!(named("device,keep-base"), Ok(vec!["device, keep-base"]));
        assert_eq!(named("ncm,device,ncm"), Ok(vec!["ncm", "device"]));
        assert_eq!([named("device,knn"), named("keep-base"), named("ncm,")], [Err("knn"), Err("keep-base"), Err("")]);
    }

    #[test]
    fn a_row_of_the_paper_has_a_system_of_ours_or_is_trained_elsewhere() {
        for row in &ROWS {
            let is_elsewhere = row.remark.starts_with("run by orco-train-lab rival: ");
            assert_eq!(System::of_row(row).next().is_none(), is_elsewhere, "{}", row.name);
        }
        for system in System::every() {
            let row = system.spec.method.paper_row;
            assert!(row.is_none_or(|row| PaperRow::named(row).is_some()), "{}: {row:?}", system.name());
        }
    }
}
