//! Backups and changes take turns: each locks the state, and none may fail because another part of the same service
//! has it. Other programs are kept out by the lock itself.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use orco_runtime::threads::lock;

/// Gives the turns, in the order of arrival.
#[derive(Clone, Default)]
pub(crate) struct TurnQueue(Arc<SharedQueue>);

#[derive(Default)]
struct SharedQueue {
    tickets: Mutex<Tickets>,
    /// Notified whenever a ticket leaves the queue.
    changed: Condvar,
}

#[derive(Default)]
struct Tickets {
    /// Tickets in the order of arrival; the first one has the turn.
    queue: VecDeque<u64>,
    /// The next ticket to hand out.
    next: u64,
}

/// The right to lock the state, until it is dropped.
pub(crate) struct Turn {
    queue: TurnQueue,
    ticket: u64,
}

impl TurnQueue {
    /// Waits for a turn.
    pub fn take(&self) -> Turn {
        let turn = self.enqueue();
        let mut tickets = lock(&self.0.tickets);
        while tickets.queue.front() != Some(&turn.ticket) {
            tickets = self.0.changed.wait(tickets).unwrap_or_else(PoisonError::into_inner);
        }
        drop(tickets);
        turn
    }

    /// Waits for a turn, but gives up after `timeout`.
    pub fn take_within(&self, timeout: Duration) -> Option<Turn> {
        let (turn, started) = (self.enqueue(), Instant::now());
        let mut tickets = lock(&self.0.tickets);
        while tickets.queue.front() != Some(&turn.ticket) {
            let Some(left) = timeout.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) else {
                // `turn` locks the tickets when it is dropped.
                drop(tickets);
                return None;
            };
            tickets = self.0.changed.wait_timeout(tickets, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(tickets);
        Some(turn)
    }

    /// Takes the next ticket; dropping what this returns gives it back.
    fn enqueue(&self) -> Turn {
        let mut tickets = lock(&self.0.tickets);
        let ticket = tickets.next;
        tickets.next += 1;
        tickets.queue.push_back(ticket);
        Turn { queue: self.clone(), ticket }
    }
}

impl Turn {
    /// Whether others wait for theirs.
    pub fn is_awaited(&self) -> bool {
        lock(&self.queue.0.tickets).queue.len() > 1
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        lock(&self.queue.0.tickets).queue.retain(|ticket| *ticket != self.ticket);
        self.queue.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn turns_come_in_the_order_of_arrival_and_who_gives_up_holds_nobody_up() {
        let turns = TurnQueue::default();
        let first = turns.take();
        assert!(!first.is_awaited());
        assert!(turns.take_within(Duration::ZERO).is_none());
        assert!(turns.take_within(Duration::from_millis(5)).is_none());
        assert!(!first.is_awaited(), "who gave up does not wait");
        let (told, order) = mpsc::channel();
        thread::scope(|scope| {
            for name in ["second", "third"] {
                let (waiting, turns, told) = (lock(&turns.0.tickets).queue.len(), turns.clone(), told.clone());
                scope.spawn(move || {
                    let _turn = turns.take_within(Duration::from_secs(300)).unwrap();
                    told.send(name).unwrap();
                });
                while lock(&first.queue.0.tickets).queue.len() == waiting {
                    thread::yield_now();
                }
            }
            assert!(first.is_awaited());
            drop(first);
        });
        drop(told);
        assert_eq!(order.iter().collect::<Vec<_>>(), ["second", "third"]);
        assert!(turns.take_within(Duration::ZERO).is_some());
    }

    #[test]
    fn a_panic_ends_a_turn() {
        let turns = TurnQueue::default();
        let others = turns.clone();
        let panicked = thread::spawn(move || {
            let _turn = others.take();
            panic!("in its turn");
        });
        assert!(panicked.join().is_err());
        assert!(turns.take_within(Duration::ZERO).is_some());
    }
}
