//! The packet: a head and its bytes, and the operations on them that need no worker.

use super::data::{Data, within};
use super::head::{Head, Origin, Record};
use crate::limits::CACHE_LINE;
use crate::pool::{Frame, NoRoom};
use crate::slab::Object;
use crate::sys::lifo::Owned;
use std::iter::successors;
use std::time::Duration;

/// A packet with one owner: sixteen bytes, move-only.
///
/// Most packets have one part, whose bytes are in one frame. Then [`Packet::data`] returns all bytes, the packet
/// carries the frame, and operations that move its data touch nothing else. Other packets are a chain of parts
/// ([`Packet::append`]), or share their bytes with other packets ([`HeadCache::share`](super::HeadCache::share)) and
/// cannot be written while they do. The head of such a packet names the location of the bytes. Lengths are always those
/// of the whole packet.
///
/// When a packet is dropped, head and bytes are freed by the slow path. [`HeadCache::free`](super::HeadCache::free) is
/// the fast path.
#[derive(Debug)]
#[must_use = "dropping it frees it on the slow path: give it back with a worker"]
pub struct Packet {
    /// The bytes, while they are all in one frame that belongs to this packet alone. Invariant: then the head holds
    /// [`Data::NOTHING`] and has no next part. Otherwise the head holds their location, except on the way to or from
    /// free heads.
    frame: Option<Frame>,
    head: Object<Head>,
}

const _: () = assert!(size_of::<Option<Packet>>() == 16);

