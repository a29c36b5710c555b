//! What `orco serve` needs: port, token, certificate, and what its settings name.

use std::io::{self, Read, Write};
#[cfg(feature = "mqtt")]
use std::net::ToSocketAddrs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use orco_runtime::files;
use orco_runtime::state::sentence::counted;
use orco_serve::disk_check::unwritable;
#[cfg(feature = "mqtt")]
use orco_serve::mqtt::BrokerAddress;
use orco_serve::rules::{Action, Rules};
use orco_serve::sightings::Sightings;
use orco_serve::token::Token;
use orco_serve::{CameraSource, ServeError, camera_regions};

use super::{Findings, machine, writable};
use crate::certificate::CertificateFacts;
use crate::phone;
use crate::serve_options::ServeOptions;

/// How long a program on a port may take to say what it is, or to answer at all.
const PORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether this process may have as much memory as the service takes.
pub fn memory(arguments: &ServeOptions, findings: &mut Findings) {
    if let Some(shortage) = arguments.memory_shortage() {
        findings.note("service memory", shortage);
    }
}

/// Whether the token can be used, or made. `phone` is the folder that holds phones' token where none is given; the
/// service makes that.
pub fn token(arguments: &ServeOptions, phone: Option<&Path>, findings: &mut Findings) {
    const SUBJECT: &str = "token";
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.is_dir() && Some(*folder) != phone;
    match arguments.token_file.clone().or(phone.map(phone::token_in)) {
        None if arguments.phone => {
            findings.note(SUBJECT, "not checked: it lies beside the state, whose folder is not known")
        }
        None if arguments.listen().ip().is_loopback() => {
            findings.note(SUBJECT, "none: everyone on this machine may teach")
        }
        None => findings.failed(SUBJECT, ServeError::NoToken { address: arguments.listen() }),
        Some(path) if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) => {
            match path.parent().filter(is_missing) {
                Some(folder) => findings.wrong(
                    SUBJECT,
                    format!("{} cannot be made: there is no folder {}; make it", path.display(), folder.display()),
                ),
                None => report_to_be_made(SUBJECT, &path, "--token-file FILE", findings),
            }
        }
        Some(path) => match Token::read(&path) {
            Ok(_) => findings.good(SUBJECT, format!("{}, its owner's alone", path.display())),
            Err(error) => findings.failed(SUBJECT, error),
        },
    }
}

/// Whether certificate and key belong together, and today is between the certificate's dates. `phone` is the folder
/// that holds phones' certificate where none is given.
pub fn certificate(arguments: &ServeOptions, phone: Option<&Path>, findings: &mut Findings) {
    const SUBJECT: &str = "certificate";
    let tls = match (arguments.tls(), phone.map(phone::tls_in)) {
        (Ok(Some(tls)), _) => tls,
        (Ok(None), Some(own)) if !phone::is_usable(&own) => {
            let shown = own.certificate.display();
            return findings
                .note(SUBJECT, format!("{shown} is made when the service starts; each phone asks about it"));
        }
        (Ok(None), Some(own)) => own,
        (Ok(None), None) if arguments.phone => return,
        (Ok(None), None) if arguments.listen().ip().is_loopback() => {
            return findings.note(SUBJECT, "none: browsers on other machines give no camera to a page without TLS");
        }
        (Ok(None), None) => {
            return findings.note(
                SUBJECT,
                "none: others on the network can read the token, and browsers on other machines give no camera to a \
                 page without TLS",
            );
        }
        (Err(error), _) => return findings.failed(SUBJECT, error),
    };
    if let Err(error) = tls.check() {
        return findings.failed(SUBJECT, error);
    }
    let shown = tls.certificate.display();
    let Some(facts) = CertificateFacts::read(&tls.certificate) else {
        return findings.note(SUBJECT, format!("{shown} can be used; its dates cannot be read"));
    };
    let (from, to) = (facts.from, facts.to);
    let now = Timestamp::now().as_second();
    let date =
        |second| Timestamp::from_second(second).map_or_else(|_| "?".into(), |time| time.strftime("%F").to_string());
    if now < from {
        let text = format!("{shown} is valid only from {}: is the clock right? Else take another one", date(from));
        findings.wrong(SUBJECT, text);
    } else if now > to {
        findings.wrong(SUBJECT, format!("{shown} ended on {}: take a new one", date(to)));
    } else if facts.ends_soon(now) {
        findings.note(SUBJECT, format!("{shown} ends on {}: take a new one soon", date(to)));
    } else {
        findings.good(SUBJECT, format!("{shown}, valid until {}", date(to)));
    }
}

