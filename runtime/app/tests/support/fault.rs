//! Lets one system call of a program fail, through ptrace: the n-th of those that name something in a folder, or work on
//! something that is open in it. Needs nothing installed, and no rights beyond those over one's own children.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// How a program ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Calls that concern the folder, the one that failed among them.
    pub calls: usize,
    /// The call that failed.
    pub failed: Option<String>,
}

/// Runs a command to its end; the call of that number fails with an error of the system, and no other.
///
/// # Errors
/// If it cannot be started or watched, as where ptrace is forbidden.
pub fn run(command: &mut Command, folder: &Path, fault: Option<(usize, i32)>) -> io::Result<Ending> {
    // SAFETY: between fork and exec it only makes a system call.
    unsafe { command.pre_exec(|| Ok(ptrace::traceme()?)) };
    let child = Pid::from_raw(command.spawn()?.id().cast_signed());
    // The first stop, after exec. Only children of this thread are waited for: other tests have theirs.
    waitpid(child, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD))?;
    let follow = Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACEVFORK;
    ptrace::setoptions(child, follow | Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL)?;
    ptrace::syscall(child, None)?;
    let mut injector = Injector { folder: folder.to_owned(), fault, calls: 0, failed: None, failing: BTreeMap::new() };
    loop {
        let status = waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD))?;
        let ended = |code| {
            let (calls, failed) = (injector.calls, injector.failed.clone());
            Ok(Ending { code, calls, failed })
        };
        let (thread, signal) = match status {
            WaitStatus::Exited(thread, code) if thread == child => return ended(Some(code)),
            WaitStatus::Signaled(thread, ..) if thread == child => return ended(None),
            WaitStatus::PtraceSyscall(thread) => {
                injector.look(thread)?;
                (thread, None)
            }
            WaitStatus::PtraceEvent(thread, ..) => (thread, None),
            // A new thread starts with this stop; nobody sends it otherwise.
            WaitStatus::Stopped(thread, Signal::SIGSTOP) => (thread, None),
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            _ => continue,
        };
        match ptrace::syscall(thread, signal) {
            // It was killed meanwhile, with its process.
            Ok(()) | Err(nix::Error::ESRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

struct Injector {
    folder: PathBuf,
    fault: Option<(usize, i32)>,
    calls: usize,
    failed: Option<String>,
    /// Threads in a call that is to fail, and with what.
    failing: BTreeMap<Pid, i32>,
}

impl Injector {
    /// Looks at a thread that stands at the beginning or the end of a system call.
    fn look(&mut self, thread: Pid) -> io::Result<()> {
        let info = match ptrace::syscall_info(thread) {
            Ok(info) => info,
            Err(nix::Error::ESRCH) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => {
                // SAFETY: at the beginning of a call, the union holds its number and arguments.
                let entry = unsafe { info.u.entry };
                let Some(call) = self.concerned(thread, entry.nr.cast_signed(), entry.args) else { return Ok(()) };
                let number = self.calls;
                self.calls += 1;
                if let Some((_, code)) = self.fault.filter(|(at, _)| *at == number) {
                    // No call has this number: nothing is done.
                    let mut registers = ptrace::getregs(thread)?;
                    registers.orig_rax = u64::MAX;
                    ptrace::setregs(thread, registers)?;
                    self.failing.insert(thread, code);
                    self.failed = Some(call);
                }
            }
            libc::PTRACE_SYSCALL_INFO_EXIT => {
                if let Some(code) = self.failing.remove(&thread) {
                    let mut registers = ptrace::getregs(thread)?;
                    registers.rax = i64::from(-code).cast_unsigned();
                    ptrace::setregs(thread, registers)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What a call does, if it concerns the folder.
    fn concerned(&self, thread: Pid, call: i64, arguments: [u64; 6]) -> Option<String> {
        let named = |name: &str, folder: Option<usize>, path: usize| {
            Some((name.to_owned(), self::path(thread, folder.map(|n| arguments[n]), arguments[path])))
        };
        let open = |name: &str| {
            let file = fs::read_link(format!("/proc/{thread}/fd/{}", arguments[0] as i32)).ok()?;
            Some((name.to_owned(), file))
        };
        let (name, path) = match call {
            libc::SYS_openat => named("openat", Some(0), 1),
            libc::SYS_newfstatat => named("newfstatat", Some(0), 1),
            libc::SYS_statx => named("statx", Some(0), 1),
            libc::SYS_mkdirat => named("mkdirat", Some(0), 1),
            libc::SYS_unlinkat => named("unlinkat", Some(0), 1),
            libc::SYS_renameat | libc::SYS_renameat2 => named("renameat", Some(2), 3),
            libc::SYS_linkat => named("linkat", Some(2), 3),
            libc::SYS_readlink => named("readlink", None, 0),
            libc::SYS_open => named("open", None, 0),
            libc::SYS_stat | libc::SYS_lstat => named("stat", None, 0),
            libc::SYS_mkdir => named("mkdir", None, 0),
            libc::SYS_unlink => named("unlink", None, 0),
            libc::SYS_rmdir => named("rmdir", None, 0),
            libc::SYS_rename => named("rename", None, 1),
            libc::SYS_read => open("read"),
            libc::SYS_write => open("write"),
            libc::SYS_close => open("close"),
            libc::SYS_fstat => open("fstat"),
            libc::SYS_getdents64 => open("getdents64"),
            libc::SYS_fsync | libc::SYS_fdatasync => open("fsync"),
            libc::SYS_flock => open("flock"),
            libc::SYS_fchmod => open("fchmod"),
            libc::SYS_lseek => open("lseek"),
            _ => None,
        }?;
        path.starts_with(&self.folder).then(|| format!("{name} {}", path.display()))
    }
}

/// The file that a thread names, relative to an open folder or to the current one.
fn path(thread: Pid, folder: Option<u64>, name: u64) -> PathBuf {
    let name = text(thread, name);
    let folder = match folder.map(|folder| folder as i32) {
        None | Some(libc::AT_FDCWD) => format!("/proc/{thread}/cwd"),
        Some(folder) => format!("/proc/{thread}/fd/{folder}"),
    };
    fs::read_link(folder).unwrap_or_default().join(name)
}

/// A text in a thread's memory.
fn text(thread: Pid, address: u64) -> String {
    let Ok(memory) = File::open(format!("/proc/{thread}/mem")) else { return String::new() };
    let mut bytes = [0; libc::PATH_MAX as usize];
    // What follows the text may end before a page does.
    let most = (0x1000 - address % 0x1000) as usize;
    let mut length = memory.read_at(&mut bytes[..most], address).unwrap_or(0);
    if !bytes[..length].contains(&0) {
        length += memory.read_at(&mut bytes[length..], address + length as u64).unwrap_or(0);
    }
    let end = bytes[..length].iter().position(|byte| *byte == 0).unwrap_or(length);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
