//! The packet: a head and its bytes.

use super::data::Data;
use super::head::{Head, Origin};
use crate::pool::{Frame, NoRoom};
use crate::slab::Object;
use crate::sys::cpu;

/// A packet that is yours alone: eight bytes, move-only.
///
/// Dropped anywhere, head and bytes go home by the slow way; [`Heads::free`](super::Heads::free) is the fast one.
#[derive(Debug)]
pub struct Packet {
    /// Invariant: its data is not [`Data::Nothing`], except on the way into an array of free heads.
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
    pub(super) fn origin(&self) -> Origin {
        self.head.origin
    }

    /// Takes the bytes out, if they are one frame that is this packet's alone.
    #[inline(always)]
    pub(super) fn take_frame(&mut self) -> Option<Frame> {
        if self.head.next.is_some() || !matches!(self.head.data, Data::Frame(_)) {
            return None;
        }
        match self.head.data.take() {
            Data::Frame(frame) => Some(frame),
            Data::Nothing => None,
        }
    }

    /// Takes the bytes out, whatever they are.
    pub(super) fn take_data(&mut self) -> Data {
        self.head.data.take()
    }

    /// Takes the parts behind the first.
    pub(super) fn take_next(&mut self) -> Option<Packet> {
        self.head.next.take()
    }

    /// The bytes of the first part; of most packets these are all.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        self.head.data.bytes()
    }

    /// The bytes of the first part, to write; None while anybody else can see them.
    #[inline(always)]
    pub fn data_mut(&mut self) -> Option<&mut [u8]> {
        self.head.data.bytes_mut()
    }

    /// How many bytes the first part has.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.head.data.len()
    }

    /// Whether the first part has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes before the data that [`Packet::push`] can take; 0 where they are not this packet's alone.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.head.data.headroom()
    }

    /// Bytes after the data that [`Packet::put`] can take; 0 where they are not this packet's alone.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.head.data.tailroom()
    }

    /// Begins the data `n` bytes earlier, for a header in front.
    ///
    /// # Errors
    /// [`NoRoom`] when the headroom is smaller.
    #[inline]
    pub fn push(&mut self, n: usize) -> Result<(), NoRoom> {
        self.head.data.push(n)
    }

    /// Begins the data of the first part `n` bytes later.
    ///
    /// # Errors
    /// [`NoRoom`] when there is less data.
    #[inline]
    pub fn pull(&mut self, n: usize) -> Result<(), NoRoom> {
        self.head.data.pull(n)
    }

    /// Ends the data of the first part `n` bytes later.
    ///
    /// # Errors
    /// [`NoRoom`] when the tailroom is smaller.
    #[inline]
    pub fn put(&mut self, n: usize) -> Result<(), NoRoom> {
        self.head.data.put(n)
    }

    /// Cuts the data of the first part to its first `len` bytes.
    ///
    /// # Errors
    /// [`NoRoom`] when there is less data.
    #[inline]
    pub fn trim(&mut self, len: usize) -> Result<(), NoRoom> {
        self.head.data.trim(len)
    }

    /// Asks for the first line of data before it is needed.
    #[inline]
    pub fn prefetch(&self) {
        cpu::prefetch(self.data().as_ptr());
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
