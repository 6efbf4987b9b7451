//! UDP: RFC 768, and over IPv6 RFC 8200 §8.1.

use std::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::checksum::{Sum, replaced, replaced_address, replaced_address_v6};
use super::ipv4;

/// Bytes of a UDP header.
pub const HEADER_LEN: usize = size_of::<Udp>();

/// A UDP header.
///
/// Invariant of a view that [`parse`](Udp::parse) returned: `HEADER_LEN <= length()`, within the parsed bytes.
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
    /// Returns a header around `payload_len` bytes, for building. Its checksum is 0, which means that there is none. A
    /// length above 65,527 wraps.
    pub const fn new(src_port: u16, dst_port: u16, payload_len: u16) -> Self {
        Udp {
            src_port: U16::new(src_port),
            dst_port: U16::new(dst_port),
            length: U16::new(payload_len.wrapping_add(HEADER_LEN as u16)),
            checksum: U16::ZERO,
        }
    }

    /// Returns the header of `datagram`, an IPv4 payload, and its own payload, up to its length field. Returns `None`
    /// if the length is below 8 or more than the available bytes. The checksum is not checked: see [`intact`].
    #[inline]
    pub fn parse(datagram: &[u8]) -> Option<(&Udp, &[u8])> {
        let (header, _) = Udp::ref_from_prefix(datagram).ok()?;
        Some((header, datagram.get(HEADER_LEN..usize::from(header.length()))?))
    }

    /// [`parse`](Self::parse), for rewriting.
    #[inline]
    pub fn parse_mut(datagram: &mut [u8]) -> Option<(&mut Udp, &mut [u8])> {
        let (header, behind) = Udp::mut_from_prefix(datagram).ok()?;
        let payload = usize::from(header.length()).checked_sub(HEADER_LEN)?;
        Some((header, behind.get_mut(..payload)?))
    }

    /// The source port.
    pub const fn src_port(&self) -> u16 {
        self.src_port.get()
    }

    /// The destination port.
    pub const fn dst_port(&self) -> u16 {
        self.dst_port.get()
    }

    /// Bytes of header and payload together.
    #[inline]
    pub const fn length(&self) -> u16 {
        self.length.get()
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

    /// Changes the source port, and updates the checksum, if there is one (RFC 1624).
    #[inline]
    pub const fn set_src_port(&mut self, port: u16) {
        self.replace(self.src_port.get(), port);
        self.src_port = U16::new(port);
    }

    /// As [`Udp::set_src_port`], for the destination port.
    #[inline]
    pub const fn set_dst_port(&mut self, port: u16) {
        self.replace(self.dst_port.get(), port);
        self.dst_port = U16::new(port);
    }

    /// Changes the length of header and payload together, and updates the checksum for that, if there is one. The
    /// checksum covers the length twice, in the header and in the pseudo-header. It also covers bytes that are added to
    /// or removed from the payload, which this call does not account for.
    #[inline]
    pub const fn set_length(&mut self, length: u16) {
        let before = self.length.get();
        self.replace(before, length);
        self.replace(before, length);
        self.length = U16::new(length);
    }

    /// Swaps the ports: the datagram goes to the port that it came from. The checksum does not change.
    #[inline]
    pub const fn swap_ports(&mut self) {
        (self.src_port, self.dst_port) = (self.dst_port, self.src_port);
    }

    /// Updates the checksum, if there is one, after an address of the IPv4 header changed from `old` to `new`.
    ///
    /// ```
    /// use netmem::wire::{Ipv4, Udp, ipv4, udp};
    /// use std::net::Ipv4Addr;
    ///
    /// let [client, service, server] = [1, 2, 3].map(|host| Ipv4Addr::new(10, 0, 0, host));
    /// let mut packet = [0; 33];
    /// packet[..20].copy_from_slice(&Ipv4::new(client, service, ipv4::UDP, 64, 13).to_bytes());
    /// packet[28..].copy_from_slice(b"hello");
    /// let mut header = Udp::new(4000, 53, 5);
    /// let sum = udp::pseudo_header(client, service, header.length()) + header.sum().bytes(b"hello");
    /// header.set_checksum(udp::checksum(sum));
    /// packet[20..28].copy_from_slice(&header.to_bytes());
    ///
    /// Ipv4::parse_mut(&mut packet)?.set_dst(server);
    /// let (header, _payload) = Udp::parse_mut(&mut packet[20..]).ok_or("no datagram")?;
    /// header.address_changed(service, server);
    /// header.set_dst_port(5353);
    ///
    /// let (ip, datagram) = Ipv4::parse(&packet)?;
    /// assert!(udp::intact(ip.src(), ip.dst(), datagram));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub const fn address_changed(&mut self, old: Ipv4Addr, new: Ipv4Addr) {
        if self.checksum.get() != 0 {
            self.store(replaced_address(self.checksum.get(), old, new));
        }
    }

    /// As [`Udp::address_changed`], for an address of the IPv6 header.
    #[inline]
    pub const fn address_changed_v6(&mut self, old: Ipv6Addr, new: Ipv6Addr) {
        if self.checksum.get() != 0 {
            self.store(replaced_address_v6(self.checksum.get(), old, new));
        }
    }

    /// Updates the checksum, if there is one, after a word under it changed.
    #[inline]
    const fn replace(&mut self, old: u16, new: u16) {
        if self.checksum.get() != 0 {
            self.store(replaced(self.checksum.get(), old, new));
        }
    }

    /// Stores a computed checksum. 0 is sent as 0xffff.
    #[inline]
    const fn store(&mut self, checksum: u16) {
        self.checksum = U16::new(if checksum == 0 { 0xffff } else { checksum });
    }

    /// The bytes of the header as they are sent, for building: `packet[..8].copy_from_slice(&header.to_bytes())`.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        zerocopy::transmute!(*self)
    }

    /// Stores a checksum that [`checksum`] returned.
    #[inline]
    pub const fn set_checksum(&mut self, checksum: u16) {
        self.checksum = U16::new(checksum);
    }
}

