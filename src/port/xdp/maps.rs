//! The maps that the redirect programs of one interface share. COLD.

use super::own::OwnAddresses;
use crate::sys::bpf::{
    BpfError, KernelCounts, Punt, Punted, QUEUES_MAX, RedirectProgram, Selection, SocketMap, Take,
};
use std::sync::Arc;

/// The packets that are taken: the rules, and the MAC address of the station that they must be sent to.
pub(super) type Taken<'a> = Option<(&'a Take, [u8; 6])>;

/// The maps that redirect programs share when one replaces another.
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) sockets: SocketMap,
    punted: Punted<Arc<OwnAddresses>>,
    /// Counts of packets left to the kernel, if a program leaves any.
    pub(super) counts: Option<KernelCounts>,
}

impl Maps {
    /// Makes maps for programs that leave punted packets to the kernel, and of the rest those that they do not take.
    pub(super) fn new(punted: Punted<Arc<OwnAddresses>>, takes: bool) -> Result<Maps, BpfError> {
        let leaves = punted.punt() != Punt::Nothing || takes;
        let counts = leaves.then(|| KernelCounts::new(QUEUES_MAX)).transpose()?;
        Ok(Maps { sockets: SocketMap::new(QUEUES_MAX)?, punted, counts })
    }

    /// Wraps the maps of a program that takes some packets, which another process made.
    pub(super) fn given(sockets: SocketMap, counts: KernelCounts) -> Maps {
        Maps { sockets, punted: Punted::Nothing, counts: Some(counts) }
    }

    /// The packets that are punted.
    pub(super) fn punt(&self) -> Punt {
        self.punted.punt()
    }

    /// Loads a program over the maps. `several`: the driver may give it packets that lie in several buffers.
    pub(super) fn load(&self, take: Taken<'_>, several: bool) -> Result<RedirectProgram, BpfError> {
        let punted = self.punted.as_ref().map(|own| own.maps());
        let selection = self.counts.as_ref().map(|counts| Selection { punted, take, counts });
        RedirectProgram::load(&self.sockets, selection.as_ref(), several)
    }

    /// Number of frames of `queue` that were left to the kernel. None if it cannot be read now.
    pub(super) fn left(&self, queue: u32) -> Option<u64> {
        self.counts.as_ref().map_or(Some(0), |counts| counts.get(queue).ok())
    }
}

/// Returns whether a program with these rules would take no packet at all.
pub(super) fn takes_none(take: Taken<'_>) -> bool {
    take.is_some_and(|(take, _)| take.rules().is_empty())
}
