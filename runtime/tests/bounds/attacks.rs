//! Small files that would make an engine take all memory or compute for hours, or that would end the process.

use std::time::{Duration, Instant};

use orco_runtime::encoder::EncodeError;
use orco_runtime::encoder::audit::bounds::Bounds;
use orco_runtime::encoder::engine_choice::{self, EngineChoice, Workload};
use orco_runtime::encoder::onnx::{Onnx, fold_constants};
use orco_runtime::encoder::rten::Rten;
use orco_trials::memory::peak_of;

use crate::input;
use crate::model::{Int, Ints, Model, Text};

/// Numbers of a row and of a column that together make a matrix of 14 GB.
const LONG: i64 = 60_000;

/// A model whose flattened image is multiplied to a row and a column of 60,000 numbers, which an operator joins.
fn stretched(operator: &str) -> Model {
    let mut model = Model::new();
    model.floats("row", &[192, LONG]).list("column", &[LONG, 1]).node("Flatten", &["x"], "flat", &[]);
    model.node("MatMul", &["flat", "row"], "long", &[]).node("Reshape", &["long", "column"], "high", &[]);
    model.list("flat row", &[1, LONG]).node("Reshape", &["long", "flat row"], "wide", &[]);
    model.node(operator, &["high", "wide"], "y", &[]);
    model
}

fn doubled(times: usize) -> Model {
    let mut model = Model::new();
    model.node("Identity", &["x"], "d0", &[]);
    for turn in 0..times {
        let (from, to) = (format!("d{turn}"), format!("d{}", turn + 1));
        model.node("Concat", &[&from, &from], &to, &[Int("axis", 1)]);
    }
    model
}

fn products() -> Model {
    let mut model = Model::new();
    model.floats("w", &[192, 1024]).floats("m", &[1024, 1024]).floats("up", &[1, 4096, 1]);
    model.node("Flatten", &["x"], "flat", &[]).node("MatMul", &["flat", "w"], "f", &[]);
    model.node("Mul", &["f", "up"], "p0", &[]);
    for turn in 0..500 {
        model.node("MatMul", &[&format!("p{turn}"), "m"], &format!("p{}", turn + 1), &[]);
    }
    model
}

