//! Signing: secret keys, in minisign's files.

use std::env;
use std::io::{Cursor, Read};
use std::path::Path;

use ct_codecs::{Base64, Decoder};
use minisign::{ErrorKind, KeyPair, SecretKeyBox};

use super::{KeyError, KeyFormatError, PublicKey, read_text};

/// Variable of the environment with the password of the secret key.
pub const PASSWORD: &str = "ORCO_KEY_PASSWORD";

/// A key could not be made, or bytes could not be signed: the system has no random numbers, or the bytes cannot be
/// read.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SignError(minisign::PError);

/// The key that signs.
#[derive(Clone)]
pub struct SecretKey(minisign::SecretKey);

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

/// A new key: as it works, and as minisign's files have it.
#[derive(Debug)]
#[non_exhaustive]
pub struct GeneratedKey {
    /// Signs.
    pub secret: SecretKey,
    /// Checks signatures.
    pub public: PublicKey,
    /// The text of the secret key's file.
    pub secret_text: String,
    /// The text of the public key's file.
    pub public_text: String,
}

impl GeneratedKey {
    fn new() -> minisign::Result<Self> {
        let KeyPair { pk, sk } = KeyPair::generate_unencrypted_keypair()?;
        let (secret_text, public_text) = (sk.to_box(None)?.into_string(), pk.to_box()?.into_string());
        let public = PublicKey::parse(&public_text).map_err(|error| minisign::PError::new(ErrorKind::Misc, error))?;
        Ok(Self { secret: SecretKey(sk), public, secret_text, public_text })
    }
}

/// A key without a password as the tool itself writes it: with zeros for a checksum, which the
/// library takes for damage. That the key signs for the public key beside it takes the checksum's place.
fn without_checksum(text: &str) -> Option<minisign::SecretKey> {
    // Algorithm, derivation (none), checksum's algorithm, salt and limits, number, key: then the checksum.
    const CHECKSUM: usize = 2 + 2 + 2 + 32 + 8 + 8 + 8 + 64;
    let bytes = Base64::decode_to_vec(text.lines().nth(1)?.trim(), None).ok()?;
    let plain = bytes.starts_with(b"Ed\0\0") && bytes.len() == CHECKSUM + 32;
    if !plain || bytes[CHECKSUM..].iter().any(|byte| *byte != 0) {
        return None;
    }
    let key = minisign::SecretKey::from_bytes(&bytes).ok()?;
    let public = minisign::PublicKey::from_secret_key(&key).ok()?;
    minisign::sign(Some(&public), &key, Cursor::new(b""), None, None).ok()?;
    Some(key)
}

/// Whether the text is a key that a password protects.
fn is_protected(text: &str) -> bool {
    let bytes = text.lines().nth(1).and_then(|line| Base64::decode_to_vec(line.trim(), None).ok());
    bytes.is_some_and(|bytes| bytes.starts_with(b"EdSc"))
}

impl SecretKey {
    /// Reads a secret key from minisign's file. One that is protected by a password is opened with that in the
    /// environment ([`PASSWORD`]), or, without it, with what the user types when asked.
    ///
    /// # Errors
    /// [`KeyError`] if the file cannot be read, holds no such key, or the password is wrong.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, KeyError> {
        let path = path.as_ref();
        let text = read_text(path)?;
        let unusable = |reason| KeyError::Unusable { path: path.into(), expected: "secret key", reason };
        Self::parse(&text, env::var(PASSWORD).ok()).map_err(unusable)
    }

    /// Takes a secret key from the text of minisign's file. The password is asked for where one is needed and none
    /// given.
    pub(super) fn parse(text: &str, password: Option<String>) -> Result<Self, KeyFormatError> {
        let boxed = || SecretKeyBox::from_string(text);
        if let Ok(key) = boxed().and_then(SecretKeyBox::into_unencrypted_secret_key) {
            return Ok(Self(key));
        }
        if let Some(key) = without_checksum(text) {
            return Ok(Self(key));
        }
        if !is_protected(text) {
            return Err(match KeyFormatError::of(text) {
                KeyFormatError::Secret => KeyFormatError::NoKey,
                reason => reason,
            });
        }
        let given = password.is_some();
        boxed().and_then(|key| key.into_secret_key(password)).map(Self).map_err(|error| match error.kind() {
            ErrorKind::Verify => KeyFormatError::WrongPassword,
            // Nobody could be asked.
            ErrorKind::Io if !given => KeyFormatError::NoPassword,
            _ => KeyFormatError::NoKey,
        })
    }

    /// A new key without a password.
    ///
    /// # Errors
    /// [`SignError`] if the system has no random numbers.
    pub fn generate() -> Result<GeneratedKey, SignError> {
        GeneratedKey::new().map_err(SignError)
    }

    /// Signs bytes: the text of a `.minisig` file whose trusted comment is `comment`.
    ///
    /// # Errors
    /// [`SignError`] if the system has no random numbers.
    pub fn sign(&self, bytes: &[u8], comment: &str) -> Result<String, SignError> {
        self.sign_read(Cursor::new(bytes), comment)
    }

    /// As [`sign`](Self::sign), for bytes that are read piece by piece.
    ///
    /// # Errors
    /// As for [`sign`](Self::sign), and if the bytes cannot be read.
    pub fn sign_read(&self, bytes: impl Read, comment: &str) -> Result<String, SignError> {
        let untrusted = Some("signature of an OrCo key");
        let signed = minisign::sign(None, &self.0, bytes, Some(comment), untrusted);
        signed.map(|signature| signature.into_string()).map_err(SignError)
    }
}
