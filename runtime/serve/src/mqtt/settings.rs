//! Settings of the broker and the device's names: as they were given, and as they were checked.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use axum::http::Uri;
use orco_runtime::files::{self, MAX_PEM_BYTES};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::address_port::port_of;
use crate::machine::host_name;
use crate::secret_file;

/// Longest password that MQTT transmits, in bytes.
const MAX_PASSWORD_BYTES: u64 = 65_535;
/// Longest identifier, prefix or topic that is taken, in bytes; MQTT itself allows 65,535.
const MAX_NAME_BYTES: usize = 128;

/// Why settings of MQTT cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MqttError {
    /// The broker's address is none. What was given is not repeated: a password may stand in it.
    #[error("the MQTT broker's address {0}: expected mqtt://HOST, mqtt://HOST:PORT, or mqtts:// for TLS")]
    Broker(&'static str),
    /// There is a password, but no user.
    #[error("there is a password for the MQTT broker, but no user: name the user as well")]
    NoUser,
    /// The password's file cannot be read.
    #[error("cannot read the MQTT password file {}", path.display())]
    Password {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may read the password's file.
    #[error("others may read the MQTT password file {}: make it private (chmod 600)", path.display())]
    PasswordExposed {
        /// The file.
        path: PathBuf,
    },
    /// The password's file holds none.
    #[error("{} holds no MQTT password: write it there, on one line", path.display())]
    InvalidPassword {
        /// The file.
        path: PathBuf,
    },
    /// There are certificates to check the broker's by, but it has none.
    #[error("there is a file of certificates for an MQTT broker without TLS: write mqtts:// into its address")]
    NoTls,
    /// The certificates cannot be used.
    #[error("cannot use the certificates in {}: {reason}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error("TLS to the MQTT broker cannot be set up: {0}")]
    Tls(rustls::Error),
    /// The device's identifier cannot stand in topics.
    #[error("\"{0}\" cannot identify a device: use letters a to z, digits, - and _, at most {MAX_NAME_BYTES}")]
    Id(String),
    /// A prefix of topics cannot be used.
    #[error(
        "\"{0}\" cannot begin an MQTT topic: it must not be empty, begin or end with /, begin with $, hold +, # or \
         control characters, or be longer than {MAX_NAME_BYTES} bytes"
    )]
    Topic(String),
    /// The device's name is empty or cannot be shown.
    #[error("the device's name is empty, or holds characters that cannot be shown")]
    Name,
}

/// A broker's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerAddress {
    /// Name or address of its machine.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether it is spoken to by TLS.
    pub tls: bool,
}

impl FromStr for BrokerAddress {
    type Err = MqttError;

    fn from_str(text: &str) -> Result<Self, MqttError> {
        if text.contains('@') {
            return Err(MqttError::Broker("contains a user or password: give these by settings of their own"));
        }
        let uri: Uri = text.parse().map_err(|_| MqttError::Broker("is not understood"))?;
        // Schemes may be written in capitals (RFC 3986, section 3.1).
        let (tls, standard) = match uri.scheme_str().map(str::to_ascii_lowercase).as_deref() {
            Some("mqtt") => (false, 1883),
            Some("mqtts") => (true, 8883),
            _ => return Err(MqttError::Broker("does not begin with mqtt:// or mqtts://")),
        };
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let after = uri.path_and_query().map_or("", |rest| rest.as_str());
        let port = port_of(&uri).map_err(MqttError::Broker)?.unwrap_or(standard);
        if host.is_empty() || !matches!(after, "" | "/") {
            return Err(MqttError::Broker("names a path or query, or no host"));
        }
        Ok(Self { host, port, tls })
    }
}

impl BrokerAddress {
    /// The host as it stands before a port: an IPv6 address in brackets.
    pub(super) fn bracketed_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "mqtts" } else { "mqtt" };
        write!(f, "{scheme}://{}:{}", self.bracketed_host(), self.port)
    }
}

/// Where and how the device reports, unchecked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MqttSettings {
    /// The broker's address: see [`BrokerAddress`].
    pub broker: String,
    /// The user that the device reports as; none where the broker asks for none.
    pub user: Option<String>,
    /// File of that user's password, its owner's alone.
    pub password_file: Option<PathBuf>,
    /// Certificates of authorities that may sign the broker's, a PEM file; by default those that Mozilla trusts.
    pub ca_file: Option<PathBuf>,
    /// What tells the device from others of the same broker; the machine's host name where none is given.
    pub id: Option<String>,
    /// What people call it.
    pub name: String,
    /// What its topics begin with.
    pub topic: String,
    /// What the topics begin with in which Home Assistant looks for devices.
    pub discovery: String,
    /// Whether the camera's pictures are published, to whoever may read from the broker.
    pub pictures: bool,
}

orco_runtime::setters! {
    MqttSettings:
    user: Option<String>,
    password_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    id: Option<String>,
    name: String,
    topic: String,
    discovery: String,
    pictures: bool,
}

