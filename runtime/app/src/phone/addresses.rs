//! The addresses of this machine by which a phone can reach it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use anyhow::{Context, Result, ensure};

/// Addresses of this machine by which others of its networks reach a service, the likeliest first.
pub(super) struct OwnAddresses {
    pub(super) all: Vec<IpAddr>,
    /// How many of them, from the first on, a certificate must be for: those that lead out of the machine, or all where
    /// none is known to. The others are mostly bridges to containers and virtual machines, and come and go with these.
    pub(super) needed: usize,
}

impl OwnAddresses {
    /// Those of a service that listens on all addresses of a family.
    pub(super) fn find(listen: IpAddr) -> Result<Self> {
        let interfaces = if_addrs::get_if_addrs().context("cannot list this machine's addresses")?;
        // Where there is no such table, none can be told from the others.
        let temporary = fs::read_to_string("/proc/net/if_inet6").map(|table| temporary_addresses(&table));
        let found = interfaces.iter().map(if_addrs::Interface::ip);
        let addresses = lasting_addresses(found, &temporary.unwrap_or_default(), listen);
        let other_family =
            if listen.is_ipv4() { ", or give --listen [::]:8443 if that one has IPv6 alone" } else { "" };
        ensure!(
            !addresses.is_empty(),
            "this machine is on no network: connect it to the one that the phone is on, and start again{other_family}"
        );
        Ok(Self::of(addresses, &routed_addresses()))
    }

    /// All of them, `routed` ones first.
    pub(super) fn of(mut all: Vec<IpAddr>, routed: &[IpAddr]) -> Self {
        all.sort_by_key(|address| !routed.contains(address));
        let leading = all.iter().filter(|address| routed.contains(address)).count();
        let needed = if leading == 0 { all.len() } else { leading };
        Self { all, needed }
    }
}

/// The addresses from which the system would send out of its networks, one of each family that has a route there.
fn routed_addresses() -> Vec<IpAddr> {
    // Those that documentation may name (RFC 5737, RFC 3849), so nobody's. Connecting such a socket sends nothing.
    const FAR: [(IpAddr, IpAddr); 2] = [
        (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
        (IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))),
    ];
    /// `discard`, which no packet reaches.
    const PORT: u16 = 9;
    let source = |(own, far): (IpAddr, IpAddr)| {
        let socket = UdpSocket::bind((own, 0)).ok()?;
        socket.connect((far, PORT)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    FAR.into_iter().filter_map(source).collect()
}

/// The addresses of a machine by which others reach a service that listens on all addresses of a family, IPv4 first.
/// Temporary ones (RFC 8981) are left out: they change every day, and the phone would ask about each new
/// certificate.
fn lasting_addresses(found: impl Iterator<Item = IpAddr>, temporary: &[Ipv6Addr], listen: IpAddr) -> Vec<IpAddr> {
    let is_lasting = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
        // What listens on `::` hears IPv4, too, but not the other way round.
        IpAddr::V6(_) if listen.is_ipv4() => false,
        IpAddr::V6(address) => {
            !address.is_loopback() && !address.is_unicast_link_local() && !temporary.contains(address)
        }
    };
    let mut addresses: Vec<IpAddr> = found.filter(is_lasting).collect();
    addresses.sort_by_key(|address| (address.is_ipv6(), *address));
    addresses.dedup();
    addresses
}

/// The temporary ones in Linux's table of a machine's addresses of IPv6: a line has address, interface, length of the
/// prefix, scope, flags and the interface's name, all numbers in hexadecimal digits.
fn temporary_addresses(table: &str) -> Vec<Ipv6Addr> {
    /// `IFA_F_TEMPORARY` of linux/if_addr.h.
    const TEMPORARY: u8 = 1;
    let temporary = |line: &str| {
        let mut fields = line.split_whitespace();
        let address = u128::from_str_radix(fields.next()?, 16).ok()?;
        let flags = u8::from_str_radix(fields.nth(3)?, 16).ok()?;
        (flags & TEMPORARY != 0).then(|| Ipv6Addr::from(address))
    };
    table.lines().filter_map(temporary).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::phone) fn parsed(addresses: &[&str]) -> Vec<IpAddr> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn addresses_are_those_that_last_and_where_it_listens() {
        let table = "\
            00000000000000000000000000000001 01 80 10 80       lo\n\
            fe800000000000005054fffffe123456 02 40 20 80     eth0\n\
            20010db8000000000000000000000007 02 40 00 00     eth0\n\
            20010db80000000012340000abcd0001 02 40 00 01     eth0\n\
            fd000000000000000000000000000007 03 40 00 80    wlan0\n";
        let temporary = temporary_addresses(table);
        assert_eq!(temporary, ["2001:db8::1234:0:abcd:1".parse::<Ipv6Addr>().unwrap()]);
        let found = [
            "fd00::7",
            "2001:db8::1234:0:abcd:1",
            "2001:db8::7",
            "fe80::5054:ff:fe12:3456",
            "::1",
            "192.168.1.7",
            "192.168.1.7",
            "169.254.3.4",
            "127.0.0.1",
            "10.0.0.7",
        ];
        for (listen, expected) in [
            ("0.0.0.0", &["10.0.0.7", "192.168.1.7"][..]),
            ("::", &["10.0.0.7", "192.168.1.7", "2001:db8::7", "fd00::7"]),
        ] {
            let found = found.iter().map(|address| address.parse().unwrap());
            let addresses = lasting_addresses(found, &temporary, listen.parse().unwrap());
            assert_eq!(addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>(), expected, "{listen}");
        }
    }

    #[test]
    fn the_first_address_leads_out_of_the_machine_as_no_containers_bridge_does() {
        let found = parsed(&["10.0.3.1", "172.17.0.1", "192.168.1.7", "2001:db8::7", "fd00::7"]);
        let [way, other_way] = ["192.168.1.7", "2001:db8::7"];
        for (routed, first, needed) in [
            // The system may send from a temporary address, which is left out.
            (&[way, "2001:db8::1234:0:abcd:1"][..], &[way, "10.0.3.1", "172.17.0.1"][..], 1),
            (&[way, other_way], &[way, other_way, "10.0.3.1"], 2),
            (&[], &["10.0.3.1", "172.17.0.1", way], 5),
        ] {
            let addresses = OwnAddresses::of(found.clone(), &parsed(routed));
            assert_eq!(addresses.all[..first.len()], parsed(first), "{routed:?}");
            assert_eq!((addresses.all.len(), addresses.needed), (5, needed), "{routed:?}");
        }
        for address in routed_addresses() {
            assert!(!address.is_unspecified(), "{address}");
        }
    }
}
