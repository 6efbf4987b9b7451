//! The host's own addresses, whose packets [`Punt::Control`](super::Punt::Control) leaves to the kernel.

use crate::sync::shim::{Mutex, lock};
use crate::sys::address;
use crate::sys::bpf::{AddressMaps, BpfError};
use crate::sys::errno::Errno;
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The host's own addresses that the redirect programs of one [`Umem`](super::Umem) know. Like the kernel's stack, the
/// programs accept any of the host's addresses on any interface. The entries are prefixes: a host usually has single
/// addresses, and has whole networks if its table `local` contains them (`ip route add local 192.0.2.0/24 dev lo`).
///
/// Loopback addresses are never among them: no packet to one may come by a wire.
#[derive(Debug)]
pub struct OwnAddresses {
    maps: AddressMaps,
    /// Invariant: the content of `maps`.
    known: Mutex<BTreeSet<IpNet>>,
}

impl OwnAddresses {
    pub(in crate::port) fn new() -> Result<OwnAddresses, BpfError> {
        Ok(OwnAddresses { maps: AddressMaps::new()?, known: Mutex::new(BTreeSet::new()) })
    }

    /// The maps.
    pub(in crate::port) fn maps(&self) -> &AddressMaps {
        &self.maps
    }

    /// Makes the addresses in these prefixes the own addresses. New prefixes are added first, and then those that are
    /// no longer in the list are removed. A prefix that stays is known throughout. If a full map has no room for a new
    /// prefix, it is added after old ones have made room. Bits behind a prefix's length are ignored.
    ///
    /// # Errors
    /// Returns [`BpfError`] for the first prefix that could not be changed. All other prefixes are changed.
    pub fn set(&self, prefixes: &[IpNet]) -> Result<(), BpfError> {
        let wanted: BTreeSet<IpNet> = address::by_wire(prefixes).collect();
        let mut known = lock(&self.known);
        let new: Vec<IpNet> = wanted.difference(&known).copied().collect();
        let old: Vec<IpNet> = known.difference(&wanted).copied().collect();
        let (without_room, _) = self.add(&mut known, new);
        let mut failed = None;
        for prefix in old {
            match self.maps.remove(prefix) {
                Ok(()) => drop(known.remove(&prefix)),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        let (_, still) = self.add(&mut known, without_room);
        still.or(failed).map_or(Ok(()), Err)
    }

    /// Adds the prefixes that can be added. Returns the others, and the first error.
    fn add(&self, known: &mut BTreeSet<IpNet>, new: Vec<IpNet>) -> (Vec<IpNet>, Option<BpfError>) {
        let (mut left, mut failed) = (Vec::new(), None);
        for prefix in new {
            match self.maps.insert(prefix) {
                Ok(()) => drop(known.insert(prefix)),
                Err(error) => {
                    left.push(prefix);
                    failed.get_or_insert(error);
                }
            }
        }
        (left, failed)
    }

    /// Makes the addresses of the interfaces in the calling thread's network namespace the own addresses, whether or
    /// not a change was reported.
    ///
    /// # Errors
    /// The errors of [`OwnAddresses::set`], and that of getifaddrs(3).
    ///
    /// # Cost
    /// The kernel dumps all addresses: call it once a second, not in a poll loop.
    pub fn follow(&self) -> Result<(), OwnAddressesError> {
        Ok(self.set(&address::all()?)?)
    }

    /// Returns whether packets to `address` are left to the kernel.
    pub fn contains(&self, address: IpAddr) -> bool {
        lock(&self.known).iter().any(|prefix| prefix.contains(&address))
    }
}

/// The host's own addresses could not be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnAddressesError {
    /// The kernel does not return the addresses.
    #[error("read the host's addresses: {0}")]
    List(#[from] Errno),
    /// The program's map cannot be changed.
    #[error(transparent)]
    Update(#[from] BpfError),
}
