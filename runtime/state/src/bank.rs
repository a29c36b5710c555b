//! A bank of exemplars: what a bundle brings and a state collects, within a limit of bytes.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use orco_core::exemplar::{ExemplarPrecision, Exemplars, MAX_VIEWS, quantise};
use orco_core::math::add_scaled;

/// A bank of exemplars. Each has the same number of views; view 0 is the clean one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bank {
    inputs: usize,
    views: usize,
    precision: ExemplarPrecision,
    /// `[exemplars]`.
    classes: Vec<u32>,
    /// `[exemplars, views]` where values are int8; none where they are f16.
    scales: Vec<f32>,
    /// `[exemplars, views, inputs]`, of one or two bytes each.
    #[serde(with = "crate::codec::bytes")]
    values: Vec<u8>,
    #[serde(skip)]
    digests: KeptDigests,
}

/// SHA-256 of every exemplar, where they are kept ([`Bank::keep_digests`]). They follow from the exemplars, so two
/// banks do not differ by them.
#[derive(Clone, Debug, Default)]
struct KeptDigests(Option<Vec<[u8; 32]>>);

impl PartialEq for KeptDigests {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Bank {
    /// An empty bank of feature vectors of length `inputs`, `views` of them per exemplar.
    ///
    /// # Panics
    /// If one of them is 0.
    pub fn new(inputs: usize, views: usize, precision: ExemplarPrecision) -> Self {
        assert!(inputs > 0 && views > 0, "a bank needs a length of features and at least one view");
        let digests = KeptDigests::default();
        Self { inputs, views, precision, classes: Vec::new(), scales: Vec::new(), values: Vec::new(), digests }
    }

    /// The exemplars, borrowed as `orco-core` reads them.
    pub fn as_exemplars(&self) -> Exemplars<'_> {
        let Self { inputs, views, precision, classes, scales, values, .. } = self;
        Exemplars { inputs: *inputs, views: *views, precision: *precision, classes, scales, values }
    }

    /// Number of exemplars.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// Length of a feature vector: the head's inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Views per exemplar.
    pub fn views(&self) -> usize {
        self.views
    }

    /// How the exemplars are stored.
    pub fn precision(&self) -> ExemplarPrecision {
        self.precision
    }

    /// Class of each exemplar.
    pub fn classes(&self) -> &[u32] {
        &self.classes
    }

