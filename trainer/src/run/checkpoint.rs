//! Checkpoints: tensors as a safetensors file that carries its own checksum, in two generations.
//!
//! A new checkpoint is written and synced beside the old one. Then the old one becomes the previous one, and the new
//! one takes its name. Whenever the program ends, a whole checkpoint lies under one of the two names.

use std::collections::HashMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use orco_runtime::files;
use safetensors::tensor::{Metadata, SafeTensors, TensorInfo, TensorView};
use safetensors::{Dtype, serialize};
use tch::{Kind, Tensor};

use super::Run;
use crate::platform::distributed::TENSOR_KINDS;
use crate::run::checksum::{self, Checksum};
use crate::run::files::write_atomically;

/// Named tensors.
pub(crate) type Tensors = HashMap<String, Tensor>;

/// What stands between the checksum and the number of steps.
const AFTER: &str = " after steps: ";

/// What is said where there is no earlier checkpoint to go on from.
const FIRST_FAILED: &str = "cannot save the first checkpoint; the phase begins again when the run continues";

/// What is done where no checkpoint of a name is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DamagePolicy {
    /// The run is refused, and every file stays where it is.
    Refuse,
    /// They are set aside; what they hold is computed again.
    SetAside,
}

/// What a checkpoint holds.
#[derive(Debug)]
struct Checkpoint {
    tensors: Tensors,
    /// Steps of its phase that were taken, if it says so.
    steps: Option<u64>,
}

/// Why a checkpoint is of no use, and what it still says.
#[derive(Debug)]
pub(crate) struct CheckpointDamage {
    reason: &'static str,
    /// Steps of its phase that were taken.
    steps: Option<u64>,
}

impl Run {
    /// Writes a checkpoint after this many `steps` of its phase. The one before is kept as the previous one.
    ///
    /// # Errors
    /// If the file cannot be written; old checkpoints are then still there.
    pub fn save(&self, name: &str, tensors: &[(String, Tensor)], steps: u64) -> Result<()> {
        if !self.group().is_first() {
            return Ok(());
        }
        let path = self.path(name);
        let bytes = encode(tensors, Some(steps)).with_context(|| format!("checkpoint {}", path.display()))?;
        let previous = self.path(&variant(name, "previous"));
        let saved = files::replace_shared_with(&path, |file| file.write_all(&bytes), |_| keep(&path, &previous));
        let saved = saved.with_context(|| format!("cannot write {}", path.display()));
        let is_kept = path.exists() || previous.exists();
        saved.context(if is_kept { "cannot save the checkpoint; the one before it is kept" } else { FIRST_FAILED })
    }

    /// Reads the newest whole checkpoint, if there is one. Of several ranks the first does so, and gives it to the
    /// others. A damaged one is set aside, with a warning, and the previous one is used.
    ///
    /// # Errors
    /// If there are checkpoints, but none is whole, or one cannot be read.
    pub fn load(&self, name: &str) -> Result<Option<HashMap<String, Tensor>>> {
        self.load_or(name, DamagePolicy::Refuse)
    }

    /// As [`Run::load`], for what can be computed again: where none is whole, all are set aside, with a warning.
    ///
    /// # Errors
    /// If one cannot be read or set aside.
    pub fn load_whole(&self, name: &str) -> Result<Option<HashMap<String, Tensor>>> {
        self.load_or(name, DamagePolicy::SetAside)
    }

    fn load_or(&self, name: &str, otherwise: DamagePolicy) -> Result<Option<Tensors>> {
        let own = if self.group().is_first() { self.newest(name, otherwise)? } else { None };
        Ok(self.group().broadcast_named(own)?)
    }

