//! TCP: RFC 9293, and over IPv6 RFC 8200 §8.1.

use std::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::checksum::{Sum, replaced, replaced_address, replaced_address_v6};
use super::ipv4;

/// Bytes of a TCP header without options.
pub const HEADER_LEN: usize = size_of::<Tcp>();

/// The sender has sent all of its data.
pub const FIN: u8 = 0x01;
/// The connection begins: sequence numbers are synchronized.
pub const SYN: u8 = 0x02;
/// The connection is reset.
pub const RST: u8 = 0x04;
/// The receiver must pass the data on at once.
pub const PSH: u8 = 0x08;
/// The acknowledgement number is valid.
pub const ACK: u8 = 0x10;
/// The urgent pointer is valid.
pub const URG: u8 = 0x20;
/// Congestion was encountered (RFC 3168).
pub const ECE: u8 = 0x40;
/// The congestion window was reduced (RFC 3168).
pub const CWR: u8 = 0x80;

/// A TCP header, without its options.
///
/// Invariant of a view that [`parse`](Tcp::parse) returned: `HEADER_LEN <= header_len()`, within the parsed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Tcp {
    src_port: U16,
    dst_port: U16,
    sequence: U32,
    acknowledgement: U32,
    /// The header's length in words of 32 bits, in the upper half.
    data_offset: u8,
    flags: u8,
    window: U16,
    checksum: U16,
    urgent: U16,
}

const _: () = assert!(HEADER_LEN == 20);

impl Tcp {
    /// Returns the header of `segment`, an IP payload, and the data behind the header and its options. Returns `None`
    /// if the segment ends before them, or its header length is less than 20 bytes. The checksum is not checked: see
    /// [`intact`].
    ///
    /// ```
    /// use netmem::wire::{Tcp, tcp};
    ///
    /// let mut segment = [0; 26];
    /// segment[..4].copy_from_slice(&[0x9c, 0x40, 0, 80]);
    /// segment[12..14].copy_from_slice(&[6 << 4, tcp::SYN]); // 24 bytes of header: 4 of options
    /// let (header, data) = Tcp::parse(&segment).ok_or("no segment")?;
    /// assert_eq!((header.src_port(), header.dst_port(), data.len()), (40000, 80, 2));
    /// assert!(header.has(tcp::SYN) && !header.has(tcp::ACK));
    /// # Ok::<(), &str>(())
    /// ```
    #[inline]
    pub fn parse(segment: &[u8]) -> Option<(&Tcp, &[u8])> {
        let (header, _) = Tcp::ref_from_prefix(segment).ok()?;
        let data = segment.get(header.header_len()..)?;
        (header.header_len() >= HEADER_LEN).then_some((header, data))
    }

    /// [`parse`](Self::parse), for rewriting: the header, its options, and the data.
    #[inline]
    pub fn parse_mut(segment: &mut [u8]) -> Option<(&mut Tcp, &mut [u8], &mut [u8])> {
        let (header, behind) = Tcp::mut_from_prefix(segment).ok()?;
        let (options, data) = behind.split_at_mut_checked(header.header_len().checked_sub(HEADER_LEN)?)?;
        Some((header, options, data))
    }

    /// The source port.
    #[inline]
    pub const fn src_port(&self) -> u16 {
        self.src_port.get()
    }

    /// The destination port.
    #[inline]
    pub const fn dst_port(&self) -> u16 {
        self.dst_port.get()
    }

    /// The sequence number of its first byte of data, or of its SYN.
    #[inline]
    pub const fn sequence(&self) -> u32 {
        self.sequence.get()
    }

    /// The acknowledgement number: the byte that its sender expects next. It is valid if [`ACK`] is set.
    #[inline]
    pub const fn acknowledgement(&self) -> u32 {
        self.acknowledgement.get()
    }

    /// Bytes of the header with its options: 0 to 60.
    #[inline]
    pub const fn header_len(&self) -> usize {
        (self.data_offset >> 4) as usize * 4
    }

    /// All flags, [`FIN`] to [`CWR`].
    #[inline]
    pub const fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The window: bytes that the sender accepts beyond those it acknowledges, before scaling.
    #[inline]
    pub const fn window(&self) -> u16 {
        self.window.get()
    }

    /// The checksum.
    #[inline]
    pub const fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// Changes the source port, and updates the checksum (RFC 1624).
    #[inline]
    pub const fn set_src_port(&mut self, port: u16) {
        self.checksum = U16::new(replaced(self.checksum.get(), self.src_port.get(), port));
        self.src_port = U16::new(port);
    }

    /// As [`Tcp::set_src_port`], for the destination port.
    #[inline]
    pub const fn set_dst_port(&mut self, port: u16) {
        self.checksum = U16::new(replaced(self.checksum.get(), self.dst_port.get(), port));
        self.dst_port = U16::new(port);
    }

    /// Updates the checksum after an address of the IPv4 header changed from `old` to `new`.
    #[inline]
    pub const fn address_changed(&mut self, old: Ipv4Addr, new: Ipv4Addr) {
        self.checksum = U16::new(replaced_address(self.checksum.get(), old, new));
    }

