//! One connection to the broker: how it is opened, what the broker keeps, and why it ended.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use rumqttc::{
    AsyncClient, Broker, ConnectReturnCode, ConnectionError, EventLoop, LastWill, MqttOptions, Publish, PublishOptions,
    QoS, StateError, mqttbytes,
};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;

use super::settings::{BrokerTls, MqttDevice};
use super::topics::{OFFLINE, Topics};

/// Seconds after which a broker that says nothing is asked whether it is there; it takes the device for gone after one
/// and a half times as many.
const KEEP_ALIVE: u16 = 30;
/// Most messages that may be on their way.
const MAX_IN_FLIGHT: usize = 16;
/// Largest message, in bytes: more than a picture of noise takes.
const MAX_MESSAGE_BYTES: usize = 1024 * 1024;
/// Most descriptions of an earlier run that are taken away.
const MAX_DESCRIBED: usize = 4096;
/// At least once.
pub const QOS: QoS = QoS::AtLeastOnce;

/// A connection to the broker: since when it stands, and what the broker keeps.
#[derive(Default)]
pub struct Connection {
    /// When it was made.
    pub since: Cell<Option<Instant>>,
    /// Notified once it is made.
    pub made: Notify,
    /// Topics of the device's entities that the broker keeps descriptions of.
    pub described: RefCell<BTreeSet<String>>,
}

impl Connection {
    /// Notes the topic of a message that the broker has kept.
    pub fn note_kept(&self, message: &Publish) {
        let mut described = self.described.borrow_mut();
        if message.retain && !message.payload.is_empty() && described.len() < MAX_DESCRIBED {
            described.extend(std::str::from_utf8(&message.topic).map(str::to_owned));
        }
    }
}

/// Whether the broker keeps a message for those who subscribe later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// It keeps the message, in place of the earlier one of the topic.
    Retained,
    /// It passes the message on, and forgets it.
    Transient,
}

/// How a message is published: delivered at least once, and kept by the broker or not.
pub fn publish_options(retention: Retention) -> PublishOptions {
    PublishOptions::new(QOS).retain(retention == Retention::Retained)
}

/// A client that connects once its events are polled.
pub fn open(device: &MqttDevice) -> (AsyncClient, EventLoop) {
    let broker = Broker::tcp(device.broker.bracketed_host(), device.broker.port);
    let mut options = MqttOptions::new(format!("orco-{}", device.id), broker);
    options.set_keep_alive(KEEP_ALIVE).set_max_packet_size(MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES);
    options.set_last_will(LastWill::new(Topics::of(device).availability, OFFLINE, QOS, true));
    match (&device.user, &device.password) {
        (Some(user), Some(password)) => options.set_credentials(user.clone(), password.0.clone()),
        (Some(user), None) => options.set_username(user.clone()),
        (None, _) => &mut options,
    };
    if let Some(BrokerTls { name, config }) = device.tls.clone() {
        options.set_socket_connector(move |host, network| {
            let (name, connector) = (name.clone(), TlsConnector::from(config.clone()));
            async move { connector.connect(name, rumqttc::default_socket_connect(host, network).await?).await }
        });
    }
    AsyncClient::builder(options).capacity(MAX_IN_FLIGHT).build()
}

