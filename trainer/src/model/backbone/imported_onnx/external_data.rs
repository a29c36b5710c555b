//! Brings weights that lie in a file beside a model into it. PyTorch's newer exporter puts them there unless told
//! otherwise.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path};

use orco_runtime::encoder::audit::{AuditError, audit_layers};
use orco_runtime::files;
use prost::Message;
use prost::bytes::Bytes;

use super::parts::{ModelParts, unreadable};
use crate::model::onnx_proto::{StringEntryProto, TensorProto};

/// Most bytes of such weights; protocol buffers, and so one file, hold 2 GiB.
const MOST_BYTES: u64 = i32::MAX as u64;
/// `onnx.TensorProto.EXTERNAL`.
const EXTERNAL: i32 = 1;

/// `onnx.TensorProto`, one whose numbers may lie in another file.
#[derive(Clone, PartialEq, Message)]
struct ExternalTensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(string, tag = "8")]
    name: String,
    #[prost(message, repeated, tag = "13")]
    external_data: Vec<StringEntryProto>,
    #[prost(int32, tag = "14")]
    data_location: i32,
}

impl ExternalTensor {
    fn entry(&self, key: &str) -> Option<&str> {
        self.external_data.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str())
    }

    /// Its bytes, of a file beside this model or below its folder, if they are not more than there is room for.
    fn read(&self, model: &Path, room: u64) -> Result<Vec<u8>, String> {
        let location = self.entry("location").unwrap_or_default();
        let place = format!("the data of its tensor {:?} lie in {location:?}", self.name);
        // Other files of the machine are none of a model's business.
        let is_beside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if location.is_empty() || !Path::new(location).components().all(is_beside) {
            return Err(format!("{place}, which is no file beside it; {ONE_FILE}"));
        }
        let number = |key: &str| self.entry(key).map(str::parse::<u64>).transpose();
        let (Ok(offset), Ok(length)) = (number("offset"), number("length")) else {
            return Err(format!("{place} at a place that makes no sense; {ONE_FILE}"));
        };
        let mut bytes = Vec::new();
        let read = open_beside(model, location).and_then(|mut file| {
            file.seek(SeekFrom::Start(offset.unwrap_or(0)))?;
            file.take(length.unwrap_or(u64::MAX).min(room + 1)).read_to_end(&mut bytes)
        });
        let read = read.map_err(|error| {
            format!("{place}, which cannot be read ({error}); keep that file in the model's folder, or {ONE_FILE}")
        })? as u64;
        if read > room {
            return Err("its weights take more than 2 GiB".to_owned());
        }
        if length.is_some_and(|length| read < length) {
            return Err(format!("{place}, which ends before them; both files must come from the same export"));
        }
        Ok(bytes)
    }
}

/// Opens a file of the folder of a model, through no link that leads out of it. Where the model is a link, as in the
/// cache of Hugging Face, one may lead into the folder where the model itself lies.
fn open_beside(model: &Path, location: &str) -> io::Result<File> {
    let folder = files::folder_of(model);
    let file = fs::canonicalize(folder.join(location))?;
    let real_model = fs::canonicalize(model)?;
    if file.starts_with(fs::canonicalize(folder)?) || file.starts_with(files::folder_of(&real_model)) {
        return files::open_regular(&file);
    }
    Err(io::Error::other("a link that leads out of the model's folder"))
}

const ONE_FILE: &str = "export it into a single file (torch.onnx.export: external_data=False)";

