//! Packets on their way to another worker, as the ledgers of their frames have them.

use super::packet::Packet;
use crate::pool::{Frame, Place};
use crate::sync::Worker;
use std::slice;

/// A packet in a queue to another worker: meanwhile nobody reads or changes it, and the frames that it has for itself alone count as `queued` in the ledgers
/// of their pools.
///
/// It fits into any queue between threads. Dropped there, it goes home by the slow way.
///
/// # Example
/// ```
/// # use netmem::{HeadCache, Memory, MemoryConfig, Pool, PoolConfig};
/// use netmem::packet::QueuedPacket;
/// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
/// # let (mut w, mut other) = (memory.worker()?, memory.worker()?);
/// # let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
/// # let heads = HeadCache::new(&memory)?;
/// let (mut sender, mut receiver) = netmem::ring::ring(64);
/// let packet = heads.alloc(&mut w, &pool).ok_or("no packet")?;
/// sender.send(QueuedPacket::new(packet, &w)).map_err(|_| "no room")?;
/// assert_eq!(pool.ledger().queued, 1);
///
/// let packet = receiver.recv().and_then(|mut queued| queued.take(&other)).ok_or("nothing came")?;
/// assert_eq!((pool.ledger().queued, pool.ledger().owned), (0, 1));
/// heads.free(&mut other, packet);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropped, it is freed by the slow way"]
pub struct QueuedPacket {
    /// None once it was taken.
    packet: Option<Packet>,
}

const _: () = assert!(size_of::<QueuedPacket>() == 16);

impl QueuedPacket {
    /// Makes a packet one that is queued: just before it goes into the queue.
    ///
    /// # Cost
    /// An entry of the table of pools and two additions for each frame.
    #[inline]
    pub fn new(packet: Packet, w: &Worker) -> QueuedPacket {
        each_frame(&packet, |frame| Place::Queued.enter(Some(w), slice::from_ref(frame)));
        QueuedPacket { packet: Some(packet) }
    }

    /// The packet, just after it came out of the queue; None where it was taken before.
    ///
    /// # Cost
    /// As of [`QueuedPacket::new`].
    #[inline]
    pub fn take(&mut self, w: &Worker) -> Option<Packet> {
        let packet = self.packet.take()?;
        each_frame(&packet, |frame| Place::Queued.fetch(Some(w), slice::from_ref(frame)));
        Some(packet)
    }
}

impl Drop for QueuedPacket {
    #[inline]
    fn drop(&mut self) {
        if let Some(packet) = self.packet.take() {
            drop_queued(packet);
        }
    }
}

#[cold]
#[inline(never)]
fn drop_queued(packet: Packet) {
    each_frame(&packet, |frame| Place::Queued.fetch(None, slice::from_ref(frame)));
    drop(packet);
}

/// Calls `f` with each frame that the packet has for itself alone.
#[inline(always)]
fn each_frame(packet: &Packet, f: impl FnMut(&Frame)) {
    match packet.frame() {
        Some(frame) => slice::from_ref(frame).iter().for_each(f),
        None => each_frame_of_parts(packet, f),
    }
}

#[cold]
#[inline(never)]
fn each_frame_of_parts(packet: &Packet, f: impl FnMut(&Frame)) {
    packet.parts().filter_map(Packet::own_frame).for_each(f);
}
