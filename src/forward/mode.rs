//! How frames find their way, and how they are freed.

use super::ip::{decide, forward_admitted, unpadded};
use super::route::FibReader;
use super::verdict::{Code, Reason, Verdict};
use crate::limits::BATCH_MAX;
use crate::pool::Batch;
use crate::wire::Ethernet;

/// Frames ahead of the one in work whose headers are asked for.
const AHEAD: usize = 24;

/// How frames find their way.
#[derive(Debug)]
pub enum Mode {
    /// As an IP router: validation, longest-prefix match, TTL, checksum, link addresses, no padding. The table may change
    /// meanwhile.
    Ip(FibReader),
    /// Frames from port 0 leave by port 1 and the other way round, 2 and 3 likewise, unchanged, as long as they came: padding of
    /// the link too.
    CrossConnect,
    /// Every frame leaves by the port it came from, its link addresses swapped and as long as it came (source 004's
    /// `XDP_TX`).
    Reflect,
    /// Every frame is dropped unread (source 004's `XDP_DROP`).
    Drop,
    /// Every frame goes to the holder, unread (source 004's packets in sockets).
    Pass,
}

/// How sent and dropped frames are freed: for measurements, `Bulk` is what one wants (source 000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Free {
    /// A batch at once.
    #[default]
    Bulk,
    /// One call for each frame.
    Single,
}

/// Why a forwarder could not be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ForwardError {
    /// Frames need a port to leave by.
    #[error("{0} ports: give two or more (an even number in cross-connect mode), at most 255")]
    Ports(usize),
    /// Every port needs an interface.
    #[error("{interfaces} interfaces for {ports} ports: give one for each")]
    Interfaces {
        /// Interfaces given.
        interfaces: usize,
        /// Ports given.
        ports: usize,
    },
}

impl Mode {
    /// Whether `ports` ports can work so.
    pub(super) fn check(&self, ports: usize) -> Result<(), ForwardError> {
        let paired = !matches!(self, Mode::CrossConnect) || ports.is_multiple_of(2);
        if !(2..=255).contains(&ports) || !paired {
            return Err(ForwardError::Ports(ports));
        }
        match self {
            Mode::Ip(reader) if reader.fib().interfaces.len() != ports => {
                Err(ForwardError::Interfaces { interfaces: reader.fib().interfaces.len(), ports })
            }
            _ => Ok(()),
        }
    }

    /// Takes note of changed routes; true if there are any.
    ///
    /// # Cost
    /// One load while nothing changed.
    #[inline]
    pub(super) fn refresh(&mut self) -> bool {
        match self {
            Mode::Ip(reader) => reader.refresh(),
            _ => false,
        }
    }

    /// Writes what becomes of each frame of a burst that came by port `from`.
    #[inline]
    pub(super) fn decide_all(&self, from: usize, burst: &mut Batch, verdicts: &mut [Code; BATCH_MAX]) {
        match self {
            Mode::Ip(reader) => {
                let fib = reader.fib();
                let ingress = fib.interfaces[from];
                let mut padded = 0_u64;
                burst.each_data_mut(AHEAD, |i, data| {
                    let (verdict, is_padded) = decide(data, &ingress, fib);
                    verdicts[i] = verdict.into();
                    padded |= u64::from(is_padded) << i;
                });
                if padded != 0 {
                    cut(burst, padded);
                }
            }
            Mode::Reflect => burst.each_data_mut(AHEAD, |i, data| verdicts[i] = reflect(data).into()),
            Mode::CrossConnect => verdicts.fill(Verdict::Redirect((from ^ 1) as u8).into()),
            Mode::Drop => verdicts.fill(Verdict::Drop(Reason::Policy).into()),
            Mode::Pass => verdicts.fill(Verdict::Pass.into()),
        }
    }

    /// Writes what becomes of frames that a router let in before, or made itself: none of another mode's are.
    #[cold]
    pub(super) fn decide_admitted(&self, frames: &mut Batch, verdicts: &mut [Code; BATCH_MAX]) {
        if let Mode::Ip(reader) = self {
            frames.each_data_mut(0, |i, data| verdicts[i] = forward_admitted(data, reader.fib()).into());
        }
    }

    /// What becomes of one frame that came by port `from`, and whether padding is to be [cut](unpadded) off it.
    #[inline]
    pub(super) fn decide(&self, from: usize, frame: &mut [u8]) -> (Verdict, bool) {
        let verdict = match self {
            Mode::Ip(reader) => {
                let fib = reader.fib();
                return decide(frame, &fib.interfaces[from], fib);
            }
            Mode::Reflect => reflect(frame),
            Mode::CrossConnect => Verdict::Redirect((from ^ 1) as u8),
            Mode::Drop => Verdict::Drop(Reason::Policy),
            Mode::Pass => Verdict::Pass,
        };
        (verdict, false)
    }
}

/// Cuts the padding off the frames whose bits are set: it is no part of their packets, and nobody said what is in it.
#[cold]
#[inline(never)]
fn cut(burst: &mut Batch, padded: u64) {
    for i in (0..burst.len()).filter(|i| padded >> i & 1 == 1) {
        burst.trim(i, unpadded(burst[i].data()));
    }
}

/// Swaps the link addresses, so that the frame goes back to whoever sent it.
#[inline]
fn reflect(frame: &mut [u8]) -> Verdict {
    let Ok((link, _)) = Ethernet::parse_mut(frame) else { return Verdict::Drop(Reason::Short) };
    std::mem::swap(&mut link.dst, &mut link.src);
    Verdict::Tx
}
