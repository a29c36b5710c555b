//! Keys, signatures, identifiers and digests.

use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sha2::{Digest, Sha256};

use super::hex::hexadecimal_bytes;

/// SHA-256 of an object, which is also its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectDigest([u8; 32]);
hexadecimal_bytes!(ObjectDigest, 32, "64 hexadecimal digits of a digest");

impl ObjectDigest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A digest that was computed elsewhere.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// A device's identifier: the first half of the SHA-256 of its key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId([u8; 16]);
hexadecimal_bytes!(DeviceId, 16, "32 hexadecimal digits of a device");

/// The hub's key as people compare it: the first half of its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 16]);
hexadecimal_bytes!(Fingerprint, 16, "32 hexadecimal digits of a fingerprint");

/// An Ed25519 signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 64]);
hexadecimal_bytes!(Signature, 64, "128 hexadecimal digits of a signature");

/// The public half of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VerifyingKey([u8; 32]);
hexadecimal_bytes!(VerifyingKey, 32, "64 hexadecimal digits of a key");

impl VerifyingKey {
    fn half_digest(&self) -> [u8; 16] {
        first_half(Sha256::digest(self.0).into())
    }

    /// The device that has this key.
    pub fn device(&self) -> DeviceId {
        DeviceId(self.half_digest())
    }

    /// The fingerprint of this key.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(self.half_digest())
    }

    /// Whether the owner of the key signed these bytes.
    pub fn verifies(&self, bytes: &[u8], signature: &Signature) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(bytes, &signature.0).is_ok()
    }
}

/// The secret half of a key.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    pkcs8: Vec<u8>,
}

impl SigningKey {
    /// A new key; none if the system has no random numbers.
    pub fn generate() -> Option<Self> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).ok()?;
        Self::from_pkcs8(pkcs8.as_ref())
    }

    /// A key out of a file.
    pub fn from_pkcs8(bytes: &[u8]) -> Option<Self> {
        Some(Self { pair: Ed25519KeyPair::from_pkcs8(bytes).ok()?, pkcs8: bytes.to_vec() })
    }

    /// As a file holds it.
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The public half.
    pub fn verifying_key(&self) -> VerifyingKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.pair.public_key().as_ref());
        VerifyingKey(bytes)
    }

    /// Signs bytes.
    pub fn sign(&self, bytes: &[u8]) -> Signature {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.pair.sign(bytes).as_ref());
        Signature(signature)
    }
}

/// The first half of a digest.
pub(super) fn first_half(digest: [u8; 32]) -> [u8; 16] {
    let (half, _) = digest.split_at(16);
    half.try_into().unwrap_or_default()
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_file_and_signs_for_itself_alone() {
        let (key, other) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
        let again = SigningKey::from_pkcs8(key.pkcs8()).unwrap();
        let signature = again.sign(b"text");
        assert!(key.verifying_key().verifies(b"text", &signature));
        assert!(!key.verifying_key().verifies(b"texts", &signature));
        assert!(!other.verifying_key().verifies(b"text", &signature));
        assert_ne!(key.verifying_key().device(), other.verifying_key().device());
        assert!(!format!("{key:?}").contains("pkcs8"));
    }

    #[test]
    fn digests_have_one_spelling() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = ObjectDigest::of(b"abc");
        assert_eq!(digest.to_string(), text);
        assert_eq!(ObjectDigest::parse(text), Some(digest));
        assert_eq!(ObjectDigest::parse(&text.to_uppercase()), None);
        assert_eq!(ObjectDigest::parse(&text[1..]), None);
        assert_eq!(ObjectDigest::parse(&text.replace('b', "é")), None);
        assert_eq!(serde_json::to_string(&digest).unwrap(), format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<ObjectDigest>(&format!("\"{text}\"")).unwrap(), digest);
    }
}
