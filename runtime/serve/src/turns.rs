//! Backups and changes take turns: each locks the state, and none may fail because another part of the same service
//! has it. Other programs are kept out by the lock itself.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use orco_runtime::threads::lock;

/// Gives the turns, in the order of arrival.
#[derive(Clone, Default)]
pub(crate) struct TurnQueue(Arc<SharedLine>);

#[derive(Default)]
struct SharedLine {
    line: Mutex<Line>,
    moved: Condvar,
}

#[derive(Default)]
struct Line {
    /// Tickets of all that wait; the first one has the turn.
    tickets: VecDeque<u64>,
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
        let turn = self.line_up();
        let mut line = lock(&self.0.line);
        while line.tickets.front() != Some(&turn.ticket) {
            line = self.0.moved.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        drop(line);
        turn
    }

    /// Waits for a turn, but gives up after `patience`.
    pub fn take_within(&self, patience: Duration) -> Option<Turn> {
        let (turn, started) = (self.line_up(), Instant::now());
        let mut line = lock(&self.0.line);
        while line.tickets.front() != Some(&turn.ticket) {
            let Some(left) = patience.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) else {
                // The turn locks the line when it is dropped.
                drop(line);
                return None;
            };
            line = self.0.moved.wait_timeout(line, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(line);
        Some(turn)
    }

    fn line_up(&self) -> Turn {
        let mut line = lock(&self.0.line);
        let ticket = line.next;
        line.next += 1;
        line.tickets.push_back(ticket);
        Turn { queue: self.clone(), ticket }
    }
}

impl Turn {
    /// Whether others wait for theirs.
    pub fn is_awaited(&self) -> bool {
        lock(&self.queue.0.line).tickets.len() > 1
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        lock(&self.queue.0.line).tickets.retain(|ticket| *ticket != self.ticket);
        self.queue.0.moved.notify_all();
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
                let (waiting, turns, told) = (lock(&turns.0.line).tickets.len(), turns.clone(), told.clone());
                scope.spawn(move || {
                    let _turn = turns.take_within(Duration::from_secs(300)).unwrap();
                    told.send(name).unwrap();
                });
                while lock(&first.queue.0.line).tickets.len() == waiting {
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
        let broke_off = thread::spawn(move || {
            let _turn = others.take();
            panic!("in its turn");
        });
        assert!(broke_off.join().is_err());
        assert!(turns.take_within(Duration::ZERO).is_some());
    }
}
