//! Operations that need further heads: other kinds of bytes, a second packet over the same bytes, and splitting.

use super::data::{Data, within};
use super::external::External;
use super::head::Head;
use super::heads::HeadCache;
use super::packet::Packet;
use crate::pool::{Fragment, NoRoom, SharedFrame};
use crate::sync::Worker;

/// Why a packet could not be split; the packet is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// The packet is shorter.
    #[error(transparent)]
    TooShort(#[from] NoRoom),
    /// There is no memory for a head.
    #[error("there is no memory for a head")]
    NoHead,
}

impl HeadCache {
    /// Gives a shared frame a head.
    ///
    /// # Errors
    /// Returns the frame if there is no memory for a head.
    pub fn attach_shared(&self, w: &mut Worker, frame: SharedFrame) -> Result<Packet, SharedFrame> {
        match self.head(w) {
            Some(head) => Ok(Packet::with(head, Data::Shared(frame))),
            None => Err(frame),
        }
    }

    /// Gives a piece of a frame a head.
    ///
    /// # Errors
    /// Returns the piece if there is no memory for a head.
    pub fn attach_fragment(&self, w: &mut Worker, fragment: Fragment) -> Result<Packet, Fragment> {
        match self.head(w) {
            Some(head) => Ok(Packet::with(head, Data::Fragment(fragment))),
            None => Err(fragment),
        }
    }

    /// Gives external memory a head.
    ///
    /// # Errors
    /// Returns the external memory if there is no memory for a head.
    pub fn attach_external(&self, w: &mut Worker, external: External) -> Result<Packet, External> {
        match self.head(w) {
            Some(head) => Ok(Packet::with(head, Data::External(external))),
            None => Err(external),
        }
    }

    /// Makes a second packet over the same bytes, with a copy of the first packet's record. Neither packet can be
    /// written while the other exists. Each packet pulls and trims its own view. Returns None if there is no memory for
    /// heads. Pieces of frames may then be read-only as if they had been shared.
    ///
    /// # Cost
    /// A head and one locked instruction for each part.
    pub fn share(&self, w: &mut Worker, packet: &mut Packet) -> Option<Packet> {
        let mut second: Option<Packet> = None;
        // The place behind the last part: `append` would walk to it from the first part each time.
        let mut end = Some(&mut second);
        let shared = packet.each_data_mut(|data| match (self.head(w), end.take()) {
            (Some(head), Some(place)) => {
                let part = place.insert(Packet::with(head, data.share()));
                end = Some(&mut part.put_down().next);
                true
            }
            _ => false,
        });
        if !shared {
            second.into_iter().for_each(|second| self.free(w, second));
            packet.reclaim();
            return None;
        }
        if let Some(second) = &mut second {
            *second.record_mut() = packet.record();
        }
        second
    }

    /// Splits a packet after its first `at` bytes. The bytes behind the cut become a packet of their own, with a copy
    /// of the first packet's record. If the cut goes through a part, the two packets share that part: see
    /// [`HeadCache::share`]. Both packets then carry the part's timestamp, and the first one its open offload work
    /// ([`Packet::offload`]); the other one too, unless the cut is behind the start of the checksum.
    ///
    /// That work is the whole packet's: a checksum that is completed after the cut is the sum of fewer bytes. Complete it
    /// before a cut, or join the two packets again first.
    ///
    /// # Errors
    /// Returns [`SplitError`]; the packet is unchanged.
    pub fn split(&self, w: &mut Worker, packet: &mut Packet, at: usize) -> Result<Packet, SplitError> {
        let mut left = within(at, packet.len())?;
        let record = packet.record();
        let mut part = packet.put_down();
        let behind = loop {
            let here = part.data.len();
            match part.next {
                Some(_) if left < here => break None,
                // The cut is between two parts: nothing needs to be shared.
                Some(_) if left == here => break part.next.take(),
                Some(ref mut next) => {
                    left -= here;
                    part = next.put_down();
                }
                None => break None,
            }
        };
        let rest = match behind {
            Some(rest) => Ok(rest),
            None => self.split_part(w, part, left),
        };
        packet.pick_up();
        let mut rest = rest?;
        rest.pick_up();
        *rest.record_mut() = record;
        Ok(rest)
    }

    /// Returns the bytes behind the first `at` bytes of a part as a packet. The part keeps the first `at` bytes.
    fn split_part(&self, w: &mut Worker, part: &mut Head, at: usize) -> Result<Packet, SplitError> {
        let mut rest = Packet::with(self.head(w).ok_or(SplitError::NoHead)?, part.data.share());
        rest.pull(at)?;
        part.data.trim(at)?;
        rest.put_down().next = part.next.take();
        Ok(rest)
    }
}
