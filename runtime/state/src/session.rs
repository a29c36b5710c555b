//! Sessions, in which classes are learned, and all other changes of what is known: pure functions (base model, state,
//! shots) -> (new state, report).
//!
//! A session of the shipped settings ([`MethodConfig::combined`](orco_core::config::MethodConfig::combined)):
//!
//! 1. The new classes' means are assigned to free pseudo-targets; earlier assignments stay (OrCo, section 3.4).
//! 2. The shots are kept as exemplars. Answers follow from them in closed form: by class means, by the linear
//!    discriminant, and by the projection under the head of phase 2 ([`crate::answer`]).
//! 3. The head is reset to that of phase 2 and trained on the exemplars of all base classes and all shots of all
//!    learned ones ([`orco_core::align`], section 3.4); its projection joins the answers.
//! 4. The border between base classes and learned ones is chosen anew, and the temperature of probabilities.
//!
//! Without the third step ([`MethodConfig::without_alignment`](orco_core::config::MethodConfig::without_alignment)) the
//! state answers in closed form alone. A program that must answer at once saves that state, and calls
//! [`Session::align`] later. Where the bundle has no statistics, or the settings name no weights, answers follow the
//! paper instead: there is no closed form and no border ([`crate::classify`]).
//!
//! The caller saves the new state. A session that fails leaves the old one as it was.
//!
//! A mug beside two base classes, by the default settings:
//! ```
//! # use core::ops::ControlFlow;
//! # use orco_core::{config::MethodConfig, exemplar::ExemplarPrecision, workers::Serial};
//! # use orco_state::{bank::Bank, session::SessionMemory, state::{BaseModel, State}, statistics::Statistics};
//! use orco_state::classify::Classifier;
//! use orco_state::session::{NewClass, Session};
//! # let bank = |rows: &[[f32; 2]]| {
//! #     let mut bank = Bank::new(2, 1, ExemplarPrecision::F16);
//! #     rows.iter().enumerate().for_each(|(class, row)| bank.push(class as u32, row));
//! #     bank
//! # };
//! # let across = bank(&[[0.7, -0.7], [-0.7, 0.7]]);
//! # let base_model = BaseModel::example();
//! # let base_model = BaseModel {
//! #     config: MethodConfig { views: 1, precision: ExemplarPrecision::F16, ..MethodConfig::combined() },
//! #     statistics: Some(Statistics {
//! #         centre: vec![0.5; 2],
//! #         root_centre: vec![0.5; 2],
//! #         axes: bank(&[]),
//! #         damping: vec![],
//! #         factor: 1.0,
//! #         directions: across.clone(),
//! #         whitened: across,
//! #         deviations: [1.0; 3],
//! #         initial_shift: 0.0,
//! #         set_aside: base_model.exemplars.clone(),
//! #         base_accuracy_ratio: None,
//! #     }),
//! #     ..base_model
//! # };
//! # let (mut memory, mut proceed) = (SessionMemory::default(), |_| ControlFlow::Continue(()));
//! # let (config, on_progress) = (&base_model.config, &mut proceed);
//!
//! let mut session =
//!     Session { base_model: &base_model, config, seed: 1, memory: &mut memory, workers: &Serial, on_progress };
//! let mug = NewClass { label: "mug".into(), shots: vec![vec![0.7, 0.7], vec![0.6, 0.8]] };
//! let (state, report) = session.learn(&State::fresh(&base_model, [0; 32]), &[mug])?;
//! assert!(state.head.is_some() && report.border.is_some());
//! let best = Classifier::new(&base_model, &state).matches(&[0.7, 0.75], 1)[0];
//! assert_eq!(state.class(&base_model, best.class).unwrap().label, "mug");
//! # Ok::<(), orco_state::session::LearnError>(())
//! ```

mod change;
mod check;
pub mod cost;
mod error;
mod evaluation;
mod expected_accuracy;
mod forgetting_budget;
mod move_shot;
mod relearn;
mod report;
mod stored;
mod summary;
#[cfg(test)]
mod tests;

