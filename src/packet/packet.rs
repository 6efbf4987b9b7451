//! The packet: a head and its bytes, and what can be done with them without a worker.

use super::data::{Data, within};
use super::head::{Head, Origin};
use crate::limits::CACHE_LINE;
use crate::pool::{Frame, NoRoom};
use crate::slab::Object;
use crate::sys::cpu;
use std::iter::successors;

/// A packet that is yours alone: eight bytes, move-only.
///
/// Most packets are one part, whose bytes are in one frame: then [`Packet::data`] is all of them. Others are a chain of
/// parts ([`Packet::append`]), or share their bytes with others ([`Heads::share`](super::Heads::share)) and cannot be
/// written meanwhile. Lengths are always those of the whole packet.
///
/// Dropped anywhere, head and bytes go home by the slow way; [`Heads::free`](super::Heads::free) is the fast one.
#[derive(Debug)]
pub struct Packet {
    /// Invariant: its data is not [`Data::NOTHING`], except on the way into an array of free heads or out of it.
    head: Object<Head>,
}

const _: () = assert!(size_of::<Option<Packet>>() == 8);

impl Packet {
    #[inline(always)]
    pub(super) fn new(head: Object<Head>) -> Packet {
        Packet { head }
    }

    #[inline(always)]
    pub(super) fn into_head(self) -> Object<Head> {
        self.head
    }

