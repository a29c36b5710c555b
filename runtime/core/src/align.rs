//! Aligns the projection head to new classes of a few shots each: phase 3, few-shot alignment, on borrowed numbers
//! alone. Nothing here allocates or starts a thread.
//!
//! 1. The means of the new classes' projections under the head of phase 2 are assigned to free pseudo-targets; earlier
//!    assignments stay ([`assign_new_classes`]).
//! 2. The head of phase 2 is trained on the exemplars of all base classes and all shots since ([`align`]).
//!
//! `orco_state::session` wraps this into states that are kept.
//!
//! A second class beside a base class, on made-up features:
//! ```
//! use core::ops::ControlFlow;
//!
//! use orco_core::align::{self, AlignmentData, AlignmentExtent, AlignmentInput, Sampling, Workspace, WorkspaceSize};
//! use orco_core::config::MethodConfig;
//! use orco_core::exemplar::{Exemplars, ExemplarPrecision};
//! use orco_core::projection::{HeadParameters, HeadShape};
//! use orco_core::workers::Serial;
//!
//! const SHAPE: HeadShape = HeadShape { inputs: 2, hidden: 2, outputs: 2 };
//! const CONFIG: MethodConfig = MethodConfig { views: 1, ..MethodConfig::edge() };
//! const EXTENT: AlignmentExtent = AlignmentExtent { shape: SHAPE, targets: 3, classes: 2, exemplars: 2 };
//! const NEEDS: WorkspaceSize = EXTENT.workspace_size(&CONFIG);
//!
//! const SCALES: &[f32] = &[1.0 / 127.0];
//! let exemplar = |classes, values| {
//!     Exemplars { inputs: 2, views: 1, precision: ExemplarPrecision::Int8, classes, scales: SCALES, values }
//! };
//! let data = AlignmentData {
//!     shape: SHAPE,
//!     head: HeadParameters { w1: &[1.0, 0.0, 0.0, 1.0], b1: &[0.0; 2], w2: &[1.0, 0.0, 0.0, 1.0], b2: &[0.0; 2] },
//!     targets: &[1.0, 0.0, 0.0, 1.0, -1.0, 0.0],
//!     base_classes: 1,
//!     base: exemplar(&[0], &[127, 0]),
//!     learned: exemplar(&[1], &[20, 127]),
//! };
//! let (numbers, indices) = (&mut [0.0; NEEDS.numbers], &mut [0; NEEDS.indices]);
//! let mut workspace = Workspace { numbers, indices, workers: &Serial };
//!
//! let mut assigned = [0; 2];
//! align::assign_new_classes(&data, &mut assigned, 1, &CONFIG, &mut workspace)?;
//! assert_eq!(assigned, [0, 1]); // the nearer of the free targets
//!
//! let (w1, b1, w2, b2) = (&mut [0.0; 4][..], &mut [0.0; 2][..], &mut [0.0; 4][..], &mut [0.0; 2][..]);
//! let head = HeadParameters { w1, b1, w2, b2 };
//! let (mut first, mut last) = (None, None);
//! let input = AlignmentInput { data: &data, assigned: &assigned, config: &CONFIG, sampling: Sampling::seeded(1) };
//! align::align(&input, &mut workspace, head, &mut |progress| {
//!     let loss = progress.losses.cross_entropy;
//!     (first, last) = (first.or(Some(loss)), Some(loss));
//!     ControlFlow::Continue(())
//! })?;
//! assert!(last < first);
//! # Ok::<(), align::AlignError>(())
//! ```

mod data;
mod extent;
mod memory;
mod sampler;
mod sampling;
mod step;

pub use data::{AlignmentData, AlignmentInput};
pub use extent::AlignmentExtent;
pub use memory::{Workspace, WorkspaceSize};
pub use sampler::Sampler;
pub use sampling::{Perturbation, PerturbedTargets, Sampling};
pub use step::{HeadTrainer, LossTerms, StepBatch, StepExtent, TargetRows};

use core::ops::ControlFlow;

use crate::assignment::{self, AssignmentMemory};
use crate::config::MethodConfig;
use crate::math::{add_scaled, dot, normalise};
use crate::projection::{self, HeadParameters, HeadShape};
use memory::buffers;

/// Progress of an alignment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlignProgress {
    /// Epochs done.
    pub epoch: usize,
    /// Epochs in all.
    pub epochs: usize,
    /// Mean losses of the last epoch.
    pub losses: LossTerms,
}

