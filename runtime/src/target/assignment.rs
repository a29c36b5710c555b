//! One-to-one assignment of classes to pseudo-targets.

use alloc::vec;
use alloc::vec::Vec;

use super::cosines;

/// Assigns every prototype a target of its own so that the sum of cosines is the highest possible (Hungarian method,
/// in the form of shortest augmenting paths: Jonker and Volgenant 1987).
///
/// # Shapes
/// `prototypes` `[classes, dimension]` and `targets` `[free, dimension]`, unit rows; returns for every class the row of
/// its target.
/// # Panics
/// If there are more classes than targets.
pub fn assign(prototypes: &[f32], targets: &[f32], dimension: usize) -> Vec<usize> {
    let (classes, free) = (prototypes.len() / dimension, targets.len() / dimension);
    assert!(classes <= free, "{classes} classes do not fit onto {free} targets");
    let cosines = cosines(prototypes, targets, dimension);
    cheapest(classes, free, |class, target| -f64::from(cosines[class * free + target]))
}

/// The cheapest matching of all rows to different columns, for `rows <= columns`.
fn cheapest(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    const NOBODY: usize = usize::MAX;
    let mut row_price = vec![0.0; rows];
    let mut column_price = vec![0.0; columns];
    let mut owner = vec![NOBODY; columns];
    for start in 0..rows {
        // Grows a tree of alternating paths from `start` until it reaches a column that nobody owns.
        let mut distance = vec![f64::INFINITY; columns];
        let mut reached_from = vec![NOBODY; columns];
        let mut settled = vec![false; columns];
        let mut column = NOBODY;
        let mut travelled = 0.0;
        let end = loop {
            let row = if column == NOBODY { start } else { owner[column] };
            let mut next = NOBODY;
            for candidate in (0..columns).filter(|&candidate| !settled[candidate]) {
                let reduced = travelled + cost(row, candidate) - row_price[row] - column_price[candidate];
                if reduced < distance[candidate] {
                    distance[candidate] = reduced;
                    reached_from[candidate] = column;
                }
                if next == NOBODY || distance[candidate] < distance[next] {
                    next = candidate;
                }
            }
            travelled = distance[next];
            settled[next] = true;
            column = next;
            if owner[next] == NOBODY {
                break next;
            }
        };
        row_price[start] += travelled;
        for other in (0..columns).filter(|&other| settled[other] && other != end) {
            row_price[owner[other]] += travelled - distance[other];
            column_price[other] -= travelled - distance[other];
        }
        let mut free = end;
        while free != NOBODY {
            let previous = reached_from[free];
            owner[free] = if previous == NOBODY { start } else { owner[previous] };
            free = previous;
        }
    }
    let mut matched = vec![0; rows];
    for (column, &row) in owner.iter().enumerate().filter(|(_, row)| **row != NOBODY) {
        matched[row] = column;
    }
    matched
}

#[cfg(test)]
mod tests {
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
            let matched = cheapest(rows, columns, |row, column| costs[row * columns + column] as f64);
            let total: i64 = matched.iter().enumerate().map(|(row, column)| costs[row * columns + column]).sum();
            let (expected, _) = kuhn_munkres_min(&Matrix::from_vec(rows, columns, costs).unwrap());
            prop_assert_eq!(total, expected);
            let mut distinct = matched;
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), rows);
        }
    }
}
