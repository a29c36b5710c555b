//! An imported backbone: a feature extractor in an ONNX file that the user brings, checked and run by ONNX Runtime.

use std::path::{Path, PathBuf};

use ndarray::Array4;
use orco_runtime::encoder::audit::AuditError;
use orco_runtime::encoder::audit::bounds::check_unfolded;
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::encoder::stream::{EncoderPool, map_in_order};
use orco_runtime::encoder::{EncodeError, Encoder, batch_size, encode_planes};
use orco_runtime::files;
use orco_runtime::image::{Look, Preprocessing};
use orco_state::codec;
use prost::Message;
use tch::Tensor;

use super::imported_onnx::{
    Adaptation, AdaptedModel, BYTE_CHANNELS, adapt, are_byte_channels, names, with_external_data,
    without_constant_nodes,
};
use super::probe::{ProbeError, probe};
use super::source::{FeatureSource, fit};
use crate::config::BackboneConfig;
use crate::data::augment::normalise;
use crate::data::dataset::ChannelStatistics;
use crate::model::onnx_proto::{FLOAT, GraphProto, ModelProto, ValueInfoProto};
use crate::platform::device::values;

/// Why an imported model cannot be the backbone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxBackboneError {
    /// The file could not be read.
    #[error("cannot read the backbone {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file holds no ONNX model.
    #[error(
        "{} is no ONNX model, or not all of one; fetch it again, or write one with torch.onnx.export: weights alone, as a \
         checkpoint has them, do not say what is computed",
        path.display()
    )]
    NotOnnx {
        /// The file.
        path: PathBuf,
    },
    /// The model has other inputs or outputs than a feature extractor.
    #[error("{} cannot be the backbone: {reason}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// What is wrong and what would be accepted.
        reason: String,
    },
    /// Its features would mislead a device.
    #[error("{} cannot be the backbone: {reason}", path.display())]
    Features {
        /// The file.
        path: PathBuf,
        /// What is wrong with them and what to do.
        reason: String,
    },
    /// It holds what a feature extractor has no need of, or ONNX Runtime refused it.
    #[error("{} cannot be the backbone", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What the engine said.
        #[source]
        reason: EncodeError,
    },
}

/// A feature extractor that the user brings as an ONNX file.
#[derive(Clone, Debug)]
pub struct OnnxBackbone {
    /// The model: the file's bytes, or what is left of them once constants are folded.
    pub bytes: Vec<u8>,
    /// SHA-256 of the file, with the weights that lie beside it.
    pub digest: [u8; 32],
    /// The file's name without its ending.
    pub name: String,
    /// What it is fed with.
    pub input: Preprocessing,
    /// Length of a feature vector.
    pub features: usize,
    /// Numbers in the model's floating point weights.
    pub parameters: u64,
    /// Whether the recipe or the model itself says by which mean and deviation its images are normalised.
    pub names_channels: bool,
}

impl OnnxBackbone {
    /// Refuses at once a file that holds no model; [`OnnxBackbone::open`], which needs the data's channels, checks
    /// more.
    ///
    /// # Errors
    /// [`OnnxBackboneError`] if the file cannot be read, or is no ONNX model.
    pub fn check_file(path: &Path) -> Result<(), OnnxBackboneError> {
        let graph = ModelProto::decode(read_file(path)?.as_slice()).ok().and_then(|model| model.graph);
        graph.map(drop).ok_or_else(|| OnnxBackboneError::NotOnnx { path: path.into() })
    }