/// Whether the camera that is named is there. One of the network is not tried: it may let in a single caller.
pub fn camera(arguments: &ServeOptions, findings: &mut Findings) {
    const SUBJECT: &str = "camera";
    let Some(source) = &arguments.camera else {
        if arguments.rules.is_some() || arguments.sightings.is_some() {
            findings.note(SUBJECT, "none: no rule acts and nothing is seen; name one with --camera SOURCE");
        }
        return;
    };
    let mut wrong = |text| findings.wrong(SUBJECT, format!("{source} {text}"));
    match source {
        CameraSource::V4l2(device) if !device.exists() => {
            wrong("is not there: connect the camera, or name another with --camera SOURCE")
        }
        CameraSource::V4l2(device) if !machine::usable(device) => wrong(machine::NOT_FOR_THIS_USER),
        CameraSource::Folder(folder) if !folder.exists() => {
            wrong("is not there: make the folder, or name another with --camera folder:PATH")
        }
        CameraSource::Folder(folder) if !folder.is_dir() => {
            wrong("is no folder: name the folder into which pictures are put")
        }
        CameraSource::V4l2(_) | CameraSource::Folder(_) => findings.good(SUBJECT, format!("{source} is there")),
        _ => findings.note(SUBJECT, format!("{source}: not tried")),
    }
}

/// Whether the camera can have the regions that are set.
pub fn regions(arguments: &ServeOptions, findings: &mut Findings) {
    const SUBJECT: &str = "regions";
    match camera_regions::check(&arguments.regions) {
        Ok(()) if arguments.regions.is_empty() => {}
        Ok(()) => findings.good(SUBJECT, counted(arguments.regions.len(), "region")),
        Err(error) => findings.failed(SUBJECT, error),
    }
}

/// Whether the file of rules can be used, and whether what the rules name is there.
pub fn rules(arguments: &ServeOptions, findings: &mut Findings) {
    const SUBJECT: &str = "rules";
    let Some(path) = &arguments.rules else { return };
    match Rules::read(path) {
        Ok(rules) => match rules.iter().flat_map(|rule| &rule.actions).find_map(missing) {
            Some(what) => findings.wrong(SUBJECT, format!("{} names {what}", path.display())),
            None => findings.good(SUBJECT, format!("{}, {}", path.display(), counted(rules.len(), "rule"))),
        },
        Err(error) => findings.failed(SUBJECT, error),
    }
}

/// What an action needs and does not find. Whether the service may use a chip is for its unit to say.
fn missing(action: &Action) -> Option<String> {
    match action {
        Action::Command(command) if !is_startable(Path::new(&command[0])) => {
            Some(format!("{}, which is no program that this user may start (chmod +x)", command[0]))
        }
        Action::Gpio(gpio) if !gpio.chip.exists() => Some(format!("{}, which is not there", gpio.chip.display())),
        _ => None,
    }
}

fn is_startable(program: &Path) -> bool {
    #[cfg(unix)]
    return program.is_file() && rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok();
    #[cfg(not(unix))]
    return program.is_file();
}

/// Says of what is not there that the service makes it, or why it cannot; `option` names another place.
fn report_to_be_made(subject: &'static str, path: &Path, option: &str, findings: &mut Findings) {
    match writable::why_not_made(path) {
        Some(why) => findings.wrong(subject, format!("{why}; name another with {option}")),
        None => findings.note(subject, format!("{} is made when the service starts", path.display())),
    }
}

