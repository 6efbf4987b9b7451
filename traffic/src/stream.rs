//! A stream of packets for real networks: chosen addresses, several sizes, IPv4 or IPv6, each packet with its time
//! of sending.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::noise::Noise;
use super::stamp::{Identity, Stamp, WRAP};
use super::{
    DISCARD, Endpoints, HEAD_LEN, HOSTS, Head, INTERFACES, SIZE_MAX, SIZE_MIN, TTL, TrafficError, check_flows,
};
use netmem::wire::{Ethernet, Ipv6, MacAddr, Udp, ethernet, ipv4, udp};

/// Bytes of the smallest frame over IPv6, without frame check sequence.
pub const SIZE_MIN_V6: usize = size_of::<HeadV6>();

/// `n` consecutive values from `first` on. Flow `i` uses the one at `i` modulo `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<T> {
    /// The first value.
    pub first: T,
    /// The number of values. 0 counts as 1.
    pub n: u32,
}

impl<T> Span<T> {
    /// Returns the span of one value.
    pub const fn one(first: T) -> Self {
        Span { first, n: 1 }
    }

    /// Returns the distance of flow `flow`'s value from the first.
    #[inline]
    fn step(&self, flow: u32) -> u32 {
        flow % self.n.max(1)
    }
}

/// The hosts of the flows: sources, then destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4 hosts.
    V4(Span<Ipv4Addr>, Span<Ipv4Addr>),
    /// IPv6 hosts.
    V6(Span<Ipv6Addr>, Span<Ipv6Addr>),
}

impl Addresses {
    /// Returns the addresses from sources to destinations, or `None` if their families differ.
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

/// The configuration of a [`Stream`]. The default is that of the built-in generator, with one flow of 64-byte
/// frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamConfig {
    /// The stream's number, for sinks that receive several streams.
    pub stream: u16,
    /// Number of flows, which take turns: 1 to [`FLOWS_MAX`](super::FLOWS_MAX).
    pub flows: usize,
    /// Bytes of the frames, without frame check sequence. Packets use these sizes in rotation. If their number and that
    /// of flows have a common divisor, the rotation moves on by one whenever both would begin together again, so that
    /// each flow gets every size.
    pub sizes: Vec<usize>,
    /// The sender's MAC address.
    pub src_mac: MacAddr,
    /// The MAC address of the next hop.
    pub dst_mac: MacAddr,
    /// The hosts of the flows.
    pub addresses: Addresses,
    /// The UDP source ports of the flows.
    pub src_ports: Span<u16>,
    /// The UDP destination ports of the flows.
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
    /// The noise of each size.
    noises: Vec<Noise>,
    /// The index of the next size, within `config.sizes`.
    turn: usize,
    /// Packets of each flow after which the sizes move on by one, or None if each flow gets every size anyway.
    shift: Option<u64>,
    flow: u32,
    seq: u64,
}

impl Stream {
    /// Makes a stream before its first packet.
    ///
    /// # Errors
    /// [`TrafficError`] if the number of flows or a size is out of range. The smallest size is 64 bytes over IPv4
    /// and [`SIZE_MIN_V6`] over IPv6.
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
        let shift = shift(config.flows as u64, config.sizes.len() as u64);
        Ok(Stream { config, ethernet, noises, turn: 0, shift, flow: 0, seq: 0 })
    }

    /// Sets the sender's MAC address, which may be known only when the port is open.
    pub fn set_src_mac(&mut self, mac: MacAddr) {
        (self.config.src_mac, self.ethernet.src) = (mac, mac);
    }

    /// Returns the bytes of the next frame.
    #[inline]
    pub fn next_size(&self) -> usize {
        self.config.sizes[self.turn]
    }

    /// Writes the next frame, sent at `time`, at the start of `buf` and returns its size. `time` is in nanoseconds,
    /// and the frame carries the lower 48 bits. If `buf` is too short, it returns 0, and nothing is written or
    /// skipped.
    ///
    /// # Cost
    /// Builds 64 or 84 bytes and copies the rest. Allocates nothing.
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

    /// Writes the frame with this stamp.
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
                let endpoints = Endpoints { src: at(src), dst: at(dst), ports, ttl: *ttl };
                let Ok((head, rest)) = Head::mut_from_prefix(frame) else { return };
                *head = Head::new(self.ethernet, &endpoints, stamp, noise, len);
                rest
            }
            Addresses::V6(src, dst) => {
                let at = |of: &Span<Ipv6Addr>| {
                    Ipv6Addr::from_bits(of.first.to_bits().wrapping_add(of.step(flow).into()))
                };
                let endpoints = Endpoints { src: at(src), dst: at(dst), ports, ttl: *ttl };
                let Ok((head, rest)) = HeadV6::mut_from_prefix(frame) else { return };
                *head = HeadV6::new(self.ethernet, &endpoints, stamp, noise, len);
                rest
            }
        };
        rest.copy_from_slice(noise.after(&stamp));
    }

    #[inline]
    fn advance(&mut self) {
        self.next_turn();
        self.flow += 1;
        if self.flow as usize == self.config.flows {
            self.flow = 0;
            self.seq = (self.seq + 1) % WRAP;
            if self.shift.is_some_and(|shift| self.seq.is_multiple_of(shift)) {
                self.next_turn();
            }
        }
    }

    #[inline]
    fn next_turn(&mut self) {
        self.turn += 1;
        if self.turn == self.noises.len() {
            self.turn = 0;
        }
    }
}

/// Returns the packets of each flow after which flows and sizes would begin together again, if that is before each
/// flow had every size. Until then every size is used as often as any other.
fn shift(flows: u64, sizes: u64) -> Option<u64> {
    let (mut common, mut rest) = (sizes, flows);
    while rest > 0 {
        (common, rest) = (rest, common % rest);
    }
    (common > 1).then_some(sizes / common)
}

/// The headers and the stamp of a frame over IPv6, which come before the noise.
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
    fn new(
        ethernet: Ethernet,
        endpoints: &Endpoints<Ipv6Addr>,
        stamp: Stamp,
        noise: &Noise,
        len: usize,
    ) -> Self {
        let &Endpoints { src, dst, ports: (from, to), ttl } = endpoints;
        let datagram_len = (len - ethernet::HEADER_LEN - size_of::<Ipv6>()) as u16;
        let mut udp = Udp::new(from, to, datagram_len - udp::HEADER_LEN as u16);
        let sum = udp::pseudo_header_v6(src, dst, datagram_len) + udp.sum() + stamp.sum();
        udp.set_checksum(udp::checksum(sum + noise.sum(&stamp)));
        HeadV6 { ethernet, ipv6: Ipv6::new(src, dst, ipv4::UDP, ttl, datagram_len), udp, stamp }
    }
}
