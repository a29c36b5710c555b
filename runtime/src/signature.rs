//! Signatures in the format of the tool `minisign` (Ed25519 over the BLAKE2b hash of a file): keys, and whether a file
//! is the one that the owner of a key signed.

#[cfg(feature = "sign")]
mod secret_key;

use std::io;
use std::path::{Path, PathBuf};

use crate::files;
#[cfg(feature = "sign")]
pub use secret_key::{GeneratedKey, PASSWORD, SecretKey, SignError};

/// Largest file of a key or a signature that is read, in bytes.
pub const MAX_FILE: u64 = 16 << 10;

/// The key that signatures are checked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(minisign_verify::PublicKey);

/// Why a key could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file could not be read.
    #[error("cannot read the key {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds no such key, or one that cannot be opened.
    #[error("{} cannot be used as a {expected}: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What is wrong.
        reason: KeyFormatError,
    },
}

/// Why a text cannot be used as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFormatError {
    /// There is nothing in it.
    #[error("it is empty; copy it again")]
    Empty,
    /// It is a secret key, and a public one is needed.
    #[error("it is a secret key; take the public one, whose file ends in .pub")]
    Secret,
    /// It is a public key, and a secret one is needed.
    #[error("it is a public key; to sign, take the secret one, which was made with it")]
    Public,
    /// It is a signature.
    #[error("it is a signature; take the key that was made by `orco-train keygen` or `minisign -G`")]
    Signature,
    /// It is something else, or damaged.
    #[error(
        "it is damaged, or no key of minisign's, which is two lines, a comment and the key; copy it again, or take the \
         key that was made by `orco-train keygen` or `minisign -G`"
    )]
    NoKey,
    /// The secret key is protected by a password, and there was none.
    #[error("it is protected by a password; set ORCO_KEY_PASSWORD to it")]
    NoPassword,
    /// The secret key is protected by another password.
    #[error("the password is not the one that protects it; set ORCO_KEY_PASSWORD to that, or unset it to be asked")]
    WrongPassword,
}

impl KeyFormatError {
    /// What a text is in place of a key, by its comment.
    fn of(text: &str) -> Self {
        let comment = text.lines().next().unwrap_or_default();
        match () {
            () if text.trim().is_empty() => Self::Empty,
            () if comment.contains("signature") => Self::Signature,
            () if comment.contains("secret key") => Self::Secret,
            () if comment.contains("public key") => Self::Public,
            () => Self::NoKey,
        }
    }
}

/// Why a signature is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// There is none, but a public key is configured.
    #[error("it is not signed, but a public key is configured")]
    Missing,
    /// The bytes are no signature of minisign's.
    #[error("its signature is not one of minisign's")]
    NotMinisign,
    /// It was made with another key.
    #[error("it is signed with another key than the configured one")]
    OtherKey,
    /// It is not over these bytes, or was altered.
    #[error("its signature does not match: it was altered after signing")]
    Wrong,
    /// What its trusted comment says is not what was signed.
    #[error("the trusted comment of its signature says {actual:?} instead of {expected:?}")]
    Comment {
        /// What the comment should say.
        expected: String,
        /// What it says.
        actual: String,
    },
}

/// Whether a text has the form of minisign's signatures, whoever made it, and over whatever.
pub fn is_signature(text: &str) -> bool {
    minisign_verify::Signature::decode(text).is_ok()
}

