//! Small graphs for one image: those that become graphs for any number, and those that stay as they are.

use prost::Message;
use prost::bytes::Bytes;

use super::super::parts::{AttributeParts, GraphParts, ModelParts, NodeParts, NumberTensor};
use super::opened_graph::BATCH;
use crate::model::onnx_proto::{
    FLOAT, INT64, NodeProto, OperatorSetProto, TensorProto, ValueInfoProto, int, ints, list_of_whole_numbers, node,
    whole_numbers,
};

fn value(name: &str, sides: &[i64]) -> ValueInfoProto {
    ValueInfoProto::of_sides(name, FLOAT, sides)
}

/// A node without settings.
pub(super) fn of(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
    node(operator, inputs.iter().map(|&name| name.into()).collect(), output, vec![])
}

/// The model around a graph.
fn model() -> ModelParts {
    let opset_import = vec![OperatorSetProto { domain: String::new(), version: 18 }];
    ModelParts { ir_version: 8, opset_import, ..ModelParts::default() }
}

/// A graph of images of 3 x 8 x 8 numbers, with two lists of sides.
fn graph(batch: i64, nodes: &[NodeProto]) -> GraphParts {
    let lists = [whole_numbers("row", vec![2], &[1, -1]), whole_numbers("rows", vec![2], &[2, -1])];
    let weight = TensorProto { dims: vec![4, 5], data_type: FLOAT, name: "w".into(), raw_data: vec![0; 80] };
    GraphParts {
        node: nodes.iter().map(Message::encode_to_vec).collect(),
        initializer: lists.into_iter().chain([weight]).map(|one| one.encode_to_vec().into()).collect(),
        input: vec![value("x", &[batch, 3, 8, 8]).encode_to_vec()],
        output: vec![value("y", &[batch, 192]).encode_to_vec()],
        value_info: vec![value("a", &[batch, 3, 8, 8]).encode_to_vec()],
        ..GraphParts::default()
    }
}

#[test]
fn a_batch_of_one_becomes_a_batch_of_any_size() {
    // As PyTorch's newer exporter writes it.
    let reshaping = node("Reshape", vec!["a".into(), "row".into()], "y", vec![int("allowzero", 1)]);
    let before = [of("Relu", &["x"], "a"), of("Reshape", &["w", "row"], "b"), reshaping];
    let mut opened = graph(1, &before);
    assert!(opened.open_batch(&model()).unwrap());
    assert_eq!(opened.input, [value("x", &[0, 3, 8, 8]).encode_to_vec()]);
    assert_eq!((&opened.output[..], opened.value_info.len()), (&[value("y", &[0, 192]).encode_to_vec()][..], 0));
    let after = opened.nodes().unwrap();
    assert_eq!(after[..2], before[..2], "what does not come from the images stays");
    assert_eq!(after[2].input, ["a", "orco.batch.y.sides"]);
    assert_eq!((after.len(), &after[2].attribute), (3, &before[2].attribute));
    assert_eq!(last_constant(&opened), list_of_whole_numbers("orco.batch.y.sides", &[-1, 192]));
    assert!(!opened.open_batch(&model()).unwrap(), "a second time");
}

fn last_constant(graph: &GraphParts) -> TensorProto {
    TensorProto::decode(&graph.initializer.last().unwrap()[..]).unwrap()
}

/// A constant of zeros.
fn zeros(name: &str, dims: &[i64]) -> Bytes {
    let raw_data = vec![0; 4 * dims.iter().product::<i64>() as usize];
    TensorProto { dims: dims.to_vec(), data_type: FLOAT, name: name.into(), raw_data }.encode_to_vec().into()
}