    /// As [`Tcp::address_changed`], for an address of the IPv6 header.
    #[inline]
    pub const fn address_changed_v6(&mut self, old: Ipv6Addr, new: Ipv6Addr) {
        self.checksum = U16::new(replaced_address_v6(self.checksum.get(), old, new));
    }

    /// Stores a checksum. For a sum over a segment whose checksum was 0, use [`Sum::checksum`].
    #[inline]
    pub const fn set_checksum(&mut self, checksum: u16) {
        self.checksum = U16::new(checksum);
    }
}

/// The sum over the pseudo-header that TCP checksums cover: addresses, protocol, bytes of the segment.
#[inline]
pub fn pseudo_header(src: Ipv4Addr, dst: Ipv4Addr, length: u16) -> Sum {
    Sum::pseudo_header(src, dst, ipv4::TCP, length)
}

/// The same over IPv6 (RFC 8200 §8.1), where the length has 32 bits.
#[inline]
pub fn pseudo_header_v6(src: Ipv6Addr, dst: Ipv6Addr, length: u32) -> Sum {
    Sum::pseudo_header_v6(src, dst, ipv4::TCP, length)
}

/// Returns whether `segment` (header and data) is intact: its header is complete and its checksum is correct.
pub fn intact(src: Ipv4Addr, dst: Ipv4Addr, segment: &[u8]) -> bool {
    let Ok(length) = u16::try_from(segment.len()) else { return false };
    Tcp::parse(segment).is_some() && pseudo_header(src, dst, length).bytes(segment).intact()
}

/// As [`intact`] over IPv6.
pub fn intact_v6(src: Ipv6Addr, dst: Ipv6Addr, segment: &[u8]) -> bool {
    let Ok(length) = u32::try_from(segment.len()) else { return false };
    Tcp::parse(segment).is_some() && pseudo_header_v6(src, dst, length).bytes(segment).intact()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, TcpOptionElement};
    use proptest::prelude::*;

    const HERE: [u8; 4] = [192, 0, 2, 1];
    const THERE: [u8; 4] = [198, 51, 100, 7];

    /// Returns a segment with options and data, made by etherparse.
    fn segment(ports: [u16; 2], data: &[u8]) -> Vec<u8> {
        let [src, dst] = ports;
        let packet = PacketBuilder::ipv4(HERE, THERE, 64)
            .tcp(src, dst, 0x1234_5678, 4096)
            .syn()
            .ack(0x9abc_def0)
            .options(&[TcpOptionElement::MaximumSegmentSize(1460)])
            .expect("they fit");
        let mut bytes = Vec::new();
        packet.write(&mut bytes, data).expect("a packet");
        bytes.split_off(ipv4::HEADER_LEN)
    }

    #[test]
    fn the_fields_of_a_segment_are_those_it_was_made_with() {
        let bytes = segment([4000, 443], b"hello");
        let (header, data) = Tcp::parse(&bytes).unwrap();
        assert_eq!((header.src_port(), header.dst_port(), header.header_len()), (4000, 443, 24));
        assert_eq!(
            (header.sequence(), header.acknowledgement(), header.window()),
            (0x1234_5678, 0x9abc_def0, 4096)
        );
        assert_eq!((header.flags(), data), (SYN | ACK, &b"hello"[..]));
    }

    #[test]
    fn a_header_that_is_cut_off_or_says_too_little_is_none() {
        let bytes = segment([4000, 443], b"");
        for len in 0..24 {
            assert!(
                Tcp::parse(&bytes[..len]).is_none() && Tcp::parse_mut(&mut bytes[..len].to_vec()).is_none()
            );
        }
        let mut short = bytes.clone();
        short[12] = 4 << 4;
        assert!(Tcp::parse(&short).is_none() && Tcp::parse_mut(&mut short).is_none());
    }

    proptest! {
        #[test]
        fn checksums_are_right_after_ports_and_addresses_changed(
            ports in any::<[u16; 2]>(),
            new in any::<[u16; 2]>(),
            address in any::<u32>(),
            data in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let (here, there, address) = (HERE.into(), THERE.into(), Ipv4Addr::from_bits(address));
            let mut bytes = segment(ports, &data);
            prop_assert!(intact(here, there, &bytes));
            let (header, _, behind) = Tcp::parse_mut(&mut bytes).unwrap();
            prop_assert_eq!(&behind[..], &data[..]);
            header.set_src_port(new[0]);
            header.set_dst_port(new[1]);
            header.address_changed(there, address);
            prop_assert!(intact(here, address, &bytes));
            let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::from_bits(u128::from(address.to_bits())));
            let (header, ..) = Tcp::parse_mut(&mut bytes).unwrap();
            header.set_checksum(0);
            let sum = pseudo_header_v6(src, dst, bytes.len() as u32).bytes(&bytes).checksum();
            Tcp::parse_mut(&mut bytes).unwrap().0.set_checksum(sum);
            prop_assert!(intact_v6(src, dst, &bytes));
            let at = bytes.len() - 1;
            bytes[at] ^= 1;
            prop_assert!(!intact_v6(src, dst, &bytes));
        }
    }
}
