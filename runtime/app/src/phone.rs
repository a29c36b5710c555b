//! Teaching from a phone (`orco serve --phone`): a certificate of the device's own, the addresses by which phones reach
//! it, a QR code that carries the token, and the machine's name on the network.
//!
//! A phone gives its camera only to pages that come over TLS. Nobody vouches for the certificate, so the phone asks
//! once whether to go on; it is kept, so that the phone does not ask again.

mod addresses;
mod own_certificate;
mod qr_code;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mdns_sd::{IfKind, ServiceDaemon, ServiceInfo};
use orco_runtime::files;
use orco_serve::token::Token;
use orco_serve::{Tls, host_name};

use self::addresses::OwnAddresses;
use self::own_certificate::own_certificate;
pub use self::own_certificate::{is_usable, tls_in};
pub use self::qr_code::QrColours;
use self::qr_code::qr_code;

/// Where `orco serve --phone` listens unless another address is given.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8443);

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

    /// The address as a QR code.
    ///
    /// # Errors
    /// If the address is too long for one.
    pub fn qr_code(&self, port: u16, colours: QrColours) -> Result<String> {
        qr_code(&self.url(port), colours)
    }

    /// What people read below the QR code: the addresses, and what the phone will ask.
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
        let invitation = format!("{}{}", self.qr_code(port, QrColours::OfText)?, self.directions(port));
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
}
