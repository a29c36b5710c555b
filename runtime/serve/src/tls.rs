//! TLS: a certificate and its key, taken up anew when their files change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use log::Level;
use orco_runtime::files::{self, FileStamp, MAX_PEM_BYTES};
use orco_runtime::state::sentence::with_causes;
use orco_runtime::threads::{catch_panic, lock};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::error::ServeError;
use crate::secret_file;

/// Time between two checks of the files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

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

    /// Accepts TLS connections with this certificate. As long as the acceptor is used, a thread checks the files every
    /// ten seconds, and a new certificate in them takes the place of the old one.
    ///
    /// # Errors
    /// As for [`Tls::check`], or if the thread cannot be started.
    pub fn acceptor(&self) -> Result<TlsAcceptor, ServeError> {
        let (current, reloader) = CertificateReloader::new(self.clone())?;
        reloader.start(RELOAD_INTERVAL)?;
        acceptor_of(current)
    }

    fn certified_key(&self, provider: &CryptoProvider) -> Result<CertifiedKey, ServeError> {
        let unreadable =
            |path: &Path, error: pem::Error| ServeError::Certificate { path: path.into(), reason: error.to_string() };
        let of_certificate = |error| unreadable(&self.certificate, error);
        let certificates =
            files::read(&self.certificate, MAX_PEM_BYTES).map_err(|error| of_certificate(pem::Error::Io(error)))?;
        let chain = CertificateDer::pem_slice_iter(&certificates);
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(of_certificate)?;
        let of_key = |error| unreadable(&self.key, error);
        let of_key_file = |error: io::Error| of_key(pem::Error::Io(error));
        let file = secret_file::open(&self.key).map_err(of_key_file)?;
        let file = file.ok_or_else(|| ServeError::KeyExposed { path: self.key.clone() })?;
        let key = files::read_opened(file, MAX_PEM_BYTES).map_err(of_key_file)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(of_key)?;
        CertifiedKey::from_der(chain, key, provider).map_err(ServeError::Tls)
    }

    /// The stamps of both files; none of one that is not there.
    fn stamps(&self) -> [Option<FileStamp>; 2] {
        [&self.certificate, &self.key].map(|path| fs::metadata(path).ok().map(|facts| FileStamp::of(&facts)))
    }
}

fn acceptor_of(certificate: Arc<CurrentCertificate>) -> Result<TlsAcceptor, ServeError> {
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(provider()));
    let config = config.with_safe_default_protocol_versions().map_err(ServeError::Tls)?;
    let config = config.with_no_client_auth().with_cert_resolver(certificate);
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// The certificate that new connections get. Handshakes only take it: they must not wait for a disk.
#[derive(Debug)]
struct CurrentCertificate(Mutex<Arc<CertifiedKey>>);

impl CurrentCertificate {
    fn get(&self) -> Arc<CertifiedKey> {
        Arc::clone(&lock(&self.0))
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }
}

/// Puts the newest certificate that has its key in the files in the place of the current one.
struct CertificateReloader {
    tls: Tls,
    provider: CryptoProvider,
    /// The files that were read last, whether or not they could be used.
    stamps: [Option<FileStamp>; 2],
    /// Whether they could not be used, which the log says.
    is_refused: bool,
    current: Weak<CurrentCertificate>,
}

impl CertificateReloader {
    fn new(tls: Tls) -> Result<(Arc<CurrentCertificate>, Self), ServeError> {
        let provider = provider();
        // Before they are read: what is written meanwhile is read again.
        let stamps = tls.stamps();
        let current = Arc::new(CurrentCertificate(Mutex::new(Arc::new(tls.certified_key(&provider)?))));
        let reloader = Self { tls, provider, stamps, is_refused: false, current: Arc::downgrade(&current) };
        Ok((current, reloader))
    }

    /// Starts the thread that reloads until nobody uses the certificate any more. It goes on after a panic.
    fn start(mut self, interval: Duration) -> Result<(), ServeError> {
        let reload = move || {
            while let Some(current) = self.current.upgrade() {
                if let Err(why) = catch_panic(|| self.reload(&current)) {
                    log::error!(
                        "reading the certificate {} failed because of a fault in the program: {why}",
                        self.tls.certificate.display()
                    );
                }
                drop(current);
                thread::sleep(interval);
            }
        };
        thread::Builder::new().name("certificate".to_owned()).spawn(reload).map(drop).map_err(ServeError::Threads)
    }