pub use change::rename;
pub use check::{BaseLabels, check_labels, check_shot_count, known_class};
pub use error::LearnError;
pub use expected_accuracy::{ExpectedAccuracy, ExpectedByScope, LearnedOnlyAccuracy};
pub use forgetting_budget::{ForgettingExcess, ForgettingGroup, GroupLoss};
pub use report::{
    AccuracyChange, ChangeReport, ClassAccuracy, ConfusedPair, CumulativeLoss, MistakenShot, RepeatedShots,
};
pub use stored::StoredClass;
pub use summary::{ChangeSummary, ForgettingByGroup};

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::ControlFlow;

use self::check::check_classes;
use crate::answer::{ScoringCache, ScoringWork};
use crate::head::Head;
use crate::label;
use crate::state::{BaseModel, Class, State};
use orco_core::align::{
    self, AlignProgress, AlignmentData, AlignmentInput, LossTerms, Sampling, Workspace, WorkspaceSize,
};
use orco_core::config::MethodConfig;
use orco_core::workers::Workers;

/// A class to learn, with its shots.
#[derive(Clone, Debug)]
pub struct NewClass {
    /// Name for people.
    pub label: String,
    /// For each shot the features of its views, `[1.., inputs]` row-major, the clean view first.
    pub shots: Vec<Vec<f32>>,
}

/// Working memory of sessions; grows to what the largest one needed.
#[derive(Clone, Debug, Default)]
pub struct SessionMemory {
    numbers: Vec<f32>,
    indices: Vec<u32>,
    cache: Option<ScoringCache>,
}

impl SessionMemory {
    /// Memory of this size, without a cache.
    pub fn new(needs: WorkspaceSize) -> Self {
        Self { numbers: vec![0.0; needs.numbers], indices: vec![0; needs.indices], cache: None }
    }

    /// Memory with a [`ScoringCache`], which keeps what scoring computes of shots from one session to the next: the
    /// cost of a change then hardly grows with the number of known classes. Use it for states of one bundle only.
    pub fn with_cache() -> Self {
        Self { cache: Some(ScoringCache::default()), ..Self::default() }
    }

    /// The cache; `None` if the memory has none.
    pub fn cache(&mut self) -> Option<&mut ScoringCache> {
        self.cache.as_mut()
    }

    /// Empties the cache, for example after a class was purged.
    pub fn clear_cache(&mut self) {
        self.cache.iter_mut().for_each(ScoringCache::clear);
    }

    /// Grows to this size if it is smaller.
    pub fn grow(&mut self, needs: WorkspaceSize) {
        self.numbers.resize(self.numbers.len().max(needs.numbers), 0.0);
        self.indices.resize(self.indices.len().max(needs.indices), 0);
    }

    /// The workspace of an alignment that runs on these workers.
    pub fn workspace<'a>(&'a mut self, workers: &'a dyn Workers) -> Workspace<'a> {
        Workspace { numbers: &mut self.numbers, indices: &mut self.indices, workers }
    }
}

/// Called after every epoch of an alignment; may stop it.
pub type OnProgress<'a> = &'a mut (dyn FnMut(AlignProgress) -> ControlFlow<()> + Send);

/// Working memory for a session that adds `classes` classes and `shots` shots.
pub fn workspace_size(
    base_model: &BaseModel,
    state: &State,
    classes: usize,
    shots: usize,
    config: &MethodConfig,
) -> WorkspaceSize {
    let classes = base_model.classes.len() + state.classes.len() + classes;
    alignment_data(base_model, state).workspace_size(classes, shots, config)
}

/// Floating-point operations of the matrix products in the alignment of a state.
pub fn operations(base_model: &BaseModel, state: &State, config: &MethodConfig) -> u64 {
    alignment_data(base_model, state).operations(base_model.classes.len() + state.classes.len(), config)
}

