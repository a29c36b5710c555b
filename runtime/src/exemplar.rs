//! Exemplars: the few samples of each class that are kept, as quantised backbone features.

use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::math::add_scaled;

/// A bank of exemplars. Each has the same number of views; view 0 is the clean one.
///
/// A feature vector is stored as int8 values with one scale: `feature = scale * value`, scale = max|feature| / 127.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bank {
    dimension: usize,
    views: usize,
    classes: Vec<u32>,
    scales: Vec<f32>,
    #[serde(with = "crate::codec::signed_bytes")]
    values: Vec<i8>,
}

impl Bank {
    /// An empty bank of feature vectors of length `dimension`, `views` of them per exemplar.
    ///
    /// # Panics
    /// If one of them is 0.
    pub fn new(dimension: usize, views: usize) -> Self {
        assert!(dimension > 0 && views > 0, "a bank needs a dimension and at least one view");
        Self { dimension, views, classes: Vec::new(), scales: Vec::new(), values: Vec::new() }
    }

    /// Number of exemplars.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// Length of a feature vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Views per exemplar.
    pub fn views(&self) -> usize {
        self.views
    }

    /// Class of each exemplar.
    pub fn classes(&self) -> &[u32] {
        &self.classes
    }

    /// Bytes that the features take, scales included.
    pub fn bytes(&self) -> usize {
        self.values.len() + size_of_val(self.scales.as_slice())
    }

    /// Adds an exemplar from its views; if there are fewer than the bank keeps, they are repeated, if more, cut.
    ///
    /// # Shapes
    /// `features` `[1.., dimension]`, the clean view first.
    /// # Panics
    /// If there is no view, or `features` is not made of whole rows.
    pub fn push(&mut self, class: u32, features: &[f32]) {
        assert!(!features.is_empty() && features.len().is_multiple_of(self.dimension), "features are not whole rows");
        self.classes.push(class);
        for row in features.chunks_exact(self.dimension).cycle().take(self.views) {
            let scale = row.iter().fold(0.0f32, |highest, value| highest.max(value.abs())) / 127.0;
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            self.scales.push(scale);
            self.values.extend(row.iter().map(|value| libm::roundf(value * inverse) as i8));
        }
    }

    /// Takes over an exemplar of another bank of the same dimension under a class of this one.
    ///
    /// # Panics
    /// If the dimensions differ or there is no such exemplar.
    pub fn copy_from(&mut self, other: &Bank, exemplar: usize, class: u32) {
        assert_eq!(self.dimension, other.dimension, "banks of different features");
        self.classes.push(class);
        for view in 0..self.views {
            let source = exemplar * other.views + view % other.views;
            self.scales.push(other.scales[source]);
            self.values.extend_from_slice(&other.values[source * other.dimension..][..other.dimension]);
        }
    }

    /// Removes all exemplars of a class; the classes after it move up by one.
    pub fn remove_class(&mut self, class: u32) {
        let mut kept = Self::new(self.dimension, self.views);
        for (exemplar, &of) in self.classes.iter().enumerate().filter(|(_, of)| **of != class) {
            kept.copy_from(self, exemplar, if of > class { of - 1 } else { of });
        }
        *self = kept;
    }

    /// Writes one view of an exemplar into `features`, `[dimension]`.
    ///
    /// # Panics
    /// If there is no such exemplar or view.
    pub fn read(&self, exemplar: usize, view: usize, features: &mut [f32]) {
        let row = exemplar * self.views + view;
        let values = &self.values[row * self.dimension..][..self.dimension];
        features.iter_mut().zip(values).for_each(|(feature, value)| *feature = self.scales[row] * f32::from(*value));
    }

    /// All clean views, `[len, dimension]`.
    pub fn clean(&self) -> Vec<f32> {
        let mut features = vec![0.0; self.len() * self.dimension];
        for (exemplar, row) in features.chunks_exact_mut(self.dimension).enumerate() {
            self.read(exemplar, 0, row);
        }
        features
    }

    /// Mean of the clean views of each of the classes `0..classes`, `[classes, dimension]`; zero for an empty class.
    pub fn means(&self, classes: usize) -> Vec<f32> {
        let mut means = vec![0.0; classes * self.dimension];
        let mut counts = vec![0u32; classes];
        for (row, &class) in self.clean().chunks_exact(self.dimension).zip(&self.classes) {
            counts[class as usize] += 1;
            add_scaled(&mut means[class as usize * self.dimension..][..self.dimension], 1.0, row);
        }
        for (mean, count) in means.chunks_exact_mut(self.dimension).zip(counts) {
            mean.iter_mut().for_each(|value| *value /= count.max(1) as f32);
        }
        means
    }

    /// Whether lengths fit together and scales are finite; to be asked after decoding.
    pub fn is_sound(&self) -> bool {
        self.dimension > 0
            && self.views > 0
            && self.classes.len().checked_mul(self.views) == Some(self.scales.len())
            && self.scales.len().checked_mul(self.dimension) == Some(self.values.len())
            && self.scales.iter().all(|scale| scale.is_finite() && *scale >= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantisation_errs_by_at_most_half_a_step(values in prop::collection::vec(-9.0f32..9.0, 12)) {
            let mut bank = Bank::new(6, 3);
            bank.push(7, &values);
            let mut back = vec![0.0; 6];
            for (view, row) in [0, 1, 0].into_iter().map(|source| &values[source * 6..][..6]).enumerate() {
                bank.read(0, view, &mut back);
                let step = row.iter().fold(0.0f32, |m, v| m.max(v.abs())) / 127.0;
                for (value, back) in row.iter().zip(&back) {
                    prop_assert!((value - back).abs() <= 0.501 * step);
                }
            }
            prop_assert!(bank.is_sound());
        }
    }
}
