//! Infers the shape of every tensor of a graph for an input of a given shape, and sums up the cost of the graph;
//! refuses what exceeds [`super::limits`]. Nothing is computed but short lists: of integers, which become shapes, and,
//! before constants are folded, of the floats ([`floats`]) that exporters compute such integers of.

use super::call::{NodeCall, RuleError};
use super::floats;
use super::graph::{Graph, Node};
use super::limits::{MAX_DEPTH, MAX_FOLDING, MAX_LIVE, MAX_TOTAL, MAX_WORK, MAX_WORK_OF_CALL};
use super::memory::LiveMemory;
use super::tensor::{DataType, TensorType};
use super::{AuditError, AuditResult, MAX_ELEMENTS, MAX_RANK};

/// The output shapes of a graph for an input, and what computing them costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inference {
    /// Shapes of the outputs.
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

/// Infers for an input of floats with this shape, whose first axis counts pictures.
///
/// # Errors
/// [`AuditError`] names the node whose shape cannot be inferred, or that exceeds a limit.
pub fn infer(graph: &Graph, input: &[u64]) -> AuditResult<Inference> {
    infer_with(graph, input, false)
}

/// Infers as [`infer`] does, before constants are folded: what depends on these alone is computed on the workstation by
/// ONNX Runtime, and need not be computed alike by every engine.
///
/// # Errors
/// As [`infer`].
#[cfg(feature = "onnx")]
pub fn infer_before_folding(graph: &Graph, input: &[u64]) -> AuditResult<Inference> {
    infer_with(graph, input, true)
}

/// What is known of every value for an input, before constants are folded. No sum of the graph is compared with its
/// limit: [`infer_before_folding`] does that.
///
/// # Errors
/// As [`infer`], without the sums.
#[cfg(feature = "onnx")]
pub fn infer_types_before_folding(graph: &Graph, input: &[u64]) -> AuditResult<Vec<Option<TensorType>>> {
    let mut walk = InferenceWalk::new(graph, input, true);
    graph.nodes.iter().try_for_each(|node| walk.visit(node))?;
    Ok(walk.tensors)
}

fn infer_with(graph: &Graph, input: &[u64], folds: bool) -> AuditResult<Inference> {
    let mut walk = InferenceWalk::new(graph, input, folds);
    graph.nodes.iter().try_for_each(|node| walk.visit(node))?;
    let pictures = input.first().copied().unwrap_or(1).max(1);
    walk.finish(MAX_WORK.saturating_mul(pictures).min(MAX_WORK_OF_CALL))
}

/// Shape inference from the first node to the last.
struct InferenceWalk<'a> {
    graph: &'a Graph,
    /// Whether nodes that depend on constants alone go before an engine runs the model.
    folds: bool,
    tensors: Vec<Option<TensorType>>,
    /// Nodes on the longest path from an input or a constant to every value.
    depths: Vec<u32>,
    /// Work of every node so far.
    work: Vec<u64>,
    folding: u64,
    memory: LiveMemory<'a>,
}

impl<'a> InferenceWalk<'a> {
    fn new(graph: &'a Graph, input: &[u64], folds: bool) -> Self {
        let mut tensors = vec![None; graph.values];
        let mut memory = LiveMemory {
            graph,
            values: vec![0; graph.values],
            permanent: vec![false; graph.values],
            scratch: Vec::new(),
        };
        let input = TensorType::of(input.to_vec(), DataType::FLOAT);
        for (value, tensor) in
            graph.constants.iter().map(|(value, tensor)| (*value, tensor)).chain([(graph.input, &input)])
        {
            memory.values[value as usize] = tensor.bytes();
            memory.permanent[value as usize] = true;
            tensors[value as usize] = Some(tensor.clone());
        }
        graph.outputs.iter().for_each(|value| memory.permanent[*value as usize] = true);
        Self { graph, folds, tensors, depths: vec![0; graph.values], work: Vec::new(), folding: 0, memory }
    }

