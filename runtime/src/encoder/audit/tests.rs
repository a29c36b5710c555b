//! Models made from the shipped one by changing single fields.

use std::fs;
use std::path::Path;

use super::*;
use writer::{bytes, integer};

#[path = "../../../tests/bounds/wire.rs"]
mod writer;

fn shipped() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/cifar100-edge/backbone.onnx")).unwrap()
}

/// The model with its graph changed.
fn with_graph(change: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut change = Some(change);
    let mut model = Vec::new();
    for field in WireFields::of(&shipped()) {
        model.extend(match field.unwrap() {
            (7, WireValue::Bytes(graph)) => bytes(7, &(change.take().unwrap())(graph)),
            (field, WireValue::Bytes(content)) => bytes(field, content),
            (field, WireValue::Number(value)) => integer(field, value),
            other => panic!("{other:?}"),
        });
    }
    model
}

/// The model with a field added to its graph.
fn plus(field: &[u8]) -> Vec<u8> {
    with_graph(|graph| [graph, field].concat())
}

/// A node of an operator, with more fields.
fn node_of(operator: &str, more: &[u8]) -> Vec<u8> {
    bytes(1, &[&bytes(3, b"added"), &bytes(4, operator.as_bytes()), more].concat())
}

/// A `Conv` node with one attribute, `pads`, of some fields.
fn node_with(attribute: &[u8]) -> Vec<u8> {
    node_of("Conv", &bytes(5, &[&bytes(1, b"pads"), attribute].concat()))
}

/// A float tensor with sides and more fields, as field `field`.
fn tensor_of(field: u32, sides: &[u64], more: &[u8]) -> Vec<u8> {
    let sides: Vec<u8> = sides.iter().flat_map(|&side| integer(1, side)).collect();
    bytes(field, &[&sides, &integer(2, 1)[..], &bytes(8, b"weight"), more].concat())
}

#[test]
fn the_shipped_backbone_passes() {
    audit(&shipped()).unwrap();
    assert_eq!(with_graph(<[u8]>::to_vec), shipped());
    audit(&plus(&node_of("Relu", &bytes(7, b"ai.onnx")))).unwrap();
    audit(&plus(&tensor_of(5, &[2], &bytes(9, &[0; 8])))).unwrap();
    audit(&plus(&tensor_of(5, &[2], &bytes(4, &[0; 8])))).unwrap();
    audit(&plus(&tensor_of(5, &[], &[&writer::varint(4 << 3 | 5)[..], &[0; 4]].concat()))).unwrap();
}

