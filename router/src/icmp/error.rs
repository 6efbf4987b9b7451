//! An error about one packet: whether there is one, and its bytes.

use super::{Message, Silence};
use crate::route::{Fib, Hop, Neighbour, own_address};
use netmem::pool::Frame;
use netmem::wire::{Ethernet, Icmp, Ipv4, Ipv6, MacAddr, ethernet, icmp, ipv4, ipv6, options};
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zerocopy::IntoBytes;

/// Bytes of an IPv4 packet with an error at most (RFC 1812 §4.3.2.3).
const LONGEST_V4: usize = 576;
/// Bytes of an IPv6 packet with an error at most: what every link carries (RFC 4443 §2.4 (c)).
const LONGEST_V6: usize = 1280;
/// The TTL or hop limit with which an error leaves (RFC 1700).
const TTL: u8 = 64;
/// So many addresses are tried until one is that of the path that an error takes.
const PATHS_TRIED: usize = 8;
/// Precedence 6, internetwork control, of every error (RFC 1812 §4.3.2.5).
const PRECEDENCE: u8 = 0xc0;
/// What of the offending packet's type of service an error takes over (RFC 1812 §4.3.2.5): not its precedence, and nothing
/// about congestion, of which an error says nothing (RFC 3168 §5).
const SERVICE: u8 = 0x1c;

/// An error that is to be sent about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// Its type and code.
    says: (u8, u8),
    /// The second word of its header.
    rest: u32,
    /// Between whom it is sent: the router's own address, and the packet's source.
    between: Between,
    /// Bytes of the packet that it quotes, from the first.
    quoted: usize,
    /// The router's end of the link that the packet came in by.
    link: MacAddr,
    /// The station there that the error goes back to, where its address means nothing on other links; None where it is routed.
    station: Option<MacAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    V4 { own: Ipv4Addr, to: Ipv4Addr, tos: u8 },
    V6 { own: Ipv6Addr, to: Ipv6Addr },
}

impl IcmpError {
    /// The error that says `message` about the packet in `frame`, which came in by the port `from` and is not forwarded.
    ///
    /// None where there is no IP packet, or the message is none of its family.
    ///
    /// # Errors
    /// [`Silence`], where none may be sent or the router has no address to send it from.
    pub fn about(frame: &[u8], message: Message, from: u8, fib: &Fib) -> Option<Result<IcmpError, Silence>> {
        let (header, packet) = Ethernet::parse(frame).ok()?;
        let link = fib.interfaces.get(usize::from(from))?.mac;
        match header.ethertype() {
            ethernet::IPV4 => IcmpError::about_v4(frame, packet, message, (from, link), fib),
            ethernet::IPV6 => IcmpError::about_v6(frame, packet, message, (from, link), fib),
            _ => None,
        }
    }

    fn about_v4(
        frame: &[u8],
        packet: &[u8],
        message: Message,
        (from, link): (u8, MacAddr),
        fib: &Fib,
    ) -> Option<Result<IcmpError, Silence>> {
        let (says, (header, payload)) = (message.v4()?, Ipv4::parse(packet).ok()?);
        let rest = match message {
            Message::TooBig => mtu(frame, header.dst().into(), fib),
            // Where the wrong byte is stands in the first eight bits.
            Message::ParameterProblem => u32::from(options::requested(packet).err()?.at) << 24,
            _ => 0,
        };
        Some(may_be_answered(header, payload).and_then(|()| {
            let Back { own, most } = back(header.src().into(), from, fib)?;
            let IpAddr::V4(own) = own else { return Err(Silence::NoAddress) };
            let room = LONGEST_V4.min(most).saturating_sub(ipv4::HEADER_LEN + icmp::HEADER_LEN);
            let between = Between::V4 { own, to: header.src(), tos: header.tos };
            let quoted = usize::from(header.total_length()).min(room);
            Ok(IcmpError { says, rest, between, quoted, link, station: None })
        }))
    }

