//! Nodes in an order in which each comes after those that it reads. ONNX demands that, ONNX Runtime does without, and
//! its converter to half precision puts casts at the end.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::mem;

use prost::DecodeError;

use super::parts::GraphParts;

impl GraphParts {
    /// Brings its nodes into such an order. Returns whether they were in another.
    pub(super) fn sort_nodes(&mut self) -> Result<bool, DecodeError> {
        let nodes = self.nodes()?;
        let makers: HashMap<&str, usize> = nodes
            .iter()
            .enumerate()
            .flat_map(|(index, node)| node.output.iter().map(move |output| (output.as_str(), index)))
            .filter(|(output, _)| !output.is_empty())
            .collect();
        let mut readers = vec![Vec::new(); nodes.len()];
        let mut missing = vec![0; nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            for &maker in node.input.iter().filter_map(|input| makers.get(input.as_str())) {
                readers[maker].push(index);
                missing[index] += 1;
            }
        }
        if readers.iter().enumerate().all(|(maker, readers)| readers.iter().all(|&reader| reader > maker)) {
            return Ok(false);
        }
        // Of those that are ready, the first of the file comes next.
        let mut ready: BinaryHeap<Reverse<usize>> =
            (0..nodes.len()).filter(|&index| missing[index] == 0).map(Reverse).collect();
        let mut order = Vec::with_capacity(nodes.len());
        while let Some(Reverse(index)) = ready.pop() {
            order.push(index);
            for &reader in &readers[index] {
                missing[reader] -= 1;
                if missing[reader] == 0 {
                    ready.push(Reverse(reader));
                }
            }
        }
        // A cycle is refused later.
        if order.len() < nodes.len() {
            return Ok(false);
        }
        let mut parts = mem::take(&mut self.node);
        self.node = order.into_iter().map(|index| mem::take(&mut parts[index])).collect();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::model::onnx_proto::node;

    #[test]
    fn nodes_come_after_those_that_they_read() {
        let of = |from: &[&str], to: &str| {
            node("Sum", from.iter().map(|&name| name.into()).collect(), to, vec![]).encode_to_vec()
        };
        let [first, second, third, cast] =
            [of(&["x"], "a"), of(&["c", ""], "b"), of(&["b"], "y"), of(&["a", "a"], "c")];
        let graph = |node: &[&Vec<u8>]| GraphParts {
            node: node.iter().map(|&bytes| bytes.clone()).collect(),
            ..GraphParts::default()
        };
        let mut sorted = graph(&[&first, &second, &third, &cast]);
        assert!(sorted.sort_nodes().unwrap());
        let expected = graph(&[&first, &cast, &second, &third]);
        assert_eq!(sorted, expected);
        assert!(!sorted.sort_nodes().unwrap(), "a second time");
        let mut cycle = graph(&[&of(&["b"], "a"), &of(&["a"], "b")]);
        let before = cycle.clone();
        assert!(!cycle.sort_nodes().unwrap());
        assert_eq!(cycle, before);
    }
}
