//! Small graphs as other exporters write them: what adapting changes, and what it leaves.

use std::time::{Duration, Instant};

use orco_runtime::encoder::EncodeError;
use orco_runtime::encoder::audit::bounds::{Bounds, check_declared};
use orco_runtime::image::{Look, Preprocessing};

use super::super::images::CHANNELS_FIRST;
use super::super::outputs::{declared, is_open};
use super::super::parts::{GraphParts, NodeParts};
use super::super::pooling::{AXES_AS_INPUT, PoolingNodes, has_features_last};
use super::*;
use crate::model::onnx_proto::attribute_type::GRAPH;
use crate::model::onnx_proto::{
    AttributeProto, FLOAT, FLOAT16, NodeProto, OperatorSetProto, TensorProto, int, ints, node, text, whole_numbers,
};

/// A graph of one input of floats with these sides, open where they are 0.
fn graph(sides: [i64; 4]) -> GraphParts {
    let input = vec![ValueInfoProto::of_sides("x", FLOAT, &sides).encode_to_vec()];
    GraphParts { input, ..GraphParts::default() }
}

#[test]
fn images_of_any_size_get_one() {
    for (sides, expected) in [
        ([0, 3, 0, 0], [0, 3, 32, 32]),
        ([0, 0, 0, 0], [0, 3, 32, 32]),
        ([2, 3, 24, 0], [2, 3, 24, 32]),
        ([0, 3, 24, 24], [0, 3, 24, 24]),
    ] {
        let mut fixed = graph(sides);
        assert_eq!(fixed.fix_images(32).unwrap(), sides != expected, "{sides:?}");
        assert_eq!(fixed, graph(expected), "{sides:?}");
    }
}

