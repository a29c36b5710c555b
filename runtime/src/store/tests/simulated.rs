//! A disk that can lose power at any moment, and fail in every way a real one does.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;

use crate::store::disk::Disk;

/// What became of an operation that no sync covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Applied,
    Lost,
    Garbage,
}

pub const FATES: [Fate; 3] = [Fate::Applied, Fate::Lost, Fate::Garbage];

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// EIO; a sync that fails loses what it was to write.
    Broken,
    /// ENOSPC: what needs room fails.
    Full,
    /// EROFS: what changes anything fails.
    ReadOnly,
    /// Half of the bytes are taken, then the disk is full.
    Short,
}

/// An operation that no sync has covered yet.
#[derive(Clone, Debug)]
enum Pending {
    Data { inode: usize, offset: usize, bytes: Vec<u8> },
    Link { name: String, inode: usize },
    Rename { from: String, to: String, inode: usize },
    Remove { name: String },
}

/// Names and contents of all files.
pub type Image = BTreeMap<String, Vec<u8>>;

#[derive(Clone, Debug, Default)]
struct SimulatedContents {
    names: BTreeMap<String, usize>,
    inodes: Vec<Vec<u8>>,
}

/// The disk.
#[derive(Debug, Default)]
pub struct SimulatedDisk {
    /// What programs see.
    seen: RefCell<SimulatedContents>,
    /// What is on the disk for sure.
    durable: RefCell<SimulatedContents>,
    pending: RefCell<Vec<Pending>>,
    /// Most operations that no sync covered at a time, so far.
    most_pending: Cell<usize>,
    /// Files whose sync has failed, which nobody may rely on.
    poisoned: RefCell<Vec<usize>>,
    /// Operations that change something, so far.
    done: Cell<usize>,
    /// Operations until the power goes.
    power: Cell<Option<usize>>,
    /// The operation that fails, how, and whether all after it do.
    fault: Cell<Option<(usize, Failure, bool)>>,
    /// Reads so far, of files and of the folder.
    reads: Cell<usize>,
    /// The read that fails, with which error, and whether all after it do.
    read_fault: Cell<Option<(usize, i32, bool)>>,
    /// Bytes of a write that are taken at a time.
    block: Cell<usize>,
    /// Bytes written.
    written: Cell<usize>,
}

impl SimulatedDisk {
    /// A disk with these files on it, which takes `block` bytes at a time.
    pub fn new(image: &Image, block: usize) -> Self {
        let disk = Self::default();
        for (name, bytes) in image {
            for contents in [&disk.seen, &disk.durable] {
                let contents = &mut *contents.borrow_mut();
                contents.names.insert(name.clone(), contents.inodes.len());
                contents.inodes.push(bytes.clone());
            }
        }
        disk.block.set(block);
        disk
    }

    /// Cuts the power before the operation of that number.
    pub fn cut_power_before(&self, operation: usize) {
        self.power.set(Some(operation));
    }

    /// Lets an operation fail, and all after it if that is asked for.
    pub fn fail(&self, fault: Option<(usize, Failure, bool)>) {
        self.fault.set(fault);
    }

    /// Lets a read fail with an error of the system, and all after it if that is asked for. Counts from here.
    pub fn fail_read(&self, fault: Option<(usize, i32, bool)>) {
        self.reads.set(0);
        self.read_fault.set(fault);
    }

    /// Reads since failing reads were last asked for.
    pub fn reads(&self) -> usize {
        self.reads.get()
    }

    /// Whether the power is gone.
    pub fn is_off(&self) -> bool {
        self.power.get().is_some_and(|operation| self.done.get() >= operation)
    }

    /// Operations so far.
    pub fn operations(&self) -> usize {
        self.done.get()
    }

    /// Bytes written so far.
    pub fn written(&self) -> usize {
        self.written.get()
    }

    /// Number of operations that no sync covers.
    pub fn pending(&self) -> usize {
        self.pending.borrow().len()
    }

