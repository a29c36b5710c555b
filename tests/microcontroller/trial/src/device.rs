//! The device: QEMU with the firmware, one process from power on to power off. Its flash chip is a file, to which QEMU
//! writes through at once, so it keeps whatever was written when the power goes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use orco_micro::exchange::{Order, Outcome};
use tempfile::TempDir;

/// Bytes of the board's memory that stands for the flash chip; QEMU takes no other size.
const MEMORY: usize = 16 << 20;
/// Exit status of the firmware after a power cut.
const POWER_CUT: i32 = 3;

/// How a run ended.
pub enum RunEnd {
    /// The order was carried out.
    Done(Box<Outcome>),
    /// The power went.
    PowerCut,
}

/// A board with an erased flash chip.
pub struct Device {
    qemu: PathBuf,
    firmware: PathBuf,
    folder: TempDir,
}

impl Device {
    /// A new board with this firmware.
    pub fn new(qemu: &Path, firmware: &Path) -> Result<Self> {
        // Other users, and other roots, know this folder by the same name.
        let folder = tempfile::tempdir_in(firmware.parent().context("the firmware lies in no folder")?)?;
        let firmware = std::path::absolute(firmware)?;
        fs::write(folder.path().join("flash"), vec![0xFF; MEMORY])?;
        Ok(Self { qemu: qemu.into(), firmware, folder })
    }

    /// The chip's content.
    pub fn chip(&self) -> Result<Vec<u8>> {
        Ok(fs::read(self.folder.path().join("flash"))?)
    }

    /// Gives the chip another content.
    pub fn set_chip(&self, bytes: &[u8]) -> Result<()> {
        Ok(fs::write(self.folder.path().join("flash"), bytes)?)
    }

    /// Switches the power on, with an order, until it is off again.
    pub fn start(&self, order: &Order) -> Result<RunEnd> {
        let outcome = self.folder.path().join("outcome");
        fs::write(self.folder.path().join("order"), postcard::to_allocvec(order)?)?;
        let _ = fs::remove_file(&outcome);
        let mut command = Command::new(&self.qemu);
        // One instruction lasts a nanosecond, so that the board's timers count instructions.
        command.args(["-machine", "mps2-an500,memory-backend=chip", "-icount", "shift=0"]);
        command.args(["-display", "none", "-monitor", "none", "-serial", "none"]);
        command.args(["-semihosting-config", "enable=on,target=native", "-object"]);
        command.arg(format!("memory-backend-file,id=chip,size={MEMORY},mem-path=flash,share=on"));
        command.arg("-kernel").arg(&self.firmware).current_dir(&self.folder).stdin(Stdio::null());
        let status = command.status().with_context(|| format!("cannot start {}", self.qemu.display()))?;
        match status.code() {
            Some(0) => Ok(RunEnd::Done(Box::new(postcard::from_bytes(&fs::read(&outcome)?)?))),
            Some(POWER_CUT) => Ok(RunEnd::PowerCut),
            _ => bail!("the firmware failed ({status})"),
        }
    }

    /// The outcome of an order during which the power stays on.
    pub fn finish(&self, order: &Order) -> Result<Outcome> {
        match self.start(order)? {
            RunEnd::Done(outcome) => Ok(*outcome),
            RunEnd::PowerCut => bail!("the power went without an order"),
        }
    }
}
