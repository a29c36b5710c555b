//! Teaching from a phone (`orco serve --phone`): a certificate of the device's own, the addresses by which phones reach
//! it, a QR code that carries the token, and the machine's name on the network.
//!
//! A phone gives its camera only to pages that come over TLS. Nobody vouches for the certificate, so the phone asks
//! once whether to go on; it is kept, so that the phone does not ask again.

mod addresses;

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jiff::Timestamp;
use mdns_sd::{IfKind, ServiceDaemon, ServiceInfo};
use orco_runtime::clock::seconds_if_set;
use orco_runtime::files;
use orco_serve::token::Token;
use orco_serve::{Tls, host_name};
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, SerialNumber};
use time::{Duration, OffsetDateTime};

use self::addresses::OwnAddresses;
use crate::certificate::CertificateFacts;

/// Where `orco serve --phone` listens unless another address is given.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8443);
/// Days that a certificate is valid: phones take none of more than 825.
const DAYS: i64 = 800;

/// How the service identifies itself, and what callers must give, as far as the settings name them.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// Certificate and key.
    pub tls: Option<Tls>,
    /// The token's file.
    pub token: Option<PathBuf>,
}

/// The folder beside a state where `orco serve --phone` keeps what is not given.
pub fn folder_of(state: &Path) -> PathBuf {
    let mut folder = state.as_os_str().to_owned();
    folder.push(".phone");
    folder.into()
}

/// The token's file in that folder.
pub fn token_in(folder: &Path) -> PathBuf {
    folder.join("token")
}