    /// Most operations that no sync covered at a time, so far.
    pub fn most_pending(&self) -> usize {
        self.most_pending.get()
    }

    /// What programs see.
    pub fn image(&self) -> Image {
        self.seen.borrow().image()
    }

    /// What is on the disk when the power comes back, given the fate of every operation that no sync covered.
    pub fn after_crash(&self, fates: &[Fate]) -> Image {
        let mut contents = self.durable.borrow().clone();
        for (pending, fate) in self.pending.borrow().iter().zip(fates) {
            contents.meet(pending, *fate);
        }
        contents.image()
    }

    /// One more operation that changes something.
    fn operate(&self, needs_room: bool) -> io::Result<()> {
        if self.is_off() {
            return Err(io::Error::other("the power is off"));
        }
        let operation = self.done.replace(self.done.get() + 1);
        match self.fault.get() {
            Some((at, failure, lasting)) if operation == at || lasting && operation > at => {
                let code = match failure {
                    Failure::Broken => codes::EIO,
                    Failure::ReadOnly => codes::EROFS,
                    Failure::Full | Failure::Short if needs_room => codes::ENOSPC,
                    Failure::Full | Failure::Short => return Ok(()),
                };
                Err(io::Error::from_raw_os_error(code))
            }
            _ => Ok(()),
        }
    }

    /// One more operation that no sync covers.
    fn add_pending(&self, operation: Pending) {
        let mut pending = self.pending.borrow_mut();
        pending.push(operation);
        self.most_pending.set(self.most_pending.get().max(pending.len()));
    }

    /// One more read.
    fn look(&self) -> io::Result<()> {
        let read = self.reads.replace(self.reads.get() + 1);
        match self.read_fault.get() {
            Some((at, code, lasting)) if read == at || lasting && read > at => Err(io::Error::from_raw_os_error(code)),
            _ => Ok(()),
        }
    }

