//! Limits the memory that the pictures of all requests take together: a request is admitted before any work is done.
//!
//! The memory is divided into three fixed pools. *Files* is for bodies, from their first byte until they are decoded,
//! and for large answers; a request that finds too little there is refused at once. *Small* and *large* pictures are
//! decoded in pools of their own: a request waits for memory of its pool, in the order of arrival, so a small picture
//! never waits for a large one. A request that waits holds no memory of either, so there is no deadlock. How much
//! memory a picture takes is known from its header ([`orco_runtime::image::decoding_cost()`]).
//!
//! Memory is given back when the permit that holds it is dropped: a picture that is still being decoded counts even if
//! its sender is gone.

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use orco_runtime::image::{DecodingCost, Look, Preprocessing};
use orco_runtime::quality;
use orco_runtime::threads::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::allocator;
use crate::refusal::{ErrorCode, Refusal};

/// Bytes of each body or answer that are not counted: the limit on connections bounds how much they add up to.
pub const UNCOUNTED_BYTES: usize = 64 << 10;
/// Least memory for pictures that takes every picture that can be decoded, in bytes.
pub const MIN_MEMORY: u64 = 192 << 20;
/// Most memory for pictures unless a setting says otherwise, in bytes: more does not make two cores faster.
pub const MAX_DEFAULT_MEMORY: u64 = 512 << 20;
/// Most requests at a time with small pictures: they wait for memory, are decoded, or wait for the answer.
const MAX_SMALL_REQUESTS: usize = 32;
/// The same for large pictures.
const MAX_LARGE_REQUESTS: usize = 16;
/// Longest side at which a picture is kept or shown, in pixels: more than any backbone sees. Longer ones are reduced.
pub const MAX_KEPT_SIDE: u32 = 640;
/// Most bytes that reducing a longer picture takes ([`crate::pending_shots::Candidate::of`]).
const REDUCING_BYTES: u64 = 20 << 20;
/// How long a request waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(20);
/// What memory is counted in, so that a semaphore's 32 bits suffice.
const UNIT: u64 = 1 << 10;

/// Memory for pictures unless a setting says otherwise, in bytes: an eighth of what this program may have, within
/// [`MIN_MEMORY`] and [`MAX_DEFAULT_MEMORY`].
pub fn default_memory() -> u64 {
    orco_runtime::memory::limit().map_or(MAX_DEFAULT_MEMORY, |bytes| (bytes / 8).clamp(MIN_MEMORY, MAX_DEFAULT_MEMORY))
}

/// Most bytes that a picture takes at a time, from decoding it to the last that is done with it: it is scaled to the
/// backbone's input, judged, and reduced for a thumbnail, the inbox or the live view.
pub fn processing_bytes(cost: &DecodingCost, input: &Preprocessing) -> u64 {
    let judged = Preprocessing { width: quality::SIDE, height: quality::SIDE, look: Look::WHOLE, ..*input };
    let is_long = cost.width.max(cost.height) > MAX_KEPT_SIDE;
    let small = cost.picture_bytes() + if is_long { REDUCING_BYTES } else { REDUCING_BYTES / 16 };
    cost.with_scaling(input).max(cost.with_scaling(&judged)).max(small)
}

/// How memory is divided, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MemoryPools {
    files: u64,
    small: u64,
    large: u64,
}

impl MemoryPools {
    fn of(memory: u64) -> Self {
        let eighth = memory / 8;
        Self { files: 3 * eighth, small: eighth, large: memory - 4 * eighth }
    }

    /// Most bytes of a small picture: at least two of these fit at a time.
    fn max_small_bytes(&self) -> u64 {
        self.small / 2
    }
}

/// Memory for small or for large pictures, given out in the order of arrival.
#[derive(Debug)]
struct PicturePool {
    /// Its bytes.
    size: u64,
    /// What of them is free, in units.
    free: Arc<Semaphore>,
    /// How many more requests may wait for it or hold a part of it.
    requests: Arc<Semaphore>,
}

impl PicturePool {
    fn new(size: u64, max_requests: usize) -> Self {
        Self { size, free: semaphore(size), requests: Arc::new(Semaphore::new(max_requests)) }
    }
}

