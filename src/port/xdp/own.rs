//! The host's own addresses, whose packets [`Punt::Control`](super::Punt::Control) leaves to the kernel.

use crate::sync::shim::{Mutex, lock};
use crate::sys::address;
use crate::sys::bpf::{AddressMaps, BpfError};
use crate::sys::errno::Errno;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The own addresses that the redirect programs of one [`Umem`](super::Umem) know, on whatever interface: like the
/// kernel's stack, they take a packet to any of the host's addresses for the host's.
///
/// Loopback addresses never are among them: no packet to one may come by a wire.
#[derive(Debug)]
pub struct OwnAddresses {
    maps: AddressMaps,
    /// Invariant: what is in `maps`.
    known: Mutex<BTreeSet<IpAddr>>,
}

impl OwnAddresses {
    pub(super) fn new() -> Result<OwnAddresses, BpfError> {
        Ok(OwnAddresses { maps: AddressMaps::new()?, known: Mutex::new(BTreeSet::new()) })
    }

    /// The maps.
    pub(super) fn maps(&self) -> &AddressMaps {
        &self.maps
    }

    /// Makes `addresses` the own ones: what is new among them is added first, and then what is not among them any more
    /// is taken away. An address that stays is known throughout. Where a full map has no room for a new one, it is added
    /// when old ones have made room.
    ///
    /// # Errors
    /// [`BpfError`] for the first address that could not be changed; all that could be are.
    pub fn set(&self, addresses: &[IpAddr]) -> Result<(), BpfError> {
        let wanted: BTreeSet<IpAddr> = addresses.iter().copied().filter(|one| !one.is_loopback()).collect();
        let mut known = lock(&self.known);
        let new: Vec<IpAddr> = wanted.difference(&known).copied().collect();
        let old: Vec<IpAddr> = known.difference(&wanted).copied().collect();
        let (without_room, _) = self.add(&mut known, new);
        let mut failed = None;
        for address in old {
            match self.maps.remove(address) {
                Ok(()) => drop(known.remove(&address)),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        let (_, still) = self.add(&mut known, without_room);
        still.or(failed).map_or(Ok(()), Err)
    }

    /// Adds what can be added; what could not be, and why the first of it.
    fn add(&self, known: &mut BTreeSet<IpAddr>, new: Vec<IpAddr>) -> (Vec<IpAddr>, Option<BpfError>) {
        let (mut left, mut failed) = (Vec::new(), None);
        for address in new {
            match self.maps.insert(address) {
                Ok(()) => drop(known.insert(address)),
                Err(error) => {
                    left.push(address);
                    failed.get_or_insert(error);
                }
            }
        }
        (left, failed)
    }

    /// Makes those of the calling thread's network namespace the own ones, whether or not anybody said that they have
    /// changed.
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
        lock(&self.known).contains(&address)
    }
}

/// Own addresses could not be followed.
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
