//! Limits the requests of one device that are under way, so that no device keeps the hub from the others, or fills its
//! memory with answers that it does not read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Bytes;
use orco_runtime::threads::lock;
use orco_serve::admission;

use crate::protocol::DeviceId;

/// Most requests of one device at a time. A device sends one after the other; more come where a network repeats them or
/// drops a connection unnoticed.
const MAX_PER_DEVICE: usize = 4;

/// The number of requests under way, by device.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestLimit(Arc<Mutex<BTreeMap<DeviceId, usize>>>);

/// A request that is under way, until it is dropped.
#[derive(Debug)]
pub(super) struct DeviceRequest(RequestLimit, DeviceId);

impl RequestLimit {
    /// Counts a request of a device until it is dropped; none if the device has too many.
    pub fn begin(&self, device: DeviceId) -> Option<DeviceRequest> {
        let mut counts = self.counts();
        let count = counts.entry(device).or_default();
        if *count == MAX_PER_DEVICE {
            return None;
        }
        *count += 1;
        Some(DeviceRequest(self.clone(), device))
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<DeviceId, usize>> {
        lock(&self.0)
    }
}

impl DeviceRequest {
    /// The bytes of its answer: the request is under way until they are sent.
    pub fn holding(self, answer: Vec<u8>) -> Bytes {
        admission::holding(answer, self)
    }
}

impl Drop for DeviceRequest {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        match counts.get_mut(&self.1) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(&self.1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::SigningKey;

    #[test]
    fn a_device_has_a_few_requests_under_way_and_takes_none_of_others() {
        let device = || SigningKey::generate().unwrap().verifying_key().device();
        let (limit, greedy, other) = (RequestLimit::default(), device(), device());
        let mut held: Vec<_> = (0..MAX_PER_DEVICE).map(|_| limit.begin(greedy).unwrap()).collect();
        assert!(limit.begin(greedy).is_none());
        assert!(limit.begin(other).is_some());
        held.pop();
        let answer = limit.begin(greedy).unwrap().holding(b"an answer".to_vec());
        assert!(limit.begin(greedy).is_none(), "nobody has read the answer");
        assert_eq!(answer, "an answer");
        drop(answer);
        assert!(limit.begin(greedy).is_some());
        held.clear();
        assert!(limit.counts().is_empty());
    }
}
