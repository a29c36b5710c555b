//! What a program did to the files of a folder, operation by operation, with the bytes.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::calls::{self, NamingCall, Purpose, Stop, TracedProgram};

/// A file or a folder, whatever its names; [`ROOT`] is the folder that is watched.
pub type Object = usize;
pub const ROOT: Object = 0;

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub folder: Object,
    pub name: OsString,
}

/// A change of the file system, or a promise of it that earlier ones are on the disk.
#[derive(Clone, Debug)]
pub enum Action {
    /// A name is given to a file or a folder, mostly a new one.
    Link {
        at: Name,
        object: Object,
        is_folder: bool,
    },
    Rename {
        from: Name,
        to: Name,
        object: Object,
    },
    Remove {
        at: Name,
    },
    Write {
        file: Object,
        offset: u64,
        bytes: Vec<u8>,
    },
    Resize {
        file: Object,
        length: u64,
    },
    /// `fsync` or `fdatasync`, which succeeded.
    Sync {
        object: Object,
    },
}

/// An action with the moments of the journal's clock between which it happened.
#[derive(Clone, Debug)]
pub struct Operation {
    pub begin: u64,
    pub end: u64,
    pub action: Action,
}

/// All that was done.
#[derive(Debug, Default)]
pub struct Journal {
    pub operations: Vec<Operation>,
    /// The clock's last moment.
    pub end: u64,
    /// Calls that change files in ways that are not recorded: with one of these the journal is worth nothing.
    pub unrecorded: Vec<&'static str>,
}

/// A running program whose changes of a folder are recorded.
pub struct Recorder {
    process: Pid,
    clock: Arc<AtomicU64>,
    thread: JoinHandle<io::Result<Journal>>,
}

impl Recorder {
    /// Starts a program. The folder must be empty.
    pub fn start(mut command: Command, folder: &Path) -> (Self, ChildStdout) {
        let folder = folder.canonicalize().unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "files from before are not in the journal");
        let clock = Arc::new(AtomicU64::new(0));
        let (started, start) = mpsc::channel();
        let theirs = Arc::clone(&clock);
        // Whoever starts a program is the only one who can follow it.
        let thread = thread::spawn(move || {
            let mut traced = TracedProgram::start(command.stdout(Stdio::piped()))?;
            started.send((traced.process.id(), traced.process.stdout.take().unwrap())).unwrap();
            let mut watch = Watch::new(folder, theirs);
            traced.follow(|thread, stop| watch.look(thread, stop))?;
            watch.journal.end = watch.tick();
            Ok(watch.journal)
        });
        let (process, output) = start.recv().expect("the program is started and can be traced");
        (Self { process: Pid::from_raw(process.cast_signed()), clock, thread }, output)
    }

    /// A moment of its own: what was done before has an earlier one.
    pub fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Kills the program.
    pub fn finish(self) -> Journal {
        kill(self.process, Signal::SIGKILL).unwrap();
        let journal = self.thread.join().unwrap().unwrap();
        assert!(journal.unrecorded.is_empty(), "changes of files that are not recorded: {:?}", journal.unrecorded);
        journal
    }
}

/// What a thread is about to do.
enum Intent {
    Open { path: PathBuf, is_new: bool, truncates: bool },
    MakeFolder { path: PathBuf },
    Write { file: Object, descriptor: u64, pieces: Vec<(u64, u64)>, offset: Option<u64> },
    Done(Action),
}

struct Watch {
    folder: PathBuf,
    clock: Arc<AtomicU64>,
    /// By device and number of the inode. A number is given again once its file is gone.
    objects: HashMap<(u64, u64), Object>,
    made: usize,
    intents: HashMap<Pid, (u64, Intent)>,
    journal: Journal,
}

fn key(facts: &Metadata) -> (u64, u64) {
    (facts.dev(), facts.ino())
}

