//! The memory that a graph takes while it runs: tensors are freed after the last node that reads them.
//!
//! How many are live at a time depends on the order of the nodes, which engines choose themselves. So several orders
//! are tried: that of the file, the walks from the outputs back to the inputs by which ONNX Runtime and rten plan, and
//! first come, first served, by which rten runs. The sum of all tensors ([`super::limits::MAX_TOTAL`]) bounds any
//! order.

use super::graph::{Graph, Node};

/// Bytes of a graph's values and nodes.
pub struct LiveMemory<'a> {
    pub graph: &'a Graph,
    /// Bytes of every value.
    pub values: Vec<u64>,
    /// Which values are never freed: constants, what is computed from them alone, input and outputs.
    pub permanent: Vec<bool>,
    /// Bytes that every node takes while it runs.
    pub scratch: Vec<u64>,
}

/// Most bytes at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryPeak {
    pub bytes: u64,
    /// Index of the node that reaches them.
    pub node: usize,
}

impl LiveMemory<'_> {
    /// The highest peak among the orders.
    pub fn peak(&self) -> MemoryPeak {
        let all = self.graph.nodes.len();
        let orders = [
            (0..all).collect(),
            self.backwards(|inputs| inputs.collect()),
            self.backwards(reversed),
            self.first_served(),
        ];
        orders.iter().map(|order| self.peak_in(order)).max().unwrap_or_default()
    }

    fn peak_in(&self, order: &[usize]) -> MemoryPeak {
        let mut readers = vec![0u32; self.values.len()];
        self.graph.nodes.iter().flat_map(reads).for_each(|value| readers[value] += 1);
        let permanent =
            self.values.iter().zip(&self.permanent).filter(|(_, permanent)| **permanent).map(|(bytes, _)| *bytes);
        let mut live = permanent.fold(0, u64::saturating_add);
        let mut peak = MemoryPeak { bytes: live, node: order.first().copied().unwrap_or_default() };
        for &index in order {
            let node = &self.graph.nodes[index];
            let is_temporary = |value: &usize| !self.permanent[*value];
            live = writes(node).filter(is_temporary).fold(live, |live, value| live.saturating_add(self.values[value]));
            peak = peak.max(MemoryPeak { bytes: live.saturating_add(self.scratch[index]), node: index });
            // What nobody reads is freed at once.
            let unread: Vec<usize> = writes(node).filter(|&value| readers[value] == 0).collect();
            let read = reads(node).filter(|&value| {
                readers[value] -= 1;
                readers[value] == 0
            });
            let freed = unread.into_iter().chain(read).filter(is_temporary);
            live = freed.fold(live, |live, value| live.saturating_sub(self.values[value]));
        }
        peak
    }

    /// Every node right behind what it reads, from the last node back; `order_inputs` says which of its inputs comes
    /// first.
    fn backwards(&self, order_inputs: fn(&mut dyn Iterator<Item = usize>) -> Vec<usize>) -> Vec<usize> {
        let nodes = &self.graph.nodes;
        let makers = self.makers();
        let mut order = Vec::with_capacity(nodes.len());
        let mut seen = vec![false; nodes.len()];
        let outputs = self.graph.outputs.iter().filter_map(|value| makers[*value as usize]);
        for root in outputs.chain((0..nodes.len()).rev()) {
            if std::mem::replace(&mut seen[root], true) {
                continue;
            }
            let before = |node: usize| order_inputs(&mut reads(&nodes[node]).filter_map(|value| makers[value]));
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

    /// The node that computes each value.
    fn makers(&self) -> Vec<Option<usize>> {
        let mut makers = vec![None; self.values.len()];
        for (index, node) in self.graph.nodes.iter().enumerate() {
            writes(node).for_each(|value| makers[value] = Some(index));
        }
        makers
    }
}

fn reversed(inputs: &mut dyn Iterator<Item = usize>) -> Vec<usize> {
    let mut inputs: Vec<usize> = inputs.collect();
    inputs.reverse();
    inputs
}

fn reads(node: &Node) -> impl Iterator<Item = usize> {
    node.inputs.iter().flatten().map(|value| *value as usize)
}

fn writes(node: &Node) -> impl Iterator<Item = usize> {
    node.outputs.iter().flatten().map(|value| *value as usize)
}
