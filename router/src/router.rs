//! The router as a forwarder asks it.

use crate::icmp::{IcmpControl, IcmpCounters, IcmpError, IcmpLimit, Limiter, Message, Silence};
use crate::interface::{Interface, ReversePath};
use crate::ip::{decide, decide_other, forward_admitted, forward_checked, forward_plain, fragment, unpadded};
use crate::route::{Fib, FibReader};
use crate::waiting::Waiting;
use netmem::forward::{Decide, Pieces, Reason, Replies, Verdict, Verdicts};
use netmem::packet::Packet;
use netmem::pool::{Batch, Frame};
use netmem::stats::Writer;
use netmem::steer::Source;
use netmem::wire::ethernet;
use netmem::wire::offload::Offload;
use netmem::wire::segment::Segments;
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// Frames ahead of the one in work whose headers are prefetched.
const AHEAD: usize = 24;

/// An IP router on one worker: validation, longest-prefix match, TTL, checksum, MAC addresses, fragments, ICMP errors. Padding of the
/// link and priority tags (802.1Q, VID 0) do not leave with a packet.
///
/// The table may change while it works: each worker has a router of its own, with a clone of the [`FibReader`].
#[derive(Debug)]
pub struct Router {
    fib: FibReader,
    /// Where frames wait for a neighbour's MAC address; without it they are dropped.
    waiting: Option<Waiting>,
    /// How many ICMP errors are sent.
    limiter: Limiter,
    icmp: Writer<IcmpCounters>,
    /// Times are since then.
    began: Instant,
}

/// Every port needs an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{interfaces} interfaces for {ports} ports: give one for each")]
pub struct MissingInterfaces {
    /// Interfaces given.
    pub interfaces: usize,
    /// Ports given.
    pub ports: usize,
}

impl Router {
    /// A router with this table, that drops what would wait for a neighbour, and sends ICMP errors at the default rate.
    pub fn new(fib: FibReader) -> Router {
        let limiter = Limiter::new(IcmpLimit::default());
        let icmp = Writer::new(IcmpCounters::default());
        Router { fib, waiting: None, limiter, icmp, began: Instant::now() }
    }

    /// Lets frames wait for their next hop's MAC address.
    #[must_use]
    pub fn with_waiting(self, waiting: Waiting) -> Router {
        Router { waiting: Some(waiting), ..self }
    }

    /// Limits how many ICMP errors are sent.
    #[must_use]
    pub fn with_icmp_limit(self, limit: IcmpLimit) -> Router {
        self.limiter.control().set(limit);
        self
    }

    /// What reads and changes the limit of ICMP errors, from any thread.
    pub fn icmp_control(&self) -> IcmpControl {
        self.limiter.control()
    }

    /// The counters of ICMP errors, readable from any thread.
    pub fn icmp_counters(&self) -> Arc<IcmpCounters> {
        self.icmp.reader()
    }

    /// Nanoseconds since the router was made.
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

impl Decide for Router {
    fn check(&self, ports: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        match self.fib.fib().interfaces.len() {
            interfaces if interfaces == ports => Ok(()),
            interfaces => Err(Box::new(MissingInterfaces { interfaces, ports })),
        }
    }

    #[inline]
    fn refresh(&mut self) -> bool {
        let has_changed = self.fib.refresh();
        if has_changed && let Some(waiting) = &mut self.waiting {
            waiting.table_changed();
        }
        has_changed
    }

    fn takes_offloads(&self) -> bool {
        true
    }

    #[inline]
    fn decide(&mut self, from: Source, frame: &mut [u8]) -> Verdict {
        let fib = self.fib.fib();
        let ingress = &fib.interfaces[usize::from(from.port)];
        if is_refused(frame, from, ingress, fib) {
            return Verdict::Drop(Reason::IpRpfilter);
        }
        decide(frame, ingress, fib).0
    }

    #[inline]
    fn decide_burst(&mut self, from: Source, burst: &mut Batch, verdicts: &mut Verdicts) {
        let fib = self.fib.fib();
        let ingress = fib.interfaces[usize::from(from.port)];
        // Two loops, so that ports without the check do not ask about it for each frame.
        match fib.reverse_path_of(from.port) {
            ReversePath::Off => decide_each(burst, (&ingress, fib), verdicts, |_| false),
            how => {
                let refuses = |data: &[u8]| how.refuses(data, from.port, &ingress, fib);
                decide_each(burst, (&ingress, fib), verdicts, refuses);
            }
        }
    }