fn semaphore(bytes: u64) -> Arc<Semaphore> {
    Arc::new(Semaphore::new((bytes / UNIT) as usize))
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

#[derive(Debug)]
struct PictureMemory {
    pools: MemoryPools,
    files: Arc<Semaphore>,
    small: PicturePool,
    large: PicturePool,
}

impl PictureMemory {
    /// Whether nothing large is held.
    fn is_idle(&self) -> bool {
        let is_free = |free: &Semaphore, size: u64| free.available_permits() as u64 == size / UNIT;
        is_free(&self.large.free, self.large.size) && is_free(&self.files, self.pools.files)
    }
}

/// Admits pictures.
#[derive(Clone, Debug)]
pub struct Admission(Arc<PictureMemory>);

impl Admission {
    /// Admits pictures, bodies and answers that together take at most `memory` bytes.
    pub fn new(memory: u64) -> Self {
        let pools = MemoryPools::of(memory);
        Self(Arc::new(PictureMemory {
            pools,
            files: semaphore(pools.files),
            small: PicturePool::new(pools.small, MAX_SMALL_REQUESTS),
            large: PicturePool::new(pools.large, MAX_LARGE_REQUESTS),
        }))
    }

    /// A permit for a body, empty at first; [`BodyPermit::grow_to`] takes memory as the body arrives.
    pub fn body(&self) -> BodyPermit {
        self.body_beside(0)
    }

    /// As [`Admission::body`], for what is made of a body, or for an answer; `held` are the bytes that the same request
    /// holds by other permits.
    pub fn body_beside(&self, held: usize) -> BodyPermit {
        BodyPermit { held: None, beside: counted_units(held), admission: self.clone() }
    }

    /// Waits until a picture that takes `bytes` bytes may be decoded.
    ///
    /// # Errors
    /// [`Refusal`] if too many wait, it waited too long, or no picture may have so many bytes.
    pub async fn admit(&self, bytes: u64) -> Result<Permit, Refusal> {
        let pool = self.pool(bytes)?;
        let busy = || Refusal::too_many_requests("too many pictures are being processed; try again");
        let request = Arc::clone(&pool.requests).try_acquire_owned().map_err(|_| busy())?;
        let memory = Arc::clone(&pool.free).acquire_many_owned(units(bytes));
        let memory = tokio::time::timeout(TURN_TIMEOUT, memory).await;
        let memory = memory.map_err(|_| busy())?.map_err(|_| Refusal::stopping())?;
        Ok(Permit::new(memory, Some(request), self))
    }

    /// As [`Admission::admit`], for a thread, which does not wait; `None` if too little memory is free now.
    ///
    /// # Errors
    /// [`Refusal`] if no picture may have so many bytes.
    pub fn try_admit(&self, bytes: u64) -> Result<Option<Permit>, Refusal> {
        let memory = Arc::clone(&self.pool(bytes)?.free).try_acquire_many_owned(units(bytes)).ok();
        Ok(memory.map(|memory| Permit::new(memory, None, self)))
    }

    /// Has the heap trimmed once nothing large is held.
    fn trim_if_idle(&self) {
        if self.0.is_idle() {
            allocator::want_trim();
        }
    }

    fn pool(&self, bytes: u64) -> Result<&PicturePool, Refusal> {
        let PictureMemory { pools, small, large, .. } = &*self.0;
        if bytes <= pools.max_small_bytes() {
            return Ok(small);
        }
        // Rounded down, unlike `units`: what is asked for never exceeds the pool.
        if bytes / UNIT < large.size / UNIT {
            return Ok(large);
        }
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let (needed, limit) = (mib(bytes), large.size >> 20);
        let sentence = format!(
            "the picture is too large for this service: decoding it takes {needed} MiB, but one picture may take \
             {limit} (--picture-memory)"
        );
        Err(Refusal::new(ErrorCode::PictureMemory, sentence).with("needed_mib", needed).with("limit_mib", limit))
    }
}

/// Units that a body or answer of this many bytes takes.
fn counted_units(bytes: usize) -> usize {
    units(bytes.saturating_sub(UNCOUNTED_BYTES) as u64) as usize
}

/// The memory of one body or answer, in the pool of files.
#[derive(Debug)]
pub struct BodyPermit {
    held: Option<OwnedSemaphorePermit>,
    /// Units that the same request holds by other permits.
    beside: usize,
    admission: Admission,
}

impl BodyPermit {
    /// Most bytes that one may ever have.
    pub fn max_bytes(&self) -> usize {
        let pool = (self.admission.0.pools.files / UNIT) as usize;
        pool.saturating_sub(self.beside) * UNIT as usize + UNCOUNTED_BYTES
    }

    /// Takes memory until there is enough for `bytes` bytes in all. The first [`UNCOUNTED_BYTES`] are not counted.
    ///
    /// # Errors
    /// [`Refusal`] if too little is free now, or ever will be.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Refusal> {
        let wanted = self.possible(bytes)?;
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Some(more @ 1..) = wanted.checked_sub(held) else { return Ok(()) };
        let more = Arc::clone(&self.admission.0.files).try_acquire_many_owned(more as u32);
        let more = more.map_err(|_| too_many())?;
        match &mut self.held {
            Some(held) => held.merge(more),
            held => *held = Some(more),
        }
        Ok(())
    }

    /// Reserves capacity for `wanted` bytes in a vector, of at most `limit`. It doubles the capacity where it can, so
    /// that a vector that grows by and by is seldom moved.
    ///
    /// # Errors
    /// As for [`BodyPermit::grow_to`].
    pub fn grow(&mut self, bytes: &mut Vec<u8>, wanted: usize, limit: usize) -> Result<(), Refusal> {
        if wanted > bytes.capacity() {
            let capacity = wanted.max((2 * bytes.capacity()).min(limit).min(self.max_bytes()));
            self.grow_to(capacity)?;
            bytes.reserve_exact(capacity - bytes.len());
        }
        Ok(())
    }

    /// Checks whether enough memory is free for `bytes` bytes now; takes none.
    ///
    /// # Errors
    /// [`Refusal`] if not, or if there never will be.
    pub fn check(&self, bytes: usize) -> Result<(), Refusal> {
        let wanted = self.possible(bytes)?;
        if wanted <= self.admission.0.files.available_permits() { Ok(()) } else { Err(too_many()) }
    }

    /// Units for `bytes` bytes; refused if so many can never be free.
    fn possible(&self, bytes: usize) -> Result<usize, Refusal> {
        let most = self.max_bytes();
        if bytes <= most {
            return Ok(counted_units(bytes));
        }
        let sentence = format!(
            "the request is too large for this service: {bytes} bytes, but one may have {most} (--picture-memory)"
        );
        Err(Refusal::body_limit(most, sentence))
    }

    /// Bytes that hold their memory until the last of their slices is gone.
    pub fn holding(self, bytes: Vec<u8>) -> Bytes {
        holding(bytes, self)
    }
}

