//! The seam for the decision: what becomes of each frame, asked once a burst.

use super::verdict::{Code, Reason, Verdict};
use crate::limits::BATCH_MAX;
use crate::packet::Packet;
use crate::pool::{Batch, Frame, Pool};
use crate::steer::Source;
use crate::sync::Worker;
use std::error::Error;
use std::time::Duration;

/// Frames ahead of the one in work whose headers are prefetched.
const AHEAD: usize = 24;

/// Decides about the frames that a forwarder received: forward, drop, pass, wait, or fragment.
///
/// A dataplane of one's own is an implementation of this trait: [`decide`](Self::decide) alone is required, everything else
/// (several workers, sleep, latency, rules, taps, counters, what the control socket shows) is the
/// [`Forwarder`](super::Forwarder)'s. A forwarder has one implementation and calls it on its own worker only, so that it needs
/// no lock; tables that another thread changes are taken over in [`refresh`](Self::refresh).
///
/// # Cost
/// One virtual call a burst of up to 64 frames; within [`decide_burst`](Self::decide_burst) the call of `decide` is
/// static and inlines. On the packet path ([`PacketPath`](super::PacketPath)) one virtual call a packet.
///
/// # Example
/// A filter in front of a wire: what comes by port 0 leaves by port 1 and the other way round, but for one source, also behind
/// VLAN tags.
/// ```
/// use netmem::forward::{Decide, Reason, Verdict};
/// use netmem::steer::Source;
/// use netmem::wire::{Ipv4, ethernet};
/// use std::net::Ipv4Addr;
///
/// struct Block(Ipv4Addr);
///
/// impl Decide for Block {
///     fn decide(&mut self, from: Source, frame: &mut [u8]) -> Verdict {
///         match ethernet::behind_tags(frame) {
///             Ok((ethernet::IPV4, packet)) => match Ipv4::parse(packet) {
///                 Ok((ip, _)) if ip.src() == self.0 => Verdict::Drop(Reason::Own(0)),
///                 Ok(_) => Verdict::Redirect(from.port ^ 1),
///                 Err(malformed) => Verdict::Drop(malformed.into()),
///             },
///             Ok(_) => Verdict::Redirect(from.port ^ 1),
///             Err(malformed) => Verdict::Drop(malformed.into()),
///         }
///     }
///     fn reasons(&self) -> &'static [&'static str] {
///         &["blocked"]
///     }
/// }
/// ```
pub trait Decide: Send {
    /// Whether frames can be forwarded between so many ports; asked once, when the forwarder is made.
    ///
    /// # Errors
    /// Why not, as the user is to read it.
    fn check(&self, ports: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        let _ = ports;
        Ok(())
    }

    /// Whether frames may come with what their senders left to be done ([`Frame::offload`]): then they stay so between ports that can
    /// say and hear it, checksums are not completed and packets of up to 32 KiB not cut. Asked once, when the forwarder is made.
    ///
    /// A decision that says yes asks what is longer than a link allows how it is to be cut, takes the offload from a frame of which it
    /// makes another packet, and does not look at checksums of TCP and UDP, nor at what they sum. Where a frame leaves by a port that
    /// does not [carry offloads](crate::port::Tx::carries_offloads), or is to be cut into fragments, the forwarder does what is left.
    ///
    /// By default no: all frames come complete, each a packet of its own.
    fn takes_offloads(&self) -> bool {
        false
    }

    /// What becomes of a frame that came from there. Its bytes may be rewritten.
    fn decide(&mut self, from: Source, frame: &mut [u8]) -> Verdict;

    /// What becomes of each frame of a burst, which all came from there; `verdicts` has a place for each, in order.
    ///
    /// To be written by hand where the frames themselves are to be changed (headers put before them or taken off, their end cut
    /// off), or where it pays to look at several together.
    fn decide_burst(&mut self, from: Source, burst: &mut Batch, verdicts: &mut Verdicts) {
        burst.each_data_mut(AHEAD, |i, data| verdicts.set(i, self.decide(from, data)));
    }

