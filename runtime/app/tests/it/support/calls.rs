//! Follows every system call of a program and its threads through ptrace, as strace does. Needs nothing installed, and
//! no rights beyond those over one's own children.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// A thread that stands at the beginning or the end of a system call.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// Its number and arguments.
    Entry { number: i64, arguments: [u64; 6] },
    /// What it returned; an error is a negative number.
    Exit { result: i64 },
}

/// What a call that names a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Opens it; where its flags are.
    Open(Flags),
    /// Reads its attributes, or where a link leads.
    Look,
    MakeFolder,
    Remove,
    Rename,
    Link,
    /// Changes it, or makes it, in another way.
    Change,
}

/// Flags of a call that opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flags {
    /// The argument of this number.
    Argument(usize),
    /// The word that the argument of this number points to.
    Memory(usize),
    /// These.
    Are(u64),
}

impl Flags {
    /// The flags of a call; `None` if they cannot be read.
    pub fn read(self, thread: Pid, arguments: [u64; 6]) -> Option<u64> {
        match self {
            Self::Argument(number) => Some(arguments[number]),
            Self::Memory(number) => word(thread, arguments[number]),
            Self::Are(flags) => Some(flags),
        }
    }
}

/// A call that names a file: the one that it makes, changes or looks at, where it names two.
#[derive(Clone, Copy, Debug)]
pub struct NamingCall {
    pub name: &'static str,
    pub purpose: Purpose,
    /// Number of the argument with the folder that the name starts at, if there is one.
    folder: Option<usize>,
    /// Number of the argument with the name.
    path: usize,
}

impl NamingCall {
    /// The call of that number, if it names a file.
    pub fn of(number: i64) -> Option<Self> {
        use Purpose::{Change, Link, Look, MakeFolder, Open, Remove, Rename};
        let at = |name, purpose, folder, path| Some(Self { name, purpose, folder: Some(folder), path });
        #[cfg(target_arch = "x86_64")]
        let here = |name, purpose, path| Some(Self { name, purpose, folder: None, path });
        match number {
            libc::SYS_openat => at("openat", Open(Flags::Argument(2)), 0, 1),
            libc::SYS_openat2 => at("openat2", Open(Flags::Memory(2)), 0, 1),
            libc::SYS_newfstatat => at("newfstatat", Look, 0, 1),
            libc::SYS_statx => at("statx", Look, 0, 1),
            libc::SYS_readlinkat => at("readlinkat", Look, 0, 1),
            libc::SYS_mkdirat => at("mkdirat", MakeFolder, 0, 1),
            libc::SYS_unlinkat => at("unlinkat", Remove, 0, 1),
            libc::SYS_renameat2 => at("renameat2", Rename, 2, 3),
            libc::SYS_linkat => at("linkat", Link, 2, 3),
            libc::SYS_symlinkat => at("symlinkat", Change, 1, 2),
            libc::SYS_mknodat => at("mknodat", Change, 0, 1),
            libc::SYS_fchmodat => at("fchmodat", Change, 0, 1),
            libc::SYS_fchownat => at("fchownat", Change, 0, 1),
            libc::SYS_truncate => Some(Self { name: "truncate", purpose: Change, folder: None, path: 0 }),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            libc::SYS_renameat => at("renameat", Rename, 2, 3),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => here("open", Open(Flags::Argument(1)), 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => here("creat", Open(Flags::Are((libc::O_CREAT | libc::O_TRUNC) as u64)), 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_stat => here("stat", Look, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lstat => here("lstat", Look, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_readlink => here("readlink", Look, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => here("mkdir", MakeFolder, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => here("unlink", Remove, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rmdir => here("rmdir", Remove, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => here("rename", Rename, 1),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => here("link", Link, 1),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => here("symlink", Change, 1),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mknod => here("mknod", Change, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => here("chmod", Change, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chown => here("chown", Change, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => here("lchown", Change, 0),
            _ => None,
        }
    }

    /// The file that a thread names with it.
    pub fn path(self, thread: Pid, arguments: [u64; 6]) -> PathBuf {
        path(thread, self.folder.map(|number| arguments[number]), arguments[self.path])
    }

    /// The file that is renamed, or gets a further name: its arguments come before the new name's.
    pub fn from(self, thread: Pid, arguments: [u64; 6]) -> PathBuf {
        let before = if self.folder.is_some() { 2 } else { 1 };
        path(thread, self.folder.map(|number| arguments[number - before]), arguments[self.path - before])
    }
}

/// A program that waits at its first instruction to be followed, by the thread that started it.
pub struct TracedProgram {
    pub process: Child,
}

impl TracedProgram {
    /// Starts a program.
    ///
    /// # Errors
    /// If it cannot be started or traced, as where ptrace is forbidden.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        // SAFETY: between fork and exec it only makes a system call.
        unsafe { command.pre_exec(|| Ok(ptrace::traceme()?)) };
        let process = command.spawn()?;
        let child = Pid::from_raw(process.id().cast_signed());
        // The first stop, after exec. Only children of this thread are waited for: other tests have theirs.
        waitpid(child, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD))?;
        let follow = Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACEVFORK;
        ptrace::setoptions(child, follow | Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL)?;
        Ok(Self { process })
    }

    /// Runs it to its end and returns its exit code, `None` if a signal ended it. `look` sees every system call.
    ///
    /// # Errors
    /// If it cannot be traced any longer.
    pub fn follow(self, mut look: impl FnMut(Pid, Stop)) -> io::Result<Option<i32>> {
        let child = Pid::from_raw(self.process.id().cast_signed());
        ptrace::syscall(child, None)?;
        loop {
            let status = waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD))?;
            let (thread, signal) = match status {
                WaitStatus::Exited(thread, code) if thread == child => return Ok(Some(code)),
                WaitStatus::Signaled(thread, ..) if thread == child => return Ok(None),
                WaitStatus::PtraceSyscall(thread) => {
                    if let Some(stop) = stop(thread)? {
                        look(thread, stop);
                    }
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
}

/// Where a thread stands; `None` if it was killed meanwhile.
fn stop(thread: Pid) -> io::Result<Option<Stop>> {
    let info = match ptrace::syscall_info(thread) {
        Ok(info) => info,
        Err(nix::Error::ESRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(match info.op {
        libc::PTRACE_SYSCALL_INFO_ENTRY => {
            // SAFETY: at the beginning of a call, the union holds its number and arguments.
            let entry = unsafe { info.u.entry };
            Some(Stop::Entry { number: entry.nr.cast_signed(), arguments: entry.args })
        }
        libc::PTRACE_SYSCALL_INFO_EXIT => {
            // SAFETY: at the end of a call, the union holds its result.
            Some(Stop::Exit { result: unsafe { info.u.exit.sval } })
        }
        _ => None,
    })
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

/// Bytes in a thread's memory.
pub fn bytes(thread: Pid, address: u64, count: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; count];
    File::open(format!("/proc/{thread}/mem")).ok()?.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
}

/// Eight bytes in a thread's memory.
pub fn word(thread: Pid, address: u64) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes(thread, address, 8)?.try_into().ok()?))
}
