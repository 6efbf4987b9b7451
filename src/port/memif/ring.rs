//! A ring in memory that both peers map: its layout, and its two ends.
//!
//! ```text
//!   0         4        6        64           128
//!   ├ cookie ─┼ flags ─┼ head … ┼ tail …     ┼ descriptors of 16 bytes: flags, region, length, offset, metadata ─
//!             tail                          head                 (u16, free-running, wrap at 2^16)
//!   ────────────┼═════ slots of the server ══┼──── slots of the client ────
//! ```
//! In both directions the client moves `head` and the server moves `tail`. Towards the server, the client lends full
//! slots and gets them back read. Towards the client, it lends empty slots and gets them back written. So each peer has
//! one kind of end: the client [`Lending`], the server [`Serving`].
//!
//! Both are the cursors of stage `ring`. An invalid index is [`Corrupt`], and no slot is read.

use crate::ring::Corrupt;
use crate::ring::cursor::{Consumer, Index, Producer};
use crate::sys::memfd::{SharedMemory, SharedSlots, SharedWord, Slot};
use std::cell::Cell;
use std::sync::Arc;

/// The first bytes of every ring.
const COOKIE: u32 = 0x03E3_1F20;
/// Bytes before the first descriptor.
const HEADER: usize = 128;
const FLAGS_AT: u64 = 4;
const HEAD_AT: u64 = 6;
const TAIL_AT: u64 = 64;
/// The reader polls and need not be woken.
const MASK_INT: u16 = 1;
/// log2 of the slots of the largest ring, as in DPDK and VPP.
pub(super) const LOG2_SIZE_MAX: u8 = 14;
/// The packet continues in the next slot.
const NEXT: u16 = 1;

/// Bytes of a ring of 2^`log2_size` slots.
pub(super) fn ring_bytes(log2_size: u8) -> usize {
    HEADER + (size_of::<Slot>() << log2_size)
}

/// The contents of a slot, which describe a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// Whether the packet continues in the next slot.
    pub(super) next: bool,
    /// The region that the buffer lies in.
    pub(super) region: u16,
    /// Bytes of data, or of an empty buffer.
    pub(super) len: u32,
    /// The offset of the buffer in its region.
    pub(super) offset: u32,
}

impl Descriptor {
    #[inline]
    fn of(slot: Slot) -> Descriptor {
        let [a, b, c, d, e, f, g, h] = slot[0].to_ne_bytes();
        let [i, j, k, l, ..] = slot[1].to_ne_bytes();
        Descriptor {
            next: u16::from_ne_bytes([a, b]) & NEXT != 0,
            region: u16::from_ne_bytes([c, d]),
            len: u32::from_ne_bytes([e, f, g, h]),
            offset: u32::from_ne_bytes([i, j, k, l]),
        }
    }

    #[inline]
    fn slot(self) -> Slot {
        let [a, b] = if self.next { NEXT } else { 0 }.to_ne_bytes();
        let [c, d] = self.region.to_ne_bytes();
        let [e, f, g, h] = self.len.to_ne_bytes();
        let [i, j, k, l] = self.offset.to_ne_bytes();
        [u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u64::from_ne_bytes([i, j, k, l, 0, 0, 0, 0])]
    }
}

/// A 16-bit index as the cursors need it: 32 bits, free-running.
///
/// The value that is read is taken as an advance from the value that was read last. A step back, or a step too far
/// ahead, is a large advance, which the cursor refuses.
#[derive(Debug)]
struct WideIndex {
    word: SharedWord,
    last: Cell<u32>,
}

impl Index for WideIndex {
    #[inline]
    fn load_relaxed(&self) -> u32 {
        self.last.get()
    }

    #[inline]
    fn load_acquire(&self) -> u32 {
        let last = self.last.get();
        // Acquire: see SharedWord.
        let ahead = self.word.load_acquire().wrapping_sub(last as u16);
        let now = last.wrapping_add(u32::from(ahead));
        self.last.set(now);
        now
    }

