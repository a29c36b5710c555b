//! TLS: a certificate and its key, taken up anew when their files change.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use orco_runtime::state::sentence::with_causes;
use orco_runtime::threads::lock;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::error::ServeError;
use crate::token::is_exposed;

/// Least time between two looks at the files.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// A certificate and its key, PEM files.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate, and those that vouch for it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Tls {
    /// Whether the service can be started with it.
    ///
    /// # Errors
    /// [`ServeError`] if a file cannot be read, others may read the key, or it is not the certificate's.
    pub fn check(&self) -> Result<(), ServeError> {
        self.certified_key(&provider()).map(drop)
    }

    /// What greets callers with it, and with what takes its place in the files later.
    ///
    /// # Errors
    /// As for [`Tls::check`].
    pub fn acceptor(&self) -> Result<TlsAcceptor, ServeError> {
        let provider = Arc::new(provider());
        let renewed = RenewedCertificate::new(self.clone(), Arc::clone(&provider))?;
        let certificate = Arc::new(CertificateResolver(Arc::new(renewed)));
        let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(ServeError::Tls)?.with_no_client_auth().with_cert_resolver(certificate);
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn certified_key(&self, provider: &CryptoProvider) -> Result<CertifiedKey, ServeError> {
        let unreadable = |path: &Path, error: rustls::pki_types::pem::Error| ServeError::Certificate {
            path: path.into(),
            reason: error.to_string(),
        };
        let of_certificate = |error| unreadable(&self.certificate, error);
        let chain = CertificateDer::pem_file_iter(&self.certificate).map_err(of_certificate)?;
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(of_certificate)?;
        let of_key = |error| unreadable(&self.key, error);
        let file = File::open(&self.key).map_err(|error| of_key(rustls::pki_types::pem::Error::Io(error)))?;
        if is_exposed(&file).map_err(|error| of_key(rustls::pki_types::pem::Error::Io(error)))? {
            return Err(ServeError::KeyOpen { path: self.key.clone() });
        }
        let key = PrivateKeyDer::from_pem_reader(BufReader::new(file)).map_err(of_key)?;
        CertifiedKey::from_der(chain, key, provider).map_err(ServeError::Tls)
    }

    fn versions(&self) -> [Option<FileVersion>; 2] {
        [version(&self.certificate), version(&self.key)]
    }
}

fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// Number and time of a file: others once it was replaced, written, or given other rights.
#[cfg(unix)]
type FileVersion = (u64, i64, i64);
#[cfg(not(unix))]
type FileVersion = std::time::SystemTime;

/// None where the file is not there.
fn version(path: &Path) -> Option<FileVersion> {
    let facts = fs::metadata(path).ok()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        Some((facts.ino(), facts.ctime(), facts.ctime_nsec()))
    }
    #[cfg(not(unix))]
    facts.modified().ok()
}

/// The newest certificate in the files that has its key there.
#[derive(Debug)]
struct RenewedCertificate {
    tls: Tls,
    provider: Arc<CryptoProvider>,
    held: Mutex<HeldCertificate>,
    /// The files that were read last, whether or not they could be used. Held while they are looked at, which may take
    /// long where they lie on another machine.
    versions: Mutex<[Option<FileVersion>; 2]>,
}

#[derive(Debug)]
struct HeldCertificate {
    certificate: Arc<CertifiedKey>,
    looked: Instant,
}

impl RenewedCertificate {
    fn new(tls: Tls, provider: Arc<CryptoProvider>) -> Result<Self, ServeError> {
        // Before they are read: what is written meanwhile is read again.
        let versions = tls.versions();
        let certificate = Arc::new(tls.certified_key(&provider)?);
        let held = Mutex::new(HeldCertificate { certificate, looked: Instant::now() });
        Ok(Self { tls, provider, held, versions: Mutex::new(versions) })
    }

    /// The certificate that is held, and whether it is time to look at the files again.
    fn at(&self, now: Instant) -> (Arc<CertifiedKey>, bool) {
        let mut held = lock(&self.held);
        let is_due = now.saturating_duration_since(held.looked) >= LOOK_INTERVAL;
        if is_due {
            held.looked = now;
        }
        (Arc::clone(&held.certificate), is_due)
    }

    /// Takes up what has changed in the files, unless somebody looks at them just now.
    fn look(&self) {
        let Ok(mut read) = self.versions.try_lock() else { return };
        let versions = self.tls.versions();
        if versions == *read {
            return;
        }
        *read = versions;
        let shown = self.tls.certificate.display();
        match self.tls.certified_key(&self.provider) {
            Ok(certificate) => {
                lock(&self.held).certificate = Arc::new(certificate);
                log::info!("the certificate {shown} was read anew");
            }
            // As between the change of one file and that of the other.
            Err(error) => log::warn!("the certificate {shown} was not read anew: {}", with_causes(&error)),
        }
    }
}

/// Hands out what is held at once, and looks at the files beside the handshake: these must not wait for a disk.
#[derive(Debug)]
struct CertificateResolver(Arc<RenewedCertificate>);

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let (certificate, is_due) = self.0.at(Instant::now());
        if is_due {
            let renewed = Arc::clone(&self.0);
            // Where no thread can be had, the next handshake tries again.
            let _ = std::thread::Builder::new().name("certificate".to_owned()).spawn(move || renewed.look());
        }
        Some(certificate)
    }
}

#[cfg(test)]
mod tests {
    use orco_runtime::files;

    use super::*;

    /// Writes a certificate for a name; returns its bytes, and its key.
    fn write(tls: &Tls, name: &str) -> (Vec<u8>, String) {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        files::replace(&tls.certificate, made.cert.pem().as_bytes()).unwrap();
        (made.cert.der().to_vec(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_certificate_that_is_renewed_is_taken_up_once_its_key_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
        let tls = Tls { certificate, key };
        let (first, first_key) = write(&tls, "localhost");
        files::replace(&tls.key, first_key.as_bytes()).unwrap();
        let renewed = RenewedCertificate::new(tls.clone(), Arc::new(provider())).unwrap();
        let began = Instant::now();
        let shown = |seconds: u64| {
            let now = began + Duration::from_secs(seconds);
            if renewed.at(now).1 {
                renewed.look();
            }
            renewed.at(now).0.cert[0].to_vec()
        };
        assert_eq!(shown(20), first);

        let (second, second_key) = write(&tls, "localhost");
        assert_eq!(shown(25), first, "not so soon");
        assert_eq!(shown(30), first, "its key is not there");
        files::replace(&tls.key, second_key.as_bytes()).unwrap();
        assert_eq!(shown(40), second);

        fs::write(&tls.certificate, "damaged").unwrap();
        assert_eq!(shown(50), second);
        fs::remove_file(&tls.certificate).unwrap();
        assert_eq!(shown(60), second);
        let (third, third_key) = write(&tls, "localhost");
        files::replace(&tls.key, third_key.as_bytes()).unwrap();
        assert_eq!(shown(70), third);
    }
}