#[test]
fn inputs_that_nothing_reads_are_left_out() {
    let second = |name: &str| ValueInfoProto { name: name.into(), r#type: None }.encode_to_vec();
    let mut listed = graph([0, 3, 24, 24]);
    let images = listed.input[0].clone();
    listed.input = vec![second("unread"), images.clone(), second("given back")];
    listed.output = vec![second("given back")];
    listed.node = vec![node("Relu", vec!["x".into()], "y", vec![]).encode_to_vec()];
    assert!(listed.drop_unread_inputs().unwrap());
    assert_eq!(listed.input, [images, second("given back")]);
    assert!(!listed.drop_unread_inputs().unwrap());
}

#[test]
fn weights_are_no_inputs() {
    let kernel = TensorProto { dims: vec![5, 3, 8, 8], data_type: FLOAT, name: "w".into(), raw_data: vec![0; 3840] };
    let weights = [kernel, whole_numbers("sides", vec![2], &[1, 45])].map(|one| Bytes::from(one.encode_to_vec()));
    let strides = ints("strides", vec![8, 8]);
    let conv = node("Conv", vec!["x".into(), "w".into()], "map", vec![ints("kernel_shape", vec![8, 8]), strides]);
    let flat = node("Reshape", vec!["map".into(), "sides".into()], "y", vec![]);
    let mut parts = ModelParts::decode(&*model(vec![conv, flat], weights.to_vec())).unwrap();
    parts.ir_version = 3;
    let old = parts.graph.as_mut().unwrap();
    // Of one image, before which a weight stands. Opening the batch replaces the sides.
    old.input = vec![value("w"), graph([1, 3, 24, 24]).input.remove(0), value("sides")];
    let wanted = Adaptation { side: 24, output: None, pool: None };
    let adapted = adapt(parts.encode_to_vec(), wanted).unwrap();
    assert!(adapted.took_one);
    assert_eq!(check_declared(&adapted.model).unwrap().outputs, [[1, 45]]);
    let parts = ModelParts::decode(&*adapted.model).unwrap();
    let inputs = parts.graph.unwrap().input;
    assert_eq!((inputs, parts.ir_version), (graph([0, 3, 24, 24]).input, 4));
}

#[test]
fn maps_with_their_features_last_are_averaged_over_their_places() {
    let map = ValueInfoProto::decode(&*graph([0, 7, 6, 640]).input[0]).unwrap();
    for (is_last, operator, features) in [(true, "ReduceMean", 640), (false, "GlobalAveragePool", 7)] {
        for version in [17, 18] {
            let added = PoolingNodes::of(&map, Pooling::Mean, version, is_last).unwrap();
            assert_eq!(added.nodes[0].op_type, operator);
            assert_eq!(added.output.sizes(), Some(vec![None, Some(features)]), "last: {is_last}, opset {version}");
            assert_eq!(added.constants.len(), usize::from(is_last && version >= AXES_AS_INPUT));
        }
    }
}

#[test]
fn equal_sides_tell_which_axis_of_a_map_has_its_features() {
    let of = |sides: [i64; 3]| has_features_last(&[&[None], &sides.map(Some)[..]].concat());
    assert_eq!((of([7, 7, 640]), of([640, 7, 7]), of([1, 1, 640])), (Some(true), Some(false), Some(true)));
    assert_eq!((of([7, 6, 640]), of([7, 7, 7]), of([7, 640, 7])), (None, None, None));
    assert_eq!((has_features_last(&[None; 4]), has_features_last(&[])), (None, None));
    for (sides, is_square) in [([0, 3, 24, 24], true), ([0, 3, 24, 20], false)] {
        assert_eq!(graph(sides).takes_squares(), is_square);
    }
}

#[test]
fn maps_are_averaged_over_height_and_width_wherever_their_features_are() {
    let patches = ints("strides", vec![8, 8]);
    let kernel = TensorProto { dims: vec![5, 3, 8, 8], data_type: FLOAT, name: "w".into(), raw_data: vec![0; 3840] };
    let conv = node("Conv", vec!["x".into(), "w".into()], "map", vec![ints("kernel_shape", vec![8, 8]), patches]);
    let turned = node("Transpose", vec!["map".into()], "turned", vec![ints("perm", vec![0, 2, 3, 1])]);
    // Nothing but the names of the outputs is declared.
    for nodes in [vec![conv.clone()], vec![conv, turned]] {
        let wanted = Adaptation { side: 24, output: None, pool: Some(Pooling::Mean) };
        let adapted = adapt(model(nodes, vec![kernel.encode_to_vec().into()]), wanted).unwrap().model;
        assert_eq!(check_declared(&adapted).unwrap().outputs, [[1, 5]]);
    }
}

#[test]
fn padding_that_engines_put_on_different_sides_is_written_out() {
    let lower = || text("auto_pad", "SAME_LOWER");
    let kernel = TensorProto { dims: vec![4, 3, 3, 3], data_type: FLOAT, name: "w".into(), raw_data: vec![0; 432] };
    let strides = || ints("strides", vec![2, 2]);
    let conv = node("Conv", vec!["x".into(), "w".into()], "a", vec![lower(), strides()]);
    let even = node("MaxPool", vec!["a".into()], "b", vec![ints("kernel_shape", vec![3, 3]), lower()]);
    let odd = node("MaxPool", vec!["b".into()], "c", vec![ints("kernel_shape", vec![3, 2]), lower(), strides()]);
    let wanted = Adaptation { side: 24, output: None, pool: Some(Pooling::Mean) };
    let adapted = adapt(model(vec![conv, even, odd], vec![kernel.encode_to_vec().into()]), wanted).unwrap().model;
    assert_eq!(check_declared(&adapted).unwrap().outputs, [[1, 4]]);
    let nodes = ModelParts::decode(&*adapted).unwrap().graph.unwrap().nodes().unwrap();
    let pads = |at: usize| nodes[at].named("pads").map(|own| own.ints.clone());
    assert_eq!([pads(0), pads(1), pads(2)], [Some(vec![1, 1, 0, 0]), None, Some(vec![1, 0, 0, 0])]);
    let automatic = [0, 1, 2].map(|at| nodes[at].named("auto_pad").is_some());
    assert_eq!(automatic, [false, true, false]);
}

/// As PyTorch's older exporter writes `padding="same"`; ONNX Runtime refuses it.
#[test]
fn padding_of_dilated_convolutions_is_written_out() {
    let kernel = TensorProto { dims: vec![4, 3, 3, 3], data_type: FLOAT, name: "w".into(), raw_data: vec![0; 432] };
    let settings = vec![text("auto_pad", "SAME_UPPER"), ints("dilations", vec![2, 3])];
    let conv = node("Conv", vec!["x".into(), "w".into()], "a", settings);
    let wanted = Adaptation { side: 24, output: None, pool: Some(Pooling::Mean) };
    let adapted = adapt(model(vec![conv], vec![kernel.encode_to_vec().into()]), wanted).unwrap().model;
    assert_eq!(check_declared(&adapted).unwrap().outputs, [[1, 4]]);
    let nodes = ModelParts::decode(&*adapted).unwrap().graph.unwrap().nodes().unwrap();
    assert_eq!(nodes[0].named("pads").map(|own| &own.ints[..]), Some(&[2, 3, 2, 3][..]));
    assert_eq!(nodes[0].named("auto_pad"), None);
}

#[test]
fn a_model_ends_before_a_head_that_engines_lack() {
    let inner = 3 * 24 * 24;
    let raw_data = vec![0; 2 * 4 * inner as usize];
    let weight = TensorProto { dims: vec![inner, 2], data_type: FLOAT, name: "w".into(), raw_data };
    let flat = node("Flatten", vec!["x".into()], "features", vec![]);
    let head = node("MatMul", vec!["features".into(), "w".into()], "logits", vec![]);
    let best = node("TopK", vec!["logits".into(), "k".into()], "class", vec![]);
    let weights = [weight, whole_numbers("k", vec![1], &[1])].map(|one| Bytes::from(one.encode_to_vec()));
    let classifier = model(vec![flat, head, best], weights.to_vec());
    let wanted = Adaptation { side: 24, output: Some("features"), pool: None };
    let adapted = adapt(classifier.clone(), wanted).unwrap().model;
    assert_eq!(check_declared(&adapted).unwrap().outputs, [[1, inner as u64]]);
    assert!(adapted.len() < 1000, "its head was left in: {} bytes", adapted.len());
    let error = adapt(classifier, Adaptation { output: Some("class2"), ..wanted }).err().unwrap();
    assert!(error.contains("\"class\", its last values \"features\", \"logits\", \"class\""), "{error}");
}

#[test]
fn control_flow_behind_the_features_is_left_out() {
    let flat = node("Flatten", vec!["x".into()], "features", vec![]);
    let chosen = node("If", vec!["features".into()], "class", vec![]);
    let mut parts = ModelParts::decode(&*model(vec![flat, chosen], vec![])).unwrap();
    let graph = parts.graph.as_mut().unwrap();
    let branch = AttributeProto { name: "then_branch".into(), r#type: GRAPH, ..AttributeProto::default() };
    // Field 6: an empty graph.
    let branch = [branch.encode_to_vec(), vec![0x32, 0]].concat();
    let mut choice = NodeParts::decode(&*graph.node[1]).unwrap();
    choice.attribute.push(branch);
    graph.node[1] = choice.encode_to_vec();
    let classifier = parts.encode_to_vec();
    assert!(matches!(audit_layers(&classifier), Err(AuditError::Subgraph { .. })));
    let wanted = Adaptation { side: 24, output: Some("features"), pool: None };
    let adapted = adapt(classifier.clone(), wanted).unwrap().model;
    assert_eq!(check_declared(&adapted).unwrap().outputs, [[1, 3 * 24 * 24]]);
    let whole = adapt(classifier.clone(), Adaptation { output: None, ..wanted }).unwrap().model;
    assert_eq!(whole, classifier, "before the features it stays, and is refused later");
}

#[test]
fn an_output_without_a_type_gets_the_inferred_one() {
    let cut = node("Flatten", vec!["x".into()], "y", vec![]);
    let wanted = Adaptation { side: 24, output: Some("y"), pool: None };
    let adapted = adapt(model(vec![cut], vec![]), wanted).unwrap().model;
    let graph = ModelParts::decode(&*adapted).unwrap().graph.unwrap();
    let output = ValueInfoProto::decode(&*graph.output[0]).unwrap();
    assert_eq!((&*output.name, output.sizes()), ("y", Some(vec![None, Some(3 * 24 * 24)])));
    let whole = declared("y".into(), &[1, 8]);
    assert!(!is_open(&whole) && is_open(&ValueInfoProto { name: "y".into(), r#type: None }));
    let mut map = declared("y".into(), &[1, 8, 7, 7]);
    assert!(!is_open(&map));
    let shape = map.r#type.as_mut().and_then(|kind| kind.tensor_type.as_mut()).and_then(|kind| kind.shape.as_mut());
    shape.unwrap().dim[3].dim_value = None;
    assert!(is_open(&map));
}

#[test]
fn channels_that_come_last_are_put_first() {
    for (sides, expected) in [([0, 24, 20, 3], [0, 3, 24, 20]), ([0, 0, 0, 3], [0, 3, 0, 0])] {
        let mut turned = graph(sides);
        assert!(turned.put_channels_first().unwrap());
        let input = ValueInfoProto::decode(&*turned.input[0]).unwrap();
        let transposition = NodeProto::decode(&*turned.node[0]).unwrap();
        assert_eq!((&*input.name, &*transposition.input[0]), (CHANNELS_FIRST, CHANNELS_FIRST));
        assert_eq!((&*transposition.op_type, &*transposition.output[0]), ("Transpose", "x"));
        assert_eq!(input.sizes(), Some(expected.map(|side| (side > 0).then_some(side)).to_vec()));
    }
    for sides in [[0, 3, 24, 20], [0, 3, 24, 3], [0, 0, 0, 0]] {
        let mut kept = graph(sides);
        assert!(!kept.put_channels_first().unwrap(), "{sides:?}");
        assert_eq!(kept, graph(sides));
    }
    let weight = TensorProto { name: "x".into(), ..TensorProto::default() }.encode_to_vec();
    let mut listed = GraphParts { initializer: vec![weight.into()], ..graph([8, 16, 3, 3]) };
    assert!(!listed.put_channels_first().unwrap(), "a weight among the inputs");
}

/// A model of images whose nodes have one of these names for their outputs each.
fn model(nodes: Vec<NodeProto>, initializer: Vec<Bytes>) -> Vec<u8> {
    let graph = GraphParts {
        output: nodes.last().map(|node| value(&node.output[0])).into_iter().collect(),
        node: nodes.iter().map(Message::encode_to_vec).collect(),
        initializer,
        ..graph([0, 3, 24, 24])
    };
    let opset_import = vec![OperatorSetProto { domain: String::new(), version: 23 }];
    ModelParts { ir_version: 10, opset_import, graph: Some(graph), ..ModelParts::default() }.encode_to_vec()
}

fn value(name: &str) -> Vec<u8> {
    ValueInfoProto { name: name.into(), r#type: None }.encode_to_vec()
}

#[test]
fn hostile_files_are_adapted_in_proportion_to_their_size() {
    let chain = |operator: &str, attributes: &[AttributeProto], inputs: usize| {
        let of = |turn: usize| if turn == 0 { "x".to_owned() } else { format!("{turn}") };
        let nodes = (0..5_000).map(|turn| node(operator, vec![of(turn); inputs], &of(turn + 1), attributes.to_vec()));
        model(nodes.collect(), vec![])
    };
    let in_front = [text("auto_pad", "SAME_LOWER"), ints("kernel_shape", vec![2, 2]), ints("strides", vec![1, 1])];
    let window = |side| [int("ceil_mode", 1), ints("kernel_shape", vec![side; 2]), ints("strides", vec![side; 2])];
    // A tensor of half precision that claims more numbers than it has, behind an operator that ends the walk of the
    // audit.
    let claim = TensorProto { dims: vec![1 << 20, 1 << 8], data_type: FLOAT16, name: "w".into(), raw_data: vec![0; 2] };
    let reads = node("Attention", vec!["x".into(), "w".into(), "w".into()], "y", vec![]);
    for (what, model, is_changed) in [
        ("attention", chain("Attention", &[], 3), true),
        (
            "attention of many heads",
            chain("Attention", &[int("q_num_heads", i64::MAX), int("kv_num_heads", i64::MAX)], 3),
            true,
        ),
        ("norms over any axes", chain("RMSNormalization", &[int("axis", i64::MIN)], 2), false),
        ("windows of one place", chain("AveragePool", &window(24), 1), true),
        ("windows beyond their map", chain("AveragePool", &window(4_000), 1), true),
        ("windows padded in front", chain("MaxPool", &in_front, 1), false),
        ("claims", model(vec![reads], vec![claim.encode_to_vec().into()]), true),
    ] {
        let started = Instant::now();
        let wanted = Adaptation { side: 24, output: None, pool: None };
        let adapted = adapt(model.clone(), wanted).unwrap().model;
        assert_eq!(adapted != model, is_changed, "{what}");
        assert!(adapted.len() < 32 * model.len(), "{what}: {} of {}", adapted.len(), model.len());
        assert!(started.elapsed() < Duration::from_secs(10), "{what}: {:?}", started.elapsed());
        let opened = Bounds::of(&adapted, &input());
        assert!(matches!(opened, Err(EncodeError::Refused(_))), "{what}: {:?}", opened.err());
    }
}

fn input() -> Preprocessing {
    Preprocessing { width: 24, height: 24, mean: [0.5; 3], deviation: [0.5; 3], look: Look::WHOLE }
}
