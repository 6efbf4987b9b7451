//! Work that the sender of a packet has left to others: filling in a checksum, or cutting the packet into segments.
//!
//! A host passes such packets to its card, which does the work while it sends. If the card is a program (TAP, veth, a
//! packet socket), they arrive as they are. The kernel describes the open work of each packet by a header of ten bytes,
//! `struct virtio_net_hdr` ([`Offload::from_virtio`]). AF_XDP does not describe it, and only the checksum itself shows
//! it ([`complete_checksum`]).
//!
//! Source: `linux/virtio_net.h`; virtio 1.3, 5.1.6 ("Device Operation").

mod layers;
mod tunnel;

use super::checksum::Sum;
use super::ipv4;
pub(super) use layers::{Layers, OUTER_MAX};
use std::num::NonZeroU16;

/// Bytes of `struct virtio_net_hdr`.
pub const VIRTIO_LEN: usize = 10;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_ECN`, set beside one of the kinds of TCP: the packet has CWR, which only its first segment may
/// have. Here it is read from the packet itself; a card needs it in the descriptor.
const GSO_ECN: u8 = 0x80;

#[cfg(feature = "xdp")]
const SCTP: u8 = 132;
/// Protocols beside TCP and UDP of packets that a sender may leave to a card to be cut.
#[cfg(feature = "xdp")]
const CUT_BY_CARDS: [u8; 4] = [layers::IPV4_WITHIN, layers::IPV6_WITHIN, tunnel::GRE, SCTP];

/// The checksum and segmentation work that is pending for a packet.
///
/// ```
/// use netmem::wire::offload::{GsoKind, Offload};
///
/// // A TCP packet of many segments, as a Linux host on a little-endian machine hands it to a TAP interface.
/// let header = [1, 1, 66, 0, 0xa8, 5, 34, 0, 16, 0];
/// let offload = Offload::from_virtio(header)?;
/// let (checksum, gso) = (offload.checksum.ok_or("none")?, offload.gso.ok_or("none")?);
/// assert_eq!((checksum.start, checksum.offset), (34, 16));
/// assert_eq!((gso.kind, gso.size.get()), (GsoKind::TcpV4, 1448));
/// let mut packet = [0; 1500];
/// packet[34 + 12] = 8 << 4; // a TCP header of 32 bytes
/// assert_eq!(offload.to_virtio(&packet), header);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    /// The incomplete checksum; None if all are complete.
    pub checksum: Option<PartialChecksum>,
    /// How the packet is to be cut; None if it is one segment.
    pub gso: Option<Gso>,
}

/// A checksum whose field contains only the sum of the pseudo-header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Bytes from the packet's start to the start of the sum: the header of TCP or UDP.
    pub start: u16,
    /// Bytes from there to the checksum.
    pub offset: u16,
}

/// Generic segmentation offload: one packet that stands for several, which differ only in the numbers in their headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gso {
    /// The protocol of the payload.
    pub kind: GsoKind,
    /// Bytes of payload, behind all headers, in each segment but the last.
    pub size: NonZeroU16,
}

/// The protocol of a packet that is to be segmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GsoKind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP datagrams of one size over either (`UDP_SEGMENT`). Fragments of one datagram, which are long out of use, are
    /// not supported.
    Udp,
}

impl Gso {
    /// [`GSO_ECN`] if the packet with the transport header at the start of `packet` has CWR, or 0.
    fn ecn(&self, packet: &[u8]) -> u8 {
        let has_cwr = || super::Tcp::parse(packet).is_some_and(|(header, _)| header.has(super::tcp::CWR));
        if self.kind != GsoKind::Udp && has_cwr() { GSO_ECN } else { 0 }
    }

    /// Bytes of the transport header at the start of `packet`; 0 if there is none.
    fn header_len(&self, packet: &[u8]) -> u16 {
        match self.kind {
            GsoKind::Udp => packet.get(..8).map_or(0, |header| header.len() as u16),
            _ => super::Tcp::parse(packet).map_or(0, |(header, _)| header.header_len() as u16),
        }
    }
}

