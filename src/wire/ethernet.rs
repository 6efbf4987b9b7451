//! Ethernet II: IEEE 802.3 §3, RFC 894.

use std::fmt;
use std::str::FromStr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Malformed;

/// Bytes of an Ethernet header; there is no frame check sequence in memory.
pub const HEADER_LEN: usize = size_of::<Ethernet>();

/// Bytes of a VLAN tag.
pub const TAG_LEN: usize = 4;

/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ARP: u16 = 0x0806;
/// Ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;
/// Ethertype of an 802.1Q tag.
pub const VLAN: u16 = 0x8100;
/// Ethertype of the outer of two VLAN tags (802.1ad).
pub const SERVICE_VLAN: u16 = 0x88a8;

/// Bytes of the two addresses, which come before a tag.
pub(crate) const ADDRESSES_LEN: usize = 12;

/// Returns whether the frame is priority-tagged: its 802.1Q tag names no VLAN (VID 0), so it is treated as an untagged
/// frame.
#[inline]
pub fn is_priority_tagged(frame: &[u8]) -> bool {
    let tag = frame.get(ADDRESSES_LEN..HEADER_LEN + TAG_LEN).and_then(|bytes| bytes.first_chunk());
    tag.is_some_and(|&[a, b, c, d]| u16::from_be_bytes([a, b]) == VLAN && c & 0x0f == 0 && d == 0)
}

/// Returns a view of a priority-tagged frame without its tag and without the addresses: ethertype and packet have the
/// positions of an untagged frame. Returns None if the frame has no such tag.
#[inline]
pub fn behind_priority_tag(frame: &[u8]) -> Option<&[u8]> {
    if is_priority_tagged(frame) { frame.get(TAG_LEN..) } else { None }
}

/// Moves the addresses of a priority-tagged frame over its tag, so that an untagged frame begins [`TAG_LEN`] bytes
/// later. Returns whether the frame had such a tag.
#[inline]
pub fn cover_priority_tag(frame: &mut [u8]) -> bool {
    let is_tagged = is_priority_tagged(frame);
    if is_tagged {
        frame.copy_within(..ADDRESSES_LEN, TAG_LEN);
    }
    is_tagged
}

/// Returns the ethertype behind all VLAN tags of a frame, and the bytes after it.
///
/// Use it for decisions about packets that a tag must not bypass. [`Ethernet::parse`] returns [`VLAN`] for such
/// packets.
///
/// # Errors
/// Returns [`Malformed::ShortFrame`] if the header or a tag is truncated.
///
/// ```
/// use netmem::wire::{Ethernet, MacAddr, ethernet};
///
/// let mut frame = Ethernet::new(MacAddr::BROADCAST, MacAddr::new([2, 0, 0, 0, 0, 1]), ethernet::VLAN).to_bytes().to_vec();
/// frame.extend([0x00, 0x07, 0x08, 0x00]); // VLAN 7, and IPv4 behind it
/// frame.extend(b"a packet");
/// assert_eq!(ethernet::behind_tags(&frame), Ok((ethernet::IPV4, &b"a packet"[..])));
/// assert!(ethernet::behind_tags(&frame[..16]).is_err(), "the tag is cut off");
/// ```
#[inline]
pub fn behind_tags(frame: &[u8]) -> Result<(u16, &[u8]), Malformed> {
    let (link, mut rest) = Ethernet::parse(frame)?;
    let mut ethertype = link.ethertype();
    while matches!(ethertype, VLAN | SERVICE_VLAN) {
        let (&[_, _, high, low], packet) = rest.split_first_chunk().ok_or(Malformed::ShortFrame)?;
        (ethertype, rest) = (u16::from_be_bytes([high, low]), packet);
    }
    Ok((ethertype, rest))
}