    #[inline]
    fn decide_packet(&mut self, from: Source, packet: &mut Packet) -> Verdict {
        let fib = self.fib.fib();
        // A packet just received is its frame's only holder, so this is never seen.
        let Some(data) = packet.data_mut() else { return Verdict::Drop(Reason::Policy) };
        let ingress = &fib.interfaces[usize::from(from.port)];
        if is_refused(data, from, ingress, fib) {
            return Verdict::Drop(Reason::IpRpfilter);
        }
        match forward_plain(data, ingress, fib) {
            Some(port) => Verdict::Redirect(port),
            None => decide_other_packet(packet, (ingress, fib)),
        }
    }

    fn answers(&self, reason: Reason) -> bool {
        Message::of(reason).is_some()
    }

    /// Makes an ICMP error of each dropped frame of which its sender is to be told.
    ///
    /// An error is never answered itself, so this goes no deeper than one error's own drop.
    #[cold]
    fn answer(&mut self, from: Source, reason: Reason, dropped: &mut Batch, replies: &mut Replies) {
        let Some(message) = Message::of(reason) else { return };
        let (now, fib) = (self.now(), self.fib.fib());
        let mut silent = Batch::new();
        for mut frame in dropped.drain() {
            // It becomes another packet; that nothing is left to be done to that has always room.
            let _ = frame.set_offload(Offload::default());
            let said = say(&mut frame, (message, from.port, fib), |source| self.limiter.take(source, now));
            match said {
                Some(Ok(_)) => IcmpCounters::sent(&self.icmp, message),
                Some(Err(why)) => IcmpCounters::silent(&self.icmp, why),
                None => {}
            }
            // There is room: no more come out than came in.
            drop(match said {
                Some(Ok(Returns::OnLink)) => replies.push(frame, Verdict::Tx),
                Some(Ok(Returns::Routed)) => {
                    let verdict = forward_admitted(frame.data_mut(), fib);
                    replies.push(frame, verdict)
                }
                _ => silent.push(frame),
            });
        }
        dropped.append(&mut silent);
    }

    #[cold]
    fn fragment(&mut self, _: Source, frame: Frame, pieces: &mut Pieces<'_>) -> Result<(), Frame> {
        fragment(frame, self.fib.fib(), pieces)
    }

    #[cold]
    fn wait(&mut self, from: Source, frames: &mut Batch) {
        let now = self.now();
        if let Some(waiting) = &mut self.waiting {
            waiting.put(from, frames, &self.fib.fib().table, now);
        }
    }

    fn waiting(&self) -> usize {
        self.waiting.as_ref().map_or(0, Waiting::frames)
    }

    #[cold]
    fn resume(&mut self) -> Option<(Source, Batch)> {
        let now = self.now();
        self.waiting.as_mut()?.next_due(&self.fib.fib().table, now)
    }

    #[cold]
    fn decide_again(&mut self, _: Source, frames: &mut Batch, verdicts: &mut Verdicts) {
        let (fib, mut long) = (self.fib.fib(), 0_u64);
        frames.each_data_mut(0, |i, data| {
            let verdict = forward_admitted(data, fib);
            verdicts.set(i, verdict);
            long |= u64::from(is_too_long(verdict)) << i;
        });
        decide_by_segment(frames, long, (None, fib), verdicts);
    }
}

/// Whether a frame may not come from where it says, by the check of the port that it came in by, if that has one.
#[inline(always)]
fn is_refused(frame: &[u8], from: Source, ingress: &Interface, fib: &Fib) -> bool {
    // Where no port has a check, the first look ends it.
    !fib.reverse_path.is_empty() && fib.reverse_path_of(from.port).refuses(frame, from.port, ingress, fib)
}

/// Decides about each frame of a burst that came in by `ingress`, but those that this refuses.
#[inline(always)]
fn decide_each(
    burst: &mut Batch,
    (ingress, fib): (&Interface, &Fib),
    verdicts: &mut Verdicts,
    refuses: impl Fn(&[u8]) -> bool,
) {
    let (mut odd, mut long) = (0_u64, 0_u64);
    burst.each_data_mut(AHEAD, |i, data| {
        if refuses(data) {
            verdicts.set(i, Verdict::Drop(Reason::IpRpfilter));
        } else if let Some(port) = forward_plain(data, ingress, fib) {
            verdicts.set(i, Verdict::Redirect(port));
        } else {
            let (verdict, is_odd) = decide_other(data, ingress, fib);
            verdicts.set(i, verdict);
            odd |= u64::from(is_odd) << i;
            long |= u64::from(is_too_long(verdict)) << i;
        }
    });
    if odd != 0 {
        long |= strip(burst, odd, (ingress, fib), verdicts);
    }
    if long != 0 {
        decide_by_segment(burst, long, (Some(ingress), fib), verdicts);
    }
}

/// Takes off the frames whose bits are set what the link put there: padding, which is no part of their packets and of which nobody
/// said what is in it, and priority tags, behind which a frame is as untagged ones are, so that it is decided about once more. Returns
/// the bits of those that are too long then.
#[cold]
#[inline(never)]
fn strip(burst: &mut Batch, odd: u64, (ingress, fib): (&Interface, &Fib), verdicts: &mut Verdicts) -> u64 {
    let mut long = 0;
    for i in (0..burst.len()).filter(|i| odd >> i & 1 == 1) {
        if ethernet::cover_priority_tag(burst.data_mut(i)) {
            burst.pull(i, ethernet::TAG_LEN);
            let verdict = decide(burst.data_mut(i), ingress, fib).0;
            verdicts.set(i, verdict);
            long |= u64::from(is_too_long(verdict)) << i;
        }
        burst.trim(i, unpadded(burst[i].data()));
    }
    long
}

/// Whether a frame is longer than its way allows; so may those be that stand for several segments.
fn is_too_long(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Fragment | Verdict::Drop(Reason::PktTooBig))
}

