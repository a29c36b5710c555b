//! The memory that a graph takes while it runs: tensors are freed after the last node that reads them.
//!
//! How many live at a time depends on the order of the nodes, which engines choose themselves. So several orders are
//! tried: that of the file, the walks from the outputs back to the inputs by which ONNX Runtime and rten start, and
//! first come, first served, in which rten goes on. The sum of all tensors ([`super::limits::MAX_TOTAL`]) bounds any
//! order.

use super::graph::{Graph, Node};

/// Bytes of a graph's values and nodes.
pub struct LiveMemory<'a> {
    pub graph: &'a Graph,
    /// Bytes of every value.
    pub values: Vec<u64>,
    /// Which values stay for good: constants, what is computed from them alone, input and outputs.
    pub kept: Vec<bool>,
    /// Bytes that every node takes while it runs.
    pub scratch: Vec<u64>,
}

impl LiveMemory<'_> {
    /// Most bytes at a time, and the node at which it is so.
    pub fn peak(&self) -> (u64, usize) {
        let all = self.graph.nodes.len();
        let orders =
            [(0..all).collect(), self.backwards(|ends| ends.collect()), self.backwards(reversed), self.first_served()];
        orders.iter().map(|order| self.peak_in(order)).max().unwrap_or_default()
    }

    fn peak_in(&self, order: &[usize]) -> (u64, usize) {
        let mut readers = vec![0u32; self.values.len()];
        self.graph.nodes.iter().flat_map(reads).for_each(|value| readers[value] += 1);
        let kept = self.values.iter().zip(&self.kept).filter(|(_, kept)| **kept).map(|(bytes, _)| *bytes);
        let mut live = kept.fold(0, u64::saturating_add);
        let mut peak = (live, order.first().copied().unwrap_or_default());
        for &index in order {
            let node = &self.graph.nodes[index];
            let passing = |value: &usize| !self.kept[*value];
            live = writes(node).filter(passing).fold(live, |live, value| live.saturating_add(self.values[value]));
            peak = peak.max((live.saturating_add(self.scratch[index]), index));
            let mut done = |value: usize| {
                if readers[value] == 0 && passing(&value) {
                    live = live.saturating_sub(self.values[value]);
                }
            };
            writes(node).for_each(&mut done);
            for value in reads(node) {
                readers[value] -= 1;
                if readers[value] == 0 && passing(&value) {
                    live = live.saturating_sub(self.values[value]);
                }
            }
        }
        peak
    }

    /// Every node right behind what it reads, from the last node back; `turn` says which of its inputs comes first.
    fn backwards(&self, turn: fn(&mut dyn Iterator<Item = usize>) -> Vec<usize>) -> Vec<usize> {
        let nodes = &self.graph.nodes;
        let makers = self.makers();
        let mut order = Vec::with_capacity(nodes.len());
        let mut seen = vec![false; nodes.len()];
        let outputs = self.graph.outputs.iter().filter_map(|value| makers[*value as usize]);
        for root in outputs.chain((0..nodes.len()).rev()) {
            if std::mem::replace(&mut seen[root], true) {
                continue;
            }
            let before = |node: usize| turn(&mut reads(&nodes[node]).filter_map(|value| makers[value]));
            let mut path = vec![(root, before(root).into_iter())];
            while let Some((node, rest)) = path.last_mut() {
                match rest.next() {
                    Some(next) if std::mem::replace(&mut seen[next], true) => {}
                    Some(next) => path.push((next, before(next).into_iter())),
                    None => {
                        order.push(*node);
                        path.pop();
                    }
                }
            }
        }
        order
    }

    /// Every node as soon as its inputs are there.
    fn first_served(&self) -> Vec<usize> {
        let nodes = &self.graph.nodes;
        let makers = self.makers();
        let mut readers = vec![Vec::new(); nodes.len()];
        let mut missing = vec![0; nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            for maker in reads(node).filter_map(|value| makers[value]) {
                readers[maker].push(index);
                missing[index] += 1;
            }
        }
        let mut order: Vec<usize> = (0..nodes.len()).filter(|&index| missing[index] == 0).collect();
        let mut next = 0;
        while let Some(&index) = order.get(next) {
            next += 1;
            for &reader in &readers[index] {
                missing[reader] -= 1;
                if missing[reader] == 0 {
                    order.push(reader);
                }
            }
        }
        order
    }

    /// The node that makes each value.
    fn makers(&self) -> Vec<Option<usize>> {
        let mut makers = vec![None; self.values.len()];
        for (index, node) in self.graph.nodes.iter().enumerate() {
            writes(node).for_each(|value| makers[value] = Some(index));
        }
        makers
    }
}

fn reversed(ends: &mut dyn Iterator<Item = usize>) -> Vec<usize> {
    let mut ends: Vec<usize> = ends.collect();
    ends.reverse();
    ends
}

fn reads(node: &Node) -> impl Iterator<Item = usize> {
    node.inputs.iter().flatten().map(|value| *value as usize)
}

fn writes(node: &Node) -> impl Iterator<Item = usize> {
    node.outputs.iter().flatten().map(|value| *value as usize)
}
