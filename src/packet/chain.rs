//! What needs further heads: other kinds of bytes, a second packet over the same ones, and splitting.

use super::data::{Data, within};
use super::external::External;
use super::head::begin;
use super::heads::Heads;
use super::packet::Packet;
use crate::pool::{Fragment, NoRoom, SharedFrame};
use crate::sync::Worker;

/// Why a packet could not be split; it is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// The packet is shorter.
    #[error(transparent)]
    TooShort(#[from] NoRoom),
    /// There is no memory for a head.
    #[error("there is no memory for a head")]
    NoHead,
}

impl Heads {
    /// Gives a shared frame a head.
    ///
    /// # Errors
    /// The frame, when there is no memory for a head.
    pub fn attach_shared(&self, w: &mut Worker, frame: SharedFrame) -> Result<Packet, SharedFrame> {
        match self.head(w) {
            Some(head) => Ok(begin(head, Data::Shared(frame))),
            None => Err(frame),
        }
    }

    /// Gives a piece of a frame a head.
    ///
    /// # Errors
    /// The piece, when there is no memory for a head.
    pub fn attach_fragment(&self, w: &mut Worker, fragment: Fragment) -> Result<Packet, Fragment> {
        match self.head(w) {
            Some(head) => Ok(begin(head, Data::Fragment(fragment))),
            None => Err(fragment),
        }
    }

    /// Gives external memory a head.
    ///
    /// # Errors
    /// The memory, when there is none for a head.
    pub fn attach_external(&self, w: &mut Worker, external: External) -> Result<Packet, External> {
        match self.head(w) {
            Some(head) => Ok(begin(head, Data::External(external))),
            None => Err(external),
        }
    }

    /// A second packet over the same bytes, with what is recorded of the first. Neither can be written while the other
    /// is there; each pulls and trims for itself. None when there is no memory for heads; pieces of frames may be read-only then as if
    /// they had been shared.
    ///
    /// # Cost
    /// A head and one locked instruction a part.
    pub fn share(&self, w: &mut Worker, packet: &mut Packet) -> Option<Packet> {
        let (rx_queue, flow_hash) = (packet.rx_queue(), packet.flow_hash());
        let mut parts = packet.each_data_mut();
        let mut second = begin(self.head(w)?, parts.next()?.share());
        let mut end = &mut second.head_mut().next;
        for data in parts {
            let Some(head) = self.head(w) else {
                self.free(w, second);
                packet.reclaim();
                return None;
            };
            end = &mut end.insert(begin(head, data.share())).head_mut().next;
        }
        second.head_mut().flow_hash = flow_hash;
        second.head_mut().rx_queue = rx_queue;
        Some(second)
    }

    /// Cuts a packet after its first `at` bytes; what is behind becomes a packet of its own, with what is recorded of the
    /// first. Where the cut goes through a part, the two share it: see [`Heads::share`].
    ///
    /// # Errors
    /// [`SplitError`]; the packet is as it was.
    pub fn split(&self, w: &mut Worker, packet: &mut Packet, at: usize) -> Result<Packet, SplitError> {
        let mut left = within(at, packet.len())?;
        let (rx_queue, flow_hash) = (packet.rx_queue(), packet.flow_hash());
        let mut part = packet.head_mut();
        let behind = loop {
            let here = part.data.len();
            match part.next {
                Some(_) if left < here => break None,
                // Between two parts: nothing needs to be shared.
                Some(_) if left == here => break part.next.take(),
                Some(ref mut next) => {
                    left -= here;
                    part = next.head_mut();
                }
                None => break None,
            }
        };
        let mut rest = match behind {
            Some(rest) => rest,
            None => {
                let mut rest = begin(self.head(w).ok_or(SplitError::NoHead)?, part.data.share());
                rest.head_mut().data.pull(left)?;
                part.data.trim(left)?;
                rest.head_mut().next = part.next.take();
                rest
            }
        };
        (rest.head_mut().rx_queue, rest.head_mut().flow_hash) = (rx_queue, flow_hash);
        Ok(rest)
    }
}
