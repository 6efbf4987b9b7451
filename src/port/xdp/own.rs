//! The host's own addresses, whose packets [`Punt::Control`](super::Punt::Control) leaves to the kernel.

use crate::sync::shim::{Mutex, lock};
use crate::sys::address;
use crate::sys::bpf::{AddressMaps, BpfError};
use crate::sys::xdp::Errno;
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
    /// is taken away. An address that stays is known throughout.
    ///
    /// # Errors
    /// [`BpfError`] for the first address that could not be changed; those before it are.
    pub fn set(&self, addresses: &[IpAddr]) -> Result<(), BpfError> {
        let wanted: BTreeSet<IpAddr> = addresses.iter().copied().filter(|one| !one.is_loopback()).collect();
        let mut known = lock(&self.known);
        for &address in wanted.difference(&known.clone()) {
            self.maps.insert(address)?;
            known.insert(address);
        }
        for &address in known.clone().difference(&wanted) {
            self.maps.remove(address)?;
            known.remove(&address);
        }
        Ok(())
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
pub enum OwnAddressesError {
    /// The kernel does not say which there are.
    #[error("read the host's addresses: {0}")]
    Unread(#[from] Errno),
    /// The program cannot be told.
    #[error(transparent)]
    Untold(#[from] BpfError),
}
