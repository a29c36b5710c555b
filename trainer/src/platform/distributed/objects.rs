//! Collectives of objects: a checkpoint, which need not lie where other ranks could read it, or images that are
//! broken.

use std::collections::HashMap;

use orco_state::codec;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tch::{Device, Kind, Tensor};

use super::{RankError, RankGroup};

/// Kinds of the tensors that ranks give each other with their names, sent as their places here; checkpoints hold no
/// others.
pub(crate) const TENSOR_KINDS: [Kind; 4] = [Kind::Float, Kind::Double, Kind::Int64, Kind::Uint8];

impl RankGroup {
    /// Gives the named tensors that the first rank has, if it has some, to all.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn broadcast_named(
        &self,
        own: Option<HashMap<String, Tensor>>,
    ) -> Result<Option<HashMap<String, Tensor>>, RankError> {
        if self.size() == 1 {
            return Ok(own);
        }
        let mut named: Vec<(String, Tensor)> = own.into_iter().flatten().collect();
        named.sort_by(|a, b| a.0.cmp(&b.0));
        let kind = |tensor: &Tensor| TENSOR_KINDS.iter().position(|kind| *kind == tensor.kind()).unwrap_or(0);
        let list: Vec<_> = named.iter().map(|(name, tensor)| (name, kind(tensor), tensor.size())).collect();
        let list = self.broadcast_bytes(serde_json::to_vec(&list).expect("names and numbers"))?;
        let list: Vec<(String, usize, Vec<i64>)> = serde_json::from_slice(&list).expect("as rank 0 wrote it");
        let mut tensors = HashMap::new();
        for (place, (name, kind, size)) in list.into_iter().enumerate() {
            let tensor = match self.is_first() {
                true => named[place].1.contiguous(),
                false => Tensor::zeros(&size, (TENSOR_KINDS[kind], Device::Cpu)),
            };
            self.broadcast([&tensor])?;
            tensors.insert(name, tensor);
        }
        Ok((!tensors.is_empty()).then_some(tensors))
    }

    /// The first rank's bytes.
    fn broadcast_bytes(&self, own: Vec<u8>) -> Result<Vec<u8>, RankError> {
        let length = Tensor::from(own.len() as i64);
        self.broadcast([&length])?;
        let length = length.int64_value(&[]);
        let held = match self.is_first() {
            true => Tensor::from_slice(&own),
            false => Tensor::zeros([length], (Kind::Uint8, Device::Cpu)),
        };
        self.broadcast([&held])?;
        Ok(Vec::try_from(held).expect("bytes"))
    }

    /// What every rank has to say, by their numbers.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub(crate) fn gather_all<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<Vec<T>, RankError> {
        let gathered = self.gather_bytes(&serde_json::to_vec(own).expect("plain data"))?;
        Ok(gathered.iter().map(|bytes| serde_json::from_slice(bytes).expect("as a rank wrote it")).collect())
    }

    /// The bytes of every rank, which may be of different lengths.
    pub(super) fn gather_bytes(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, RankError> {
        let lengths = self.gather(&Tensor::from(own.len() as i64).view(1))?;
        let lengths: Vec<i64> = Vec::try_from(lengths).expect("numbers");
        // One byte more, so that no message is empty.
        let row = 1 + lengths.iter().copied().max().unwrap_or(0) as usize;
        let mut padded = own.to_vec();
        padded.resize(row, 0);
        let all: Vec<u8> = Vec::try_from(self.gather(&Tensor::from_slice(&padded))?).expect("bytes");
        Ok(all.chunks(row).zip(lengths).map(|(bytes, length)| bytes[..length as usize].to_vec()).collect())
    }

    /// Refuses what is not the same for all ranks, such as another content of a file that each has its own copy of.
    ///
    /// # Errors
    /// [`RankError::Differs`] on every rank then.
    pub fn require_same(&self, what: &'static str, own: &str) -> Result<(), RankError> {
        let all = self.gather_bytes(&codec::digest(own.as_bytes()))?;
        match all.iter().position(|other| *other != all[0]) {
            Some(rank) => Err(RankError::Differs { what, rank }),
            None => Ok(()),
        }
    }
}
