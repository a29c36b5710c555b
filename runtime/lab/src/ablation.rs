//! Sessions that differ from a device's in a choice that the settings do not leave open
//! ([`MethodConfig::fixed_choice`]).
//!
//! [`MethodConfig::fixed_choice`]: orco_core::config::MethodConfig::fixed_choice

use orco_core::align::{Perturbation, PerturbedTargets, Sampling};
use orco_core::math::{add_scaled, normalise_rows};
use orco_core::random::Random;
use orco_state::bank::Bank;
use orco_state::session::{LearnError, NewClass, Session};
use orco_state::state::{BaseModel, State};
use serde::{Deserialize, Serialize};

/// How new classes get their pseudo-targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Assignment {
    /// By the Hungarian method among the free ones; earlier assignments stay, which the paper calls greedy. What a
    /// device does.
    #[default]
    Greedy,
    /// All learned classes are matched anew in every session.
    Reassigned,
    /// Any free one.
    Random,
}

/// Which exemplars of a class are kept where there is no room for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExemplarSelection {
    /// The first ones in the order in which they are stored, which within a session follows their content. What a
    /// device does.
    #[default]
    First,
    /// A random choice.
    Random,
    /// Those whose mean stays nearest to the class's mean (iCaRL, section 3.4).
    Herding,
}

/// What is done otherwise than on a device; [`Ablation::default`] is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ablation {
    /// How new classes get their targets.
    pub assignment: Assignment,
    /// Which targets are perturbed.
    pub perturbed: PerturbedTargets,
    /// How targets are perturbed.
    pub perturbation: Perturbation,
    /// Which exemplars are kept within the settings' `exemplar_bytes`.
    pub keep: ExemplarSelection,
    /// Most exemplars of each class of an earlier incremental session; a device keeps all. The limit for base classes
    /// is a setting, `base_exemplars`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier_exemplars: Option<usize>,
}

impl Default for Ablation {
    fn default() -> Self {
        let Sampling { perturbed, perturbation, .. } = Sampling::seeded(0);
        Self {
            assignment: Assignment::default(),
            perturbed,
            perturbation,
            keep: ExemplarSelection::default(),
            earlier_exemplars: None,
        }
    }
}

impl Ablation {
    /// Names of the choices.
    pub const NAMES: [&str; 5] = ["assignment", "perturbed", "perturbation", "keep", "earlier_exemplars"];

    /// [`Session::learn`], so changed.
    ///
    /// # Errors
    /// As for [`Session::learn`].
    pub fn learn(&self, session: &mut Session<'_>, state: &State, new: &[NewClass]) -> Result<State, LearnError> {
        let mut next = session.admit(state, new)?;
        match self.assignment {
            Assignment::Greedy => {}
            Assignment::Reassigned => session.assign(&mut next, 0)?,
            Assignment::Random => draw_targets(session.base_model, state, &mut next, session.seed),
        }
        if let Some(most) = self.earlier_exemplars {
            let earlier = session.base_model.classes.len() + state.classes.len();
            limit_earlier(&mut next.exemplars, earlier as u32, most);
        }
        if session.config.exemplar_bytes > 0 {
            self.keep.within(&mut next.exemplars, session.config.exemplar_bytes, session.seed);
        }
        let Self { perturbed, perturbation, .. } = *self;
        let sampling = Sampling { seed: session.seed, perturbed, perturbation };
        Ok(session.align(state, next, sampling)?.0)
    }
}

/// Gives the classes that `state` lacks targets that are free there.
fn draw_targets(base_model: &BaseModel, state: &State, next: &mut State, seed: u64) {
    let mut free = state.free_targets(base_model);
    Random::new(seed, "assignment").shuffle(&mut free);
    let new = next.classes.iter_mut().skip(state.classes.len());
    new.zip(free).for_each(|(class, target)| class.target = target);
}

/// Keeps the first `most` exemplars of each class below `new`, and all of the others.
fn limit_earlier(exemplars: &mut Bank, new: u32, most: usize) {
    let classes = exemplars.classes();
    let is_within = |exemplar: &usize| {
        let class = classes[*exemplar];
        class >= new || classes[..*exemplar].iter().filter(|of| **of == class).count() < most
    };
    let kept: Vec<usize> = (0..classes.len()).filter(is_within).collect();
    *exemplars = exemplars.only(&kept);
}

impl ExemplarSelection {
    /// Drops exemplars until the others take at most so many bytes, at most equally many of each class.
    fn within(self, exemplars: &mut Bank, bytes: usize, seed: u64) {
        exemplars.shrink_in_order(bytes, |bank, members| match self {
            Self::First => {}
            Self::Random => {
                let class = u64::from(bank.classes()[members[0]]);
                Random::new(seed ^ class << 32, "exemplars to keep").shuffle(members);
            }
            Self::Herding => {
                let order = herding(&mut bank.only(members).clean(), bank.inputs());
                let sorted: Vec<usize> = order.into_iter().map(|index| members[index]).collect();
                members.copy_from_slice(&sorted);
            }
        });
    }
}

/// All rows, so ordered that the mean of the first ones stays nearest to the mean of all. Normalises the rows.
fn herding(rows: &mut [f32], dimension: usize) -> Vec<usize> {
    normalise_rows(rows, dimension);
    let total = rows.len() / dimension;
    let mut mean = vec![0.0; dimension];
    rows.chunks_exact(dimension).for_each(|row| add_scaled(&mut mean, 1.0 / total as f32, row));
    let mut sum = vec![0.0; dimension];
    let mut chosen = Vec::new();
    while chosen.len() < total {
        let next = (chosen.len() + 1) as f32;
        let distance = |&index: &usize| -> f32 {
            let row = &rows[index * dimension..][..dimension];
            let apart = row.iter().zip(&sum).zip(&mean).map(|((x, sum), mean)| (sum + x) / next - mean);
            apart.map(|difference| difference * difference).sum()
        };
        let rest = (0..total).filter(|index| !chosen.contains(index));
        let Some(best) = rest.min_by(|a, b| distance(a).total_cmp(&distance(b))) else { break };
        add_scaled(&mut sum, 1.0, &rows[best * dimension..][..dimension]);
        chosen.push(best);
    }
    chosen
}

#[cfg(test)]
mod tests;
