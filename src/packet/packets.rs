//! Packets in order, the unit in which bulk calls move them.

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
/// Its room is allocated once: make it before the loop. Dropped with packets inside, it sends them home by the slow way;
/// [`HeadCache::free_bulk`](super::HeadCache::free_bulk) is the fast one.
#[derive(Debug)]
pub struct Packets {
    /// Invariant: at most [`BATCH_MAX`], for which there is room.
    packets: Vec<Packet>,
}

impl Packets {
    /// An empty one.
    ///
    /// # Cost
    /// An allocation of 1 KiB.
    pub fn new() -> Packets {
        Packets { packets: Vec::with_capacity(BATCH_MAX) }
    }

    /// Packets there is room for.
    #[inline(always)]
    pub fn room(&self) -> usize {
        BATCH_MAX - self.packets.len()
    }

    /// Appends a packet, and asks for the first line of its data, which may have been written on another core.
    ///
    /// # Errors
    /// The packet, when there is no room.
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.room() == 0 {
            return Err(packet);
        }
        packet.prefetch();
        self.packets.push(packet);
        Ok(())
    }

    /// Appends packets until there is no room or `packets` ends; returns how many. Unlike [`Packets::push`] it does not ask for their data.
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

    /// Sends packets from the front by a ring, as many as that has room for; returns how many.
    #[inline]
    pub fn send(&mut self, to: &mut Sender<Packet>) -> usize {
        to.send_all(&mut self.packets)
    }

    /// Appends up to `n` packets that came by a ring, as far as there is room, and asks for the first line of each one's data,
    /// which may have been written on another core; returns how many.
    #[inline]
    pub fn receive(&mut self, from: &mut Receiver<Packet>, n: usize) -> usize {
        let before = self.packets.len();
        let n = from.recv_all(n.min(self.room()), &mut self.packets);
        self.packets[before..].iter().for_each(Packet::prefetch);
        n
    }

    /// As [`Packets::send`] of packets that are in no hands on the way, as the ledgers have it ([`QueuedPacket`]): in what `with` makes of each.
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
    /// An entry of the table of pools for each packet, and two additions for those of one pool.
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

    /// As [`Packets::receive`] of packets that went by [`Packets::send_queued`]; `packet` has each out of what it came in.
    ///
    /// # Cost
    /// As there.
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

    /// Ends the data of each packet `n` bytes later, oldest first, and calls `f` to write them, until a packet has no room for
    /// them; returns how many were written.
    ///
    /// As with [`Packet::put`] the bytes hold what an earlier use left there: `f` writes all of them.
    ///
    /// # Cost
    /// As [`Packet::put`] for each. Packets without data, of one frame each, go by eights: the frames' words are read before any
    /// byte is written (ADR 0034).
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

    /// All of them, for who takes some out.
    #[inline(always)]
    pub(super) fn all_mut(&mut self) -> &mut Vec<Packet> {
        &mut self.packets
    }

    /// Moves packets from the front of `other` until there is no room or `other` is empty; returns how many.
    #[inline]
    pub fn append(&mut self, other: &mut Packets) -> usize {
        let n = other.packets.len().min(self.room());
        self.packets.extend(other.packets.drain(..n));
        n
    }

    /// Takes the oldest packet; the others move up.
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
