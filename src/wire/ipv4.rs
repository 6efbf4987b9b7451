//! IPv4: RFC 791, with the checks that RFC 1812 §5.2.2 requires of a router.

use std::net::Ipv4Addr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Malformed;
use super::checksum::{self, Sum};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = size_of::<Ipv4>();

/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;

/// More fragments of the larger packet follow.
const MORE_FRAGMENTS: u16 = 0x2000;

/// Version 4 with a header of five words: nearly all packets begin in this way.
const NO_OPTIONS: u8 = 0x45;

/// The first 20 bytes of an IPv4 header; options, if any, follow it.
///
/// Invariant of a view that [`parse`](Ipv4::parse) returned: `HEADER_LEN <= header_len() <= total_length()`, both
/// within the parsed bytes, and the checksum is correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Ipv4 {
    version_ihl: u8,
    /// Differentiated services and congestion notification (RFC 2474, RFC 3168).
    pub tos: u8,
    total_length: U16,
    id: U16,
    fragment: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    src: [u8; 4],
    dst: [u8; 4],
}

const _: () = assert!(HEADER_LEN == 20);

impl Ipv4 {
    /// Returns a header without options around `payload_len` bytes, for building: identification 0, DF set, correct
    /// checksum. A length above 65,515 wraps.
    #[inline]
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, ttl: u8, payload_len: u16) -> Self {
        let mut header = Ipv4 {
            version_ihl: NO_OPTIONS,
            tos: 0,
            total_length: U16::new(payload_len.wrapping_add(HEADER_LEN as u16)),
            id: U16::ZERO,
            fragment: U16::new(0x4000),
            ttl,
            protocol,
            checksum: U16::ZERO,
            src: src.octets(),
            dst: dst.octets(),
        };
        header.checksum = U16::new(header.sum().checksum());
        header
    }

    /// The sum over the header without options. It is computed in registers; a sum over bytes just written would wait
    /// for the stores.
    #[inline]
    fn sum(&self) -> Sum {
        Sum::new()
            .word(u16::from_be_bytes([self.version_ihl, self.tos]))
            .word(self.total_length.get())
            .word(self.id.get())
            .word(self.fragment.get())
            .word(u16::from_be_bytes([self.ttl, self.protocol]))
            .word(self.checksum.get())
            .double_word(self.src().to_bits())
            .double_word(self.dst().to_bits())
    }

    /// Returns the header of `packet` and its payload: the bytes behind the options, up to the total length. The link's
    /// padding behind them is left out.
    ///
    /// # Errors
    /// Returns the first check of RFC 1812 §5.2.2 that fails, in this order: [`Malformed::ShortHeader`], `BadVersion`,
    /// `BadHeaderLength`, `BadTotalLength`, `Truncated`, `BadChecksum`.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<(&Ipv4, &[u8]), Malformed> {
        let header = Ipv4::parse_front(packet, packet.len())?;
        let payload =
            packet.get(header.header_len()..header.total_length().into()).ok_or(Malformed::Truncated)?;
        Ok((header, payload))
    }

    /// Returns the header of a packet of `len` bytes, of which `front` are the first.
    #[inline]
    pub(super) fn parse_front(front: &[u8], len: usize) -> Result<&Ipv4, Malformed> {
        let (header, _) = Ipv4::ref_from_prefix(front).map_err(|_| Malformed::ShortHeader)?;
        header.check(front, len)?;
        Ok(header)
    }

    /// Returns the header of `packet`, for rewriting.
    ///
    /// # Errors
    /// The errors of [`parse`](Self::parse).
    ///
    /// # Cost
    /// Reads only the header: the first 20 bytes, and the options if there are any.
    #[inline]
    pub fn parse_mut(packet: &mut [u8]) -> Result<&mut Ipv4, Malformed> {
        Ipv4::parse_front(packet, packet.len())?;
        Ipv4::mut_from_prefix(packet).map(|(header, _)| header).map_err(|_| Malformed::ShortHeader)
    }

    /// The checks of RFC 1812 §5.2.2 after the first one, on the header at the start of a packet of `len` bytes.
    #[inline]
    fn check(&self, front: &[u8], len: usize) -> Result<(), Malformed> {
        if self.version_ihl != NO_OPTIONS {
            return self.check_with_options(front, len);
        }
        if usize::from(self.total_length()) < HEADER_LEN {
            return Err(Malformed::BadTotalLength);
        }
        if usize::from(self.total_length()) > len {
            return Err(Malformed::Truncated);
        }
        if !self.is_intact() {
            return Err(Malformed::BadChecksum);
        }
        Ok(())
    }

    /// The same for any version and header length.
    #[cold]
    fn check_with_options(&self, front: &[u8], len: usize) -> Result<(), Malformed> {
        if self.version() != 4 {
            return Err(Malformed::BadVersion);
        }
        if self.header_len() < HEADER_LEN {
            return Err(Malformed::BadHeaderLength);
        }
        if usize::from(self.total_length()) < self.header_len() {
            return Err(Malformed::BadTotalLength);
        }
        if usize::from(self.total_length()) > len {
            return Err(Malformed::Truncated);
        }
        let header = front.get(..self.header_len()).ok_or(Malformed::Truncated)?;
        if Sum::new().bytes(header).intact() { Ok(()) } else { Err(Malformed::BadChecksum) }
    }

    /// The IP version.
    #[inline]
    pub const fn version(&self) -> u8 {
        self.version_ihl >> 4
    }

    /// Bytes of the header with its options.
    #[inline]
    pub const fn header_len(&self) -> usize {
        (self.version_ihl & 0xf) as usize * 4
    }

    /// Changes the DSCP and ECN bits, and updates the checksum (RFC 1624).
    #[inline]
    pub fn set_tos(&mut self, tos: u8) {
        let word = |tos| u16::from_be_bytes([self.version_ihl, tos]);
        self.checksum = U16::new(checksum::replaced(self.checksum.get(), word(self.tos), word(tos)));
        self.tos = tos;
    }

    /// Changes the total length of header and payload, and updates the checksum (RFC 1624). Use it after bytes were
    /// appended to the payload, or cut from it.
    #[inline]
    pub const fn set_total_length(&mut self, length: u16) {
        self.checksum = U16::new(checksum::replaced(self.checksum.get(), self.total_length.get(), length));
        self.total_length = U16::new(length);
    }

    /// Changes the source address, and updates the header's checksum (RFC 1624). Checksums of UDP and TCP cover the
    /// address too: see [`Udp::address_changed`](super::Udp::address_changed).
    #[inline]
    pub const fn set_src(&mut self, src: Ipv4Addr) {
        self.checksum = U16::new(checksum::replaced_address(self.checksum.get(), self.src(), src));
        self.src = src.octets();
    }

    /// As [`Ipv4::set_src`], for the destination address.
    #[inline]
    pub const fn set_dst(&mut self, dst: Ipv4Addr) {
        self.checksum = U16::new(checksum::replaced_address(self.checksum.get(), self.dst(), dst));
        self.dst = dst.octets();
    }

    /// Swaps the addresses: the packet goes to the host that sent it. No checksum changes.
    #[inline]
    pub const fn swap_addresses(&mut self) {
        (self.src, self.dst) = (self.dst, self.src);
    }

    /// The bytes of the header as they are sent, for building: `packet[..20].copy_from_slice(&header.to_bytes())`.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        zerocopy::transmute!(*self)
    }

    /// Computes the checksum of the header at the start of `packet`, after options were written. Do not use it on a
    /// packet that was received with a wrong checksum. Without a whole header nothing happens.
    pub fn seal(packet: &mut [u8]) {
        let length = Ipv4::ref_from_prefix(packet).map_or(0, |(header, _)| header.header_len());
        let Some(header) = packet.get_mut(..length).filter(|header| header.len() >= HEADER_LEN) else {
            return;
        };
        header[10..12].fill(0);
        let checksum = Sum::new().bytes(header).checksum();
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Bytes of header and payload together.
    #[inline]
    pub const fn total_length(&self) -> u16 {
        self.total_length.get()
    }

    /// The identification that fragments of one packet share.
    pub const fn id(&self) -> u16 {
        self.id.get()
    }

    /// Returns whether a router must not fragment the packet.
    pub const fn dont_fragment(&self) -> bool {
        self.fragment.get() & 0x4000 != 0
    }

    /// Returns whether this is a fragment of a larger packet.
    pub const fn is_fragment(&self) -> bool {
        self.fragment.get() & 0x3fff != 0
    }

    /// Returns whether fragments of the larger packet follow this one.
    pub const fn more_fragments(&self) -> bool {
        self.fragment.get() & MORE_FRAGMENTS != 0
    }

    /// The offset of this fragment in the larger packet, in units of eight bytes; 0 in the first fragment and in a
    /// whole packet.
    #[inline]
    pub const fn fragment_offset(&self) -> u16 {
        self.fragment.get() & 0x1fff
    }

    /// Makes this the header of a fragment that begins at `offset`, in units of eight bytes. `more` says whether others
    /// follow, and `total_length` includes the header. The fragment may be fragmented again. The checksum is wrong
    /// until [`seal`](Self::seal)ed.
    pub const fn set_fragment(&mut self, offset: u16, more: bool, total_length: u16) {
        let more = if more { MORE_FRAGMENTS } else { 0 };
        self.fragment = U16::new(offset & 0x1fff | more);
        self.total_length = U16::new(total_length);
    }

    /// The TTL: how many more routers may forward the packet, this one included.
    #[inline]
    pub const fn ttl(&self) -> u8 {
        self.ttl
    }

    /// Changes the TTL, and updates the checksum (RFC 1624).
    #[inline]
    pub const fn set_ttl(&mut self, ttl: u8) {
        let (old, new) = ([self.ttl, self.protocol], [ttl, self.protocol]);
        let (old, new) = (u16::from_be_bytes(old), u16::from_be_bytes(new));
        self.checksum = U16::new(checksum::replaced(self.checksum.get(), old, new));
        self.ttl = ttl;
    }

    /// The protocol number of the payload: [`UDP`], …
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// The header checksum.
    pub const fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// The source address.
    #[inline]
    pub const fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::from_be_bytes(self.src))
    }

    /// The destination address.
    #[inline]
    pub const fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::from_be_bytes(self.dst))
    }

    /// Returns whether this is an intact IPv4 header without options. The total length is not checked: the caller knows
    /// how many bytes there are.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.version_ihl == NO_OPTIONS && self.is_intact()
    }

    /// Returns whether the checksum over the first 20 bytes, which are not all 0, is correct.
    ///
    /// One's complement addition of 16-bit words is addition modulo 0xffff (RFC 1071 §2(A)), of which 2^64 - 1 is a
    /// multiple. So whole 64-bit words may be added, with end-around carry, and the sum must be a multiple of 0xffff.
    /// For an odd number, exactly the multiples become small when multiplied by its inverse modulo 2^64.
    #[inline]
    fn is_intact(&self) -> bool {
        const INVERSE: u64 = 0xfffe_fffe_fffe_ffff;
        const _: () = assert!(INVERSE.wrapping_mul(0xffff) == 1);
        let words: &[[u8; 4]; 5] = zerocopy::transmute_ref!(self);
        let [a, b, c, d, e] = words.map(|word| u64::from(u32::from_ne_bytes(word)));
        let (sum, carry) = (a | b << 32).overflowing_add(c | d << 32);
        // A sum with a carry is less than 2^64 - 1.
        let (sum, carry) = (sum + u64::from(carry)).overflowing_add(e);
        (sum + u64::from(carry)).wrapping_mul(INVERSE) <= u64::MAX / 0xffff
    }

    /// Decrements the TTL and updates the checksum, by RFC 1624. A TTL of 0 stays 0.
    #[inline]
    pub fn decrement_ttl(&mut self) {
        if self.ttl == 0 {
            return;
        }
        self.ttl -= 1;
        // The difference of the words is the same for any TTL and protocol, and is taken in memory order.
        let one = u16::from_ne_bytes([1, 0]);
        let checksum = checksum::replaced(u16::from_ne_bytes(self.checksum.to_bytes()), one, 0);
        self.checksum = U16::from_bytes(checksum.to_ne_bytes());
    }
}
