//! The trait of a decision about frames. It is called once a burst.

use super::verdict::{Code, Reason, Verdict};
use crate::limits::BATCH_MAX;
use crate::packet::Packet;
use crate::pool::{Batch, Frame, Pool};
use crate::steer::Source;
use crate::sync::Worker;
use std::error::Error;
use std::time::Duration;

/// Number of frames by which headers are prefetched ahead of the current frame.
const AHEAD: usize = 24;

/// Decides about the frames that a forwarder received: forward, drop, pass, wait, or fragment.
///
/// A custom dataplane is an implementation of this trait. Only [`decide`](Self::decide) is required. The
/// [`Forwarder`](super::Forwarder) provides the rest: several workers, sleep, latency, rules, mirrors, counters and the
/// data of the control socket. A forwarder has one implementation and calls it only on its own worker, so the
/// implementation needs no lock. Changes that another thread makes to tables are adopted in [`refresh`](Self::refresh).
///
/// # Cost
/// One virtual call for each burst of up to 64 frames. Within [`decide_burst`](Self::decide_burst), the call of
/// `decide` is static and inlines. On the packet path ([`PacketPath`](super::PacketPath)), one virtual call for each
/// packet.
///
/// # Example
/// A filter in front of a wire: frames from port 0 leave by port 1 and the other way round, except those from one
/// source, also behind VLAN tags.
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
    /// Checks whether frames can be forwarded between that many ports. Called once, when the forwarder is made.
    ///
    /// # Errors
    /// Returns the reason why not, as the user will read it.
    fn check(&self, ports: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        let _ = ports;
        Ok(())
    }

    /// Returns whether frames may keep the work that their senders left to be done ([`Frame::offload`]). They then keep
    /// it between ports that carry it: checksums are not completed, and packets of up to 32 KiB are not cut. Called
    /// once, when the forwarder is made.
    ///
    /// A decision that returns true has three duties. It asks for the segment size of a packet that is longer than a
    /// link allows. It takes the offload from a frame of which it makes another packet. It does not check TCP and UDP
    /// checksums, or data that they cover. If a frame leaves by a port that does not [carry
    /// offloads](crate::port::Tx::carries_offloads), or is to be fragmented, the forwarder does the work that is left.
    ///
    /// By default false: all frames come complete, each a packet of its own.
    fn takes_offloads(&self) -> bool {
        false
    }

    /// Decides about a frame that came from `from`. Its bytes may be rewritten.
    fn decide(&mut self, from: Source, frame: &mut [u8]) -> Verdict;

    /// Decides about each frame of a burst; all came from `from`. `verdicts` has one entry for each, in order.
    ///
    /// Implement it by hand if the frames themselves must change (headers added or removed, the end cut off), or if
    /// looking at several together pays.
    ///
    /// A frame that it takes out of the burst counts as [passed](super::Meters::passed), and one that it adds as
    /// [originated](super::Meters::originated). Frames that are to come back by [`resume`](Self::resume) have the
    /// verdict [`Verdict::Wait`] instead.
    fn decide_burst(&mut self, from: Source, burst: &mut Batch, verdicts: &mut Verdicts) {
        burst.each_data_mut(AHEAD, |i, data| verdicts.set(i, self.decide(from, data)));
    }

    /// As [`decide`](Self::decide), for a frame that is a packet: [`PacketPath`](super::PacketPath).
    ///
    /// The content of `packet` after the call goes on. A packet that others read too, or of several parts, is copied
    /// before it goes to a port, goes to the local queue or waits ([`Meters::copied`](super::Meters)).
    fn decide_packet(&mut self, from: Source, packet: &mut Packet) -> Verdict {
        match packet.data_mut() {
            Some(data) => self.decide(from, data),
            // A packet just received is its frame's only holder, so this does not happen here.
            None => Verdict::Drop(Reason::NoMem),
        }
    }

    /// Returns whether [`overruled`](Self::overruled) is to be called. Called once, when the packet path is set.
    fn sees_overruled(&self) -> bool {
        false
    }

    /// Called for a received packet that a rule of the packet path has decided about ([`filter`](super::filter)), so
    /// that this decision is not asked.
    fn overruled(&mut self, from: Source, packet: &Packet, verdict: Verdict) {
        let _ = (from, packet, verdict);
    }

    /// Called for frames dropped for a reason other than this decision's verdict: no room in a transmit ring or in the
    /// local queue, no head, or another later cause. Their bytes may have been rewritten. `from` is the source of
    /// frames that were not decided about at all. If this worker transmits for others ([`returned`](Self::returned)),
    /// another worker's decision may have been about them.
    fn lost(&mut self, from: Option<Source>, reason: Reason, frames: &[Frame]) {
        let _ = (from, reason, frames);
    }

    /// Called for frames to be sent that were not received as they are: fragments, segments, replies. Their further
    /// path does not concern any packet that was decided about.
    fn made(&mut self, frames: &[Frame]) {
        let _ = frames;
    }

    /// Called for frames from `from` that may now go to other workers, undecided, by lanes. Those that stay are decided
    /// about next.
    fn handed(&mut self, from: Source, frames: &[Frame]) {
        let _ = (from, frames);
    }

    /// Called for frames that this worker [handed](Self::handed) over and another worker decided about. They have come
    /// back to be transmitted here.
    fn returned(&mut self, frames: &[Frame]) {
        let _ = frames;
    }

    /// Adopts changes of the tables used by the decision, once a round. Returns true if something changed; waiting
    /// frames are then fetched with [`resume`](Self::resume).
    fn refresh(&mut self) -> bool {
        false
    }

    /// Names of the decision's own reasons, [`Reason::Own`] 0 and following. They are counter names, in snake_case, and at
    /// most 16 ([`Reason::OWN_MAX`]); with more, no forwarder is made.
    fn reasons(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns whether [`answer`](Self::answer) is to be called for frames dropped for `reason`.
    fn answers(&self, reason: Reason) -> bool {
        let _ = reason;
        false
    }

    /// Makes replies of frames that were dropped for `reason` (ICMP errors, for example). Frames moved to `replies` are
    /// sent; the others are freed. The drop is counted in either case, and a reply is counted as
    /// [originated](super::Meters::originated).
    ///
    /// A reply that is dropped in its turn is not answered: neither one with the verdict [`Verdict::Drop`] nor a piece
    /// of one with [`Verdict::Fragment`].
    fn answer(&mut self, from: Source, reason: Reason, dropped: &mut Batch, replies: &mut Replies) {
        let _ = (from, reason, dropped, replies);
    }

    /// Makes several frames of one with [`Verdict::Fragment`]. The frames pushed to `pieces` are sent in its place, in
    /// that order; the frame itself may be one of them. The default implementation fragments none.
    ///
    /// # Errors
    /// Returns the frame if it cannot be fragmented, or if there are no frames for the fragments. It is dropped as
    /// [`Reason::FragFailed`], and no part of it is sent.
    fn fragment(&mut self, from: Source, frame: Frame, pieces: &mut Pieces<'_>) -> Result<(), Frame> {
        let _ = (from, pieces);
        Err(frame)
    }

    /// Takes frames with [`Verdict::Wait`]. Frames that it leaves in `frames`, or exchanges for others (the oldest for
    /// the newest), are dropped as [`Reason::NeighQueueFull`]. The default implementation takes none.
    fn wait(&mut self, from: Source, frames: &mut Batch) {
        let _ = (from, frames);
    }

    /// Number of frames that wait here now. Called after [`wait`](Self::wait), and before and after
    /// [`resume`](Self::resume), for [`Meters::held`](super::Meters::held) and as the limit of a round.
    fn waiting(&self) -> usize {
        0
    }

    /// Returns the next frames that need not wait any more, all from one source, or None if there are no more. Called
    /// after [`refresh`](Self::refresh) returned true, until it returns None.
    ///
    /// Frames may [wait](Self::wait) again at once. So the calls before and after reception end after as many frames as
    /// [`waiting`](Self::waiting) returned before them, but not before the first batch, and the next ones go on.
    fn resume(&mut self) -> Option<(Source, Batch)> {
        None
    }

    /// Decides about frames that waited. By default as [`decide_burst`](Self::decide_burst).
    fn decide_again(&mut self, from: Source, frames: &mut Batch, verdicts: &mut Verdicts) {
        self.decide_burst(from, frames, verdicts);
    }
}

