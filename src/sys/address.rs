//! The IP addresses of this host: those of all interfaces of a network namespace.

use super::errno::last_errno;
use ipnet::IpNet;
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::null_mut;

/// The prefixes whose addresses may occur on a wire, without the bits beyond their lengths. Loopback addresses are left
/// out.
pub fn by_wire(prefixes: &[IpNet]) -> impl Iterator<Item = IpNet> {
    prefixes.iter().map(IpNet::trunc).filter(|prefix| !prefix.addr().is_loopback())
}

/// All addresses of the calling thread's network namespace, as prefixes of one address. An address occurs once for each
/// interface that has it.
///
/// # Errors
/// The error of getifaddrs(3).
///
/// # Cost
/// Two dumps over rtnetlink.
pub fn all() -> Result<Vec<IpNet>, Errno> {
    let mut first: *mut libc::ifaddrs = null_mut();
    // SAFETY: getifaddrs writes one pointer.
    if unsafe { libc::getifaddrs(&raw mut first) } < 0 {
        return Err(last_errno());
    }
    let list = List(first);
    let mut addresses = Vec::new();
    let mut next = list.0;
    // SAFETY: null, or an element of the list, which is freed no sooner than `list` is dropped.
    while let Some(element) = unsafe { next.as_ref() } {
        // SAFETY: the address of an element of the list.
        addresses.extend(unsafe { ip(element.ifa_addr) }.map(IpNet::from));
        next = element.ifa_next;
    }
    Ok(addresses)
}

/// The list that getifaddrs(3) made.
struct List(*mut libc::ifaddrs);

impl Drop for List {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: getifaddrs made it, and it is freed once.
            unsafe { libc::freeifaddrs(self.0) };
        }
    }
}

/// The IP address of a socket address, if it is one.
///
/// # Safety
/// `address` is null, or a socket address as long as its family says.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: every socket address begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a sockaddr_in.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a sockaddr_in6.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_ip_address_is_left_out() {
        // SAFETY: zero is valid for each of these, and they are as long as their families say.
        let [none, packet] = [libc::AF_UNSPEC, libc::AF_PACKET].map(|family| unsafe {
            let mut address: libc::sockaddr_storage = std::mem::zeroed();
            address.ss_family = family as u16;
            ip((&raw const address).cast())
        });
        assert_eq!((none, packet), (None, None));
        // SAFETY: null is no address.
        assert_eq!(unsafe { ip(std::ptr::null()) }, None);
    }

    #[test]
    fn all_addresses_can_be_asked_for() {
        let addresses = all().unwrap();
        assert!(addresses.iter().all(|address| !address.addr().is_unspecified()), "{addresses:?}");
    }
}
