//! Windows that slide over images: convolutions, pooling, resizing.

use crate::encoder::audit::call::{
    ELEMENT_COST, MISMATCH, NodeCall, NodeOutput, RuleError, RuleResult, UNKNOWN, WINDOW_COST, to_shape,
};
use crate::encoder::audit::tensor::{DataType, TensorType, product};

const PADDING: RuleError = RuleError("its kind of padding is unknown");
const VOLUMES: RuleError = RuleError("it convolves volumes, which not all engines can");
const FINE_RESIZING: RuleError = RuleError(
    "it resizes by cubic or antialiased interpolation, which not all engines have; export it with bilinear one",
);
const RESIZING: RuleError = RuleError("it resizes in a way that is unknown");
const WINDOWS: RuleError = RuleError("its window does not fit into the image");
const LOWER: RuleError = RuleError(
    "auto_pad = SAME_LOWER puts an odd pixel of padding in front, which not all engines do; write its padding as pads",
);

/// How many positions a window of the shape `kernel` has along each axis of an image.
fn places(call: &NodeCall<'_>, image: &[u64], kernel: &[u64], ceil: bool) -> RuleResult<Vec<u64>> {
    let count = image.len();
    let (strides, dilations) = (call.lengths("strides", count, 1)?, call.lengths("dilations", count, 1)?);
    let pads = call.lengths("pads", 2 * count, 0)?;
    let automatic = call.text("auto_pad")?.unwrap_or("NOTSET");
    let mut places = Vec::new();
    for axis in 0..count {
        let (stride, side) = (strides[axis], image[axis]);
        let reach = kernel[axis].checked_sub(1).and_then(|reach| reach.checked_mul(dilations[axis]));
        let window = reach.and_then(|reach| reach.checked_add(1)).ok_or(WINDOWS)?;
        let (before, after) = match automatic {
            "NOTSET" | "" => (pads[axis], pads[axis + count]),
            "VALID" => (0, 0),
            "SAME_UPPER" | "SAME_LOWER" => {
                let steps = side.div_ceil(stride);
                let reached = steps.saturating_sub(1).saturating_mul(stride).saturating_add(window);
                // rten puts the odd pixel behind in both cases.
                if automatic == "SAME_LOWER" && !reached.saturating_sub(side).is_multiple_of(2) {
                    return Err(LOWER);
                }
                places.push(steps);
                continue;
            }
            _ => return Err(PADDING),
        };
        let padded = side.checked_add(before).and_then(|side| side.checked_add(after)).ok_or(WINDOWS)?;
        let room = padded.checked_sub(window).ok_or(WINDOWS)?;
        let mut steps = if ceil { room.div_ceil(stride) } else { room / stride };
        // A window that would start behind the image is left out.
        if ceil && steps.checked_mul(stride).is_none_or(|start| start >= side + before) {
            steps = steps.saturating_sub(1);
        }
        places.push(steps + 1);
    }
    Ok(places)
}

/// A convolution of images `[images, channels, ...]` by weights `[outputs, channels / groups, ...]`.
fn convolution(call: &NodeCall<'_>, image: &TensorType, weight: &TensorType, kind: DataType) -> RuleResult {
    let ([images, channels, shape @ ..], [outputs, inner, kernel @ ..]) = (&image.shape[..], &weight.shape[..]) else {
        return Err(MISMATCH);
    };
    let group = u64::try_from(call.int_or("group", 1)?).ok().filter(|group| *group > 0).ok_or(MISMATCH)?;
    let fits = inner.checked_mul(group) == Some(*channels) && outputs.is_multiple_of(group);
    if shape.is_empty() || shape.len() != kernel.len() || !fits || *outputs == 0 {
        return Err(MISMATCH);
    }
    if shape.len() > 2 {
        return Err(VOLUMES);
    }
    if call.has("kernel_shape") && call.lengths("kernel_shape", kernel.len(), 1)? != kernel {
        return Err(MISMATCH);
    }
    let places = places(call, shape, kernel, false)?;
    let output = TensorType::of([&[*images, *outputs], &places[..]].concat(), kind);
    let window = product(kernel).saturating_mul(*inner);
    // A window over few channels is no matrix product for an engine, and slower.
    let cost = if *inner < 4 { window.saturating_mul(WINDOW_COST) } else { window };
    // Engines may write out the windows of an image, in four bytes an element, and weights in another order.
    let written = product(&places).saturating_mul(product(kernel)).saturating_mul(*channels);
    let scratch = written.saturating_add(weight.elements()).saturating_mul(4);
    Ok(NodeOutput { scratch, ..NodeOutput::of(output, cost) })
}

pub fn conv(call: &NodeCall<'_>) -> RuleResult {
    let image = call.input(0)?;
    convolution(call, image, call.input(1)?, image.data_type)
}

/// The convolution of bytes, as bytes: image, scale, zero, weight, scale, zero, scale, zero.
pub fn qlinear_conv(call: &NodeCall<'_>) -> RuleResult {
    convolution(call, call.input(0)?, call.input(3)?, call.input(7)?.data_type)
}