    fn newest(&self, name: &str, otherwise: DamagePolicy) -> Result<Option<Tensors>> {
        let (path, previous) = (self.path(name), self.path(&variant(name, "previous")));
        let shown = path.display();
        let damage = match read(&path)? {
            Some(Ok(checkpoint)) => return Ok(Some(checkpoint.tensors)),
            Some(Err(damage)) => Some(damage),
            None => None,
        };
        match (damage, read(&previous)?) {
            (None, None) => Ok(None),
            (None, Some(Ok(before))) => {
                log::warn!("there is no {shown}; the run goes on from the checkpoint before it");
                Ok(Some(before.tensors))
            }
            (Some(damage), Some(Ok(before))) => {
                let aside = set_aside(&path)?;
                log::warn!(
                    "the checkpoint {shown} is damaged ({}) and was set aside as {}; the run goes on from the one before \
                     it: {}",
                    damage.reason,
                    aside.display(),
                    lost(damage.steps, before.steps)
                );
                Ok(Some(before.tensors))
            }
            (damage, before) => {
                let damage = damage.into_iter().map(|damage| (&path, damage));
                let damage: Vec<_> =
                    damage.chain(before.and_then(Result::err).map(|damage| (&previous, damage))).collect();
                let listed: Vec<String> =
                    damage.iter().map(|(path, damage)| format!("{} ({})", path.display(), damage.reason)).collect();
                if otherwise == DamagePolicy::Refuse {
                    bail!(
                        "no whole checkpoint is left; damaged: {}; put back a copy, or move it away to start this phase \
                         again",
                        listed.join(", ")
                    );
                }
                for (path, _) in damage {
                    set_aside(path)?;
                }
                log::warn!(
                    "damaged and set aside: {}; the run goes on from the checkpoint before, or begins this phase again",
                    listed.join(", ")
                );
                Ok(None)
            }
        }
    }

    /// Steps of its phase that were taken before a checkpoint, if it is there and whole, and says so.
    pub(crate) fn steps(&self, name: &str) -> Option<u64> {
        read(&self.path(name)).ok()??.ok()?.steps
    }

    /// Whether there is a checkpoint, whole or not.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Takes over a checkpoint of another run, unless this one has its own or there is none. An own one that is damaged
    /// is set aside, with a warning.
    ///
    /// # Errors
    /// If it cannot be read or written, or is damaged.
    pub fn take_over(&self, name: &str, other: &Path) -> Result<()> {
        let (own, other) = (self.path(name), other.join(name));
        match read(&own)? {
            Some(Ok(_)) => return Ok(()),
            Some(Err(damage)) if other.exists() => {
                let aside = set_aside(&own)?;
                let (own, aside) = (own.display(), aside.display());
                log::warn!("the checkpoint {own} is damaged ({}) and was set aside as {aside}", damage.reason);
            }
            _ => {}
        }
        let bytes = match fs::read(&other) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", other.display())),
        };
        if let Err(damage) = decode(&other, &bytes) {
            bail!("the checkpoint {} is damaged ({})", other.display(), damage.reason);
        }
        write_atomically(&own, &bytes)
    }

    /// Removes a checkpoint and the one before it, if they are there.
    ///
    /// # Errors
    /// If one is still there.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.remove_previous(name)?;
        if self.group().is_first() { remove(&self.path(name)) } else { Ok(()) }
    }

    /// Removes the one before a checkpoint, if it is there.
    ///
    /// # Errors
    /// If it is still there.
    pub fn remove_previous(&self, name: &str) -> Result<()> {
        if self.group().is_first() { remove(&self.path(&variant(name, "previous"))) } else { Ok(()) }
    }
}

fn remove(path: &Path) -> Result<()> {
    files::remove_if_there(path).with_context(|| format!("cannot remove {}", path.display()))
}

/// `NAME-WORD.safetensors` beside `NAME.safetensors`.
fn variant(name: &str, word: &str) -> String {
    let stem = name.strip_suffix(".safetensors").unwrap_or(name);
    format!("{stem}-{word}.safetensors")
}

