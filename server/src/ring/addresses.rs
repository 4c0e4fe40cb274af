//! The addresses at which others may reach a member.
//!
//! A member connects to whatever address the coordinator names, so an enrolled client must not make others connect into
//! a network that it does not belong to. It is reached at the address that the coordinator sees, with the port that it
//! tells, or at the addresses that its token granted.

use std::net::IpAddr;

use tributary_protocol::device::Attributes;
use tributary_protocol::group::messages::{ADDRESS_ATTRIBUTE, ADDRESS_BYTES_MAX, ADDRESSES_MAX, RingMember};

/// The member as others may reach it.
///
/// # Errors
/// Why its addresses cannot be taken.
pub(super) fn reachable(told: &RingMember, seen: Option<IpAddr>, granted: &Attributes) -> Result<RingMember, String> {
    let addresses = &told.addresses;
    if addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
        return Err(format!("a member has 1 to {ADDRESSES_MAX} addresses, not {}", addresses.len()));
    }
    let granted: Vec<&str> = match granted.as_map().get(ADDRESS_ATTRIBUTE) {
        Some(granted) => granted.split(',').map(str::trim).collect(),
        None => Vec::new(),
    };
    let allowed = |address: &String| match port(address) {
        Some(_) if granted.contains(&address.as_str()) => Ok(address.clone()),
        Some(port) if granted.is_empty() => match seen {
            Some(IpAddr::V4(seen)) => Ok(format!("{seen}:{port}")),
            Some(IpAddr::V6(seen)) => Ok(format!("[{seen}]:{port}")),
            None => Err(format!("the coordinator does not see where {address:?} is: a token must grant it")),
        },
        Some(_) => Err(format!("{address:?} is not among the addresses that its token granted")),
        None => Err(format!("{address:?} is no host and port of at most {ADDRESS_BYTES_MAX} bytes")),
    };
    let addresses = addresses.iter().map(allowed).collect::<Result<Vec<_>, _>>()?;
    Ok(RingMember { key: told.key, addresses })
}

fn port(address: &str) -> Option<u16> {
    let (host, port) = address.rsplit_once(':')?;
    let is_fit = !host.is_empty() && address.len() <= ADDRESS_BYTES_MAX && !address.contains(char::is_whitespace);
    port.parse().ok().filter(|port| is_fit && *port != 0)
}

#[cfg(test)]
mod tests {
    use tributary_protocol::hash::Sha256Hash;

    use super::*;

    fn told(addresses: &[&str]) -> RingMember {
        let addresses = addresses.iter().map(|address| (*address).to_owned()).collect();
        RingMember { key: Sha256Hash::of(b"key"), addresses }
    }

    #[test]
    fn without_a_grant_others_go_where_the_coordinator_saw_the_member() {
        let none = Attributes::default();
        let seen = Some("10.0.0.7".parse().unwrap());
        let reached = reachable(&told(&["192.168.0.1:7400", "intranet.example.org:22"]), seen, &none).unwrap();
        assert_eq!(reached.addresses, ["10.0.0.7:7400", "10.0.0.7:22"]);
        let reached = reachable(&told(&["x:7400"]), Some("2001:db8::1".parse().unwrap()), &none).unwrap();
        assert_eq!(reached.addresses, ["[2001:db8::1]:7400"]);
    }

    #[test]
    fn a_grant_names_the_addresses() {
        let text = format!("{{\"{ADDRESS_ATTRIBUTE}\": \"silo-7.example.org:7400, 10.1.1.1:7400\"}}");
        let granted: Attributes = serde_json::from_str(&text).unwrap();
        let seen = Some("10.0.0.7".parse().unwrap());
        let reached = reachable(&told(&["silo-7.example.org:7400"]), seen, &granted).unwrap();
        assert_eq!(reached.addresses, ["silo-7.example.org:7400"]);
        assert!(reachable(&told(&["silo-8.example.org:7400"]), seen, &granted).unwrap_err().contains("granted"));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let (none, seen) = (Attributes::default(), Some("10.0.0.7".parse().unwrap()));
        for address in ["", "host", "host:", "host:0", "host:70000", ":7400", "ho st:1", &"h".repeat(300)] {
            assert!(reachable(&told(&[address]), seen, &none).is_err(), "{address}");
        }
        assert!(reachable(&told(&[]), seen, &none).is_err());
        assert!(reachable(&told(&["a:1"; 5]), seen, &none).is_err());
    }
}
