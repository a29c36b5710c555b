//! Why an answer was given: the stored exemplars that a picture is like.

use alloc::vec;
use alloc::vec::Vec;

use orco_core::math::dot;

use crate::likeness::centred_direction;
use crate::state::{BaseModel, State};

/// A stored exemplar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExemplarId {
    /// One of the bundle's, with this index.
    Bundle(usize),
    /// One of the device's state, with this index.
    Device(usize),
}

/// A stored exemplar that is like a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Neighbour {
    /// Index of its class among the known classes, base classes first.
    pub class: usize,
    /// Which exemplar it is.
    pub exemplar: ExemplarId,
    /// Its number among the exemplars of its class in the bundle, or in the device's state, from 1.
    pub number: usize,
    /// Cosine, -1..1, between the [directions](centred_direction) of both.
    pub similarity: f32,
}

/// The `count` stored exemplars whose clean views are most like a picture, most alike first.
///
/// # Panics
/// If `features` are not those of one picture.
pub fn nearest(base_model: &BaseModel, state: &State, features: &[f32], count: usize) -> Vec<Neighbour> {
    assert_eq!(features.len(), base_model.head.inputs, "features are not those of one picture");
    let mut picture = features.to_vec();
    centred_direction(base_model, &mut picture);
    let mut neighbours = Vec::with_capacity(base_model.exemplars.len() + state.exemplars.len());
    let mut row = vec![0.0; features.len()];
    let ids: [fn(usize) -> ExemplarId; 2] = [ExemplarId::Bundle, ExemplarId::Device];
    for (bank, id_of) in [&base_model.exemplars, &state.exemplars].into_iter().zip(ids) {
        let mut numbers = vec![0; base_model.classes.len() + state.classes.len()];
        for (index, &class) in bank.classes().iter().enumerate() {
            let class = class as usize;
            numbers[class] += 1;
            bank.as_exemplars().read(index, 0, &mut row);
            centred_direction(base_model, &mut row);
            let similarity = dot(&picture, &row);
            neighbours.push(Neighbour { class, exemplar: id_of(index), number: numbers[class], similarity });
        }
    }
    neighbours.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
    neighbours.truncate(count);
    neighbours
}