/// The sum over the pseudo-header that UDP checksums cover: addresses, protocol, UDP length.
#[inline]
pub fn pseudo_header(src: Ipv4Addr, dst: Ipv4Addr, length: u16) -> Sum {
    Sum::pseudo_header(src, dst, ipv4::UDP, length)
}

/// The same over IPv6 (RFC 8200 §8.1), where the length has 32 bits.
#[inline]
pub fn pseudo_header_v6(src: Ipv6Addr, dst: Ipv6Addr, length: u16) -> Sum {
    Sum::pseudo_header_v6(src, dst, ipv4::UDP, length.into())
}

/// The checksum as it is sent: a sum of 0 is sent as `0xffff`, because 0 means that there is no checksum.
#[inline]
pub const fn checksum(sum: Sum) -> u16 {
    match sum.checksum() {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// Returns whether `datagram` (header and payload) is intact: its length fits, and its checksum is correct or absent.
pub fn intact(src: Ipv4Addr, dst: Ipv4Addr, datagram: &[u8]) -> bool {
    let Some((header, payload)) = Udp::parse(datagram) else { return false };
    let sum = pseudo_header(src, dst, header.length.get()) + header.sum().bytes(payload);
    header.checksum() == 0 || sum.intact()
}

/// As [`intact`] over IPv6, where a checksum is mandatory (RFC 8200 §8.1).
pub fn intact_v6(src: Ipv6Addr, dst: Ipv6Addr, datagram: &[u8]) -> bool {
    let Some((header, payload)) = Udp::parse(datagram) else { return false };
    let sum = pseudo_header_v6(src, dst, header.length.get()) + header.sum().bytes(payload);
    header.checksum() != 0 && sum.intact()
}