impl PublicKey {
    /// Reads a public key from minisign's file.
    ///
    /// # Errors
    /// [`KeyError`] if the file cannot be read or holds no such key.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, KeyError> {
        let path = path.as_ref();
        let unusable = |reason| KeyError::Unusable { path: path.into(), expected: "public key", reason };
        Self::parse(&read_text(path)?).map_err(unusable)
    }

    /// Takes a public key from the text of minisign's file: a comment and a line of base64.
    ///
    /// # Errors
    /// [`KeyFormatError`] says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, KeyFormatError> {
        let damaged = |_| match KeyFormatError::of(text) {
            KeyFormatError::Public => KeyFormatError::NoKey,
            reason => reason,
        };
        minisign_verify::PublicKey::decode(text).map(Self).map_err(damaged)
    }

    /// Checks that `signature`, the text of a `.minisig` file, is this key's over `bytes`; returns its trusted comment,
    /// which the signature covers, too.
    ///
    /// # Errors
    /// [`SignatureError`] if it is not.
    pub fn check(&self, bytes: &[u8], signature: &str) -> Result<String, SignatureError> {
        let signature = minisign_verify::Signature::decode(signature).map_err(|_| SignatureError::NotMinisign)?;
        self.0.verify(bytes, &signature, false).map_err(|error| refusal(&error))?;
        Ok(signature.trusted_comment().to_string())
    }

    /// As [`check`](Self::check), for bytes that come piece by piece: `feed` hands all of them, in order, to what it is
    /// given.
    ///
    /// # Errors
    /// Those of `feed`; within, as for [`check`](Self::check). Where it is clear from the start that the signature is
    /// not accepted, `feed` is called all the same.
    pub(crate) fn check_chunks(
        &self,
        signature: &str,
        feed: impl FnOnce(&mut dyn FnMut(&[u8])) -> io::Result<()>,
    ) -> io::Result<Result<String, SignatureError>> {
        let decoded = minisign_verify::Signature::decode(signature).map_err(|_| SignatureError::NotMinisign);
        let begun = decoded.as_ref().map_err(Clone::clone).and_then(|signature| {
            let verifier = self.0.verify_stream(signature).map_err(|error| refusal(&error))?;
            Ok((verifier, signature.trusted_comment().to_string()))
        });
        match begun {
            Ok((mut verifier, comment)) => {
                feed(&mut |chunk| verifier.update(chunk))?;
                Ok(verifier.finalize().map(|()| comment).map_err(|error| refusal(&error)))
            }
            Err(refused) => {
                feed(&mut |_| ())?;
                Ok(Err(refused))
            }
        }
    }
}

fn refusal(error: &minisign_verify::Error) -> SignatureError {
    use minisign_verify::Error;
    match error {
        Error::UnexpectedKeyId => SignatureError::OtherKey,
        // Signatures of the old kind, over the file instead of its hash.
        Error::UnexpectedAlgorithm | Error::UnsupportedLegacyMode => SignatureError::NotMinisign,
        _ => SignatureError::Wrong,
    }
}

