//! The certificate that `orco serve --phone` makes itself and keeps.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use orco_runtime::clock::{EARLIEST, seconds_if_set};
use orco_runtime::files;
use orco_serve::{Tls, secret_file};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, SerialNumber};
use time::{Duration, OffsetDateTime};

use super::addresses::OwnAddresses;
use crate::certificate::CertificateFacts;

/// Days that a certificate is valid: phones take none of more than 825.
const DAYS: i64 = 800;

/// The certificate in a folder, and its key.
pub fn tls_in(folder: &Path) -> Tls {
    Tls { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") }
}

/// The certificate in a folder. Where it is missing or lacks a needed address, one for all addresses is made.
pub(super) fn own_certificate(folder: &Path, name: &str, addresses: &OwnAddresses) -> Result<Tls> {
    let tls = tls_in(folder);
    let mut names = vec![name.to_owned(), "localhost".to_owned()];
    let needed = names.len() + addresses.needed;
    names.extend(addresses.all.iter().map(IpAddr::to_string));
    if (!is_usable(&tls) || !holds_for(&tls.certificate, &names[..needed]))
        && let Err(error) =
            make_certificate(&tls, names, date_of(OffsetDateTime::now_utc(), seconds_if_set().is_some()))
    {
        // On a full disk, one that ends soon, or is for other addresses, is better than none.
        if tls.check().is_err() {
            return Err(error);
        }
        log::warn!("{error:#}; phones get the certificate that is there");
    }
    Ok(tls)
}

/// Whether a certificate and its key belong together, for some weeks to come.
pub fn is_usable(tls: &Tls) -> bool {
    let now = Timestamp::now().as_second();
    // One that is valid only later was made while the clock was ahead, unless the clock is not set yet.
    let has_begun = |facts: &CertificateFacts| facts.from <= now || seconds_if_set().is_none();
    let holds = |facts: CertificateFacts| has_begun(&facts) && !facts.ends_soon(now);
    tls.check().is_ok() && CertificateFacts::read(&tls.certificate).is_some_and(holds)
}

/// Whether a certificate is for all these names and addresses.
fn holds_for(certificate: &Path, names: &[String]) -> bool {
    CertificateFacts::read(certificate).is_some_and(|facts| names.iter().all(|name| facts.names.contains(name)))
}

/// The date of a certificate that is made now. One of 1970 would have ended as soon as the clock is set: until then, a
/// certificate is as old as this program.
fn date_of(now: OffsetDateTime, is_clock_set: bool) -> OffsetDateTime {
    if is_clock_set { now } else { OffsetDateTime::UNIX_EPOCH + Duration::seconds(EARLIEST.cast_signed()) }
}

/// Makes a certificate that nobody vouches for; its key is the one that is there, or a new one.
fn make_certificate(tls: &Tls, names: Vec<String>, now: OffsetDateTime) -> Result<()> {
    let name = names[0].clone();
    let key = match read_key(&tls.key) {
        Some(key) => key,
        None => KeyPair::generate()?,
    };
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    parameters.serial_number = Some(new_serial_number()?);
    (parameters.not_before, parameters.not_after) = (now - Duration::days(1), now + Duration::days(DAYS - 1));
    let certificate = parameters.self_signed(&key)?;
    let write = |path: &Path, text: String| {
        files::replace(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&tls.key, key.serialize_pem())?;
    write(&tls.certificate, certificate.pem())
}

/// The key in a PEM file; `None` if it is missing, cannot be used, or others could read it.
fn read_key(path: &Path) -> Option<KeyPair> {
    let Some(file) = secret_file::open(path).ok()? else {
        log::warn!(
            "others could read {}, so a new key is made: each phone asks once more whether to go on",
            path.display()
        );
        return None;
    };
    let pem = String::from_utf8(files::read_opened(file, files::MAX_PEM_BYTES).ok()?).ok()?;
    KeyPair::from_pem(&pem).ok()
}

/// A number that no certificate had before. rcgen's own is a digest of the key, which stays; Firefox refuses a second
/// certificate of the same issuer and number.
fn new_serial_number() -> Result<SerialNumber> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("the system gives no random numbers")?;
    // Positive, and of 16 bytes in every case.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::phone::addresses::tests::parsed;

    #[test]
    fn a_new_bridge_needs_no_new_certificate_and_a_new_one_has_a_new_number() {
        let folder = tempfile::tempdir().unwrap();
        let serial_number = |tls: &Tls| {
            let (_, pem) = x509_parser::pem::parse_x509_pem(&fs::read(&tls.certificate).unwrap()).unwrap();
            pem.parse_x509().unwrap().raw_serial().to_vec()
        };
        let number_with = |all: &[&str]| {
            let addresses = OwnAddresses::of(parsed(all), &parsed(&all[..1]));
            serial_number(&own_certificate(folder.path(), "door3.local", &addresses).unwrap())
        };
        let first = number_with(&["192.168.1.7", "172.17.0.1"]);
        assert_eq!(first.len(), 16);
        for more in [&["192.168.1.7", "172.18.0.1"][..], &["192.168.1.7"], &["172.17.0.1"]] {
            assert_eq!(number_with(more), first, "{more:?}");
        }
        assert_ne!(number_with(&["192.168.1.8", "172.17.0.1"]), first);
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_others_could_read_is_not_taken_again() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let made = || own_certificate(folder.path(), "door3.local", &OwnAddresses::of(Vec::new(), &[])).unwrap();
        let tls = made();
        let key = fs::read(&tls.key).unwrap();
        fs::set_permissions(&tls.key, fs::Permissions::from_mode(0o644)).unwrap();
        made().check().unwrap();
        assert_ne!(fs::read(&tls.key).unwrap(), key);
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("key.pem");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(read_key(&pipe).is_none());
    }

    #[test]
    fn a_certificate_is_kept_while_it_holds_for_the_machines_addresses() {
        let folder = tempfile::tempdir().unwrap();
        let tls = tls_in(folder.path());
        let names = |address: &str| vec!["door3.local".to_owned(), address.to_owned()];
        let now = OffsetDateTime::now_utc();
        make_certificate(&tls, names("192.168.1.7"), now).unwrap();
        tls.check().unwrap();
        assert!(holds_for(&tls.certificate, &names("192.168.1.7")));
        assert!(!holds_for(&tls.certificate, &names("192.168.1.8")));
        let key = fs::read(&tls.key).unwrap();
        make_certificate(&tls, names("fd00::7"), now).unwrap();
        assert!(holds_for(&tls.certificate, &names("fd00::7")));
        assert_eq!(fs::read(&tls.key).unwrap(), key, "the key stays");
        fs::write(&tls.certificate, "damaged").unwrap();
        assert!(!holds_for(&tls.certificate, &names("fd00::7")));
    }

    #[test]
    fn a_certificate_that_was_made_while_the_clock_was_ahead_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let tls = tls_in(folder.path());
        let now = OffsetDateTime::now_utc();
        make_certificate(&tls, vec!["door3.local".to_owned()], now + Duration::days(400)).unwrap();
        tls.check().unwrap();
        assert!(!is_usable(&tls));
        own_certificate(folder.path(), "door3.local", &OwnAddresses::of(Vec::new(), &[])).unwrap();
        assert!(is_usable(&tls));
    }

    #[test]
    fn a_certificate_that_was_made_before_the_clock_was_set_holds_once_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let tls = tls_in(folder.path());
        let unset = OffsetDateTime::UNIX_EPOCH + Duration::seconds(30);
        make_certificate(&tls, vec!["door3.local".to_owned()], date_of(unset, false)).unwrap();
        let facts = CertificateFacts::read(&tls.certificate).unwrap();
        let earliest = EARLIEST.cast_signed();
        assert!(
            facts.from < earliest && !facts.ends_soon(earliest + 365 * 24 * 60 * 60),
            "{} to {}",
            facts.from,
            facts.to
        );
        let now = OffsetDateTime::now_utc();
        assert_eq!(date_of(now, true), now);
    }
}
