//! Scores of a left-out shot's views: estimates of what new pictures of its class will score.
//!
//! All views count, not the clean one alone: augmentation makes them look like other pictures of the class. But a class
//! that lacks one of its shots scores its pictures lower than the whole class will. The error of a mean of n shots
//! falls as 1 / n, and so does the gap between a score and the one that very many shots would give. Leaving out a
//! second shot shows how fast: with five shots, 0.6 times the loss that the second one causes is added.

use alloc::vec::Vec;

use super::embed::Projections;
use super::model::{LeftOutShot, ScoringModel};
use super::scatter::ScatterChange;
use super::score::ClassRow;
use crate::bank::Bank;

/// Other shots of a class that are left out in turn beside one, at the most.
pub(crate) const MAX_OTHERS: usize = 4;

/// Most shots whose views are scored; more cost time and change nothing that matters.
pub(crate) const MAX_VIEWED: usize = 250;

/// Shots whose views are scored together.
pub(crate) const VIEW_BATCH: usize = if cfg!(target_os = "none") { 1 } else { 16 };

/// A shot whose views are scored.
pub(super) struct ViewedShot {
    pub(super) shot: LeftOutShot,
    /// Its class without it, as the scatter without it has it.
    pub(super) row: ClassRow,
    /// The shots that are left out in turn beside it.
    pub(super) others: Vec<LeftOutShot>,
    /// How scores change because the scatter is without it.
    pub(super) change: Option<ScatterChange>,
}

/// Scores `[views, classes]` of each shot's views, without the border. That of its own class is extrapolated from the
/// class without the shot to the class with it. The shots are exemplars of `bank`, projected in `projections`.
/// `discounts_aligned` says whether the aligned head counts less, since it was trained on these shots.
pub(super) fn view_scores(
    model: &ScoringModel<'_>,
    bank: &Bank,
    projections: &Projections,
    viewed: &[ViewedShot],
    discounts_aligned: bool,
) -> Vec<Vec<f32>> {
    let (count, length, views) = (model.len(), model.embedder.length(), bank.views());
    let mut scored = Vec::with_capacity(viewed.len());
    for some in viewed.chunks(VIEW_BATCH) {
        let exemplars: Vec<usize> = some.iter().map(|viewed| viewed.shot.exemplar).collect();
        let mut embedded = model.embedder.embed_views(bank, &exemplars, projections);
        if discounts_aligned {
            model.embedder.discount_aligned(&mut embedded);
        }
        let mut scores = model.rows.scores(&embedded);
        let of_shots = scores.chunks_exact_mut(views * count).zip(embedded.chunks_exact(views * length));
        for (viewed, (scores, embedded)) in some.iter().zip(of_shots) {
            let fewer = with_fewer(model, bank, projections, viewed);
            for (scores, embedded) in scores.chunks_exact_mut(count).zip(embedded.chunks_exact(length)) {
                viewed.change.iter().for_each(|change| change.apply(scores, embedded));
                let score = viewed.row.score(embedded);
                let gain: f32 = fewer.iter().map(|class| class.factor * (score - class.row.score(embedded))).sum();
                scores[viewed.shot.class] = score + gain / fewer.len().max(1) as f32;
            }
            scored.push(scores.to_vec());
        }
    }
    scored
}

/// A class without a shot and without another one.
struct FewerShots {
    row: ClassRow,
    /// Factor applied to the drop in score that leaving the other one out causes ([`extrapolation`]).
    factor: f32,
}

/// The class of a shot without it and without each of the others in turn.
fn with_fewer(
    model: &ScoringModel<'_>,
    bank: &Bank,
    projections: &Projections,
    viewed: &ViewedShot,
) -> Vec<FewerShots> {
    let ViewedShot { shot, others, change, .. } = viewed;
    let count = model.count(shot.class);
    let exemplars: Vec<usize> = core::iter::once(shot).chain(others).map(|shot| shot.exemplar).collect();
    let contributions = model.embedder.contributions_of(bank, &exemplars, projections);
    let rows = model.without_pairs(*shot, others, contributions).into_iter().zip(others);
    let fewer = |(row, other): (Option<ClassRow>, &LeftOutShot)| {
        let row = row?.changed(change.as_ref());
        Some(FewerShots { row, factor: extrapolation(count, shot.copies, other.copies) })
    };
    rows.filter_map(fewer).collect()
}

/// What a class of `count` shots gains by a shot of `copies` copies, as a multiple of what it gains by another one of
/// `other_copies` when it lacks the first. With n shots, c copies of the one and o of the other:
///
/// (1 / (n - c) - 1 / n) / (1 / (n - c - o) - 1 / (n - c)) = c (n - c - o) / (o n)
fn extrapolation(count: f32, copies: u32, other_copies: u32) -> f32 {
    let [copies, other_copies] = [copies as f32, other_copies as f32];
    copies * (count - copies - other_copies) / (other_copies * count)
}

#[cfg(test)]
mod tests {
    use super::extrapolation;

    #[test]
    fn what_a_shot_adds_falls_as_one_over_the_shots() {
        assert!((extrapolation(5.0, 1, 1) - 0.6).abs() < 1e-6, "from four to five");
        assert_eq!(extrapolation(2.0, 1, 1), 0.0, "of nothing there is no score to go by");
        // Scores 10 - 6 / n with 2, 4 and 6 shots, each of which is there twice.
        let score = |shots: f32| 10.0 - 6.0 / shots;
        let gain = extrapolation(6.0, 2, 2) * (score(4.0) - score(2.0));
        assert!((score(4.0) + gain - score(6.0)).abs() < 1e-6);
    }
}