fn read_text(path: &Path) -> Result<String, KeyError> {
    let bytes = files::read(path, MAX_FILE).map_err(|source| KeyError::Read { path: path.into(), source })?;
    // What is no text is no key either, and is refused as such.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by the tool itself: `minisign -G -W`, then `minisign -S -t "orco bundle x release 3"` over "hi\n".
    const KEY: &str = "untrusted comment: minisign public key 29772E5C7629F244\n\
        RWRE8il2XC53KTzpm1xq+0tWnh5Yy3TuW4Xo13xQplXurfGH7OYgfPit\n";
    const SIGNATURE: &str = "untrusted comment: signature from minisign secret key\n\
        RURE8il2XC53KbSEvYuN4HLAJMEVJv3UcWIf2uD18ePjIxdFEPS6xL/r8BcAmnjx7YRCbwFxhDcShpkQ/vYQfoEi4lc8lms7BAI=\n\
        trusted comment: orco bundle x release 3\n\
        SiDO7aGqlWcmmdJShY4WWRfFWEVHPLYZMA7IvM0kNnQnRasc1pkXPCvDtLmQyC7buwIy/Maigo3cdreQNXChDg==\n";

    #[test]
    fn a_signature_of_the_tool_is_accepted_and_nothing_else() {
        let key = PublicKey::parse(KEY).unwrap();
        assert_eq!(key.check(b"hi\n", SIGNATURE).as_deref(), Ok("orco bundle x release 3"));
        assert_eq!(key.check(b"ho\n", SIGNATURE), Err(SignatureError::Wrong));
        let other_comment = SIGNATURE.replace("release 3", "release 4");
        assert_eq!(key.check(b"hi\n", &other_comment), Err(SignatureError::Wrong));
        assert_eq!(key.check(b"hi\n", ""), Err(SignatureError::NotMinisign));
        assert_eq!(key.check(b"hi\n", KEY), Err(SignatureError::NotMinisign));
        let other_key = SIGNATURE.replace("RURE8", "RURE9");
        assert_eq!(key.check(b"hi\n", &other_key), Err(SignatureError::OtherKey));
        for length in 0..SIGNATURE.trim_end().len() {
            assert!(key.check(b"hi\n", &SIGNATURE[..length]).is_err(), "length {length}");
        }
    }

    #[cfg(feature = "sign")]
    #[test]
    fn a_key_that_the_tool_wrote_without_a_password_signs() {
        // Of the key above; signs nothing but tests.
        const SECRET: &str = "untrusted comment: minisign encrypted secret key\n\
            RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAARPIpdlwudymHqBzxSvw5Av/S\
            LxdZqhxDVlNdVvV6RJk9871pYuXDCTzpm1xq+0tWnh5Yy3TuW4Xo13xQplXurfGH7OYgfPitAAAAAAAAAAAAAAAAAAAAAAAA\
            AAAAAAAAAAAAAAAAAAA=\n";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, SECRET).unwrap();
        let signature = SecretKey::read(&path).unwrap().sign(b"bytes", "comment").unwrap();
        assert_eq!(PublicKey::parse(KEY).unwrap().check(b"bytes", &signature).as_deref(), Ok("comment"));
        // Another byte of the key, and it no longer belongs to its public key.
        std::fs::write(&path, SECRET.replace("ymHqBzxSvw5Av", "ymHqBzxSvw5Aw")).unwrap();
        let refused = SecretKey::read(&path).unwrap_err();
        assert!(matches!(refused, KeyError::Unusable { reason: KeyFormatError::NoKey, .. }), "{refused:?}");
    }

    #[test]
    fn what_is_no_public_key_is_told_apart() {
        let secret = "untrusted comment: minisign encrypted secret key\nRWRTY0Iy\n";
        for (text, expected) in [
            ("", KeyFormatError::Empty),
            (secret, KeyFormatError::Secret),
            (SIGNATURE, KeyFormatError::Signature),
            ("untrusted comment: no key\nAAAA\n", KeyFormatError::NoKey),
            (&KEY[..KEY.len() - 9], KeyFormatError::NoKey),
        ] {
            assert_eq!(PublicKey::parse(text), Err(expected), "{text}");
        }
    }

    #[cfg(feature = "sign")]
    #[test]
    fn what_is_no_secret_key_is_told_apart() {
        use ct_codecs::{Base64, Encoder};
        let refused = |text: &str| SecretKey::parse(text, Some("guess".into())).unwrap_err();
        assert_eq!(refused(""), KeyFormatError::Empty);
        assert_eq!(refused(KEY), KeyFormatError::Public);
        assert_eq!(refused(SIGNATURE), KeyFormatError::Signature);
        assert_eq!(refused("untrusted comment: minisign encrypted secret key\nRWRTY0Iy\n"), KeyFormatError::NoKey);
        // Protected, with the smallest limits of scrypt; no password is right.
        let limits = [32_768u64.to_le_bytes(), (16u64 << 20).to_le_bytes()].concat();
        let bytes = [&b"EdScB2"[..], &[7; 32], &limits, &[7; 104]].concat();
        let protected = format!("untrusted comment: a secret key\n{}\n", Base64::encode_to_string(bytes).unwrap());
        assert_eq!(refused(&protected), KeyFormatError::WrongPassword);
    }

    #[cfg(feature = "sign")]
    #[test]
    fn what_is_signed_here_is_accepted() {
        let GeneratedKey { secret, public, public_text, .. } = SecretKey::generate().unwrap();
        assert_eq!(PublicKey::parse(&public_text).unwrap(), public);
        let signature = secret.sign(b"bytes", "what it is").unwrap();
        assert_eq!(public.check(b"bytes", &signature).as_deref(), Ok("what it is"));
        assert_eq!(PublicKey::parse(KEY).unwrap().check(b"bytes", &signature), Err(SignatureError::OtherKey));
    }
}