/// The verdicts of a burst: one for each frame, in order.
#[derive(Debug)]
pub struct Verdicts([Code; BATCH_MAX]);

impl Verdicts {
    /// Makes room for those of a burst. Each is a redirect to port 0 until it is set.
    #[inline(always)]
    pub(super) fn new() -> Verdicts {
        Verdicts([Code::FIRST; BATCH_MAX])
    }

    /// Sets the verdict of the frame at `i`.
    ///
    /// # Panics
    /// Panics if `i` is not less than [`BATCH_MAX`].
    #[inline(always)]
    pub fn set(&mut self, i: usize, verdict: Verdict) {
        self.0[i] = verdict.into();
    }

    /// Sets the same verdict for all frames.
    #[inline]
    pub fn fill(&mut self, verdict: Verdict) {
        self.0.fill(verdict.into());
    }

    /// The code of each, in order.
    pub(super) fn codes(&self) -> impl Iterator<Item = Code> {
        self.0.iter().copied()
    }

    /// The verdicts of the first `n` frames in runs of equal ones, each with its length.
    #[inline]
    pub(super) fn runs(&self, n: usize) -> impl Iterator<Item = (Verdict, usize)> {
        Code::runs(&self.0[..n])
    }
}

/// Frames that are sent in place of dropped ones, each with its verdict.
#[derive(Debug)]
pub struct Replies {
    pub(super) frames: Batch,
    pub(super) verdicts: Verdicts,
}