    /// Reads and checks a model: one input of floats or bytes, `[batch, 3, height, width]` or
    /// `[batch, height, width, 3]`, whose sides are `side` pixels if the model leaves them open, one float output
    /// `[batch, features]` or `[batch, features, 1, 1]`, and engines run it and agree. Half precision becomes f32.
    /// Constants are folded if it holds operators that the engines are not to see, weights beside the file become part
    /// of it, and a batch of one is opened where all layers take more. It is fed with images normalised as the
    /// recipe says, else as its metadata say, else by the data set's `channels`; one that takes bytes normalises them
    /// itself.
    ///
    /// # Errors
    /// [`OnnxBackboneError`] if it is something else.
    pub fn open(
        path: &Path,
        config: &BackboneConfig,
        side: u32,
        channels: ChannelStatistics,
    ) -> Result<Self, OnnxBackboneError> {
        let file = read_file(path)?;
        let no_model = || OnnxBackboneError::NotOnnx { path: path.into() };
        let wrong = |reason: String| OnnxBackboneError::Shape { path: path.into(), reason };
        let to = Adaptation { side, output: config.output.as_deref(), pool: config.pool };
        let whole = with_external_data(file, path).map_err(wrong)?;
        let digest = codec::digest(&whole);
        let AdaptedModel { model: adapted, takes_bytes, took_one } = adapt(whole, to).map_err(wrong)?;
        // A model that does not fit one image either is not wrong because of its batch.
        let took_one = took_one && check_unfolded(&adapted).is_ok();
        let refused = |reason: EncodeError| match remedy_of(&reason, took_one) {
            Some(remedy) => wrong(remedy),
            None => OnnxBackboneError::Refused { path: path.into(), reason },
        };
        // Before constants are folded: that fails on wrong inputs, and on outputs that nobody wants, with errors that
        // say less.
        let unfolded = ModelProto::decode(adapted.as_slice()).map_err(|_| no_model())?.graph.ok_or_else(no_model)?;
        let [height, width] = image_sides(&unfolded).map_err(wrong)?;
        if unfolded.output.len() > 1 {
            check_output(&unfolded.output).map_err(wrong)?;
        }
        drop(unfolded);
        let bytes = without_constant_nodes(adapted).map_err(refused)?;
        let model = ModelProto::decode(bytes.as_slice()).map_err(|_| no_model())?;
        let graph = model.graph.as_ref().ok_or_else(no_model)?;
        check_output(&graph.output).map_err(wrong)?;
        let mean = config.mean.or_else(|| model.three("orco.mean"));
        let deviation = config.deviation.or_else(|| model.three("orco.deviation"));
        let names_channels = takes_bytes || (mean.is_some() && deviation.is_some());
        let default = if takes_bytes { BYTE_CHANNELS } else { channels };
        let given =
            ChannelStatistics { mean: mean.unwrap_or(default.mean), deviation: deviation.unwrap_or(default.deviation) };
        let input = input_of([width, height], given).map_err(wrong)?;
        if takes_bytes && !are_byte_channels(given) {
            return Err(wrong(NORMALISES_ITSELF.to_owned()));
        }
        let floats = graph.initializer.iter().filter(|weight| weight.data_type == FLOAT);
        let parameters = floats.map(|weight| weight.dims.iter().product::<i64>().max(0) as u64).sum();
        let name = path.file_stem().map_or("backbone".into(), |name| name.to_string_lossy().into_owned());
        let features = probe(&bytes, &input).map_err(|error| match error {
            ProbeError::Engine(reason) => refused(reason),
            ProbeError::Features(reason) => OnnxBackboneError::Features { path: path.into(), reason },
        })?;
        Ok(Self { bytes, digest, name, input, features, parameters, names_channels })
    }

    /// The model, started on all cores.
    ///
    /// # Errors
    /// [`EncodeError`] if ONNX Runtime is missing.
    pub fn start(&self) -> Result<ImportedBackbone<'_>, EncodeError> {
        Ok(ImportedBackbone { team: Onnx::pool(&self.bytes, &self.input)?, onnx: self })
    }
}

/// An imported model in ONNX Runtime.
pub struct ImportedBackbone<'a> {
    team: EncoderPool,
    onnx: &'a OnnxBackbone,
}

impl ImportedBackbone<'_> {
    /// Computes features of batches of images, f32 `[k, 3, h, w]` in 0..1, while the caller's thread makes the next
    /// ones; `each` is told of the features, f32 `[k, features]` on the processor, some images after the other.
    ///
    /// # Errors
    /// [`EncodeError`] if the model fails or returns something else, and what `each` returns.
    pub fn stream<E: From<EncodeError>>(
        &mut self,
        batches: impl Iterator<Item = Tensor>,
        mut each: impl FnMut(Tensor) -> Result<(), E>,
    ) -> Result<(), E> {
        let OnnxBackbone { input, features, .. } = self.onnx;
        let parts = batches.flat_map(|images| images.split(batch_size(input) as i64, 0));
        let planes = parts.map(|images| {
            let fitted = normalise(&fit(&images, input), input.mean, input.deviation);
            let shape = (fitted.size()[0] as usize, 3, input.height as usize, input.width as usize);
            Array4::from_shape_vec(shape, values(&fitted)).expect("planes of every image")
        });
        let encode =
            |engine: &mut dyn Encoder, planes: Array4<f32>| encode_planes(engine, input, *features, planes.view());
        map_in_order(
            &mut self.team,
            planes,
            |planes| planes,
            encode,
            |rows| {
                each(Tensor::from_slice(rows.as_slice().expect("rows as they were made")).view([-1, *features as i64]))
            },
        )
    }
}

