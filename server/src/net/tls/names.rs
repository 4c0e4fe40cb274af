//! Names and addresses under which other machines reach this one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Addresses for documentation (RFC 5737, RFC 3849). They are nobody's, so the way to them is the way out.
const OUTSIDE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// Addresses of the interfaces, then the host's name, then what always works on this machine. Of the addresses, those
/// that lead out come first, then IPv4: other machines rarely reach a bridge of containers or of virtual machines.
pub(super) fn of_this_machine() -> Vec<String> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let reachable = interfaces.iter().filter(|interface| !interface.is_loopback() && !interface.is_link_local());
    let addresses = ordered(reachable.map(if_addrs::Interface::ip).collect(), &OUTSIDE.map(outward));
    let mut names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    names.extend(host_name());
    and_local(names)
}

/// The address from which this machine would send to another one. Connecting a UDP socket looks the way up, and sends
/// nothing.
fn outward(to: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    socket.connect(SocketAddr::new(to, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

fn ordered(mut addresses: Vec<IpAddr>, outward: &[Option<IpAddr>]) -> Vec<IpAddr> {
    addresses.sort_unstable_by_key(|address| (!outward.contains(&Some(*address)), *address));
    addresses.dedup();
    addresses
}

/// With what always works on this machine.
pub(super) fn and_local(mut names: Vec<String>) -> Vec<String> {
    for local in ["localhost", "127.0.0.1", "::1"].map(str::to_owned) {
        if !names.contains(&local) {
            names.push(local);
        }
    }
    names
}

/// The host's name, if it can be in a certificate.
#[cfg(unix)]
fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    let is_name = rustls::pki_types::DnsName::try_from(name.as_str()).is_ok();
    is_name.then_some(name)
}

#[cfg(not(unix))]
fn host_name() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_lead_out_come_first() {
        let parsed = |addresses: &[&str]| -> Vec<IpAddr> { addresses.iter().map(|ip| ip.parse().unwrap()).collect() };
        let all = || parsed(&["fd00::2", "192.168.1.5", "172.17.0.1", "10.8.0.1", "172.17.0.1"]);
        assert_eq!(ordered(all(), &[None, None]), parsed(&["10.8.0.1", "172.17.0.1", "192.168.1.5", "fd00::2"]));
        let outward = ["192.168.1.5", "fd00::2"].map(|ip| ip.parse().ok());
        assert_eq!(ordered(all(), &outward), parsed(&["192.168.1.5", "fd00::2", "10.8.0.1", "172.17.0.1"]));
        let unknown = [Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), None];
        assert_eq!(ordered(all(), &unknown), ordered(all(), &[None, None]));
    }

    #[test]
    fn a_machine_always_knows_itself_and_no_name_comes_twice() {
        let names = of_this_machine();
        for local in ["localhost", "127.0.0.1", "::1"].map(str::to_owned) {
            assert!(names.contains(&local), "{names:?}");
        }
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), names.len());
    }
}