    /// Indices of the exemplars of one class, in ascending order; [`Bank::by_class`] gives those of all classes.
    pub fn members(&self, class: u32) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(move |&exemplar| self.classes[exemplar] == class)
    }

    /// Bytes that the exemplars take, scales and classes included.
    pub fn bytes(&self) -> usize {
        self.len() * self.bytes_per_exemplar()
    }

    /// Bytes that one exemplar takes.
    pub fn bytes_per_exemplar(&self) -> usize {
        size_of::<u32>() + self.views * self.bytes_of_view()
    }

    fn bytes_of_view(&self) -> usize {
        match self.precision {
            ExemplarPrecision::Int8 => self.inputs + size_of::<f32>(),
            ExemplarPrecision::F16 => 2 * self.inputs,
        }
    }

    /// Adds an exemplar from its views; if there are fewer than the bank keeps, they are repeated, if more, cut.
    ///
    /// # Shapes
    /// `features` `[1.., inputs]`, the clean view first.
    /// # Panics
    /// If there is no view, or `features` is not made of whole rows.
    pub fn push(&mut self, class: u32, features: &[f32]) {
        assert!(!features.is_empty() && features.len().is_multiple_of(self.inputs), "features are not whole rows");
        self.classes.push(class);
        for row in features.chunks_exact(self.inputs).cycle().take(self.views) {
            self.scales.extend(quantise(row, self.precision, |byte| self.values.push(byte)));
        }
        self.note_digests(self.len() - 1..self.len());
    }

    /// Keeps the digests of all exemplars from now on, in copies of the bank, too: for a program that asks for them
    /// often and has the memory, 32 bytes for each.
    pub fn keep_digests(&mut self) {
        if self.digests.0.is_none() {
            self.digests.0 = Some(Vec::with_capacity(self.len()));
            self.note_digests(0..self.len());
        }
    }

    /// Notes the digests of new exemplars, where they are kept.
    fn note_digests(&mut self, new: Range<usize>) {
        if let Some(mut digests) = self.digests.0.take() {
            digests.extend(new.map(|exemplar| self.compute_digest(exemplar)));
            self.digests.0 = Some(digests);
        }
    }

    /// Makes room for this many more exemplars, and no more: growing as they come would take twice the memory.
    pub fn reserve(&mut self, exemplars: usize) {
        let views = exemplars * self.views;
        self.classes.reserve_exact(exemplars);
        if self.precision == ExemplarPrecision::Int8 {
            self.scales.reserve_exact(views);
        }
        self.values.reserve_exact(views * self.inputs * self.precision.bytes());
    }

    /// An empty bank of the same layout.
    pub fn empty_like(&self) -> Self {
        let digests = KeptDigests(self.digests.0.as_ref().map(|_| Vec::new()));
        Self { digests, ..Self::new(self.inputs, self.views, self.precision) }
    }

    /// Whether two banks have the same layout: length and number of views, and precision.
    pub fn has_layout_of(&self, other: &Self) -> bool {
        let layout = |bank: &Self| (bank.inputs, bank.views, bank.precision);
        layout(self) == layout(other)
    }

    /// Adds all exemplars of another bank to a class, byte for byte as they are stored.
    ///
    /// # Panics
    /// If the other bank has another layout.
    pub fn append(&mut self, class: u32, exemplars: &Self) {
        assert!(self.has_layout_of(exemplars), "the banks have different layouts");
        let first = self.len();
        self.classes.resize(first + exemplars.len(), class);
        self.scales.extend_from_slice(&exemplars.scales);
        self.values.extend_from_slice(&exemplars.values);
        self.note_digests(first..self.len());
    }

    /// Indices of the exemplars of every class that has some, in ascending order.
    pub fn by_class(&self) -> BTreeMap<u32, Vec<usize>> {
        let mut by_class = BTreeMap::<_, Vec<usize>>::new();
        for (exemplar, &class) in self.classes.iter().enumerate() {
            by_class.entry(class).or_default().push(exemplar);
        }
        by_class
    }

    /// Whether an exemplar is stored as one of another bank is, their classes apart.
    ///
    /// # Panics
    /// If there is no such exemplar.
    pub fn is_same(&self, exemplar: usize, other: &Self, of_other: usize) -> bool {
        self.has_layout_of(other) && self.stored(exemplar) == other.stored(of_other)
    }

    /// The exemplars of one class, byte for byte as they are stored, as those of class 0.
    pub fn of_class(&self, class: u32) -> Self {
        let members: Vec<usize> = self.members(class).collect();
        let mut own = self.only(&members);
        own.classes.fill(0);
        own
    }

    /// Removes all exemplars of a class; the classes after it move up by one.
    pub fn remove_class(&mut self, class: u32) {
        let classes = core::mem::take(&mut self.classes);
        let kept = |exemplar: &usize| classes[*exemplar] != class;
        let kept: Vec<usize> = (0..classes.len()).filter(kept).collect();
        self.classes = classes.iter().map(|&of| if of > class { of - 1 } else { of }).collect();
        *self = self.only(&kept);
    }

    /// The chosen exemplars, in the order given.
    ///
    /// # Panics
    /// If there is no such exemplar.
    pub fn only(&self, exemplars: &[usize]) -> Self {
        let mut kept = self.empty_like();
        exemplars.iter().for_each(|&exemplar| kept.push_from(self, exemplar, self.classes[exemplar]));
        kept
    }

    /// Adds an exemplar of another bank as one of `class`, as it is stored there.
    ///
    /// # Panics
    /// If there is no such exemplar, or the other bank has another layout.
    pub fn push_from(&mut self, other: &Self, exemplar: usize, class: u32) {
        assert!(self.has_layout_of(other), "the banks have different layouts");
        let (scales, values) = other.stored(exemplar);
        self.classes.push(class);
        self.scales.extend_from_slice(scales);
        self.values.extend_from_slice(values);
        match (&mut self.digests.0, &other.digests.0) {
            (Some(own), Some(others)) => own.push(others[exemplar]),
            _ => self.note_digests(self.len() - 1..self.len()),
        }
    }

    /// SHA-256 of an exemplar as it is stored, its class apart: equal for equal exemplars.
    ///
    /// # Panics
    /// If there is no such exemplar.
    pub fn digest_of(&self, exemplar: usize) -> [u8; 32] {
        self.digests.0.as_ref().map_or_else(|| self.compute_digest(exemplar), |digests| digests[exemplar])
    }

    /// SHA-256 of the exemplar that a shot becomes in a bank of this layout ([`Bank::digest_of`]), whether it is stored
    /// or not.
    ///
    /// # Shapes and panics
    /// As for [`Bank::push`].
    pub fn digest_of_shot(&self, features: &[f32]) -> [u8; 32] {
        let mut alone = self.empty_like();
        alone.push(0, features);
        alone.digest_of(0)
    }

    fn compute_digest(&self, exemplar: usize) -> [u8; 32] {
        let (scales, values) = self.stored(exemplar);
        let scales: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        crate::codec::digest_of_parts(&[&scales, values])
    }

    /// Scales and values of an exemplar.
    fn stored(&self, exemplar: usize) -> (&[f32], &[u8]) {
        let length = self.views * self.inputs * self.precision.bytes();
        let scales = if self.precision == ExemplarPrecision::Int8 { self.views } else { 0 };
        (&self.scales[exemplar * scales..][..scales], &self.values[exemplar * length..][..length])
    }

    /// Leaves as many exemplars as fit into `limit` bytes, at most equally many of each class, but at least one: the
    /// first ones.
    pub fn shrink_to(&mut self, limit: usize) {
        self.shrink_in_order(limit, |_, _| ());
    }

    /// Leaves as many exemplars as [`shrink_to`](Self::shrink_to) does, of each class those that `order` puts first; it
    /// is given the bank and the indices of a class's exemplars, in ascending order.
    pub fn shrink_in_order(&mut self, limit: usize, mut order: impl FnMut(&Self, &mut [usize])) {
        if self.bytes() <= limit {
            return;
        }
        let mut sorted: Vec<usize> = (0..self.len()).collect();
        sorted.sort_by_key(|&exemplar| self.classes[exemplar]);
        let same_class = |a: &usize, b: &usize| self.classes[*a] == self.classes[*b];
        let kept_of = |each: usize| sorted.chunk_by(same_class).map(|own| own.len().min(each)).sum::<usize>();
        let room = limit / self.bytes_per_exemplar();
        let mut each = 1;
        while kept_of(each + 1) <= room {
            each += 1;
        }
        let mut kept = Vec::new();
        for members in sorted.chunk_by_mut(same_class) {
            order(self, members);
            kept.extend(members.iter().take(each));
        }
        kept.sort_unstable();
        *self = self.only(&kept);
    }

    /// Clean views of these exemplars, `[exemplars, inputs]`.
    ///
    /// # Panics
    /// If there is no such exemplar.
    pub fn clean_of(&self, exemplars: &[usize]) -> Vec<f32> {
        let mut features = vec![0.0; exemplars.len() * self.inputs];
        for (&exemplar, row) in exemplars.iter().zip(features.chunks_exact_mut(self.inputs)) {
            self.as_exemplars().read(exemplar, 0, row);
        }
        features
    }

    /// All views of these exemplars, `[exemplars, views, inputs]`.
    ///
    /// # Panics
    /// If there is no such exemplar.
    pub fn views_of(&self, exemplars: &[usize]) -> Vec<f32> {
        let mut features = vec![0.0; exemplars.len() * self.views * self.inputs];
        for (&exemplar, views) in exemplars.iter().zip(features.chunks_exact_mut(self.views * self.inputs)) {
            for (view, row) in views.chunks_exact_mut(self.inputs).enumerate() {
                self.as_exemplars().read(exemplar, view, row);
            }
        }
        features
    }

    /// All clean views, `[len, inputs]`.
    pub fn clean(&self) -> Vec<f32> {
        self.clean_of(&(0..self.len()).collect::<Vec<_>>())
    }

    /// Mean of the clean views of each of the classes `0..classes`, `[classes, inputs]`; zero for an empty class.
    pub fn means(&self, classes: usize) -> Vec<f32> {
        let mut means = vec![0.0; classes * self.inputs];
        let mut counts = vec![0u32; classes];
        for (row, &class) in self.clean().chunks_exact(self.inputs).zip(&self.classes) {
            counts[class as usize] += 1;
            add_scaled(&mut means[class as usize * self.inputs..][..self.inputs], 1.0, row);
        }
        for (mean, count) in means.chunks_exact_mut(self.inputs).zip(counts) {
            mean.iter_mut().for_each(|value| *value /= count.max(1) as f32);
        }
        means
    }

    /// Whether lengths fit together and values are finite; to be asked after decoding.
    pub fn is_sound(&self) -> bool {
        let vectors = self.classes.len().checked_mul(self.views);
        let values = vectors.and_then(|vectors| vectors.checked_mul(self.inputs));
        let scales = if self.precision == ExemplarPrecision::Int8 { vectors } else { Some(0) };
        let is_finite = |half: &[u8; 2]| half::f16::from_le_bytes(*half).is_finite();
        self.inputs > 0
            && (1..=MAX_VIEWS).contains(&self.views)
            && scales == Some(self.scales.len())
            && values.and_then(|values| values.checked_mul(self.precision.bytes())) == Some(self.values.len())
            && self.scales.iter().all(|scale| (scale * 128.0).is_finite() && *scale >= 0.0)
            && (self.precision == ExemplarPrecision::Int8 || self.values.as_chunks::<2>().0.iter().all(is_finite))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantisation_errs_by_at_most_half_a_step(values in prop::collection::vec(-9.0f32..9.0, 12), int8: bool) {
            let precision = if int8 { ExemplarPrecision::Int8 } else { ExemplarPrecision::F16 };
            let mut bank = Bank::new(6, 3, precision);
            bank.push(7, &values);
            let mut back = vec![0.0; 6];
            for (view, row) in [0, 1, 0].into_iter().map(|source| &values[source * 6..][..6]).enumerate() {
                bank.as_exemplars().read(0, view, &mut back);
                let highest = row.iter().fold(0.0f32, |m, v| m.max(v.abs()));
                let step = if int8 { highest / 127.0 } else { highest / 1024.0 };
                for (value, back) in row.iter().zip(&back) {
                    prop_assert!((value - back).abs() <= 0.501 * step);
                }
            }
            prop_assert!(bank.is_sound());
            prop_assert_eq!(bank.bytes(), if int8 { 4 + 3 * (6 + 4) } else { 4 + 3 * 12 });
        }
    }

    fn filled(precision: ExemplarPrecision) -> Bank {
        let mut bank = Bank::new(2, 1, precision);
        for (class, row) in [(0, [1.0, 0.0]), (1, [0.0, 1.0]), (0, [0.0, 1.0]), (0, [1.0, 1.0]), (1, [1.0, 3.0])] {
            bank.push(class, &row);
        }
        bank
    }

    #[test]
    fn a_limit_leaves_each_class_equally_many() {
        let mut bank = filled(ExemplarPrecision::Int8);
        bank.shrink_to(2 * bank.bytes_per_exemplar());
        assert_eq!(bank, filled(ExemplarPrecision::Int8).only(&[0, 1]));
        let mut bank = filled(ExemplarPrecision::Int8);
        bank.shrink_in_order(2 * bank.bytes_per_exemplar(), |_, members| members.reverse());
        assert_eq!(bank, filled(ExemplarPrecision::Int8).only(&[3, 4]));
        let mut uneven = filled(ExemplarPrecision::Int8).only(&[0, 1, 2, 3]);
        uneven.shrink_to(3 * uneven.bytes_per_exemplar());
        assert_eq!(uneven.classes(), [0, 1, 0], "a class with few leaves its room to others");
        let mut bank = filled(ExemplarPrecision::F16);
        bank.shrink_to(bank.bytes() - 1);
        assert_eq!(bank.len(), 4);
        bank.shrink_to(0);
        assert_eq!(bank.classes().len(), 2);
        assert!(bank.is_sound());
    }

    #[test]
    fn a_class_is_taken_out_and_put_in_byte_for_byte() {
        for precision in [ExemplarPrecision::Int8, ExemplarPrecision::F16] {
            let bank = filled(precision);
            let mut back = bank.only(&[0, 2, 3]);
            back.append(1, &bank.of_class(1));
            assert_eq!(back, bank.only(&[0, 2, 3, 1, 4]));
            assert!(bank.of_class(9).is_empty() && bank.empty_like().has_layout_of(&bank));
        }
    }

    #[test]
    fn digests_that_are_kept_are_those_that_are_computed() {
        for precision in [ExemplarPrecision::Int8, ExemplarPrecision::F16] {
            let mut kept = filled(precision);
            kept.keep_digests();
            let others = filled(precision);
            let mut banks = vec![kept.clone(), kept.only(&[3, 0])];
            let mut grown = kept.empty_like();
            grown.push(5, &[2.0, 3.0]);
            grown.append(6, &others.of_class(1));
            grown.push_from(&others, 3, 7);
            grown.push_from(&kept, 4, 7);
            grown.remove_class(6);
            banks.push(grown);
            for bank in banks {
                let digests = bank.digests.0.as_ref().expect("copies keep them, too");
                assert_eq!(*digests, (0..bank.len()).map(|exemplar| bank.compute_digest(exemplar)).collect::<Vec<_>>());
            }
            assert!(kept == others && others.digests.0.is_none(), "they are no difference");
        }
    }

    #[test]
    fn removing_a_class_moves_the_later_ones_up() {
        let mut bank = filled(ExemplarPrecision::Int8);
        bank.remove_class(0);
        assert_eq!(bank.classes(), [0, 0]);
        assert_eq!(bank.clean(), filled(ExemplarPrecision::Int8).only(&[1, 4]).clean());
    }
}