/// The mean or the largest element of each window, and perhaps its index.
pub fn pool(call: &NodeCall<'_>) -> RuleResult {
    let image = call.input(0)?;
    let [images, channels, shape @ ..] = &image.shape[..] else { return Err(MISMATCH) };
    if shape.is_empty() || !call.has("kernel_shape") {
        return Err(MISMATCH);
    }
    let kernel = call.lengths("kernel_shape", shape.len(), 1)?;
    // A window of padding alone has no largest number.
    let pads = call.lengths("pads", 2 * shape.len(), 0)?;
    if pads.iter().zip(kernel.iter().cycle()).any(|(pad, side)| pad >= side) {
        return Err(WINDOWS);
    }
    let places = places(call, shape, &kernel, call.flag("ceil_mode", false)?)?;
    let output = TensorType::of([&[*images, *channels], &places[..]].concat(), image.data_type);
    let indices = TensorType::of(output.shape.clone(), DataType::INT64);
    let mut result = NodeOutput::of(output, product(&kernel).saturating_mul(WINDOW_COST));
    result.outputs.push(indices);
    Ok(result)
}

/// One element for each channel of an image.
pub fn global_pool(call: &NodeCall<'_>) -> RuleResult {
    let image = call.input(0)?;
    let [images, channels, shape @ ..] = &image.shape[..] else { return Err(MISMATCH) };
    let output = [&[*images, *channels], &vec![1; shape.len()][..]].concat();
    Ok(NodeOutput::of(TensorType::of(output, image.data_type), 0)
        .with_work(image.elements().saturating_mul(ELEMENT_COST)))
}

/// Images of another size, which constants or the shapes of other tensors give.
pub fn resize(call: &NodeCall<'_>) -> RuleResult {
    let input = call.input(0)?;
    let all: Vec<i64> = (0..input.rank() as i64).collect();
    let axes = call.ints("axes")?.unwrap_or(&all);
    call.axes(axes, input.rank())?;
    // rten has neither and would take other neighbours in their place. A transformer's positions, which are resized to
    // the images' grid of patches, are constants and gone when the model is audited again.
    let is_fine = call.text("mode")? == Some("cubic") || call.flag("antialias", false)?;
    if is_fine && !call.folds {
        return Err(FINE_RESIZING);
    }
    let stretches = matches!(call.text("keep_aspect_ratio_policy")?, None | Some("stretch"));
    if !stretches || call.text("coordinate_transformation_mode")? == Some("tf_crop_and_resize") {
        return Err(RESIZING);
    }
    // Up to version 10 of the operator, scales are the second and last input.
    let (scales, sizes) = if call.inputs.len() == 2 { (1, 2) } else { (2, 3) };
    let own = |axis: &i64| input.axis(*axis).map(|axis| input.shape[axis]).ok_or(RESIZING);
    let sides = if call.optional(sizes).is_some() {
        to_shape(call.values(sizes)?)?
    } else {
        let scales = call.input(scales)?.floats.as_ref().ok_or(UNKNOWN)?;
        let scaled = |(axis, scale): (&i64, &f32)| Ok((own(axis)? as f32 * scale).floor() as u64);
        axes.iter().zip(scales).map(scaled).collect::<RuleResult<_>>()?
    };
    if sides.len() != axes.len() || sides.contains(&0) {
        return Err(RESIZING);
    }
    let mut shape = input.shape.clone();
    for (axis, side) in axes.iter().zip(sides) {
        shape[input.axis(*axis).ok_or(RESIZING)?] = side;
    }
    if is_fine {
        return Ok(finely_resized(input, shape));
    }
    let cost = match call.text("mode")?.unwrap_or("nearest") {
        "nearest" => ELEMENT_COST,
        "linear" => WINDOW_COST * 4,
        _ => return Err(RESIZING),
    };
    let output = TensorType::of(shape, input.data_type);
    // One side is changed after the other.
    let elements = input.elements().saturating_add(output.elements());
    let (work, scratch) = (elements.saturating_mul(cost), elements.saturating_mul(4));
    Ok(NodeOutput { outputs: vec![output], work, scratch })
}

/// By cubic or antialiased interpolation. ONNX Runtime holds the input resized along some axes and not yet along the
/// others, and of a plane whatever it has computed so far.
fn finely_resized(input: &TensorType, shape: Vec<u64>) -> NodeOutput {
    /// What is held for each element of a plane, in bytes.
    const OF_PLANE: u64 = 256;
    let sides: Vec<u64> = input.shape.iter().zip(&shape).map(|(own, other)| (*own).max(*other)).collect();
    let (whole, plane) = (product(&sides), product(&sides[sides.len().saturating_sub(2)..]));
    let scratch = whole.saturating_mul(4).saturating_add(plane.saturating_mul(OF_PLANE));
    let work = whole.saturating_mul(WINDOW_COST * 16);
    NodeOutput { outputs: vec![TensorType::of(shape, input.data_type)], work, scratch }
}
