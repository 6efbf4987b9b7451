//! The host's own addresses, whose packets [`Punt::Control`](super::Punt::Control) leaves to the kernel.

use crate::sync::shim::{Mutex, lock};
use crate::sys::address;
use crate::sys::bpf::{AddressMaps, BpfError};
use crate::sys::errno::Errno;
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The host's own addresses that the redirect programs of one [`Umem`](super::Umem) know: like the kernel's stack, the
/// programs accept any of the host's addresses on any interface. They are prefixes: a host has single addresses as a
/// rule, and whole networks where its table `local` says so (`ip route add local 192.0.2.0/24 dev lo`).
///
/// Loopback addresses never are among them: no packet to one may come by a wire.
#[derive(Debug)]
pub struct OwnAddresses {
    maps: AddressMaps,
    /// Invariant: what is in `maps`.
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

    /// Makes the addresses in these prefixes the own ones: what is new among them is added first, and then what is not among
    /// them any more is taken away. A prefix that stays is known throughout. Where a full map has no room for a new one, it is
    /// added when old ones have made room. Bits behind a prefix's length count for nothing.
    ///
    /// # Errors
    /// [`BpfError`] for the first prefix that could not be changed; all that could be are.
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

    /// Adds what can be added; what could not be, and why the first of it.
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

    /// Makes those that the interfaces of the calling thread's network namespace have the own ones, whether or not anybody
    /// said that they have changed.
    ///
    /// # Errors
    /// As [`OwnAddresses::set`], and what getifaddrs(3) says.
    ///
    /// # Cost
    /// A dump of all addresses by the kernel: for once a second, not for a poll loop.
    pub fn follow(&self) -> Result<(), OwnAddressesError> {
        Ok(self.set(&address::all()?)?)
    }

    /// Whether packets to `address` are left to the kernel.
    pub fn contains(&self, address: IpAddr) -> bool {
        lock(&self.known).iter().any(|prefix| prefix.contains(&address))
    }
}

/// The host's own addresses could not be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnAddressesError {
    /// The kernel does not say which there are.
    #[error("read the host's addresses: {0}")]
    Unread(#[from] Errno),
    /// The program cannot be told.
    #[error(transparent)]
    Untold(#[from] BpfError),
}
