//! UDP: RFC 768, and over IPv6 RFC 8200 §8.1.

use std::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::checksum::Sum;
use super::ipv4;

/// Bytes of a UDP header.
pub const HEADER_LEN: usize = size_of::<Udp>();

/// A UDP header.
///
/// Invariant of a view that [`parse`](Udp::parse) gave: `HEADER_LEN <= length()`, within the bytes
/// it was parsed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Udp {
    src_port: U16,
    dst_port: U16,
    length: U16,
    checksum: U16,
}

const _: () = assert!(HEADER_LEN == 8);

impl Udp {
    /// A header around `payload_len` bytes, for building; its checksum is 0, which says that there
    /// is none. A length past 65,527 wraps.
    pub const fn new(src_port: u16, dst_port: u16, payload_len: u16) -> Self {
        Udp {
            src_port: U16::new(src_port),
            dst_port: U16::new(dst_port),
            length: U16::new(payload_len.wrapping_add(HEADER_LEN as u16)),
            checksum: U16::ZERO,
        }
    }

    /// The header of `datagram`, an IPv4 payload, and its own payload, as far as the length says;
    /// `None` if the length is below 8 or more than there is. The checksum is not looked at: see
    /// [`intact`].
    #[inline]
    pub fn parse(datagram: &[u8]) -> Option<(&Udp, &[u8])> {
        let (header, _) = Udp::ref_from_prefix(datagram).ok()?;
        Some((header, datagram.get(HEADER_LEN..header.length())?))
    }

    /// The port it comes from.
    pub const fn src_port(&self) -> u16 {
        self.src_port.get()
    }

    /// The port it is for.
    pub const fn dst_port(&self) -> u16 {
        self.dst_port.get()
    }

    /// Bytes of header and payload together.
    #[inline]
    pub const fn length(&self) -> usize {
        self.length.get() as usize
    }

    /// The checksum; 0 if the sender made none.
    #[inline]
    pub const fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// The sum over the header.
    #[inline]
    pub fn sum(&self) -> Sum {
        Sum::new()
            .word(self.src_port.get())
            .word(self.dst_port.get())
            .word(self.length.get())
            .word(self.checksum.get())
    }

    /// Stores a checksum that [`checksum`] made.
    #[inline]
    pub const fn set_checksum(&mut self, checksum: u16) {
        self.checksum = U16::new(checksum);
    }
}

/// The sum over the pseudo-header that UDP checksums cover: addresses, protocol, UDP length.
#[inline]
pub fn pseudo_header(src: Ipv4Addr, dst: Ipv4Addr, length: u16) -> Sum {
    Sum::new().double_word(src.to_bits()).double_word(dst.to_bits()).word(u16::from(ipv4::UDP)).word(length)
}

/// The same over IPv6 (RFC 8200 §8.1), where the length has 32 bits.
#[inline]
pub fn pseudo_header_v6(src: Ipv6Addr, dst: Ipv6Addr, length: u16) -> Sum {
    let addresses = Sum::new().bytes(&src.octets()).bytes(&dst.octets());
    addresses.double_word(length.into()).double_word(ipv4::UDP.into())
}

/// The checksum as it is sent: a sum that comes out as 0 is sent as `0xffff`, its twin, because 0
/// says that there is none.
#[inline]
pub const fn checksum(sum: Sum) -> u16 {
    match sum.checksum() {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// Whether `datagram`, header and payload, is as it was sent: its length fits, and its checksum is
/// right or there is none.
pub fn intact(src: Ipv4Addr, dst: Ipv4Addr, datagram: &[u8]) -> bool {
    let Some((header, payload)) = Udp::parse(datagram) else { return false };
    let sum = pseudo_header(src, dst, header.length.get()) + header.sum().bytes(payload);
    header.checksum() == 0 || sum.intact()
}

/// As [`intact`] over IPv6, where there must be a checksum (RFC 8200 §8.1).
pub fn intact_v6(src: Ipv6Addr, dst: Ipv6Addr, datagram: &[u8]) -> bool {
    let Some((header, payload)) = Udp::parse(datagram) else { return false };
    let sum = pseudo_header_v6(src, dst, header.length.get()) + header.sum().bytes(payload);
    header.checksum() != 0 && sum.intact()
}
