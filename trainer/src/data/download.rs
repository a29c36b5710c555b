//! Fetching published data sets: over HTTP, resumed where a download was interrupted, checked by checksum, unpacked.

#[cfg(test)]
mod tests;
mod transfer;

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use md5::{Digest, Md5};
use orco_runtime::files::replace_shared_with;
use orco_runtime::manifest::hexadecimal;

/// A published archive (tar, compressed by gzip).
#[derive(Clone, Copy, Debug)]
pub struct Archive {
    /// Name of the data set, for messages.
    pub title: &'static str,
    /// Name of the archive's file.
    pub file: &'static str,
    /// Where it is published.
    pub address: &'static str,
    /// MD5 sum as published, in hexadecimal.
    pub md5: &'static str,
    /// Files to unpack, by their last name, with the least and the most bytes that each may have.
    pub members: &'static [(&'static str, u64, u64)],
}

/// CIFAR-100, binary version, with the MD5 sum that its page gives.
pub const CIFAR100: Archive = Archive {
    title: "CIFAR-100",
    file: "cifar-100-binary.tar.gz",
    address: "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    md5: "03b5dce01913d631647c71ecec9e9cb8",
    members: &[
        ("train.bin", 153_700_000, 153_700_000),
        ("test.bin", 30_740_000, 30_740_000),
        ("fine_label_names.txt", 1, 1 << 16),
    ],
};

/// Why a data set could not be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// A local file could not be written or read.
    #[error("cannot write {}: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said; part of the sentence, so no source, which would be printed once more.
        reason: io::Error,
    },
    /// The address cannot be asked.
    #[error("{address:?} is no address of a web server; give one that begins with https:// or http:// with --from")]
    Address {
        /// What was given.
        address: String,
    },
    /// The server refused.
    #[error("{address} answered {status}; give another address with --from")]
    Status {
        /// What was asked for.
        address: String,
        /// HTTP status.
        status: u16,
    },
    /// The server could not be reached, or the connection was lost again and again.
    #[error("cannot download {address}: {reason}; {have} bytes are kept, run the command again to continue")]
    Connection {
        /// What was asked for.
        address: String,
        /// What went wrong last.
        reason: String,
        /// Bytes that the partial file holds.
        have: u64,
    },
    /// What came is not what was published.
    #[error("what {address} sent has the MD5 sum {actual}, but {expected} is published; it was removed")]
    Checksum {
        /// What was asked for.
        address: String,
        /// Published sum.
        expected: &'static str,
        /// Sum of what came.
        actual: String,
    },
    /// The archive lacks a file or holds one that is too large.
    #[error("the archive {}: {reason}", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl Archive {
    /// Downloads the archive into `folder` (from `from` instead of the published address, if given), checks its MD5
    /// sum, unpacks its members there and removes it. Members that are all there already, in their size, are left
    /// alone.
    ///
    /// A download that is interrupted leaves `FILE.part`, which the next call continues.
    ///
    /// # Errors
    /// [`DownloadError`] if the server cannot be reached or refuses, the sum is wrong, or a file cannot be written.
    pub fn fetch(&self, folder: &Path, from: Option<&str>) -> Result<(), DownloadError> {
        let address = from.unwrap_or(self.address);
        if !is_web_address(address) {
            return Err(DownloadError::Address { address: address.into() });
        }
        if self.members.iter().all(|member| is_whole(folder, member)) {
            log::info!("{} is in {} already", self.title, folder.display());
            return Ok(());
        }
        fs::create_dir_all(folder).map_err(writing(folder))?;
        let part = folder.join(format!("{}.part", self.file));
        transfer::download(address, &part)?;
        let actual = md5(&part).map_err(writing(&part))?;
        if actual != self.md5 {
            fs::remove_file(&part).map_err(writing(&part))?;
            return Err(DownloadError::Checksum { address: address.into(), expected: self.md5, actual });
        }
        self.unpack(&part, folder)?;
        fs::remove_file(&part).map_err(writing(&part))?;
        log::info!("{} is in {}", self.title, folder.display());
        Ok(())
    }

    /// Unpacks the members. Only their last names are used, so nothing can be written outside `folder`.
    fn unpack(&self, archive: &Path, folder: &Path) -> Result<(), DownloadError> {
        let refused = |reason: String| DownloadError::Archive { path: archive.into(), reason };
        let damaged = |error: io::Error| refused(format!("is damaged: {error}"));
        let file = File::open(archive).map_err(writing(archive))?;
        let mut tar = tar::Archive::new(GzDecoder::new(BufReader::new(file)));
        let mut missing: Vec<_> = self.members.to_vec();
        for entry in tar.entries().map_err(damaged)? {
            let entry = entry.map_err(damaged)?;
            let last = entry.path().ok().and_then(|path| path.file_name().map(|name| name.to_owned()));
            let Some(at) = missing.iter().position(|(name, ..)| last.as_deref() == Some(name.as_ref())) else {
                continue;
            };
            let (name, least, most) = missing.swap_remove(at);
            if !(least..=most).contains(&entry.size()) {
                let size = entry.size();
                return Err(refused(format!("holds {name} with {size} bytes, but it must have {least} to {most}")));
            }
            let path = folder.join(name);
            let mut member = entry.take(most);
            let written =
                replace_shared_with(&path, |file| io::copy(&mut member, file).map(drop), |new| set_aside(&path, new));
            written.map_err(writing(&path))?;
        }
        match missing.first() {
            Some((name, ..)) => Err(refused(format!("lacks {name}"))),
            None => Ok(()),
        }
    }
}

/// Gives a file that lies in the place of a new one, and is another, a name that nothing has.
fn set_aside(path: &Path, new: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(facts) if facts.is_file() && md5(path)? == md5(new)? => return Ok(()),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    let mut names = (1..).map(|number| PathBuf::from(format!("{}.before-{number}", path.display())));
    let free = names.find(|name| fs::symlink_metadata(name).is_err()).expect("numbers enough");
    log::warn!("{} was there already, with other content; it is {} now", path.display(), free.display());
    fs::rename(path, free)
}

/// Whether a member is in the folder, in its size.
fn is_whole(folder: &Path, &(name, least, most): &(&str, u64, u64)) -> bool {
    let Ok(facts) = fs::metadata(folder.join(name)) else { return false };
    let whole = facts.is_file() && (least..=most).contains(&facts.len());
    if !whole {
        log::warn!(
            "{} has {} bytes, but {least} to {most} are right; it is fetched again",
            folder.join(name).display(),
            facts.len()
        );
    }
    whole
}

/// Whether an address is one of HTTP, with a host.
fn is_web_address(address: &str) -> bool {
    let uri = address.parse::<ureq::http::Uri>().ok();
    uri.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some())
}

/// MD5 sum of a file, in hexadecimal.
fn md5(path: &Path) -> io::Result<String> {
    let mut sum = Md5::new();
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hexadecimal(&sum.finalize())),
            count => sum.update(&buffer[..count]),
        }
    }
}

fn writing(path: &Path) -> impl FnOnce(io::Error) -> DownloadError {
    let path = path.to_owned();
    move |reason| DownloadError::Write { path, reason }
}
