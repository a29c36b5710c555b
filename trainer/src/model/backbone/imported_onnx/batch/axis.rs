//! Along which axis of a value the images of a batch lie, followed through a node by shapes for one image.

use super::super::lists::Lists;
use crate::model::onnx_proto::NodeProto;

/// An axis along which the images of a batch lie one after the other, in each of its blocks. `[batch, ...]` and
/// `[batch * windows, ...]` have one block; `[tokens * batch, ...]` has one for each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchAxis {
    /// Which axis, from 0.
    pub index: usize,
    /// In how many blocks all images lie.
    pub blocks: u64,
}

impl BatchAxis {
    /// That of a model's images.
    pub const FIRST: Self = Self { index: 0, blocks: 1 };

    /// The axis along which images lie in the output of a node, if its input of this index has the shape `from` for one
    /// image, and its output the shape `to`. None where that cannot be told.
    pub fn follow(self, node: &NodeProto, input: usize, from: &[u64], to: &[u64], lists: &Lists) -> Option<Self> {
        // Broadcasting and most others keep axes, counted from the last.
        let kept = (self.index + to.len()).checked_sub(from.len());
        let is_shorter = to.len() < from.len();
        let index = match node.op_type.as_str() {
            "Flatten" | "Reshape" => return self.reshaped(from, to),
            "Transpose" => match node.named("perm") {
                Some(order) => order.ints.iter().position(|&axis| self.is_at(axis))?,
                None => from.len().checked_sub(self.index + 1)?,
            },
            "Unsqueeze" => usize::try_from(*unnamed_axes(node, to.len(), lists)?.get(self.index)?).ok()?,
            operator if is_shorter && (matches!(operator, "ArgMax" | "Squeeze") || operator.starts_with("Reduce")) => {
                unnamed_axes(node, from.len(), lists)?.iter().position(|&axis| self.is_at(axis))?
            }
            "Gather" => match usize::try_from(axis_of(node).unwrap_or(0).rem_euclid(from.len() as i64)).ok()? {
                gathered if input > 0 || gathered == self.index => return None,
                gathered if gathered < self.index => kept?,
                _ => self.index,
            },
            "Einsum" => self.in_einsum(node, input)?,
            _ => kept?,
        };
        (to.get(index)? == from.get(self.index)?).then_some(Self { index, ..self })
    }

    /// The axes of a value of this shape for one image along which images may lie as well: this one, and those beside
    /// it where both have the length 1, since one image is the same either way.
    pub fn candidates(self, shape: &[u64]) -> Vec<Self> {
        let is_one = |index: usize| shape.get(index) == Some(&1);
        let beside = [self.index.checked_sub(1), self.index.checked_add(1)].into_iter().flatten();
        let beside = beside.filter(|&index| self.blocks == 1 && is_one(self.index) && is_one(index));
        std::iter::once(self.index).chain(beside).map(|index| Self { index, ..self }).collect()
    }

    fn is_at(self, axis: i64) -> bool {
        usize::try_from(axis) == Ok(self.index)
    }

    /// The axis once the shape `from` has become `to`: as many numbers come before the images.
    fn reshaped(self, from: &[u64], to: &[u64]) -> Option<Self> {
        let mut before = from.get(..self.index)?.iter().product::<u64>() * self.blocks;
        for (index, &length) in to.iter().enumerate() {
            // The last axis has features, which are as many whatever the batch.
            let is_behind = length == before && index + 2 >= to.len();
            if before == 1 || length > before || is_behind {
                return length.is_multiple_of(before).then_some(Self { index, blocks: before });
            }
            if !before.is_multiple_of(length) {
                return None;
            }
            before /= length;
        }
        None
    }

    /// The index of the output's axis that has the same letter in an equation such as `bhn,bhm->hbnm`.
    fn in_einsum(self, node: &NodeProto, input: usize) -> Option<usize> {
        let equation = node.named("equation")?.s.as_deref()?;
        let equation: String = str::from_utf8(equation).ok()?.split_whitespace().collect();
        let (inputs, output) = equation.split_once("->").filter(|_| !equation.contains('.'))?;
        let letter = inputs.split(',').nth(input)?.chars().nth(self.index)?;
        output.chars().position(|other| other == letter)
    }
}

/// The setting `axis` of a node.
pub fn axis_of(node: &NodeProto) -> Option<i64> {
    node.whole_number("axis")
}

/// The axes of a value of this rank that a node does not name, by a setting or by its second input.
fn unnamed_axes(node: &NodeProto, rank: usize, lists: &Lists) -> Option<Vec<i64>> {
    let named = match (node.named("axes"), axis_of(node)) {
        (Some(axes), _) => axes.ints.clone(),
        (None, Some(axis)) => vec![axis],
        (None, None) => lists.get(node.input.get(1)?)?.clone(),
    };
    let rank = rank as i64;
    let is_unnamed = |axis: &i64| !named.contains(axis) && !named.contains(&(axis - rank));
    Some((0..rank).filter(is_unnamed).collect())
}

#[cfg(test)]
mod tests {
    use super::super::tests::of;
    use super::*;
    use crate::model::onnx_proto::{int, ints, node, text};

    #[test]
    fn images_are_followed() {
        let along = |index| BatchAxis { index, blocks: 1 };
        let rows = BatchAxis { index: 0, blocks: 9 };
        let lists = Lists::from([("axes".to_owned(), vec![-1])]);
        let reshape = || of("Reshape", &[], "y");
        let turned = node("Transpose", vec![], "y", vec![ints("perm", vec![1, 0, 2])]);
        let einsum = node("Einsum", vec![], "y", vec![text("equation", "bhn, bhm -> hbnm")]);
        let taken = |axis| node("Gather", vec![], "y", vec![int("axis", axis)]);
        for (axis, node, from, to, expected) in [
            (along(0), turned, &[1, 9, 4][..], &[9, 1, 4][..], Some(along(1))),
            (along(1), reshape(), &[9, 1, 4], &[9, 4], Some(rows)),
            (rows, reshape(), &[9, 4], &[9, 2, 2], Some(along(1))),
            (along(0), reshape(), &[1, 8, 8], &[4, 4, 4], Some(along(0))),
            (along(1), reshape(), &[6, 1, 4], &[4, 6], None),
            (along(0), of("Unsqueeze", &["x", "axes"], "y"), &[1, 4], &[1, 4, 1], Some(along(0))),
            (along(1), of("ReduceMean", &["x", "axes"], "y"), &[9, 1, 4], &[9, 1], Some(along(1))),
            (along(1), taken(0), &[3, 1, 4], &[1, 4], Some(along(0))),
            (along(1), taken(1), &[3, 1, 4], &[3, 4], None),
            (along(0), einsum, &[1, 2, 9], &[2, 1, 9, 9], Some(along(1))),
            (along(0), of("MatMul", &[], "y"), &[1, 9], &[5, 1, 9], Some(along(1))),
            (along(0), of("Add", &[], "y"), &[1, 9], &[5, 9], None),
        ] {
            assert_eq!(axis.follow(&node, 0, from, to, &lists), expected, "{node:?}, {from:?}");
        }
    }
}