/// Why a connection could not be made or ended, and what to do. `picture_bytes`: of a picture that was on its way.
pub fn reason(error: &ConnectionError, was_connected_for: Option<Duration>, picture_bytes: Option<usize>) -> String {
    if let Some(bytes) = picture_bytes.filter(|_| is_closed_by_broker(error)) {
        return format!(
            "it closed the connection while a picture of {bytes} bytes was on its way; if that goes on, let it take \
             larger messages, or leave --mqtt-pictures out"
        );
    }
    if is_closed_by_broker(error) {
        match was_connected_for {
            None => {
                return "it closed the connection before it answered; if that goes on, check the port, whether it \
                        speaks TLS (mqtts://) there, and whether it keeps retained messages"
                    .into();
            }
            // A broker sends a client away when another one of its name comes. If it has not read all, the system
            // calls that a reset.
            Some(time) if time < Duration::from_secs(10) => {
                return "it closed the connection at once; if that goes on, another device has the same identifier, \
                        the user may not write its topics, or it takes only smaller messages"
                    .into();
            }
            Some(_) => {}
        }
    }
    if was_connected_for.is_none() && is_no_packet(error) {
        return "what it answers is no MQTT 3.1.1: check the port".into();
    }
    if let Some(error) = io_error(error) {
        return with_advice(error.to_string());
    }
    match error {
        ConnectionError::ConnectionRefused(code) => match code {
            ConnectReturnCode::BadUserNamePassword | ConnectReturnCode::NotAuthorized => {
                "it refuses user or password: check both".into()
            }
            ConnectReturnCode::BadClientId => "it refuses the device's identifier: choose another one".into(),
            ConnectReturnCode::RefusedProtocolVersion => "it does not speak MQTT 3.1.1".into(),
            _ => "it is not ready".into(),
        },
        ConnectionError::NetworkTimeout | ConnectionError::FlushTimeout => "it does not answer in time".into(),
        ConnectionError::MqttState(StateError::AwaitPingResp) => "it does not answer any more".into(),
        ConnectionError::MqttState(StateError::ConnectionAborted) => "it closed the connection".into(),
        other => other.to_string(),
    }
}

/// What the system or TLS said, with advice where it names no more than the fault of a certificate.
fn with_advice(said: String) -> String {
    let advice = if said.contains("UnknownIssuer") {
        "no trusted authority has signed it; name the file of that authority's certificate (--mqtt-ca-file)"
    } else if said.contains("CaUsedAsEndEntity") {
        "it is an authority's, as OpenSSL makes them; give the broker one with basicConstraints=CA:FALSE"
    } else if said.contains("UnsupportedCertVersion") {
        "it is of version 1, which names no host; sign it again with an extension file that holds \
         subjectAltName=DNS:HOST (openssl x509 -extfile)"
    } else {
        return said;
    };
    format!("{said}: {advice}")
}

/// Whether the other side ended the connection: in an orderly way, or while it was still being written to.
fn is_closed_by_broker(error: &ConnectionError) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let closes =
        |error: &io::Error| matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof);
    matches!(error, ConnectionError::MqttState(StateError::ConnectionAborted)) || io_error(error).is_some_and(closes)
}

/// Whether something else came than an answer of the protocol.
fn is_no_packet(error: &ConnectionError) -> bool {
    match error {
        // It ended within what would be a packet, such as the answer of a web server.
        ConnectionError::MqttState(StateError::Deserialization(mqttbytes::Error::Io(error))) => {
            error.kind() == ErrorKind::Other
        }
        ConnectionError::MqttState(StateError::Deserialization(_)) | ConnectionError::NotConnAck(_) => true,
        _ => false,
    }
}

