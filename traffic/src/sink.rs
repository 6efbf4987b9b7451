//! The sink: checks every byte of every frame, and the order within each flow.

use zerocopy::FromBytes;

use super::order::{Flow, Tally};
use super::{Format, HOSTS, Head, INTERFACES, TTL, TrafficError};
use netmem::wire::{Ipv4, Malformed, ethernet};

/// The path of the frames to the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// The built-in router: the TTL is decremented, the checksum is valid, and the MAC addresses are those of link
    /// 1.
    Routed,
    /// A cross-connect: no byte changed.
    Unchanged,
    /// Back to the sending host: the MAC addresses are swapped, and no other byte changed.
    Reflected,
}

/// The result of checking a frame.
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

/// The position or the meaning of the first wrong byte of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The frame is longer or shorter than the one that was sent.
    Length,
    /// Magic, flow, sequence number and check do not agree, or there is no such flow. The frame does not belong to
    /// this traffic, or is damaged in these fields.
    Stamp,
    /// The MAC addresses or the ethertype are not those of the link.
    Link,
    /// The IPv4 header is malformed.
    Ipv4(Malformed),
    /// The TTL is not the one expected after the path, and the header is valid.
    Ttl,
    /// Another field of the IPv4 header changed, and the header is valid.
    Header,
    /// The UDP header changed.
    Udp,
    /// The noise changed.
    Payload,
}

impl Fault {
    /// Returns a name for reports.
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

/// The sink. It is made with the same numbers as its [`Traffic`](super::Traffic).
#[derive(Debug, Clone)]
pub struct Sink {
    format: Format,
    flows: Box<[Flow]>,
    tally: Tally,
}

impl Sink {
    /// Makes a sink for the traffic of `flows` flows in frames of `size` bytes that went through `hop`.
    ///
    /// # Errors
    /// [`TrafficError`] if one of them is out of range.
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
    /// Builds the expected first 64 bytes and compares all bytes. Touches 16 bytes of one flow. The first
    /// packet of a flow that is out of order allocates half a KiB.
    #[inline]
    pub fn verify(&mut self, frame: &[u8]) -> Outcome {
        self.tally.received += 1;
        match self.check(frame) {
            Ok((flow, seq)) => {
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

    /// Returns the counts so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    #[inline]
    fn check(&self, frame: &[u8]) -> Result<(u32, u64), Fault> {
        let (head, noise) = Head::ref_from_prefix(frame).map_err(|_| Fault::Length)?;
        let said = head.stamp.identity();
        let (flow, seq) = (u32::from(said.flow), said.seq);
        let want = self.format.head(flow, seq);
        if flow < self.format.flows && *head == want && noise == self.format.noise.after(&want.stamp) {
            Ok((flow, seq))
        } else {
            Err(self.fault(frame, head, &want))
        }
    }

    /// Returns the fault that makes `head`, or the bytes behind it, differ from `want`.
    #[cold]
    fn fault(&self, frame: &[u8], head: &Head, want: &Head) -> Fault {
        if frame.len() != self.format.size {
            Fault::Length
        } else if head.stamp != want.stamp || u32::from(head.stamp.identity().flow) >= self.format.flows {
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
