//! Data-parallel training: several processes, the ranks, train one model, each on its own share of every batch.
//!
//! A [`RankGroup`] is what a rank knows of the others. Its collectives are those of c10d, PyTorch's own engine (Gloo
//! between processors, NCCL between GPUs), through a few functions in `trainer/cpp`. A process that trains alone has a
//! group too, in which nothing is sent and nothing changes, so callers need not ask.
//!
//! Every collective must be called by all ranks, in the same order. What only some ranks know, such as a stop that was
//! asked for, is therefore agreed on first ([`RankGroup::any`]).

#[cfg(c10d)]
mod c10d;
#[cfg(not(c10d))]
#[path = "distributed/without_c10d.rs"]
mod c10d;
mod objects;
mod place;
mod shared_rows;

use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tch::{Device, Kind, Tensor, no_grad};

pub(crate) use self::objects::TENSOR_KINDS;
pub use self::place::RankPlace;
pub(crate) use self::shared_rows::SharedRows;
use crate::platform::device::{self, DeviceChoice};
use crate::platform::interrupt::{self, Activity};

/// How long a step waits for another rank: a machine that fell silent ends the job after this time. A process that ends
/// is noticed at once, by its closed connections.
const STEP_TIMEOUT: Duration = Duration::from_secs(45);
/// How long is waited where ranks may be apart: for all of them to start, and after work that takes minutes.
const APART_TIMEOUT: Duration = Duration::from_secs(600);

/// Why ranks cannot train together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RankError {
    /// The launcher's variables make no sense.
    #[error("{name} is {value:?}, but must be {expected}; start the ranks with torchrun or srun")]
    Variable {
        /// Name of the environment variable.
        name: &'static str,
        /// Its value, empty if it is not set.
        value: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// The ranks did not find each other.
    #[error("rank {rank} of {size} could not meet the others at {host}:{port}: {reason}")]
    Meet {
        /// The own rank.
        rank: usize,
        /// How many there are.
        size: usize,
        /// Where they were to meet.
        host: String,
        /// And at which port.
        port: u16,
        /// What c10d said.
        reason: String,
    },
    /// Another rank ended, or cannot be reached any more.
    #[error("rank {rank} of {size} {}; {}", lost_sentence(reason), ADVICE)]
    Lost {
        /// The own rank.
        rank: usize,
        /// How many there are.
        size: usize,
        /// What c10d said.
        reason: String,
    },
    /// A batch cannot be shared equally.
    #[error("{setting} is {batch}, which {size} ranks cannot share equally; start a number of ranks that divides it")]
    Indivisible {
        /// The setting of the recipe.
        setting: &'static str,
        /// Its value.
        batch: usize,
        /// Number of ranks.
        size: usize,
    },
    /// Ranks were started with different things.
    #[error("rank {rank} has {what} other than rank 0's; give every rank the same recipe, data, lists and weights")]
    Differs {
        /// What is not the same.
        what: &'static str,
        /// The first rank that has something else.
        rank: usize,
    },
    /// The libtorch that this program was built with lacks c10d.
    #[error("this program was built with a libtorch whose headers lack c10d, so it trains in one process only")]
    Missing,
}

/// What the shim says first where a collective failed.
pub(crate) const LOST: &str = "lost the other ranks: ";
/// What can be done then.
pub(crate) const ADVICE: &str = "the log of the rank that ended first says why, and the same command continues the run";

/// The reason, which begins with [`LOST`] in any case.
fn lost_sentence(reason: &str) -> String {
    if reason.starts_with(LOST) { reason.to_owned() } else { format!("{LOST}{reason}") }
}

/// Meets the other ranks, and says so where that takes long: one of them may never have been started.
fn meet(place: &RankPlace, cuda: bool) -> Result<c10d::CollectiveEngine, RankError> {
    const LONG: Duration = Duration::from_secs(10);
    let (done, waiting) = mpsc::channel::<()>();
    let RankPlace { rank, size, host, port, .. } = place.clone();
    interrupt::enter(Activity::Meeting);
    thread::scope(|scope| {
        scope.spawn(move || {
            if waiting.recv_timeout(LONG) == Err(mpsc::RecvTimeoutError::Timeout) {
                let minutes = APART_TIMEOUT.as_secs() / 60;
                log::warn!(
                    "rank {rank} of {size} waits for the others at {host}:{port}, {minutes} minutes at the most"
                );
            }
        });
        let met = c10d::CollectiveEngine::meet(place, cuda);
        drop(done);
        interrupt::enter(Activity::Unsaved);
        met
    })
}

/// The ranks that train together.
#[derive(Clone, Debug, Default)]
pub struct RankGroup(Option<Arc<Ranks>>);

#[derive(Debug)]
struct Ranks {
    rank: usize,
    size: usize,
    local: usize,
    engine: c10d::CollectiveEngine,
}

impl RankGroup {
    /// A process that trains alone.
    pub fn alone() -> Self {
        Self(None)
    }

