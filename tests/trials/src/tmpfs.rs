//! A small disk that a test may fill, or make read-only.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use tempfile::TempDir;

use crate::until;

/// A file system in memory, while it lives.
pub struct TmpfsMount {
    folder: TempDir,
}

impl TmpfsMount {
    /// With options of `mount`, such as `size=16m`. `None` where this user may not mount.
    ///
    /// # Panics
    /// If no folder can be made.
    pub fn new(options: &str) -> Option<Self> {
        let folder = TempDir::new().expect("a folder can be made");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self { folder })
    }

    /// The folder that it is mounted on.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Changes its options. Waits while a file is open for writing there, such as that of a service that aligns its
    /// head: until then, the disk cannot become read-only.
    ///
    /// # Panics
    /// If the options are refused for minutes.
    pub fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        until("the disk has other options", || {
            let done = Command::new("mount").args(["-o", &options]).arg(self.path()).output();
            done.is_ok_and(|output| output.status.success())
        });
    }

    /// Leaves no room on it. Returns the file that takes it.
    ///
    /// # Panics
    /// If there is room for 64 MiB.
    pub fn fill(&self) -> PathBuf {
        let ballast = self.path().join("ballast");
        let full = fs::write(&ballast, vec![1; 64 << 20]).expect_err("a small disk has no room for 64 MiB");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        ballast
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}
