//! Lets one system call of a program fail, through ptrace: the n-th of those that name something in a folder, or work
//! on something that is open in it. Needs nothing installed, and no rights beyond those over one's own children.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::ptrace;
use nix::unistd::Pid;

use crate::support::calls::{NamingCall, Stop, TracedProgram};

/// How a program ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Calls that concern the folder, in their order, the one that failed among them.
    pub calls: Vec<String>,
    /// The call that failed.
    pub failed: Option<String>,
}

/// Runs a command to its end; the call of that number fails with an error of the system, and no other.
///
/// # Errors
/// If it cannot be started or watched, as where ptrace is forbidden.
pub fn run(command: &mut Command, folder: &Path, fault: Option<(usize, i32)>) -> io::Result<Ending> {
    let mut injector =
        Injector { folder: folder.to_owned(), fault, calls: Vec::new(), failed: None, failing: BTreeMap::new() };
    let mut unable = None;
    let code = TracedProgram::start(command)?.follow(|thread, stop| {
        if let Err(error) = injector.look(thread, stop) {
            unable.get_or_insert(error);
        }
    })?;
    let Injector { calls, failed, .. } = injector;
    unable.map_or(Ok(Ending { code, calls, failed }), |error| Err(error.into()))
}

struct Injector {
    folder: PathBuf,
    fault: Option<(usize, i32)>,
    calls: Vec<String>,
    failed: Option<String>,
    /// Threads in a call that is to fail, and with what.
    failing: BTreeMap<Pid, i32>,
}

impl Injector {
    /// Looks at a thread that stands at the beginning or the end of a system call.
    fn look(&mut self, thread: Pid, stop: Stop) -> nix::Result<()> {
        match stop {
            Stop::Entry { number, arguments } => {
                let Some(call) = self.concerned(thread, number, arguments) else { return Ok(()) };
                let count = self.calls.len();
                self.calls.push(call.clone());
                if let Some((_, code)) = self.fault.filter(|(at, _)| *at == count) {
                    // No call has this number: nothing is done.
                    let mut registers = ptrace::getregs(thread)?;
                    registers.orig_rax = u64::MAX;
                    ptrace::setregs(thread, registers)?;
                    self.failing.insert(thread, code);
                    self.failed = Some(call);
                }
            }
            Stop::Exit { .. } => {
                if let Some(code) = self.failing.remove(&thread) {
                    let mut registers = ptrace::getregs(thread)?;
                    registers.rax = i64::from(-code).cast_unsigned();
                    ptrace::setregs(thread, registers)?;
                }
            }
        }
        Ok(())
    }

    /// What a call does, if it concerns the folder.
    fn concerned(&self, thread: Pid, call: i64, arguments: [u64; 6]) -> Option<String> {
        let (name, path) = match NamingCall::of(call) {
            Some(naming) => (naming.name, naming.path(thread, arguments)),
            None => {
                let name = match call {
                    libc::SYS_read => "read",
                    libc::SYS_write => "write",
                    libc::SYS_close => "close",
                    libc::SYS_fstat => "fstat",
                    libc::SYS_getdents64 => "getdents64",
                    libc::SYS_fsync | libc::SYS_fdatasync => "fsync",
                    libc::SYS_flock => "flock",
                    libc::SYS_fchmod => "fchmod",
                    libc::SYS_lseek => "lseek",
                    _ => return None,
                };
                (name, fs::read_link(format!("/proc/{thread}/fd/{}", arguments[0] as i32)).ok()?)
            }
        };
        path.starts_with(&self.folder).then(|| format!("{name} {}", path.display()))
    }
}