impl Watch {
    fn new(folder: PathBuf, clock: Arc<AtomicU64>) -> Self {
        let objects = HashMap::from([(key(&fs::metadata(&folder).unwrap()), ROOT)]);
        Self { folder, clock, objects, made: ROOT, intents: HashMap::new(), journal: Journal::default() }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn look(&mut self, thread: Pid, stop: Stop) {
        match stop {
            Stop::Entry { number, arguments } => {
                if let Some(intent) = self.intent(thread, number, arguments) {
                    self.intents.insert(thread, (self.tick(), intent));
                }
            }
            Stop::Exit { result } => {
                let Some((begin, intent)) = self.intents.remove(&thread) else { return };
                if result >= 0 {
                    let actions = self.actions(thread, intent, result.unsigned_abs());
                    let end = self.tick();
                    self.journal.operations.extend(actions.into_iter().map(|action| Operation { begin, end, action }));
                }
            }
        }
    }

    /// What a call is about to do to the folder, if anything.
    fn intent(&mut self, thread: Pid, call: i64, arguments: [u64; 6]) -> Option<Intent> {
        if let Some(naming) = NamingCall::of(call) {
            return self.naming_intent(naming, thread, arguments);
        }
        let [first, second, third, fourth, ..] = arguments;
        match call {
            libc::SYS_write => self.write(thread, first, vec![(second, third)], None),
            libc::SYS_pwrite64 => self.write(thread, first, vec![(second, third)], Some(fourth)),
            libc::SYS_writev => self.write(thread, first, pieces(thread, second, third), None),
            libc::SYS_pwritev => self.write(thread, first, pieces(thread, second, third), Some(fourth)),
            libc::SYS_ftruncate => {
                Some(Intent::Done(Action::Resize { file: self.opened(thread, first)?, length: second }))
            }
            libc::SYS_fsync | libc::SYS_fdatasync => {
                Some(Intent::Done(Action::Sync { object: self.opened(thread, first)? }))
            }
            _ => {
                self.journal.unrecorded.extend(self.unrecorded(thread, call, arguments));
                None
            }
        }
    }

    /// What a call that names a file is about to do to the folder, if anything.
    fn naming_intent(&mut self, call: NamingCall, thread: Pid, arguments: [u64; 6]) -> Option<Intent> {
        let path = call.path(thread, arguments);
        match call.purpose {
            Purpose::Open(flags) => self.open(path, flags.read(thread, arguments)?),
            Purpose::MakeFolder => self.make_folder(path),
            Purpose::Remove => self.remove(&path),
            Purpose::Rename if call.name == "renameat2" && arguments[4] & u64::from(libc::RENAME_EXCHANGE) != 0 => {
                self.unrecorded_at(&path, "renameat2 that exchanges")
            }
            Purpose::Rename => self.rename(&call.from(thread, arguments), &path),
            Purpose::Link => self.link(&call.from(thread, arguments), &path),
            Purpose::Look => None,
            // Attributes are no part of the journal.
            Purpose::Change if call.name.contains("chmod") || call.name.contains("chown") => None,
            Purpose::Change => self.unrecorded_at(&path, call.name),
        }
    }

    /// Notes a change of a path that is not recorded, if it is in the folder.
    fn unrecorded_at(&mut self, path: &Path, name: &'static str) -> Option<Intent> {
        self.journal.unrecorded.extend(path.starts_with(&self.folder).then_some(name));
        None
    }

    /// Other calls that change files of the folder.
    fn unrecorded(&self, thread: Pid, call: i64, arguments: [u64; 6]) -> Option<&'static str> {
        let opened = |name, number: usize| self.opened(thread, arguments[number]).map(|_| name);
        let shared = libc::MAP_SHARED as u64;
        match call {
            libc::SYS_io_uring_setup => Some("io_uring_setup"),
            libc::SYS_mmap if arguments[2] & libc::PROT_WRITE as u64 != 0 && arguments[3] & shared != 0 => {
                opened("mmap", 4)
            }
            libc::SYS_sendfile => opened("sendfile", 0),
            libc::SYS_fallocate => opened("fallocate", 0),
            libc::SYS_pwritev2 => opened("pwritev2", 0),
            libc::SYS_copy_file_range => opened("copy_file_range", 2),
            libc::SYS_splice => opened("splice", 2),
            _ => None,
        }
    }

    fn open(&mut self, path: PathBuf, flags: u64) -> Option<Intent> {
        let has = |flag: libc::c_int| flags & flag as u64 != 0;
        if !path.starts_with(&self.folder) || !(has(libc::O_CREAT) || has(libc::O_TRUNC) || has(libc::O_WRONLY)) {
            return None;
        }
        let is_new = fs::symlink_metadata(&path).is_err();
        Some(Intent::Open { path, is_new, truncates: has(libc::O_TRUNC) })
    }

