//! Watches a program and its threads through ptrace, as strace does: what it would change in the file system, and the
//! sockets that it makes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::Pid;

use crate::support::calls::{NamingCall, Purpose, Stop, TracedProgram};

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
    let mut watch = Watch::default();
    let code = TracedProgram::start(command)?.follow(|thread, stop| watch.look(thread, stop))?;
    Ok(Trace { code, events: watch.events })
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
    fn look(&mut self, thread: Pid, stop: Stop) {
        match stop {
            Stop::Entry { number, arguments } => self.begins(thread, number, arguments),
            Stop::Exit { result } => {
                if let Some(named) = self.opening.remove(&thread) {
                    // What was opened says where a name led to.
                    let opened = fs::read_link(format!("/proc/{thread}/fd/{result}"));
                    self.events.push(Event::Change(opened.unwrap_or(named)));
                }
            }
        }
    }

    fn begins(&mut self, thread: Pid, call: i64, arguments: [u64; 6]) {
        const WRITES: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u64;
        match (NamingCall::of(call), call) {
            (Some(NamingCall { purpose: Purpose::Look, .. }), _) => {}
            (Some(naming @ NamingCall { purpose: Purpose::Open(flags), .. }), _) => {
                if flags.read(thread, arguments).is_none_or(|flags| flags & WRITES != 0) {
                    self.opening.insert(thread, naming.path(thread, arguments));
                }
            }
            (Some(naming), _) => self.events.push(Event::Change(naming.path(thread, arguments))),
            (None, libc::SYS_socket | libc::SYS_socketpair | libc::SYS_connect) => self.events.push(Event::Socket),
            (None, libc::SYS_io_uring_setup) => self.events.push(Event::Hidden("io_uring_setup")),
            (None, _) => {}
        }
    }
}
