//! Random graphs that pass: both engines give what was inferred, and rten takes no more memory than was stated.

use ndarray::Array4;
use orco_core::random::Random;
use orco_runtime::encoder::audit::bounds::Bounds;
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::encoder::rten::Rten;
use orco_runtime::encoder::{EncodeError, Encoder};
use orco_trials::memory::peak_of;

use crate::input;
use crate::model::{Int, Ints, Model, Setting, Text};

/// Adds a random node, of which nothing says that it fits.
fn candidate(model: &Model, values: &[String], random: &mut Random, index: usize) -> Model {
    let mut model = model.clone();
    let mut below = |limit: usize| random.below(limit);
    let pick = |below: &mut dyn FnMut(usize) -> usize| values[values.len() - 1 - below(values.len().min(6))].clone();
    let (a, b) = (pick(&mut below), pick(&mut below));
    let (a, b, new) = (a.as_str(), b.as_str(), format!("v{index}"));
    let (axis, small) = (below(5) as i64 - 1, below(4) as i64);
    let list = format!("list {index}");
    let unary =
        ["Relu", "Exp", "Neg", "Sigmoid", "Identity", "Softmax", "Abs", "Floor", "Sqrt", "Erf", "Tanh", "Sin", "Cos"];
    let mut settings: Vec<Setting<'_>> = Vec::new();
    let mut inputs = vec![a];
    let window = [small + 1, below(3) as i64 + 1];
    let pads = [below(2) as i64, below(2) as i64, below(2) as i64, below(2) as i64];
    let strides = [below(3) as i64 + 1, below(2) as i64 + 1];
    let numbers: Vec<i64> = (0..1 + below(5)).map(|_| below(11) as i64 - 2).collect();
    let operator = match below(20) {
        0 => unary[below(unary.len())],
        1 | 2 => {
            inputs.push(b);
            ["Add", "Mul", "Sub", "Max", "Min", "Div", "Pow", "Equal", "PRelu"][below(9)]
        }
        3 => {
            inputs.push(b);
            "MatMul"
        }
        4 | 5 => {
            let outputs = 2 * small + 2;
            model.floats(&list, &[outputs, [3, 4, 1, 2, 6, 8][below(6)], window[0], window[1]]);
            inputs.push(&list);
            settings.extend([Ints("strides", &strides)]);
            match below(4) {
                0 => settings.push(Text("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"][below(3)])),
                _ => settings.push(Ints("pads", &pads)),
            }
            settings.push(Int("group", [1, 1, 2, 3][below(4)]));
            "Conv"
        }
        6 => {
            settings.extend([Ints("kernel_shape", &window), Ints("strides", &strides), Ints("pads", &pads)]);
            settings.extend((below(2) == 0).then_some(Int("ceil_mode", 1)));
            ["MaxPool", "AveragePool"][below(2)]
        }
        7 => ["GlobalAveragePool", "GlobalMaxPool", "Shape"][below(3)],
        8 => {
            model.list(&list, &numbers);
            inputs.push(&list);
            ["Reshape", "Gather", "Unsqueeze", "Squeeze"][below(4)]
        }
        9 => {
            settings.push(Int("axis", axis));
            inputs.push(b);
            ["Concat", "Gather"][below(2)]
        }
        10 => {
            settings.push(Int("axis", axis));
            "Flatten"
        }
        11 => "Transpose",
        12 => {
            settings.extend([Ints("axes", &numbers), Int("keepdims", small % 2)]);
            ["ReduceMean", "ReduceMax", "ReduceL2"][below(3)]
        }
        13 => {
            let pads: Vec<i64> = (0..2 * [1, 2, 3, 4, 4, 4][below(6)]).map(|_| below(5) as i64 - 1).collect();
            model.list(&list, &pads);
            inputs.push(&list);
            settings.push(Text("mode", ["constant", "constant", "reflect", "edge"][below(4)]));
            "Pad"
        }
        14 => {
            let ends = format!("{list} ends");
            let from: Vec<i64> = numbers.iter().map(|number| number - 3).collect();
            model.list(&list, &from).list(&ends, &numbers.iter().map(|number| number * 2 - 3).collect::<Vec<_>>());
            let [axes, steps] = [format!("{list} axes"), format!("{list} steps")];
            let all: Vec<i64> = (0..numbers.len() as i64).collect();
            model.list(&axes, &all).list(&steps, &numbers.iter().map(|number| number % 3).collect::<Vec<_>>());
            model.node("Slice", &[a, &list, &ends, &axes, &steps], &new, &[]);
            return model;
        }
        15 => {
            model.list(&list, &[4, 4]);
            model.node_of("Split", &[a, &list], &[&new, &format!("{new} other")], &[Int("axis", axis)]);
            return model;
        }
        16 => {
            // rten casts to truth values as to whole numbers, so 0.5 is false and 3 stays 3.
            settings.push(Int("to", [1, 6, 7][below(3)]));
            "Cast"
        }
        17 => {
            let scale = [0.3, 0.5, 1.0, 1.5, 2.0];
            model.numbers(&list, &[1.0, 1.0, scale[below(5)], scale[below(5)]]);
            inputs.extend(["", &list]);
            settings.push(Text("mode", ["nearest", "linear"][below(2)]));
            let mode = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"][below(4)];
            settings.push(Text("coordinate_transformation_mode", mode));
            "Resize"
        }
        18 => {
            let (equation, has_two) = [
                ("ab,bc->ac", true),
                ("abc,acd->abd", true),
                ("abcd,abed->abce", true),
                ("abcd,ed->abce", true),
                ("abcd,abcd->ab", true),
                ("abcd->adbc", false),
                ("abc->ca", false),
            ][below(7)];
            inputs.extend(has_two.then_some(b));
            settings.push(Text("equation", equation));
            "Einsum"
        }
        _ => {
            inputs.push(b);
            settings.extend([Int("transA", small % 2), Int("transB", small / 2)]);
            "Gemm"
        }
    };
    model.node(operator, &inputs, &new, &settings);
    model
}

