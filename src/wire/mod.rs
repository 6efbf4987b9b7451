//! The stage `wire` has views of packet headers, which are checked once, then read and rewritten in place.
//!
//! A view is a reference to a header struct over the packet's own bytes, in network byte order and without alignment.
//! Parsing performs the checks of the RFC before it returns the view, so the lengths in a view are valid. Nothing here
//! allocates or panics, for any bytes. Nothing here depends on frames or ports: the input is `&[u8]`.
//!
//! A packet is parsed from the outside in:
//!
//! ```
//! use netmem::wire::{Ethernet, Ipv4, Udp, ethernet};
//!
//! fn ports(frame: &[u8]) -> Option<(u16, u16)> {
//!     let (link, packet) = Ethernet::parse(frame).ok()?;
//!     if link.ethertype() != ethernet::IPV4 {
//!         return None;
//!     }
//!     let (_header, datagram) = Ipv4::parse(packet).ok()?;
//!     let (udp, _payload) = Udp::parse(datagram)?;
//!     Some((udp.src_port(), udp.dst_port()))
//! }
//! assert_eq!(ports(&[0; 13]), None);
//! ```

pub mod checksum;
pub mod datagram;
pub mod ethernet;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod offload;
pub mod options;
pub mod segment;
pub mod tcp;
pub mod udp;

pub use datagram::{Datagram, NoDatagram};
pub use ethernet::{Ethernet, MacAddr, MacAddrError};
pub use icmp::Icmp;
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use tcp::Tcp;
pub use udp::Udp;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A view of an Ethernet header and the IPv4 header behind it, with one length check for both.
///
/// Only the length is checked: the fields cannot be relied on as after [`Ipv4::parse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Headers {
    /// The link's header.
    pub link: Ethernet,
    /// An IPv4 header, if the link's header has that ethertype.
    pub ip: Ipv4,
}

impl Headers {
    /// Returns the view over the first 34 bytes of `frame`, and the bytes behind it. Returns `None` if there are fewer.
    #[inline]
    pub fn read(frame: &[u8]) -> Option<(&Headers, &[u8])> {
        Headers::ref_from_prefix(frame).ok()
    }

    /// [`read`](Self::read), for rewriting.
    #[inline]
    pub fn over(frame: &mut [u8]) -> Option<(&mut Headers, &mut [u8])> {
        Headers::mut_from_prefix(frame).ok()
    }
}

/// The error in the headers of a frame: the first check that failed, from the outer header to the inner one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
#[non_exhaustive]
pub enum Malformed {
    /// The frame is shorter than an Ethernet header.
    #[error("the frame is shorter than its Ethernet header (14 bytes)")]
    ShortFrame,
    /// The packet is shorter than the smallest header of its IP version.
    #[error("the packet is shorter than its IP header (20 bytes, or 40 of IPv6)")]
    ShortHeader,
    /// The IP version is not the expected one.
    #[error("the IP version does not match the ethertype")]
    BadVersion,
    /// The IPv4 header's length field is below five words.
    #[error("the IPv4 header length is below 20 bytes")]
    BadHeaderLength,
    /// The IPv4 total length is shorter than the header that it contains.
    #[error("the IPv4 total length is shorter than the header")]
    BadTotalLength,
    /// Fewer bytes arrived than the total length of IPv4, or the payload length of IPv6, requires.
    #[error("the packet is shorter than its IP length")]
    Truncated,
    /// The IPv4 header checksum is wrong.
    #[error("the IPv4 header checksum is wrong")]
    BadChecksum,
}

impl Malformed {
    /// The name of the counter for this error.
    pub const fn name(self) -> &'static str {
        match self {
            Malformed::ShortFrame => "short_frame",
            Malformed::ShortHeader => "short_header",
            Malformed::BadVersion => "bad_version",
            Malformed::BadHeaderLength => "bad_header_length",
            Malformed::BadTotalLength => "bad_total_length",
            Malformed::Truncated => "truncated",
            Malformed::BadChecksum => "bad_checksum",
        }
    }
}

#[cfg(test)]
mod tests;