/// As [`behind_tags`], for writing to the bytes.
///
/// # Errors
/// As [`behind_tags`].
#[inline]
pub fn behind_tags_mut(frame: &mut [u8]) -> Result<(u16, &mut [u8]), Malformed> {
    let (ethertype, behind) = behind_tags(frame)?;
    let start = frame.len() - behind.len();
    // The bytes behind the tags are the last ones.
    Ok((ethertype, frame.get_mut(start..).unwrap_or_default()))
}

/// A 48-bit MAC address, written `02:00:00:00:00:01`.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct MacAddr([u8; 6]);

impl MacAddr {
    /// The broadcast address.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Returns the address with these bytes, in the order in which they are written and sent.
    pub const fn new(bytes: [u8; 6]) -> Self {
        MacAddr(bytes)
    }

    /// The bytes, in the order in which they are written and sent.
    pub const fn bytes(self) -> [u8; 6] {
        self.0
    }

    /// Returns whether it is the broadcast address or a multicast address.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a MAC address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{seen:?} is not a MAC address: write six pairs of hex digits, as in 02:00:00:00:00:01")]
pub struct MacAddrError {
    /// The text.
    pub seen: String,
}

impl FromStr for MacAddr {
    type Err = MacAddrError;

    /// Parses six pairs of hex digits with colons between them, in either case.
    ///
    /// # Errors
    /// Returns [`MacAddrError`] for any other text.
    fn from_str(text: &str) -> Result<Self, MacAddrError> {
        let pair = |pair: &str| match pair.as_bytes() {
            [high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                u8::from_str_radix(pair, 16).ok()
            }
            _ => None,
        };
        let mut pairs = text.split(':').map(pair);
        let bytes = [(); 6].map(|()| pairs.next().flatten());
        match (bytes, pairs.next()) {
            ([Some(a), Some(b), Some(c), Some(d), Some(e), Some(f)], None) => Ok(MacAddr([a, b, c, d, e, f])),
            _ => Err(MacAddrError { seen: text.to_owned() }),
        }
    }
}

/// An Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Ethernet {
    /// The station that must receive the frame.
    pub dst: MacAddr,
    /// The station that sent it on this link.
    pub src: MacAddr,
    ethertype: U16,
}

const _: () = assert!(HEADER_LEN == 14);

impl Ethernet {
    /// Returns a header, for building.
    pub const fn new(dst: MacAddr, src: MacAddr, ethertype: u16) -> Self {
        Ethernet { dst, src, ethertype: U16::new(ethertype) }
    }

    /// Returns the header of `frame` and the bytes behind it.
    ///
    /// # Errors
    /// Returns [`Malformed::ShortFrame`].
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<(&Ethernet, &[u8]), Malformed> {
        Ethernet::ref_from_prefix(frame).map_err(|_| Malformed::ShortFrame)
    }

    /// [`parse`](Self::parse), for rewriting.
    ///
    /// # Errors
    /// Returns [`Malformed::ShortFrame`].
    #[inline]
    pub fn parse_mut(frame: &mut [u8]) -> Result<(&mut Ethernet, &mut [u8]), Malformed> {
        Ethernet::mut_from_prefix(frame).map_err(|_| Malformed::ShortFrame)
    }

    /// Returns whether the frame is for exactly this station.
    ///
    /// # Cost
    /// One load of 64 bits, of which the two that belong to `src` are shifted out.
    #[inline]
    pub const fn is_for(&self, station: MacAddr) -> bool {
        let ([a, b, c, d, e, f], [g, h, ..]) = (self.dst.0, self.src.0);
        let [k, l, m, n, o, p] = station.0;
        let differing =
            u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ u64::from_le_bytes([k, l, m, n, o, p, 0, 0]);
        differing << 16 == 0
    }

    /// The type of the frame's content: [`IPV4`], [`ARP`], [`IPV6`], … Values up to 1500 are lengths of IEEE 802.3
    /// frames without a type.
    #[inline]
    pub const fn ethertype(&self) -> u16 {
        self.ethertype.get()
    }

