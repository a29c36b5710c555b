//! Threads beside an idle OpenMP team sleep sooner, and compute the same.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tch::{Device, Kind, Tensor};

use super::*;
use crate::platform::waiting::delay::counts;

/// Set in the process that measures, in which no other test makes teams of its own.
const ALONE: &str = "ORCO_TEST_WAITING_ALONE";

/// What two threads of a team share.
#[derive(Default)]
struct Meeting {
    /// The thread that called for the team.
    caller: AtomicI32,
    /// Threads that have begun.
    begun: AtomicU32,
    /// The other thread, once it is done.
    other: AtomicI32,
    /// Nanoseconds that it had computed by then.
    computed: AtomicU64,
    /// Nanoseconds that the other thread had computed when it had fallen asleep.
    slept: AtomicU64,
}

/// One thread is done at once and waits for the caller, who stays until the other sleeps. However busy the machine is,
/// the one that waits spins as often as libgomp has it spin.
extern "C" fn meet(data: *mut c_void) {
    // SAFETY: `spun` passes a meeting, of which all fields may be used by both threads.
    let meeting = unsafe { &*data.cast::<Meeting>() };
    // SAFETY: only asks for a number.
    let thread = unsafe { libc::gettid() };
    meeting.begun.fetch_add(1, Ordering::SeqCst);
    while meeting.begun.load(Ordering::SeqCst) < 2 {
        thread::yield_now();
    }
    if thread != meeting.caller.load(Ordering::SeqCst) {
        meeting.computed.store(computed(), Ordering::SeqCst);
        meeting.other.store(thread, Ordering::SeqCst);
        return;
    }
    let other = loop {
        match meeting.other.load(Ordering::SeqCst) {
            0 => thread::yield_now(),
            other => break other,
        }
    };
    while !sleeps(other) {
        thread::yield_now();
    }
    meeting.slept.store(computed_before_sleep(other), Ordering::SeqCst);
}

/// Nanoseconds that the calling thread has computed. The system's list of threads would tell those up to the last tick.
fn computed() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time to where it belongs.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds that a thread, which sleeps now, has computed.
fn computed_before_sleep(thread: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Whether a thread waits for something.
fn sleeps(thread: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    text.rsplit_once(") ").unwrap().1.starts_with('S')
}

/// The least that a thread has computed in some meetings from its arrival until it slept.
fn spun(openmp: Openmp) -> Duration {
    let once = || {
        let meeting = Meeting::default();
        // SAFETY: only asks for a number.
        meeting.caller.store(unsafe { libc::gettid() }, Ordering::SeqCst);
        // SAFETY: the task reads a meeting, which both threads may use.
        unsafe { openmp.run(meet, (&raw const meeting).cast_mut().cast(), 2) };
        meeting.slept.load(Ordering::SeqCst) - meeting.computed.load(Ordering::SeqCst)
    };
    Duration::from_nanos((0..5).map(|_| once()).min().unwrap())
}

#[test]
fn threads_sleep_sooner_beside_an_idle_team() {
    if std::env::var_os(ALONE).is_none() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        for chosen in ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_DYNAMIC", "OMP_THREAD_LIMIT"] {
            child.env_remove(chosen);
        }
        let name = "platform::waiting::openmp::tests::threads_sleep_sooner_beside_an_idle_team";
        let output = child.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    // libtorch is linked only where it is used.
    assert!(tch::get_num_threads() > 0);
    let Some(openmp) = Openmp::of_process() else {
        eprintln!("skipped: this libtorch does not use libgomp");
        return;
    };
    if !counts() || (openmp.processors)() < 2 {
        eprintln!("skipped: one processor, or no account of what threads compute");
        return;
    }
    for _ in 0..2 {
        let awake = spun(openmp);
        let idle_team = IdleTeam::gather(openmp).unwrap();
        let asleep = spun(openmp);
        drop(idle_team);
        eprintln!("a thread spins for {awake:?}, beside an idle team for {asleep:?}");
        // 300,000 times and 100 times, and the way to sleep.
        assert!(asleep * 5 < awake, "{asleep:?} beside an idle team, {awake:?} without one");
    }
}

#[test]
fn results_are_the_same_beside_an_idle_team() {
    let Some(openmp) = Openmp::of_process() else {
        eprintln!("skipped: this libtorch does not use libgomp");
        return;
    };
    let options = (Kind::Float, Device::Cpu);
    let images = (Tensor::arange(16 * 8 * 24 * 24, options) * 0.37).sin().view([16, 8, 24, 24]);
    let gradient = || {
        let weights = (Tensor::arange(32 * 8 * 9, options) * 0.11).cos().view([32, 8, 3, 3]).set_requires_grad(true);
        let features = images.conv2d(&weights, None::<Tensor>, [1, 1], [1, 1], [1, 1], 1).relu();
        features.square().mean(Kind::Float).backward();
        weights.grad()
    };
    let before = gradient();
    let idle_team = IdleTeam::gather(openmp).unwrap();
    let within = gradient();
    drop(idle_team);
    assert!(before.equal(&within) && before.equal(&gradient()));
}
