//! The packet: a head and its frame.

use super::head::Head;
use crate::pool::Frame;
use crate::slab::Object;
use std::ops::{Deref, DerefMut};

/// A packet that is yours alone: eight bytes, move-only.
///
/// Dropped anywhere, head and frame go home by the slow way; [`Heads::free`](super::Heads::free) is the fast one.
#[derive(Debug)]
pub struct Packet {
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

/// The packet's bytes, with headroom and tailroom: push, pull, put and trim are the frame's.
impl Deref for Packet {
    type Target = Frame;
    #[inline(always)]
    fn deref(&self) -> &Frame {
        &self.head.frame
    }
}

impl DerefMut for Packet {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Frame {
        &mut self.head.frame
    }
}