#[test]
fn what_a_backbone_has_no_need_of_is_refused() {
    let mut trial = orco_trials::trial!(8, "suspicious models");
    let external = bytes(13, &[bytes(1, b"location"), bytes(2, b"/etc/passwd")].concat());
    let inner = bytes(6, &bytes(2, b"inner graph"));
    let side = |value: u64| bytes(2, &bytes(1, &bytes(2, &bytes(1, &integer(1, value)))));
    let cases = [
        ("external", plus(&tensor_of(5, &[2], &external)), "the data of the tensor \"weight\" lie outside the file"),
        (
            "external, by place alone",
            plus(&tensor_of(5, &[2], &[bytes(9, &[0; 8]), integer(14, 1)].concat())),
            "lie outside the file",
        ),
        (
            "external in a constant",
            plus(&node_of("Constant", &bytes(5, &tensor_of(5, &[2], &external)))),
            "lie outside the file",
        ),
        ("sparse", plus(&bytes(15, b"")), "it has sparse tensors"),
        ("sparse constant", plus(&node_of("Constant", &bytes(5, &bytes(22, b"")))), "it has sparse tensors"),
        ("unknown", plus(&node_of("Exec", b"")), "the node \"added\" is of the operator \"Exec\""),
        (
            "a layer that no engine has",
            plus(&node_of("Det", b"")),
            "not on the list of allowed ones; if it comes behind the features, end the model before it",
        ),
        ("an operator of old", plus(&node_of("Upsample", b"")), "onnx.version_converter.convert_version(model, 13)"),
        (
            "random numbers",
            plus(&node_of("RandomUniformLike", b"")),
            "it draws random numbers, as a model does in training: call model.eval()",
        ),
        (
            "images mirrored at random",
            plus(&node_of("ReverseSequence", b"")),
            "such as RandomFlip: export keras.Model(images, model(images, training=False))",
        ),
        (
            "random numbers of TensorFlow",
            plus(&node_of("StatelessRandomUniformV2", b"")),
            "such as RandomFlip: export keras.Model(images, model(images, training=False))",
        ),
        (
            "a part that TensorFlow compiles",
            plus(&node_of("StatefulPartitionedCall", b"")),
            "tf2onnx cannot write it: take another network",
        ),
        (
            "classical learning",
            plus(&node_of("Scaler", &bytes(7, b"ai.onnx.ml"))),
            "as skl2onnx.to_onnx(..., black_op={\"Normalizer\", \"Scaler\"}) does",
        ),
        (
            "classical classification",
            plus(&node_of("LinearClassifier", &bytes(7, b"ai.onnx.ml"))),
            "it classifies: end the model before it (backbone.output)",
        ),
        ("other domain", plus(&node_of("Conv", &bytes(7, b"evil"))), "the operator \"evil.Conv\""),
        (
            "quantised operators",
            plus(&node_of("QLinearAdd", &bytes(7, b"com.microsoft"))),
            "not on the list of allowed ones; quantise the model in QDQ form",
        ),
        (
            "a quantised model that was optimised",
            plus(&node_of("QLinearMul", &bytes(7, b"com.microsoft"))),
            "if it has that form, take the file as it was before ONNX Runtime optimised it",
        ),
        (
            "a convolution that was optimised",
            plus(&node_of("QLinearConv", &bytes(7, b"com.microsoft"))),
            "not on the list of allowed ones; take the file as it was before ONNX Runtime optimised it",
        ),
        (
            "quantised to 4 bits",
            plus(&node_of("DequantizeLinear", &bytes(7, b"com.microsoft"))),
            "not on the list of allowed ones; quantise the model to 8 bits",
        ),
        ("two domains", plus(&node_of("Conv", &[bytes(7, b"evil"), bytes(7, b"")].concat())), "evil.Conv"),
        ("two operators", plus(&node_of("Conv", &bytes(4, b"Loop"))), "the operator \"Loop\""),
        ("no operator", plus(&bytes(1, &bytes(3, b"x"))), "its node cannot be read"),
        ("control flow", plus(&node_of("If", &bytes(5, &inner))), "the node \"added\" carries a graph of its own"),
        (
            "a known condition",
            plus(&node_of("If", &bytes(5, &inner))),
            "with dynamo=True, or write it anew with onnxslim",
        ),
        ("hidden graph", plus(&node_of("Conv", &bytes(5, &bytes(11, b"")))), "carries a graph of its own"),
        ("function", [shipped(), bytes(25, b"")].concat(), "it brings functions"),
        (
            "function and its call",
            [plus(&node_of("Act", &bytes(7, b"pkg.torch"))), bytes(25, b"")].concat(),
            "write functions out (onnx.inliner.inline_local_functions)",
        ),
        ("training", [shipped(), bytes(20, b"")].concat(), "it brings functions or steps of training"),
        ("second graph", [shipped(), bytes(7, b"")].concat(), "its graph cannot be read"),
        ("no graph", integer(1, 8), "its graph cannot be read"),
        ("unknown field", [shipped(), bytes(99, b"")].concat(), "its model has a field 99"),
        ("unknown field of a node", plus(&node_of("Conv", &integer(40, 1))), "its node has a field 40"),
        ("wrong form", [shipped(), integer(7, 1)].concat(), "its model has a field 7"),
        ("huge", plus(&tensor_of(5, &[1 << 40], b"")), "\"weight\" is unreasonably large"),
        ("overflow", plus(&tensor_of(5, &[1 << 20, 1 << 20, 1 << 40], b"")), "is unreasonably large"),
        ("negative side", plus(&tensor_of(5, &[u64::MAX], b"")), "is unreasonably large"),
        ("zero hides", plus(&tensor_of(5, &[0, 1 << 60], b"")), "is unreasonably large"),
        ("too deep", plus(&tensor_of(5, &[1; 9], &bytes(9, &[0; 4]))), "is unreasonably large"),
        ("short", plus(&tensor_of(5, &[3], &bytes(9, &[0; 8]))), "has not as many elements as its shape says"),
        (
            "twice",
            plus(&tensor_of(5, &[2], &[bytes(9, &[0; 8]), bytes(4, &[0; 8])].concat())),
            "has not as many elements",
        ),
        ("texts", plus(&tensor_of(5, &[1], &bytes(6, b"text"))), "holds texts"),
        (
            "int4",
            plus(&tensor_of(5, &[1], &[bytes(9, &[0; 4]), integer(2, 22)].concat())),
            "; quantise the model to int8 or uint8",
        ),
        ("kind", plus(&tensor_of(5, &[1], &[bytes(9, &[0; 4]), integer(2, 77)].concat())), "of an unknown type"),
        ("huge value", plus(&bytes(11, &side(1 << 40))), "is unreasonably large"),
        ("sequence", plus(&bytes(11, &bytes(2, &bytes(4, b"")))), "its types of values has a field 4"),
        ("huge padding", plus(&node_with(&integer(8, 1 << 30))), "the attribute \"pads\" of the node \"added\""),
        ("huge padding, packed", plus(&node_with(&bytes(8, &writer::varint(1 << 30)))), "the attribute \"pads\""),
        ("reference", plus(&node_with(&bytes(21, b"x"))), "the attribute \"pads\""),
        ("ONNX Runtime's own format", [b"\x12\x00\x00\x00ORTM", &shipped()[..]].concat(), "it is no ONNX model"),
        ("rten's own format", b"RTEN and more".to_vec(), "it is no ONNX model"),
        ("nothing", vec![], "its graph cannot be read"),
    ];
    for (what, model, expected) in cases {
        let said = audit(&model).expect_err(what).to_string();
        assert!(said.contains(expected), "{what}: {said}");
        trial.count(1);
    }
    let nodes = node_of("Relu", b"").repeat(MAX_NODES);
    assert_eq!(audit(&plus(&nodes)), Err(AuditError::TooMany { what: "nodes", limit: MAX_NODES }));
}