    /// Infers the outputs of the next node.
    fn visit(&mut self, node: &Node) -> AuditResult {
        let known = |value: &Option<u32>| value.and_then(|value| self.tensors[value as usize].as_ref());
        let inputs: Vec<Option<&TensorType>> = node.inputs.iter().map(known).collect();
        let constant = inputs.iter().flatten().all(|input| input.constant);
        let call = NodeCall { node, inputs: &inputs, folds: self.folds };
        let mut result = (node.rule)(&call).map_err(|error| no_shape(node, error))?;
        if self.folds {
            result.outputs = result.outputs.into_iter().map(|output| floats::follow(&call, output)).collect();
        }
        if result.outputs.len() < node.outputs.len() {
            return Err(no_shape(node, RuleError("it names more outputs than it has")));
        }
        let depths = node.inputs.iter().flatten().map(|value| self.depths[*value as usize]);
        let depth = depths.max().unwrap_or(0) + 1;
        if depth > MAX_DEPTH {
            return Err(too_large(node, "ends a chain of nodes whose length is", depth.into(), MAX_DEPTH.into()));
        }
        for (value, tensor) in node.outputs.iter().zip(result.outputs) {
            check_output(node, &tensor)?;
            let Some(value) = value.map(|value| value as usize) else { continue };
            self.memory.values[value] = tensor.bytes();
            self.memory.permanent[value] |= constant;
            self.depths[value] = depth;
            self.tensors[value] = Some(TensorType { constant, ..tensor });
        }
        if constant {
            self.folding = self.folding.saturating_add(result.work);
            if self.folding > MAX_FOLDING {
                return Err(too_large(node, "brings the multiply-adds on constants to", self.folding, MAX_FOLDING));
            }
        }
        self.work.push(result.work);
        self.memory.scratch.push(result.scratch);
        Ok(())
    }

    fn finish(self, limit: u64) -> AuditResult<Inference> {
        let Self { graph, tensors, work: works, folding, memory, .. } = self;
        let mut work = 0u64;
        for (node, node_work) in graph.nodes.iter().zip(works) {
            work = work.saturating_add(node_work);
            if work > limit {
                return Err(too_large(node, "brings the multiply-adds to", work, limit));
            }
        }
        let total = memory.values.iter().copied().fold(0, u64::saturating_add);
        let peak = memory.peak();
        for (what, bytes, limit) in [
            ("brings the bytes of weights and live tensors to", peak.bytes, MAX_LIVE),
            ("brings the bytes of all tensors together to", total, MAX_TOTAL),
        ] {
            if bytes > limit {
                return Err(match graph.nodes.get(peak.node) {
                    Some(node) => too_large(node, what, bytes, limit),
                    None => AuditError::TooMany {
                        what: "bytes of weights",
                        limit: usize::try_from(limit).unwrap_or(usize::MAX),
                    },
                });
            }
        }
        let shape = |value: &u32| tensors[*value as usize].as_ref().map(|tensor| tensor.shape.clone());
        let outputs = graph.outputs.iter().filter_map(shape).collect();
        Ok(Inference { outputs, work, folding, live: peak.bytes, total })
    }
}

/// Checks the type of a node's output against the limits of a tensor.
fn check_output(node: &Node, tensor: &TensorType) -> AuditResult {
    let (rank, elements) = (tensor.rank(), tensor.elements());
    if rank > MAX_RANK {
        return Err(too_large(node, "makes a tensor whose number of dimensions is", rank as u64, MAX_RANK as u64));
    }
    let longest = tensor.shape.iter().copied().max().unwrap_or(1);
    let size = elements.max(longest);
    if size > MAX_ELEMENTS {
        return Err(too_large(node, "makes a tensor whose number of elements is", size, MAX_ELEMENTS));
    }
    // An empty list stands for one that is not given; by what else is empty an engine may divide.
    if size > 0 && elements == 0 && rank != 1 {
        return Err(no_shape(node, RuleError("it makes an empty tensor")));
    }
    Ok(())
}

/// A node whose output shape cannot be inferred.
fn no_shape(node: &Node, RuleError(reason): RuleError) -> AuditError {
    AuditError::Shape { node: node.name.clone(), operator: node.operator.clone(), reason }
}

/// A node that exceeds a limit.
fn too_large(node: &Node, what: &'static str, actual: u64, limit: u64) -> AuditError {
    AuditError::Large { node: node.name.clone(), operator: node.operator.clone(), what, actual, limit }
}
