//! The receiving end of a [`Stream`](super::Stream). Each frame is judged by itself, regardless of its sender and
//! its path.

use zerocopy::FromBytes;

use super::noise::is_noise;
use super::order::{Flow, Tally};
use super::stamp::{Identity, Stamp};
use super::{FLOWS_MAX, Fault, STAMP_AT};
use netmem::wire::{Ethernet, Ipv4, Ipv6, MacAddr, Udp, ethernet, ipv4, ipv6, udp};

/// Offset of the stamp in a frame over IPv6.
const STAMP_AT_V6: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + udp::HEADER_LEN;

/// The result of judging a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// A packet of the stream, unchanged as far as can be detected.
    Good(Identity),
    /// A packet of the stream with a wrong byte.
    Corrupt(Fault),
    /// Not a packet of the stream: without a stamp, or of another stream.
    Foreign,
}

/// Fields that all packets of the stream must have when they arrive, other than those in the stamp. No checksum
/// covers these fields, and routers change them, so they are only checked if the expected value is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expected {
    /// The stream's number.
    pub stream: u16,
    /// The MAC address of the last hop's sender.
    pub src_mac: Option<MacAddr>,
    /// The MAC address of the receiver.
    pub dst_mac: Option<MacAddr>,
    /// The TTL or hop limit on arrival.
    pub ttl: Option<u8>,
}

/// The receiving end of one stream.
///
/// A frame is *good* if headers, lengths, checksums, stamp and noise agree. It is *corrupt* if they do not and the
/// frame has a stamp. That is a whole stamp, or the magic number of one under a wrong UDP checksum. All other
/// frames are *foreign*. So one wrong bit is detected wherever it is, except in fields that no checksum covers and
/// that routers may change. These are the MAC addresses and the hop limit of IPv6 (unless [`Expected`] has them),
/// and the traffic class of IPv6. A frame truncated within its stamp is foreign.
#[derive(Debug, Clone)]
pub struct Arrivals {
    expected: Expected,
    flows: Box<[Flow]>,
    tally: Tally,
    foreign: u64,
}

impl Arrivals {
    /// Makes the end before any arrival. It takes 1 MiB, and later half a KiB for each flow with a packet out of
    /// order, so at most 35 MiB.
    pub fn new(expected: Expected) -> Self {
        let flows = vec![Flow::default(); FLOWS_MAX].into();
        Arrivals { expected, flows, tally: Tally::default(), foreign: 0 }
    }

    /// Judges one frame and counts it.
    ///
    /// # Cost
    /// Sums up and compares every byte, and touches 16 bytes of one flow. The first packet of a flow that is out of
    /// order allocates half a KiB.
    #[inline]
    pub fn take(&mut self, frame: &[u8]) -> Arrival {
        let arrival = self.judge(frame);
        match arrival {
            Arrival::Good(Identity { flow, seq, .. }) => {
                self.tally.received += 1;
                if let Some(record) = self.flows.get_mut(usize::from(flow)) {
                    record.account(seq, &mut self.tally);
                }
            }
            Arrival::Corrupt(_) => {
                self.tally.received += 1;
                self.tally.corrupt += 1;
            }
            Arrival::Foreign => self.foreign += 1,
        }
        arrival
    }

    /// Returns the counts of the stream's packets.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Returns the number of frames that did not belong to the stream. They are in no other count.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Returns the number of flows of which a good packet has arrived.
    ///
    /// # Cost
    /// Looks at every possible flow.
    pub fn flows(&self) -> usize {
        self.flows.iter().filter(|flow| flow.is_seen()).count()
    }

    #[inline]
    fn judge(&self, frame: &[u8]) -> Arrival {
        match open(frame) {
            Ok(packet) if packet.stamp.is_whole() && packet.stamp.has_magic() => self.compare(&packet),
            _ => self.suspect(frame),
        }
    }