    fn about_v6(
        frame: &[u8],
        packet: &[u8],
        message: Message,
        (from, link): (u8, MacAddr),
        fib: &Fib,
    ) -> Option<Result<IcmpError, Silence>> {
        let (says, header) = (message.v6()?, Ipv6::parse(packet).ok()?);
        // No link of IPv6 carries less than 1280 (RFC 8200 §5).
        let least = LONGEST_V6 as u32;
        let rest =
            if message == Message::TooBig { mtu(frame, header.dst().into(), fib).max(least) } else { 0 };
        Some(may_be_answered_v6(header, packet, message).and_then(|()| {
            let to = header.src();
            let (Back { own, most }, station) = if to.is_unicast_link_local() {
                let sender = Ethernet::parse(frame).map(|(link, _)| link.src).ok();
                let sender = sender.filter(|sender| !sender.is_group()).ok_or(Silence::FromNobody)?;
                let own = own_address(fib.addresses_of(from), to.into()).ok_or(Silence::NoAddress)?;
                (Back { own, most: link_mtu(from, fib).ok_or(Silence::NoWayBack)? }, Some(sender))
            } else {
                (back(to.into(), from, fib)?, None)
            };
            let IpAddr::V6(own) = own else { return Err(Silence::NoAddress) };
            let room = LONGEST_V6.min(most).saturating_sub(ipv6::HEADER_LEN + icmp::HEADER_LEN);
            let (between, quoted) = (Between::V6 { own, to }, header.total_length().min(room));
            Ok(IcmpError { says, rest, between, quoted, link, station })
        }))
    }

    /// Whether it goes straight back to the station that sent the packet, because its address means nothing on other links; else it
    /// is to be forwarded as a frame that comes in.
    pub fn stays_on_link(&self) -> bool {
        self.station.is_some()
    }

    /// Who is told.
    pub(crate) fn to(&self) -> IpAddr {
        match self.between {
            Between::V4 { to, .. } => to.into(),
            Between::V6 { to, .. } => to.into(),
        }
    }

