//! The router as the forwarder's decision.

use crate::icmp::{IcmpControl, IcmpCounters, IcmpError, IcmpLimit, Limiter, Message, Suppression};
use crate::interface::{Interface, ReversePath};
use crate::ip::{decide, decide_other, forward_admitted, forward_checked, forward_plain, fragment, unpadded};
use crate::neighbour_queues::NeighbourQueues;
use crate::route::{Fib, FibReader};
use netmem::forward::{Decide, Pieces, Reason, Replies, Verdict, Verdicts};
use netmem::packet::Packet;
use netmem::pool::{Batch, Frame};
use netmem::stats::Writer;
use netmem::steer::Source;
use netmem::wire::ethernet;
use netmem::wire::offload::Offload;
use netmem::wire::segment::Segments;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

/// Number of frames ahead of the current one whose headers are prefetched.
const AHEAD: usize = 24;

/// An IP router on one worker: validation, longest-prefix match, TTL, checksum, MAC addresses, fragments and ICMP
/// errors. Padding of the link and priority tags (802.1Q, VID 0) are taken off a packet.
///
/// The table may change while the router runs. Each worker has a router of its own, with a clone of the
/// [`FibReader`].
#[derive(Debug)]
pub struct Router {
    fib: FibReader,
    /// Frames that wait for a neighbour's MAC address. If this is None, such frames are dropped.
    queues: Option<NeighbourQueues>,
    /// The rate limits of ICMP errors.
    limiter: Limiter,
    icmp: Writer<IcmpCounters>,
    /// The origin of the router's times.
    began: Instant,
}

/// The number of interfaces differs from the number of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{interfaces} interfaces for {ports} ports: give one for each")]
pub struct MissingInterfaces {
    /// Number of interfaces.
    pub interfaces: usize,
    /// Number of ports.
    pub ports: usize,
}

impl Router {
    /// Makes a router with this table. The router drops frames that would wait for a neighbour, and sends ICMP
    /// errors at the default rate.
    pub fn new(fib: FibReader) -> Router {
        let limiter = Limiter::new(IcmpLimit::default());
        let icmp = Writer::new(IcmpCounters::default());
        Router { fib, queues: None, limiter, icmp, began: Instant::now() }
    }

    /// Lets frames wait for their next hop's MAC address, in these queues. Without them such frames are dropped.
    #[must_use]
    pub fn with_neighbour_queues(self, queues: NeighbourQueues) -> Router {
        Router { queues: Some(queues), ..self }
    }

    /// Sets the rate limits of ICMP errors.
    #[must_use]
    pub fn with_icmp_limit(self, limit: IcmpLimit) -> Router {
        self.limiter.control().set(limit);
        self
    }

    /// Returns a control by which any thread reads and changes the rate limits of ICMP errors.
    pub fn icmp_control(&self) -> IcmpControl {
        self.limiter.control()
    }

    /// Returns the counters of ICMP errors. Any thread may read them.
    pub fn icmp_counters(&self) -> Arc<IcmpCounters> {
        self.icmp.reader()
    }