#[cfg(test)]
thread_local! {
    /// Calls of [`Packet::put_down`] on this thread: the parts that operations visited.
    pub(super) static PUT_DOWN: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Owned for Packet {}

impl Packet {
    /// Makes a packet of a blank head and a frame, if there is one.
    #[inline(always)]
    pub(super) fn new(head: Object<Head>, frame: impl Into<Option<Frame>>) -> Packet {
        Packet { frame: frame.into(), head }
    }

    /// Makes a packet of a blank head and bytes that are elsewhere.
    pub(super) fn with(mut head: Object<Head>, data: Data) -> Packet {
        head.data = data;
        let mut packet = Packet { frame: None, head };
        packet.pick_up();
        packet
    }

    /// Returns the blank head of a packet whose bytes were taken.
    #[inline(always)]
    pub(super) fn into_head(self) -> Object<Head> {
        let Packet { frame, mut head } = self;
        debug_assert!(frame.is_none() && head.next.is_none());
        // By value, although there is none: a drop in place would put both on the stack.
        if let Some(frame) = frame {
            drop_unexpected(frame);
        }
        head.forget_record();
        head
    }

    /// Returns the packet's two halves as they are. The head keeps the location of bytes and further parts.
    #[inline(always)]
    pub(super) fn into_halves(self) -> (Option<Frame>, Object<Head>) {
        (self.frame, self.head)
    }

    #[inline(always)]
    pub(super) fn origin(&self) -> Origin {
        self.head.origin
    }

    /// The record of the packet.
    #[inline(always)]
    pub(super) fn record(&self) -> Record {
        self.head.record
    }

    #[inline(always)]
    pub(super) fn record_mut(&mut self) -> &mut Record {
        &mut self.head.record
    }

    /// The frame that has all the bytes, if it belongs to this packet alone.
    #[inline(always)]
    pub(super) fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// The frame that belongs to this part alone, whether carried or not.
    #[inline(always)]
    pub(super) fn own_frame(&self) -> Option<&Frame> {
        self.frame.as_ref().or_else(|| self.head.data.own_frame())
    }

    /// The frame that has all the bytes, for other stages.
    #[inline]
    pub(crate) fn whole_frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    #[inline(always)]
    pub(super) fn frame_mut(&mut self) -> Option<&mut Frame> {
        self.frame.as_mut()
    }

    /// Takes the bytes out, if they are one frame that belongs to this packet alone.
    #[inline(always)]
    pub(super) fn take_frame(&mut self) -> Option<Frame> {
        self.frame.take()
    }

    /// Takes the bytes of a part that does not carry them.
    pub(super) fn take_data(&mut self) -> Data {
        self.frame.take().map_or_else(|| self.head.data.take(), Data::of)
    }

    /// Takes the parts behind the first.
    pub(super) fn take_next(&mut self) -> Option<Packet> {
        self.head.next.take()
    }

    /// Clears the record.
    #[inline(always)]
    pub(super) fn forget_record(&mut self) {
        self.head.forget_record();
    }

    /// Returns the head, which from now on holds the location of the bytes, until [`Packet::pick_up`].
    pub(super) fn put_down(&mut self) -> &mut Head {
        #[cfg(test)]
        PUT_DOWN.set(PUT_DOWN.get() + 1);
        if let Some(frame) = self.frame.take() {
            self.head.data = Data::of(frame);
        }
        &mut self.head
    }

    /// Carries the bytes again, if they are all in one frame that belongs to this packet alone.
    pub(super) fn pick_up(&mut self) {
        let Head { data, next, .. } = &mut *self.head;
        if let (Data::Frame(frame @ Some(_)), None) = (data, next) {
            self.frame = frame.take();
        }
    }

    /// The location of the bytes of a part that does not carry them.
    pub(super) fn put_down_data(&self) -> &Data {
        &self.head.data
    }

    /// The packet's parts, first to last.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Packet> + Clone {
        successors(Some(self), |part| part.head.next.as_ref())
    }

    /// Calls `change` on the data of each part, first to last, until it returns false. Returns false if it did.
    pub(super) fn each_data_mut(&mut self, change: impl FnMut(&mut Data) -> bool) -> bool {
        let done = DataMut { head: Some(self.put_down()) }.all(change);
        self.pick_up();
        done
    }

    /// The bytes of the first part. If the packet is linear, these are all its bytes.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        match &self.frame {
            Some(frame) => frame.data(),
            None => self.head.data.bytes(),
        }
    }

    /// The bytes of the first part for writing; None while others may read them.
    #[inline(always)]
    pub fn data_mut(&mut self) -> Option<&mut [u8]> {
        if self.frame.is_none() {
            self.reclaim_first();
        }
        match &mut self.frame {
            Some(frame) => Some(frame.data_mut()),
            None => self.head.data.bytes_mut(),
        }
    }

    /// Takes the first part's bytes back, if the others that shared them are gone.
    #[cold]
    #[inline(never)]
    pub(super) fn reclaim_first(&mut self) {
        self.head.data.reclaim();
        self.pick_up();
    }

    /// The bytes of each part in turn; some may be empty.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.parts().map(Packet::data)
    }

    /// Returns whether all bytes are in one part, and so in [`Packet::data`].
    #[inline]
    pub fn is_linear(&self) -> bool {
        self.frame.is_some() || self.head.next.is_none()
    }

    /// The number of bytes of the packet.
    #[inline(always)]
    pub fn len(&self) -> usize {
        match &self.frame {
            Some(frame) => frame.len(),
            None => self.len_of_parts(),
        }
    }

    #[cold]
    #[inline(never)]
    fn len_of_parts(&self) -> usize {
        self.segments().map(<[u8]>::len).sum()
    }

    /// Returns whether the packet has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`Frame::timestamp`]: the time when the packet was recorded. It is stored with the first part.
    #[inline]
    pub fn timestamp(&self) -> Option<Duration> {
        match &self.frame {
            Some(frame) => frame.timestamp(),
            None => self.head.data.timestamp(),
        }
    }

    /// Bytes before the data that [`Packet::push`] can use; 0 while others may read the first part.
    #[inline]
    pub fn headroom(&self) -> usize {
        match &self.frame {
            Some(frame) => frame.headroom(),
            None => self.head.data.headroom(),
        }
    }

    /// Bytes after the data that [`Packet::put`] can use; 0 while others may read the last part.
    #[inline]
    pub fn tailroom(&self) -> usize {
        match &self.frame {
            Some(frame) => frame.tailroom(),
            None => self.tailroom_of_parts(),
        }
    }

    #[cold]
    #[inline(never)]
    fn tailroom_of_parts(&self) -> usize {
        let of_part =
            |part: &Packet| part.frame.as_ref().map_or_else(|| part.head.data.tailroom(), Frame::tailroom);
        self.parts().last().map_or(0, of_part)
    }

    /// Moves the start of the data `n` bytes back, for a header in front.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if the headroom is smaller.
    #[inline]
    pub fn push(&mut self, n: usize) -> Result<(), NoRoom> {
        match &mut self.frame {
            Some(frame) => frame.push(n),
            None => self.head.data.push(n),
        }
    }

    /// Moves the start of the data `n` bytes forward. Parts that become empty stay in the packet.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if there is less data.
    #[inline]
    pub fn pull(&mut self, n: usize) -> Result<(), NoRoom> {
        match &mut self.frame {
            Some(frame) => frame.pull(n),
            None => self.pull_parts(n),
        }
    }

    #[cold]
    #[inline(never)]
    fn pull_parts(&mut self, n: usize) -> Result<(), NoRoom> {
        let mut left = within(n, self.len())?;
        self.cut_parts(|data| {
            let here = left.min(data.len());
            left -= here;
            data.pull(here)
        })
    }

    /// Moves the end of the data `n` bytes forward, and returns those bytes for writing.
    ///
    /// As with [`Frame::put`], the bytes hold old content of an earlier use. Write all of them before the packet is
    /// sent or shown, or use [`Packet::put_slice`] or [`Packet::put_zeroed`].
    ///
    /// # Errors
    /// Returns [`NoRoom`] if the tailroom is smaller; nothing has changed then.
    #[inline(always)]
    pub fn put(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        match &mut self.frame {
            Some(frame) => frame.put(n),
            None => put_last(&mut self.head, n).map_err(|room| NoRoom::of(n, room)),
        }
    }

    /// As [`Packet::put`], with bytes that are all 0.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if the tailroom is smaller; nothing has changed then.
    pub fn put_zeroed(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        let tail = self.put(n)?;
        tail.fill(0);
        Ok(tail)
    }

    /// Appends a copy of `bytes` to the data.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if the tailroom is smaller.
    pub fn put_slice(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        self.put(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Truncates the data to its first `len` bytes. Parts that become empty stay in the packet.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if there is less data.
    #[inline]
    pub fn trim(&mut self, len: usize) -> Result<(), NoRoom> {
        match &mut self.frame {
            Some(frame) => frame.trim(len),
            None => self.trim_parts(len),
        }
    }

    #[cold]
    #[inline(never)]
    fn trim_parts(&mut self, len: usize) -> Result<(), NoRoom> {
        let mut left = within(len, self.len())?;
        self.cut_parts(|data| {
            let here = left.min(data.len());
            left -= here;
            data.trim(here)
        })
    }

    /// Calls `cut` on the data of each part, until one call fails.
    fn cut_parts(&mut self, mut cut: impl FnMut(&mut Data) -> Result<(), NoRoom>) -> Result<(), NoRoom> {
        DataMut { head: Some(self.put_down()) }.try_for_each(&mut cut)
    }

    /// Appends `other` to this packet's bytes, without a copy. The record of `other` is no longer used. Open offload work
    /// of either is that of the whole packet then ([`Packet::offload`]).
    ///
    /// # Cost
    /// One line for each part of this packet.
    pub fn append(&mut self, other: Packet) {
        let mut end = &mut self.put_down().next;
        while let Some(part) = end {
            end = &mut part.put_down().next;
        }
        *end = Some(other);
    }

    /// If the others that shared this packet's bytes are gone, takes the bytes back for this packet alone. Returns
    /// whether all bytes are writable now. External memory never becomes writable.
    pub fn reclaim(&mut self) -> bool {
        if self.frame.is_some() {
            return true;
        }
        let mut all = true;
        // Checks each part, also those behind one that stays shared.
        self.each_data_mut(|data| {
            all &= data.reclaim();
            true
        });
        all
    }

    /// Bytes of memory that cannot be used for another purpose while this packet is held. They are its heads and the
    /// whole frame behind each part, even if others hold that frame too (Linux calls this truesize).
    pub fn pinned(&self) -> usize {
        let of_part =
            |part: &Packet| part.frame.as_ref().map_or_else(|| part.head.data.pinned(), Frame::size);
        self.parts().map(|part| CACHE_LINE + of_part(part)).sum()
    }

    /// Prefetches the first line of data, if the packet is one frame.
    #[inline(always)]
    pub fn prefetch(&self) {
        if let Some(frame) = &self.frame {
            frame.prefetch();
        }
    }

    /// The receive queue of the packet, if it came from one.
    #[inline]
    pub fn rx_queue(&self) -> Option<u16> {
        self.head.record.rx_queue()
    }

    /// Records the receive queue. A transmit queue can be chosen from it later ([zhang09-handoff]).
    #[inline]
    pub fn record_rx_queue(&mut self, queue: u16) {
        self.head.record.set_rx_queue(queue);
    }

    /// The flow's hash; 0 until it is computed.
    #[inline]
    pub fn flow_hash(&self) -> u32 {
        self.head.record.flow_hash
    }

    /// Records the flow's hash.
    #[inline]
    pub fn set_flow_hash(&mut self, hash: u32) {
        self.head.record.flow_hash = hash;
    }
}

#[cold]
#[inline(never)]
fn drop_unexpected(frame: Frame) {
    drop(frame);
}

/// Moves the end of the last part's data `n` bytes forward, or returns how much room there is. The result fits into
/// registers, so that the hot path puts nothing on the stack.
#[cold]
#[inline(never)]
fn put_last(head: &mut Head, n: usize) -> Result<&mut [u8], usize> {
    let Some(last) = (DataMut { head: Some(head) }).last() else { return Ok(&mut []) };
    last.put(n).map_err(|no| no.room as usize)
}

/// Iterator over the mutable data of each part. The parts put down the frames that they carry.
struct DataMut<'a> {
    head: Option<&'a mut Head>,
}

impl<'a> Iterator for DataMut<'a> {
    type Item = &'a mut Data;

    fn next(&mut self) -> Option<&'a mut Data> {
        let Head { data, next, .. } = self.head.take()?;
        self.head = next.as_mut().map(Packet::put_down);
        Some(data)
    }
}
