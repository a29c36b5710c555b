//! What the ranks of one machine have in common: memory that all of them see, each of which fills a part of it.

use std::fs;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

use super::{RankError, RankGroup};

/// Rows that the ranks of a machine fill together.
pub(crate) struct SharedRows {
    /// u8, zero at first; the same memory for all ranks of the machine.
    pub rows: Tensor,
    /// The rows that this rank is to fill.
    pub own: Range<usize>,
    /// Whether this rank does what one of them must do alone.
    pub first: bool,
}

impl SharedRows {
    /// Memory of one rank.
    fn alone(size: &[i64]) -> Self {
        Self { rows: Tensor::zeros(size, (Kind::Uint8, Device::Cpu)), own: 0..size[0] as usize, first: true }
    }
}

impl RankGroup {
    /// Memory for rows of bytes, once for all ranks of a machine. [`RankGroup::barrier`] after filling it.
    ///
    /// Where they cannot share memory each has its own, and fills all of it.
    ///
    /// # Errors
    /// [`RankError::Lost`].
    pub(crate) fn common_rows(&self, size: &[i64]) -> Result<SharedRows, RankError> {
        let count = size.iter().product::<i64>();
        if self.size() == 1 || count == 0 {
            return Ok(SharedRows::alone(size));
        }
        let own = machine();
        let machines: Vec<RankMachine> = self.gather_all(&own)?;
        let apart = |a: &RankMachine, b: &RankMachine| a.boot == b.boot && a != b;
        let divided = machines.iter().any(|a| machines.iter().any(|b| apart(a, b)));
        let here: Vec<usize> = (0..self.size()).filter(|&rank| machines[rank] == own).collect();
        let place = here.iter().position(|&rank| rank == self.rank()).unwrap_or(0);
        // Held open until all have mapped it.
        let (memory, path) = match (place == 0 && here.len() > 1).then(|| segment(count as u64)) {
            Some(Ok((memory, path))) => (Some(memory), path),
            Some(Err(reason)) => {
                log::warn!("no memory can be had for this machine's ranks together: {reason}");
                (None, String::new())
            }
            None => (None, String::new()),
        };
        let paths = self.gather_bytes(path.as_bytes())?;
        let path = String::from_utf8_lossy(&paths[here[0]]);
        let mapped = (!path.is_empty()).then(|| map(&path, count)).flatten();
        let failed = self.any(here.len() > 1 && mapped.is_none())?;
        drop(memory);
        if (failed || divided) && self.is_first() {
            log::warn!("ranks of one machine cannot share memory, so each holds all images itself");
        }
        Ok(match mapped {
            Some(rows) if !failed => {
                let (rows, each) = (rows.view(size), (size[0] as usize).div_ceil(here.len()));
                let edge = |place: usize| (place * each).min(size[0] as usize);
                SharedRows { rows, own: edge(place)..edge(place + 1), first: place == 0 }
            }
            _ => SharedRows::alone(size),
        })
    }
}

/// Where a rank runs: ranks can open each other's files by `/proc` where both are the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RankMachine {
    /// The running system.
    boot: String,
    /// The namespace of its processes: that of a container, or of the machine.
    processes: String,
}

fn machine() -> RankMachine {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let processes = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    RankMachine { boot, processes: processes.to_string_lossy().into_owned() }
}

/// Memory without a name, which is gone with the last process that maps it, and where others find it.
#[cfg(target_os = "linux")]
fn segment(bytes: u64) -> std::io::Result<(fs::File, String)> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

    let memory = fs::File::from(memfd_create("orco images", MemfdFlags::CLOEXEC)?);
    // Taken now: memory that is missing later kills.
    fallocate(&memory, FallocateFlags::empty(), 0, bytes)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
    Ok((memory, path))
}

#[cfg(not(target_os = "linux"))]
fn segment(_bytes: u64) -> std::io::Result<(fs::File, String)> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

/// The memory at a path, if it is there in full.
fn map(path: &str, bytes: i64) -> Option<Tensor> {
    let there = fs::metadata(path).is_ok_and(|metadata| metadata.len() == bytes as u64);
    there.then(|| Tensor::f_from_file(path, true, bytes, (Kind::Uint8, Device::Cpu)).ok()).flatten()
}
