//! What arrives of a [`Stream`](super::Stream): each frame judged by itself, whoever sent it and whatever it went through.

use zerocopy::FromBytes;

use super::noise::is_noise;
use super::order::{Flow, Tally};
use super::stamp::{Identity, Stamp};
use super::{FLOWS_MAX, Fault, STAMP_AT};
use netmem::wire::{Ethernet, Ipv4, Ipv6, MacAddr, Udp, ethernet, ipv4, ipv6, udp};

/// Where the stamp lies in a frame over IPv6.
const STAMP_AT_V6: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + udp::HEADER_LEN;

/// What a frame turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// A packet of the stream, as it was sent as far as can be told.
    Good(Identity),
    /// A packet of the stream with a wrong byte.
    Corrupt(Fault),
    /// No packet of the stream: without a stamp, or of another stream.
    Foreign,
}

/// What all packets of the stream must have where they arrive, besides what they say of themselves. No checksum covers it,
/// and routers change it, so it is only looked at when it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expected {
    /// The stream's number.
    pub stream: u16,
    /// The link address of whoever sends the last hop.
    pub src_mac: Option<MacAddr>,
    /// The link address it arrives at.
    pub dst_mac: Option<MacAddr>,
    /// What is left of TTL or hop limit.
    pub ttl: Option<u8>,
}

/// The receiving end of one stream.
///
/// A frame is *good* if headers, lengths, checksums, stamp and noise agree; *corrupt* if they do not, but it bears a stamp:
/// a whole one, or the magic number of one under a UDP checksum that is wrong; else *foreign*. So one wrong bit is seen
/// wherever it is, but for fields that no checksum covers and routers may change: link addresses and the hop limit of IPv6
/// (unless [`Expected`] knows them) and the traffic class of IPv6. A frame cut off within its stamp is foreign.
#[derive(Debug, Clone)]
pub struct Arrivals {
    expected: Expected,
    flows: Box<[Flow]>,
    tally: Tally,
    foreign: u64,
}

impl Arrivals {
    /// Nothing has arrived yet. Takes 1 MiB, for every flow there may be.
    pub fn new(expected: Expected) -> Self {
        let flows = vec![Flow::default(); FLOWS_MAX].into();
        Arrivals { expected, flows, tally: Tally::default(), foreign: 0 }
    }

    /// Judges one frame and counts it.
    ///
    /// # Cost
    /// Sums up and compares every byte; touches one flow's 16 bytes.
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

    /// What was counted of the stream's packets.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Frames that were none of the stream's; they count in nothing else.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    #[inline]
    fn judge(&self, frame: &[u8]) -> Arrival {
        match open(frame) {
            Ok(packet) if packet.stamp.is_whole() && packet.stamp.has_magic() => self.compare(&packet),
            _ => self.suspect(frame),
        }
    }

    /// A packet with a whole stamp at its place: whether the rest of it is right.
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

    /// A frame in which no whole packet with a whole stamp lies: whether it was one of the stream.
    #[cold]
    fn suspect(&self, frame: &[u8]) -> Arrival {
        let fault = match open(frame) {
            Err(fault) => fault,
            // All else is right, so whoever sent it meant another thing.
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

/// A frame taken apart.
struct Packet<'a> {
    link: &'a Ethernet,
    ttl: u8,
    stamp: &'a Stamp,
    noise: &'a [u8],
    /// Whether the UDP checksum is right.
    is_intact: bool,
}

/// Takes a frame apart, down to where a stamp would be.
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
    // The sender never leaves the checksum out.
    let is_intact = is_intact && header.checksum() != 0;
    Ok(Packet { link, ttl, stamp, noise, is_intact })
}

/// The TTL and the UDP datagram of an IPv4 packet, and whether the datagram is intact.
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

/// The same of an IPv6 packet.
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
