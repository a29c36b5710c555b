//! Keeps training from standing still beside other work: libtorch's threads spin while they have the machine to
//! themselves, and sleep while they wait for one another beside other processes. No setting of `OMP_WAIT_POLICY` does
//! both. Views/s of `recipes/synthetic-tiny.toml` on two cores (Intel Xeon, family 6, model 167; medians of two runs):
//!
//! | the other core's work | this module | `passive` | `active` |
//! |---|---|---|---|
//! | none | 1,739 | 964 | 1,713 (one run) |
//! | two compilers | 524 | 480 | 139 |
//!
//! The threads of OpenMP meet at the end of every operation, thousands of times a second. GCC's runtime, libgomp, has
//! those that come first spin for milliseconds before they sleep. That is the fastest way to meet as long as each has a
//! core of its own. Beside another busy process it is the slowest: whoever spins keeps the core from a thread that
//! still has to come.
//!
//! So a thread of this program looks a few times a second how long the others were ready to run and got no core (Linux
//! counts that), and `WaitPolicy` decides. To have threads sleep it makes an `IdleTeam`; to let them spin again it ends
//! it. The number of threads that compute is the same either way, and so is every result, to the last bit.

mod delay;
mod openmp;
mod policy;

use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use self::delay::Delays;
use self::openmp::{IdleTeam, Openmp};
use self::policy::{WaitMode, WaitPolicy};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Watches from now on, for as long as the process lives, how long its threads wait for a core, and has them wait for
/// one another accordingly. Only the first call does something.
///
/// Nothing is watched where there is nothing to choose: without libgomp, where the environment (`GOMP_SPINCOUNT`,
/// `OMP_WAIT_POLICY`) has chosen, or where the system does not count such times.
pub fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let chosen = ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"].into_iter().find(|name| std::env::var_os(name).is_some());
        if let Some(name) = chosen {
            log::debug!("{name} says how threads wait for one another");
            return;
        }
        let Some(openmp) = Openmp::of_process() else {
            log::debug!("threads wait for one another as their runtime pleases: it is not libgomp");
            return;
        };
        let watcher = thread::Builder::new().name("orco-waiting".into()).spawn(move || look_on(openmp));
        if let Err(error) = watcher {
            log::debug!("threads always spin while they wait for one another: {error}");
        }
    });
}

/// Looks and decides, until the system stops counting.
fn look_on(openmp: Openmp) {
    let (mut delays, mut policy, mut idle_team) = (Delays::default(), WaitPolicy::default(), None);
    // What was before this says nothing about training.
    let mut counted = delays.since_last();
    while counted.is_some() {
        let last = Instant::now();
        thread::sleep(LOOK);
        counted = delays.since_last();
        let share = counted.unwrap_or_default().as_secs_f64() / last.elapsed().as_secs_f64();
        let waiting = policy.next(share);
        if (waiting == WaitMode::Asleep) != idle_team.is_some() {
            log::debug!("threads wait {waiting:?} for one another; they waited {share:.2} s in a second for a core");
            idle_team = match waiting {
                WaitMode::Awake => None,
                WaitMode::Asleep => IdleTeam::gather(openmp),
            };
        }
    }
}
