//! Cuts a packet that stands for many into its segments, as a card or the kernel would (`tcp_gso_segment`,
//! `__udp_gso_segment`, `inet_gso_segment` of Linux 6.18).
//!
//! ```text
//!   ├─ link, IP, TCP ─┼─ payload ───────────────────────────────────┤        one packet of up to 64 KiB
//!   ├─ link, IP, TCP ─┼─ size ─┤├─ link, IP, TCP ─┼─ size ─┤├─ ... ─┤        its segments
//! ```
//! Each segment has its own length in the IP header, and over IPv4 an identification that is one more than that of the
//! segment before. TCP has its own sequence number; FIN and PSH are only in the last segment, CWR only in the first.
//! UDP has its own length. Checksums are correct. The IP headers of a tunnel around the packet get lengths and
//! identifications in the same way.

use super::checksum::Sum;
use super::ipv4;
use super::offload::{BadOffload, Gso, GsoKind, Layers, OUTER_MAX, Offload, SEGMENTS_MAX};
use super::{Ipv4, tcp};

/// How a packet is segmented: where its headers end, and how many payload bytes each segment gets.
///
/// It does not borrow the packet, which may wait while its segments are sent. Each call gets the packet again.
///
/// ```
/// use netmem::wire::offload::{Gso, GsoKind, Offload};
/// use netmem::wire::segment::Segments;
/// use netmem::wire::{Ethernet, Ipv4, MacAddr, Tcp, ethernet, ipv4};
/// use std::{net::Ipv4Addr, num::NonZeroU16};
///
/// let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
/// let mut packet = Ethernet::new(MacAddr::BROADCAST, MacAddr::new([2; 6]), ethernet::IPV4).to_bytes().to_vec();
/// packet.extend(Ipv4::new(src, dst, ipv4::TCP, 64, 20 + 2500).to_bytes());
/// packet.extend([0, 80, 0, 81, 0, 0, 0, 7, 0, 0, 0, 0, 5 << 4, 0x18, 1, 0, 0, 0, 0, 0]);
/// packet.resize(packet.len() + 2500, 0xaa);
///
/// let gso = Gso { kind: GsoKind::TcpV4, size: NonZeroU16::new(1000).ok_or("0")? };
/// let segments = Segments::of(&packet, &Offload { checksum: None, gso: Some(gso) })?;
/// assert_eq!((segments.count(), segments.bytes(0), segments.bytes(2)), (3, 54 + 1000, 54 + 500));
/// let mut last = vec![0; segments.bytes(2)];
/// assert!(segments.write(&packet, 2, &mut last));
/// let (ip, segment) = Ipv4::parse(&last[14..])?;
/// let (tcp, data) = Tcp::parse(segment).ok_or("no segment")?;
/// assert_eq!((tcp.sequence(), data.len()), (2007, 500));
/// assert!(netmem::wire::tcp::intact(ip.src(), ip.dst(), segment));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Segments {
    layers: Layers,
    /// The positions of the IP headers around that packet: those of tunnels, from the outer to the inner one.
    outer: [Option<usize>; OUTER_MAX],
    gso: Gso,
    /// Bytes of all headers.
    headers: usize,
    /// Number of segments in each piece but the last: one, unless pieces are to be cut further.
    together: usize,
    /// Pieces keep their open offload work.
    keeps: bool,
}

impl Segments {
    /// Returns how `packet` is cut into segments.
    ///
    /// # Errors
    /// Returns [`BadOffload`] if
    /// - there is nothing to cut,
    /// - the headers are not whole or of another kind,
    /// - the checksum is elsewhere, as for a packet within a tunnel of another kind than IP in IP, whose outer headers
    ///   would not be corrected here, or
    /// - there would be more than [`SEGMENTS_MAX`] segments.
    pub fn of(packet: &[u8], offload: &Offload) -> Result<Segments, BadOffload> {
        Segments::read(packet, packet.len(), offload)
    }