impl FeatureSource for ImportedBackbone<'_> {
    fn features(&mut self, images: &Tensor) -> Result<Tensor, EncodeError> {
        let mut all = Vec::new();
        self.stream(std::iter::once(images.shallow_clone()), |rows| {
            all.push(rows);
            Ok::<(), EncodeError>(())
        })?;
        Ok(Tensor::cat(&all, 0).to_device(images.device()))
    }
}

/// What stands in the metadata of a model whose mean and deviation are useless.
pub(crate) const UNSOUND_METADATA: &str = "its metadata orco.mean and orco.deviation are no numbers to normalise pixels \
     from 0 to 1 by; such are [0.485, 0.456, 0.406]";

/// What to say in place of an engine's error that does not help. A model that `took_one` image was opened for any
/// number.
fn remedy_of(error: &EncodeError, took_one: bool) -> Option<String> {
    match error {
        EncodeError::Refused(AuditError::Shape { .. }) | EncodeError::Shape { .. } if took_one => Some(fixed_batch(1)),
        EncodeError::Model(error) => remedy_of_engine(error).map(|remedy| format!("{remedy}: {error}")),
        _ => None,
    }
}

/// What helps where ONNX Runtime refuses a model with this error; none where the error itself has to do.
fn remedy_of_engine(error: &str) -> Option<&'static str> {
    const REMEDIES: [(&str, &str); 3] = [
        // While it multiplies exactly, it has none for signed bytes; `quantize_static` writes them with
        // `QuantFormat.QOperator`.
        (
            "QLinear",
            "ONNX Runtime does not accept its operators QLinear...; quantise the model in QDQ form \
             (quant_format=QuantFormat.QDQ)",
        ),
        (
            "Could not find an implementation",
            "ONNX Runtime lacks one of its operators for numbers of this type; a network of f64 is to be exported after \
             model.float()",
        ),
        (
            "Attempt to replace the existing tensor",
            "ONNX Runtime does not accept constants of int8 that several of its nodes read; take the file as \
             quantize_static wrote it, before onnxslim or another optimiser, or quantise with \
             activation_type=QuantType.QUInt8, weight_type=QuantType.QUInt8",
        ),
    ];
    REMEDIES.iter().find(|(part, _)| error.contains(part)).map(|(_, remedy)| *remedy)
}

/// What is said where a mean and a deviation are given for a model that has its own.
const NORMALISES_ITSELF: &str =
    "it takes images of bytes and normalises them itself; leave out backbone.mean and backbone.deviation";

/// What a model is fed with that takes images of this width and height. A recipe's channels were checked when it was
/// read, so what is wrong with them stands in the metadata.
fn input_of([width, height]: [u32; 2], channels: ChannelStatistics) -> Result<Preprocessing, String> {
    if !channels.is_sound() {
        return Err(UNSOUND_METADATA.to_owned());
    }
    let ChannelStatistics { mean, deviation } = channels;
    let input = Preprocessing { width, height, mean, deviation, look: Look::WHOLE };
    if !input.is_sound() {
        return Err(format!(
            "its images of {width}x{height} pixels are larger than 1024x1024; export it for smaller ones"
        ));
    }
    Ok(input)
}

/// The bytes of a model's file.
fn read_file(path: &Path) -> Result<Vec<u8>, OnnxBackboneError> {
    // Of a pipe, which is read once, the second look would find nothing.
    let read = files::read(path, u64::MAX - 1);
    let read = read.map_err(|source| OnnxBackboneError::Read { path: path.into(), source })?;
    if files::is_lfs_pointer(&read) {
        let reason = "it is a Git LFS pointer: run git lfs pull".to_owned();
        return Err(OnnxBackboneError::Shape { path: path.into(), reason });
    }
    if let Some(remedy) = other_format(&read) {
        return Err(OnnxBackboneError::Shape { path: path.into(), reason: remedy.to_owned() });
    }
    Ok(read)
}

