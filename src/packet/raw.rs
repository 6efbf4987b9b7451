//! Packets as words, for code that cannot keep a `Packet`: a program in another language.
//!
//! # Unsafe code
//! Words become a packet again. The caller promises that the words are valid and that each pair is used once. Both
//! halves are claims that were given up as words, the frame's by [`Frame::into_raw`].

use super::packet::Packet;
use super::packets::Packets;
use crate::pool::Frame;
use crate::slab::Object;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;

impl Packet {
    /// Turns the packet into two words, to be kept by code that cannot keep a `Packet`: a program in another language.
    /// [`Packet::from_raw`] makes it a packet again. Without that call, neither head nor bytes are ever freed.
    ///
    /// The first word is the head's. The second is that of the frame that has all the bytes, as [`Frame::into_raw`]
    /// returns it. It is None if the bytes are elsewhere or in several parts.
    #[inline(always)]
    pub fn into_raw(self) -> (NonZeroU64, Option<NonZeroU64>) {
        let (frame, head) = self.into_halves();
        (head.into_word(), frame.map(Frame::into_raw))
    }

    /// Makes a packet of two words that [`Packet::into_raw`] returned.
    ///
    /// ```
    /// # use netmem::{HeadCache, Memory, MemoryConfig, Packet, Pool, PoolConfig};
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
    /// # let heads = HeadCache::new(&memory)?;
    /// let mut packet = heads.alloc(&mut w, &pool).ok_or("no packet")?;
    /// packet.put_slice(b"kept")?;
    /// let (head, frame) = packet.into_raw();
    /// // SAFETY: they were given a line above, and are taken once.
    /// let packet = unsafe { Packet::from_raw(head, frame) };
    /// assert_eq!(packet.data(), b"kept");
    /// heads.free(&mut w, packet);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    /// One call of `into_raw` returned both words, and they are made a packet only once: they are claims.
    #[inline(always)]
    pub unsafe fn from_raw(head: NonZeroU64, frame: Option<NonZeroU64>) -> Packet {
        // SAFETY: the caller's promise, for each half.
        unsafe { Packet::new(Object::from_word(head), frame.map(|frame| Frame::from_raw(frame))) }
    }
}

impl Packets {
    /// Appends the packets that `write` writes to the first of the free places. `write` is given [`Packets::room`] places and
    /// returns the number of packets, as this call does. If `write` panics, the packets that it has written are leaked.
    ///
    /// Use it for packets that are made of words in a loop: it checks no room for each packet, as [`Packets::extend`] does.
    ///
    /// ```
    /// # use netmem::{HeadCache, Memory, MemoryConfig, Packet, Packets, Pool, PoolConfig};
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
    /// # let heads = HeadCache::new(&memory)?;
    /// let mut packets = Packets::new();
    /// let (head, frame) = heads.alloc(&mut w, &pool).ok_or("no packet")?.into_raw();
    /// // SAFETY: one packet is written, to the first place. Its words are taken once.
    /// let n = unsafe {
    ///     packets.append_with(|places| {
    ///         places[0].write(Packet::from_raw(head, frame));
    ///         1
    ///     })
    /// };
    /// assert_eq!((n, packets.len()), (1, 1));
    /// heads.free_bulk(&mut w, &mut packets);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    /// `write` returns the number of places, from the first on, to which it wrote packets.
    #[inline(always)]
    pub unsafe fn append_with(&mut self, write: impl FnOnce(&mut [MaybeUninit<Packet>]) -> usize) -> usize {
        let (before, room) = (self.len(), self.room());
        let packets = self.all_mut();
        let n = write(&mut packets.spare_capacity_mut()[..room]);
        // SAFETY: the caller's promise; the first `n` places behind the packets are packets.
        unsafe { packets.set_len(before + n) };
        n
    }
}