    /// The same for a packet of `len` bytes, of which `front` are the first, including all headers, and whose pieces
    /// can keep their open offload work.
    ///
    /// # Errors
    /// The errors of [`of`](Self::of), and [`BadOffload::NotOfKind`] for a packet within a tunnel.
    #[cfg(any(feature = "af-packet", feature = "tap"))]
    pub(crate) fn of_front(front: &[u8], len: usize, offload: &Offload) -> Result<Segments, BadOffload> {
        let segments = Segments::read(front, len, offload)?;
        if segments.is_within_tunnel() { Err(BadOffload::NotOfKind) } else { Ok(segments) }
    }

    fn read(front: &[u8], len: usize, offload: &Offload) -> Result<Segments, BadOffload> {
        let gso = offload.gso.ok_or(BadOffload::NotOfKind)?;
        let start = offload.checksum.map_or(0, |checksum| checksum.start.into());
        let (layers, outer) = Layers::within(front, len, start).ok_or(BadOffload::NotOfKind)?;
        let fits = match gso.kind {
            GsoKind::TcpV4 => (layers.is_v6, layers.protocol) == (false, ipv4::TCP),
            GsoKind::TcpV6 => (layers.is_v6, layers.protocol) == (true, ipv4::TCP),
            GsoKind::Udp => layers.protocol == ipv4::UDP,
        };
        let elsewhere = offload.checksum.is_some_and(|checksum| checksum != layers.checksum());
        if !fits || elsewhere {
            return Err(BadOffload::NotOfKind);
        }
        let behind = front.get(layers.transport..layers.end.min(front.len())).ok_or(BadOffload::NotOfKind)?;
        let header = match gso.kind {
            GsoKind::Udp => behind.get(..8).map(<[u8]>::len),
            _ => super::Tcp::parse(behind).map(|(header, _)| header.header_len()),
        };
        let headers = layers.transport + header.ok_or(BadOffload::NotOfKind)?;
        let segments = Segments { layers, outer, gso, headers, together: 1, keeps: false };
        match segments.count() {
            0..=SEGMENTS_MAX => Ok(segments),
            count => Err(BadOffload::TooMany(count)),
        }
    }

    /// The same in pieces of as many segments as fit into `room` bytes, at least one. [`offload`](Self::offload)
    /// returns the work that each piece has left, including its checksum. All other methods refer to pieces then.
    ///
    /// Segments of a packet within a tunnel stay segments: no offload describes a tunnel.
    #[must_use]
    pub fn in_pieces(self, room: usize) -> Segments {
        if self.is_within_tunnel() {
            return self;
        }
        let together = room.saturating_sub(self.headers) / usize::from(self.gso.size.get());
        Segments { together: together.max(1), keeps: true, ..self }
    }

    /// Returns whether other IP headers are around the packet with the transport header.
    fn is_within_tunnel(&self) -> bool {
        self.outer[0].is_some()
    }

    /// The open offload work of the piece at `i`; none for a segment.
    pub fn offload(&self, i: usize) -> Offload {
        self.offload_of(self.bytes(i))
    }

    /// The same for a piece of that many bytes.
    pub(crate) fn offload_of(&self, bytes: usize) -> Offload {
        let is_several = bytes - self.headers > usize::from(self.gso.size.get());
        Offload {
            checksum: self.keeps.then(|| self.layers.checksum()),
            gso: Some(self.gso).filter(|_| self.keeps && is_several),
        }
    }

    /// Bytes of the longest segment's IP packet, which the link's MTU limits.
    pub fn packet_len(&self) -> usize {
        let ip = self.outer[0].unwrap_or(self.layers.ip);
        self.headers - ip + self.payload().min(self.gso.size.get().into())
    }

    /// Number of segments: at least one, also for a packet without payload.
    pub fn count(&self) -> usize {
        self.payload().div_ceil(self.size()).max(1)
    }

    /// Bytes of the segment at `i`; only those of the headers if there is no such segment.
    pub fn bytes(&self, i: usize) -> usize {
        self.headers + self.payload().saturating_sub(i.saturating_mul(self.size())).min(self.size())
    }

    /// Bytes of the headers, with which every segment begins.
    pub fn headers(&self) -> usize {
        self.headers
    }