    /// Takes up what has changed in the files.
    fn reload(&mut self, current: &CurrentCertificate) {
        let stamps = self.tls.stamps();
        if stamps == self.stamps {
            return;
        }
        self.stamps = stamps;
        let read = self.tls.certified_key(&self.provider);
        let was_refused = std::mem::replace(&mut self.is_refused, read.is_err());
        let shown = self.tls.certificate.display();
        match read {
            Ok(certificate) => {
                *lock(&current.0) = Arc::new(certificate);
                let level = if was_refused { Level::Warn } else { Level::Info };
                log::log!(level, "the certificate {shown} was read anew");
            }
            // As between the change of one file and that of the other.
            Err(error) => log::warn!("the certificate {shown} was not read anew: {}", with_causes(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};

    use super::*;
    use crate::tests::warnings;

    /// The files of a certificate in a folder, which are not there yet.
    fn files_in(folder: &Path) -> Tls {
        let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.join(name));
        Tls { certificate, key }
    }

    /// Writes a certificate for a name; returns its bytes, and its key.
    fn write(tls: &Tls, name: &str) -> (Vec<u8>, String) {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        files::replace(&tls.certificate, made.cert.pem().as_bytes()).unwrap();
        (made.cert.der().to_vec(), made.signing_key.serialize_pem())
    }

    /// Writes a certificate and its key; returns the certificate's bytes.
    fn write_both(tls: &Tls) -> Vec<u8> {
        let (certificate, key) = write(tls, "localhost");
        files::replace(&tls.key, key.as_bytes()).unwrap();
        certificate
    }

    /// The certificate that a new caller sees, who trusts it.
    fn greeting(acceptor: &TlsAcceptor, trusted: &[u8]) -> Vec<u8> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(trusted.to_vec())).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut server = ServerConnection::new(Arc::clone(acceptor.config())).unwrap();
        while client.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut bytes.as_slice()).unwrap();
            server.process_new_packets().unwrap();
            let mut bytes = Vec::new();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut bytes.as_slice()).unwrap();
            client.process_new_packets().unwrap();
        }
        client.peer_certificates().unwrap()[0].to_vec()
    }

    #[test]
    #[cfg(unix)]
    fn a_pipe_or_a_huge_file_holds_neither_certificate_nor_key() {
        let folder = tempfile::tempdir().unwrap();
        let tls = files_in(folder.path());
        write_both(&tls);
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for of_pipe in [Tls { certificate: pipe.clone(), ..tls.clone() }, Tls { key: pipe.clone(), ..tls.clone() }] {
            let said = of_pipe.check().unwrap_err().to_string();
            assert!(said.ends_with("pipe: I/O error: it is not a regular file"), "{said}");
        }
        for file in [&tls.key, &tls.certificate] {
            fs::OpenOptions::new().write(true).open(file).unwrap().set_len(MAX_PEM_BYTES + 1).unwrap();
            let said = tls.check().unwrap_err().to_string();
            assert!(said.contains(&format!("{}: I/O error: it is larger", file.display())), "{said}");
        }
    }

    #[test]
    fn a_certificate_that_is_renewed_is_taken_up_once_its_key_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let tls = files_in(folder.path());
        let first = write_both(&tls);
        let (current, mut reloader) = CertificateReloader::new(tls.clone()).unwrap();
        let mut shown = || {
            reloader.reload(&current);
            current.get().cert[0].to_vec()
        };
        assert_eq!(shown(), first);

        let (second, second_key) = write(&tls, "localhost");
        assert_eq!(shown(), first, "its key is not there");
        files::replace(&tls.key, second_key.as_bytes()).unwrap();
        warnings();
        assert_eq!(shown(), second);
        let anew = format!("the certificate {} was read anew", tls.certificate.display());
        assert_eq!(warnings(), std::slice::from_ref(&anew), "the log said that it was not");

        fs::write(&tls.certificate, "damaged").unwrap();
        assert_eq!(shown(), second);
        fs::remove_file(&tls.certificate).unwrap();
        assert_eq!(shown(), second);
        let third = write_both(&tls);
        assert_eq!(shown(), third);
        assert_eq!(warnings().last(), Some(&anew));
        write_both(&tls);
        shown();
        assert_eq!(warnings(), [""; 0], "nothing was wrong");
    }

    #[test]
    fn the_first_caller_after_a_quiet_time_is_greeted_with_the_renewed_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let tls = files_in(folder.path());
        write_both(&tls);
        let (current, reloader) = CertificateReloader::new(tls.clone()).unwrap();
        let acceptor = acceptor_of(Arc::clone(&current)).unwrap();
        reloader.start(Duration::from_millis(1)).unwrap();

        let renewed = write_both(&tls);
        // Nobody calls meanwhile.
        let end = Instant::now() + Duration::from_secs(120);
        while current.get().cert[0].as_ref() != renewed {
            assert!(Instant::now() < end, "it is never taken up");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(greeting(&acceptor, &renewed), renewed);
    }
}
