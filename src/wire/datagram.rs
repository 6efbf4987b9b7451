//! A UDP datagram from the link's header to the last byte of its payload. It is parsed completely, answered in the
//! frame that carried it, or built in a new frame.
//!
//! A server that answers in place writes its payload over the received one:
//!
//! ```
//! use netmem::wire::Datagram;
//! use netmem::{Frame, Pool, Worker};
//!
//! /// Turns a request into its answer, in the same frame. Returns None if the frame is not a request.
//! fn answer(frame: &mut Frame) -> Option<()> {
//!     let (request, payload) = Datagram::parse(frame.data()).ok()?;
//!     let text = if payload == b"ping" { "pong" } else { "what?" };
//!     let answer = request.answer()?;
//!     frame.trim(answer.headers_len()).ok()?; // the new payload stands where the old one stood
//!     frame.put(text.len()).ok()?.copy_from_slice(text.as_bytes());
//!     answer.write(frame.data_mut()).ok()
//! }
//!
//! /// A datagram of this host's own, in a fresh frame: with the addresses, and the MAC address of the next hop.
//! fn ask(pool: &Pool, w: &mut Worker, to: &Datagram, payload: &[u8]) -> Option<Frame> {
//!     let mut frame = pool.alloc(w)?;
//!     frame.put(to.headers_len() + payload.len()).ok()?[to.headers_len()..].copy_from_slice(payload);
//!     to.write(frame.data_mut()).ok()?;
//!     Some(frame)
//! }
//! # use netmem::{Memory, MemoryConfig, PoolConfig, wire::MacAddr};
//! # let memory = Memory::new(&MemoryConfig { bytes: 2 << 20, ..Default::default() })?;
//! # let mut w = memory.worker()?;
//! # let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 8, ..Default::default() })?;
//!
//! let question = Datagram {
//!     src_mac: MacAddr::new([2, 0, 0, 0, 0, 1]),
//!     dst_mac: MacAddr::new([2, 0, 0, 0, 0, 2]), // the server's, or the router's
//!     src: "192.0.2.1:4000".parse()?,
//!     dst: "192.0.2.53:7777".parse()?,
//!     hop_limit: 64,
//!     tos: 0,
//! };
//! let mut frame = ask(&pool, &mut w, &question, b"ping").ok_or("no frame")?;
//! answer(&mut frame).ok_or("no answer")?;
//! let (answered, payload) = Datagram::parse(frame.data())?;
//! assert_eq!((answered.src, answered.dst, payload), (question.dst, question.src, &b"pong"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::{Ethernet, Ipv4, Ipv6, MacAddr, Malformed, Udp, ethernet, ipv4, ipv6, udp};
use std::net::{IpAddr, SocketAddr};

/// The default hop limit of hosts (RFC 1700, IANA). Answers have it too.
pub const HOP_LIMIT: u8 = 64;

/// The MAC addresses, IP addresses and ports of a UDP datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Datagram {
    /// The station that sends it on this link.
    pub src_mac: MacAddr,
    /// The station to which it is sent on this link: the next hop.
    pub dst_mac: MacAddr,
    /// The address and port of the sender.
    pub src: SocketAddr,
    /// The address and port of the receiver.
    pub dst: SocketAddr,
    /// How many routers may forward it.
    pub hop_limit: u8,
    /// The type of service of IPv4, the traffic class of IPv6: six bits of DSCP (RFC 2474) and two of ECN (RFC 3168).
    pub tos: u8,
}

/// The reason why a frame does not contain a valid datagram: the first check that failed, from the outer header to the
/// inner one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NoDatagram {
    /// A header is malformed.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The Ethernet header is not followed directly by IPv4 or IPv6, but by another type or a VLAN tag.
    #[error("the ethertype is {0:#06x}, neither IPv4 nor IPv6")]
    Ethertype(u16),
    /// The packet has IPv4 options, for which an answer would have to be moved.
    #[error("the IPv4 header has options")]
    Options,
    /// The packet is a fragment.
    #[error("the packet is a fragment")]
    Fragment,
    /// The packet has another protocol, or an IPv6 extension header.
    #[error("the protocol is {0}, and not UDP")]
    Protocol(u8),
    /// The length field of the datagram is longer than its packet, or shorter than its header.
    #[error("the UDP length does not fit the packet")]
    BadLength,
    /// The checksum is wrong, or missing over IPv6.
    #[error("the checksum of the datagram is wrong")]
    BadChecksum,
    /// A source or destination is a broadcast, multicast or unspecified address, or port 0, so an answer to one sender
    /// is not possible. Or the source is a loopback address or the destination itself, to which an answer would return.
    #[error(
        "the datagram cannot be answered: a multicast, broadcast or unspecified address, port 0, a loopback source, or equal source and destination"
    )]
    Unanswerable,
}