    #[inline(always)]
    pub(super) fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }

    #[inline(always)]
    pub(super) fn origin(&self) -> Origin {
        self.head.origin
    }

    /// Where the bytes of the first part are.
    #[inline(always)]
    pub(super) fn data_kind(&self) -> &Data {
        &self.head.data
    }

    /// Takes the bytes out, if they are one frame that is this packet's alone.
    #[inline(always)]
    pub(super) fn take_frame(&mut self) -> Option<Frame> {
        self.frame_alone()?.take()
    }

    /// As [`Packet::take_frame`], for a frame that is to be freed: it has no data then.
    #[inline(always)]
    pub(super) fn take_spent_frame(&mut self) -> Option<Frame> {
        Frame::take_empty(self.frame_alone()?)
    }

    /// The place of the frame that has all the bytes, if it is this packet's alone.
    #[inline(always)]
    fn frame_alone(&mut self) -> Option<&mut Option<Frame>> {
        let head = &mut *self.head;
        match &mut head.data {
            Data::Frame(frame) if head.next.is_none() => Some(frame),
            _ => None,
        }
    }

    /// The packet's parts, first to last.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Packet> {
        successors(Some(self), |part| part.head.next.as_ref())
    }

    /// Where the bytes of each part are, first to last.
    pub(super) fn each_data_mut(&mut self) -> DataMut<'_> {
        DataMut { head: Some(&mut self.head) }
    }

    /// The bytes of the first part; all of them where the packet is linear.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        self.head.data.bytes()
    }

    /// The bytes of the first part, to write; None while anybody else may read them.
    #[inline(always)]
    pub fn data_mut(&mut self) -> Option<&mut [u8]> {
        self.head.data.bytes_mut()
    }

    /// The bytes of each part in turn; some may be empty.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.parts().map(Packet::data)
    }

    /// Whether all bytes are in one part, and so in [`Packet::data`].
    #[inline]
    pub fn is_linear(&self) -> bool {
        self.head.next.is_none()
    }

    /// How many bytes the packet has.
    #[inline(always)]
    pub fn len(&self) -> usize {
        let first = self.head.data.len();
        if self.is_linear() { first } else { self.len_of_parts() }
    }

    #[cold]
    #[inline(never)]
    fn len_of_parts(&self) -> usize {
        self.parts().map(|part| part.head.data.len()).sum()
    }

    /// Whether the packet has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes before the data that [`Packet::push`] can take; 0 while others may read the first part.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.head.data.headroom()
    }

    /// Bytes after the data that [`Packet::put`] can take; 0 while others may read the last part.
    pub fn tailroom(&self) -> usize {
        self.parts().last().map_or(0, |last| last.head.data.tailroom())
    }

    /// Begins the data `n` bytes earlier, for a header in front.
    ///
    /// # Errors
    /// [`NoRoom`] when the headroom is smaller.
    #[inline]
    pub fn push(&mut self, n: usize) -> Result<(), NoRoom> {
        self.head.data.push(n)
    }

    /// Begins the data `n` bytes later. Parts that are empty then stay where they are.
    ///
    /// # Errors
    /// [`NoRoom`] when there is less data.
    #[inline]
    pub fn pull(&mut self, n: usize) -> Result<(), NoRoom> {
        if self.is_linear() {
            return self.head.data.pull(n);
        }
        self.pull_parts(n)
    }

    #[cold]
    #[inline(never)]
    fn pull_parts(&mut self, n: usize) -> Result<(), NoRoom> {
        let mut left = within(n, self.len())?;
        self.each_data_mut().try_for_each(|data| {
            let here = left.min(data.len());
            left -= here;
            data.pull(here)
        })
    }

    /// Ends the data `n` bytes later, and gives those bytes to be written.
    ///
    /// # Errors
    /// [`NoRoom`] when the tailroom is smaller.
    #[inline(always)]
    pub fn put(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        if self.is_linear() {
            return self.head.data.put(n);
        }
        self.put_parts(n)
    }

    #[cold]
    #[inline(never)]
    fn put_parts(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        self.each_data_mut().last().map_or(Ok(&mut []), |last| last.put(n))
    }

    /// Puts a copy of `bytes` behind the data.
    ///
    /// # Errors
    /// [`NoRoom`] when the tailroom is smaller.
    pub fn put_slice(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        self.put(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Cuts the data to its first `len` bytes. Parts that are empty then stay where they are.
    ///
    /// # Errors
    /// [`NoRoom`] when there is less data.
    #[inline]
    pub fn trim(&mut self, len: usize) -> Result<(), NoRoom> {
        if self.is_linear() {
            return self.head.data.trim(len);
        }
        self.trim_parts(len)
    }

    #[cold]
    #[inline(never)]
    fn trim_parts(&mut self, len: usize) -> Result<(), NoRoom> {
        let mut left = within(len, self.len())?;
        self.each_data_mut().try_for_each(|data| {
            let here = left.min(data.len());
            left -= here;
            data.trim(here)
        })
    }

    /// Puts `other` behind this packet's bytes, without a copy. What `other` had recorded is no longer looked at.
    ///
    /// # Cost
    /// One line for each part that this packet has.
    pub fn append(&mut self, other: Packet) {
        let mut end = &mut self.head.next;
        while let Some(part) = end {
            end = &mut part.head.next;
        }
        *end = Some(other);
    }

    /// Looks whether those who shared this packet's bytes are gone, and takes them back for itself alone; whether all its
    /// bytes can be written now. Memory of others never can.
    pub fn reclaim(&mut self) -> bool {
        // Each of them is looked at, also behind one that stays shared.
        self.each_data_mut().map(Data::reclaim).filter(|&alone| !alone).count() == 0
    }

    /// Bytes of memory that cannot be used for anything else while this packet is held: its heads, and the whole frame
    /// behind each part, also where others hold that too (what Linux calls truesize).
    pub fn pinned(&self) -> usize {
        self.parts().map(|part| CACHE_LINE + part.head.data.pinned()).sum()
    }

    /// Asks for the first line of data before it is needed.
    #[inline]
    pub fn prefetch(&self) {
        cpu::prefetch(self.data().as_ptr());
    }

    /// Asks for the head before it is needed: it may have been written on another core, and will be here.
    #[inline(always)]
    pub(super) fn prefetch_head(&self) {
        cpu::prefetch_write(std::ptr::from_ref(&*self.head).cast());
    }

    /// The receive queue it came by, if it came by one.
    #[inline]
    pub fn rx_queue(&self) -> Option<u16> {
        self.head.rx_queue
    }

    /// Records the receive queue, from which a transmit queue can be chosen later (source 001).
    #[inline]
    pub fn record_rx_queue(&mut self, queue: u16) {
        self.head.rx_queue = Some(queue);
    }

    /// The flow's hash; 0 while nobody has computed it.
    #[inline]
    pub fn flow_hash(&self) -> u32 {
        self.head.flow_hash
    }

    /// Records the flow's hash.
    #[inline]
    pub fn set_flow_hash(&mut self, hash: u32) {
        self.head.flow_hash = hash;
    }
}

/// Where the bytes of each part are, to change.
pub(super) struct DataMut<'a> {
    head: Option<&'a mut Head>,
}

impl<'a> Iterator for DataMut<'a> {
    type Item = &'a mut Data;

    fn next(&mut self) -> Option<&'a mut Data> {
        let Head { data, next, .. } = self.head.take()?;
        self.head = next.as_mut().map(Packet::head_mut);
        Some(data)
    }
}
