//! ICMP errors about one packet: decides whether an error may be sent, and writes its bytes.

use super::{Message, Suppression};
use crate::route::{Fib, Hop, Neighbour, own_address};
use netmem::pool::Frame;
use netmem::wire::{Ethernet, Icmp, Ipv4, Ipv6, MacAddr, ethernet, icmp, ipv4, ipv6, options};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zerocopy::IntoBytes;

/// Maximum bytes of an IPv4 packet with an error (RFC 1812 §4.3.2.3).
const LONGEST_V4: usize = 576;
/// Maximum bytes of an IPv6 packet with an error: the minimum MTU of IPv6 (RFC 4443 §2.4 (c)).
const LONGEST_V6: usize = 1280;
/// The TTL or hop limit of an error (RFC 1700).
const TTL: u8 = 64;
/// Precedence 6, internetwork control, of every error (RFC 1812 §4.3.2.5).
const PRECEDENCE: u8 = 0xc0;
/// The bits of the offending packet's type of service that an error copies (RFC 1812 §4.3.2.5). The precedence is
/// not copied, and neither are the ECN bits: an error says nothing about congestion (RFC 3168 §5).
const SERVICE: u8 = 0x1c;

/// An ICMP error that is to be sent about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// Its type and code.
    says: (u8, u8),
    /// The second word of its ICMP header.
    rest: u32,
    /// Its addresses: from one of the router's own, to the packet's source.
    between: Between,
    /// Number of bytes that it quotes from the start of the packet.
    quoted: usize,
    /// The router's MAC address on the link on which the packet came in.
    link: MacAddr,
    /// The MAC address of the packet's sender, if its IP address is link-local. None if the error is routed.
    station: Option<MacAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    V4 { own: Ipv4Addr, to: Ipv4Addr, tos: u8 },
    V6 { own: Ipv6Addr, to: Ipv6Addr },
}

impl IcmpError {
    /// Returns the error `message` about the packet in `frame`. The packet came in on the port `from` and is not
    /// forwarded.
    ///
    /// Returns None if there is no IP packet, or if the packet's family does not have this message.
    ///
    /// # Errors
    /// [`Suppression`], if no error may be sent or if the router has no address to send it from.
    pub fn about(
        frame: &[u8],
        message: Message,
        from: u8,
        fib: &Fib,
    ) -> Option<Result<IcmpError, Suppression>> {
        IcmpError::about_if(|_| Ok(()), frame, message, from, fib)
    }

    /// As [`IcmpError::about`], if `allowed` allows an error to the packet's source. It is asked before the path back is
    /// looked for, which costs more than anything else here.
    pub(crate) fn about_if(
        allowed: impl FnOnce(IpAddr) -> Result<(), Suppression>,
        frame: &[u8],
        message: Message,
        from: u8,
        fib: &Fib,
    ) -> Option<Result<IcmpError, Suppression>> {
        let (header, packet) = Ethernet::parse(frame).ok()?;
        let link = fib.interfaces.get(usize::from(from))?.mac;
        match header.ethertype() {
            ethernet::IPV4 => IcmpError::about_v4(allowed, frame, packet, message, (from, link), fib),
            ethernet::IPV6 => IcmpError::about_v6(allowed, frame, packet, message, (from, link), fib),
            _ => None,
        }
    }

    fn about_v4(
        allowed: impl FnOnce(IpAddr) -> Result<(), Suppression>,
        frame: &[u8],
        packet: &[u8],
        message: Message,
        (from, link): (u8, MacAddr),
        fib: &Fib,
    ) -> Option<Result<IcmpError, Suppression>> {
        let (says, (header, payload)) = (message.v4()?, Ipv4::parse(packet).ok()?);
        // The pointer to the wrong byte is in the first eight bits.
        let pointer = match message {
            Message::ParameterProblem => u32::from(options::requested(packet).err()?.at) << 24,
            _ => 0,
        };
        let to = IpAddr::from(header.src());
        let allowed = may_be_answered(header, payload).and_then(|()| allowed(to));
        Some(allowed.and_then(|()| {
            let rest =
                if message == Message::TooBig { mtu(frame, header.dst().into(), fib) } else { pointer };
            let Back { own, most } = back(frame, to, from, fib)?;
            let IpAddr::V4(own) = own else { return Err(Suppression::NoAddress) };
            let room = LONGEST_V4.min(most).saturating_sub(ipv4::HEADER_LEN + icmp::HEADER_LEN);
            let between = Between::V4 { own, to: header.src(), tos: header.tos };
            let quoted = usize::from(header.total_length()).min(room);
            Ok(IcmpError { says, rest, between, quoted, link, station: None })
        }))
    }