/// The reason why the headers of a datagram could not be written. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// One address is IPv4 and the other IPv6.
    #[error("one address is of IPv4 and the other of IPv6")]
    MixedFamilies,
    /// There is no room for the headers.
    #[error("{has} bytes have no room for headers of {needs}")]
    TooShort {
        /// Number of bytes available.
        has: usize,
        /// Number of bytes of the headers.
        needs: usize,
    },
    /// The payload is longer than the length field can express.
    #[error("a payload of {0} bytes is too long for one datagram")]
    TooLong(usize),
}

impl Datagram {
    /// Returns the datagram in `frame`, and its payload.
    ///
    /// # Errors
    /// Returns [`NoDatagram`] unless all lengths and both checksums are correct, and the packet is whole and has no
    /// options.
    ///
    /// # Cost
    /// Every byte of the payload is read for the checksum.
    pub fn parse(frame: &[u8]) -> Result<(Datagram, &[u8]), NoDatagram> {
        let (datagram, len) = Datagram::locate(frame)?;
        let at = datagram.headers_len() - udp::HEADER_LEN;
        let bytes = frame.get(at..at + len).ok_or(NoDatagram::BadLength)?;
        let (_, payload) = Udp::parse(bytes).ok_or(NoDatagram::BadLength)?;
        let is_intact = match (datagram.src.ip(), datagram.dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => udp::intact(src, dst, bytes),
            (IpAddr::V6(src), IpAddr::V6(dst)) => udp::intact_v6(src, dst, bytes),
            _ => false,
        };
        if is_intact { Ok((datagram, payload)) } else { Err(NoDatagram::BadChecksum) }
    }

    /// Turns the datagram in `frame` round in place: it goes back with its payload to the station, address and port
    /// that it came from. Returns the received datagram.
    ///
    /// ```
    /// # use netmem::wire::{Datagram, MacAddr};
    /// # let (a, b) = (MacAddr::new([2, 0, 0, 0, 0, 1]), MacAddr::new([2, 0, 0, 0, 0, 2]));
    /// # let (src, dst) = ("192.0.2.1:4000".parse()?, "192.0.2.2:7".parse()?);
    /// # let came = Datagram { src_mac: a, dst_mac: b, src, dst, hop_limit: 3, tos: 0 };
    /// # let mut frame = [7; 60];
    /// # came.write(&mut frame)?;
    /// assert_eq!(Datagram::swap_endpoints(&mut frame)?, came);
    /// let (back, payload) = Datagram::parse(&frame)?;
    /// assert_eq!((back.src, back.dst, back.hop_limit, payload), (came.dst, came.src, 64, &[7; 18][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Sets the TTL or hop limit to 64, and the type of service or traffic class to 0.
    ///
    /// # Errors
    /// Returns [`NoDatagram`], except `BadChecksum`; the frame is unchanged.
    ///
    /// # Cost
    /// Only the headers are read. Swapping addresses and ports changes no checksum, so a wrong checksum goes back
    /// wrong.
    pub fn swap_endpoints(frame: &mut [u8]) -> Result<Datagram, NoDatagram> {
        let (datagram, _) = Datagram::locate(frame)?;
        datagram.answer().ok_or(NoDatagram::Unanswerable)?;
        let ports = frame.get_mut(datagram.headers_len() - udp::HEADER_LEN..).ok_or(NoDatagram::BadLength)?;
        Udp::parse_mut(ports).ok_or(NoDatagram::BadLength)?.0.swap_ports();
        let (link, packet) = Ethernet::parse_mut(frame)?;
        if datagram.dst.is_ipv6() {
            let header = Ipv6::parse_mut(packet)?;
            header.swap_addresses();
            header.set_hop_limit(HOP_LIMIT);
            header.set_traffic_class(0);
        } else {
            let header = Ipv4::parse_mut(packet)?;
            header.swap_addresses();
            header.set_ttl(HOP_LIMIT);
            header.set_tos(0);
        }
        link.swap_addresses();
        Ok(datagram)
    }

    /// Returns the answer to this datagram: from its destination to its source, by the station that it came by, with a
    /// `tos` of 0. Returns None if a station, address or port is not that of one host (broadcast, multicast, the
    /// unspecified address, port 0), or if the source is a loopback address or the destination's own: a router would
    /// send the answer back as a new request, without end. Such a datagram must not be answered.
    #[must_use]
    pub fn answer(&self) -> Option<Datagram> {
        let Datagram { src_mac, dst_mac, src, dst, .. } = *self;
        let is_one = |ip: IpAddr| !ip.is_multicast() && !ip.is_unspecified() && ip != IpAddr::from([255; 4]);
        let are_single =
            is_one(src.ip()) && is_one(dst.ip()) && !src_mac.is_multicast() && !dst_mac.is_multicast();
        let is_other = src.ip() != dst.ip() && !src.ip().is_loopback();
        (are_single && is_other && src.port() != 0).then_some(Datagram {
            src_mac: dst_mac,
            dst_mac: src_mac,
            src: dst,
            dst: src,
            hop_limit: HOP_LIMIT,
            tos: 0,
        })
    }

