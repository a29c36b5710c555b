//! What a device without an allocator keeps: its classes and its exemplars, in tables whose capacities are part of
//! their types.
//!
//! A device with an allocator takes `orco-state`, whose tables grow.

use heapless::{String, Vec};

use orco_core::exemplar::{ExemplarPrecision, Exemplars, quantise};

/// There is no room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no room for more: the capacity is {capacity}")]
pub struct CapacityError {
    /// The capacity that is used up, in classes, bytes of a label, exemplars, vectors or bytes of values.
    pub capacity: usize,
}

/// A class, with a label of at most `LABEL` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class<const LABEL: usize> {
    /// Name for people.
    pub label: String<LABEL>,
    /// Row of its pseudo-target.
    pub target: u32,
    /// Session in which it was learned; 0 for base classes.
    pub session: u32,
}

/// At most `CLASSES` classes, in the order of learning, base classes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassTable<const CLASSES: usize, const LABEL: usize> {
    classes: Vec<Class<LABEL>, CLASSES>,
}

impl<const CLASSES: usize, const LABEL: usize> ClassTable<CLASSES, LABEL> {
    /// A table without classes.
    pub const fn new() -> Self {
        Self { classes: Vec::new() }
    }

    /// Adds a class; returns its index.
    ///
    /// # Errors
    /// [`CapacityError`] if the table holds as many classes as it can, or the label is too long; nothing is added then.
    pub fn push(&mut self, label: &str, target: u32, session: u32) -> Result<usize, CapacityError> {
        let label = String::try_from(label).map_err(|_| CapacityError { capacity: LABEL })?;
        let class = Class { label, target, session };
        self.classes.push(class).map_err(|_| CapacityError { capacity: CLASSES })?;
        Ok(self.classes.len() - 1)
    }

    /// The classes.
    pub fn as_slice(&self) -> &[Class<LABEL>] {
        &self.classes
    }

    /// Writes the row of every class's target into `assigned`, as [`orco_core::align::align`] takes them.
    ///
    /// # Panics
    /// If `assigned` has not an entry for each class.
    pub fn assigned(&self, assigned: &mut [u32]) {
        assert_eq!(assigned.len(), self.classes.len(), "a target for each class");
        assigned.iter_mut().zip(&self.classes).for_each(|(target, class)| *target = class.target);
    }

    /// Takes over the targets that [`orco_core::align::assign_new_classes`] found.
    ///
    /// # Panics
    /// If there is not one for each class.
    pub fn assign(&mut self, assigned: &[u32]) {
        assert_eq!(assigned.len(), self.classes.len(), "a target for each class");
        self.classes.iter_mut().zip(assigned).for_each(|(class, target)| class.target = *target);
    }
}

/// At most `EXEMPLARS` exemplars of `VECTORS` views together, whose numbers take `BYTES` bytes.
///
/// # Example
/// ```
/// use orco_bare::tables::{CapacityError, ExemplarTable};
/// use orco_core::exemplar::ExemplarPrecision;
///
/// // Two exemplars of two views, three features each.
/// let mut table = ExemplarTable::<2, 4, 12>::new(3, 2, ExemplarPrecision::Int8);
/// table.push(0, &[1.0, 0.5, -1.0, 0.9, 0.4, -0.9])?;
/// let mut features = [0.0; 3];
/// table.as_exemplars().read(0, 1, &mut features);
/// assert!((features[2] + 0.9).abs() < 0.01);
/// table.push(1, &[0.0, 1.0, 0.0])?;
/// assert_eq!(table.push(1, &[0.0, 1.0, 0.0]), Err(CapacityError { capacity: 2 }));
/// assert_eq!(table.as_exemplars().classes, [0, 1]);
/// # Ok::<(), CapacityError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ExemplarTable<const EXEMPLARS: usize, const VECTORS: usize, const BYTES: usize> {
    inputs: usize,
    views: usize,
    precision: ExemplarPrecision,
    classes: Vec<u32, EXEMPLARS>,
    scales: Vec<f32, VECTORS>,
    values: Vec<u8, BYTES>,
}

impl<const EXEMPLARS: usize, const VECTORS: usize, const BYTES: usize> ExemplarTable<EXEMPLARS, VECTORS, BYTES> {
    /// A table without exemplars, for `views` views of `inputs` features each.
    pub const fn new(inputs: usize, views: usize, precision: ExemplarPrecision) -> Self {
        Self { inputs, views, precision, classes: Vec::new(), scales: Vec::new(), values: Vec::new() }
    }

    /// The exemplars, borrowed as `orco-core` reads them.
    pub fn as_exemplars(&self) -> Exemplars<'_> {
        let Self { inputs, views, precision, .. } = *self;
        Exemplars { inputs, views, precision, classes: &self.classes, scales: &self.scales, values: &self.values }
    }

    /// Adds an exemplar from its views; if there are fewer than are kept, they are repeated, if more, cut.
    ///
    /// # Shapes
    /// `features` `[1.., inputs]`, the clean view first.
    /// # Errors
    /// [`CapacityError`] if there is no room; nothing is added then.
    /// # Panics
    /// If there is no view, or `features` is not made of whole rows.
    pub fn push(&mut self, class: u32, features: &[f32]) -> Result<(), CapacityError> {
        assert!(!features.is_empty() && features.len().is_multiple_of(self.inputs), "features are not whole rows");
        let bytes = self.views * self.inputs * self.precision.bytes();
        let room = [
            (self.classes.len() + 1, EXEMPLARS),
            (self.scales.len() + self.views, VECTORS),
            (self.values.len() + bytes, BYTES),
        ];
        if let Some((_, capacity)) = room.into_iter().find(|(needed, capacity)| needed > capacity) {
            return Err(CapacityError { capacity });
        }
        // There is room for all of it.
        let _ = self.classes.push(class);
        for row in features.chunks_exact(self.inputs).cycle().take(self.views) {
            let scale = quantise(row, self.precision, |byte| {
                let _ = self.values.push(byte);
            });
            let _ = self.scales.push(scale.unwrap_or(0.0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_classes_refuses_what_it_cannot_hold() {
        let mut table = ClassTable::<2, 4>::new();
        assert_eq!(table.push("mug", 7, 1), Ok(0));
        assert_eq!(table.push("teapot", 8, 1), Err(CapacityError { capacity: 4 }));
        assert_eq!(table.push("duck", 8, 1), Ok(1));
        assert_eq!(table.push("hat", 9, 2), Err(CapacityError { capacity: 2 }));
        let mut assigned = [0; 2];
        table.assigned(&mut assigned);
        assert_eq!(assigned, [7, 8]);
        table.assign(&[7, 3]);
        assert_eq!((table.as_slice()[1].label.as_str(), table.as_slice()[1].target), ("duck", 3));
    }
}