#[test]
fn a_long_name_is_cut_in_the_sentence() {
    let named = bytes(1, &[bytes(3, "é".repeat(4000).as_bytes()), bytes(4, b"Loop\n\x1b[31m")].concat());
    let said = audit(&plus(&named)).unwrap_err().to_string();
    assert!(said.len() < 400 && !said.contains(['\n', '\x1b']), "{said}");
}

#[test]
fn truncations_and_flipped_bits_neither_panic_nor_pass_as_something_else() {
    let mut trial = orco_trials::trial!(4, "changed models");
    // The front of the file holds the nodes, its end the inputs and outputs; the weights between are not read.
    // What follows the graph may be cut off between two entries of the metadata.
    const METADATA: usize = 2048;
    let model = shipped();
    let passed = (0..model.len() - METADATA).step_by(997).filter(|&length| audit(&model[..length]).is_ok());
    assert_eq!(passed.count(), 0, "a cut file passed");
    let mut changed = model;
    for index in (0..6000).chain(changed.len() - 300..changed.len()) {
        for bit in 0..8 {
            changed[index] ^= 1 << bit;
            let _ = audit(&changed);
            trial.count(1);
            changed[index] ^= 1 << bit;
        }
    }
}

#[cfg(feature = "rten")]
#[test]
fn the_engines_refuse_before_they_look() {
    use crate::encoder::engine_choice::{self, EngineChoice, Workload};
    use crate::encoder::{self, EncodeError};
    use crate::image::{Look, Preprocessing};

    let input = Preprocessing { width: 32, height: 32, mean: [0.5; 3], deviation: [0.5; 3], look: Look::WHOLE };
    let model = plus(&tensor_of(5, &[2], &bytes(13, b"")));
    let refused = |error: Option<EncodeError>| {
        let Some(EncodeError::Refused(error)) = error else { panic!("{error:?}") };
        let said = error.to_string();
        assert!(said.starts_with("the data of the tensor \"weight\""), "{said}");
    };
    refused(engine_choice::open(&model, &input, EngineChoice::Auto, Workload::Shots).err());
    refused(engine_choice::open(&model, &input, EngineChoice::Auto, Workload::Pictures(usize::MAX)).err());
    refused(encoder::rten::Rten::open(&model, &input).err());
    #[cfg(feature = "onnx")]
    refused(encoder::onnx::Onnx::open(&model, &input).err());
}
