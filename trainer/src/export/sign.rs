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
        replace_signed(folder, &text, || write_atomically(&path, text.as_bytes()), || Ok(()))?;
    }
    let Some(key) = key else { return Ok(()) };
    let signature = key.sign(text.as_bytes(), &manifest.comment());
    let signature = signature.map_err(|error| anyhow!("cannot sign the bundle: {error}"))?;
    write_atomically(&signature_path, signature.as_bytes())
}

/// Has `write` change a bundle's manifest to `text`, and removes the old signature; returns whether there was one. It
/// goes first, so that an interruption leaves no signature beside a manifest that it does not belong to.
///
/// # Errors
/// If the manifest cannot be written: `undo` is then called and the signature put back, unless the new manifest is
/// there all the same. If the signature cannot be moved.
pub(super) fn replace_signed(
    folder: &Path,
    text: &str,
    write: impl FnOnce() -> Result<()>,
    undo: impl FnOnce() -> Result<()>,
) -> Result<bool> {
    let signature = folder.join(SIGNATURE);
    let aside = partial(&signature);
    let was_signed = match fs::rename(&signature, &aside) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error).context("cannot remove the old signature"),
    };
    if let Err(error) = write() {
        // The manifest may be there all the same, where its name alone could not be made to last.
        if fs::read_to_string(folder.join(MANIFEST)).is_ok_and(|there| there != text) {
            undo()?;
            if was_signed {
                fs::rename(&aside, &signature).context("cannot put the old signature back")?;
            }
        }
        return Err(error);
    }
    if was_signed {
        remove_if_there(&aside).context("cannot remove the old signature")?;
    }
    Ok(was_signed)
}
