//! An error about one packet: whether there is one, and its bytes.

use super::{Message, Silence};
use crate::forward::ip::{Interface, flow_hash};
use crate::forward::route::{Fib, Hop};
use crate::pool::Frame;
use crate::wire::{Ethernet, Icmp, Ipv4, Ipv6, MacAddr, ethernet, icmp, ipv4, ipv6};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zerocopy::IntoBytes;

/// Bytes of an IPv4 packet with an error at most (RFC 1812 §4.3.2.3).
const LONGEST_V4: usize = 576;
/// Bytes of an IPv6 packet with an error at most: what every link carries (RFC 4443 §2.4 (c)).
const LONGEST_V6: usize = 1280;
/// The TTL or hop limit with which an error is forwarded, as if it came in: it leaves with the one of RFC 1700, 64.
const TTL: u8 = 65;
/// Precedence 6, internetwork control, of every error (RFC 1812 §4.3.2.5).
const PRECEDENCE: u8 = 0xc0;
/// What of the offending packet's type of service an error takes over (RFC 1812 §4.3.2.5): not its precedence, and nothing
/// about congestion, of which an error says nothing (RFC 3168 §5).
const SERVICE: u8 = 0x1c;

/// An error that is to be sent about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    message: Message,
    /// Between whom it is sent: the router's own address, and the packet's source.
    between: Between,
    /// The second word of the header: the MTU where that is what it says.
    rest: u32,
    /// Bytes of the packet that it quotes, from the first.
    quoted: usize,
    /// The router's end of the link that the packet came in by.
    link: MacAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    V4 { own: Ipv4Addr, to: Ipv4Addr, tos: u8 },
    V6 { own: Ipv6Addr, to: Ipv6Addr },
}

impl IcmpError {
    /// The error that says `message` about the packet in `frame`, which came in by the port `from` and is not forwarded.
    ///
    /// None where there is no IP packet.
    ///
    /// # Errors
    /// [`Silence`], where none may be sent or the router has no address to send it from.
    pub fn about(frame: &[u8], message: Message, from: u8, fib: &Fib) -> Option<Result<IcmpError, Silence>> {
        let link = fib.interfaces.get(usize::from(from))?.mac;
        let (header, packet) = Ethernet::parse(frame).ok()?;
        match header.ethertype() {
            ethernet::IPV4 => {
                let (header, payload) = Ipv4::parse(packet).ok()?;
                Some(may_be_answered(header, payload).and_then(|()| {
                    let Back { own, most } = back(header.src().into(), from, fib)?;
                    let IpAddr::V4(own) = own else { return Err(Silence::NoAddress) };
                    let room = LONGEST_V4.min(most).saturating_sub(ipv4::HEADER_LEN + icmp::HEADER_LEN);
                    let rest = rest(message, frame, header.dst().into(), fib);
                    let between = Between::V4 { own, to: header.src(), tos: header.tos };
                    Ok(IcmpError { message, between, rest, quoted: header.total_length().min(room), link })
                }))
            }
            ethernet::IPV6 => {
                let header = Ipv6::parse(packet).ok()?;
                Some(may_be_answered_v6(header, packet, message).and_then(|()| {
                    let Back { own, .. } = back(header.src().into(), from, fib)?;
                    let IpAddr::V6(own) = own else { return Err(Silence::NoAddress) };
                    let room = LONGEST_V6 - ipv6::HEADER_LEN - icmp::HEADER_LEN;
                    let rest = rest(message, frame, header.dst().into(), fib);
                    let between = Between::V6 { own, to: header.src() };
                    Ok(IcmpError { message, between, rest, quoted: header.total_length().min(room), link })
                }))
            }
            _ => None,
        }
    }

    /// Makes the error of the frame that holds the packet: its first bytes move behind the new headers, or those go in front of
    /// them where there is headroom. The frame is addressed as one that comes in, to be forwarded.
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
        link.copy_from_slice(Ethernet::new(self.link, self.link, ethertype).as_bytes());
        let length = (icmp::HEADER_LEN + quoted.len()) as u16;
        match self.between {
            Between::V4 { own, to, tos } => {
                let mut header = Ipv4::new(own, to, icmp::PROTOCOL, TTL, length);
                header.set_tos(PRECEDENCE | tos & SERVICE);
                let (kind, code) = self.message.v4();
                ip_head.copy_from_slice(header.as_bytes());
                icmp_head.copy_from_slice(Icmp::v4(kind, code, self.rest, quoted).as_bytes());
            }
            Between::V6 { own, to } => {
                let header = Ipv6::new(own, to, icmp::PROTOCOL_V6, TTL, length);
                let (kind, code) = self.message.v6();
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
    if is_icmp && upper.begins_elsewhere {
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
fn back(to: IpAddr, from: u8, fib: &Fib) -> Result<Back, Silence> {
    let hop = fib.table.next_hop(to, || 0);
    if hop == Some(Hop::Local) {
        // The router itself, or everyone on one of its links.
        return Err(Silence::FromNobody);
    }
    let egress = hop.and_then(Hop::port);
    let ports = egress.into_iter().chain([from]).chain(0..fib.addresses.len() as u8);
    let own = ports.filter_map(|port| own_address(fib.addresses_of(port), to)).next();
    let mtu = |Interface { mtu, .. }: &Interface| usize::from(*mtu);
    let most = egress.and_then(|port| fib.interfaces.get(usize::from(port))).map_or(usize::MAX, mtu);
    own.map(|own| Back { own, most }).ok_or(Silence::NoAddress)
}

/// Of one interface's addresses the one to speak to `to` from: the one of its network, else the first of its family that is good
/// beyond the link.
fn own_address(addresses: &[IpNet], to: IpAddr) -> Option<IpAddr> {
    let good = |net: &&IpNet| match (net.addr(), to) {
        (IpAddr::V4(_), IpAddr::V4(_)) => true,
        (IpAddr::V6(own), IpAddr::V6(to)) => !own.is_unicast_link_local() || to.is_unicast_link_local(),
        _ => false,
    };
    let near = addresses.iter().filter(good).find(|net| net.contains(&to));
    near.or_else(|| addresses.iter().find(good)).map(IpNet::addr)
}

/// The second word of an error: of one about a packet's length the MTU of the link it was for (RFC 1191 §4, RFC 4443 §3.2), which
/// over IPv6 is never below 1280 (RFC 8200 §5).
fn rest(message: Message, frame: &[u8], destination: IpAddr, fib: &Fib) -> u32 {
    if message != Message::TooBig {
        return 0;
    }
    let port = fib.table.next_hop(destination, || flow_hash(frame)).and_then(Hop::port);
    let egress = port.and_then(|port| fib.interfaces.get(usize::from(port)));
    let mtu = egress.map_or(0, |egress| u32::from(egress.mtu));
    if destination.is_ipv6() { mtu.max(LONGEST_V6 as u32) } else { mtu }
}