    /// Checks the rest of a packet that has a whole stamp in its place.
    #[inline]
    fn compare(&self, packet: &Packet<'_>) -> Arrival {
        let &Packet { link, ttl, stamp, noise, .. } = packet;
        let Expected { stream, src_mac, dst_mac, ttl: left } = self.expected;
        let said = stamp.identity();
        let differs = |wanted: Option<MacAddr>, is: MacAddr| wanted.is_some_and(|wanted| wanted != is);
        if said.stream != stream || usize::from(said.flow) >= FLOWS_MAX {
            Arrival::Foreign
        } else if differs(src_mac, link.src) || differs(dst_mac, link.dst) {
            Arrival::Corrupt(Fault::Link)
        } else if left.is_some_and(|left| left != ttl) {
            Arrival::Corrupt(Fault::Ttl)
        } else if !is_noise(noise, stamp) {
            Arrival::Corrupt(Fault::Payload)
        } else if !packet.is_intact {
            Arrival::Corrupt(Fault::Udp)
        } else {
            Arrival::Good(said)
        }
    }

    /// Decides whether a frame without a whole packet and stamp belonged to the stream.
    #[cold]
    fn suspect(&self, frame: &[u8]) -> Arrival {
        let fault = match open(frame) {
            Err(fault) => fault,
            // Everything else is right, so its sender meant it to be another packet.
            Ok(packet) if packet.is_intact => return Arrival::Foreign,
            Ok(_) => Fault::Stamp,
        };
        let is_ours = |at: usize| {
            let stamp = frame.get(at..).and_then(|rest| Stamp::ref_from_prefix(rest).ok());
            stamp.is_some_and(|(stamp, _)| match stamp.is_whole() {
                true => stamp.identity().stream == self.expected.stream,
                false => stamp.has_magic() && fault == Fault::Stamp,
            })
        };
        match is_ours(STAMP_AT) || is_ours(STAMP_AT_V6) {
            true => Arrival::Corrupt(fault),
            false => Arrival::Foreign,
        }
    }
}

/// A parsed frame.
struct Packet<'a> {
    link: &'a Ethernet,
    ttl: u8,
    stamp: &'a Stamp,
    noise: &'a [u8],
    /// True if the UDP checksum is valid.
    is_intact: bool,
}

/// Parses a frame up to the place of a stamp.
#[inline]
fn open(frame: &[u8]) -> Result<Packet<'_>, Fault> {
    let (link, packet) = Ethernet::parse(frame).map_err(|_| Fault::Length)?;
    let (ttl, datagram, is_intact) = match link.ethertype() {
        ethernet::IPV4 => open_v4(packet)?,
        ethernet::IPV6 => open_v6(packet)?,
        _ => return Err(Fault::Link),
    };
    let (header, payload) = Udp::parse(datagram).ok_or(Fault::Udp)?;
    if usize::from(header.length()) != datagram.len() {
        return Err(Fault::Udp);
    }
    let (stamp, noise) = Stamp::ref_from_prefix(payload).map_err(|_| Fault::Length)?;
    // The sender always writes the checksum.
    let is_intact = is_intact && header.checksum() != 0;
    Ok(Packet { link, ttl, stamp, noise, is_intact })
}

/// Returns the TTL and the UDP datagram of an IPv4 packet, and true if the datagram is intact.
#[inline]
fn open_v4(packet: &[u8]) -> Result<(u8, &[u8], bool), Fault> {
    let (header, datagram) = Ipv4::parse(packet).map_err(Fault::Ipv4)?;
    if header.protocol() != ipv4::UDP || header.is_fragment() {
        return Err(Fault::Header);
    }
    if usize::from(header.total_length()) != packet.len() {
        return Err(Fault::Length);
    }
    Ok((header.ttl(), datagram, udp::intact(header.src(), header.dst(), datagram)))
}

/// Does the same for an IPv6 packet.
#[inline]
fn open_v6(packet: &[u8]) -> Result<(u8, &[u8], bool), Fault> {
    let (header, datagram) = Ipv6::read(packet).ok_or(Fault::Header)?;
    if header.next_header() != ipv4::UDP || header.flow_label() != 0 {
        return Err(Fault::Header);
    }
    if usize::from(header.payload_length()) != datagram.len() {
        return Err(Fault::Length);
    }
    Ok((header.hop_limit(), datagram, udp::intact_v6(header.src(), header.dst(), datagram)))
}