#[test]
fn every_image_gets_the_class_token() {
    let joined = || node("Concat", vec!["made".into(), "a".into()], "y", vec![int("axis", 1)]);
    // As exporters write it, a row that is repeated, and one that positions were added to.
    for (dims, made) in [
        (&[1, 1, 8, 8][..], of("Expand", &["token", "ones"], "made")),
        (&[8], of("Expand", &["token", "ones"], "made")),
        (&[1, 1, 8, 8], of("Add", &["token", "token"], "made")),
    ] {
        let mut opened = graph(1, &[made.clone(), of("Relu", &["x"], "a"), joined()]);
        opened.initializer.push(zeros("token", dims));
        opened.initializer.push(whole_numbers("ones", vec![4], &[1, 1, 8, 8]).encode_to_vec().into());
        assert!(opened.open_batch(&model()).unwrap());
        let nodes = opened.nodes().unwrap();
        let operators: Vec<&str> = nodes.iter().map(|node| node.op_type.as_str()).collect();
        assert_eq!(operators, ["Shape", "Gather", made.op_type.as_str(), "Relu", "Concat", "Tile", "Concat"]);
        assert_eq!(nodes[1].output, nodes[4].input[..1], "the number of images");
        assert_eq!((&nodes[5].input[0], &nodes[5].input[1]), (&"made".to_owned(), &nodes[4].output[0]));
        assert_eq!((&nodes[6].input[0], &nodes[6].input[1]), (&nodes[5].output[0], &"a".to_owned()));
        let added = opened.initializer[5..].iter().map(|bytes| TensorProto::decode(&bytes[..]).unwrap());
        let expected = [
            list_of_whole_numbers("orco.batch.y.0.repeats.after", &[1, 1, 1]),
            list_of_whole_numbers("orco.batch.first", &[0]),
        ];
        assert_eq!(added.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn windows_of_every_image_get_the_mask() {
    let windows = || Bytes::from(list_of_whole_numbers("windows", &[12, 4, 4]).encode_to_vec());
    // Twelve windows of an image, of 4 x 4 numbers, and as many masks.
    let nodes =
        [of("Reshape", &["x", "windows"], "a"), of("Add", &["a", "mask"], "b"), of("Reshape", &["b", "row"], "y")];
    let mut opened = graph(1, &nodes);
    opened.initializer.extend([zeros("mask", &[12, 4, 4]), windows()]);
    assert!(opened.open_batch(&model()).unwrap());
    let after = opened.nodes().unwrap();
    let operators: Vec<&str> = after.iter().map(|node| node.op_type.as_str()).collect();
    assert_eq!(operators, ["Shape", "Gather", "Reshape", "Concat", "Tile", "Add", "Reshape"]);
    assert_eq!(after[4].input, ["mask", "orco.batch.b.1.repeats"]);
    assert_eq!(after[5].input, ["a", "orco.batch.b.1"]);
    let sides = TensorProto::decode(&opened.initializer[5][..]).unwrap();
    assert_eq!(sides, list_of_whole_numbers("orco.batch.a.sides", &[-1, 4, 4]));
    // A mask that all windows share is broadcast.
    let mut shared = graph(1, &nodes);
    shared.initializer.extend([zeros("mask", &[1, 4, 4]), windows()]);
    assert!(shared.open_batch(&model()).unwrap());
    assert_eq!(shared.nodes().unwrap()[1], nodes[1]);
}

#[test]
fn maps_are_resized_for_every_image() {
    let mut opened = graph(1, &[of("Resize", &["x", "", "", "sizes"], "y")]);
    opened.initializer.push(list_of_whole_numbers("sizes", &[1, 3, 4, 4]).encode_to_vec().into());
    assert!(opened.open_batch(&model()).unwrap());
    let after = opened.nodes().unwrap();
    assert_eq!(after[2].input, [BATCH, "orco.batch.y.sides.after"]);
    assert_eq!(after[3].input, ["x", "", "", "orco.batch.y.sides"]);
}

/// A shape `[1, 1, 192]` for one image does not say which axis counts images, and which tokens.
#[test]
fn images_lie_where_nothing_is_taken_out() {
    let taken = node("Gather", vec!["a".into(), "first".into()], "y", vec![int("axis", 0)]);
    let mut opened = graph(1, &[of("Reshape", &["x", "token"], "a"), taken]);
    opened.initializer.push(list_of_whole_numbers("token", &[1, 1, 192]).encode_to_vec().into());
    opened.initializer.push(whole_numbers("first", vec![], &[0]).encode_to_vec().into());
    assert!(opened.open_batch(&model()).unwrap());
    let after = opened.nodes().unwrap();
    assert_eq!((after[1].op_type.as_str(), &after[2].input[0]), ("Reshape", &after[1].output[0]));
    assert_eq!(last_constant(&opened), list_of_whole_numbers("orco.batch.y.moved.sides", &[1, -1, 192]));
}

/// As PyTorch's newer exporter writes a mean over maps with their channels last.
#[test]
fn gathering_all_in_their_order_is_reshaping() {
    let flat: Vec<i64> = (0..192).collect();
    let mut opened = graph(1, &[of("Reshape", &["x", "all"], "a"), of("Gather", &["a", "order"], "y")]);
    opened.initializer.push(whole_numbers("all", vec![1], &[-1]).encode_to_vec().into());
    opened.initializer.push(whole_numbers("order", vec![1, 192], &flat).encode_to_vec().into());
    assert!(opened.open_batch(&model()).unwrap());
    let after = opened.nodes().unwrap();
    assert_eq!((&*after[1].op_type, &*after[1].input[1]), ("Reshape", "orco.batch.y.sides"));
    assert_eq!(last_constant(&opened), list_of_whole_numbers("orco.batch.y.sides", &[-1, 192]));
}

#[test]
fn constants_of_nodes_are_read() {
    let mut constant = NodeParts::decode(&*of("Constant", &[], "shape").encode_to_vec()).unwrap();
    // Numbers in either form.
    let numbers =
        NumberTensor { dims: vec![3], data_type: INT64, int64_data: vec![1, 64, 3], ..NumberTensor::default() };
    let value = AttributeParts {
        name: "value".into(),
        t: Some(numbers.encode_to_vec()),
        r#type: 4,
        ..AttributeParts::default()
    };
    constant.attribute.push(value.encode_to_vec());
    let mut opened = graph(1, &[of("Identity", &["x"], "a"), of("Reshape", &["a", "shape"], "y")]);
    opened.node.insert(0, constant.encode_to_vec());
    let lists = opened.lists(&opened.nodes().unwrap()).unwrap();
    assert_eq!(lists["shape"], [1, 64, 3]);
    assert!(opened.open_batch(&model()).unwrap());
    assert_eq!(last_constant(&opened), list_of_whole_numbers("orco.batch.y.sides", &[-1, 64, 3]));
}

#[test]
fn other_batches_and_shapes_stay() {
    for batch in [0, 2] {
        let mut kept = graph(batch, &[of("Reshape", &["x", "row"], "y")]);
        assert!(!kept.open_batch(&model()).unwrap(), "{batch}");
        assert_eq!(kept, graph(batch, &[of("Reshape", &["x", "row"], "y")]));
    }
    // The first would shrink all images to one, the second make one long row of them.
    let resized = node("Resize", ["x", "", "", "sizes"].map(str::to_owned).to_vec(), "y", vec![ints("axes", vec![0])]);
    let taken = node("Gather", vec!["x".into(), "first".into()], "a", vec![int("axis", 0)]);
    for nodes in [&[resized][..], &[taken, of("Reshape", &["a", "row"], "y")]] {
        let mut mixed = graph(1, nodes);
        mixed.initializer.push(whole_numbers("sizes", vec![1], &[1]).encode_to_vec().into());
        mixed.initializer.push(whole_numbers("first", vec![], &[0]).encode_to_vec().into());
        assert!(!mixed.open_batch(&model()).unwrap(), "{nodes:?}");
    }
    // An image may have two rows.
    let mut rows = graph(1, &[of("Reshape", &["x", "rows"], "y")]);
    assert!(rows.open_batch(&model()).unwrap());
    assert_eq!(last_constant(&rows), list_of_whole_numbers("orco.batch.y.sides", &[-1, 96]));
    // A list that takes what is left, and one that an image cannot have.
    for kept in [of("Reshape", &["x", "rows"], "y"), of("Expand", &["x", "row"], "y")] {
        let mut opened = graph(1, std::slice::from_ref(&kept));
        opened.initializer[1] = whole_numbers("rows", vec![2], &[-1, 96]).encode_to_vec().into();
        assert!(opened.open_batch(&model()).unwrap());
        assert_eq!(opened.nodes().unwrap(), [kept]);
    }
}