/// What to do with a file of another format that starts like this one.
fn other_format(bytes: &[u8]) -> Option<&'static str> {
    const FORMATS: [(usize, &[u8], &str); 3] = [
        (0, b"\x1f\x8b", "it is packed by gzip; unpack it"),
        (2, b"\0\0ORTM", "it is in ONNX Runtime's own format; take the .onnx file that it was made from"),
        (2, b"\0\0TFL3", "it is a TensorFlow Lite model; convert it by tf2onnx"),
    ];
    let starts = |at: usize, magic: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(magic));
    FORMATS.iter().find(|(at, magic, _)| starts(*at, magic)).map(|(.., remedy)| *remedy)
}

/// What is said of a model that takes no other number of images.
fn fixed_batch(images: i64) -> String {
    format!(
        "it takes exactly {images} image(s) at a time; export it for a batch of any size (torch.onnx.export: \
         dynamic_shapes=({{0: torch.export.Dim(\"batch\")}},), or dynamic_axes with dynamo=False)"
    )
}

/// Height and width of the images that are the one input.
fn image_sides(graph: &GraphProto) -> Result<[u32; 2], String> {
    const WANTED: &str = "one input of images [batch, 3, height, width], f32, f16 or bytes";
    // Old models list their weights among the inputs.
    let is_weight = |input: &&ValueInfoProto| graph.initializer.iter().any(|weight| weight.name == input.name);
    let inputs: Vec<&ValueInfoProto> = graph.input.iter().filter(|input| !is_weight(input)).collect();
    let [input] = inputs[..] else {
        // Without these inputs, too, the audit refuses what TensorFlow compiled.
        let is_compiled = graph.node.iter().any(|node| node.op_type == "StatefulPartitionedCall");
        let remedy = if is_compiled {
            "; TensorFlow compiled parts of it (StatefulPartitionedCall), which tf2onnx cannot write: take another network"
                .to_owned()
        } else {
            remedy_of_inputs(&inputs, &graph.output)
        };
        let count = inputs.len();
        return Err(format!(
            "it has {count} inputs ({}), but must have {WANTED}{remedy}",
            names(inputs.iter().copied())
        ));
    };
    let name = &input.name;
    let Some(found) = input.sizes() else {
        let tensor = input.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
        let what = match tensor {
            Some(tensor) if tensor.shape.is_none() => "declares no shape",
            _ => "is of another type (f64, int8?)",
        };
        return Err(format!("its input {name:?} {what}, but must be {WANTED}"));
    };
    match found[..] {
        [None, Some(3), Some(height), Some(width)] => {
            let side = |size: i64| u32::try_from(size).map_err(|_| format!("a side of its images is {size} pixels"));
            Ok([side(height)?, side(width)?])
        }
        [Some(batch), Some(3), ..] if found.len() == 4 => Err(fixed_batch(batch)),
        _ => {
            let size = |size: &Option<i64>| size.map_or_else(|| "any".to_owned(), |size| size.to_string());
            let shape = found.iter().map(size).collect::<Vec<_>>().join(", ");
            let remedy = match found[..] {
                [_, Some(1), _, _] => {
                    "; wrap a network of grey images in one that computes network(images.mean(1, keepdim=True))"
                }
                _ => "",
            };
            Err(format!("its input {name:?} has the shape [{shape}], but must be {WANTED}{remedy}"))
        }
    }
}

/// What helps where a model has not one input, as the end of a sentence.
fn remedy_of_inputs(inputs: &[&ValueInfoProto], outputs: &[ValueInfoProto]) -> String {
    let is_of_channels =
        |input: &&ValueInfoProto| matches!(input.sizes().as_deref(), Some([_, Some(1), Some(1), Some(3)]));
    match outputs {
        _ if inputs.is_empty() => "; no output of it depends on an image: see what the exported model returns".to_owned(),
        _ if inputs.iter().any(is_of_channels) => {
            "; tf2onnx makes such inputs of the mean and deviation of Keras's Normalization: write a SavedModel, \
             model.export(\"saved\"), and convert that, python3 -m tf2onnx.convert --saved-model saved --output model.onnx"
                .to_owned()
        }
        [_, _, ..] if inputs.len() > 1 => format!(
            "; if one of {} needs images alone, choose it by backbone.output, and the other inputs are left out",
            names(outputs)
        ),
        _ => String::new(),
    }
}

