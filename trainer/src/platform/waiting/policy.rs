//! When threads should spin and when they should sleep.

/// How a thread waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitMode {
    /// It spins, and keeps its core.
    Awake,
    /// It sleeps, and leaves its core to others.
    Asleep,
}

/// From this on a look is a busy one: seconds that threads were ready to run and got no core, in a second, all threads
/// together. With two cores it was 0.5 to 1.4 beside a busy process, and below 0.1 beside one that was niced by 10
/// (which spinning threads hold off, and sleeping ones would let in).
const BUSY: f64 = 0.25;
/// Busy looks on end that send threads to sleep: one may be chance.
const BUSY_LOOKS: u32 = 2;
/// Looks for which threads sleep before they try to spin again.
const REST: u32 = 5;
/// Most looks for which threads sleep, after several tries that failed.
const MAX_REST: u32 = 100;
/// Looks after which a try has not failed.
const SETTLED: u32 = 50;

/// Decides from look to look.
///
/// Only threads that spin show whether they are held up: those that sleep wait for a core also beside work that would
/// give way. So threads that sleep try again, sooner at first and then more and more rarely.
#[derive(Debug)]
pub(super) struct WaitPolicy {
    waiting: WaitMode,
    /// Looks since that last changed.
    looks: u32,
    /// Busy looks on end.
    busy: u32,
    /// Looks for which threads sleep.
    rest: u32,
}

impl Default for WaitPolicy {
    fn default() -> Self {
        Self { waiting: WaitMode::Awake, looks: SETTLED, busy: 0, rest: REST }
    }
}

impl WaitPolicy {
    /// How to wait until the next look, after one that found threads delayed for `share` seconds in a second.
    pub(super) fn next(&mut self, share: f64) -> WaitMode {
        self.looks = self.looks.saturating_add(1);
        self.busy = if share >= BUSY { self.busy + 1 } else { 0 };
        match self.waiting {
            WaitMode::Awake if self.busy >= BUSY_LOOKS => {
                self.rest = if self.looks > SETTLED { REST } else { (2 * self.rest).min(MAX_REST) };
                self.change(WaitMode::Asleep);
            }
            WaitMode::Asleep if self.looks >= self.rest => self.change(WaitMode::Awake),
            _ => {}
        }
        self.waiting
    }

    fn change(&mut self, waiting: WaitMode) {
        (self.waiting, self.looks, self.busy) = (waiting, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What follows a look each.
    fn asleep(policy: &mut WaitPolicy, shares: &[f64]) -> Vec<bool> {
        shares.iter().map(|&share| policy.next(share) == WaitMode::Asleep).collect()
    }

    /// Looks for which threads sleep, on a machine that stays busy.
    fn rest(policy: &mut WaitPolicy) -> u32 {
        assert_eq!(asleep(policy, &[1.0; BUSY_LOOKS as usize]), [false, true]);
        1 + (0..).take_while(|_| policy.next(1.0) == WaitMode::Asleep).count() as u32
    }

    #[test]
    fn threads_sleep_once_the_machine_stays_busy() {
        let shares = [0.0, 0.24, 0.9, 0.1, 0.25, 0.5, 0.0, 0.0];
        let expected = [false, false, false, false, false, true, true, true];
        assert_eq!(asleep(&mut WaitPolicy::default(), &shares), expected);
    }

    #[test]
    fn failed_tries_become_rare_until_one_succeeds() {
        let mut policy = WaitPolicy::default();
        let rests: Vec<u32> = (0..7).map(|_| rest(&mut policy)).collect();
        assert_eq!(rests, [5, 10, 20, 40, 80, 100, 100]);
        assert!(asleep(&mut policy, &[0.0; SETTLED as usize]).iter().all(|&asleep| !asleep));
        assert_eq!(rest(&mut policy), REST);
    }

    #[test]
    fn threads_that_sleep_do_not_tell_whether_they_could_spin() {
        let mut policy = WaitPolicy::default();
        asleep(&mut policy, &[1.0, 1.0]);
        // Delayed while they sleep, not while they spin: beside work of low priority.
        assert!(!asleep(&mut policy, &[0.7; REST as usize])[REST as usize - 1]);
        assert!(asleep(&mut policy, &[0.05, 0.6, 0.05, 0.05]).iter().all(|&asleep| !asleep));
    }
}