impl GsoKind {
    const ALL: [GsoKind; 3] = [GsoKind::TcpV4, GsoKind::TcpV6, GsoKind::Udp];

    /// `VIRTIO_NET_HDR_GSO_TCPV4`, `_TCPV6`, `_UDP_L4`.
    const fn virtio(self) -> u8 {
        match self {
            GsoKind::TcpV4 => 1,
            GsoKind::TcpV6 => 4,
            GsoKind::Udp => 5,
        }
    }
}

/// The maximum number of segments of a packet. 64 KiB at the smallest MSS that hosts assume (536 bytes, RFC 9293) are
/// 123 segments. A sender may set any size from one byte on, and all segments are made at once: 28 KiB in single bytes
/// took as long as 1,400 packets.
pub const SEGMENTS_MAX: usize = 512;

/// The requested offload does not fit the packet or is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadOffload {
    /// An unknown kind of segmentation.
    #[error("segmentation of kind {0} is not known")]
    UnknownKind(u8),
    /// The segments would be empty.
    #[error("the segments would be empty")]
    EmptySegments,
    /// The checksum lies outside of the packet.
    #[error("the checksum lies outside of the packet")]
    Outside,
    /// The packet's headers do not match the kind of segmentation.
    #[error("the packet's headers are not of the kind that is to be cut")]
    NotOfKind,
    /// The packet would be cut into more segments than the maximum.
    #[error("{0} segments, and a packet is cut into {max} at most", max = SEGMENTS_MAX)]
    TooMany(usize),
}

impl Offload {
    /// Returns whether no work is left to be done.
    #[inline]
    pub const fn is_none(&self) -> bool {
        self.checksum.is_none() && self.gso.is_none()
    }

    /// Returns whether a `struct virtio_net_hdr` describes any open work.
    #[inline]
    pub const fn is_in(header: &[u8; VIRTIO_LEN]) -> bool {
        header[0] & NEEDS_CSUM | header[1] != 0
    }

    /// Returns whether the checksum of a packet of one segment can stay open while rules judge the packet: it is that
    /// of its own TCP or UDP header. Its completion could write any two other bytes, such as a port, for which the
    /// sender can choose the sum.
    #[cfg(any(feature = "xdp", feature = "af-packet", feature = "tap"))]
    pub(crate) fn can_wait(&self, packet: &[u8]) -> bool {
        let is_own = |checksum| Layers::of(packet).is_some_and(|layers| layers.checksum() == checksum);
        self.checksum.is_none_or(|checksum| is_own(checksum) && checksum.is_in(packet))
    }

    /// Parses a `struct virtio_net_hdr` in this machine's byte order.
    ///
    /// # Errors
    /// Returns [`BadOffload::UnknownKind`] or [`BadOffload::EmptySegments`]. Whether the work fits a packet is checked
    /// when it is done.
    #[inline]
    pub fn from_virtio(header: [u8; VIRTIO_LEN]) -> Result<Offload, BadOffload> {
        let [flags, kind, _, _, size @ .., a, b, c, d] = header;
        let checksum = (flags & NEEDS_CSUM != 0).then(|| PartialChecksum {
            start: u16::from_ne_bytes([a, b]),
            offset: u16::from_ne_bytes([c, d]),
        });
        let gso = match kind & !GSO_ECN {
            0 => None,
            kind => {
                let of = GsoKind::ALL.into_iter().find(|of| of.virtio() == kind);
                let kind = of.ok_or(BadOffload::UnknownKind(kind))?;
                let size = NonZeroU16::new(u16::from_ne_bytes(size)).ok_or(BadOffload::EmptySegments)?;
                Some(Gso { kind, size })
            }
        };
        Ok(Offload { checksum, gso })
    }

