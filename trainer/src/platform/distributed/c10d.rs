//! c10d through the functions of `trainer/cpp/c10d.cpp`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};
use std::time::Duration;

use tch::{Device, Kind, Tensor};

use super::{APART_TIMEOUT, RankError, RankPlace, STEP_TIMEOUT};

/// `orco_group` of the shim.
#[repr(C)]
struct RawGroup {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn orco_group_open(
        host: *const c_char,
        port: u16,
        serves: bool,
        prefix: *const c_char,
        rank: c_int,
        size: c_int,
        patience_ms: i64,
        timeout_ms: i64,
        cuda: bool,
        opened: *mut *mut RawGroup,
    ) -> *mut c_char;
    fn orco_group_sum(group: *const RawGroup, tensor: *const c_void, timeout_ms: i64) -> *mut c_char;
    fn orco_group_broadcast(group: *const RawGroup, tensor: *const c_void, timeout_ms: i64) -> *mut c_char;
    fn orco_group_sum_with_gradient(
        group: *const RawGroup,
        part: *const c_void,
        timeout_ms: i64,
        total: *mut *mut c_void,
    ) -> *mut c_char;
    fn orco_group_gather(
        group: *const RawGroup,
        rows: *const c_void,
        timeout_ms: i64,
        all: *mut *mut c_void,
    ) -> *mut c_char;
    fn orco_group_free(group: *mut RawGroup);
    fn orco_text_free(text: *mut c_char);
}

/// A group of c10d's; the ranks leave it when it is dropped.
#[derive(Debug)]
pub(super) struct CollectiveEngine(NonNull<RawGroup>);

// SAFETY: c10d's backends may be called from any thread, and no function of the shim changes the group itself.
unsafe impl Send for CollectiveEngine {}
// SAFETY: as above; callers order their collectives themselves.
unsafe impl Sync for CollectiveEngine {}

impl CollectiveEngine {
    /// Meets the other ranks, and returns once all of them have: a rank that left at once, with an error of its own,
    /// would look to the others like one that never came.
    pub fn meet(place: &RankPlace, cuda: bool) -> Result<Self, RankError> {
        let lost = |reason: String| RankError::Meet {
            rank: place.rank,
            size: place.size,
            host: place.host.clone(),
            port: place.port,
            reason,
        };
        let text = |text: &str| CString::new(text).map_err(|_| lost("its name holds a zero byte".into()));
        let (host, prefix) = (text(&place.host)?, text(&place.prefix)?);
        let mut opened = ptr::null_mut();
        // SAFETY: the texts outlive the call, which sets `opened` to a new group unless it returns an error.
        let error = unsafe {
            orco_group_open(
                host.as_ptr(),
                place.port,
                place.serves,
                prefix.as_ptr(),
                place.rank as c_int,
                place.size as c_int,
                milliseconds(APART_TIMEOUT),
                milliseconds(STEP_TIMEOUT),
                cuda,
                &raw mut opened,
            )
        };
        shim_result(error).map_err(&lost)?;
        let engine = NonNull::new(opened).map(Self).ok_or_else(|| lost("c10d made no group".into()))?;
        engine.all_reduce(&Tensor::zeros([1], (Kind::Int64, Device::Cpu)), APART_TIMEOUT).map_err(&lost)?;
        Ok(engine)
    }

    /// Adds up a tensor over all ranks, in place.
    pub fn all_reduce(&self, tensor: &Tensor, timeout: Duration) -> Result<(), String> {
        // SAFETY: group and tensor live through the call, which does not keep them.
        shim_result(unsafe { orco_group_sum(self.0.as_ptr(), tensor.as_ptr().cast(), milliseconds(timeout)) })
    }

    /// Gives rank 0's tensor to all, in place.
    pub fn broadcast(&self, tensor: &Tensor, timeout: Duration) -> Result<(), String> {
        // SAFETY: as for `all_reduce`.
        shim_result(unsafe { orco_group_broadcast(self.0.as_ptr(), tensor.as_ptr().cast(), milliseconds(timeout)) })
    }

    /// Adds up a tensor over all ranks into a new one.
    pub fn all_reduce_with_gradient(&self, part: &Tensor, timeout: Duration) -> Result<Tensor, String> {
        self.make(part, timeout, orco_group_sum_with_gradient)
    }

    /// The rows of all ranks in a new tensor.
    pub fn gather(&self, rows: &Tensor, timeout: Duration) -> Result<Tensor, String> {
        self.make(rows, timeout, orco_group_gather)
    }

    fn make(
        &self,
        from: &Tensor,
        timeout: Duration,
        collective: unsafe extern "C" fn(*const RawGroup, *const c_void, i64, *mut *mut c_void) -> *mut c_char,
    ) -> Result<Tensor, String> {
        let mut made = ptr::null_mut();
        // SAFETY: group and tensor live through the call; what a backward pass needs of the group it holds itself.
        let error = unsafe { collective(self.0.as_ptr(), from.as_ptr().cast(), milliseconds(timeout), &raw mut made) };
        shim_result(error)?;
        // SAFETY: without an error `made` is a new at::Tensor, which nobody else frees.
        Ok(unsafe { Tensor::from_ptr(made.cast()) })
    }
}

impl Drop for CollectiveEngine {
    fn drop(&mut self) {
        // SAFETY: the group was opened by the shim and is not used any more.
        unsafe { orco_group_free(self.0.as_ptr()) }
    }
}

fn milliseconds(time: Duration) -> i64 {
    time.as_millis() as i64
}

/// What the shim returned: nothing, or the first line of an error.
fn shim_result(error: *mut c_char) -> Result<(), String> {
    let Some(text) = NonNull::new(error) else { return Ok(()) };
    // SAFETY: the shim returns texts that end with a zero byte and are ours to free, by its own function.
    let owned = unsafe {
        let owned = CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned();
        orco_text_free(text.as_ptr());
        owned
    };
    Err(owned.lines().next().unwrap_or_default().trim().to_owned())
}
