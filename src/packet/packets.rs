//! Packets in order: the unit in which bulk calls move packets.

use super::packet::Packet;
use super::queued::{Entering, Leaving, QueuedPacket};
use crate::limits::BATCH_MAX;
use crate::pool::{Frame, RUN};
use crate::ring::{Receiver, Sender};
use crate::sync::Worker;
use std::ops::{Deref, DerefMut};
use std::vec;

/// Up to [`BATCH_MAX`] packets, oldest first; derefs to a slice of them.
///
/// The memory is allocated once: make it before the loop. If it is dropped with packets inside, they are freed by the
/// slow path. [`HeadCache::free_bulk`](super::HeadCache::free_bulk) is the fast path.
#[derive(Debug)]
pub struct Packets {
    /// Invariant: at most [`BATCH_MAX`] packets, for which there is capacity.
    packets: Vec<Packet>,
}

impl Packets {
    /// Makes an empty array of packets.
    ///
    /// # Cost
    /// One allocation of 1 KiB.
    pub fn new() -> Packets {
        Packets { packets: Vec::with_capacity(BATCH_MAX) }
    }

    /// Number of packets for which there is room.
    #[inline(always)]
    pub fn room(&self) -> usize {
        BATCH_MAX - self.packets.len()
    }

    /// Appends a packet, and prefetches the first line of its data, which another core may have written.
    ///
    /// # Errors
    /// Returns the packet if there is no room.
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.room() == 0 {
            return Err(packet);
        }
        packet.prefetch();
        self.packets.push(packet);
        Ok(())
    }

    /// Appends packets until there is no room or `packets` ends. Returns their number. Unlike [`Packets::push`], it
    /// does not prefetch their data.
    ///
    /// ```
    /// # use netmem::{HeadCache, Memory, MemoryConfig, Packets, Pool, PoolConfig};
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
    /// # let heads = HeadCache::new(&memory)?;
    /// let mut packets = Packets::new();
    /// let some = std::iter::from_fn(|| heads.alloc(&mut w, &pool));
    /// assert_eq!(packets.extend(some.take(5)), 5);
    /// heads.free_bulk(&mut w, &mut packets);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn extend(&mut self, packets: impl Iterator<Item = Packet>) -> usize {
        let before = self.packets.len();
        for packet in packets.take(self.room()) {
            self.packets.push(packet);
        }
        self.packets.len() - before
    }

    /// Sends packets from the front through a ring, as many as the ring has room for. Returns their number.
    #[inline]
    pub fn send(&mut self, to: &mut Sender<Packet>) -> usize {
        to.send_all(&mut self.packets)
    }

    /// Appends up to `n` packets received through a ring, as far as there is room. Prefetches the first line of each
    /// packet's data, which another core may have written. Returns their number.
    #[inline]
    pub fn receive(&mut self, from: &mut Receiver<Packet>, n: usize) -> usize {
        let before = self.packets.len();
        let n = from.recv_all(n.min(self.room()), &mut self.packets);
        self.packets[before..].iter().for_each(Packet::prefetch);
        n
    }

    /// As [`Packets::send`], but the ledgers count the packets as queued until they are received ([`QueuedPacket`]).
    /// `with` turns each into an entry of the ring.
    ///
    /// # Example
    /// ```
    /// # use netmem::{HeadCache, Memory, MemoryConfig, Packets, Pool, PoolConfig};
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// # let (mut w, mut other) = (memory.worker()?, memory.worker()?);
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
    /// # let heads = HeadCache::new(&memory)?;
    /// let (mut sender, mut receiver) = netmem::ring::ring(64);
    /// let (mut here, mut there) = (Packets::new(), Packets::new());
    /// here.push(heads.alloc(&mut w, &pool).ok_or("no packet")?).map_err(|_| "no room")?;
    /// here.send_queued(&w, &mut sender, |packet| packet);
    /// assert_eq!((pool.ledger().queued, pool.ledger().owned), (1, 0));
    ///
    /// there.receive_queued(&other, &mut receiver, 32, |packet| packet);
    /// assert_eq!((pool.ledger().queued, pool.ledger().owned), (0, 1));
    /// heads.free_bulk(&mut other, &mut there);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cost
    /// One entry of the table of pools for each packet, and two additions for each run of packets of one pool.
    #[inline]
    pub fn send_queued<T>(
        &mut self,
        w: &Worker,
        to: &mut Sender<T>,
        with: impl FnMut(QueuedPacket) -> T,
    ) -> usize {
        let n = to.room(self.packets.len());
        to.send_burst(n, &mut Entering::first(n, &mut self.packets, w).map(with))
    }

    /// As [`Packets::receive`], for packets sent with [`Packets::send_queued`]. `packet` takes each packet out of its
    /// entry.
    ///
    /// # Cost
    /// The same as for [`Packets::send_queued`].
    #[inline]
    pub fn receive_queued<T>(
        &mut self,
        w: &Worker,
        from: &mut Receiver<T>,
        n: usize,
        mut packet: impl FnMut(T) -> QueuedPacket,
    ) -> usize {
        let n = n.min(self.room());
        let leaving = Leaving::behind(&mut self.packets, w);
        from.recv_burst(n, |item| {
            if let Some(packet) = packet(item).take() {
                packet.prefetch();
                leaving.packets.push(packet);
            }
        })
    }

    /// Extends the data of each packet by `n` bytes, oldest first, and calls `f` to write them. It stops at the first
    /// packet that has no room. Returns the number of packets written.
    ///
    /// As with [`Packet::put`], the bytes hold old content of an earlier use: `f` writes all of them. If `f`
    /// panics, that packet has them as data, and so may some packets behind it: free them, or [`Packet::trim`] each to its
    /// former length.
    ///
    /// # Cost
    /// The cost of [`Packet::put`] for each. Packets without data, each in one frame, are handled in groups of eight:
    /// the frames' words are read before any byte is written (ADR 0034).
    #[inline(always)]
    pub fn put_each(&mut self, n: usize, mut f: impl FnMut(usize, &mut [u8])) -> usize {
        let mut done = 0;
        for run in self.packets.as_chunks_mut::<RUN>().0 {
            let frames = run.each_mut().map(Packet::frame_mut);
            let [Some(a), Some(b), Some(c), Some(d), Some(e), Some(g), Some(h), Some(i)] = frames else {
                break;
            };
            let Some(tails) = Frame::put_run([a, b, c, d, e, g, h, i], n) else { break };
            for tail in tails {
                f(done, tail);
                done += 1;
            }
        }
        for packet in &mut self.packets[done..] {
            let Ok(tail) = packet.put(n) else { break };
            f(done, tail);
            done += 1;
        }
        done
    }

    /// Takes the newest packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        self.packets.pop()
    }

    /// Takes all packets, oldest first.
    #[inline]
    pub fn drain(&mut self) -> vec::Drain<'_, Packet> {
        self.packets.drain(..)
    }

    /// All packets, for a caller that takes some out.
    #[inline(always)]
    pub(super) fn all_mut(&mut self) -> &mut Vec<Packet> {
        &mut self.packets
    }

    /// Moves packets from the front of `other` until there is no room or `other` is empty. Returns their number.
    #[inline]
    pub fn append(&mut self, other: &mut Packets) -> usize {
        let n = other.packets.len().min(self.room());
        self.packets.extend(other.packets.drain(..n));
        n
    }

    /// Takes the oldest packet; the others move to the front.
    pub(super) fn pop_first(&mut self) -> Option<Packet> {
        (!self.packets.is_empty()).then(|| self.packets.remove(0))
    }
}

impl Default for Packets {
    fn default() -> Self {
        Packets::new()
    }
}

impl Deref for Packets {
    type Target = [Packet];
    #[inline(always)]
    fn deref(&self) -> &[Packet] {
        &self.packets
    }
}

impl DerefMut for Packets {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Packet] {
        &mut self.packets
    }
}
