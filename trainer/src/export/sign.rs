//! Signing a bundle: minisign's signature of its manifest, which holds the digests of all other files.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use orco_runtime::bundle::Bundle;
use orco_runtime::files::{partial, remove_if_there};
use orco_runtime::manifest::{MANIFEST, Manifest, SIGNATURE, hexadecimal};
use orco_runtime::signature::SecretKey;
use orco_state::codec;

use crate::run::files::write_atomically;

/// Makes a new key without a password and writes it into `path`, readable by its owner alone, and the public one into
/// `path.pub`, whose path is returned.
///
/// # Errors
/// If one of the files is there already or cannot be written.
pub fn write_key(path: &Path) -> Result<PathBuf> {
    let key = SecretKey::generate().map_err(|error| anyhow!("cannot make a key: {error}"))?;
    let (secret, public) = (key.secret_text, key.public_text);
    let public_path = PathBuf::from(format!("{}.pub", path.display()));
    for path in [path, &public_path] {
        ensure!(fs::symlink_metadata(path).is_err(), "cannot write the key: {} exists already", path.display());
    }
    let mut made: Vec<&Path> = Vec::new();
    for (path, text, mode) in [(public_path.as_path(), public, 0o644), (path, secret, 0o600)] {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
        #[cfg(not(unix))]
        let _ = mode;
        let written = options.open(path).and_then(|mut file| {
            made.push(path);
            file.write_all(text.as_bytes())
        });
        if let Err(error) = written {
            // Half of a pair belongs to nothing.
            made.iter().for_each(|path| drop(fs::remove_file(path)));
            return Err(error).with_context(|| format!("cannot write the key {}", path.display()));
        }
    }
    Ok(public_path)
}

/// Gives the bundle in `folder` a release number, where one is given, and a signature, where a key is given. A bundle
/// whose files do not match its manifest is not signed. An old signature goes away before the manifest changes:
/// whatever interrupts this, no signature is left beside a manifest that it does not belong to.
///
/// # Errors
/// If the bundle does not open, one of its files is not the one that the manifest describes, or one cannot be written.
/// Where the manifest cannot be, it keeps its signature.
pub fn seal(folder: &Path, release: Option<u32>, key: Option<&SecretKey>) -> Result<()> {
    if release.is_none() && key.is_none() {
        return Ok(());
    }
    // Opening checks that the parts fit together; the digests of all files, even of those it does not read, follow.
    let mut manifest = Bundle::open(folder)?.manifest;
    for (name, digest) in &manifest.files {
        let path = folder.join(name);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(
            hexadecimal(&codec::digest(&bytes)) == *digest,
            "{} is damaged: it does not match the digest in the manifest; nothing was signed",
            path.display()
        );
    }
    let (path, signature_path) = (folder.join(MANIFEST), folder.join(SIGNATURE));
    let mut text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(Manifest::parse(&text)? == manifest, "{} changed just now; sign it again", path.display());
    let before = manifest.release;
    if let Some(release) = release.filter(|release| *release != before) {
        if release < before {
            log::warn!(
                "release {release} is below {before}, which the bundle had: devices that used that one refuse it"
            );
        }
        manifest.release = release;
        text = toml::to_string(&manifest)?;
        let former = FormerSignature::set_aside(folder)?;
        if let Err(error) = write_atomically(&path, text.as_bytes()) {
            // The manifest may be there all the same, where its name alone could not be made to last.
            if fs::read_to_string(&path).is_ok_and(|there| there != text) {
                former.put_back()?;
            }
            return Err(error);
        }
        former.remove()?;
    }
    let Some(key) = key else { return Ok(()) };
    let signature = key.sign(text.as_bytes(), &manifest.comment());
    let signature = signature.map_err(|error| anyhow!("cannot sign the bundle: {error}"))?;
    write_atomically(&signature_path, signature.as_bytes())
}

/// The signature of a bundle whose manifest is being changed. A manifest without its signature is refused where one is
/// demanded; one beside a wrong signature says less.
pub(super) struct FormerSignature {
    path: PathBuf,
    aside: PathBuf,
    is_there: bool,
}

impl FormerSignature {
    /// Takes the signature from its place, if there is one.
    ///
    /// # Errors
    /// If it cannot be moved.
    pub(super) fn set_aside(folder: &Path) -> Result<Self> {
        let path = folder.join(SIGNATURE);
        let aside = partial(&path);
        let is_there = match fs::rename(&path, &aside) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error).context("cannot remove the old signature"),
        };
        Ok(Self { path, aside, is_there })
    }

    /// Puts it back: the manifest stayed as it was.
    ///
    /// # Errors
    /// If it cannot be moved.
    pub(super) fn put_back(self) -> Result<()> {
        if self.is_there {
            fs::rename(&self.aside, &self.path).context("cannot put the old signature back")
        } else {
            Ok(())
        }
    }

    /// Removes it for good; says whether there was one.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(super) fn remove(self) -> Result<bool> {
        if self.is_there {
            remove_if_there(&self.aside).context("cannot remove the old signature")?;
        }
        Ok(self.is_there)
    }
}