    /// Meets the other ranks that a launcher started, as its environment variables say (see [`RankPlace`]); without
    /// them this process trains alone.
    ///
    /// # Errors
    /// [`RankError`] if the variables make no sense, or the others do not come within ten minutes.
    pub fn from_environment(device: DeviceChoice) -> Result<Self, RankError> {
        let Some(place) = RankPlace::from_environment()? else { return Ok(Self::alone()) };
        // NCCL serves the current CUDA device, which is that of the rank.
        let cuda = device != DeviceChoice::Cpu && matches!(device::open_at(device, place.local), Ok(Device::Cuda(_)));
        let engine = meet(&place, cuda)?;
        let RankPlace { rank, size, local, .. } = place;
        let group = Self(Some(Arc::new(Ranks { rank, size, local, engine })));
        // All have met before one may end: whoever is still connecting would report a lost rank instead of the reason.
        group.barrier()?;
        Ok(group)
    }

    /// The own number, from 0.
    pub fn rank(&self) -> usize {
        self.0.as_ref().map_or(0, |ranks| ranks.rank)
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.0.as_ref().map_or(1, |ranks| ranks.size)
    }

    /// The own number among the ranks of this machine, which is also that of its GPU; none where this process trains
    /// alone.
    pub fn local(&self) -> Option<usize> {
        self.0.as_ref().map(|ranks| ranks.local)
    }

    /// Whether this rank writes: checkpoints, metrics, the bundle.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Refuses a batch that the ranks cannot share equally.
    ///
    /// # Errors
    /// [`RankError::Indivisible`] then.
    pub fn require_divisible(&self, setting: &'static str, batch: usize) -> Result<(), RankError> {
        let size = self.size();
        if batch.is_multiple_of(size) { Ok(()) } else { Err(RankError::Indivisible { setting, batch, size }) }
    }

    /// The own rows of a batch, of which every rank gets as many.
    pub fn own_rows(&self, batch: usize) -> Range<usize> {
        let each = batch / self.size();
        self.rank() * each..(self.rank() + 1) * each
    }