/// Everything that a change of a state needs, except the state.
///
/// Every change is a pure function: the same base model, state, input, settings and seed give the same bytes of state,
/// whatever the workers and the memory. The state that it starts from is not changed.
///
/// # Example
/// With phase 3 of the paper: two base classes on the axes of the plane, and a third one from two shots.
/// ```
/// use core::ops::ControlFlow;
///
/// use orco_core::{config::MethodConfig, workers::Serial};
/// use orco_state::session::{NewClass, Session, SessionMemory};
/// use orco_state::state::{BaseModel, State};
///
/// let base_model = BaseModel::example();
/// let config = &MethodConfig { epochs: 5, ..base_model.config.clone() };
/// let mug = NewClass { label: "mug".into(), shots: vec![vec![0.7, 0.7], vec![0.6, 0.8]] };
/// let (memory, on_progress) = (&mut SessionMemory::default(), &mut |_| ControlFlow::Continue(()));
/// let base_model = &base_model;
/// let mut session = Session { base_model, config, seed: 1, memory, workers: &Serial, on_progress };
/// let (state, report) = session.learn(&State::fresh(base_model, [0; 32]), &[mug])?;
/// assert_eq!((state.classes[0].target, report.free_targets), (2, 0));
/// # Ok::<(), orco_state::session::LearnError>(())
/// ```
pub struct Session<'a> {
    /// What the bundle brought.
    pub base_model: &'a BaseModel,
    /// How the method runs: alignment (phase 3), what is kept of a shot, and answers.
    pub config: &'a MethodConfig,
    /// Seed of shuffling and perturbation.
    pub seed: u64,
    /// Working memory.
    pub memory: &'a mut SessionMemory,
    /// The threads that share the work.
    pub workers: &'a dyn Workers,
    /// Called after every epoch; may stop the session.
    pub on_progress: OnProgress<'a>,
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("config", &self.config).field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl Session<'_> {
    /// Learns new classes in one session. Until it is done, a classifier may know them
    /// provisionally ([`crate::classify::Classifier::imprint`]).
    ///
    /// # Errors
    /// [`LearnError`] if the input makes no sense, the new classes do not fit, or the callback stopped it.
    pub fn learn(&mut self, state: &State, new: &[NewClass]) -> Result<(State, ChangeReport), LearnError> {
        let next = self.admit(state, new)?;
        self.learn_admitted(state, next)
    }

    /// Learns new classes in one session, also under labels of base classes, which they replace on this device.
    ///
    /// # Errors
    /// As for [`Session::learn`].
    pub fn replace_base(&mut self, state: &State, new: &[NewClass]) -> Result<(State, ChangeReport), LearnError> {
        let next = self.admit_with(state, new, BaseLabels::Replace)?;
        self.learn_admitted(state, next)
    }

    /// The first part of [`Session::learn`]: adds new classes, each with a target and all of its shots. The head stays
    /// as it is.
    ///
    /// # Errors
    /// [`LearnError`] if the input makes no sense, or the new classes do not fit.
    pub fn admit(&mut self, state: &State, new: &[NewClass]) -> Result<State, LearnError> {
        self.admit_with(state, new, BaseLabels::Refuse)
    }

    fn admit_with(&mut self, state: &State, new: &[NewClass], labels: BaseLabels) -> Result<State, LearnError> {
        check_classes(self.base_model, state, new, labels)?;
        let quantised = |class: &NewClass| {
            let mut exemplars = state.exemplars.empty_like();
            in_fixed_order(class).shots.iter().for_each(|shot| exemplars.push(0, shot));
            StoredClass { label: class.label.clone(), exemplars }
        };
        let new: Vec<StoredClass> = new.iter().map(quantised).collect();
        self.admit_checked(state, &new)
    }

    /// Adds classes that passed the checks, by their labels' normal form.
    fn admit_checked(&mut self, state: &State, new: &[StoredClass]) -> Result<State, LearnError> {
        let base = self.base_model.classes.len();
        let mut next = state.clone();
        next.sessions = next.sessions.checked_add(1).ok_or(LearnError::TooManySessions)?;
        next.exemplars.reserve(new.iter().map(|class| class.exemplars.len()).sum());
        for class in new {
            let index = (base + next.classes.len()) as u32;
            const UNSET: u32 = u32::MAX;
            next.classes.push(Class { label: label::normal(&class.label), target: UNSET, session: next.sessions });
            next.first_recognitions.extend_to(next.classes.len());
            next.exemplars.append(index, &class.exemplars);
        }
        self.assign(&mut next, state.classes.len())?;
        Ok(next)
    }

    /// Assigns targets to the learned classes from number `first` on, so that the sum of the cosines between class
    /// means and targets is highest.
    ///
    /// # Errors
    /// [`LearnError`] if the settings are out of range.
    pub fn assign(&mut self, state: &mut State, first: usize) -> Result<(), LearnError> {
        let (base_model, config) = (self.base_model, self.config);
        let base = base_model.classes.len();
        let mut assigned: Vec<u32> = state.known_classes(base_model).map(|class| class.target).collect();
        let data = alignment_data(base_model, state);
        align::assign_new_classes(&data, &mut assigned, base + first, config, &mut self.workspace(state))?;
        state.classes.iter_mut().zip(&assigned[base..]).for_each(|(class, target)| class.target = *target);
        Ok(())
    }

    /// The rest of learning: drops exemplars until the others fit into [`MethodConfig::exemplar_bytes`], and aligns the
    /// head.
    fn learn_admitted(&mut self, state: &State, mut next: State) -> Result<(State, ChangeReport), LearnError> {
        if self.config.exemplar_bytes > 0 {
            next.exemplars.shrink_to(self.config.exemplar_bytes);
        }
        self.align(state, next, Sampling::seeded(self.seed))
    }

    /// Working memory for aligning a state.
    fn workspace(&mut self, state: &State) -> Workspace<'_> {
        self.memory.grow(workspace_size(self.base_model, state, 0, 0, self.config));
        self.memory.workspace(self.workers)
    }

    /// The last part of [`Session::learn`]: trains the head of phase 2 on all that `next` knows, unless
    /// [`MethodConfig::epochs`] is 0, chooses the border, and reports what changed since `state`. It also aligns a
    /// state that was learned without alignment. `sampling` says how batches are drawn.
    ///
    /// # Errors
    /// [`LearnError`] if training diverged, or the callback stopped it.
    pub fn align(
        &mut self,
        state: &State,
        mut next: State,
        sampling: Sampling,
    ) -> Result<(State, ChangeReport), LearnError> {
        let (base_model, config) = (self.base_model, self.config);
        let mut losses = Vec::with_capacity(config.epochs);
        if config.epochs == 0 || (next.classes.is_empty() && next.exemplars.is_empty()) {
            next.head = None;
        } else {
            let mut head = Head::zeros(base_model.head.shape());
            let assigned: Vec<u32> = next.known_classes(base_model).map(|class| class.target).collect();
            let data = alignment_data(base_model, &next);
            self.memory.grow(workspace_size(base_model, &next, 0, 0, config));
            let mut note = |progress: AlignProgress| {
                losses.push(progress.losses);
                (self.on_progress)(progress)
            };
            let mut workspace = self.memory.workspace(self.workers);
            let input = AlignmentInput { data: &data, assigned: &assigned, config, sampling };
            align::align(&input, &mut workspace, head.as_parameters_mut(), &mut note)?;
            next.head = Some(head);
        }
        Ok(self.choose_border_and_report(state, next, losses))
    }

    /// Chooses the border of `next` where answers have one, and reports what changed since `state`.
    fn choose_border_and_report(
        &mut self,
        state: &State,
        mut next: State,
        losses: Vec<LossTerms>,
    ) -> (State, ChangeReport) {
        let work = &mut ScoringWork { cache: self.memory.cache(), workers: self.workers };
        let report = evaluation::calibrate_and_report(self.base_model, self.config, state, &mut next, losses, work);
        (next, report)
    }
}

/// The data that a state's head is aligned to.
fn alignment_data<'a>(base_model: &'a BaseModel, state: &'a State) -> AlignmentData<'a> {
    AlignmentData {
        shape: base_model.head.shape(),
        head: base_model.head.as_parameters(),
        targets: &base_model.targets,
        base_classes: base_model.classes.len(),
        base: base_model.exemplars.as_exemplars(),
        learned: state.exemplars.as_exemplars(),
    }
}

/// The class with its shots sorted, so that the order in which they were given does not matter.
fn in_fixed_order(class: &NewClass) -> NewClass {
    let mut shots = class.shots.clone();
    shots.sort_by(|a, b| a.iter().map(|x| x.to_bits()).cmp(b.iter().map(|x| x.to_bits())));
    NewClass { label: class.label.clone(), shots }
}