    /// Bytes of the packet. Those behind it belong to no segment.
    #[cfg(any(feature = "af-packet", feature = "tap"))]
    pub(crate) fn end(&self) -> usize {
        self.layers.end
    }

    fn payload(&self) -> usize {
        self.layers.end - self.headers
    }

    /// Bytes of payload in each segment, or piece, but the last.
    fn size(&self) -> usize {
        self.together * usize::from(self.gso.size.get())
    }

    /// Writes the segment at `i` of `packet`, for which this was made, to the beginning of `to`, which needs room for
    /// [`bytes`](Self::bytes) of it. Returns false and writes nothing if there is no room or no such segment.
    ///
    /// # Cost
    /// A copy of the segment, and a pass over it for the checksum, unless the checksum is left to others.
    pub fn write(&self, packet: &[u8], i: usize, to: &mut [u8]) -> bool {
        let len = self.bytes(i);
        let first = self.headers.saturating_add(i.saturating_mul(self.size()));
        let payload = first.checked_add(len - self.headers).and_then(|end| packet.get(first..end));
        let parts = (packet.get(..self.headers), payload, to.get_mut(..len));
        let (Some(headers), Some(payload), Some(to)) = parts else { return false };
        to[..self.headers].copy_from_slice(headers);
        to[self.headers..].copy_from_slice(payload);
        self.seal(i * self.together, to);
        true
    }

    /// Gives a piece its own lengths, numbers and checksums. It has the packet's headers and the payload from segment
    /// `first` on.
    pub(crate) fn seal(&self, first: usize, piece: &mut [u8]) {
        self.number(first, piece);
        self.sum(piece);
    }

    /// Gives a piece from segment `first` on its own lengths and numbers.
    fn number(&self, first: usize, segment: &mut [u8]) {
        let before = first * usize::from(self.gso.size.get());
        let is_last = before + segment.len() == self.layers.end;
        for ip in self.outer.into_iter().flatten().chain([self.layers.ip]) {
            number_ip(first, &mut segment[ip..]);
        }
        let transport = &mut segment[self.layers.transport..];
        if self.gso.kind == GsoKind::Udp {
            return put(transport, 4, transport.len() as u16);
        }
        let [a, b, c, d] = [transport[4], transport[5], transport[6], transport[7]];
        let sequence = u32::from_be_bytes([a, b, c, d]).wrapping_add(before as u32);
        transport[4..8].copy_from_slice(&sequence.to_be_bytes());
        transport[13] &= match (first, is_last) {
            (0, true) => 0xff,
            (0, false) => !(tcp::FIN | tcp::PSH),
            (_, true) => !tcp::CWR,
            (_, false) => !(tcp::FIN | tcp::PSH | tcp::CWR),
        };
    }

    /// Writes the segment's checksum. For a piece, writes the partial sum with which its completion begins.
    fn sum(&self, segment: &mut [u8]) {
        let at = self.layers.checksum_offset();
        let pseudo_header = self.layers.pseudo_header(segment, segment.len() - self.layers.transport);
        let transport = &mut segment[self.layers.transport..];
        if self.keeps {
            return put(transport, at, pseudo_header.fold());
        }
        put(transport, at, 0);
        let checksum = (pseudo_header + Sum::new().bytes(transport)).checksum();
        // For UDP, 0 would mean that there is no checksum.
        put(transport, at, if checksum == 0 && self.gso.kind == GsoKind::Udp { 0xffff } else { checksum });
    }
}

/// Gives the IP packet of a piece from segment `first` on its own length and identification.
fn number_ip(first: usize, packet: &mut [u8]) {
    let total = packet.len();
    if packet[0] >> 4 == 6 {
        // It may have 40 bytes more than its length field can express.
        return put(packet, 4, (total - super::ipv6::HEADER_LEN) as u16);
    }
    put(packet, 2, total as u16);
    let id = u16::from_be_bytes([packet[4], packet[5]]);
    put(packet, 4, id.wrapping_add(first as u16));
    Ipv4::seal(packet);
}

/// Writes a number of a header, which has room for it: [`Segments::of`] has checked that.
fn put(header: &mut [u8], at: usize, number: u16) {
    header[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

#[cfg(test)]
pub(crate) mod tests;
