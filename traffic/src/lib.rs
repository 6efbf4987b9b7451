//! This crate has test traffic for netmem: a generator of packets, and a sink that checks the received packets. Both
//! work on bytes only.
//!
//! The built-in network is two hosts with a router between them. The generator is on host 0, and the sink is on
//! host 1:
//!
//! ```text
//! host 0  10.0.0.0/16 ──► port 0  router  port 1 ──► host 1  10.1.0.0/16
//! ```
//!
//! Two numbers determine every byte of a frame: its flow and its sequence number in the flow. The sink builds the
//! expected frame from them and compares. From the start of the frame:
//!
//! | bytes | what |
//! |---|---|
//! | 0..14 | Ethernet: from host 0 to the router's port 0 |
//! | 14..34 | IPv4: from 10.0.0.1 + flow mod 128, to 10.1.0.1 + flow, TTL 64, not to be fragmented |
//! | 34..42 | UDP: from port 49152 + flow mod 16384 to port 9 (discard), with its checksum |
//! | 42..44 | magic `0x6e6d` |
//! | 44..46 | stream: 0 |
//! | 46..48 | flow |
//! | 48..54 | sequence number within the flow, from 0 |
//! | 54..60 | time of sending: 0, since a frame is to be known from the two |
//! | 60..64 | check: a 32-bit mix of stream, flow, sequence number and time |
//! | 64..   | noise: a window of a fixed random text, which the check's lowest byte picks |
//!
//! Numbers are in network byte order. The noise differs in 255 of 256 pairs of frames, so it shows bytes left over from
//! an earlier frame unless both frames have the same window.
//!
//! In other networks, neither end knows the numbers of the other. There a [`Stream`] sends packets over IPv4 or
//! IPv6 with the same stamp, which carries the stream's number and the time. [`Arrivals`] judges each frame by
//! itself, and [`Pace`] decides when the next packet is due.

#![forbid(unsafe_code)]

mod arrivals;
mod noise;
mod order;
mod pace;
mod sink;
mod stamp;
mod stream;

use std::net::Ipv4Addr;
use std::ops::Range;

use ipnet::Ipv4Net;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use self::arrivals::{Arrival, Arrivals, Expected};
use self::noise::Noise;
pub use self::order::{REMEMBERED, Tally};
pub use self::pace::{Missed, Pace};
pub use self::sink::{Fault, Hop, Outcome, Sink};
pub use self::stamp::Identity;
use self::stamp::{Stamp, WRAP};
pub use self::stream::{Addresses, SIZE_MIN_V6, Span, Stream, StreamConfig};
use netmem::limits::FRAME_SIZE_MAX;
use netmem::pool::PoolConfig;
use netmem::wire::{Ethernet, Ipv4, MacAddr, Udp, ethernet, ipv4, udp};
use netmem_router::{Fib, Interface, Route};

/// Bytes of the smallest frame, without frame check sequence.
pub const SIZE_MIN: usize = 64;
/// Bytes of the largest frame, without frame check sequence: the room in the largest frames of a pool, less a VLAN
/// tag.
pub const SIZE_MAX: usize = PoolConfig::room(FRAME_SIZE_MAX) - ethernet::TAG_LEN;
/// Maximum number of flows: the hosts of 10.1.0.0/16.
pub const FLOWS_MAX: usize = 65_534;

/// The MAC addresses of host 0 and host 1.
pub const HOSTS: [MacAddr; 2] = [MacAddr::new([2, 0, 0, 0, 0, 1]), MacAddr::new([2, 0, 0, 0, 1, 1])];

/// The router's ends of the two links.
pub const INTERFACES: [Interface; 2] = [
    Interface { mac: MacAddr::new([2, 0, 0, 0, 0, 0xfe]), mtu: 1500 },
    Interface { mac: MacAddr::new([2, 0, 0, 0, 1, 0xfe]), mtu: 1500 },
];

/// Returns the router's routes: each host's network is behind the port with the same number.
pub fn routes() -> [Route; 2] {
    let route = |port: u8, mac| Route {
        prefix: Ipv4Net::new_assert(Ipv4Addr::new(10, port, 0, 0), 16).into(),
        port,
        mac,
    };
    [route(0, HOSTS[0]), route(1, HOSTS[1])]
}

/// Returns the router between the two hosts.
pub fn router() -> Fib {
    let mut fib = Fib::new(INTERFACES.to_vec());
    fib.table = routes().into_iter().collect();
    fib
}

/// An error in the requested traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// The number of flows is 0 or too large.
    #[error("{flows} flows: there must be 1 to {FLOWS_MAX}")]
    Flows {
        /// The requested number.
        flows: usize,
    },
    /// The frame is too small or too large.
    #[error("frames of {size} bytes: a size must be {least} to {SIZE_MAX}, without frame check sequence{}", if *.least > SIZE_MIN { "; over IPv6 imix is 84x7,590x4,1514" } else { "" })]
    Size {
        /// The requested size.
        size: usize,
        /// The minimum size, which is larger over IPv6.
        least: usize,
    },
    /// There is no size to send.
    #[error("no size of frames is given: give one or more")]
    NoSize,
}

/// The generator: writes one frame after the other, round robin over the flows.
#[derive(Debug, Clone)]
pub struct Traffic {
    format: Format,
    /// The first flow. `format` has the last.
    first: u32,
    flow: u32,
    seq: u64,
}

