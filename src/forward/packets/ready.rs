//! The place of ready packets: with each worker, or, for comparison, on one list for all.

#[cfg(feature = "comparisons")]
use crate::packet::ReadyList;
use crate::packet::{Packet, Packets, ReadyPackets};
use crate::sync::Worker;

/// The pairs of a packet path.
#[derive(Debug, Clone)]
pub(super) enum Ready {
    /// Each worker's own.
    Workers(ReadyPackets),
    /// One list under a lock.
    #[cfg(feature = "comparisons")]
    List(ReadyList),
}

impl Ready {
    /// Appends up to `n` empty packets. Returns their number.
    #[inline]
    pub(super) fn get_burst(&self, w: &mut Worker, packets: &mut Packets, n: usize) -> usize {
        match self {
            Ready::Workers(pairs) => pairs.get_burst(w, packets, n),
            #[cfg(feature = "comparisons")]
            Ready::List(list) => list.get_burst(w, packets, n),
        }
    }

    /// Gives packets back in bulk.
    #[inline]
    pub(super) fn free_bulk(&self, w: &mut Worker, packets: &mut Packets) {
        match self {
            Ready::Workers(pairs) => pairs.free_bulk(w, packets),
            #[cfg(feature = "comparisons")]
            Ready::List(list) => list.free_bulk(w, packets),
        }
    }

    /// Gives one packet back.
    #[inline]
    pub(super) fn free(&self, w: &mut Worker, packet: Packet) {
        match self {
            Ready::Workers(pairs) => pairs.free(w, packet),
            #[cfg(feature = "comparisons")]
            Ready::List(list) => list.free(w, packet),
        }
    }
}