    /// Returns the offload as a `struct virtio_net_hdr` before `packet`, in this machine's byte order.
    pub fn to_virtio(&self, packet: &[u8]) -> [u8; VIRTIO_LEN] {
        let PartialChecksum { start, offset } =
            self.checksum.unwrap_or(PartialChecksum { start: 0, offset: 0 });
        let behind = self.checksum.and_then(|_| packet.get(start.into()..)).unwrap_or_default();
        let (kind, size, header_len) = self.gso.map_or((0, 0, 0), |gso| {
            (gso.kind.virtio() | gso.ecn(behind), gso.size.get(), gso.header_len(behind))
        });
        let header_len = if header_len == 0 { 0 } else { start.saturating_add(header_len) };
        let [[e, f], [g, h], [i, j], [k, l]] = [header_len, size, start, offset].map(u16::to_ne_bytes);
        [u8::from(self.checksum.is_some()) * NEEDS_CSUM, kind, e, f, g, h, i, j, k, l]
    }

    /// Returns the same offload for a packet with `bytes` more in front: a VLAN tag that was put back.
    pub fn moved_by(self, bytes: u16) -> Offload {
        let moved = |PartialChecksum { start, offset }| PartialChecksum {
            start: start.saturating_add(bytes),
            offset,
        };
        Offload { checksum: self.checksum.map(moved), gso: self.gso }
    }
}

/// Returns how to segment a TCP frame that is longer than `mtu` allows, if the segment length is not known: into
/// segments whose packets have at most `mtu` bytes. Returns None if it is not TCP, or `mtu` has no room for data.
///
/// ```
/// use netmem::wire::offload::cut_to_mtu;
///
/// assert_eq!(cut_to_mtu(&[0; 3000], 1500), None);
/// ```
#[must_use]
pub fn cut_to_mtu(frame: &[u8], mtu: u16) -> Option<Offload> {
    let layers = Layers::of(frame).filter(|layers| layers.protocol == ipv4::TCP)?;
    let (header, _) = super::Tcp::parse(frame.get(layers.transport..layers.end)?)?;
    let headers = layers.transport - layers.ip + header.header_len();
    let size = NonZeroU16::new(mtu.checked_sub(headers as u16)?)?;
    let kind = if layers.is_v6 { GsoKind::TcpV6 } else { GsoKind::TcpV4 };
    Some(Offload { checksum: None, gso: Some(Gso { kind, size }) })
}

/// The same for a frame that need not be longer than its link allows: Returns None unless its sender has left the
/// checksum to a card, as a host on the link does with all that a card is to cut.
#[cfg(feature = "xdp")]
pub(crate) fn cut_unfinished_to_mtu(frame: &[u8], mtu: u16) -> Option<Offload> {
    unfinished(frame).and_then(|_| cut_to_mtu(frame, mtu))
}

/// Returns whether a frame that is longer than its link allows may stand for several packets. If not, it is one packet, of
/// a sender for whom the link allows more: ICMP, ESP, a fragment and all else that no sender leaves a card to cut, and UDP
/// with a checksum that is correct. It would be open, or that of the first datagram, if there were several. If there is
/// none, the datagram may be that of a tunnel around a packet that is to be cut.
#[cfg(feature = "xdp")]
pub(crate) fn may_stand_for_several(frame: &[u8]) -> bool {
    let Some(layers) = Layers::of_any(frame) else { return false };
    let sum = || {
        let packet = frame.get(layers.transport..layers.end).unwrap_or_default();
        layers.pseudo_header(frame, packet.len()) + Sum::new().bytes(packet)
    };
    let has_checksum = || frame.get(layers.transport + 6..layers.transport + 8) != Some(&[0; 2]);
    match layers.protocol {
        ipv4::UDP => !(has_checksum() && sum().intact()),
        protocol => protocol == ipv4::TCP || CUT_BY_CARDS.contains(&protocol),
    }
}

impl PartialChecksum {
    /// Returns whether it lies within `packet`, so that it can be completed.
    pub fn is_in(self, packet: &[u8]) -> bool {
        usize::from(self.start) + usize::from(self.offset) + 2 <= packet.len()
    }