/// Why an alignment ended without a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AlignError {
    /// The caller's progress callback asked to stop.
    #[error("learning was cancelled")]
    Cancelled,
    /// The loss or a weight is not finite; the settings are too extreme.
    #[error("training diverged within {epochs} epochs; lower the learning rate or raise the temperature")]
    Diverged {
        /// Epochs done.
        epochs: usize,
    },
    /// The workspace is smaller than needed.
    #[error(
        "this alignment needs working memory of {} floats and {} indices, but was given {} and {}",
        needed.numbers, needed.indices, given.numbers, given.indices
    )]
    Workspace {
        /// What is needed.
        needed: WorkspaceSize,
        /// What was given.
        given: WorkspaceSize,
    },
    /// The configuration holds a value out of range.
    #[error("the settings of phase 3 cannot be used: {problem}")]
    Settings {
        /// What [`MethodConfig::problem`] says.
        problem: &'static str,
    },
}

buffers! {
    /// The numbers that [`assign_new_classes`] works with, for this many new classes and free targets.
    struct AssignmentNumbers of f32, sized by (shape: HeadShape, classes: usize, free: usize) {
        /// The head in panel layout ([`HeadShape::load`]).
        parameters: shape.parameters(),
        /// An exemplar's features, `[inputs]`.
        features: shape.inputs,
        /// Its hidden units ([`HeadShape::activations`]).
        hidden: shape.activations(1),
        /// Its projection, `[width]`.
        z: shape.width(),
        /// The projection's length before it was normalised, `[1]`.
        norms: 1,
        /// Mean directions of the classes, `[classes, outputs]`.
        means: classes * shape.outputs,
        /// Cosines of the means with the free targets, `[classes, free]`.
        cosines: classes * free,
        /// What [`assignment::hungarian`] works with.
        scratch: AssignmentMemory::of(classes, free).numbers,
    }
}

/// Indices that [`assign_new_classes`] needs: the free targets, and what [`assignment::hungarian`] works with.
const fn assignment_indices(classes: usize, free: usize) -> [usize; 2] {
    [free, AssignmentMemory::of(classes, free).indices]
}

/// Gives classes `first..` their pseudo-targets, so that the sum of cosines is highest (Hungarian method,
/// [`assignment::hungarian`]).
///
/// # Shapes
/// `assigned` `[classes]`: for every known class the row of its target; those before `first` stay, the others are
/// written.
/// # Errors
/// [`AlignError::Workspace`] if the workspace is too small.
/// # Panics
/// If there are fewer free targets than classes that need one.
pub fn assign_new_classes(
    data: &AlignmentData<'_>,
    assigned: &mut [u32],
    first: usize,
    config: &MethodConfig,
    workspace: &mut Workspace<'_>,
) -> Result<(), AlignError> {
    check(data, assigned.len(), config, workspace)?;
    let (shape, targets) = (data.shape, data.target_count());
    let (kept, new) = assigned.split_at_mut(first);
    let (free_targets, indices) = workspace.indices.split_at_mut(targets);
    let mut count = 0;
    for target in (0..targets as u32).filter(|target| !kept.contains(target)) {
        free_targets[count] = target;
        count += 1;
    }
    let free = &mut free_targets[..count];
    assert!(new.len() <= free.len(), "{} classes do not fit onto {} targets", new.len(), free.len());
    let AssignmentNumbers { parameters, features, hidden, z, norms, means, cosines, scratch } =
        AssignmentNumbers::carve(workspace.numbers, shape, new.len(), free.len());
    shape.load(data.head, parameters);
    means.fill(0.0);
    // Mean directions of the clean views under the head of phase 2.
    for (exemplar, &class) in data.learned.classes.iter().enumerate().filter(|(_, of)| **of as usize >= first) {
        data.learned.read(exemplar, 0, features);
        let mut pass =
            projection::HeadBatch { features: &*features, hidden: &mut *hidden, z: &mut *z, norms: &mut *norms };
        shape.forward(parameters, &mut pass, workspace.workers);
        add_scaled(&mut means[(class as usize - first) * shape.outputs..][..shape.outputs], 1.0, &z[..shape.outputs]);
    }
    for (mean, row) in means.chunks_exact_mut(shape.outputs).zip(cosines.chunks_exact_mut(free.len())) {
        normalise(mean);
        let target = |target: &u32| &data.targets[*target as usize * shape.outputs..][..shape.outputs];
        row.iter_mut().zip(&*free).for_each(|(cosine, index)| *cosine = dot(mean, target(index)));
    }
    let cosine = |class: usize, index: usize| cosines[class * free.len() + index];
    assignment::hungarian(new, free.len(), cosine, scratch, indices);
    new.iter_mut().for_each(|target| *target = free[*target as usize]);
    Ok(())
}

