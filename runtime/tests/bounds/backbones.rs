//! Real backbones pass, with room.

use std::fs;
use std::path::{Path, PathBuf};

use ndarray::Array4;
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::audit::bounds::{Bounds, Inference};
use orco_runtime::encoder::audit::limits::{MAX_FOLDING, MAX_LIVE, MAX_TOTAL, MAX_WORK, MAX_WORK_OF_CALL};
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::encoder::rten::Rten;
use orco_runtime::encoder::{EncodeError, Encoder, batch_size};

use crate::input;
use crate::model::{Int, Ints, Model};

fn in_checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Whether what one picture and a batch cost stays so many times below the limits.
fn check(name: &str, bounds: &Bounds, [batch, side]: [usize; 2], room: u64) {
    for pictures in [1, batch] {
        let told = bounds.infer(&[pictures, 3, side, side]).unwrap();
        println!("{name}, {pictures} of {side} x {side}: {told:?}");
        let Inference { work, folding, live, total, .. } = told;
        assert!(work * room <= (MAX_WORK * pictures as u64).min(MAX_WORK_OF_CALL), "{name}");
        assert!(live * room <= MAX_LIVE && total * room <= MAX_TOTAL && folding * room <= MAX_FOLDING, "{name}");
    }
}

/// Compares the sides that were inferred with those that engines give.
fn compare(name: &str, model: &[u8], side: u32) {
    let input = input(side);
    let bounds = Bounds::of(model, &input).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    check(name, &bounds, [batch_size(&input), side as usize], 2);
    let images = Array4::from_elem((2, 3, side as usize, side as usize), 0.5);
    let inferred = bounds.infer(images.shape()).unwrap();
    let given = |encoder: &mut dyn Encoder| encoder.encode(images.view()).unwrap().dim();
    let expected = (inferred.outputs[0][0] as usize, inferred.outputs[0][1..].iter().product::<u64>() as usize);
    assert_eq!(given(&mut Rten::open(model, &input).unwrap()), expected, "{name}");
    match Onnx::open(model, &input) {
        Err(EncodeError::Start(reason)) => orco_trials::skipped(&format!("ONNX Runtime ({reason})")),
        onnx => assert_eq!(given(&mut onnx.unwrap()), expected, "{name}"),
    }
}

#[test]
fn released_backbones_pass() {
    let mut count = 0;
    for folder in fs::read_dir(in_checkout("models")).unwrap() {
        let folder = folder.unwrap().path();
        let Ok(bundle) = Bundle::open(&folder) else { continue };
        let side = bundle.manifest.preprocessing.width;
        compare(&folder.display().to_string(), &bundle.backbone, side);
        if let Ok(int8) = bundle.with_int8() {
            compare(&format!("{}, int8", folder.display()), &int8.backbone, side);
        }
        count += 1;
    }
    assert!(count >= 5, "{count} bundles");
}

#[test]
fn what_pytorch_exports_passes() {
    for name in ["padded-by-size-dynamo", "padded-by-layer-dynamo"] {
        compare(name, &fs::read(in_checkout(&format!("tests/fixtures/backbones/{name}.onnx"))).unwrap(), 30);
    }
}

/// The first two axes become one, whose length is their product, as tf2onnx writes the attention of Keras.
fn joined_by_product() -> Model {
    let mut model = Model::new();
    model.list("joined", &[0, 1]).list("open", &[-1]).list("apart", &[-1, 3, 64]);
    model.node("Shape", &["x"], "sides", &[]).node("Gather", &["sides", "joined"], "lengths", &[]);
    model.node("ReduceProd", &["lengths"], "rows", &[Int("keepdims", 1)]);
    model.node("Concat", &["rows", "open"], "shape", &[Int("axis", 0)]);
    model.node("Reshape", &["x", "shape"], "r", &[]).node("Reshape", &["r", "apart"], "a", &[]);
    model.node("ReduceMean", &["a"], "y", &[Ints("axes", &[2]), Int("keepdims", 0)]);
    model
}

#[test]
fn a_product_of_lengths_may_become_a_shape() {
    compare("lengths multiplied", &joined_by_product().encode(), 8);
}