/// A model with the weights that lie beside it, `path` being its file. One without such weights, or which is refused
/// for more than them and its nodes, stays as it is.
///
/// # Errors
/// A sentence if such a file cannot be read, or holds too much.
pub fn with_external_data(model: Vec<u8>, path: &Path) -> Result<Vec<u8>, String> {
    // As in `adapt`, writing it anew must not drop what the audit refuses.
    let may_have_some = matches!(
        audit_layers(&model),
        Err(AuditError::ExternalData { .. } | AuditError::Operator { .. } | AuditError::Subgraph { .. })
    );
    if !may_have_some {
        return Ok(model);
    }
    let model = Bytes::from(model);
    let mut parts = ModelParts::decode(model.clone()).map_err(unreadable)?;
    let mut room = MOST_BYTES;
    for weight in &mut parts.graph.get_or_insert_default().initializer {
        let tensor = ExternalTensor::decode(&weight[..]).map_err(unreadable)?;
        if tensor.data_location != EXTERNAL {
            continue;
        }
        let raw_data = tensor.read(path, room)?;
        room -= raw_data.len() as u64;
        let ExternalTensor { dims, data_type, name, .. } = tensor;
        *weight = TensorProto { dims, data_type, name, raw_data }.encode_to_vec().into();
    }
    if room == MOST_BYTES {
        drop(parts);
        return Ok(model.into());
    }
    drop(model);
    Ok(parts.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::super::parts::GraphParts;
    use super::*;
    use crate::model::onnx_proto::{FLOAT, node};

    /// A model of two weights of two numbers each, the first of which lies at this place.
    fn model(entries: &[(&str, &str)]) -> Vec<u8> {
        let outside = ExternalTensor {
            dims: vec![2],
            data_type: FLOAT,
            name: "outside".into(),
            external_data: entries
                .iter()
                .map(|&(key, value)| StringEntryProto { key: key.into(), value: value.into() })
                .collect(),
            data_location: EXTERNAL,
        };
        let graph = GraphParts {
            node: vec![node("Relu", vec!["outside".into()], "y", vec![]).encode_to_vec()],
            initializer: vec![outside.encode_to_vec().into(), tensor("inside", 9).encode_to_vec().into()],
            ..GraphParts::default()
        };
        ModelParts { graph: Some(graph), ..ModelParts::default() }.encode_to_vec()
    }

    fn tensor(name: &str, byte: u8) -> TensorProto {
        TensorProto { dims: vec![2], data_type: FLOAT, name: name.into(), raw_data: vec![byte; 8] }
    }

    #[test]
    fn weights_beside_a_model_are_brought_into_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        fs::write(&path, "").unwrap();
        fs::write(folder.path().join("model.onnx.data"), [[1_u8; 8], [2; 8]].concat()).unwrap();
        let opened = |entries: &[(&str, &str)]| with_external_data(model(entries), &path);
        let location = ("location", "model.onnx.data");
        for (entries, byte) in [
            (&[location, ("length", "8")][..], 1),
            (&[location, ("offset", "8"), ("length", "8"), ("checksum", "0")], 2),
            (&[location, ("offset", "8")], 2),
        ] {
            let graph = ModelParts::decode(&*opened(entries).unwrap()).unwrap().graph.unwrap();
            let weights = graph.initializer.iter().map(|weight| TensorProto::decode(&weight[..]).unwrap());
            assert_eq!(weights.collect::<Vec<_>>(), [tensor("outside", byte), tensor("inside", 9)]);
        }
        for (entries, expected) in [
            (&[("location", "other.data")][..], "\"other.data\", which cannot be read"),
            (&[("location", "../model.onnx.data")], "which is no file beside it"),
            (&[("location", "/etc/hostname")], "which is no file beside it"),
            (&[], "which is no file beside it"),
            (&[location, ("offset", "-8")], "at a place that makes no sense"),
            (&[location, ("offset", "12"), ("length", "8")], "which ends before them"),
        ] {
            let refused = opened(entries).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_to_no_other_folder_than_the_models_and_pipes_are_not_waited_for() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let [cache, folder] = ["cache", "folder"].map(|name| place.path().join(name));
        for made in [&cache, &folder] {
            fs::create_dir(made).unwrap();
        }
        for name in ["model", "weights"] {
            fs::write(cache.join(name), [1; 8]).unwrap();
        }
        symlink(cache.join("weights"), folder.join("linked")).unwrap();
        symlink(cache.join("model"), folder.join("linked.onnx")).unwrap();
        fs::write(folder.join("model.onnx"), "").unwrap();
        let opened = |name: &str, location| with_external_data(model(&[("location", location)]), &folder.join(name));
        assert!(opened("linked.onnx", "linked").is_ok());
        let refused = opened("model.onnx", "linked").unwrap_err();
        assert!(refused.contains("a link that leads out of the model's folder"), "{refused}");
        let made = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status();
        assert!(made.unwrap().success());
        let refused = opened("model.onnx", "pipe").unwrap_err();
        assert!(refused.contains("it is not a regular file"), "{refused}");
    }

    #[test]
    fn other_models_stay_as_they_are() {
        let path = Path::new("nowhere");
        let inside = |operator: &str| {
            let graph = GraphParts {
                node: vec![node(operator, vec!["w".into()], "y", vec![]).encode_to_vec()],
                initializer: vec![tensor("w", 1).encode_to_vec().into()],
                ..GraphParts::default()
            };
            ModelParts { graph: Some(graph), ..ModelParts::default() }.encode_to_vec()
        };
        let outside = model(&[("location", "x")]);
        // Field 25: a function of the model's own.
        let with_function = [&outside[..], &[0xca, 0x01, 0]].concat();
        for model in [inside("Relu"), inside("Unknown"), with_function, b"no model".to_vec()] {
            assert_eq!(with_external_data(model.clone(), path), Ok(model));
        }
    }
}