    #[inline]
    fn store_release(&self, value: u32) {
        self.last.set(value);
        // Release: see SharedWord.
        self.word.store_release(value as u16);
    }
}

/// The words of a ring and its slots.
#[derive(Debug)]
struct Layout {
    slots: SharedSlots,
    flags: SharedWord,
    head: WideIndex,
    tail: WideIndex,
}

impl Layout {
    /// Returns None if the ring does not lie inside `memory`, or not at a multiple of 16.
    fn at(memory: &Arc<SharedMemory>, offset: u64, log2_size: u8) -> Option<Layout> {
        if log2_size > LOG2_SIZE_MAX
            || !memory.holds(offset, ring_bytes(log2_size))
            || !offset.is_multiple_of(16)
        {
            return None;
        }
        let index = |at| Some(WideIndex { word: memory.word(offset + at)?, last: Cell::new(0) });
        Some(Layout {
            slots: memory.slots(offset + HEADER as u64, 1 << log2_size)?,
            flags: memory.word(offset + FLAGS_AT)?,
            head: index(HEAD_AT)?,
            tail: index(TAIL_AT)?,
        })
    }
}

/// The flag of a ring by which its reader says whether it wants to be woken.
#[derive(Debug)]
pub(super) struct WakeFlag(SharedWord);

impl WakeFlag {
    /// Whether the reader of this ring sleeps. For the sender.
    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        self.0.load() & MASK_INT == 0
    }

    /// Says whether we sleep. For the reader.
    pub(super) fn want(&self, wanted: bool) {
        self.0.store(if wanted { 0 } else { MASK_INT });
    }
}

/// The client's end.
#[derive(Debug)]
pub(super) struct Lending {
    producer: Producer<WideIndex>,
    slots: SharedSlots,
    /// Slots that are lent and not taken back; at most the ring's size.
    out: u32,
    pub(super) wake: WakeFlag,
}

impl Lending {
    /// Makes a new ring at `offset` of memory of our own, whose bytes are zero. Returns None if it does not lie inside.
    pub(super) fn new(memory: &Arc<SharedMemory>, offset: u64, log2_size: u8) -> Option<Lending> {
        let Layout { slots, flags, head, tail } = Layout::at(memory, offset, log2_size)?;
        memory.write(offset, &COOKIE.to_ne_bytes());
        let mut producer = Producer::new(head, tail, slots.size());
        // A cursor begins as if the ring were full, until it has read the other index.
        producer.room(slots.size()).ok()?;
        Some(Lending { producer, slots, out: 0, wake: WakeFlag(flags) })
    }

    /// Number of slots.
    #[inline]
    pub(super) fn size(&self) -> u32 {
        self.slots.size()
    }

    /// Whether its memory is lost.
    #[cold]
    pub(super) fn is_lost(&self) -> bool {
        self.slots.is_lost()
    }

    /// Loses its memory, as an access to a page that is gone does.
    #[cfg(test)]
    pub(super) fn lose(&self) {
        self.slots.lose();
    }

    /// Number of slots that are not lent.
    #[inline]
    pub(super) fn room(&self) -> u32 {
        self.size() - self.out
    }

    /// Number of slots that came back and are not taken back yet.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the server's index is invalid.
    #[inline]
    pub(super) fn returned(&mut self) -> Result<u32, Corrupt> {
        // A request for all slots makes the cursor read the server's index.
        self.producer.room(self.size())?;
        // The slots that came back are at most `out`: the cursor saw no more than was published and not taken back.
        Ok(self.out.saturating_sub(self.producer.len()))
    }

    /// The position of the `i`-th slot that came back.
    #[inline]
    pub(super) fn returned_at(&self, i: u32) -> u32 {
        self.producer.slot(i.wrapping_sub(self.out)) as u32
    }

    /// Takes back the first `n` of those that came back.
    #[inline]
    pub(super) fn take_back(&mut self, n: u32) {
        self.out -= n.min(self.out);
    }