/// One node on the image.
fn one(operator: &str, settings: &[crate::model::Setting<'_>]) -> Model {
    let mut model = Model::new();
    model.node(operator, &["x"], "y", settings);
    model
}

/// One node on the image and a list.
fn with(operator: &str, list: &[i64]) -> Model {
    let mut model = Model::new();
    model.list("list", list).node(operator, &["x", "list"], "y", &[]);
    model
}

/// The image resized to these sides.
fn resized(sides: &[i64], settings: &[crate::model::Setting<'_>]) -> Model {
    let mut model = Model::new();
    model.list("sides", sides).node("Resize", &["x", "", "", "sides"], "y", settings);
    model
}

/// The image resized by scales that are computed from it.
fn scaled_by_itself() -> Model {
    let mut model = Model::new();
    model.node("ReduceMean", &["x"], "scales", &[Ints("axes", &[0, 2, 3]), Int("keepdims", 0)]);
    model.node("Resize", &["x", "", "scales"], "y", &[Ints("axes", &[1, 2, 3])]);
    model
}

/// A row and a column of 60,000 numbers, joined by an equation.
fn einsum(equation: &str) -> Model {
    let mut model = Model::new();
    model.floats("high", &[LONG, 1]).floats("wide", &[1, LONG]);
    model.node("Einsum", &["high", "wide"], "y", &[Text("equation", equation)]);
    model
}

/// A convolution over three axes.
fn volumes() -> Model {
    let mut model = Model::new();
    model.floats("w", &[1, 1, 1, 1, 1]).list("axis", &[1]).node("Unsqueeze", &["x", "axis"], "volume", &[]);
    model.node("Conv", &["volume", "w"], "y", &[]);
    model
}

/// A batch normalisation by the statistics of the batch.
fn in_training() -> Model {
    let mut model = Model::new();
    for name in ["scale", "shift", "mean", "variance"] {
        model.floats(name, &[3]);
    }
    model.node("BatchNormalization", &["x", "scale", "shift", "mean", "variance"], "y", &[Int("training_mode", 1)]);
    model
}

/// A constant of a shape, beside the image.
fn constant_of_shape(shape: &[i64]) -> Model {
    let mut model = Model::new();
    model.list("shape", shape).node("ConstantOfShape", &["shape"], "y", &[]);
    model
}

/// Numbers from a start to an end in steps, beside the image.
fn range(numbers: &[i64; 3]) -> Model {
    let mut model = Model::new();
    let names = ["start", "end", "step"];
    for (name, number) in names.iter().zip(numbers) {
        model.list(name, &[*number]);
    }
    model.node("Range", &names, "y", &[]);
    model
}

/// A convolution with weights of these sides.
fn convolution(weight: &[i64], settings: &[crate::model::Setting<'_>]) -> Model {
    let mut model = Model::new();
    model.floats("w", weight).node("Conv", &["x", "w"], "y", settings);
    model
}

/// An operator as it was in version 11 of ONNX's.
fn of_version_11(operator: &str, settings: &[crate::model::Setting<'_>]) -> Model {
    let mut model = one(operator, settings);
    model.version = 11;
    model
}

/// A convolution by a window of 3 by 3 that pads by itself.
fn padded_in_front(strides: &[i64]) -> Model {
    convolution(&[1, 3, 3, 3], &[Ints("strides", strides), Text("auto_pad", "SAME_LOWER")])
}

/// What folds a large constant out of small ones, and throws it away.
fn folded() -> Model {
    let mut model = Model::new();
    model.floats("c0", &[2048, 2048]);
    (0..40).for_each(|turn| {
        model.node("MatMul", &[&format!("c{turn}"), "c0"], &format!("c{}", turn + 1), &[]);
    });
    model.node("Flatten", &["x"], "y", &[]);
    model
}

/// Many tensors that live until the end.
fn kept_alive() -> Model {
    let mut model = Model::new();
    model.floats("up", &[1, 1, 1024, 1024]).floats("w", &[1, 3, 8, 8]).node("Conv", &["x", "w"], "one", &[]);
    let names: Vec<String> = (0..200).map(|index| format!("k{index}")).collect();
    for name in &names {
        model.node("Mul", &["one", "up"], name, &[]);
    }
    for name in &names {
        model.node("ReduceMean", &[name], &format!("{name} mean"), &[]);
    }
    let means: Vec<String> = names.iter().map(|name| format!("{name} mean")).collect();
    let means: Vec<&str> = means.iter().map(String::as_str).collect();
    model.node("Concat", &means, "y", &[Int("axis", 1)]);
    model
}

fn divided(by: &[i64]) -> Model {
    let mut model = Model::new();
    model.list("zero", by).node("Shape", &["x"], "s", &[]).node("Div", &["s", "zero"], "q", &[]);
    model.node("Flatten", &["x"], "y", &[]);
    model
}

fn chain(length: usize) -> Model {
    let mut model = Model::new();
    model.node("Relu", &["x"], "r0", &[]);
    for turn in 1..length {
        model.node("Relu", &[&format!("r{}", turn - 1)], &format!("r{turn}"), &[]);
    }
    model
}

fn fan(inputs: usize) -> Model {
    let mut model = Model::new();
    model.node("Concat", &vec!["x"; inputs], "y", &[Int("axis", 1)]);
    model
}

/// A small constant that is resized to a large one, which goes when constants are folded.
fn finely_resized(from: &[i64], to: &[i64], settings: &[crate::model::Setting<'_>]) -> Model {
    let mut model = Model::new();
    model.list("from", from).list("to", to).node("ConstantOfShape", &["from"], "small", &[]);
    model.node("Resize", &["small", "", "", "to"], "large", settings).node("ReduceMean", &["large"], "mean", &[]);
    model.node("Add", &["x", "mean"], "y", &[]);
    model
}

/// A constant whose sides are computed of floats.
fn sides_of_floats(operator: &str, floats: [f32; 2]) -> Model {
    let mut model = Model::new();
    model.numbers("one", &floats[..1]).numbers("other", &floats[1..]).node(operator, &["one", "other"], "float", &[]);
    model.node("Cast", &["float"], "side", &[Int("to", 7)]).list("last", &[LONG]);
    model.node("Concat", &["side", "last"], "shape", &[Int("axis", 0)]).node(
        "ConstantOfShape",
        &["shape"],
        "large",
        &[],
    );
    model.node("ReduceMean", &["large"], "mean", &[]).node("Add", &["x", "mean"], "y", &[]);
    model
}

/// What ONNX Runtime would fold is known before, or the model is refused.
#[test]
fn sides_that_are_computed_of_floats_are_bounded_before_they_are_folded() {
    for (operator, floats, expected) in [
        ("Mul", [30_000.0, 2.0], "makes a tensor whose number of elements is 3600000000"),
        ("Div", [1e9, 1e-3], "makes a tensor whose number of elements is"),
        ("Div", [1.0, 0.0], "not known beforehand"),
        ("Pow", [60_000.0, 2.0], "not known beforehand"),
        ("Pow", [3.0, 0.5], "not known beforehand"),
    ] {
        let model = sides_of_floats(operator, floats).encode();
        let (refused, peak) = peak_of(|| fold_constants(&model).unwrap_err());
        let EncodeError::Refused(refused) = &refused else { panic!("{refused}") };
        assert!(refused.to_string().contains(expected), "{operator} {floats:?}: {refused}");
        assert!(peak < 8 << 20, "{operator} {floats:?}: {peak} bytes");
        // A device does not follow floats at all.
        let Err(EncodeError::Refused(refused)) = Bounds::of(&model, &input(8)) else { panic!("{operator} {floats:?}") };
        assert!(refused.to_string().contains("not known beforehand"), "{refused}");
    }
    for (numbers, expected) in [
        ([0.0, 1e30, 1.0], "not known beforehand"),
        ([0.0, 1.0, 1e-9], "not known beforehand"),
        ([0.0, f32::NAN, 1.0], "not known beforehand"),
        ([0.25, 9.0, 1.0], "not known beforehand"),
    ] {
        let mut model = Model::new();
        let names = ["start", "end", "step"];
        for (name, number) in names.iter().zip(numbers) {
            model.numbers(name, &[number]);
        }
        model.node("Range", &names, "r", &[]).node("ReduceMean", &["r"], "mean", &[]).node(
            "Add",
            &["x", "mean"],
            "y",
            &[],
        );
        let refused = fold_constants(&model.encode()).unwrap_err();
        let EncodeError::Refused(refused) = &refused else { panic!("{refused}") };
        assert!(refused.to_string().contains(expected), "{numbers:?}: {refused}");
    }
    // The side of a grid of patches.
    if let Err(error) = fold_constants(&sides_of_floats("Pow", [1369.0, 0.5]).encode()) {
        assert!(matches!(error, EncodeError::Start(_)), "{error}");
    }
}

/// ONNX Runtime holds more than inputs and outputs of such an interpolation.
#[test]
fn constants_that_are_finely_resized_are_bounded_before_they_are_folded() {
    let cubic = [Text("mode", "cubic")];
    for (from, to, settings) in [
        ([1, 1, 120_000, 1], [1, 1, 1, 120_000], &[Text("mode", "linear"), Int("antialias", 1)][..]),
        ([1, 1, 40_000, 1], [1, 1, 10_000, 13_000], &cubic),
    ] {
        let refused = fold_constants(&finely_resized(&from, &to, settings).encode()).unwrap_err();
        let EncodeError::Refused(refused) = &refused else { panic!("{refused}") };
        assert!(refused.to_string().contains("\"Resize\" bring"), "{refused}");
    }
    // The positions of a large transformer.
    let positions = finely_resized(&[1, 1536, 37, 37], &[1, 1536, 16, 16], &cubic).encode();
    if let Err(error) = fold_constants(&positions) {
        assert!(matches!(error, EncodeError::Start(_)), "{error}");
    }
}

#[test]
fn attacks_are_refused_before_an_engine_sees_them() {
    let mut trial = orco_trials::trial!(4, "hostile models");
    let mut open_batch = with("Reshape", &[-1, 8, 8]);
    open_batch.input = vec![1 << 28, 3, 8, 8];
    let mut cycle = Model::new();
    cycle.node("Add", &["x", "b"], "a", &[]).node("Relu", &["a"], "b", &[]);
    let mut twice = Model::new();
    twice.node("Relu", &["x"], "a", &[]).node("Exp", &["x"], "a", &[]);
    let mut slices = Model::new();
    slices.list("from", &[i64::MIN]).list("to", &[i64::MAX]).list("axis", &[1]).list("step", &[0]);
    slices.node("Slice", &["x", "from", "to", "axis", "step"], "y", &[]);
    let elements = "makes a tensor whose number of elements is";
    let cases = [
        ("broadcast by Add", stretched("Add"), "whose number of elements is 3600000000; at most 268435456"),
        ("broadcast by Mul", stretched("Mul"), elements),
        ("broadcast by Where", stretched("Pow"), elements),
        ("broadcast by MatMul", stretched("MatMul"), elements),
        ("500 products", products(), "\"MatMul\" brings the multiply-adds to"),
        ("doubling", doubled(60), elements),
        ("products of constants", folded(), "\"MatMul\" brings the multiply-adds on constants to"),
        ("all alive", kept_alive(), "of weights and live tensors"),
        ("expand", with("Expand", &[LONG, LONG, 3, 8, 8]), elements),
        ("tile", with("Tile", &[1, LONG, LONG, 1]), elements),
        ("constant of shape", constant_of_shape(&[LONG, LONG]), elements),
        ("range", range(&[0, i64::MAX, 1]), elements),
        ("range for ever", range(&[0, 9, 0]), "cannot infer the output shape of node"),
        ("resize", resized(&[1, 3, LONG, LONG], &[]), elements),
        ("resize cubically", resized(&[1, 3, 9, 9], &[Text("mode", "cubic")]), "cubic or antialiased interpolation"),
        ("resize to nothing", resized(&[1, 3, 0, 8], &[]), "resizes in a way that is unknown"),
        (
            "resize by a crop",
            resized(&[1, 3, 8, 8], &[Text("coordinate_transformation_mode", "tf_crop_and_resize")]),
            "unknown",
        ),
        ("resize by scales that a picture gives", scaled_by_itself(), "not known beforehand"),
        ("broadcast by Einsum", einsum("ij,kl->il"), elements),
        ("einsum of other letters", einsum("ij,jk->iz"), "its equation is not"),
        ("einsum of an ellipsis", einsum("...j,jk->...k"), "its equation is not"),
        ("einsum of shapes that do not fit", einsum("ij,ik->jk"), "do not fit"),
        ("convolution of volumes", volumes(), "it convolves volumes"),
        ("exported as in training", in_training(), "call model.eval() before the export"),
        ("quantised by the batch", one("DynamicQuantizeLinear", &[]), "quantise the model statically"),
        ("upsample", with("Upsample", &[1, 3, LONG, LONG]), "is not on the list of allowed ones"),
        ("pad", with("Pad", &[0, 0, 0, 0, 0, 0, LONG, LONG]), elements),
        ("pad without end", with("Pad", &[i64::MAX; 8]), "padding does not fit"),
        ("pad below nothing", with("Pad", &[0, 0, 0, -99, 0, 0, 0, 99]), "padding does not fit"),
        (
            "wide convolution",
            convolution(&[1, 3, 1, 1], &[Ints("pads", &[4096; 4]), Ints("dilations", &[1, 1])]),
            "of weights and live tensors",
        ),
        (
            "convolution of strides 0",
            convolution(&[1, 3, 1, 1], &[Ints("strides", &[0, 0])]),
            "cannot infer the output shape of node",
        ),
        (
            "convolution without groups",
            convolution(&[1, 3, 1, 1], &[Int("group", 0)]),
            "cannot infer the output shape of node",
        ),
        ("convolution of negative groups", convolution(&[1, 3, 1, 1], &[Int("group", i64::MIN)]), "do not fit"),
        ("convolution of other kernels", convolution(&[1, 3, 1, 1], &[Ints("kernel_shape", &[3, 3])]), "do not fit"),
        ("window larger than its image", one("MaxPool", &[Ints("kernel_shape", &[4096, 4096])]), "does not fit into"),
        ("window of padding", one("MaxPool", &[Ints("kernel_shape", &[2, 2]), Ints("pads", &[2; 4])]), "does not fit"),
        ("window of -1", one("MaxPool", &[Ints("kernel_shape", &[-1, 2])]), "\"kernel_shape\" of the node"),
        ("unknown padding", one("AveragePool", &[Ints("kernel_shape", &[2, 2]), Text("auto_pad", "x")]), "padding"),
        ("convolution padded in front", padded_in_front(&[2, 2]), "auto_pad = SAME_LOWER puts an odd pixel"),
        (
            "window padded in front",
            one("AveragePool", &[Ints("kernel_shape", &[2, 2]), Text("auto_pad", "SAME_LOWER")]),
            "auto_pad = SAME_LOWER puts an odd pixel",
        ),
        ("shares of all colours", of_version_11("Softmax", &[]), "it takes several axes together"),
        ("shares of a plane", of_version_11("LogSoftmax", &[Int("axis", 2)]), "it takes several axes together"),
        ("reshape to 2^63", with("Reshape", &[i64::MIN, 1]), "new shape cannot be inferred"),
        ("reshape to -2", with("Reshape", &[-2, -1]), "new shape cannot be inferred"),
        ("reshape of two open sides", with("Reshape", &[-1, -1]), "new shape cannot be inferred"),
        ("reshape to more", with("Reshape", &[1 << 40, 1 << 40]), "do not fit"),
        ("reshape by nothing", with("Reshape", &[0, 0, 0, 0, 0]), "do not fit"),
        ("unsqueezed for ever", with("Unsqueeze", &[0, 1, 2, 3, 4]), "whose number of dimensions is 9"),
        ("transposed twice the same", one("Transpose", &[Ints("perm", &[0, 1, 1, 3])]), "makes no sense"),
        ("transposed out of bounds", one("Transpose", &[Ints("perm", &[0, 1, 2, i64::MAX])]), "makes no sense"),
        ("flattened out of bounds", one("Flatten", &[Int("axis", i64::MIN)]), "do not fit"),
        ("softened out of bounds", one("LayerNormalization", &[Int("axis", i64::MAX)]), "makes no sense"),
        ("slices that stand still", slices, "do not fit"),
        ("divided by zero", divided(&[0]), "divides integers by what may be zero"),
        ("divided beyond the largest", divided(&[-1]), "divides integers by what may be zero"),
        ("nothing", with("Slice", &[0]), "cannot infer the output shape of node"),
        ("a huge batch", open_batch, elements),
        ("a cycle", cycle, "\"b\" is used before something makes it"),
        ("one name twice", twice, "\"a\" has no name, or that of another one"),
        ("a long chain", chain(5_000), "ends a chain of nodes whose length is 4001"),
        ("a thousand inputs", fan(1_000), "it has more than 256 inputs, outputs or attributes of one node"),
    ];
    let mut wrong = Vec::new();
    for (what, model, expected) in cases {
        let model = model.encode();
        let started = Instant::now();
        let (refused, peak) = peak_of(|| Bounds::of(&model, &input(8)).err());
        let Some(EncodeError::Refused(error)) = refused else {
            wrong.push(format!("{what}: {refused:?}"));
            continue;
        };
        let said = error.to_string();
        if !said.contains(expected) {
            wrong.push(format!("{what}: {said}"));
        }
        assert!(started.elapsed() < Duration::from_secs(10) && peak < 64 * model.len() + (8 << 20), "{what}: {peak}");
        // Neither engine, however it is asked for, is handed the model.
        let opened = [
            Rten::open(&model, &input(8)).err(),
            Onnx::open(&model, &input(8)).err(),
            Onnx::pool(&model, &input(8)).err(),
            engine_choice::open(&model, &input(8), EngineChoice::Auto, Workload::Shots).err(),
            engine_choice::open(&model, &input(8), EngineChoice::Auto, Workload::Stream).err(),
        ];
        for error in opened {
            let Some(EncodeError::Refused(error)) = error else { panic!("{what}: {error:?}") };
            assert_eq!(error.to_string(), said, "{what}");
        }
        trial.count(1);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The forms of these operators that rten computes as ONNX Runtime does.
#[test]
fn paddings_and_shares_that_are_the_same_to_both_engines_pass() {
    let mut row = Model::new();
    row.version = 11;
    row.node("GlobalAveragePool", &["x"], "mean", &[]).node("Flatten", &["mean"], "row", &[]);
    let mut high = row.clone();
    row.node("Softmax", &["row"], "y", &[]);
    high.node("Softmax", &["mean"], "y", &[Int("axis", 1)]);
    for model in [row, high, of_version_11("Softmax", &[Int("axis", 3)]), one("Softmax", &[]), padded_in_front(&[1, 1])]
    {
        Bounds::of(&model.encode(), &input(8)).unwrap();
    }
}

#[test]
fn a_batch_of_another_size_is_told_before_it_is_computed() {
    // A matrix of all pictures with all pictures: harmless for the batch that pictures are encoded in.
    let mut model = Model::new();
    model.floats("w", &[192, 1]).list("row", &[1, -1]).node("Flatten", &["x"], "flat", &[]);
    model.node("MatMul", &["flat", "w"], "one", &[]).node("Reshape", &["one", "row"], "r", &[]);
    model.node("Mul", &["one", "r"], "y", &[]);
    let model = model.encode();
    let images = ndarray::Array4::from_elem((20_000, 3, 8, 8), 0.5);
    use orco_runtime::encoder::Encoder;
    let mut rten = Rten::open(&model, &input(8)).unwrap();
    assert_eq!(rten.encode(images.slice(ndarray::s![..5, .., .., ..])).unwrap().dim(), (5, 5));
    let refused = rten.encode(images.view()).unwrap_err();
    assert!(matches!(refused, EncodeError::Refused(_)), "{refused:?}");
    if let Ok(mut onnx) = Onnx::open(&model, &input(8)) {
        assert!(matches!(onnx.encode(images.view()), Err(EncodeError::Refused(_))));
    }
}

#[test]
fn what_passes_as_the_longest_and_the_widest_is_opened_on_a_small_stack() {
    let (mut wide, mut long) = (Model::new(), Model::new());
    let names: Vec<String> = (0..15_000).map(|index| format!("n{index}")).collect();
    names.iter().for_each(|name| {
        wide.node("GlobalAveragePool", &["x"], name, &[]);
    });
    long.node("GlobalAveragePool", &["x"], "l1", &[]);
    for depth in 2..=4_000 {
        long.node("Relu", &[&format!("l{}", depth - 1)], &format!("l{depth}"), &[]);
    }
    for (what, model) in [("long", long), ("wide", wide)] {
        let model = model.encode();
        let started = Instant::now();
        let run = move || {
            use orco_runtime::encoder::Encoder;
            let images = ndarray::Array4::from_elem((1, 3, 8, 8), 0.5);
            Rten::open(&model, &input(8)).unwrap().encode(images.view()).unwrap();
            println!("{what}: rten, {:?}", started.elapsed());
            match Onnx::open(&model, &input(8)) {
                Err(EncodeError::Start(reason)) => orco_trials::skipped(&format!("ONNX Runtime ({reason})")),
                opened => drop(opened.unwrap().encode(images.view()).unwrap()),
            }
            println!("{what}: both, {:?}", started.elapsed());
        };
        std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
    }
}