/// Bytes that hold something until the last of their slices is gone.
pub fn holding(bytes: Vec<u8>, held: impl Send + 'static) -> Bytes {
    struct HeldBytes<T>(Vec<u8>, T);
    impl<T> AsRef<[u8]> for HeldBytes<T> {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(HeldBytes(bytes, held))
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        if self.held.take().is_some() {
            self.admission.trim_if_idle();
        }
    }
}

fn too_many() -> Refusal {
    Refusal::too_many_requests("too many large requests at a time; try again")
}

/// The memory of a picture, held for a request. Whatever still uses a part of that memory keeps a clone.
#[derive(Clone)]
pub struct Permit(Arc<Reservation>);

struct Reservation {
    memory: Mutex<OwnedSemaphorePermit>,
    admission: Admission,
    _request: Option<OwnedSemaphorePermit>,
}

impl Permit {
    fn new(memory: OwnedSemaphorePermit, request: Option<OwnedSemaphorePermit>, admission: &Admission) -> Self {
        Self(Arc::new(Reservation { memory: Mutex::new(memory), admission: admission.clone(), _request: request }))
    }

    /// Gives back all memory but `bytes` bytes, since the picture was reduced; the request still counts.
    pub fn shrink_to(&self, bytes: u64) {
        self.0.shrink_to(bytes);
    }
}

impl Reservation {
    fn shrink_to(&self, bytes: u64) {
        let mut memory = lock(&self.memory);
        let excess = memory.num_permits().saturating_sub(units(bytes) as usize);
        if excess > 0 {
            drop(memory.split(excess));
            self.admission.trim_if_idle();
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// A value with the permit for its memory, which is given back after the value is dropped.
pub struct Admitted<T> {
    // Dropped first.
    value: T,
    permit: Permit,
}

impl<T> Admitted<T> {
    /// A value that takes the memory of `permit`.
    pub fn new(value: T, permit: Permit) -> Self {
        Self { value, permit }
    }

    /// The value and its permit.
    pub fn into_parts(self) -> (T, Permit) {
        (self.value, self.permit)
    }
}

impl<T> Deref for Admitted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests;