    /// The position of the `i`-th slot to lend.
    #[inline]
    pub(super) fn next_at(&self, i: u32) -> u32 {
        self.producer.slot(i) as u32
    }

    /// Lends the next `n` slots. There must be [`Lending::room`] for them.
    #[inline]
    pub(super) fn lend(&mut self, n: u32) {
        self.producer.publish(n);
        self.out += n;
    }

    /// Returns the descriptor in the slot at `position`.
    #[inline]
    pub(super) fn read(&self, position: u32) -> Descriptor {
        Descriptor::of(self.slots.read(position))
    }

    /// Writes the descriptor of the slot at `position`.
    #[inline]
    pub(super) fn write(&mut self, position: u32, descriptor: Descriptor) {
        self.slots.write(position, descriptor.slot());
    }

    /// Prefetches the slot at `position`.
    #[inline]
    pub(super) fn prefetch(&self, position: u32) {
        self.slots.prefetch(position);
    }
}

/// The server's end.
#[derive(Debug)]
pub(super) struct Serving {
    consumer: Consumer<WideIndex>,
    slots: SharedSlots,
    /// The most slots that were seen to be ours at once: the number that the client lends.
    most: u32,
    pub(super) wake: WakeFlag,
}

impl Serving {
    /// Takes the ring that a client has at `offset` of its memory. Returns None if no whole ring with its cookie lies
    /// there.
    pub(super) fn new(memory: &Arc<SharedMemory>, offset: u64, log2_size: u8) -> Option<Serving> {
        let Layout { slots, flags, head, tail } = Layout::at(memory, offset, log2_size)?;
        let mut cookie = [0; 4];
        if !memory.read(offset, &mut cookie) || cookie != COOKIE.to_ne_bytes() {
            return None;
        }
        // We begin at 0, whatever the client wrote there.
        tail.store_release(0);
        let consumer = Consumer::new(tail, head, slots.size());
        Some(Serving { consumer, slots, most: 0, wake: WakeFlag(flags) })
    }

    /// Number of slots.
    #[inline]
    pub(super) fn size(&self) -> u32 {
        self.slots.size()
    }

    /// Number of slots that are ours now.
    ///
    /// # Errors
    /// Returns [`Corrupt`] if the client's index is invalid.
    #[inline]
    pub(super) fn ready(&mut self) -> Result<u32, Corrupt> {
        self.consumer.ready(self.size())
    }

    /// Does the same for a ring towards the client.
    #[inline]
    pub(super) fn lent(&mut self) -> Result<u32, Corrupt> {
        let lent = self.ready()?;
        self.most = self.most.max(lent);
        Ok(lent)
    }

    /// Number of slots that were given back and that the client has not lent again: it has not read them yet.
    pub(super) fn unread(&mut self) -> Result<u32, Corrupt> {
        let lent = self.lent()?;
        Ok(self.most - lent)
    }

    /// The position of the `i`-th slot that is ours.
    #[inline]
    pub(super) fn ready_at(&self, i: u32) -> u32 {
        self.consumer.slot(i) as u32
    }

    /// Gives the first `n` slots that are ours back.
    #[inline]
    pub(super) fn give_back(&mut self, n: u32) {
        self.consumer.release(n);
    }

    /// Returns the descriptor in the slot at `position`: a snapshot, which the client may change at once.
    #[inline]
    pub(super) fn read(&self, position: u32) -> Descriptor {
        Descriptor::of(self.slots.read(position))
    }

    /// Writes the descriptor of the slot at `position`.
    #[inline]
    pub(super) fn write(&mut self, position: u32, descriptor: Descriptor) {
        self.slots.write(position, descriptor.slot());
    }

    /// Prefetches the slot at `position`.
    #[inline]
    pub(super) fn prefetch(&self, position: u32) {
        self.slots.prefetch(position);
    }
}

#[cfg(test)]
mod tests;
