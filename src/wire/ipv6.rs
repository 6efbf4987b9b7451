//! IPv6: RFC 8200.

use std::net::Ipv6Addr;

use super::Malformed;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = size_of::<Ipv6>();

/// The fixed header; extension headers, if any, follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Ipv6 {
    version_class_label: U32,
    payload_length: U16,
    next_header: u8,
    hop_limit: u8,
    src: [u8; 16],
    dst: [u8; 16],
}

const _: () = assert!(HEADER_LEN == 40);

impl Ipv6 {
    /// Returns a header before `payload_len` bytes, for building: no traffic class, no flow label.
    pub const fn new(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, hop_limit: u8, payload_len: u16) -> Self {
        Ipv6 {
            version_class_label: U32::new(6 << 28),
            payload_length: U16::new(payload_len),
            next_header,
            hop_limit,
            src: src.octets(),
            dst: dst.octets(),
        }
    }

    /// Returns the header of `packet` and the bytes behind it, as many as there are. Returns `None` if there are fewer
    /// than 40 bytes, or the version is not 6. The payload length is not checked.
    #[inline]
    pub fn read(packet: &[u8]) -> Option<(&Ipv6, &[u8])> {
        let (header, rest) = Ipv6::ref_from_prefix(packet).ok()?;
        (header.version_class_label.get() >> 28 == 6).then_some((header, rest))
    }

    /// Returns the header of `packet`, all of whose bytes must be there. The link's padding behind them is left out.
    ///
    /// # Errors
    /// Returns [`Malformed::ShortHeader`], `BadVersion` or `Truncated`.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<&Ipv6, Malformed> {
        Ipv6::parse_front(packet, packet.len())
    }

    /// Returns the header of a packet of `len` bytes, of which `front` are the first.
    #[inline]
    pub(super) fn parse_front(front: &[u8], len: usize) -> Result<&Ipv6, Malformed> {
        let (header, _) = Ipv6::ref_from_prefix(front).map_err(|_| Malformed::ShortHeader)?;
        header.check(len)?;
        Ok(header)
    }

    /// Returns the header of `packet`, for rewriting.
    ///
    /// # Errors
    /// The errors of [`parse`](Self::parse).
    #[inline]
    pub fn parse_mut(packet: &mut [u8]) -> Result<&mut Ipv6, Malformed> {
        let len = packet.len();
        let (header, _) = Ipv6::mut_from_prefix(packet).map_err(|_| Malformed::ShortHeader)?;
        header.check(len)?;
        Ok(header)
    }

    #[inline]
    fn check(&self, len: usize) -> Result<(), Malformed> {
        if self.version_class_label.get() >> 28 != 6 {
            return Err(Malformed::BadVersion);
        }
        if self.total_length() > len { Err(Malformed::Truncated) } else { Ok(()) }
    }

    /// Bytes of header and payload together, which may exceed 16 bits.
    #[inline]
    pub const fn total_length(&self) -> usize {
        HEADER_LEN + self.payload_length() as usize
    }

    /// Decrements the hop limit. A hop limit of 0 stays 0.
    #[inline]
    pub fn decrement_hop_limit(&mut self) {
        self.hop_limit = self.hop_limit.saturating_sub(1);
    }

    /// The traffic class: DSCP and ECN bits.
    #[inline]
    pub const fn traffic_class(&self) -> u8 {
        (self.version_class_label.get() >> 20) as u8
    }

    /// Changes the DSCP and ECN bits.
    #[inline]
    pub const fn set_traffic_class(&mut self, class: u8) {
        let rest = self.version_class_label.get() & !(0xff << 20);
        self.version_class_label = U32::new(rest | (class as u32) << 20);
    }

    /// The flow label (RFC 6437); 0 if the sender sets none.
    #[inline]
    pub const fn flow_label(&self) -> u32 {
        self.version_class_label.get() & 0xf_ffff
    }

    /// The type of the next header: a protocol's number, or an extension header's.
    #[inline]
    pub const fn next_header(&self) -> u8 {
        self.next_header
    }

    /// Bytes behind the header, including extension headers.
    #[inline]
    pub const fn payload_length(&self) -> u16 {
        self.payload_length.get()
    }

    /// Changes the number of bytes behind the header.
    #[inline]
    pub const fn set_payload_length(&mut self, length: u16) {
        self.payload_length = U16::new(length);
    }

    /// The hop limit: how many more routers may forward the packet.
    pub const fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// Changes the hop limit.
    pub const fn set_hop_limit(&mut self, hop_limit: u8) {
        self.hop_limit = hop_limit;
    }

    /// The source address.
    #[inline]
    pub const fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(u128::from_be_bytes(self.src))
    }

    /// The destination address.
    #[inline]
    pub const fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(u128::from_be_bytes(self.dst))
    }

    /// Changes the source address, which the checksums of UDP and TCP also cover: see
    /// [`Udp::address_changed_v6`](super::Udp::address_changed_v6).
    #[inline]
    pub const fn set_src(&mut self, src: Ipv6Addr) {
        self.src = src.octets();
    }

    /// As [`Ipv6::set_src`], for the destination address.
    #[inline]
    pub const fn set_dst(&mut self, dst: Ipv6Addr) {
        self.dst = dst.octets();
    }

    /// Swaps the addresses: the packet goes to the host that sent it. No checksum changes.
    #[inline]
    pub const fn swap_addresses(&mut self) {
        (self.src, self.dst) = (self.dst, self.src);
    }

    /// The bytes of the header as they are sent, for building: `packet[..40].copy_from_slice(&header.to_bytes())`.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        zerocopy::transmute!(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    #[test]
    fn a_packet_that_etherparse_built_reads_the_same() {
        let (src, dst) = (Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 9), Ipv6Addr::LOCALHOST);
        let mut bytes = Vec::new();
        let built = PacketBuilder::ipv6(src.octets(), dst.octets(), 61).udp(7, 9);
        built.write(&mut bytes, b"five!").unwrap();
        let (header, datagram) = Ipv6::read(&bytes).unwrap();
        assert_eq!((header.src(), header.dst(), header.hop_limit()), (src, dst, 61));
        assert_eq!((header.next_header(), header.payload_length(), datagram.len()), (17, 13, 13));
        assert_eq!(header.as_bytes(), Ipv6::new(src, dst, 17, 61, 13).as_bytes());
        let mut longest = *header;
        longest.set_payload_length(u16::MAX);
        assert_eq!((longest.payload_length(), longest.total_length()), (u16::MAX, 65_575));
    }

    #[test]
    fn thirty_nine_bytes_and_other_versions_are_no_header() {
        let mut bytes = [0; 40];
        bytes[0] = 0x60;
        assert!(Ipv6::read(&bytes).is_some() && Ipv6::read(&bytes[..39]).is_none());
        bytes[0] = 0x45;
        assert!(Ipv6::read(&bytes).is_none());
    }
}
