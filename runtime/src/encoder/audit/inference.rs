//! Infers the shape of every tensor of a graph for an input of given sides, and sums up what the graph costs; refuses
//! what goes beyond [`super::limits`]. Nothing is computed but short lists of whole numbers, which become shapes.

use super::call::{NodeCall, RuleError};
use super::graph::{Graph, Node};
use super::limits::{MAX_DEPTH, MAX_FOLDING, MAX_LIVE, MAX_TOTAL, MAX_WORK, MAX_WORK_OF_CALL};
use super::memory::LiveMemory;
use super::tensor::{DataType, TensorType};
use super::{AuditError, AuditResult, MAX_ELEMENTS, MAX_RANK};

/// What a graph makes of an input, and what it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inference {
    /// Sides of the outputs.
    pub outputs: Vec<Vec<u64>>,
    /// Work in multiply-adds.
    pub work: u64,
    /// Part of the work that depends on no picture.
    pub folding: u64,
    /// Most memory at a time, in bytes, with weights.
    pub live: u64,
    /// Memory of all tensors together, in bytes.
    pub total: u64,
}

/// Infers for an input of floats with these sides, of which the first counts pictures.
///
/// # Errors
/// [`AuditError`] names the node at which a shape cannot be told, or at which a limit is passed.
pub fn infer(graph: &Graph, input: &[u64]) -> AuditResult<Inference> {
    let mut walk = Walk::new(graph, input)?;
    for (index, node) in graph.nodes.iter().enumerate() {
        walk.visit(index, node)?;
    }
    let pictures = input.first().copied().unwrap_or(1).max(1);
    walk.finish(MAX_WORK.saturating_mul(pictures).min(MAX_WORK_OF_CALL))
}

struct Walk<'a> {
    graph: &'a Graph,
    tensors: Vec<Option<TensorType>>,
    /// Nodes on the longest way from an input or a constant to every value.
    depths: Vec<u32>,
    /// Work of every node.
    work: Vec<u64>,
    folding: u64,
    memory: LiveMemory<'a>,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph, input: &[u64]) -> AuditResult<Self> {
        let mut tensors = vec![None; graph.values];
        let mut memory =
            LiveMemory { graph, values: vec![0; graph.values], kept: vec![false; graph.values], scratch: Vec::new() };
        let input = TensorType::of(input.to_vec(), DataType::FLOAT);
        for (value, tensor) in
            graph.constants.iter().map(|(value, tensor)| (*value, tensor)).chain([(graph.input, &input)])
        {
            memory.values[value as usize] = tensor.bytes();
            memory.kept[value as usize] = true;
            tensors[value as usize] = Some(tensor.clone());
        }
        graph.outputs.iter().for_each(|value| memory.kept[*value as usize] = true);
        Ok(Self { graph, tensors, depths: vec![0; graph.values], work: Vec::new(), folding: 0, memory })
    }

    fn visit(&mut self, index: usize, node: &Node) -> AuditResult {
        let shapeless =
            |RuleError(reason)| AuditError::Shape { node: node.name.clone(), operator: node.operator.clone(), reason };
        let refused = |what, actual, limit| refused(node, what, actual, limit);
        let known = |value: &Option<u32>| value.and_then(|value| self.tensors[value as usize].as_ref());
        let inputs: Vec<Option<&TensorType>> = node.inputs.iter().map(known).collect();
        let constant = inputs.iter().flatten().all(|input| input.constant);
        let result = (node.rule)(&NodeCall { node, inputs: &inputs }).map_err(shapeless)?;
        if result.outputs.len() < node.outputs.len() {
            return Err(shapeless(RuleError("it names more outputs than it has")));
        }
        let depths = node.inputs.iter().flatten().map(|value| self.depths[*value as usize]);
        let depth = depths.max().unwrap_or(0) + 1;
        if depth > MAX_DEPTH {
            return Err(refused("ends a chain of nodes whose length is", depth.into(), MAX_DEPTH.into()));
        }
        for (value, tensor) in node.outputs.iter().zip(result.outputs) {
            if tensor.rank() > MAX_RANK {
                return Err(refused(
                    "makes a tensor whose number of dimensions is",
                    tensor.rank() as u64,
                    MAX_RANK as u64,
                ));
            }
            let longest = tensor.shape.iter().copied().max().unwrap_or(1);
            let size = tensor.elements().max(longest);
            if size > MAX_ELEMENTS {
                return Err(refused("makes a tensor whose number of elements is", size, MAX_ELEMENTS));
            }
            // An empty list stands for one that is not given; an engine may divide by what else is empty.
            if size > 0 && tensor.elements() == 0 && tensor.rank() != 1 {
                return Err(shapeless(RuleError("it makes an empty tensor")));
            }
            let Some(value) = value.map(|value| value as usize) else { continue };
            self.memory.values[value] = tensor.bytes();
            self.memory.kept[value] |= constant;
            self.depths[value] = depth;
            self.tensors[value] = Some(TensorType { constant, ..tensor });
        }
        if constant {
            self.folding = self.folding.saturating_add(result.work);
            if self.folding > MAX_FOLDING {
                return Err(refused("brings the multiply-adds on constants to", self.folding, MAX_FOLDING));
            }
        }
        debug_assert_eq!(self.work.len(), index, "one node after the other");
        self.work.push(result.work);
        self.memory.scratch.push(result.scratch);
        Ok(())
    }

    fn finish(self, limit: u64) -> AuditResult<Inference> {
        let Self { graph, tensors, work: each, folding, memory, .. } = self;
        let mut work = 0u64;
        for (node, each) in graph.nodes.iter().zip(each) {
            work = work.saturating_add(each);
            if work > limit {
                return Err(refused(node, "brings the multiply-adds to", work, limit));
            }
        }
        let total = memory.values.iter().copied().fold(0, u64::saturating_add);
        let (live, at) = memory.peak();
        for (what, bytes, limit) in [
            ("brings the bytes of weights and live tensors to", live, MAX_LIVE),
            ("brings the bytes of all tensors together to", total, MAX_TOTAL),
        ] {
            if bytes > limit {
                return Err(match graph.nodes.get(at) {
                    Some(node) => refused(node, what, bytes, limit),
                    None => AuditError::TooMany {
                        what: "bytes of weights",
                        limit: usize::try_from(limit).unwrap_or(usize::MAX),
                    },
                });
            }
        }
        let shape = |value: &u32| tensors[*value as usize].as_ref().map(|tensor| tensor.shape.clone());
        let outputs = graph.outputs.iter().filter_map(shape).collect();
        Ok(Inference { outputs, work, folding, live, total })
    }
}

fn refused(node: &Node, what: &'static str, actual: u64, limit: u64) -> AuditError {
    AuditError::Large { node: node.name.clone(), operator: node.operator.clone(), what, actual, limit }
}