/// ViT-L/14, whose layers share their weights so that the file stays small; its class token is left out.
fn vit(side: i64) -> Model {
    let (width, heads, tokens) = (1024, 16, (side / 14) * (side / 14));
    let mut model = Model::new();
    model.input = vec![-1, 3, side, side];
    model.halves("patch half", &[width, 3, 14, 14]).node("Cast", &["patch half"], "patch", &[Int("to", 1)]);
    model.node("Conv", &["x", "patch"], "c", &[Ints("strides", &[14, 14])]);
    model.list("tokens", &[0, width, tokens]).node("Reshape", &["c", "tokens"], "t", &[]);
    model.node("Transpose", &["t"], "l0", &[Ints("perm", &[0, 2, 1])]);
    model.list("heads", &[0, 0, heads, width / heads]).list("joined", &[0, 0, width]).floats("g", &[width]);
    for (name, sides) in [("q", [width, width]), ("up", [width, 4 * width]), ("down", [4 * width, width])] {
        model.halves(&format!("{name} half"), &sides);
        model.node("Cast", &[&format!("{name} half")], name, &[Int("to", 1)]);
    }
    for layer in 0..24 {
        let at = |name: &str| format!("{layer} {name}");
        let mut add = |operator: &str, inputs: &[&str], output: &str, settings: &[_]| {
            let names: Vec<String> = inputs
                .iter()
                .map(|name| if let Some(own) = name.strip_prefix('.') { at(own) } else { name.to_string() })
                .collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            model.node(operator, &names, &at(output), settings);
        };
        let start = format!("l{layer}");
        add("LayerNormalization", &[&start, "g", "g"], "n", &[]);
        for part in ["query", "key", "value"] {
            add("MatMul", &[".n", "q"], part, &[]);
            add("Reshape", &[&format!(".{part}"), "heads"], &format!("{part} r"), &[]);
            let order: &[i64] = if part == "key" { &[0, 2, 3, 1] } else { &[0, 2, 1, 3] };
            add("Transpose", &[&format!(".{part} r")], &format!("{part} t"), &[Ints("perm", order)]);
        }
        add("MatMul", &[".query t", ".key t"], "scores", &[]);
        add("Mul", &[".scores", ".scores"], "scaled", &[]);
        add("Softmax", &[".scaled"], "weights", &[Int("axis", -1)]);
        add("MatMul", &[".weights", ".value t"], "seen", &[]);
        add("Transpose", &[".seen"], "seen t", &[Ints("perm", &[0, 2, 1, 3])]);
        add("Reshape", &[".seen t", "joined"], "seen r", &[]);
        add("MatMul", &[".seen r", "q"], "out", &[]);
        add("Add", &[&start, ".out"], "sum", &[]);
        add("LayerNormalization", &[".sum", "g", "g"], "m", &[]);
        add("MatMul", &[".m", "up"], "wide", &[]);
        for (step, operator) in ["Erf", "Add", "Mul"].into_iter().enumerate() {
            let last = if step == 0 { ".wide".to_owned() } else { format!(".f{}", step - 1) };
            let inputs = if step == 0 { vec![&last[..]] } else { vec![&last[..], ".wide"] };
            add(operator, &inputs, &format!("f{step}"), &[]);
        }
        add("MatMul", &[".f2", "down"], "narrow", &[]);
        model.node("Add", &[&at("sum"), &at("narrow")], &format!("l{}", layer + 1), &[]);
    }
    model.node("ReduceMean", &["l24"], "y", &[Ints("axes", &[1]), Int("keepdims", 0)]);
    model
}

/// ResNet-152, whose blocks share their weights.
fn resnet(side: i64) -> Model {
    let mut model = Model::new();
    model.input = vec![-1, 3, side, side];
    let mut last = String::from("x");
    let mut count = 0;
    let mut convolve = |model: &mut Model, from: &str, [inputs, outputs, kernel, stride]: [i64; 4]| -> String {
        let weight = format!("w {inputs} {outputs} {kernel}");
        let new = format!("n{count}");
        count += 1;
        model.floats(&format!("{weight} {new}"), &[outputs, inputs, kernel, kernel]);
        let pad = kernel / 2;
        let settings = [Ints("strides", &[stride, stride]), Ints("pads", &[pad, pad, pad, pad])];
        model.node("Conv", &[from, &format!("{weight} {new}")], &new, &settings);
        model.node("Relu", &[&new], &format!("{new} r"), &[]);
        format!("{new} r")
    };
    last = convolve(&mut model, &last, [3, 64, 7, 2]);
    let pool = [Ints("kernel_shape", &[3, 3]), Ints("strides", &[2, 2]), Ints("pads", &[1, 1, 1, 1])];
    model.node("MaxPool", &[&last], "p", &pool);
    last = String::from("p");
    let mut inputs = 64;
    for (stage, blocks) in [3, 8, 36, 3].into_iter().enumerate() {
        let width = 64 << stage;
        for block in 0..blocks {
            let stride = if block == 0 && stage > 0 { 2 } else { 1 };
            let short =
                if block == 0 { convolve(&mut model, &last, [inputs, 4 * width, 1, stride]) } else { last.clone() };
            let narrow = convolve(&mut model, &last, [inputs, width, 1, 1]);
            let middle = convolve(&mut model, &narrow, [width, width, 3, stride]);
            let wide = convolve(&mut model, &middle, [width, 4 * width, 1, 1]);
            last = format!("b {stage} {block}");
            model.node("Add", &[&wide, &short], &last, &[]);
            inputs = 4 * width;
        }
    }
    model.node("GlobalAveragePool", &[&last], "g", &[]).node("Flatten", &["g"], "y", &[]);
    model
}

#[test]
fn the_largest_backbones_pass_at_448_pixels() {
    for (name, model, side, features) in [
        ("ViT-L/14", vit(448), 448, 1024),
        ("ViT-L/14", vit(224), 224, 1024),
        ("ResNet-152", resnet(448), 448, 2048),
        ("ResNet-152", resnet(224), 224, 2048),
    ] {
        let input = input(side);
        let bounds = Bounds::of(&model.encode(), &input).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        check(name, &bounds, [batch_size(&input), side as usize], 1);
        let inferred = bounds.infer(&[1, 3, side as usize, side as usize]).unwrap();
        assert_eq!(inferred.outputs, [[1, features]], "{name}");
    }
}