impl Traffic {
    /// Makes traffic of `flows` flows in frames of `size` bytes, without frame check sequence.
    ///
    /// # Errors
    /// [`TrafficError`] if one of them is out of range.
    pub fn new(flows: usize, size: usize) -> Result<Self, TrafficError> {
        Traffic::of(0..flows, size)
    }

    /// As [`Traffic::new`], for these flows only. Use this for several generators with one sink of all flows.
    ///
    /// # Errors
    /// [`TrafficError`] if there is no flow, if one is past [`FLOWS_MAX`], or if the size is out of range.
    pub fn of(flows: Range<usize>, size: usize) -> Result<Self, TrafficError> {
        if flows.is_empty() {
            return Err(TrafficError::Flows { flows: 0 });
        }
        let format = Format::new(flows.end, size, HOSTS[0], INTERFACES[0].mac, TTL)?;
        let first = flows.start as u32;
        Ok(Traffic { format, first, flow: first, seq: 0 })
    }

    /// Returns the bytes of one frame.
    pub fn size(&self) -> usize {
        self.format.size
    }

    /// Writes the next frame at the start of `buf` and returns its size. If `buf` is too short, it returns 0, and
    /// nothing is written or skipped.
    ///
    /// # Cost
    /// Builds 64 bytes and copies the rest. Allocates nothing.
    #[inline]
    pub fn write(&mut self, buf: &mut [u8]) -> usize {
        let Some(frame) = buf.get_mut(..self.format.size) else { return 0 };
        let Ok((head, noise)) = Head::mut_from_prefix(frame) else { return 0 };
        *head = self.format.head(self.flow, self.seq);
        noise.copy_from_slice(self.format.noise.after(&head.stamp));
        self.flow += 1;
        if self.flow == self.format.flows {
            self.flow = self.first;
            self.seq = (self.seq + 1) % WRAP;
        }
        self.format.size
    }
}

/// The TTL of host 0: the recommended default (IANA, IP parameters).
const TTL: u8 = 64;
const DISCARD: u16 = 9;

/// Bytes before the stamp of a frame over IPv4.
const STAMP_AT: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;

/// Bytes of a frame before its noise.
const HEAD_LEN: usize = size_of::<Head>();

/// The headers and the stamp, which come before the noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    ethernet: Ethernet,
    ipv4: Ipv4,
    udp: Udp,
    stamp: Stamp,
}

const _: () = assert!(HEAD_LEN == SIZE_MIN);

impl Head {
    /// Makes the head of a packet with this stamp, followed by `noise`. All checksums are valid.
    #[inline]
    fn new(
        ethernet: Ethernet,
        endpoints: &Endpoints<Ipv4Addr>,
        stamp: Stamp,
        noise: &Noise,
        len: usize,
    ) -> Self {
        let &Endpoints { src, dst, ports: (from, to), ttl } = endpoints;
        let datagram_len = (len - ethernet::HEADER_LEN - ipv4::HEADER_LEN) as u16;
        let mut udp = Udp::new(from, to, datagram_len - udp::HEADER_LEN as u16);
        let sum = udp::pseudo_header(src, dst, datagram_len) + udp.sum() + stamp.sum();
        udp.set_checksum(udp::checksum(sum + noise.sum(&stamp)));
        Head { ethernet, ipv4: Ipv4::new(src, dst, ipv4::UDP, ttl, datagram_len), udp, stamp }
    }
}

/// The source and destination of a packet.
#[derive(Debug, Clone, Copy)]
struct Endpoints<Address> {
    src: Address,
    dst: Address,
    /// The UDP ports of the source and the destination.
    ports: (u16, u16),
    ttl: u8,
}

/// The properties that all frames of the same traffic share on one link.
///
/// Invariant: `flows` is 1 to [`FLOWS_MAX`] and `size` is [`SIZE_MIN`] to [`SIZE_MAX`].
#[derive(Debug, Clone)]
struct Format {
    flows: u32,
    size: usize,
    ethernet: Ethernet,
    ttl: u8,
    noise: Noise,
}

impl Format {
    fn new(flows: usize, size: usize, src: MacAddr, dst: MacAddr, ttl: u8) -> Result<Self, TrafficError> {
        check_flows(flows)?;
        if !(SIZE_MIN..=SIZE_MAX).contains(&size) {
            return Err(TrafficError::Size { size, least: SIZE_MIN });
        }
        let ethernet = Ethernet::new(dst, src, ethernet::IPV4);
        Ok(Format { flows: flows as u32, size, ethernet, ttl, noise: Noise::new(size - HEAD_LEN) })
    }

    /// Makes the head of packet `seq` of `flow`. All checksums are valid.
    #[inline]
    fn head(&self, flow: u32, seq: u64) -> Head {
        let endpoints = Endpoints {
            src: Ipv4Addr::from_bits(0x0a00_0001 + flow % 128),
            dst: Ipv4Addr::from_bits(0x0a01_0001_u32.wrapping_add(flow)),
            ports: (0xc000 | (flow % 0x4000) as u16, DISCARD),
            ttl: self.ttl,
        };
        let stamp = Stamp::new(Identity { flow: flow as u16, seq, ..Identity::default() });
        Head::new(self.ethernet, &endpoints, stamp, &self.noise, self.size)
    }
}

fn check_flows(flows: usize) -> Result<(), TrafficError> {
    if (1..=FLOWS_MAX).contains(&flows) { Ok(()) } else { Err(TrafficError::Flows { flows }) }
}

#[cfg(test)]
mod tests;