/// Bytes of the longest packet of IP that a frame is to be cut into; None where it is one packet.
fn longest_segment(frame: &[u8], offload: &Offload) -> Option<usize> {
    Segments::of(frame, offload).ok().map(|segments| segments.packet_len())
}

/// Decides once more about the frames whose bits are set, which are too long, by the segments that they stand for.
#[cold]
#[inline(never)]
fn decide_by_segment(
    burst: &mut Batch,
    long: u64,
    (ingress, fib): (Option<&Interface>, &Fib),
    verdicts: &mut Verdicts,
) {
    for i in (0..burst.len()).filter(|i| long >> i & 1 == 1) {
        let offload = burst[i].offload();
        if let Some(longest) = offload.and_then(|offload| longest_segment(burst[i].data(), &offload)) {
            verdicts.set(i, forward_checked(burst.data_mut(i), ingress, Some(longest), fib));
        }
    }
}

/// What becomes of a packet that is not as usual: it is stripped, and decided about by segment, as frames are.
#[inline(never)]
fn decide_other_packet(packet: &mut Packet, (ingress, fib): (&Interface, &Fib)) -> Verdict {
    let Some(data) = packet.data_mut() else { return Verdict::Drop(Reason::Policy) };
    let verdict = match decide_other(data, ingress, fib) {
        (verdict, false) => verdict,
        (verdict, true) => strip_packet(packet, verdict, (ingress, fib)),
    };
    if !is_too_long(verdict) {
        return verdict;
    }
    let longest = packet.offload().and_then(|offload| longest_segment(packet.data(), &offload));
    match (longest, packet.data_mut()) {
        (Some(longest), Some(data)) => forward_checked(data, Some(ingress), Some(longest), fib),
        _ => verdict,
    }
}

/// Takes off a packet what the link put there; what becomes of it, which was `verdict` with a tag.
fn strip_packet(packet: &mut Packet, mut verdict: Verdict, (ingress, fib): (&Interface, &Fib)) -> Verdict {
    if packet.data_mut().is_some_and(ethernet::cover_priority_tag) {
        // There is a tag in front, and there is no more behind than there is: neither can fail.
        let _ = packet.pull(ethernet::TAG_LEN);
        verdict = packet.data_mut().map_or(verdict, |data| decide(data, ingress, fib).0);
    }
    let _ = packet.trim(unpadded(packet.data()));
    verdict
}

/// How an error goes back.
#[derive(Clone, Copy)]
enum Returns {
    /// As a frame that comes in.
    Routed,
    /// To the sender of the packet, on that link.
    OnLink,
}

/// Makes an error of the frame that holds the packet it is about, if there may be one and `limit` has nothing against one to its source;
/// None where there is nothing to be said.
fn say(
    frame: &mut Frame,
    (message, from, fib): (Message, u8, &Fib),
    limit: impl FnOnce(IpAddr) -> Result<(), Silence>,
) -> Option<Result<Returns, Silence>> {
    let error = IcmpError::about(frame.data(), message, from, fib)?;
    Some(error.and_then(|error| {
        limit(error.to())?;
        error.write(frame)?;
        Ok(if error.stays_on_link() { Returns::OnLink } else { Returns::Routed })
    }))
}