    /// As [`decide`](Self::decide), of a frame that is a packet: [`PacketPath`](super::PacketPath).
    ///
    /// What it leaves in `packet` goes on. A packet that others read too, or of several parts, is copied before it goes to a port, to the
    /// local queue or waits ([`Meters::copied`](super::Meters)).
    fn decide_packet(&mut self, from: Source, packet: &mut Packet) -> Verdict {
        match packet.data_mut() {
            Some(data) => self.decide(from, data),
            // A packet just received is its frame's only holder, so this is not seen here.
            None => Verdict::Drop(Reason::Policy),
        }
    }

    /// Whether [`overruled`](Self::overruled) is to be called; asked once, when the packet path is set.
    fn sees_overruled(&self) -> bool {
        false
    }

    /// A packet was received that this is not asked about: a rule of the packet path has decided ([`filter`](super::filter)).
    fn overruled(&mut self, from: Source, packet: &Packet, verdict: Verdict) {
        let _ = (from, packet, verdict);
    }

    /// Frames are dropped for a reason that is not this decision's verdict: no room in a transmit ring or in the local queue, no head,
    /// and what else shows later. Their bytes may have been rewritten. `from` is where they came from, of frames that were not decided
    /// about at all. Where this worker transmits for others ([`returned`](Self::returned)), another one's decision may have been about them.
    fn lost(&mut self, from: Option<Source>, reason: Reason, frames: &[Frame]) {
        let _ = (from, reason, frames);
    }

    /// Frames are sent on that were not received as they are: pieces, segments, replies. What happens to them from here on happened to
    /// no packet that was decided about.
    fn made(&mut self, frames: &[Frame]) {
        let _ = frames;
    }

    /// Frames that came from there may go to other workers now, undecided, by lanes; those that stay are decided about next.
    fn handed(&mut self, from: Source, frames: &[Frame]) {
        let _ = (from, frames);
    }

    /// Frames that were [handed](Self::handed) over by this worker, and decided about by another, have come back to be transmitted here.
    fn returned(&mut self, frames: &[Frame]) {
        let _ = frames;
    }

    /// Takes over what has changed in the tables that decide, once a round; true if something has, so that frames that wait are
    /// asked for with [`resume`](Self::resume).
    fn refresh(&mut self) -> bool {
        false
    }

    /// Names of the reasons of one's own, [`Reason::Own`] 0 and the following: they are counters' names, in snake_case.
    fn reasons(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether [`answer`](Self::answer) is to be asked about frames dropped for `reason`.
    fn answers(&self, reason: Reason) -> bool {
        let _ = reason;
        false
    }

    /// Makes replies of frames that were dropped for `reason` (ICMP errors, say): what is moved to `replies` is sent, what stays
    /// is freed. The drop is counted in either case, a reply as [originated](super::Meters::originated).
    fn answer(&mut self, from: Source, reason: Reason, dropped: &mut Batch, replies: &mut Replies) {
        let _ = (from, reason, dropped, replies);
    }

    /// Makes several frames of one with [`Verdict::Fragment`]: what is pushed to `pieces` is sent in its place, in that order, also
    /// where it is the frame itself. Without an implementation none is cut.
    ///
    /// # Errors
    /// The frame, where it cannot be cut, or there are no frames for the pieces: it is dropped as [`Reason::FragNeeded`], and nothing is
    /// sent of it.
    fn fragment(&mut self, from: Source, frame: Frame, pieces: &mut Pieces<'_>) -> Result<(), Frame> {
        let _ = (from, pieces);
        Err(frame)
    }

    /// Takes frames with [`Verdict::Wait`] as its own; those that it leaves in `frames`, or exchanges for others (the oldest
    /// for the newest), are dropped as [`Reason::NeighQueueFull`]. Without an implementation all are.
    fn wait(&mut self, from: Source, frames: &mut Batch) {
        let _ = (from, frames);
    }

    /// Frames that wait here now; asked after [`wait`](Self::wait) and [`resume`](Self::resume), for [`Meters::held`](super::Meters::held).
    fn waiting(&self) -> usize {
        0
    }

    /// Gives the next frames back that need not wait any more, all from one source; None when there are no more. Asked after
    /// [`refresh`](Self::refresh) said that something changed.
    fn resume(&mut self) -> Option<(Source, Batch)> {
        None
    }

    /// What becomes of frames that waited.
    fn decide_again(&mut self, from: Source, frames: &mut Batch, verdicts: &mut Verdicts) {
        self.decide_burst(from, frames, verdicts);
    }
}

/// The verdicts of a burst: one for each frame, in order.
#[derive(Debug)]
pub struct Verdicts([Code; BATCH_MAX]);

impl Verdicts {
    /// Room for those of a burst; each is a redirect to port 0 until it is set.
    #[inline(always)]
    pub(super) fn new() -> Verdicts {
        Verdicts([Code::FIRST; BATCH_MAX])
    }

