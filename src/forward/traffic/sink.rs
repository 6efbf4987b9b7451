//! The sink: checks every byte of every frame, and the order within each flow.

use zerocopy::FromBytes;

use super::{Format, HOSTS, Head, INTERFACES, Stamp, TTL, TrafficError};
use crate::wire::{Ipv4, Malformed, ethernet};

/// What the frames went through on their way to the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// The built-in router: one less TTL, its checksum right, and the link addresses of link 1.
    Routed,
    /// A cross-connect: no byte changed.
    Unchanged,
    /// Back to the host it came from: the link addresses swapped, no other byte changed.
    Reflected,
}

/// What the sink found in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every byte is right.
    Good {
        /// The packet's flow.
        flow: u32,
        /// Its sequence number in the flow.
        seq: u64,
    },
    /// Some byte is wrong.
    Corrupt(Fault),
}

/// Where the first wrong byte of a frame is, or what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The frame is longer or shorter than what was sent.
    Length,
    /// Magic, flow, sequence number and check do not belong together, or there is no such flow:
    /// not a frame of this traffic, or one damaged there.
    Stamp,
    /// The link addresses or the ethertype are not those of the link.
    Link,
    /// The IPv4 header is not even valid.
    Ipv4(Malformed),
    /// The TTL is not what the way leaves of it, and the header is valid.
    Ttl,
    /// Another field of the IPv4 header changed, and the header is valid.
    Header,
    /// The UDP header changed.
    Udp,
    /// The noise changed.
    Payload,
}

impl Fault {
    /// A name for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Length => "length",
            Fault::Stamp => "stamp",
            Fault::Link => "link",
            Fault::Ipv4(malformed) => malformed.name(),
            Fault::Ttl => "ttl",
            Fault::Header => "header",
            Fault::Udp => "udp",
            Fault::Payload => "payload",
        }
    }
}

/// What the sink counted. `received - corrupt - duplicates` different packets came, and `missing`
/// more must have been sent before the last that came of their flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Frames that came, good and corrupt.
    pub received: u64,
    /// Frames with a wrong byte; they count in none of the rest.
    pub corrupt: u64,
    /// Packets that came after a later one of their flow.
    pub reordered: u64,
    /// Packets that had come before.
    pub duplicates: u64,
    /// Packets that have not come although a later one of their flow has.
    pub missing: u64,
}

/// How many sequence numbers back a flow remembers what came. An older packet is taken for late,
/// not for a duplicate.
const REMEMBERED: u64 = u64::BITS as u64;

/// What has come of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    /// One more than the highest sequence number that came.
    next: u64,
    /// Bit `i`: packet `next - 1 - i` has come.
    seen: u64,
}

/// The sink: made with the numbers the [`Traffic`](super::Traffic) was made with.
#[derive(Debug, Clone)]
pub struct Sink {
    format: Format,
    flows: Box<[Flow]>,
    tally: Tally,
}

impl Sink {
    /// A sink for the traffic of `flows` flows in frames of `size` bytes that went through `hop`.
    ///
    /// # Errors
    /// [`TrafficError`] if one of them is out of its range.
    pub fn new(flows: usize, size: usize, hop: Hop) -> Result<Self, TrafficError> {
        let format = match hop {
            Hop::Routed => Format::new(flows, size, INTERFACES[1].mac, HOSTS[1], TTL - 1)?,
            Hop::Unchanged => Format::new(flows, size, HOSTS[0], INTERFACES[0].mac, TTL)?,
            Hop::Reflected => Format::new(flows, size, INTERFACES[0].mac, HOSTS[0], TTL)?,
        };
        Ok(Sink { format, flows: vec![Flow::default(); flows].into(), tally: Tally::default() })
    }

    /// Checks one frame and counts it.
    ///
    /// # Cost
    /// Builds the first 60 bytes as they should be and compares all; touches one flow's 16 bytes.
    #[inline]
    pub fn verify(&mut self, frame: &[u8]) -> Outcome {
        self.tally.received += 1;
        match self.check(frame) {
            Ok(Stamp { flow, seq, .. }) => {
                let (flow, seq) = (flow.get(), seq.get());
                if let Some(record) = self.flows.get_mut(flow as usize) {
                    record.account(seq, &mut self.tally);
                }
                Outcome::Good { flow, seq }
            }
            Err(fault) => {
                self.tally.corrupt += 1;
                Outcome::Corrupt(fault)
            }
        }
    }

    /// What was counted so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    #[inline]
    fn check(&self, frame: &[u8]) -> Result<Stamp, Fault> {
        let (head, noise) = Head::ref_from_prefix(frame).map_err(|_| Fault::Length)?;
        let want = self.format.head(head.stamp.flow.get(), head.stamp.seq.get());
        let known = head.stamp.flow.get() < self.format.flows;
        if known && *head == want && noise == self.format.noise(&want) {
            Ok(head.stamp)
        } else {
            Err(self.fault(frame, head, &want))
        }
    }

    /// Which fault it is that makes `head`, or what follows it, differ from `want`.
    #[cold]
    fn fault(&self, frame: &[u8], head: &Head, want: &Head) -> Fault {
        if frame.len() != self.format.size {
            Fault::Length
        } else if head.stamp != want.stamp || head.stamp.flow.get() >= self.format.flows {
            Fault::Stamp
        } else if head.ethernet != want.ethernet {
            Fault::Link
        } else if let Err(malformed) = Ipv4::parse(frame.get(ethernet::HEADER_LEN..).unwrap_or_default()) {
            Fault::Ipv4(malformed)
        } else if head.ipv4.ttl() != want.ipv4.ttl() {
            Fault::Ttl
        } else if head.ipv4 != want.ipv4 {
            Fault::Header
        } else if head.udp != want.udp {
            Fault::Udp
        } else {
            Fault::Payload
        }
    }
}

impl Flow {
    /// Notes that packet `seq` has come.
    #[inline]
    fn account(&mut self, seq: u64, tally: &mut Tally) {
        if seq == self.next {
            self.next = seq.wrapping_add(1);
            self.seen = self.seen << 1 | 1;
        } else {
            self.account_out_of_order(seq, tally);
        }
    }

    #[cold]
    fn account_out_of_order(&mut self, seq: u64, tally: &mut Tally) {
        if seq > self.next {
            let gap = seq - self.next;
            tally.missing = tally.missing.wrapping_add(gap);
            self.seen = if gap < REMEMBERED - 1 { self.seen << (gap + 1) | 1 } else { 1 };
            self.next = seq.wrapping_add(1);
            return;
        }
        let back = self.next - 1 - seq;
        let bit = if back < REMEMBERED { 1 << back } else { 0 };
        if self.seen & bit != 0 {
            tally.duplicates += 1;
        } else {
            self.seen |= bit;
            tally.reordered += 1;
            tally.missing = tally.missing.saturating_sub(1);
        }
    }
}