impl Replies {
    pub(super) fn new() -> Replies {
        Replies { frames: Batch::new(), verdicts: Verdicts::new() }
    }

    /// Sends a frame by the port that the verdict names, or by the one that the dropped frame came from
    /// ([`Verdict::Tx`]).
    ///
    /// # Errors
    /// Returns the frame if there are [`BATCH_MAX`] already. No more frames come out than were dropped, so this does
    /// not occur.
    pub fn push(&mut self, frame: Frame, verdict: Verdict) -> Result<(), Frame> {
        let at = self.frames.len();
        self.frames.push(frame)?;
        self.verdicts.set(at, verdict);
        Ok(())
    }
}

/// The frames that are sent in place of a fragmented frame.
#[derive(Debug)]
pub struct Pieces<'a> {
    replies: Replies,
    /// The time when the packet, and so each fragment, was recorded.
    timestamp: Option<Duration>,
    pool: &'a Pool,
    w: &'a mut Worker,
}

impl<'a> Pieces<'a> {
    /// Makes an empty list for the fragments of `frame`.
    pub(super) fn new(frame: &Frame, pool: &'a Pool, w: &'a mut Worker) -> Pieces<'a> {
        Pieces { replies: Replies::new(), timestamp: frame.timestamp(), pool, w }
    }

    /// Allocates `n` empty frames of the forwarder's pool. Returns None if there are not that many, or `n` is more than
    /// [`BATCH_MAX`].
    pub fn alloc(&mut self, n: usize) -> Option<Batch> {
        let mut frames = Batch::new();
        self.pool.alloc_bulk(self.w, &mut frames, n).then_some(frames)
    }

    /// Sends a fragment, as [`Replies::push`] does. A fragment that is too long itself is dropped as
    /// [`Reason::FragFailed`].
    ///
    /// # Errors
    /// Returns the frame if there are [`BATCH_MAX`] already.
    pub fn push(&mut self, mut piece: Frame, verdict: Verdict) -> Result<(), Frame> {
        if self.timestamp.is_some() {
            // A frame without headroom has no room for it.
            let _ = piece.set_timestamp(self.timestamp);
        }
        let verdict = if verdict == Verdict::Fragment { Verdict::Drop(Reason::FragFailed) } else { verdict };
        self.replies.push(piece, verdict)
    }

    pub(super) fn into_replies(self) -> Replies {
        self.replies
    }
}