    /// Completes the checksum of `packet`: the sum over all bytes from `start` to the end. A sum of 0 is written as
    /// `0xffff`, which is the same number. Linux does so too (`skb_checksum_help`), because UDP's 0 means that there is
    /// no checksum.
    ///
    /// # Errors
    /// Returns [`BadOffload::Outside`]; nothing is changed then.
    ///
    /// # Cost
    /// A pass over the bytes: one add for each four bytes.
    pub fn finish(self, packet: &mut [u8]) -> Result<(), BadOffload> {
        let summed = packet.get_mut(usize::from(self.start)..).ok_or(BadOffload::Outside)?;
        let at = usize::from(self.offset);
        let sum = match Sum::new().bytes(summed).checksum() {
            0 => 0xffff,
            sum => sum,
        };
        let place = summed.get_mut(at..at + 2).ok_or(BadOffload::Outside)?;
        place.copy_from_slice(&sum.to_be_bytes());
        Ok(())
    }
}

/// Returns the positions of the headers of a TCP or UDP frame whose sender has left its checksum to a card. Such a
/// checksum is the sum of the pseudo-header only. Returns None if it is not, or if the frame carries neither protocol.
#[cfg(any(test, feature = "xdp"))]
#[inline]
pub(super) fn unfinished(frame: &[u8]) -> Option<Layers> {
    Layers::of(frame).filter(|layers| is_open(frame, layers))
}

/// Returns whether the checksum of the TCP or UDP packet with these headers is the sum of the pseudo-header only.
#[inline]
fn is_open(frame: &[u8], layers: &Layers) -> bool {
    let at = layers.transport + layers.checksum_offset();
    let Some(&[a, b]) = frame.get(at..).and_then(<[u8]>::first_chunk) else { return false };
    let sum = layers.pseudo_header(frame, layers.end - layers.transport).fold();
    u16::from_be_bytes([a, b]) == sum && at + 2 <= layers.end
}

/// Completes the checksum of a TCP or UDP frame whose sender left it to a card. Returns whether there was one. Such a
/// checksum is recognized because it is the sum of the pseudo-header only.
///
/// The same is done for the packet within a tunnel: VXLAN and Geneve at their usual UDP ports (4789 and 8472, 6081),
/// GRE, and IP in IP.
///
/// One in 65,535 complete checksums looks the same by chance. Completing it again does no harm to an intact packet.
///
/// ```
/// use netmem::wire::offload::complete_checksum;
///
/// assert!(!complete_checksum(&mut [0; 60]));
/// ```
///
/// # Cost
/// The lines of the headers, and some thirty instructions; if there is one, a pass over the packet.
#[inline]
pub fn complete_checksum(frame: &mut [u8]) -> bool {
    match Layers::of_any(frame) {
        Some(layers) if layers.may_be_tunnel(frame) => finish_tunnel(frame, &layers),
        Some(layers) if layers.has_transport() && is_open(frame, &layers) => finish_ip(frame, &layers),
        _ => false,
    }
}

/// Completes the checksum within a tunnel, and then that of the tunnel's own UDP header, whose sum covers it. Linux has
/// written that one already, as it is when the other one is complete (`lco_csum`).
#[cold]
#[inline(never)]
fn finish_tunnel(frame: &mut [u8], tunnel: &Layers) -> bool {
    let within = tunnel.packet_within(frame).filter(|layers| is_open(frame, layers));
    let within = within.is_some_and(|layers| finish_ip(frame, &layers));
    within | (tunnel.has_transport() && is_open(frame, tunnel) && finish_ip(frame, tunnel))
}