    /// Decides about the frame at `i`.
    ///
    /// # Panics
    /// If `i` is not less than [`BATCH_MAX`].
    #[inline(always)]
    pub fn set(&mut self, i: usize, verdict: Verdict) {
        self.0[i] = verdict.into();
    }

    /// Decides the same about all frames.
    #[inline]
    pub fn fill(&mut self, verdict: Verdict) {
        self.0.fill(verdict.into());
    }

    /// The code of each, in order.
    pub(super) fn codes(&self) -> impl Iterator<Item = Code> {
        self.0.iter().copied()
    }

    /// Those of the first `n` frames in runs of one verdict, each with its length.
    #[inline]
    pub(super) fn runs(&self, n: usize) -> impl Iterator<Item = (Verdict, usize)> {
        Code::runs(&self.0[..n])
    }
}

/// Frames that are sent instead of dropped ones, each with its verdict.
#[derive(Debug)]
pub struct Replies {
    pub(super) frames: Batch,
    pub(super) verdicts: Verdicts,
}

impl Replies {
    pub(super) fn new() -> Replies {
        Replies { frames: Batch::new(), verdicts: Verdicts::new() }
    }

    /// Sends a frame: by the port that the verdict names, or by the one that the dropped frame came from ([`Verdict::Tx`]).
    ///
    /// # Errors
    /// The frame, where there are [`BATCH_MAX`] already; as no more come out than were dropped, this is not seen.
    pub fn push(&mut self, frame: Frame, verdict: Verdict) -> Result<(), Frame> {
        let at = self.frames.len();
        self.frames.push(frame)?;
        self.verdicts.set(at, verdict);
        Ok(())
    }
}

/// The frames that are sent instead of a fragmented frame.
#[derive(Debug)]
pub struct Pieces<'a> {
    replies: Replies,
    /// When the packet was recorded, and so each of them.
    timestamp: Option<Duration>,
    pool: &'a Pool,
    w: &'a mut Worker,
}

impl<'a> Pieces<'a> {
    /// Those of `frame`.
    pub(super) fn new(frame: &Frame, pool: &'a Pool, w: &'a mut Worker) -> Pieces<'a> {
        Pieces { replies: Replies::new(), timestamp: frame.timestamp(), pool, w }
    }

    /// `n` empty frames of the forwarder's pool; None where there are not so many, or `n` is more than [`BATCH_MAX`].
    pub fn alloc(&mut self, n: usize) -> Option<Batch> {
        let mut frames = Batch::new();
        self.pool.alloc_bulk(self.w, &mut frames, n).then_some(frames)
    }

    /// Sends a piece, as [`Replies::push`] does. One that is too long itself is dropped as [`Reason::FragNeeded`].
    ///
    /// # Errors
    /// The frame, where there are [`BATCH_MAX`] already.
    pub fn push(&mut self, mut piece: Frame, verdict: Verdict) -> Result<(), Frame> {
        if self.timestamp.is_some() {
            // A frame without headroom cannot say so.
            let _ = piece.set_timestamp(self.timestamp);
        }
        let verdict = if verdict == Verdict::Fragment { Verdict::Drop(Reason::FragNeeded) } else { verdict };
        self.replies.push(piece, verdict)
    }

    pub(super) fn into_replies(self) -> Replies {
        self.replies
    }
}
