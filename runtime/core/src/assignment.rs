//! One-to-one assignment of classes to pseudo-targets.
//!
//! The caller scores each pair: by the cosine of class mean and target, [`crate::align::assign_new_classes`] in phase 3
//! and `orco_state::target::assign_by_cosine` in phase 2 (`train/base_align.rs` of the trainer).

/// Stands for no class, and for no target.
const NONE: u32 = u32::MAX;

/// Working memory that [`hungarian`] needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignmentMemory {
    /// Numbers.
    pub numbers: usize,
    /// Indices.
    pub indices: usize,
}

impl AssignmentMemory {
    /// The memory that assigning `classes` classes to `free` free targets takes.
    pub const fn of(classes: usize, free: usize) -> Self {
        Self { numbers: classes + 2 * free, indices: 3 * free }
    }
}

/// Assigns every class a target of its own so that the sum of scores is the highest possible (Hungarian method, in the
/// form of shortest augmenting paths: Jonker and Volgenant 1987).
///
/// # Shapes
/// `score(class, target)` for classes `0..assigned.len()` and targets `0..free`; writes the target of each class into
/// `assigned`. `numbers` and `indices` hold as many as [`AssignmentMemory`] says.
/// # Panics
/// If there are more classes than targets, or too little memory.
pub fn hungarian(
    assigned: &mut [u32],
    free: usize,
    score: impl Fn(usize, usize) -> f32,
    numbers: &mut [f32],
    indices: &mut [u32],
) {
    let classes = assigned.len();
    assert!(classes <= free, "{classes} classes do not fit onto {free} targets");
    let (class_price, rest) = numbers.split_at_mut(classes);
    let (target_price, rest) = rest.split_at_mut(free);
    let distance = &mut rest[..free];
    let (owner, rest) = indices.split_at_mut(free);
    let (reached_from, rest) = rest.split_at_mut(free);
    let settled = &mut rest[..free];
    class_price.fill(0.0);
    target_price.fill(0.0);
    owner.fill(NONE);
    for start in 0..classes {
        // Dijkstra's search from `start` for the nearest target that no class owns; a step costs -score less both
        // prices, which are the dual variables.
        distance.fill(f32::INFINITY);
        reached_from.fill(NONE);
        settled.fill(0);
        let mut target = NONE;
        let mut travelled = 0.0;
        let end = loop {
            let class = if target == NONE { start } else { owner[target as usize] as usize };
            let mut next = NONE;
            for candidate in (0..free).filter(|&candidate| settled[candidate] == 0) {
                let reduced = travelled - score(class, candidate) - class_price[class] - target_price[candidate];
                if reduced < distance[candidate] {
                    distance[candidate] = reduced;
                    reached_from[candidate] = target;
                }
                if next == NONE || distance[candidate] < distance[next as usize] {
                    next = candidate as u32;
                }
            }
            travelled = distance[next as usize];
            settled[next as usize] = 1;
            target = next;
            if owner[next as usize] == NONE {
                break next;
            }
        };
        class_price[start] += travelled;
        for other in (0..free).filter(|&other| settled[other] == 1 && other != end as usize) {
            class_price[owner[other] as usize] += travelled - distance[other];
            target_price[other] -= travelled - distance[other];
        }
        augment(owner, reached_from, start as u32, end);
    }
    for (target, &class) in owner.iter().enumerate().filter(|(_, class)| **class != NONE) {
        assigned[class as usize] = target as u32;
    }
}

/// Gives each target of a path to the owner of the one before it, and the first target to the class `start`. The path
/// ends at the target `end`; `reached_from` leads back along it.
fn augment(owner: &mut [u32], reached_from: &[u32], start: u32, end: u32) {
    let mut last = end;
    while last != NONE {
        let previous = reached_from[last as usize];
        owner[last as usize] = if previous == NONE { start } else { owner[previous as usize] };
        last = previous;
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use pathfinding::kuhn_munkres::kuhn_munkres_min;
    use pathfinding::matrix::Matrix;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_as_cheap_as_kuhn_munkres(rows in 1usize..9, extra in 0usize..5, seed in 0u64..1000) {
            let columns = rows + extra;
            let mut random = crate::random::Random::new(seed, "costs");
            let costs: Vec<i64> = (0..rows * columns).map(|_| random.below(20) as i64).collect();
            let mut assigned = vec![0; rows];
            let AssignmentMemory { numbers, indices } = AssignmentMemory::of(rows, columns);
            let score = |row: usize, column: usize| -(costs[row * columns + column] as f32);
            hungarian(&mut assigned, columns, score, &mut vec![0.0; numbers], &mut vec![0; indices]);
            let cost = |(row, column): (usize, &u32)| costs[row * columns + *column as usize];
            let total: i64 = assigned.iter().enumerate().map(cost).sum();
            let (expected, _) = kuhn_munkres_min(&Matrix::from_vec(rows, columns, costs).unwrap());
            prop_assert_eq!(total, expected);
            assigned.sort_unstable();
            assigned.dedup();
            prop_assert_eq!(assigned.len(), rows);
        }
    }
}
