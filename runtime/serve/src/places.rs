//! Places for connections. When all are taken, the oldest of whoever holds most gives way, so that one caller with any
//! number of connections keeps nobody else out.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tokio::task::{AbortHandle, Id};

/// Who holds a connection, oldest first.
pub(crate) struct Places {
    most: usize,
    held: Vec<(Caller, AbortHandle)>,
}

/// An address; of IPv6 the network, since every machine has as many addresses there as it likes.
type Caller = [u8; 8];

fn caller(peer: IpAddr) -> Caller {
    let mut caller = [0; 8];
    match peer.to_canonical() {
        IpAddr::V4(address) => caller[4..].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => caller.copy_from_slice(&address.octets()[..8]),
    }
    caller
}

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, held: Vec::with_capacity(most) }
    }

    /// Takes a place for a connection; another one is ended where there is none left.
    pub(crate) fn take(&mut self, peer: IpAddr, connection: AbortHandle) {
        if self.held.len() >= self.most {
            let mut holds = BTreeMap::<Caller, usize>::new();
            self.held.iter().for_each(|(caller, _)| *holds.entry(*caller).or_default() += 1);
            let most = holds.values().max();
            if let Some(oldest) = self.held.iter().position(|(caller, _)| holds.get(caller) == most) {
                self.held.remove(oldest).1.abort();
            }
        }
        self.held.push((caller(peer), connection));
    }

    /// A connection has ended.
    pub(crate) fn leave(&mut self, connection: Id) {
        self.held.retain(|(_, held)| held.id() != connection);
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn the_oldest_of_whoever_holds_most_gives_way() {
        let (mut places, mut connections) = (Places::new(3), JoinSet::<()>::new());
        let mut take = |places: &mut Places, peer: &str| {
            let handle = connections.spawn(std::future::pending());
            places.take(peer.parse().unwrap(), handle.clone());
            handle
        };
        let alone = take(&mut places, "10.0.0.1");
        let (first, second) = (take(&mut places, "10.0.0.2"), take(&mut places, "10.0.0.2"));
        let newcomer = take(&mut places, "::ffff:10.0.0.3");
        places.leave(alone.id());
        let same_network = [take(&mut places, "2001:db8::1"), take(&mut places, "2001:db8::2")];
        let third = take(&mut places, "2001:db8::3");
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        let ended = |handles: &[&AbortHandle]| handles.iter().map(|handle| handle.is_finished()).collect::<Vec<_>>();
        assert_eq!(ended(&[&alone, &first, &second, &newcomer]), [false, true, true, false]);
        assert_eq!(ended(&[&same_network[0], &same_network[1], &third]), [true, false, false]);
    }
}