/// Keeps a checkpoint, if there is one, under the name of the previous one, while it stays under its own where the file
/// system can give a file two names.
fn keep(path: &Path, previous: &Path) -> std::io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    let linked = files::partial(previous);
    files::remove_if_there(&linked)?;
    match fs::hard_link(path, &linked) {
        Ok(()) => {
            fs::rename(&linked, previous)?;
            // Two names of one file are left as they are by renaming one to the other.
            files::remove_if_there(&linked)
        }
        Err(_) => fs::rename(path, previous),
    }
}

/// Gives a damaged checkpoint a name that nothing has; returns it.
fn set_aside(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut names = (1..).map(|number| path.with_file_name(variant(&name, &format!("damaged-{number}"))));
    let free = names.find(|aside| fs::symlink_metadata(aside).is_err()).expect("numbers enough");
    fs::rename(path, &free).with_context(|| format!("cannot set the damaged {} aside", path.display()))?;
    Ok(free)
}

/// What going back to the checkpoint before costs, in words.
fn lost(damaged: Option<u64>, before: Option<u64>) -> String {
    match (damaged.zip(before).and_then(|(damaged, before)| damaged.checked_sub(before)), before) {
        (Some(1), _) => "1 step is lost and computed again".into(),
        (Some(steps), _) => format!("{steps} steps are lost and computed again"),
        (None, Some(before)) => format!("the steps after step {before} are lost and computed again"),
        (None, None) => "the steps between them are lost and computed again".into(),
    }
}

/// A checkpoint, or how it is damaged; nothing if it is not there.
fn read(path: &Path) -> Result<Option<Result<Checkpoint, CheckpointDamage>>> {
    let shown = path.display();
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        facts => {
            let facts = facts.with_context(|| format!("cannot read the checkpoint {shown}"))?;
            ensure!(facts.is_file(), "the checkpoint {shown} is no file; move it away");
        }
    }
    match fs::read(path) {
        Ok(bytes) => Ok(Some(decode(path, &bytes))),
        // What a disk says of a sector that it cannot read.
        Err(error) if error.raw_os_error() == Some(libc::EIO) => {
            Ok(Some(Err(CheckpointDamage { reason: "the disk cannot read it", steps: None })))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read the checkpoint {shown}")),
    }
}

/// What safetensors calls torch's kinds of numbers.
const KINDS: [(Dtype, Kind); 10] = [
    (Dtype::BOOL, Kind::Bool),
    (Dtype::U8, Kind::Uint8),
    (Dtype::I8, Kind::Int8),
    (Dtype::I16, Kind::Int16),
    (Dtype::I32, Kind::Int),
    (Dtype::I64, Kind::Int64),
    (Dtype::F16, Kind::Half),
    (Dtype::BF16, Kind::BFloat16),
    (Dtype::F32, Kind::Float),
    (Dtype::F64, Kind::Double),
];

fn kind_of(dtype: Dtype) -> Option<Kind> {
    KINDS.iter().find(|(there, _)| *there == dtype).map(|(_, kind)| *kind)
}

/// Tensors as the bytes of a safetensors file, with its checksum and the steps that were taken.
pub(crate) fn encode(tensors: &[(String, Tensor)], steps: Option<u64>) -> Result<Vec<u8>> {
    let plain = |(name, tensor): &(String, Tensor)| -> Result<(String, Dtype, Vec<usize>, Vec<u8>)> {
        let kind = KINDS.iter().find(|(_, kind)| *kind == tensor.kind() && TENSOR_KINDS.contains(kind));
        let Some(&(kind, _)) = kind else { bail!("{name} is of kind {:?}, which no checkpoint holds", tensor.kind()) };
        let tensor = tensor.detach().to_device(tch::Device::Cpu).contiguous();
        let mut bytes = vec![0; tensor.numel() * tensor.kind().elt_size_in_bytes()];
        tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
        Ok((name.clone(), kind, tensor.size().iter().map(|&size| size as usize).collect(), bytes))
    };
    let plain = tensors.iter().map(plain).collect::<Result<Vec<_>>>()?;
    let views =
        plain.iter().map(|(name, kind, shape, bytes)| Ok((name, TensorView::new(*kind, shape.clone(), bytes)?)));
    let after = steps.map_or_else(String::new, |steps| format!("{AFTER}{steps}"));
    // One entry: several have no order, and the same checkpoint shall be the same bytes.
    let metadata = HashMap::from([(checksum::NAME.to_owned(), format!("{}{after}", checksum::BLANK))]);
    Ok(checksum::fill(serialize(views.collect::<Result<Vec<_>>>()?, Some(metadata))?))
}