    fn make_folder(&self, path: PathBuf) -> Option<Intent> {
        path.starts_with(&self.folder).then_some(Intent::MakeFolder { path })
    }

    fn remove(&self, path: &Path) -> Option<Intent> {
        Some(Intent::Done(Action::Remove { at: self.name(path)? }))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Option<Intent> {
        let (from_name, to) = (self.name(from), self.name(to));
        if from_name.is_some() != to.is_some() {
            self.journal.unrecorded.push("rename into the folder or out of it");
        }
        let object = self.object(&fs::symlink_metadata(from).ok()?)?;
        Some(Intent::Done(Action::Rename { from: from_name?, to: to?, object }))
    }

    fn link(&self, from: &Path, to: &Path) -> Option<Intent> {
        let object = self.object(&fs::symlink_metadata(from).ok()?)?;
        Some(Intent::Done(Action::Link { at: self.name(to)?, object, is_folder: false }))
    }

    fn write(&self, thread: Pid, descriptor: u64, pieces: Vec<(u64, u64)>, offset: Option<u64>) -> Option<Intent> {
        Some(Intent::Write { file: self.opened(thread, descriptor)?, descriptor, pieces, offset })
    }

    /// What a call has done that returned `result`.
    fn actions(&mut self, thread: Pid, intent: Intent, result: u64) -> Vec<Action> {
        match intent {
            Intent::Open { path, is_new, truncates } => {
                let facts = fs::metadata(format!("/proc/{thread}/fd/{result}")).unwrap();
                if is_new {
                    return vec![self.make(&path, &facts)];
                }
                let file = self.object(&facts).expect("every file was made under watch");
                if truncates { vec![Action::Resize { file, length: 0 }] } else { Vec::new() }
            }
            Intent::MakeFolder { path } => {
                let facts = fs::metadata(&path).unwrap();
                vec![self.make(&path, &facts)]
            }
            Intent::Write { file, descriptor, pieces, offset } => {
                let offset = offset.unwrap_or_else(|| position(thread, descriptor) - result);
                let all = pieces.iter().flat_map(|&(address, length)| calls::bytes(thread, address, length as usize));
                let mut bytes: Vec<u8> = all.flatten().collect();
                bytes.truncate(usize::try_from(result).unwrap());
                assert_eq!(bytes.len() as u64, result, "what was written could not be read");
                vec![Action::Write { file, offset, bytes }]
            }
            Intent::Done(action) => vec![action],
        }
    }

    fn make(&mut self, path: &Path, facts: &Metadata) -> Action {
        self.made += 1;
        self.objects.insert(key(facts), self.made);
        let at = self.name(path).expect("it is in the folder");
        Action::Link { at, object: self.made, is_folder: facts.is_dir() }
    }

    fn object(&self, facts: &Metadata) -> Option<Object> {
        self.objects.get(&key(facts)).copied()
    }

    /// The file of the folder that a thread has open under a number.
    fn opened(&self, thread: Pid, descriptor: u64) -> Option<Object> {
        self.object(&fs::metadata(format!("/proc/{thread}/fd/{descriptor}")).ok()?)
    }

    /// The entry that a path leads to, if it is in the folder.
    fn name(&self, path: &Path) -> Option<Name> {
        let folder = self.object(&fs::metadata(path.parent()?).ok()?)?;
        Some(Name { folder, name: path.file_name()?.to_owned() })
    }
}

/// Addresses and lengths of what is written by one call from many places.
fn pieces(thread: Pid, address: u64, count: u64) -> Vec<(u64, u64)> {
    let words =
        |piece: u64| Some((calls::word(thread, address + 16 * piece)?, calls::word(thread, address + 16 * piece + 8)?));
    (0..count).filter_map(words).collect()
}

/// Where a file that is open will be written next.
fn position(thread: Pid, descriptor: u64) -> u64 {
    let facts = fs::read_to_string(format!("/proc/{thread}/fdinfo/{descriptor}")).unwrap();
    facts.lines().find_map(|line| line.strip_prefix("pos:")).unwrap().trim().parse().unwrap()
}