    /// Replaces tensors by their means over all ranks, as one message.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn all_reduce_mean<'a>(&self, tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<(), RankError> {
        let Some(ranks) = &self.0 else { return Ok(()) };
        let tensors: Vec<&Tensor> = tensors.into_iter().collect();
        no_grad(|| {
            let parts: Vec<Tensor> = tensors.iter().map(|tensor| tensor.reshape([-1])).collect();
            let mut flat = Tensor::cat(&parts, 0);
            self.or_lost(ranks.engine.all_reduce(&flat, STEP_TIMEOUT))?;
            let _ = flat.g_div_scalar_(ranks.size as f64);
            let sizes: Vec<i64> = tensors.iter().map(|tensor| tensor.numel() as i64).collect();
            for (tensor, mean) in tensors.iter().zip(flat.split_with_sizes(&sizes, 0)) {
                tensor.shallow_clone().copy_(&mean.view(tensor.size().as_slice()));
            }
            Ok(())
        })
    }

    /// Sums a tensor over all ranks into a new one; gradients flow back to all of them.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn all_reduce_sum(&self, part: &Tensor) -> Result<Tensor, RankError> {
        let Some(ranks) = &self.0 else { return Ok(part.shallow_clone()) };
        self.or_lost(ranks.engine.all_reduce_with_gradient(part, STEP_TIMEOUT))
    }

    /// The rows of all ranks for every view of the batch, in the order in which a single process has them; gradients
    /// flow back. A loss over them is the same on every rank, and its gradients, averaged over the ranks, are those of
    /// a single process.
    ///
    /// # Shapes
    /// `rows` `[views b, d]`, all of the first view first, b the own share; returns `[views b ranks, d]`.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn gather_views(&self, rows: &Tensor, views: i64) -> Result<Tensor, RankError> {
        let Some(ranks) = &self.0 else { return Ok(rows.shallow_clone()) };
        let width = rows.size()[1];
        let by_image = rows.view([views, -1, width]).transpose(0, 1).contiguous();
        let all = self.or_lost(ranks.engine.gather(&by_image, STEP_TIMEOUT))?;
        Ok(all.transpose(0, 1).reshape([-1, width]))
    }

    /// The indices that this rank works on where `indices` are shared among all, as many on every rank: some come twice
    /// if they cannot be shared equally. [`RankGroup::gather_rows`] brings the results together.
    pub fn own_part(&self, indices: &[usize]) -> Vec<usize> {
        let each = indices.len().div_ceil(self.size());
        let first = self.rank() * each;
        (first..first + each).map(|place| indices[place % indices.len()]).collect()
    }

    /// Brings the rows together that the ranks computed for their parts of `count` indices, in the order of those.
    ///
    /// # Shapes
    /// `rows` `[n, ...]`, one for each index of [`RankGroup::own_part`]; returns `[count, ...]`.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn gather_rows(&self, rows: &Tensor, count: usize) -> Result<Tensor, RankError> {
        Ok(self.gather(rows)?.narrow(0, 0, count as i64))
    }

    /// The rows of all ranks, one rank's after the other's, after work that may have taken one of them minutes more.
    fn gather(&self, rows: &Tensor) -> Result<Tensor, RankError> {
        let Some(ranks) = &self.0 else { return Ok(rows.shallow_clone()) };
        self.or_lost(ranks.engine.gather(&rows.detach(), APART_TIMEOUT))
    }

    /// Gives the first rank's tensors to all, in place.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn broadcast<'a>(&self, tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<(), RankError> {
        let Some(ranks) = &self.0 else { return Ok(()) };
        tensors.into_iter().try_for_each(|tensor| self.or_lost(ranks.engine.broadcast(tensor, APART_TIMEOUT)))
    }

    /// The first rank's number.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn broadcast_number(&self, number: f64) -> Result<f64, RankError> {
        let held = Tensor::from(number);
        self.broadcast([&held])?;
        Ok(held.double_value(&[]))
    }

    /// Whether it is so on any rank.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn any(&self, own: bool) -> Result<bool, RankError> {
        self.each_on_any([own]).map(|[any]| any)
    }

    /// As [`RankGroup::any`], of each of several things, in one message.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn each_on_any<const N: usize>(&self, own: [bool; N]) -> Result<[bool; N], RankError> {
        let Some(ranks) = &self.0 else { return Ok(own) };
        let counts = Tensor::from_slice(&own.map(i64::from));
        self.or_lost(ranks.engine.all_reduce(&counts, STEP_TIMEOUT))?;
        Ok(std::array::from_fn(|place| counts.int64_value(&[place as i64]) > 0))
    }

    /// Waits for all ranks, after work that may have taken one of them minutes more.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn barrier(&self) -> Result<(), RankError> {
        let Some(ranks) = &self.0 else { return Ok(()) };
        self.or_lost(ranks.engine.all_reduce(&Tensor::zeros([1], (Kind::Int64, Device::Cpu)), APART_TIMEOUT))
    }

    /// Waits for the first rank, after work of its own that may have taken minutes, such as writing a checkpoint. The
    /// first one itself waits as long as in a step: the others had nothing to do meanwhile.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub fn wait_for_first(&self) -> Result<(), RankError> {
        let Some(ranks) = &self.0 else { return Ok(()) };
        let timeout = if self.is_first() { STEP_TIMEOUT } else { APART_TIMEOUT };
        self.or_lost(ranks.engine.all_reduce(&Tensor::zeros([1], (Kind::Int64, Device::Cpu)), timeout))
    }

    /// Draws random numbers that differ from rank to rank, and leaves torch's generator in a state that all share, as
    /// it was before.
    pub fn draw_separately<T>(&self, draw: impl FnOnce() -> T) -> T {
        let Some(ranks) = &self.0 else { return draw() };
        let common = Tensor::randint(i64::MAX, [1], (Kind::Int64, Device::Cpu)).int64_value(&[0]);
        /// Odd, and far from a small multiple of a power of two.
        const STRIDE: i64 = 0x1e37_79b9_7f4a_7c15;
        let seed = |number: usize| common.wrapping_add(STRIDE.wrapping_mul(number as i64));
        tch::manual_seed(seed(ranks.rank + 1));
        let drawn = draw();
        tch::manual_seed(seed(0));
        drawn
    }

    fn or_lost<T>(&self, result: Result<T, String>) -> Result<T, RankError> {
        result.map_err(|reason| RankError::Lost { rank: self.rank(), size: self.size(), reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orco_trials::alone::alone;

    #[test]
    fn alone_nothing_changes() {
        let group = RankGroup::alone();
        assert_eq!((group.rank(), group.size(), group.is_first(), group.local()), (0, 1, true, None));
        assert_eq!((group.own_rows(12), group.own_part(&[4, 5, 6])), (0..12, vec![4, 5, 6]));
        let rows = Tensor::arange(6, (Kind::Float, Device::Cpu)).view([3, 2]);
        assert!(
            group.gather_views(&rows, 3).unwrap().equal(&rows) && group.all_reduce_sum(&rows).unwrap().equal(&rows)
        );
        alone("platform::distributed::tests::alone_nothing_changes", || {
            let draw = || Tensor::rand([4], (Kind::Float, Device::Cpu));
            tch::manual_seed(3);
            let drawn = group.draw_separately(draw);
            tch::manual_seed(3);
            assert!(drawn.equal(&draw()));
        });
        assert!(!group.any(false).unwrap() && group.any(true).unwrap());
        assert_eq!(group.each_on_any([false, true]).unwrap(), [false, true]);
        group.wait_for_first().unwrap();
    }

    #[test]
    fn a_lost_rank_is_said_once() {
        let lost = |reason: &str| RankError::Lost { rank: 1, size: 2, reason: reason.into() }.to_string();
        let expected = format!("rank 1 of 2 lost the other ranks: closed; {ADVICE}");
        assert_eq!((lost("closed"), lost("lost the other ranks: closed")), (expected.clone(), expected));
        let share = RankError::Indivisible { setting: "pretrain.batch", batch: 64, size: 3 }.to_string();
        assert!(share.starts_with("pretrain.batch is 64, which 3 ranks cannot share equally"), "{share}");
    }
}
