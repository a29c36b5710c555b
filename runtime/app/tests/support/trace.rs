//! Watches a program and its threads through ptrace, as strace does: what it would change in the file system, and the
//! sockets that it makes. Needs nothing installed, and no rights beyond those over one's own children.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Something that a program did, or tried.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// Opened a file to write it, or changed a folder's entries or a file's attributes.
    Change(PathBuf),
    /// Made a socket.
    Socket,
    /// A system call that would hide the others from view.
    Hidden(&'static str),
}

/// How a program ended and what it did, in order.
#[derive(Debug)]
pub struct Trace {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub events: Vec<Event>,
}

impl Trace {
    /// Changes outside of some folders, and sockets.
    pub fn outside(&self, folders: &[&Path]) -> Vec<&Event> {
        let allowed = |event: &&Event| match event {
            Event::Change(path) => folders.iter().any(|folder| path.starts_with(folder)) || harmless(path),
            Event::Socket | Event::Hidden(_) => false,
        };
        self.events.iter().filter(|event| !allowed(event)).collect()
    }
}

/// The terminal, the void, and memory without a name.
fn harmless(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text == "/dev/null" || text == "/dev/tty" || text.starts_with("/dev/pts/") || text.starts_with("/memfd:")
}

/// Runs a command to its end under watch.
///
/// # Errors
/// If it cannot be started or watched, as where ptrace is forbidden.
pub fn trace(command: &mut Command) -> io::Result<Trace> {
    // SAFETY: between fork and exec it only makes a system call.
    unsafe { command.pre_exec(|| Ok(ptrace::traceme()?)) };
    let child = Pid::from_raw(command.spawn()?.id().cast_signed());
    // The first stop, after exec. Only children of this thread are waited for: other tests have theirs.
    waitpid(child, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD))?;
    let follow = Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACEVFORK;
    ptrace::setoptions(child, follow | Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL)?;
    ptrace::syscall(child, None)?;
    let mut watch = Watch::default();
    loop {
        let status = waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD))?;
        let (thread, signal) = match status {
            WaitStatus::Exited(thread, code) if thread == child => {
                return Ok(Trace { code: Some(code), events: watch.events });
            }
            WaitStatus::Signaled(thread, ..) if thread == child => {
                return Ok(Trace { code: None, events: watch.events });
            }
            WaitStatus::PtraceSyscall(thread) => {
                watch.look(thread)?;
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

/// What is known so far.
#[derive(Default)]
struct Watch {
    events: Vec<Event>,
    /// What each thread is about to open for writing, under the name that it gave.
    opening: BTreeMap<Pid, PathBuf>,
}

impl Watch {
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
                self.begins(thread, entry.nr.cast_signed(), entry.args);
            }
            libc::PTRACE_SYSCALL_INFO_EXIT => {
                // SAFETY: at the end of a call, the union holds its result.
                let result = unsafe { info.u.exit.sval };
                if let Some(named) = self.opening.remove(&thread) {
                    // What was opened says where a name led to.
                    let opened = fs::read_link(format!("/proc/{thread}/fd/{result}"));
                    self.events.push(Event::Change(opened.unwrap_or(named)));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn begins(&mut self, thread: Pid, call: i64, arguments: [u64; 6]) {
        const WRITES: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;
        let path =
            |folder: Option<usize>, name: usize| self::path(thread, folder.map(|n| arguments[n]), arguments[name]);
        let opened = match call {
            libc::SYS_openat if arguments[2] & WRITES != 0 => Some(path(Some(0), 1)),
            libc::SYS_openat2 if word(thread, arguments[2]).is_none_or(|flags| flags & WRITES != 0) => {
                Some(path(Some(0), 1))
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open if arguments[1] & WRITES != 0 => Some(path(None, 0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => Some(path(None, 0)),
            _ => None,
        };
        if let Some(opened) = opened {
            self.opening.insert(thread, opened);
            return;
        }
        let event = match call {
            libc::SYS_socket | libc::SYS_socketpair | libc::SYS_connect => Event::Socket,
            libc::SYS_io_uring_setup => Event::Hidden("io_uring_setup"),
            libc::SYS_mkdirat | libc::SYS_mknodat | libc::SYS_unlinkat | libc::SYS_fchmodat | libc::SYS_fchownat => {
                Event::Change(path(Some(0), 1))
            }
            libc::SYS_renameat2 | libc::SYS_linkat => Event::Change(path(Some(2), 3)),
            libc::SYS_symlinkat => Event::Change(path(Some(1), 2)),
            libc::SYS_truncate => Event::Change(path(None, 0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir
            | libc::SYS_mknod
            | libc::SYS_unlink
            | libc::SYS_rmdir
            | libc::SYS_chmod
            | libc::SYS_chown
            | libc::SYS_lchown => Event::Change(path(None, 0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename | libc::SYS_link | libc::SYS_symlink => Event::Change(path(None, 1)),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            libc::SYS_renameat => Event::Change(path(Some(2), 3)),
            _ => return,
        };
        self.events.push(event);
    }
}

/// The file that a thread names, relative to an open folder or to the current one.
fn path(thread: Pid, folder: Option<u64>, name: u64) -> PathBuf {
    let name = text(thread, name);
    let here = libc::AT_FDCWD;
    let folder = match folder.map(|folder| folder as i32) {
        None => format!("/proc/{thread}/cwd"),
        Some(folder) if folder == here => format!("/proc/{thread}/cwd"),
        Some(folder) => format!("/proc/{thread}/fd/{folder}"),
    };
    let whole = fs::read_link(folder).unwrap_or_default().join(name);
    // A file that does not exist yet has a folder that may be named through links.
    let resolved = whole.parent().and_then(|parent| Some(fs::canonicalize(parent).ok()?.join(whole.file_name()?)));
    resolved.unwrap_or(whole)
}

/// A text in a thread's memory.
fn text(thread: Pid, address: u64) -> PathBuf {
    let mut bytes = Vec::new();
    let Ok(memory) = File::open(format!("/proc/{thread}/mem")) else { return PathBuf::from("?") };
    let mut byte = [0];
    while bytes.len() < libc::PATH_MAX as usize && memory.read_exact_at(&mut byte, address + bytes.len() as u64).is_ok()
    {
        if byte == [0] {
            break;
        }
        bytes.push(byte[0]);
    }
    OsString::from_vec(bytes).into()
}

/// Eight bytes in a thread's memory.
fn word(thread: Pid, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    File::open(format!("/proc/{thread}/mem")).ok()?.read_exact_at(&mut bytes, address).ok()?;
    Some(u64::from_ne_bytes(bytes))
}