    fn about_v6(
        allowed: impl FnOnce(IpAddr) -> Result<(), Suppression>,
        frame: &[u8],
        packet: &[u8],
        message: Message,
        (from, link): (u8, MacAddr),
        fib: &Fib,
    ) -> Option<Result<IcmpError, Suppression>> {
        let (says, header) = (message.v6()?, Ipv6::parse(packet).ok()?);
        let to = header.src();
        let allowed = may_be_answered_v6(header, packet, message).and_then(|()| allowed(to.into()));
        Some(allowed.and_then(|()| {
            // Every IPv6 link carries at least 1280 bytes (RFC 8200 §5).
            let least = LONGEST_V6 as u32;
            let rest =
                if message == Message::TooBig { mtu(frame, header.dst().into(), fib).max(least) } else { 0 };
            let (Back { own, most }, station) = if to.is_unicast_link_local() {
                let sender = Ethernet::parse(frame).map(|(link, _)| link.src).ok();
                let sender =
                    sender.filter(|sender| !sender.is_multicast()).ok_or(Suppression::SourceNotAHost)?;
                let own =
                    own_address(fib.addresses_of(from), to.into(), None).ok_or(Suppression::NoAddress)?;
                (Back { own, most: link_mtu(from, fib).ok_or(Suppression::NoRouteBack)? }, Some(sender))
            } else {
                (back(frame, to.into(), from, fib)?, None)
            };
            let IpAddr::V6(own) = own else { return Err(Suppression::NoAddress) };
            let room = LONGEST_V6.min(most).saturating_sub(ipv6::HEADER_LEN + icmp::HEADER_LEN);
            let (between, quoted) = (Between::V6 { own, to }, header.total_length().min(room));
            Ok(IcmpError { says, rest, between, quoted, link, station })
        }))
    }

    /// Returns true if the error goes straight back to the station that sent the packet, because the packet's
    /// source is link-local. Otherwise the error is to be forwarded like a received frame.
    pub fn stays_on_link(&self) -> bool {
        self.station.is_some()
    }

    /// Returns the destination of the error.
    pub(crate) fn to(&self) -> IpAddr {
        match self.between {
            Between::V4 { to, .. } => to.into(),
            Between::V6 { to, .. } => to.into(),
        }
    }

    /// Turns the frame that holds the packet into the error. The new headers are written into the headroom if there
    /// is enough of it. Otherwise the quoted bytes of the packet are moved behind the headers. The frame is then
    /// addressed like a received frame, or to its station if it [stays](Self::stays_on_link) on the link.
    ///
    /// # Errors
    /// [`Suppression::NoRoom`]. In that case only the frame's end has changed.
    pub fn write(&self, frame: &mut Frame) -> Result<(), Suppression> {
        let (ip, ethertype) = match self.between {
            Between::V4 { .. } => (ipv4::HEADER_LEN, ethernet::IPV4),
            Between::V6 { .. } => (ipv6::HEADER_LEN, ethernet::IPV6),
        };
        let gap = ip + icmp::HEADER_LEN;
        frame.trim(ethernet::HEADER_LEN + self.quoted).map_err(|_| Suppression::NoRoom)?;
        if frame.push(gap).is_err() {
            frame.put(gap).map_err(|_| Suppression::NoRoom)?;
            let end = ethernet::HEADER_LEN + self.quoted;
            frame.data_mut().copy_within(ethernet::HEADER_LEN..end, ethernet::HEADER_LEN + gap);
        }
        let (link, packet) = frame.data_mut().split_at_mut(ethernet::HEADER_LEN);
        let (head, quoted) = packet.split_at_mut(gap);
        let (ip_head, icmp_head) = head.split_at_mut(ip);
        let station = self.station.unwrap_or(self.link);
        link.copy_from_slice(Ethernet::new(station, self.link, ethertype).as_bytes());
        let (kind, code) = self.says;
        // One more if the error passes through the forwarder again.
        let hops = TTL + u8::from(self.station.is_none());
        let length = (icmp::HEADER_LEN + quoted.len()) as u16;
        match self.between {
            Between::V4 { own, to, tos } => {
                let mut header = Ipv4::new(own, to, icmp::PROTOCOL, hops, length);
                header.set_tos(PRECEDENCE | tos & SERVICE);
                ip_head.copy_from_slice(header.as_bytes());
                icmp_head.copy_from_slice(Icmp::v4(kind, code, self.rest, quoted).as_bytes());
            }
            Between::V6 { own, to } => {
                let header = Ipv6::new(own, to, icmp::PROTOCOL_V6, hops, length);
                ip_head.copy_from_slice(header.as_bytes());
                icmp_head.copy_from_slice(Icmp::v6(kind, code, self.rest, quoted, own, to).as_bytes());
            }
        }
        Ok(())
    }
}

