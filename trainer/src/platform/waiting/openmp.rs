//! GCC's OpenMP runtime as far as it lets its threads' way of waiting be chosen while they run.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

/// What a thread of a team does, with what it is given.
type Task = extern "C" fn(*mut c_void);
/// `GOMP_parallel(task, data, threads, flags)`: a team of threads, the caller among them, runs the task and meets at
/// its end. GCC compiles `#pragma omp parallel` to a call of it, so it stays what it is.
type Parallel = unsafe extern "C" fn(Task, *mut c_void, c_uint, c_uint);

/// The libgomp of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Openmp {
    parallel: Parallel,
    processors: extern "C" fn() -> c_int,
}

impl Openmp {
    /// The one that libtorch has brought along; `None` where libtorch uses another runtime.
    #[cfg(unix)]
    pub(super) fn of_process() -> Option<Self> {
        let process = libloading::os::unix::Library::this();
        // SAFETY: the types are those of libgomp's interface; a library that is linked stays for as long as the
        // process.
        unsafe {
            // LLVM's runtime has GCC's entry points too, but waits in its own way.
            if process.get::<extern "C" fn()>(b"kmp_set_blocktime\0").is_ok() {
                return None;
            }
            let parallel = *process.get::<Parallel>(b"GOMP_parallel\0").ok()?;
            let processors = *process.get::<extern "C" fn() -> c_int>(b"omp_get_num_procs\0").ok()?;
            Some(Self { parallel, processors })
        }
    }

    /// None but on Unix.
    #[cfg(not(unix))]
    pub(super) fn of_process() -> Option<Self> {
        None
    }

    /// Runs a task in a team of `threads` threads.
    ///
    /// # Safety
    /// The task may use `data` in several threads at once.
    unsafe fn run(self, task: Task, data: *mut c_void, threads: u32) {
        // SAFETY: as the caller promises; no flags are set.
        unsafe { (self.parallel)(task, data, threads, 0) }
    }
}

/// More idle threads of OpenMP than there are processors. While they exist, all threads of libgomp sleep almost at once
/// when they wait for one another.
///
/// libgomp counts the threads of all its teams, and where they are more than processors it spins a hundred times
/// instead of 300,000 (`gomp_managed_threads` and `gomp_throttled_spin_count_var` in its config/linux/wait.h, since GCC
/// 4.4). A team belongs to the thread that called for it and is kept for its next call, so the idle ones ask for no
/// more than memory.
#[derive(Debug)]
pub(super) struct IdleTeam {
    leave: Option<Sender<()>>,
    leader: Option<JoinHandle<()>>,
}

impl IdleTeam {
    /// Starts the threads; `None` if the first of them cannot be started.
    pub(super) fn gather(openmp: Openmp) -> Option<Self> {
        extern "C" fn nothing(_: *mut c_void) {}
        let (leave, stay) = channel::<()>();
        let (tell, there) = channel::<()>();
        let lead = move || {
            let processors = u32::try_from((openmp.processors)()).unwrap_or(1);
            // SAFETY: the task uses nothing.
            unsafe { openmp.run(nothing, null_mut(), processors + 1) };
            let _ = tell.send(());
            let _ = stay.recv();
        };
        let leader = thread::Builder::new().name("orco-idle-team".into()).spawn(lead).ok()?;
        there.recv().ok()?;
        Some(Self { leave: Some(leave), leader: Some(leader) })
    }
}

impl Drop for IdleTeam {
    /// Ends the leader, and with it its team.
    fn drop(&mut self) {
        drop(self.leave.take());
        if let Some(leader) = self.leader.take() {
            let _ = leader.join();
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