/// The bytes of a safetensors file's header, as far as they are there, and where its checksum stands in them.
#[derive(Clone, Copy)]
struct Header<'a> {
    bytes: &'a [u8],
    checksum: Option<usize>,
}

impl<'a> Header<'a> {
    fn of(file: &'a [u8]) -> Self {
        let length = file.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
        let end = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(8).min(file.len());
        let bytes = &file[..end];
        Self { bytes, checksum: checksum::place(bytes) }
    }

    /// What a checkpoint's header says of the steps that were taken, believed or not.
    fn steps(self) -> Option<u64> {
        let after = self.bytes.get(self.checksum? + checksum::BLANK.len()..)?.strip_prefix(AFTER.as_bytes())?;
        let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).map(|byte| char::from(*byte));
        digits.collect::<String>().parse().ok()
    }
}

/// A safetensors file, ours or somebody else's, whose header is read once.
pub(crate) struct TensorFile<'a> {
    bytes: &'a [u8],
    header: Header<'a>,
    metadata: Metadata,
    /// What follows the header.
    data: &'a [u8],
}

impl<'a> TensorFile<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// If it cannot be read, or the file is not as long as it says.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, CheckpointDamage> {
        let header = Header::of(bytes);
        match SafeTensors::read_metadata(bytes) {
            Ok((length, metadata)) => Ok(Self { bytes, header, metadata, data: &bytes[8 + length..] }),
            Err(_) => Err(CheckpointDamage { reason: "it is cut off or overwritten", steps: header.steps() }),
        }
    }

    /// Whether the file is as it was written, where it is one of ours; others have no checksum.
    pub(crate) fn checksum(&self) -> Checksum {
        Checksum::at(self.bytes, self.header.checksum)
    }

    /// The tensors by name; nothing where one is of a kind that torch does not have.
    pub(crate) fn tensors(&self) -> Option<Tensors> {
        self.metadata.tensors().into_iter().map(|(name, info)| Some((name, self.tensor(info)?))).collect()
    }

    fn tensor(&self, info: &TensorInfo) -> Option<Tensor> {
        let size: Vec<i64> = info.shape.iter().map(|&size| size as i64).collect();
        let (start, end) = info.data_offsets;
        Tensor::f_from_data_size(&self.data[start..end], &size, kind_of(info.dtype)?).ok()
    }
}

fn decode(path: &Path, bytes: &[u8]) -> Result<Checkpoint, CheckpointDamage> {
    let file = TensorFile::open(bytes)?;
    let steps = file.header.steps();
    let damage = |reason| CheckpointDamage { reason, steps };
    let checksum = match (file.checksum(), file.metadata.metadata()) {
        // Programs that wrote no checksum wrote no metadata either.
        (Checksum::Absent, Some(_)) => Checksum::Differs,
        (checksum, _) => checksum,
    };
    if !checksum::may_be_used(path, checksum) {
        return Err(damage("it does not match its checksum"));
    }
    let known = |tensors: &Tensors| tensors.values().all(|tensor| TENSOR_KINDS.contains(&tensor.kind()));
    let tensors = file.tensors().filter(known).ok_or_else(|| damage("it holds what no checkpoint holds"))?;
    Ok(Checkpoint { tensors, steps })
}

#[cfg(test)]
mod tests;
