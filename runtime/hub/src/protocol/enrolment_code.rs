//! Codes by which a device enrols, once each.
//!
//! A code is `FINGERPRINT-SECRET`. The device checks the hub's key by the fingerprint. It never sends the secret: it
//! sends an identifier that is derived from it, and a proof over its own key. Whoever listens, or stands in between,
//! can neither enrol another device with what was sent nor pass for the hub.

use orco_runtime::manifest::{from_hexadecimal, hexadecimal};
use ring::hmac;
use sha2::{Digest, Sha256};

use super::hex::hexadecimal_bytes;
use super::key::{Fingerprint, VerifyingKey, first_half};

/// A code's identifier, under which the hub finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CodeId([u8; 16]);
hexadecimal_bytes!(CodeId, 16, "32 hexadecimal digits of a code's identifier");

/// A code's key, with which a device proves that it has the code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CodeKey([u8; 32]);
hexadecimal_bytes!(CodeKey, 32, "64 hexadecimal digits of a code's key");

impl CodeKey {
    /// The proof that the device with this key has the code: HMAC-SHA256 of the device's key.
    pub fn prove(&self, device: &VerifyingKey) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let mut proof = [0; 32];
        proof.copy_from_slice(hmac::sign(&key, device.bytes()).as_ref());
        proof
    }

    /// Whether a proof is right for a device; takes the same time either way.
    pub fn accepts(&self, device: &VerifyingKey, proof: &[u8]) -> bool {
        hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &self.0), device.bytes(), proof).is_ok()
    }
}

/// A code, as a person carries it from the hub to the device.
#[derive(Clone, PartialEq, Eq)]
pub struct EnrolmentCode {
    /// Fingerprint of the hub's key.
    pub fingerprint: Fingerprint,
    secret: [u8; 16],
}

/// A text is no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the enrolment code is incomplete; copy all of what `orco hub code` printed")]
pub struct CodeError;

impl EnrolmentCode {
    /// A new code for the hub of that fingerprint; none if the system has no random numbers.
    pub fn generate(fingerprint: Fingerprint) -> Option<Self> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).ok()?;
        Some(Self { fingerprint, secret })
    }

    /// Reads what [`Display`](std::fmt::Display) wrote, whatever white space is in it.
    ///
    /// # Errors
    /// [`CodeError`] if it is something else.
    pub fn parse(text: &str) -> Result<Self, CodeError> {
        // A long line may come broken by a mail, or be read out in groups.
        let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        let text = text.to_ascii_lowercase();
        let (fingerprint, secret) = text.split_once('-').ok_or(CodeError)?;
        let fingerprint = Fingerprint::parse(fingerprint).ok_or(CodeError)?;
        Ok(Self { fingerprint, secret: from_hexadecimal(secret).ok_or(CodeError)? })
    }

    fn derived(&self, purpose: &str) -> [u8; 32] {
        Sha256::new().chain_update(purpose).chain_update(self.secret).finalize().into()
    }

    /// Its identifier, under which the hub finds it.
    pub fn id(&self) -> CodeId {
        CodeId(first_half(self.derived("orco-hub code identifier 1\n")))
    }

    /// Its key, with which a device proves that it has the code.
    pub fn key(&self) -> CodeKey {
        CodeKey(self.derived("orco-hub code key 1\n"))
    }
}

impl std::fmt::Display for EnrolmentCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.fingerprint, hexadecimal(&self.secret))
    }
}

impl std::fmt::Debug for EnrolmentCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EnrolmentCode(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::super::SigningKey;
    use super::*;

    #[test]
    fn a_code_survives_its_text() {
        let hub = SigningKey::generate().unwrap().verifying_key();
        let code = EnrolmentCode::generate(hub.fingerprint()).unwrap();
        let text = code.to_string();
        assert_eq!(EnrolmentCode::parse(&format!(" {}\n", text.to_uppercase())), Ok(code.clone()));
        assert_eq!(EnrolmentCode::parse(&format!("{}\n {}", &text[..20], &text[20..])), Ok(code.clone()));
        assert_eq!(EnrolmentCode::parse(&text[..text.len() - 1]), Err(CodeError));
        assert_eq!(EnrolmentCode::parse("é-é"), Err(CodeError));
        assert!(!format!("{code:?}").contains(&text[40..]));
    }

    #[test]
    fn a_proof_is_for_one_device_and_one_code() {
        let key = || SigningKey::generate().unwrap().verifying_key();
        let (hub, device, thief) = (key(), key(), key());
        let code = || EnrolmentCode::generate(hub.fingerprint()).unwrap();
        let (code, other) = (code(), code());
        let proof = code.key().prove(&device);
        assert!(code.key().accepts(&device, &proof));
        assert!(!code.key().accepts(&thief, &proof));
        assert!(!other.key().accepts(&device, &proof));
        assert_ne!(code.id(), other.id());
    }
}