/// The certificate in that folder, and its key.
pub fn tls_in(folder: &Path) -> Tls {
    Tls { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") }
}

/// What `orco serve --phone` serves with.
pub struct PhoneAccess {
    tls: Tls,
    token_file: PathBuf,
    token: Token,
    /// The machine's name on the network, such as `door3.local`.
    pub name: String,
    listen: IpAddr,
    addresses: OwnAddresses,
    folder: PathBuf,
}

impl PhoneAccess {
    /// Takes token and certificate from `given`, else from `folder`, where what is missing is made. The folder's
    /// certificate is made anew unless it holds for the machine's name and for all addresses that phones need now
    /// (`OwnAddresses::needed`).
    ///
    /// # Errors
    /// If the folder or a file cannot be written, or the machine is on no network.
    pub fn prepare(folder: &Path, listen: IpAddr, given: Credentials) -> Result<Self> {
        let addresses =
            if listen.is_unspecified() { OwnAddresses::find(listen)? } else { OwnAddresses::of(vec![listen], &[]) };
        let name = format!("{}.local", label(&host_name()));
        files::create_own_folder(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let token_file = given.token.unwrap_or_else(|| token_in(folder));
        let token = Token::read_or_make(&token_file)?;
        let tls = given.tls.map_or_else(|| own_certificate(folder, &name, &addresses), Ok)?;
        Ok(Self { tls, token_file, token, name, listen, addresses, folder: folder.to_owned() })
    }

    /// What the service is to use.
    pub fn credentials(&self) -> Credentials {
        Credentials { tls: Some(self.tls.clone()), token: Some(self.token_file.clone()) }
    }

    /// The page's address for a phone, with the token in its fragment, which browsers send to nobody.
    fn url(&self, port: u16) -> String {
        // The address, since not every phone knows names that end in `.local`.
        let host = self.addresses.all.first().map_or_else(|| self.name.clone(), |address| in_url(*address));
        self.url_of(&host, port)
    }

    /// The page's address by the machine's other addresses, in words: a phone may be in another of its networks.
    fn other_urls(&self, port: u16) -> String {
        let others = self.addresses.all.iter().skip(1);
        let urls: Vec<String> = others.map(|address| self.url_of(&in_url(*address), port)).collect();
        if urls.is_empty() {
            return String::new();
        }
        format!("\n\nIf that address does not answer, another one of this machine may:\n\n    {}", urls.join("\n    "))
    }

    fn url_of(&self, host: &str, port: u16) -> String {
        format!("https://{host}:{port}/#token={}", self.token.digits())
    }

    /// The address as a QR code, in the colours of a terminal or without.
    ///
    /// # Errors
    /// If the address is too long for one.
    pub fn square(&self, port: u16, coloured: bool) -> Result<String> {
        qr_code(&self.url(port), coloured)
    }

    /// What people read below the square: the addresses, and what the phone will ask.
    pub fn directions(&self, port: u16) -> String {
        format!(
            "\nPoint the phone's camera at this square, in the same network, or open\n\n    {}\n\nThe phone says that it does not \
             know the certificate: go on to the page (\"Advanced\" or \"Details\"). It asks once. Ctrl-C ends the service.\n\n\
             Whoever has this address may teach. To lock all phones out, remove {} and start the service again.{}\n\n\
             Another name of this machine is {}",
            self.url(port),
            self.token_file.display(),
            self.other_urls(port),
            self.url_of(&self.name, port)
        )
    }

    /// Writes the invitation into a file that only its owner may read, and says where it is: for a service whose output
    /// goes into a log, which more people read than may teach.
    ///
    /// # Errors
    /// If the address is too long for the code, or the file cannot be written.
    pub fn write_invitation(&self, port: u16) -> Result<String> {
        let path = self.folder.join("invitation.txt");
        let invitation = format!("{}{}", self.square(port, false)?, self.directions(port));
        files::replace(&path, invitation.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(format!("{} shows phones the way; whoever reads it may teach", path.display()))
    }

    /// Tells the network the machine's name for as long as the result lives.
    ///
    /// # Errors
    /// If the network cannot be told; addresses work without.
    pub fn announce(&self, port: u16) -> Result<Announcement> {
        let (daemon, service) = (ServiceDaemon::new()?, self.service(port)?);
        if service.is_addr_auto() {
            // Nothing listens there.
            daemon.disable_interface(vec![IfKind::IPv6, IfKind::LoopbackV4])?;
        }
        daemon.register(service)?;
        Ok(Announcement(daemon))
    }

    /// What the network is told. Where the service listens on all addresses of IPv4, that follows them: a router may
    /// give the machine another one while the service runs.
    fn service(&self, port: u16) -> Result<ServiceInfo> {
        let host = format!("{}.", self.name);
        let instance = format!("OrCo on {}", self.name.trim_end_matches(".local"));
        let service = ServiceInfo::new("_https._tcp.local.", &instance, &host, &self.addresses.all[..], port, None)?;
        let follows = self.listen == IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Ok(if follows { service.enable_addr_auto() } else { service })
    }
}

/// The machine's name is told to the network while this lives.
pub struct Announcement(ServiceDaemon);

impl Drop for Announcement {
    fn drop(&mut self) {
        // The network forgets the name by itself where this fails.
        let _ = self.0.shutdown();
    }
}

/// The first label of a machine's name, with letters, digits and hyphens alone.
fn label(name: &str) -> String {
    let first = name.split('.').next().unwrap_or_default();
    let kept: String =
        first.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').take(63).collect();
    let kept = kept.trim_matches('-').to_ascii_lowercase();
    if kept.is_empty() { "orco".to_owned() } else { kept }
}

fn in_url(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// The certificate in a folder; it is made, for all addresses, where there is none for those that are needed.
fn own_certificate(folder: &Path, name: &str, addresses: &OwnAddresses) -> Result<Tls> {
    let tls = tls_in(folder);
    let mut names = vec![name.to_owned(), "localhost".to_owned()];
    let needed = names.len() + addresses.needed;
    names.extend(addresses.all.iter().map(IpAddr::to_string));
    if (!is_usable(&tls) || !holds_for(&tls.certificate, &names[..needed]))
        && let Err(error) = make_certificate(&tls, names, OffsetDateTime::now_utc())
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

/// Makes a certificate that nobody vouches for; its key is the one that is there, or a new one.
fn make_certificate(tls: &Tls, names: Vec<String>, now: OffsetDateTime) -> Result<()> {
    let name = names[0].clone();
    let key = match fs::read_to_string(&tls.key).ok().and_then(|pem| KeyPair::from_pem(&pem).ok()) {
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

/// A number that no certificate had before. rcgen's own is a digest of the key, which stays; Firefox refuses a second
/// certificate of the same issuer and number.
fn new_serial_number() -> Result<SerialNumber> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).context("the system gives no random numbers")?;
    // Positive, and of 16 bytes in every case.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

/// A QR code in half blocks; black on white where the terminal takes colours, for phones that read no other.
fn qr_code(text: &str, coloured: bool) -> Result<String> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).context("the address does not fit a QR code")?;
    let drawn = code
        .render::<Dense1x2>()
        .dark_color(if coloured { Dense1x2::Dark } else { Dense1x2::Light })
        .light_color(if coloured { Dense1x2::Light } else { Dense1x2::Dark })
        .quiet_zone(true)
        .build();
    if !coloured {
        return Ok(drawn + "\n");
    }
    Ok(drawn.lines().fold(String::new(), |mut text, line| {
        // Dark parts are drawn, light ones are the background.
        let _ = writeln!(text, "\x1b[30;107m{line}\x1b[0m");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::addresses::tests::parsed;
    use super::*;

    #[test]
    fn a_host_name_becomes_a_label_of_the_network() {
        for (name, expected) in
            [("Door3", "door3"), ("door3.example", "door3"), ("my_door", "mydoor"), ("-tür-", "tr"), ("", "orco")]
        {
            assert_eq!(label(name), expected, "{name}");
        }
    }

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

    fn access(folder: &Path, listen: &str, all: &[&str]) -> PhoneAccess {
        let token_file = token_in(folder);
        PhoneAccess {
            tls: tls_in(folder),
            token: Token::read_or_make(&token_file).unwrap(),
            token_file,
            name: "door3.local".to_owned(),
            listen: listen.parse().unwrap(),
            addresses: OwnAddresses::of(parsed(all), &[]),
            folder: folder.to_owned(),
        }
    }

    #[test]
    fn the_name_follows_the_addresses_of_a_service_that_listens_on_all() {
        let folder = tempfile::tempdir().unwrap();
        for (listen, follows) in [("0.0.0.0", true), ("192.168.1.7", false), ("::", false)] {
            let service = access(folder.path(), listen, &["192.168.1.7"]).service(8443).unwrap();
            assert_eq!(service.is_addr_auto(), follows, "{listen}");
        }
    }

    #[test]
    fn directions_name_every_address() {
        let folder = tempfile::tempdir().unwrap();
        let with = |all: &[&str]| access(folder.path(), "::", all).directions(8443);
        let directions = with(&["192.168.1.7", "fd00::7"]);
        for host in ["192.168.1.7", "[fd00::7]", "door3.local"] {
            assert_eq!(directions.matches(&format!("https://{host}:8443/#token=")).count(), 1, "{directions}");
        }
        assert_eq!(with(&["192.168.1.7"]).matches("https://").count(), 2);
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
    fn the_square_is_black_on_white_and_has_a_margin() {
        let url = format!("https://192.168.1.7:8443/#token={}", "0".repeat(64));
        let [coloured, plain] = [true, false].map(|coloured| qr_code(&url, coloured).unwrap());
        // Black letters on white, and white letters on a black terminal.
        let coloured = coloured.lines().map(|line| line.strip_prefix("\x1b[30;107m")?.strip_suffix("\x1b[0m"));
        let coloured = coloured.collect::<Option<Vec<_>>>().unwrap();
        let plain: Vec<&str> = plain.lines().collect();
        let code = QrCode::with_error_correction_level(&url, EcLevel::L).unwrap();
        let expected = code.render::<char>().dark_color('#').light_color(' ').module_dimensions(1, 1).build();
        let expected: Vec<&str> = expected.lines().collect();
        for (drawn, ink, paper) in [(&coloured, '#', ' '), (&plain, ' ', '#')] {
            assert_eq!(modules(drawn, ink, paper)[..expected.len()], expected);
        }
        assert!(expected[0].trim().is_empty() && expected[3].trim().is_empty(), "a margin of four");
        assert!(plain.len() <= 40 && plain[0].chars().count() <= 80, "it fits a terminal");
    }

    /// The rows of a code that was drawn in half blocks.
    fn modules(drawn: &[&str], ink: char, paper: char) -> Vec<String> {
        let row = |line: &str, inked: [char; 2]| {
            line.chars().map(|block| if inked.contains(&block) { ink } else { paper }).collect::<String>()
        };
        drawn
            .iter()
            .flat_map(|line| [row(line, ['\u{2588}', '\u{2580}']), row(line, ['\u{2588}', '\u{2584}'])])
            .collect()
    }
}