    fn inode(&self, name: &str) -> io::Result<usize> {
        self.seen.borrow().names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The numbers that Linux gives to these errors.
pub mod codes {
    pub const EACCES: i32 = 13;
    pub const EIO: i32 = 5;
    pub const ENOSPC: i32 = 28;
    pub const EROFS: i32 = 30;
}

impl SimulatedContents {
    fn image(&self) -> Image {
        self.names.iter().map(|(name, inode)| (name.clone(), self.inodes[*inode].clone())).collect()
    }

    fn room(&mut self, inode: usize, length: usize) -> &mut Vec<u8> {
        if self.inodes.len() <= inode {
            self.inodes.resize(inode + 1, Vec::new());
        }
        let file = &mut self.inodes[inode];
        file.resize(file.len().max(length), 0);
        file
    }

    /// Bytes that nobody wrote, though they start as the right ones do.
    fn garbage(&mut self) -> usize {
        self.inodes.push([&b"ORCOSLOT"[..], &[0xA5; 200]].concat());
        self.inodes.len() - 1
    }

    fn meet(&mut self, pending: &Pending, fate: Fate) {
        match (pending, fate) {
            (_, Fate::Lost) => {}
            (Pending::Data { inode, offset, bytes }, fate) => {
                let file = self.room(*inode, offset + bytes.len());
                let torn = |byte: &u8| if fate == Fate::Garbage { byte ^ 0x5A } else { *byte };
                file[*offset..][..bytes.len()].iter_mut().zip(bytes).for_each(|(to, from)| *to = torn(from));
            }
            (Pending::Link { name, inode }, fate) => {
                self.room(*inode, 0);
                let inode = if fate == Fate::Garbage { self.garbage() } else { *inode };
                self.names.insert(name.clone(), inode);
            }
            (Pending::Rename { from, to, inode }, fate) => {
                self.room(*inode, 0);
                self.names.remove(from);
                let inode = if fate == Fate::Garbage { self.garbage() } else { *inode };
                self.names.insert(to.clone(), inode);
            }
            (Pending::Remove { name }, Fate::Applied) => drop(self.names.remove(name)),
            (Pending::Remove { name }, Fate::Garbage) => {
                let inode = self.garbage();
                self.names.insert(name.clone(), inode);
            }
        }
    }
}

impl Disk for SimulatedDisk {
    type File = usize;

    fn list(&self) -> io::Result<Vec<String>> {
        self.look()?;
        Ok(self.seen.borrow().names.keys().cloned().collect())
    }

    fn read(&self, name: &str, _: usize) -> io::Result<Option<Vec<u8>>> {
        self.look()?;
        let seen = self.seen.borrow();
        Ok(seen.names.get(name).map(|inode| seen.inodes[*inode].clone()))
    }

    fn length(&self, name: &str) -> usize {
        let seen = self.seen.borrow();
        seen.names.get(name).map_or(0, |inode| seen.inodes[*inode].len())
    }

    fn create(&self, name: &str) -> io::Result<usize> {
        self.operate(true)?;
        let mut seen = self.seen.borrow_mut();
        if seen.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = seen.inodes.len();
        seen.inodes.push(Vec::new());
        seen.names.insert(name.into(), inode);
        self.add_pending(Pending::Link { name: name.into(), inode });
        Ok(inode)
    }

    fn write(&self, file: &mut usize, bytes: &[u8]) -> io::Result<usize> {
        let short = matches!(self.fault.get(), Some((at, Failure::Short, _)) if at == self.done.get());
        if short {
            // Half is taken; what comes next finds no room.
            self.fault.set(Some((self.done.get() + 1, Failure::Full, true)));
        }
        self.operate(true)?;
        let taken = bytes.len().min(self.block.get());
        let taken = if short { taken / 2 } else { taken };
        let mut seen = self.seen.borrow_mut();
        let offset = seen.inodes[*file].len();
        seen.inodes[*file].extend_from_slice(&bytes[..taken]);
        self.add_pending(Pending::Data { inode: *file, offset, bytes: bytes[..taken].to_vec() });
        self.written.set(self.written.get() + taken);
        Ok(taken)
    }

    fn sync(&self, file: &mut usize) -> io::Result<()> {
        let own = |pending: &Pending| matches!(pending, Pending::Data { inode, .. } if inode == file);
        self.operate(true).inspect_err(|_| {
            if !self.is_off() {
                // The system takes the pages for written, though they are not.
                self.pending.borrow_mut().retain(|pending| !own(pending));
                self.poisoned.borrow_mut().push(*file);
            }
        })?;
        let mut durable = self.durable.borrow_mut();
        self.pending.borrow_mut().retain(|pending| {
            if own(pending) {
                durable.meet(pending, Fate::Applied);
            }
            !own(pending)
        });
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.operate(false)?;
        let inode = self.inode(from)?;
        assert!(!self.poisoned.borrow().contains(&inode), "a file whose sync has failed came into use");
        let mut seen = self.seen.borrow_mut();
        seen.names.remove(from);
        seen.names.insert(to.into(), inode);
        self.add_pending(Pending::Rename { from: from.into(), to: to.into(), inode });
        Ok(())
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        if self.inode(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inode(name)?;
        self.operate(false)?;
        self.seen.borrow_mut().names.remove(name);
        self.add_pending(Pending::Remove { name: name.into() });
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.operate(true)?;
        let mut durable = self.durable.borrow_mut();
        self.pending.borrow_mut().retain(|pending| {
            let data = matches!(pending, Pending::Data { .. });
            if !data {
                durable.meet(pending, Fate::Applied);
            }
            data
        });
        Ok(())
    }
}

/// Calls `each` with every combination of fates of `operations` operations.
pub fn every_fate(operations: usize, each: &mut dyn FnMut(&[Fate])) {
    let mut digits = vec![0usize; operations];
    let mut fates: Box<[Fate]> = vec![FATES[0]; operations].into();
    loop {
        each(&fates);
        let Some(index) = digits.iter().position(|digit| *digit < 2) else { return };
        digits[..index].fill(0);
        fates[..index].fill(FATES[0]);
        digits[index] += 1;
        fates[index] = FATES[digits[index]];
    }
}
