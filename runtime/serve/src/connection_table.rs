//! Limits the number of connections. When all places are taken, the caller with the most connections loses its oldest
//! one, idle ones first, so that one caller cannot keep others out.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::{AbortHandle, Id};

/// Who holds a connection, oldest first.
pub(crate) struct ConnectionTable {
    max_connections: usize,
    held: Vec<OpenConnection>,
}

struct OpenConnection {
    caller: Caller,
    connection: AbortHandle,
    busy: BusyFlag,
}

/// Whether a connection waits for an answer. One that listens to a stream does not.
#[derive(Clone, Debug, Default)]
pub(crate) struct BusyFlag(Arc<AtomicBool>);

impl BusyFlag {
    pub(crate) fn set(&self, busy: bool) {
        self.0.store(busy, Ordering::Relaxed);
    }
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

impl ConnectionTable {
    pub(crate) fn new(max_connections: usize) -> Self {
        Self { max_connections, held: Vec::with_capacity(max_connections) }
    }

    /// Takes a place for a connection. Where none is left, ends [another one](Self::evict) first; returns whether it
    /// did.
    pub(crate) fn take(&mut self, peer: IpAddr, connection: AbortHandle, busy: BusyFlag) -> bool {
        let is_full = self.held.len() >= self.max_connections;
        if is_full {
            self.evict();
        }
        self.held.push(OpenConnection { caller: caller(peer), connection, busy });
        is_full
    }

    /// Ends the oldest connection of the caller who holds most, an idle one if there is one. Its file stays open until
    /// its task has ended.
    pub(crate) fn evict(&mut self) {
        let mut holds = BTreeMap::<Caller, usize>::new();
        self.held.iter().for_each(|held| *holds.entry(held.caller).or_default() += 1);
        let most = holds.values().max();
        let holds_most = |held: &&OpenConnection| holds.get(&held.caller) == most;
        let is_idle = |held: &&OpenConnection| !held.busy.0.load(Ordering::Relaxed);
        let chosen = self.held.iter().filter(holds_most).find(is_idle).or_else(|| self.held.iter().find(holds_most));
        if let Some(connection) = chosen.map(|held| held.connection.clone()) {
            connection.abort();
            self.leave(connection.id());
        }
    }

    /// A connection has ended.
    pub(crate) fn leave(&mut self, connection: Id) {
        self.held.retain(|held| held.connection.id() != connection);
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn the_oldest_of_whoever_holds_most_gives_way() {
        let (mut places, mut connections) = (ConnectionTable::new(3), JoinSet::<()>::new());
        let mut take = |places: &mut ConnectionTable, peer: &str| {
            let handle = connections.spawn(std::future::pending());
            places.take(peer.parse().unwrap(), handle.clone(), BusyFlag::default());
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

    #[tokio::test]
    async fn whoever_waits_for_an_answer_keeps_the_place_before_a_silent_one() {
        let (mut places, mut connections) = (ConnectionTable::new(2), JoinSet::<()>::new());
        let mut take = |places: &mut ConnectionTable, busy: bool| {
            let (handle, of) = (connections.spawn(std::future::pending()), BusyFlag::default());
            of.set(busy);
            places.take([10, 0, 0, 1].into(), handle.clone(), of);
            handle
        };
        let (asking, silent) = (take(&mut places, true), take(&mut places, false));
        let next = take(&mut places, true);
        tokio::task::yield_now().await;
        assert_eq!((asking.is_finished(), silent.is_finished()), (false, true));
        // As when the system has no file left for another one.
        places.evict();
        tokio::task::yield_now().await;
        assert_eq!((asking.is_finished(), next.is_finished()), (true, false));
    }
}