/// Whether there is one output that may be a feature vector for each image.
fn check_output(outputs: &[ValueInfoProto]) -> Result<(), String> {
    const WANTED: &str = "one f32 output [batch, features]";
    if outputs.is_empty() {
        return Err(format!(
            "it declares no output, but must have {WANTED}: name one of its values by backbone.output"
        ));
    }
    let [output] = outputs else {
        let names = names(outputs);
        return Err(format!(
            "it has {} outputs, but must have {WANTED}: choose one of {names} by backbone.output",
            outputs.len()
        ));
    };
    let name = &output.name;
    let instead = "name a value before it by backbone.output";
    let found = output.sizes().ok_or_else(|| {
        format!("its output {name:?} is of another type or declares no shape, but must be {WANTED}; {instead}")
    })?;
    let remedy = match found[..] {
        [_, _] | [_, _, Some(1), Some(1)] => return Ok(()),
        [_, _, _] | [_, _, _, _] => {
            "backbone.pool = \"mean\" averages tokens or a feature map, \"first\" takes the first token"
        }
        _ => instead,
    };
    Err(format!("its output {name:?} has {} dimension(s), but must be {WANTED}; {remedy}", found.len()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::model::onnx_proto::{INT8, OperatorSetProto, TensorTypeProto, TypeProto, node};

    /// A value whose dimensions are fixed where they are not 0.
    fn value(elem_type: i32, sizes: &[i64]) -> ValueInfoProto {
        ValueInfoProto::of_sides("x", elem_type, sizes)
    }

    /// A graph of these inputs.
    fn graph(inputs: &[&ValueInfoProto]) -> GraphProto {
        GraphProto { input: inputs.iter().map(|input| (*input).clone()).collect(), ..GraphProto::default() }
    }

    #[test]
    fn what_is_wrong_with_the_input_is_named() {
        let channels = |deviation| ChannelStatistics { mean: [0.5; 3], deviation: [0.2, deviation, 0.2] };
        assert_eq!(input_of([24, 16], channels(0.2)).map(|input| [input.width, input.height]), Ok([24, 16]));
        for deviation in [0.0, -0.2, 58.4, f32::INFINITY] {
            assert_eq!(input_of([24, 16], channels(deviation)), Err(UNSOUND_METADATA.to_owned()), "{deviation}");
        }
        let refused = input_of([24, 1025], channels(0.2)).unwrap_err();
        assert_eq!(refused, "its images of 24x1025 pixels are larger than 1024x1024; export it for smaller ones");
    }

    #[test]
    fn a_folder_is_no_backbone() {
        let folder = tempfile::tempdir().unwrap();
        let refused = OnnxBackbone::check_file(folder.path()).unwrap_err();
        assert!(matches!(&refused, OnnxBackboneError::Read { .. }), "{refused}");
        assert_eq!(std::error::Error::source(&refused).unwrap().to_string(), "it is a folder");
    }

    #[test]
    fn a_file_of_another_format_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        for (bytes, remedy) in [
            (&b"\x1f\x8b\x08\0 packed"[..], "unpack it"),
            (&b"\x30\0\0\0ORTM and more"[..], "take the .onnx file that it was made from"),
            (&b"\x1c\0\0\0TFL3 and more"[..], "convert it by tf2onnx"),
            // A model whose maker has this name.
            (&b"\x08\x08\x12\x04ORTM"[..], "is no ONNX model, or not all of one"),
        ] {
            fs::write(&path, bytes).unwrap();
            let said = OnnxBackbone::check_file(&path).unwrap_err().to_string();
            assert!(said.contains(remedy), "{said}");
        }
    }

    #[test]
    fn what_one_image_does_not_fit_is_not_blamed_on_the_batch() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.onnx");
        let shares = ValueInfoProto { name: "y".into(), ..value(FLOAT, &[1, 3, 8, 8]) };
        let over_several_axes = GraphProto {
            node: vec![node("Softmax", vec!["x".into()], "y", vec![])],
            input: vec![value(FLOAT, &[1, 3, 8, 8])],
            output: vec![shares],
            ..GraphProto::default()
        };
        let opset = OperatorSetProto { domain: String::new(), version: 11 };
        let model = ModelProto {
            ir_version: 6,
            graph: Some(over_several_axes),
            opset_import: vec![opset],
            ..ModelProto::default()
        };
        fs::write(&path, model.encode_to_vec()).unwrap();
        let refused =
            OnnxBackbone::open(&path, &BackboneConfig::default(), 8, ChannelStatistics::default()).unwrap_err();
        assert!(matches!(refused, OnnxBackboneError::Refused { .. }), "{refused}");
    }

    #[test]
    fn what_helps_is_said_of_refusals_of_onnx_runtime() {
        let of_f64 = "Could not find an implementation for Conv(11) node with name 'node_conv2d'";
        assert!(remedy_of_engine(of_f64).unwrap().ends_with("after model.float()"));
        assert!(remedy_of_engine("no kernel for QLinearConv").unwrap().contains("QuantFormat.QDQ"));
        assert!(remedy_of_engine("AddInitializedOrtValue Attempt to replace the existing tensor").is_some());
        assert_eq!(remedy_of_engine("Failed to load model"), None);
    }

    #[test]
    fn shapes_that_are_no_feature_extractors_are_refused() {
        let image = value(FLOAT, &[0, 3, 8, 9]);
        assert_eq!(image_sides(&graph(&[&image])), Ok([8, 9]));
        let refused = |inputs: &[&ValueInfoProto]| image_sides(&graph(inputs)).unwrap_err();
        let both = refused(&[&image, &image]);
        assert!(both.starts_with("it has 2 inputs") && both.ends_with("f32, f16 or bytes"), "{both}");
        assert!(refused(&[]).contains("no output of it depends on an image"));
        let output = |name: &str| ValueInfoProto { name: name.into(), ..value(FLOAT, &[0, 640]) };
        let outputs = vec![output("text_embeds"), output("image_embeds")];
        let towers = image_sides(&GraphProto { output: outputs, ..graph(&[&image, &image]) }).unwrap_err();
        assert!(towers.contains("one of \"text_embeds\", \"image_embeds\" needs images alone"), "{towers}");
        let mean = value(FLOAT, &[1, 1, 1, 3]);
        assert!(refused(&[&image, &mean]).contains("tf2onnx.convert --saved-model"));
        let compiled = node("StatefulPartitionedCall", vec!["x".into()], "y", vec![]);
        let compiled = image_sides(&GraphProto { node: vec![compiled], ..graph(&[&image, &mean]) }).unwrap_err();
        assert!(compiled.ends_with("which tf2onnx cannot write: take another network"), "{compiled}");
        assert!(refused(&[&value(INT8, &[0, 3, 8, 9])]).contains("is of another type"));
        let tensor_type = TensorTypeProto { elem_type: FLOAT, shape: None };
        let shapeless = ValueInfoProto { r#type: Some(TypeProto { tensor_type: Some(tensor_type) }), ..image.clone() };
        assert!(refused(&[&shapeless]).contains("\"x\" declares no shape, but must be one input"));
        assert!(refused(&[&value(FLOAT, &[1, 3, 8, 9])]).contains("exactly 1 image(s)"));
        assert!(refused(&[&value(FLOAT, &[0, 8, 9, 1])]).contains("has the shape [any, 8, 9, 1]"));
        assert!(refused(&[&value(FLOAT, &[0, 1, 8, 9])]).contains("wrap a network of grey images"));
        assert!(refused(&[&value(FLOAT, &[0, 4, 8, 9])]).ends_with("f16 or bytes"));
        let row = value(FLOAT, &[0, 640]);
        assert_eq!(check_output(std::slice::from_ref(&row)), Ok(()));
        assert_eq!(check_output(&[value(FLOAT, &[0, 640, 1, 1])]), Ok(()));
        assert!(check_output(&[row.clone(), row]).unwrap_err().starts_with("it has 2 outputs"));
        assert!(check_output(&[]).unwrap_err().starts_with("it declares no output"));
        let remedy_of = |output: ValueInfoProto| {
            let refused = check_output(&[output]).unwrap_err();
            refused.split_once("; ").unwrap().1.to_owned()
        };
        assert!(remedy_of(value(FLOAT, &[0, 640, 7, 7])).starts_with("backbone.pool = \"mean\""));
        for output in [value(FLOAT, &[0]), value(FLOAT, &[0, 2, 3, 4, 5]), value(INT8, &[0, 640])] {
            assert_eq!(remedy_of(output), "name a value before it by backbone.output");
        }
    }
}
