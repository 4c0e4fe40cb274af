//! Names and addresses under which other machines reach this one.

use std::net::IpAddr;

/// Addresses of the interfaces, IPv4 first, then the host's name, then what always works on this machine.
pub(super) fn of_this_machine() -> Vec<String> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let reachable = interfaces.iter().filter(|interface| !interface.is_loopback() && !interface.is_link_local());
    let mut addresses: Vec<IpAddr> = reachable.map(if_addrs::Interface::ip).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let mut names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    names.extend(host_name());
    and_local(names)
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