/// Checks whether an error may be sent about an IPv4 packet (RFC 1812 §4.3.2.7).
fn may_be_answered(header: &Ipv4, payload: &[u8]) -> Result<(), Suppression> {
    let (src, dst) = (header.src(), header.dst());
    if header.fragment_offset() != 0 {
        Err(Suppression::Fragment)
    } else if header.protocol() == icmp::PROTOCOL && !icmp::is_query(payload) {
        Err(Suppression::AboutError)
    } else if dst.is_multicast() || dst.is_broadcast() {
        Err(Suppression::ToMulticast)
    } else if matches!(src.octets()[0], 0 | 127 | 224..) {
        Err(Suppression::SourceNotAHost)
    } else {
        Ok(())
    }
}

/// Checks whether the error `message` may be sent about an IPv6 packet (RFC 4443 §2.4 (e)).
fn may_be_answered_v6(header: &Ipv6, packet: &[u8], message: Message) -> Result<(), Suppression> {
    let (src, dst) = (header.src(), header.dst());
    let Some(upper) = icmp::upper(packet) else { return Err(Suppression::AboutError) };
    let is_icmp = upper.protocol == icmp::PROTOCOL_V6;
    if upper.begins_elsewhere && (is_icmp || icmp::is_extension(upper.protocol)) {
        Err(Suppression::Fragment)
    } else if is_icmp && !icmp::is_query_v6(upper.bytes) {
        Err(Suppression::AboutError)
    } else if dst.is_multicast() && message != Message::TooBig {
        Err(Suppression::ToMulticast)
    } else if src.is_unspecified() || src.is_loopback() || src.is_multicast() {
        Err(Suppression::SourceNotAHost)
    } else {
        Ok(())
    }
}

/// The path on which an error goes back.
struct Back {
    /// The router's address that is the error's source.
    own: IpAddr,
    /// Maximum bytes of an IP packet on the first link.
    most: usize,
}

/// Finds the path of an error back to `to`, by the current routes. `to` sent the packet in `frame`, which came in on the
/// port `from`. Of several paths it is the one of the packet's flow towards `to`.
///
/// The error's source is the route's preferred source, otherwise an address of the interface that it leaves by (RFC 1812
/// §4.3.2.4). If that interface has no address, the source is an address of the interface on which the packet came in,
/// and otherwise any address of the router, also one on an interface that is not a port ([`Fib::source`]).
///
/// There is no error if no route leads back. The error would use up a token that the sender of another packet
/// needs, and any source address can be forged.
fn back(frame: &[u8], to: IpAddr, from: u8, fib: &Fib) -> Result<Back, Suppression> {
    let flow = fib.table.flows.of_error_about(frame);
    let egress = egress(to, flow, fib);
    let own = fib.source(&[egress.unwrap_or(from), from], to, flow).ok_or(Suppression::NoAddress)?;
    let most = egress.and(room(to, flow, fib).ok_or(Suppression::NoRouteBack))?;
    Ok(Back { own, most })
}

/// Returns the port by which a packet of this flow leaves for `to`.
fn egress(to: IpAddr, hash: u32, fib: &Fib) -> Result<u8, Suppression> {
    match fib.table.next_hop(to, || hash) {
        Some(Hop::Station { port, .. } | Hop::Unresolved(Neighbour { port, .. })) => Ok(port),
        // The router itself, or a broadcast address of one of its links.
        Some(Hop::Local) => Err(Suppression::SourceNotAHost),
        _ => Err(Suppression::NoRouteBack),
    }
}

/// Returns the maximum bytes of an IP packet on a port's link.
fn link_mtu(port: u8, fib: &Fib) -> Option<usize> {
    fib.interfaces.get(usize::from(port)).map(|interface| usize::from(interface.mtu))
}

/// Returns the maximum bytes of an IP packet that leaves for `to` in one frame.
fn room(to: IpAddr, hash: u32, fib: &Fib) -> Option<usize> {
    let (hop, own_mtu) = fib.table.next_hop_and_mtu(to, || hash)?;
    let egress = fib.interfaces.get(usize::from(hop.port()?))?;
    Some(usize::from(egress.mtu_to(to, own_mtu)))
}

/// Returns the MTU that is reported to the sender of the packet in `frame`: that of the link that the packet was
/// for, or of the route (RFC 1191 §4, RFC 4443 §3.2).
fn mtu(frame: &[u8], destination: IpAddr, fib: &Fib) -> u32 {
    room(destination, fib.table.flows.of(frame), fib).map_or(0, |mtu| mtu as u32)
}
