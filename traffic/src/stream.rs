//! A stream of packets for real networks: chosen addresses, several sizes, IPv4 or IPv6, each with the time it was sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::noise::Noise;
use super::stamp::{Identity, Stamp, WRAP};
use super::{
    DISCARD, HEAD_LEN, HOSTS, Head, INTERFACES, SIZE_MAX, SIZE_MIN, TTL, TrafficError, Way, check_flows,
};
use netmem::wire::{Ethernet, Ipv6, MacAddr, Udp, ethernet, ipv4, udp};

/// Bytes of the smallest frame over IPv6, without frame check sequence.
pub const SIZE_MIN_V6: usize = size_of::<HeadV6>();

/// `n` neighbours from `first` on; flow `i` takes the one at `i` modulo `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<T> {
    /// The first.
    pub first: T,
    /// How many; 0 is as 1.
    pub n: u32,
}

impl<T> Span<T> {
    /// That one alone.
    pub const fn one(first: T) -> Self {
        Span { first, n: 1 }
    }

    /// How far from the first flow `flow` is.
    #[inline]
    fn step(&self, flow: u32) -> u32 {
        flow % self.n.max(1)
    }
}

/// The hosts that flows go between: sources, then destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// Of IPv4.
    V4(Span<Ipv4Addr>, Span<Ipv4Addr>),
    /// Of IPv6.
    V6(Span<Ipv6Addr>, Span<Ipv6Addr>),
}

impl Addresses {
    /// From sources to destinations; `None` where one is of IPv4 and the other of IPv6.
    pub fn new(src: Span<IpAddr>, dst: Span<IpAddr>) -> Option<Self> {
        match (src.first, dst.first) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                Some(Addresses::V4(Span { first: from, n: src.n }, Span { first: to, n: dst.n }))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                Some(Addresses::V6(Span { first: from, n: src.n }, Span { first: to, n: dst.n }))
            }
            _ => None,
        }
    }
}

/// What a [`Stream`] is to send. By default what the built-in generator does, one flow of 64-byte frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamConfig {
    /// The stream's number, for sinks that get several.
    pub stream: u16,
    /// Flows, which take turns: 1 to [`FLOWS_MAX`](super::FLOWS_MAX).
    pub flows: usize,
    /// Bytes of each frame, without frame check sequence; packets take them in turn, over and over.
    pub sizes: Vec<usize>,
    /// The sender's link address.
    pub src_mac: MacAddr,
    /// The link address of the next hop.
    pub dst_mac: MacAddr,
    /// Between which hosts.
    pub addresses: Addresses,
    /// UDP ports that flows come from.
    pub src_ports: Span<u16>,
    /// UDP ports that they go to.
    pub dst_ports: Span<u16>,
    /// TTL or hop limit.
    pub ttl: u8,
}

impl Default for StreamConfig {
    fn default() -> Self {
        let (from, to) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 1, 0, 1));
        StreamConfig {
            stream: 0,
            flows: 1,
            sizes: vec![SIZE_MIN],
            src_mac: HOSTS[0],
            dst_mac: INTERFACES[0].mac,
            addresses: Addresses::V4(Span::one(from), Span::one(to)),
            src_ports: Span { first: 0xc000, n: 0x4000 },
            dst_ports: Span::one(DISCARD),
            ttl: TTL,
        }
    }
}

/// Writes the packets of a stream, one after the other, round robin over the flows.
#[derive(Debug, Clone)]
pub struct Stream {
    config: StreamConfig,
    ethernet: Ethernet,
    /// The noise of each of the sizes.
    noises: Vec<Noise>,
    /// Which size is next; within `config.sizes`.
    turn: usize,
    flow: u32,
    seq: u64,
}

impl Stream {
    /// A stream at its first packet.
    ///
    /// # Errors
    /// [`TrafficError`] if the flows or a size are out of their range, which begins with 64 bytes over IPv4 and with
    /// [`SIZE_MIN_V6`] over IPv6.
    pub fn new(config: StreamConfig) -> Result<Self, TrafficError> {
        check_flows(config.flows)?;
        let (ethertype, head) = match config.addresses {
            Addresses::V4(..) => (ethernet::IPV4, HEAD_LEN),
            Addresses::V6(..) => (ethernet::IPV6, SIZE_MIN_V6),
        };
        if config.sizes.is_empty() {
            return Err(TrafficError::NoSize);
        }
        if let Some(&size) = config.sizes.iter().find(|size| !(head..=SIZE_MAX).contains(size)) {
            return Err(TrafficError::Size { size, least: head });
        }
        let noises = config.sizes.iter().map(|size| Noise::new(size - head)).collect();
        let ethernet = Ethernet::new(config.dst_mac, config.src_mac, ethertype);
        Ok(Stream { config, ethernet, noises, turn: 0, flow: 0, seq: 0 })
    }