/// Whether both engines computed one number. Rounding can make sums of large numbers differ, and what is no number is none
/// to both.
fn are_alike(one: f32, other: f32) -> bool {
    one == other || (one - other).abs() <= 1e-3 * one.abs().max(1.0) || (!one.is_finite() && !other.is_finite())
}

#[test]
fn engines_give_what_was_inferred() {
    const NODES: usize = 8;
    let graphs = if orco_trials::heavy() { 3000 } else { 150 };
    let start = |opened: Result<Onnx, EncodeError>| match opened {
        Err(EncodeError::Start(reason)) => Err(reason),
        opened => Ok(opened.ok()),
    };
    let (mut compared, mut wrong, mut apart) = ([0; 2], Vec::new(), Vec::new());
    for seed in 0..graphs {
        let mut random = Random::new(seed, "graphs");
        let (mut model, mut values) = (Model::new(), vec![String::from("x")]);
        model.floats("c", &[3, 1, 8]);
        values.push("c".into());
        for index in 0..60 {
            let next = candidate(&model, &values, &mut random, index);
            if Bounds::of(&next.encode(), &input(8)).is_ok() {
                model = next;
                values.push(model.last());
            }
            if values.len() > NODES + 1 {
                break;
            }
        }
        if values.len() == 2 {
            continue;
        }
        let last = model.last();
        model.node("Cast", &[&last], "y", &[Int("to", 1)]);
        let bytes = model.encode();
        // The cast may be what is too much.
        let Ok(bounds) = Bounds::of(&bytes, &input(8)) else { continue };
        for pictures in [1, 2] {
            let images = Array4::from_shape_fn((pictures, 3, 8, 8), |(picture, plane, y, x)| {
                0.1 + ((picture * 7 + plane * 5 + y * 3 + x * 2) % 11) as f32 / 16.0
            });
            let Ok(told) = bounds.infer(images.shape()) else { continue };
            let numbers = told.outputs[0].iter().product::<u64>() as usize;
            let (mut rows, mut panicked) = ([None, None], false);
            let mut check = |number: usize, encoder: &mut dyn Encoder| match encoder.encode(images.view()) {
                Ok(found) if found.len() == numbers => {
                    compared[number] += 1;
                    rows[number] = Some(found);
                }
                // No rows for the pictures, but as many numbers.
                Err(EncodeError::Shape { actual, .. }) if actual == numbers => compared[number] += 1,
                // The text of a panic takes more memory than a small graph.
                Err(EncodeError::Run(reason)) => panicked |= reason.starts_with("rten panicked"),
                other => wrong.push(format!("graph {seed}, {}: {other:?}, but {told:?}", encoder.engine())),
            };
            let opened = Rten::open(&bytes, &input(8)).ok();
            let (_, peak) = peak_of(|| opened.into_iter().for_each(|mut rten| check(0, &mut rten)));
            match start(Onnx::open(&bytes, &input(8))) {
                Ok(Some(mut onnx)) => check(1, &mut onnx),
                Ok(None) => {}
                Err(reason) => orco_trials::skipped(&format!("ONNX Runtime ({reason})")),
            }
            let told_of = 2 * told.live as usize + (2 << 20);
            assert!(panicked || peak <= told_of, "graph {seed}: {peak} bytes of {}", told.live);
            if let [Some(rten), Some(onnx)] = &rows
                && !rten.iter().zip(onnx).all(|(rten, onnx)| are_alike(*rten, *onnx))
            {
                apart.push(seed);
            }
        }
    }
    println!("compared {} outputs of rten and {} of ONNX Runtime, of {}", compared[0], compared[1], 2 * graphs);
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
    assert!(apart.is_empty(), "the engines compute other numbers of the graphs {apart:?}");
    assert!(compared[0] as u64 > graphs, "too few graphs ran");
}