/// Whether sightings can be kept where they are to be.
pub fn sightings(arguments: &ServeOptions, findings: &mut Findings) {
    const SUBJECT: &str = "sightings";
    let Some(folder) = &arguments.sightings else { return };
    let shown = folder.display();
    if !folder.exists() {
        return report_to_be_made(SUBJECT, folder, "--sightings FOLDER", findings);
    }
    match Sightings::check(folder) {
        Ok(()) => match writable::try_write(folder) {
            Err(error) if !files::is_disk_full(&error) => {
                findings.wrong(SUBJECT, writable::cannot_be_written(folder, &error));
            }
            // Which limit a full disk has reached, bytes or files, it tells itself.
            written => match (unwritable(folder), written) {
                (Some(why), _) => {
                    findings.wrong(SUBJECT, format!("{why}; make room, or name another with --sightings FOLDER"))
                }
                (None, Err(error)) => findings.wrong(SUBJECT, writable::cannot_be_written(folder, &error)),
                (None, Ok(())) => findings.good(SUBJECT, format!("are kept in {shown}")),
            },
        },
        Err(error) => findings.failed(SUBJECT, error),
    }
}

/// Whether what is set for an MQTT broker can be used, and whether its port answers; nothing is sent to it.
#[cfg(feature = "mqtt")]
pub fn mqtt(arguments: &ServeOptions, findings: &mut Findings) {
    const SUBJECT: &str = "MQTT";
    let device = match arguments.mqtt.device() {
        Ok(Some(device)) => device,
        Ok(None) => return findings.note(SUBJECT, "no broker: nothing is reported"),
        Err(error) => return findings.failed(SUBJECT, error),
    };
    let broker = &device.broker;
    if let Err(error) = reach(broker) {
        let text =
            format!("{broker} does not answer: {error}; start it, or name another broker with --mqtt-broker URL");
        return findings.wrong(SUBJECT, text);
    }
    if device.is_overheard() {
        let text = "can be told, but the password goes there unencrypted: mqtts:// encrypts it";
        return findings.note(SUBJECT, format!("{broker} {text}"));
    }
    let tried = "; its port alone was tried, not the user, the password or the certificate";
    findings.good(SUBJECT, format!("{broker} answers, and is told as \"{}\"{tried}", device.id));
}

/// Whether something answers at a broker's port.
#[cfg(feature = "mqtt")]
fn reach(broker: &BrokerAddress) -> io::Result<()> {
    let mut failure = io::Error::other("its name has no address");
    for address in (broker.host.as_str(), broker.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PORT_TIMEOUT) {
            Ok(_) => return Ok(()),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Whether the port is free, or the service itself has it.
pub fn port(arguments: &ServeOptions, findings: &mut Findings) {
    const SUBJECT: &str = "port";
    let address = arguments.listen();
    match TcpListener::bind(address) {
        Ok(_) => findings.good(SUBJECT, format!("{address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if answers(address) {
                findings.good(SUBJECT, format!("a service answers on {address} already"));
            } else {
                let text = "is taken by another program: end that, or give another address with --listen ADDRESS:PORT";
                findings.wrong(SUBJECT, format!("{address} {text}"));
            }
        }
        Err(source) => findings.failed(SUBJECT, ServeError::Listen { address, source }),
    }
}

/// Whether a service such as ours is at an address: it says that it is alive as the Open Inference Protocol asks, or
/// where it speaks TLS, that it is reached by https.
fn answers(address: SocketAddr) -> bool {
    let own: Vec<IpAddr> = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => vec![Ipv4Addr::LOCALHOST.into()],
        // What listens for all addresses of IPv6 may be reached by IPv4, too, or not.
        IpAddr::V6(ip) if ip.is_unspecified() => vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()],
        ip => vec![ip],
    };
    own.iter().any(|ip| answers_at(SocketAddr::new(*ip, address.port())))
}

fn answers_at(address: SocketAddr) -> bool {
    let ask = || -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&address, PORT_TIMEOUT)?;
        stream.set_read_timeout(Some(PORT_TIMEOUT))?;
        let port = address.port();
        let request = format!("GET /v2/health/live HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
        // At once: a server that answers the first part and closes would reset the connection, and its answer be lost.
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(4096).read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().unwrap_or_default();
    let head = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    head.starts_with("http/1.1 200 ") || head.starts_with("http/1.1 307 ") && head.contains("\r\nlocation: https://")
}
