//! Names and validity of a certificate.

use std::net::IpAddr;
use std::path::Path;

use orco_runtime::files;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;

/// Seconds before a certificate's end from which that is soon: 30 days.
const SOON: i64 = 30 * 24 * 60 * 60;

/// What a certificate says of itself.
pub struct CertificateFacts {
    /// Names and addresses that it is for.
    pub names: Vec<String>,
    /// First second of its time, since 1970.
    pub from: i64,
    /// Last second of its time.
    pub to: i64,
}

impl CertificateFacts {
    /// Of the first certificate in a PEM file; none where it cannot be read.
    pub fn read(path: &Path) -> Option<Self> {
        let bytes = files::read(path, files::MAX_PEM_BYTES).ok()?;
        let (_, pem) = parse_x509_pem(&bytes).ok()?;
        let certificate = pem.parse_x509().ok()?;
        let alternatives = certificate.subject_alternative_name().ok().flatten();
        let names = alternatives.iter().flat_map(|found| &found.value.general_names).filter_map(name_of).collect();
        let validity = certificate.validity();
        Some(Self { names, from: validity.not_before.timestamp(), to: validity.not_after.timestamp() })
    }

    /// Whether its time is over soon, or already, at a second since 1970.
    pub fn ends_soon(&self, now: i64) -> bool {
        now > self.to - SOON
    }
}

fn name_of(name: &GeneralName<'_>) -> Option<String> {
    match *name {
        GeneralName::DNSName(name) => Some(name.to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string()),
            16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string()),
            _ => None,
        },
        _ => None,
    }
}