    /// Returns the nanoseconds since the router was made.
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
        if has_changed && let Some(queues) = &mut self.queues {
            queues.table_changed();
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
        // Two loops, so that a port without the check does not test for it at each frame.
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
        // The packet was just received and has the only claim on its frame, so this does not happen.
        let Some(data) = packet.data_mut() else { return Verdict::Drop(Reason::NoMem) };
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

    /// Turns each dropped frame into an ICMP error, if its sender is to be informed.
    ///
    /// No error is sent about an error, so an error that is dropped in its turn ends here.
    #[cold]
    fn answer(&mut self, from: Source, reason: Reason, dropped: &mut Batch, replies: &mut Replies) {
        let Some(message) = Message::of(reason) else { return };
        let (now, fib) = (self.now(), self.fib.fib());
        let mut silent = Batch::new();
        for mut frame in dropped.drain() {
            // The frame becomes another packet. Clearing its offload request always succeeds.
            let _ = frame.set_offload(Offload::default());
            let said = say(&mut frame, (message, from.port, fib), (&mut self.limiter, now));
            match said {
                Some(Ok(_)) => IcmpCounters::count_sent(&self.icmp, message),
                Some(Err(why)) => IcmpCounters::count_suppressed(&self.icmp, why),
                None => {}
            }
            // There is room: `replies` and `silent` get at most as many frames as came in.
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
        if let Some(queues) = &mut self.queues {
            queues.put(from, frames, &self.fib.fib().table, now);
        }
    }

    fn waiting(&self) -> usize {
        self.queues.as_ref().map_or(0, NeighbourQueues::frames)
    }

    #[cold]
    fn resume(&mut self) -> Option<(Source, Batch)> {
        let now = self.now();
        self.queues.as_mut()?.next_due(&self.fib.fib().table, now)
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

/// Returns true if the check of the port on which a frame came in rejects its source.
#[inline(always)]
fn is_refused(frame: &[u8], from: Source, ingress: &Interface, fib: &Fib) -> bool {
    // If no port has a check, the first condition is enough.
    !fib.reverse_path.is_empty() && fib.reverse_path_of(from.port).refuses(frame, from.port, ingress, fib)
}

/// Decides about each frame of a burst that came in by `ingress`. A frame that `refuses` rejects is dropped.
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

/// Takes padding and priority tags off the frames whose bits are set. Padding is not part of the packet, and its
/// contents are unknown. A frame without its priority tag is like an untagged one, so it is decided about once
/// more. Returns the bits of the frames that are too long after that.
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

/// Returns true if the verdict says that a frame is longer than its path allows. A frame that stands for several
/// segments may be.
fn is_too_long(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Fragment | Verdict::Drop(Reason::PktTooBig))
}

/// Returns the bytes of the longest IP packet among the segments of a frame, or None if the frame is one packet.
fn longest_segment(frame: &[u8], offload: &Offload) -> Option<usize> {
    Segments::of(frame, offload).ok().map(|segments| segments.packet_len())
}

/// Decides again about the too long frames whose bits are set, by the segments that they stand for.
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

/// Decides about a packet that is not an ordinary one. It is stripped, and decided about by segment, like frames.
#[inline(never)]
fn decide_other_packet(packet: &mut Packet, (ingress, fib): (&Interface, &Fib)) -> Verdict {
    let Some(data) = packet.data_mut() else { return Verdict::Drop(Reason::NoMem) };
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

/// Takes padding and a priority tag off a packet. Returns the verdict, which is new if there was a tag and
/// `verdict` otherwise.
fn strip_packet(packet: &mut Packet, mut verdict: Verdict, (ingress, fib): (&Interface, &Fib)) -> Verdict {
    if packet.data_mut().is_some_and(ethernet::cover_priority_tag) {
        // There is a tag in front, and the new length is at most the old one: neither call can fail.
        let _ = packet.pull(ethernet::TAG_LEN);
        verdict = packet.data_mut().map_or(verdict, |data| decide(data, ingress, fib).0);
    }
    let _ = packet.trim(unpadded(packet.data()));
    verdict
}

/// The path on which an error goes back.
#[derive(Clone, Copy)]
enum Returns {
    /// Like a received frame.
    Routed,
    /// To the sender of the packet, on its link.
    OnLink,
}

/// Turns the frame of a packet into an ICMP error about the packet, if an error may be sent and the limiter has a token
/// for its source. Returns None if this packet has no such error.
fn say(
    frame: &mut Frame,
    (message, from, fib): (Message, u8, &Fib),
    (limiter, now): (&mut Limiter, u64),
) -> Option<Result<Returns, Suppression>> {
    // An error that has no path back takes no token.
    let allowed = |source| limiter.allows(message, source, now);
    let error = IcmpError::about_if(allowed, frame.data(), message, from, fib)?;
    Some(error.and_then(|error| {
        limiter.take(message, error.to(), now)?;
        error.write(frame)?;
        Ok(if error.stays_on_link() { Returns::OnLink } else { Returns::Routed })
    }))
}
