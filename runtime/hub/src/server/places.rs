//! No device takes the place of all others.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::protocol::DeviceId;

/// Requests of one device at a time. It sends one after the other; more come where a network repeats them, or breaks
/// off unnoticed.
const OF_ONE_DEVICE: usize = 4;

/// How many requests of which device are under way.
#[derive(Debug, Default)]
pub(super) struct DevicePlaces(Mutex<BTreeMap<DeviceId, usize>>);

/// A request that is under way, until it is dropped.
#[derive(Debug)]
pub(super) struct DevicePlace<'a>(&'a DevicePlaces, DeviceId);

impl DevicePlaces {
    /// A place for a request of a device; none if it has too many.
    pub fn enter(&self, device: DeviceId) -> Option<DevicePlace<'_>> {
        let mut taken = self.taken();
        let count = taken.entry(device).or_default();
        if *count == OF_ONE_DEVICE {
            return None;
        }
        *count += 1;
        Some(DevicePlace(self, device))
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<DeviceId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DevicePlace<'_> {
    fn drop(&mut self) {
        let mut taken = self.0.taken();
        match taken.get_mut(&self.1) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(taken.remove(&self.1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::SigningKey;

    #[test]
    fn a_device_has_a_few_places_and_takes_none_of_others() {
        let device = || SigningKey::generate().unwrap().verifying_key().device();
        let (places, greedy, other) = (DevicePlaces::default(), device(), device());
        let mut held: Vec<_> = (0..OF_ONE_DEVICE).map(|_| places.enter(greedy).unwrap()).collect();
        assert!(places.enter(greedy).is_none());
        assert!(places.enter(other).is_some());
        held.pop();
        assert!(places.enter(greedy).is_some());
        held.clear();
        assert!(places.taken().is_empty());
    }
}