impl MqttSettings {
    /// A broker's device with all else as by default: no user, topics `orco/...`, discovery under `homeassistant`, no
    /// pictures.
    pub fn new(broker: impl Into<String>) -> Self {
        let (name, topic, discovery) = ("OrCo".into(), "orco".into(), "homeassistant".into());
        let broker = broker.into();
        Self {
            broker,
            user: None,
            password_file: None,
            ca_file: None,
            id: None,
            name,
            topic,
            discovery,
            pictures: false,
        }
    }

    /// Reads the files, and looks whether all of it can be used; asks no broker.
    ///
    /// # Errors
    /// [`MqttError`] says what cannot.
    pub fn check(self) -> Result<MqttDevice, MqttError> {
        let broker: BrokerAddress = self.broker.parse()?;
        if self.password_file.is_some() && self.user.is_none() {
            return Err(MqttError::NoUser);
        }
        let password = self.password_file.as_deref().map(Password::read).transpose()?;
        let tls = match (broker.tls, self.ca_file) {
            (true, file) => Some(BrokerTls::of(&broker.host, file.as_deref())?),
            (false, Some(_)) => return Err(MqttError::NoTls),
            (false, None) => None,
        };
        let id = self.id.unwrap_or_else(id_of_machine);
        let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
        if id.is_empty() || id.len() > MAX_NAME_BYTES || !id.bytes().all(is_plain) {
            return Err(MqttError::Id(id));
        }
        for topic in [&self.topic, &self.discovery] {
            // Brokers end the connection of whoever names a topic with control characters.
            let is_forbidden = |letter: char| matches!(letter, '+' | '#') || letter.is_control();
            let is_misformed = topic.contains(is_forbidden) || topic.starts_with(['/', '$']) || topic.ends_with('/');
            if topic.is_empty() || topic.len() > MAX_NAME_BYTES || is_misformed {
                return Err(MqttError::Topic(topic.clone()));
            }
        }
        if self.name.trim().is_empty() || self.name.chars().any(char::is_control) {
            return Err(MqttError::Name);
        }
        let (name, discovery, pictures) = (self.name.trim().to_owned(), self.discovery, self.pictures);
        let topic = format!("{}/{id}", self.topic);
        Ok(MqttDevice { broker, user: self.user, password, tls, id, name, topic, discovery, pictures })
    }
}

/// A device that can report: [`MqttSettings`] that were checked.
#[derive(Clone, Debug)]
pub struct MqttDevice {
    /// To whom it reports.
    pub broker: BrokerAddress,
    pub(super) user: Option<String>,
    pub(super) password: Option<Password>,
    pub(super) tls: Option<BrokerTls>,
    /// What tells it from others.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What all its topics begin with, its identifier at the end.
    pub topic: String,
    /// Where Home Assistant looks for devices.
    pub discovery: String,
    /// Whether the camera's pictures are published.
    pub pictures: bool,
}

impl MqttDevice {
    /// Whether its password can be read on its way to another machine.
    pub fn is_overheard(&self) -> bool {
        let host = self.broker.host.as_str();
        let stays = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|host| host.is_loopback());
        self.password.is_some() && !self.broker.tls && !stays
    }
}

/// A password, which nothing prints.
#[derive(Clone)]
pub(super) struct Password(pub(super) Vec<u8>);

impl Password {
    fn read(path: &Path) -> Result<Self, MqttError> {
        let failed = |source| MqttError::Password { path: path.into(), source };
        let file = secret_file::open(path).map_err(failed)?;
        let file = file.ok_or_else(|| MqttError::PasswordExposed { path: path.into() })?;
        let mut bytes = Vec::new();
        file.take(MAX_PASSWORD_BYTES + 3).read_to_end(&mut bytes).map_err(failed)?;
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line.len() as u64 > MAX_PASSWORD_BYTES || line.contains(&b'\n') {
            return Err(MqttError::InvalidPassword { path: path.into() });
        }
        Ok(Self(line.to_vec()))
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// How the broker is spoken to by TLS.
#[derive(Clone, Debug)]
pub(super) struct BrokerTls {
    pub(super) name: ServerName<'static>,
    pub(super) config: Arc<ClientConfig>,
}

impl BrokerTls {
    fn of(host: &str, file: Option<&Path>) -> Result<Self, MqttError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| MqttError::Broker("names no host"))?;
        let mut roots = RootCertStore::empty();
        match file {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(path) => {
                let failed = |reason: String| MqttError::Certificates { path: path.into(), reason };
                let bytes = files::read(path, MAX_PEM_BYTES).map_err(|error| failed(error.to_string()))?;
                for certificate in CertificateDer::pem_slice_iter(&bytes) {
                    let certificate = certificate.map_err(|error| failed(error.to_string()))?;
                    roots.add(certificate).map_err(|error| failed(error.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(failed("there is none in it".into()));
                }
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(MqttError::Tls)?.with_root_certificates(roots).with_no_client_auth();
        Ok(Self { name, config: Arc::new(config) })
    }
}

/// The machine's name as far as it can stand in topics, `orco` where it has none.
fn id_of_machine() -> String {
    let name = host_name();
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let name: String = name.chars().take(MAX_NAME_BYTES).map(plain).collect();
    if name.is_empty() { "orco".into() } else { name }
}

#[cfg(test)]
mod tests;