/// Trains the head of phase 2 on everything that the input's data holds and writes it into `head`. The same input gives
/// the same bits, whatever the workers.
///
/// # Errors
/// [`AlignError`] if the workspace is too small, training diverged, or the callback, which is called after every epoch,
/// stopped it; `head` is untouched then.
pub fn align(
    input: &AlignmentInput<'_>,
    workspace: &mut Workspace<'_>,
    head: HeadParameters<&mut [f32]>,
    on_progress: &mut (dyn FnMut(AlignProgress) -> ControlFlow<()> + Send),
) -> Result<(), AlignError> {
    let AlignmentInput { data, assigned, config, .. } = *input;
    check(data, assigned.len(), config, workspace)?;
    if config.epochs == 0 {
        let HeadParameters { w1, b1, w2, b2 } = data.head;
        let pairs = [(head.w1, w1), (head.b1, b1), (head.w2, w2), (head.b2, b2)];
        pairs.into_iter().for_each(|(to, from)| to.copy_from_slice(from));
        return Ok(());
    }
    let workers = workspace.workers;
    let mut head = Some(head);
    let mut outcome = None;
    workers.enter(&mut || {
        let head = head.take().expect("workers enter the work once");
        outcome = Some(train(input, workspace, head, on_progress));
    });
    outcome.expect("workers enter the work")
}

/// What [`align`] does, on a thread of the workers.
fn train(
    input: &AlignmentInput<'_>,
    workspace: &mut Workspace<'_>,
    head: HeadParameters<&mut [f32]>,
    on_progress: &mut (dyn FnMut(AlignProgress) -> ControlFlow<()> + Send),
) -> Result<(), AlignError> {
    let AlignmentInput { data, assigned, config, .. } = *input;
    let outputs = data.shape.outputs;
    let (targets, numbers) = workspace.numbers.split_at_mut(data.targets.len());
    // Targets in the order of the classes, then the free ones.
    let free = (0..data.target_count() as u32).filter(|target| !assigned.contains(target));
    for (row, target) in targets.chunks_exact_mut(outputs).zip(assigned.iter().copied().chain(free)) {
        row.copy_from_slice(&data.targets[target as usize * outputs..][..outputs]);
    }
    let (assigned_targets, free_targets) = targets.split_at(assigned.len() * outputs);
    let target_rows = TargetRows { base_classes: data.base_classes, assigned: assigned_targets, free: free_targets };
    let extent = data.step_extent(assigned.len(), config);
    let needs = extent.workspace_size();
    let (step_numbers, numbers) = numbers.split_at_mut(needs.numbers);
    let (step_indices, indices) = workspace.indices.split_at_mut(needs.indices);
    let step = Workspace { numbers: step_numbers, indices: step_indices, workers: workspace.workers };
    let mut trainer = HeadTrainer::new(&extent, data.head, &target_rows, step);
    let mut sampler = Sampler::new(input, target_rows, numbers, indices);
    let schedule = config.schedule();
    for epoch in 0..config.epochs {
        let rate = schedule.rate(epoch) as f32;
        let mut mean = LossTerms::default();
        let samples = sampler.start_epoch();
        let steps = samples.div_ceil(config.batch);
        for step in 0..steps {
            let losses = trainer.step(&sampler.batch(step, samples), config, rate);
            mean.add(&losses, 1.0 / steps as f32);
        }
        if !mean.total().is_finite() {
            return Err(AlignError::Diverged { epochs: epoch + 1 });
        }
        let progress = AlignProgress { epoch: epoch + 1, epochs: config.epochs, losses: mean };
        if on_progress(progress).is_break() {
            return Err(AlignError::Cancelled);
        }
    }
    if !trainer.is_finite() {
        return Err(AlignError::Diverged { epochs: config.epochs });
    }
    trainer.store(head);
    Ok(())
}

/// Refuses settings that are out of range, and working memory that is too small for `classes` known classes.
fn check(
    data: &AlignmentData<'_>,
    classes: usize,
    config: &MethodConfig,
    workspace: &Workspace<'_>,
) -> Result<(), AlignError> {
    if let Some(problem) = config.problem() {
        return Err(AlignError::Settings { problem });
    }
    let needed = data.workspace_size(classes, 0, config);
    let given = WorkspaceSize { numbers: workspace.numbers.len(), indices: workspace.indices.len() };
    if needed.numbers <= given.numbers && needed.indices <= given.indices {
        Ok(())
    } else {
        Err(AlignError::Workspace { needed, given })
    }
}