#[cold]
#[inline(never)]
fn finish_ip(frame: &mut [u8], layers: &Layers) -> bool {
    // The bytes behind the IP packet are padding, and are not summed.
    frame.get_mut(..layers.end).is_some_and(|packet| layers.checksum().finish(packet).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: [(Offload, [u8; VIRTIO_LEN]); 4] = [
        (Offload { checksum: None, gso: None }, [0; VIRTIO_LEN]),
        (
            Offload { checksum: Some(PartialChecksum { start: 34, offset: 6 }), gso: None },
            [1, 0, 0, 0, 0, 0, 34, 0, 6, 0],
        ),
        (
            Offload {
                checksum: Some(PartialChecksum { start: 54, offset: 16 }),
                gso: Some(Gso { kind: GsoKind::TcpV6, size: NonZeroU16::new(1428).unwrap() }),
            },
            [1, 4, 86, 0, 0x94, 5, 54, 0, 16, 0],
        ),
        (
            Offload {
                checksum: Some(PartialChecksum { start: 34, offset: 6 }),
                gso: Some(Gso { kind: GsoKind::Udp, size: NonZeroU16::new(1).unwrap() }),
            },
            [1, 5, 42, 0, 1, 0, 34, 0, 6, 0],
        ),
    ];

    #[test]
    fn a_header_of_virtio_says_what_it_was_written_of() {
        for (offload, header) in HEADERS {
            let mut packet = [0; 100];
            packet[54 + 12] = 8 << 4;
            assert_eq!(Offload::from_virtio(header), Ok(offload));
            assert_eq!(offload.to_virtio(&packet), header);
            let without_header = [&header[..2], &[0; 2], &header[4..]].concat();
            assert_eq!(offload.to_virtio(&packet[..34])[..], without_header);
        }
    }

    /// Seen: the mark was lost in a packet that was kept.
    #[test]
    fn tcp_with_cwr_is_told_to_a_card_and_udp_never() {
        let [_, _, (tcp, tcp_header), (udp, udp_header)] = HEADERS;
        let mut packet = [0; 100];
        packet[54..][12..14].copy_from_slice(&[8 << 4, crate::wire::tcp::CWR]);
        assert_eq!(tcp.to_virtio(&packet)[1], tcp_header[1] | GSO_ECN);
        let unmarked = Offload { checksum: None, ..tcp };
        assert_eq!(unmarked.to_virtio(&packet)[1], tcp_header[1], "nothing tells where the header is");
        packet.copy_within(54..74, 34);
        assert_eq!(udp.to_virtio(&packet)[1], udp_header[1]);
    }

    #[test]
    fn ecn_is_no_kind_of_its_own_and_a_valid_checksum_is_nothing_to_do() {
        let with_ecn = Offload::from_virtio([1, 0x81, 54, 0, 100, 0, 34, 0, 16, 0]).unwrap();
        assert_eq!(with_ecn.gso.map(|gso| gso.kind), Some(GsoKind::TcpV4));
        assert!(Offload::from_virtio([2, 0x80, 0, 0, 0, 0, 34, 0, 16, 0]).unwrap().is_none());
    }

    #[test]
    fn kinds_that_are_not_known_and_segments_without_bytes_are_refused() {
        for kind in [2, 3, 6, 0x20, 0x40, 0x7f, 0x83] {
            let refused = Offload::from_virtio([1, kind, 0, 0, 1, 0, 34, 0, 16, 0]);
            assert_eq!(refused, Err(BadOffload::UnknownKind(kind & 0x7f)));
        }
        assert_eq!(Offload::from_virtio([1, 1, 0, 0, 0, 0, 34, 0, 16, 0]), Err(BadOffload::EmptySegments));
    }

    #[test]
    fn a_checksum_outside_of_the_packet_is_refused_and_nothing_is_written() {
        for (start, offset) in [(60, 0), (58, 1), (59, 0), (61, 0), (u16::MAX, u16::MAX), (0, 59)] {
            let mut packet = [7; 60];
            assert_eq!(PartialChecksum { start, offset }.finish(&mut packet), Err(BadOffload::Outside));
            assert_eq!(packet, [7; 60]);
        }
        let mut packet = [0; 60];
        PartialChecksum { start: 58, offset: 0 }.finish(&mut packet).unwrap();
        assert_eq!(packet[58..], [0xff, 0xff]);
    }
}