    /// Sets the type of the frame's content.
    #[inline]
    pub const fn set_ethertype(&mut self, ethertype: u16) {
        self.ethertype = U16::new(ethertype);
    }

    /// Swaps the addresses: the frame goes to the station that sent it.
    #[inline]
    pub const fn swap_addresses(&mut self) {
        (self.dst, self.src) = (self.src, self.dst);
    }

    /// The bytes of the header as they are sent, for building: `packet[..14].copy_from_slice(&header.to_bytes())`.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        zerocopy::transmute!(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        let mac = MacAddr::new([2, 0, 0xab, 0xcd, 0xef, 0x10]);
        assert_eq!(mac.to_string(), "02:00:ab:cd:ef:10");
        assert_eq!("02:00:ab:cd:ef:10".parse(), Ok(mac));
        assert_eq!("02:00:AB:cd:EF:10".parse(), Ok(mac));
        assert_eq!(format!("{mac:?}"), mac.to_string());
    }

    #[test]
    fn other_texts_are_refused_and_shown() {
        for text in [
            "",
            ":",
            "02",
            "02:00:00:00:00",
            "02:00:00:00:00:00:",
            "02:00:00:00:00:00:00",
            "2:0:0:0:0:1",
            "02-00-00-00-00-01",
            "02:00:00:00:00:0g",
            "02:00:00:00:00:+1",
            "02:00:00:00:00: 1",
            " 02:00:00:00:00:01",
            "02:00:00:00:00:é",
        ] {
            let error = text.parse::<MacAddr>().expect_err(text);
            assert_eq!(error.seen, text);
            assert!(error.to_string().contains("02:00:00:00:00:01"), "{error}");
        }
    }

    #[test]
    fn groups_are_told_from_stations() {
        assert!(MacAddr::BROADCAST.is_multicast());
        assert!(MacAddr::new([0x01, 0, 0x5e, 0, 0, 1]).is_multicast());
        assert!(!MacAddr::new([0x02, 0, 0, 0, 0, 1]).is_multicast());
    }

    #[test]
    fn a_frame_is_for_the_station_whose_six_bytes_it_begins_with() {
        let (dst, src) = (MacAddr::new([2, 3, 4, 5, 6, 7]), MacAddr::new([8, 9, 10, 11, 12, 13]));
        let link = Ethernet::new(dst, src, IPV4);
        assert!(link.is_for(dst) && !link.is_for(src));
        for at in 0..6 {
            let mut other = dst;
            other.0[at] ^= 0x80;
            assert!(!link.is_for(other), "byte {at} differs");
        }
        assert!(Ethernet::new(dst, MacAddr::BROADCAST, IPV4).is_for(dst));
    }

    #[test]
    fn the_bytes_behind_tags_are_the_same_for_writing_and_for_reading() {
        let mut frame = [0u8; 34];
        frame[12..]
            .copy_from_slice(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        for len in 0..=frame.len() {
            let (mut one, other) = (frame, &frame[..len]);
            let written = behind_tags_mut(&mut one[..len]);
            assert_eq!(written.map(|(ethertype, behind)| (ethertype, &*behind)), behind_tags(other), "{len}");
        }
        let (_, behind) = behind_tags_mut(&mut frame).unwrap();
        behind.fill(9);
        assert_eq!((frame[21], &frame[22..]), (0, &[9; 12][..]));
    }

    #[test]
    fn thirteen_bytes_are_no_frame_and_fourteen_are() {
        let mut bytes = [0u8; 14];
        bytes[12..].copy_from_slice(&[0x86, 0xdd]);
        assert_eq!(Ethernet::parse(&bytes[..13]), Err(Malformed::ShortFrame));
        let (header, rest) = Ethernet::parse(&bytes).unwrap();
        assert_eq!((header.ethertype(), rest.len()), (IPV6, 0));
    }
}