    /// Bytes of the headers of link, IP and UDP: 42 over IPv4, 62 over IPv6. The payload follows them.
    pub const fn headers_len(&self) -> usize {
        let ip = if self.dst.is_ipv4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        ethernet::HEADER_LEN + ip + udp::HEADER_LEN
    }

    /// Writes all headers before the payload, with lengths and checksums. The payload is everything in `frame` behind
    /// [`headers_len`](Self::headers_len) bytes. Over IPv4 the packet must not be fragmented.
    ///
    /// # Errors
    /// Returns [`WriteError`].
    ///
    /// # Cost
    /// Every byte of the payload is read for the checksum.
    pub fn write(&self, frame: &mut [u8]) -> Result<(), WriteError> {
        let (has, needs) = (frame.len(), self.headers_len());
        let Some(payload) = has.checked_sub(needs) else { return Err(WriteError::TooShort { has, needs }) };
        let most = usize::from(u16::MAX) - udp::HEADER_LEN - ipv4::HEADER_LEN;
        let Some(len) = u16::try_from(payload).ok().filter(|_| payload <= most) else {
            return Err(WriteError::TooLong(payload));
        };
        let mut header = Udp::new(self.src.port(), self.dst.port(), len);
        let length = header.length();
        let link = |ethertype| Ethernet::new(self.dst_mac, self.src_mac, ethertype).to_bytes();
        let (link, pseudo_header) = match (self.src.ip(), self.dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let mut ip = Ipv4::new(src, dst, ipv4::UDP, self.hop_limit, length);
                ip.set_tos(self.tos);
                frame[ethernet::HEADER_LEN..][..ipv4::HEADER_LEN].copy_from_slice(&ip.to_bytes());
                (link(ethernet::IPV4), udp::pseudo_header(src, dst, length))
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut ip = Ipv6::new(src, dst, ipv4::UDP, self.hop_limit, length);
                ip.set_traffic_class(self.tos);
                frame[ethernet::HEADER_LEN..][..ipv6::HEADER_LEN].copy_from_slice(&ip.to_bytes());
                (link(ethernet::IPV6), udp::pseudo_header_v6(src, dst, length))
            }
            _ => return Err(WriteError::MixedFamilies),
        };
        header.set_checksum(udp::checksum(pseudo_header + header.sum().bytes(&frame[needs..])));
        frame[..ethernet::HEADER_LEN].copy_from_slice(&link);
        frame[needs - udp::HEADER_LEN..needs].copy_from_slice(&header.to_bytes());
        Ok(())
    }

    /// Returns the datagram in `frame`, and its length with its header. Its payload and its checksum are not checked.
    fn locate(frame: &[u8]) -> Result<(Datagram, usize), NoDatagram> {
        let (link, packet) = Ethernet::parse(frame)?;
        let (src, dst, hop_limit, tos, protocol, bytes) = match link.ethertype() {
            ethernet::IPV4 => {
                let (ip, payload) = Ipv4::parse(packet)?;
                if ip.header_len() != ipv4::HEADER_LEN {
                    return Err(NoDatagram::Options);
                }
                if ip.is_fragment() {
                    return Err(NoDatagram::Fragment);
                }
                (IpAddr::from(ip.src()), IpAddr::from(ip.dst()), ip.ttl(), ip.tos, ip.protocol(), payload)
            }
            ethernet::IPV6 => {
                let ip = Ipv6::parse(packet)?;
                let payload = packet.get(ipv6::HEADER_LEN..ip.total_length()).ok_or(NoDatagram::BadLength)?;
                (
                    ip.src().into(),
                    ip.dst().into(),
                    ip.hop_limit(),
                    ip.traffic_class(),
                    ip.next_header(),
                    payload,
                )
            }
            other => return Err(NoDatagram::Ethertype(other)),
        };
        if protocol != ipv4::UDP {
            return Err(NoDatagram::Protocol(protocol));
        }
        let (header, _) = Udp::parse(bytes).ok_or(NoDatagram::BadLength)?;
        let datagram = Datagram {
            src_mac: link.src,
            dst_mac: link.dst,
            src: SocketAddr::new(src, header.src_port()),
            dst: SocketAddr::new(dst, header.dst_port()),
            hop_limit,
            tos,
        };
        Ok((datagram, header.length().into()))
    }
}

#[cfg(test)]
mod tests;