    /// Bytes of the next frame.
    #[inline]
    pub fn next_size(&self) -> usize {
        self.config.sizes[self.turn]
    }

    /// Writes the next frame, sent at `time` (nanoseconds, of which the lower 48 bits go along), at the start of `buf`, and
    /// gives its size; 0, and nothing is written or skipped, if `buf` is shorter than that.
    ///
    /// # Cost
    /// Builds 64 or 84 bytes and copies the rest; allocates nothing.
    #[inline]
    pub fn write(&mut self, buf: &mut [u8], time: u64) -> usize {
        let size = self.next_size();
        let Some(frame) = buf.get_mut(..size) else { return 0 };
        let identity =
            Identity { stream: self.config.stream, flow: self.flow as u16, seq: self.seq, time: time % WRAP };
        let stamp = Stamp::new(identity);
        self.fill(frame, stamp);
        self.advance();
        size
    }

    /// Writes the frame with that stamp.
    #[inline]
    fn fill(&self, frame: &mut [u8], stamp: Stamp) {
        let StreamConfig { addresses, src_ports, dst_ports, ttl, .. } = &self.config;
        let (flow, noise, len) = (self.flow, &self.noises[self.turn], frame.len());
        let ports = (
            src_ports.first.wrapping_add(src_ports.step(flow) as u16),
            dst_ports.first.wrapping_add(dst_ports.step(flow) as u16),
        );
        let rest = match addresses {
            Addresses::V4(src, dst) => {
                let at =
                    |of: &Span<Ipv4Addr>| Ipv4Addr::from_bits(of.first.to_bits().wrapping_add(of.step(flow)));
                let way = Way { src: at(src), dst: at(dst), ports, ttl: *ttl };
                let Ok((head, rest)) = Head::mut_from_prefix(frame) else { return };
                *head = Head::new(self.ethernet, &way, stamp, noise, len);
                rest
            }
            Addresses::V6(src, dst) => {
                let at = |of: &Span<Ipv6Addr>| {
                    Ipv6Addr::from_bits(of.first.to_bits().wrapping_add(of.step(flow).into()))
                };
                let way = Way { src: at(src), dst: at(dst), ports, ttl: *ttl };
                let Ok((head, rest)) = HeadV6::mut_from_prefix(frame) else { return };
                *head = HeadV6::new(self.ethernet, &way, stamp, noise, len);
                rest
            }
        };
        rest.copy_from_slice(noise.behind(&stamp));
    }

    #[inline]
    fn advance(&mut self) {
        self.turn += 1;
        if self.turn == self.noises.len() {
            self.turn = 0;
        }
        self.flow += 1;
        if self.flow as usize == self.config.flows {
            self.flow = 0;
            self.seq = (self.seq + 1) % WRAP;
        }
    }
}

/// What stands before the noise of a frame over IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeadV6 {
    ethernet: Ethernet,
    ipv6: Ipv6,
    udp: Udp,
    stamp: Stamp,
}

const _: () = assert!(size_of::<HeadV6>() == 84);

impl HeadV6 {
    /// As [`Head::new`].
    #[inline]
    fn new(ethernet: Ethernet, way: &Way<Ipv6Addr>, stamp: Stamp, noise: &Noise, len: usize) -> Self {
        let &Way { src, dst, ports: (from, to), ttl } = way;
        let datagram_len = (len - ethernet::HEADER_LEN - size_of::<Ipv6>()) as u16;
        let mut udp = Udp::new(from, to, datagram_len - udp::HEADER_LEN as u16);
        let sum = udp::pseudo_header_v6(src, dst, datagram_len) + udp.sum() + stamp.sum();
        udp.set_checksum(udp::checksum(sum + noise.sum(&stamp)));
        HeadV6 { ethernet, ipv6: Ipv6::new(src, dst, ipv4::UDP, ttl, datagram_len), udp, stamp }
    }
}