/// Checks a model in both engines.
fn in_both_engines(model: &Model, check: impl Fn(&mut dyn Encoder)) {
    let bytes = model.encode();
    check(&mut Rten::open(&bytes, &input(8)).unwrap());
    match Onnx::open(&bytes, &input(8)) {
        Err(EncodeError::Start(reason)) => orco_trials::skipped(&format!("ONNX Runtime ({reason})")),
        opened => check(&mut opened.unwrap()),
    }
}

/// jax2onnx writes flax's norms with sums of squares.
#[test]
fn both_engines_reduce_alike() {
    let images = Array4::from_shape_fn((2, 3, 8, 8), |(picture, plane, y, x)| {
        ((picture * 7 + plane * 5 + y * 3 + x * 2) % 11) as f32 / 16.0 - 0.3
    });
    for (operator, expected) in [
        ("ReduceL1", images.map_axis(ndarray::Axis(3), |row| row.iter().map(|value| value.abs()).sum::<f32>())),
        (
            "ReduceSumSquare",
            images.map_axis(ndarray::Axis(3), |row| row.iter().map(|value| value * value).sum::<f32>()),
        ),
    ] {
        let mut model = Model::new();
        model.list("axes", &[-1]).node(operator, &["x", "axes"], "r", &[Int("keepdims", 0)]);
        model.node("Flatten", &["r"], "y", &[]);
        model.version = 18;
        in_both_engines(&model, |encoder| {
            let found = encoder.encode(images.view()).unwrap();
            let is_near = found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-5);
            assert!(found.dim() == (2, 24) && is_near, "{operator} in {}: {found} {expected}", encoder.engine());
        });
    }
}

/// ONNX Runtime would let the pooling pad, and pass the zeros over.
#[test]
fn both_engines_pad_with_zeros_before_they_pool() {
    let images = Array4::from_elem((2, 3, 8, 8), 0.5);
    let mut model = Model::new();
    model.numbers("two", &[2.0]).list("pads", &[0, 0, 1, 1, 0, 0, 1, 1]);
    model.node("Sub", &["x", "two"], "below zero", &[]).node("Pad", &["below zero", "pads"], "padded", &[]);
    model.node("MaxPool", &["padded"], "pooled", &[Ints("kernel_shape", &[3, 3]), Ints("strides", &[2, 2])]);
    model.node("Flatten", &["pooled"], "y", &[]);
    // Of four windows by four, those of the first row and column reach zeros.
    let expected = |place: usize| if place % 16 < 4 || place.is_multiple_of(4) { 0.0 } else { -1.5 };
    in_both_engines(&model, |encoder| {
        let found = encoder.encode(images.view()).unwrap();
        let is_right = found.indexed_iter().all(|((_, place), &found)| found == expected(place));
        assert!(found.dim() == (2, 48) && is_right, "{}: {found}", encoder.engine());
    });
}
