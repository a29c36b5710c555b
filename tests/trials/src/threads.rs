//! Programs that get no thread beside their first, and threads that get one processor.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the program's requests for threads refused, as where the user may have no more (`ulimit -u`); root may always.
pub fn without_threads(command: &mut Command) -> &mut Command {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let equal = |call: i64, jt: u8, jf: u8| {
        let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        libc::sock_filter { code, jt, jf, k: call as u32 }
    };
    let again = libc::SECCOMP_RET_ERRNO | libc::EAGAIN.cast_unsigned();
    let filter = [
        // The call's number, the first field of struct seccomp_data.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        equal(libc::SYS_clone, 1, 0),
        equal(libc::SYS_clone3, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, again),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        // SAFETY: both calls read their arguments alone, and the program lives longer than they take.
        let refused = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) != 0
        };
        if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: between fork and exec it makes two system calls.
    unsafe { command.pre_exec(install) }
}

/// Has this thread, and those that it starts from now on, run on one processor: `available_parallelism` is 1 for them.
///
/// # Panics
/// If the system refuses.
pub fn on_one_processor() {
    // SAFETY: a set of processors is plain bits, all of which may be 0, and the calls stay within it.
    let refused = unsafe {
        let mut processors: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        libc::sched_getaffinity(0, size, &raw mut processors) != 0 || {
            let first = (0..8 * size).find(|processor| libc::CPU_ISSET(*processor, &processors));
            libc::CPU_ZERO(&mut processors);
            libc::CPU_SET(first.unwrap_or(0), &mut processors);
            libc::sched_setaffinity(0, size, &raw const processors) != 0
        }
    };
    assert!(!refused, "one processor: {}", std::io::Error::last_os_error());
}