    /// Makes the error of the frame that holds the packet: the new headers go in front of it where there is headroom, or else its
    /// first bytes move behind them. The frame is addressed as one that comes in, or, where it
    /// [stays](Self::stays_on_link) on the link, to its station.
    ///
    /// # Errors
    /// [`Silence::NoRoom`]; nothing but the frame's end has changed then.
    pub fn write(&self, frame: &mut Frame) -> Result<(), Silence> {
        let (ip, ethertype) = match self.between {
            Between::V4 { .. } => (ipv4::HEADER_LEN, ethernet::IPV4),
            Between::V6 { .. } => (ipv6::HEADER_LEN, ethernet::IPV6),
        };
        let gap = ip + icmp::HEADER_LEN;
        frame.trim(ethernet::HEADER_LEN + self.quoted).map_err(|_| Silence::NoRoom)?;
        if frame.push(gap).is_err() {
            frame.put(gap).map_err(|_| Silence::NoRoom)?;
            let end = ethernet::HEADER_LEN + self.quoted;
            frame.data_mut().copy_within(ethernet::HEADER_LEN..end, ethernet::HEADER_LEN + gap);
        }
        let (link, packet) = frame.data_mut().split_at_mut(ethernet::HEADER_LEN);
        let (head, quoted) = packet.split_at_mut(gap);
        let (ip_head, icmp_head) = head.split_at_mut(ip);
        let station = self.station.unwrap_or(self.link);
        link.copy_from_slice(Ethernet::new(station, self.link, ethertype).as_bytes());
        let (kind, code) = self.says;
        // One more where it comes in once more.
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

/// Whether an error may be sent about an IPv4 packet (RFC 1812 §4.3.2.7).
fn may_be_answered(header: &Ipv4, payload: &[u8]) -> Result<(), Silence> {
    let (src, dst) = (header.src(), header.dst());
    if header.fragment_offset() != 0 {
        Err(Silence::Fragment)
    } else if header.protocol() == icmp::PROTOCOL && !icmp::is_query(payload) {
        Err(Silence::AboutError)
    } else if dst.is_multicast() || dst.is_broadcast() {
        Err(Silence::ToGroup)
    } else if matches!(src.octets()[0], 0 | 127 | 224..) {
        Err(Silence::FromNobody)
    } else {
        Ok(())
    }
}

/// Whether an error that says `message` may be sent about an IPv6 packet (RFC 4443 §2.4 (e)).
fn may_be_answered_v6(header: &Ipv6, packet: &[u8], message: Message) -> Result<(), Silence> {
    let (src, dst) = (header.src(), header.dst());
    let Some(upper) = icmp::upper(packet) else { return Err(Silence::AboutError) };
    let is_icmp = upper.protocol == icmp::PROTOCOL_V6;
    if upper.begins_elsewhere && (is_icmp || icmp::is_extension(upper.protocol)) {
        Err(Silence::Fragment)
    } else if is_icmp && !icmp::is_query_v6(upper.bytes) {
        Err(Silence::AboutError)
    } else if dst.is_multicast() && message != Message::TooBig {
        Err(Silence::ToGroup)
    } else if src.is_unspecified() || src.is_loopback() || src.is_multicast() {
        Err(Silence::FromNobody)
    } else {
        Ok(())
    }
}

/// How an error goes back.
struct Back {
    /// The router's address that it comes from.
    own: IpAddr,
    /// Bytes of IP packet that the first link carries.
    most: usize,
}

/// How an error goes back to `to`, which sent a packet that came in by the port `from`: by the routes there are now.
///
/// It comes from an address of the interface that it leaves by (RFC 1812 §4.3.2.4), or, where that has none, of the one that the
/// packet came in by, or of any.
///
/// Where no way leads back there is no error: it would cost a token that the sender of another packet needs, and a packet's source
/// is whatever its sender writes.
fn back(to: IpAddr, from: u8, fib: &Fib) -> Result<Back, Silence> {
    let mut own = speaker(to, [from; 2], fib)?;
    // Which of several paths it takes depends on the address that it comes from, and that on the path.
    for _ in 0..PATHS_TRIED {
        let better = speaker(to, [egress(to, fib.table.flows.between(own, to), fib)?, from], fib)?;
        if mem::replace(&mut own, better) == better {
            break;
        }
    }
    let most = room(to, fib.table.flows.between(own, to), fib).ok_or(Silence::NoWayBack)?;
    Ok(Back { own, most })
}

/// The port by which a packet of this flow leaves for `to`.
fn egress(to: IpAddr, hash: u32, fib: &Fib) -> Result<u8, Silence> {
    match fib.table.next_hop(to, || hash) {
        Some(Hop::Station { port, .. } | Hop::Unresolved(Neighbour { port, .. })) => Ok(port),
        // The router itself, or everyone on one of its links.
        Some(Hop::Local) => Err(Silence::FromNobody),
        _ => Err(Silence::NoWayBack),
    }
}

/// The router's address on the first of these ports that has one to speak to `to` from, else on any.
fn speaker(to: IpAddr, first: [u8; 2], fib: &Fib) -> Result<IpAddr, Silence> {
    let ports = first.into_iter().chain(0..fib.addresses.len() as u8);
    ports.filter_map(|port| own_address(fib.addresses_of(port), to)).next().ok_or(Silence::NoAddress)
}

/// Bytes of IP packet that a port's link carries.
fn link_mtu(port: u8, fib: &Fib) -> Option<usize> {
    fib.interfaces.get(usize::from(port)).map(|interface| usize::from(interface.mtu))
}

/// Bytes of IP packet that may leave for `to` in one frame.
fn room(to: IpAddr, hash: u32, fib: &Fib) -> Option<usize> {
    let (hop, own_mtu) = fib.table.next_hop_and_mtu(to, || hash)?;
    let egress = fib.interfaces.get(usize::from(hop.port()?))?;
    Some(usize::from(egress.mtu_to(to, own_mtu)))
}

/// The MTU of the link that the packet in `frame` was for, or of the route: what the sender is told (RFC 1191 §4, RFC 4443 §3.2).
fn mtu(frame: &[u8], destination: IpAddr, fib: &Fib) -> u32 {
    room(destination, fib.table.flows.of(frame), fib).map_or(0, |mtu| mtu as u32)
}