/// What the system said. The client takes what went wrong while it read or wrote a packet for an error in that packet.
fn io_error(error: &ConnectionError) -> Option<&io::Error> {
    match error {
        ConnectionError::Io(error)
        | ConnectionError::MqttState(
            StateError::Io(error) | StateError::Deserialization(mqttbytes::Error::Io(error)),
        ) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::*;

    /// A certificate of version 1, as `openssl x509 -req` makes them without a file of extensions.
    const OF_VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBIzCBywIUbv1N8EMUn9EY/GgQLq/SoKxrhP8wCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyOTEwMjA0NloYDzIxMjYxMTA1MTAyMDQ2
WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAQd6yWt0zkh+UEMtEdFi+fbUfuBBrSbECWSnnVM0w49TO4zo4+fiGWwJGxWZR38
CqPHc74cdIGGyHSuqyOCcXuTMAoGCCqGSM49BAMCA0cAMEQCIFcF6BYV/MOXWjh0
QMfPMecloY5WKJQN2uaehDh7aj6QAiB60jhCBKMKX5SrVZsITF7foDDAYDs2eIIc
9rcJeKvJ+A==
-----END CERTIFICATE-----
";

    /// Brokers close the connection of a client that sends more than they take.
    #[test]
    fn a_broker_that_goes_when_a_picture_comes_is_not_said_to_know_another_device() {
        let aborted = || ConnectionError::MqttState(StateError::ConnectionAborted);
        let soon = Some(Duration::from_secs(1));
        let of_picture =
            |error: &ConnectionError| reason(error, soon, Some(140_000)).contains("picture of 140000 bytes");
        assert!(of_picture(&aborted()) && !of_picture(&ConnectionError::NetworkTimeout));
        assert!(of_picture(&ConnectionError::Io(ErrorKind::ConnectionReset.into())));
        assert!(of_picture(&ConnectionError::MqttState(StateError::Io(ErrorKind::BrokenPipe.into()))));
        // As mosquitto does.
        assert!(of_picture(&reset_in_packet()));
        // Some brokers do so after a message to a topic that the user may not write, or one that is too large.
        for error in [aborted(), reset_in_packet()] {
            let at_once = reason(&error, soon, None);
            assert!(at_once.contains("another device") && at_once.contains("may not write its topics"), "{at_once}");
            assert!(at_once.contains("smaller messages"), "{at_once}");
            let later = reason(&error, Some(Duration::from_secs(60)), None);
            assert!(!later.contains("another device") && !later.contains("Mqtt"), "{later}");
        }
    }

    /// The client's error where the connection is reset while it reads.
    fn reset_in_packet() -> ConnectionError {
        in_packet(mqttbytes::Error::Io(ErrorKind::ConnectionReset.into()))
    }

    fn in_packet(error: mqttbytes::Error) -> ConnectionError {
        ConnectionError::MqttState(StateError::Deserialization(error))
    }

    #[test]
    fn a_certificate_that_is_refused_is_told_with_what_to_do() {
        let names = || vec!["localhost".to_owned()];
        let (key, mut authority) = (KeyPair::generate().unwrap(), CertificateParams::new(names()).unwrap());
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "authority");
        let authority = authority.self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let said = |certificate: &CertificateDer<'_>| {
            let name = ServerName::try_from("localhost").unwrap();
            let error = verifier.verify_server_cert(certificate, &[], &name, &[], UnixTime::now()).unwrap_err();
            reason(&ConnectionError::Io(io::Error::new(ErrorKind::InvalidData, error)), None, None)
        };
        let of_authority = said(authority.der());
        assert!(of_authority.contains("basicConstraints=CA:FALSE"), "{of_authority}");
        let of_nobody = said(rcgen::generate_simple_self_signed(names()).unwrap().cert.der());
        assert!(of_nobody.contains("--mqtt-ca-file"), "{of_nobody}");
        let of_version_1 = said(&CertificateDer::from_pem_slice(OF_VERSION_1.as_bytes()).unwrap());
        assert!(of_version_1.contains("subjectAltName=DNS:HOST"), "{of_version_1}");
    }

    #[test]
    fn at_the_port_of_another_service_the_port_is_doubted() {
        let no_packet = in_packet(mqttbytes::Error::MalformedPacket);
        let no_end = in_packet(mqttbytes::Error::Io(io::Error::other("bytes remaining on stream")));
        let closed = ConnectionError::MqttState(StateError::ConnectionAborted);
        for error in [no_packet, no_end, closed, reset_in_packet()] {
            let said = reason(&error, None, None);
            assert!(said.contains("check the port"), "{said}");
        }
        let nobody = ConnectionError::Io(ErrorKind::ConnectionRefused.into());
        assert!(!reason(&nobody, None, None).contains("check the port"));
    }
}
