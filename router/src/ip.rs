//! Forwarding of IP packets: IPv4 as RFC 1812 §5.2 and §5.3 ask of a router, and IPv6 (`v6`).
//!
//! For IPv4 there are two paths to a verdict. `forward_plain` is HOT: it takes ordinary frames, which are nearly
//! all. `forward_any` takes every frame, makes one check after the other, and alone returns drop reasons.

mod fragment;
mod options;
pub(crate) mod v6;

use std::net::{IpAddr, Ipv4Addr};

pub(crate) use fragment::fragment;

use super::route::{Fib, Hop, Neighbour, Table};
use crate::interface::Interface;
use netmem::forward::{Reason, Verdict};
use netmem::wire::{Ethernet, Headers, Ipv4, Ipv6, MacAddr, ethernet, ipv4};

/// Forwards the IP packet in `frame`, which came in by `ingress`.
///
/// The routes of `fib` name ports by the numbers of its interfaces. If the verdict is a redirect, the TTL or hop
/// limit, the header checksum and both MAC addresses are rewritten. Otherwise no byte has changed, so a frame that
/// waits, or is to be fragmented, can be decided about again.
///
/// Padding of the link behind the packet is not examined and is still there. [`unpadded`] says where the padding
/// begins, and a [`Router`](crate::Router) cuts it off. A priority-tagged frame (802.1Q, VID 0) has an unknown
/// ethertype here: a router takes the tag off and decides again.
///
/// # Cost
/// For an IPv4 header without options it reads and writes bytes 0..34 of the frame only, and scans a small table.
/// That is some 70 instructions, and no branch depends on which of the first four routes matches.
///
/// A padded frame costs a call. These frames cost a call and the checks once more: a frame that is dropped, has
/// options, or is from or to 169.0.0.0/8, and a frame whose route has several paths or an MTU of its own. An IPv6
/// packet costs a call. Of the sources that are not the router's own, one in some hundreds costs a search in the
/// router's addresses. The share depends on the number of these addresses.
#[inline]
pub fn forward_ip(frame: &mut [u8], ingress: &Interface, fib: &Fib) -> Verdict {
    decide(frame, ingress, fib).0
}

/// Decides as [`forward_ip`]. Also returns true if the frame has padding behind the packet, or a priority tag,
/// which must not leave. A frame with a priority tag is dropped until the tag is taken off.
#[inline(always)]
pub(super) fn decide(frame: &mut [u8], ingress: &Interface, fib: &Fib) -> (Verdict, bool) {
    match forward_plain(frame, ingress, fib) {
        Some(port) => (Verdict::Redirect(port), false),
        None => decide_other(frame, ingress, fib),
    }
}

/// Decides as [`decide`] about a frame off the hot path: padded, tagged, IPv6, or one with something to check or
/// report.
#[inline(never)]
pub(crate) fn decide_other(frame: &mut [u8], ingress: &Interface, fib: &Fib) -> (Verdict, bool) {
    let (whole, len) = (frame.len(), unpadded(frame));
    let frame = &mut frame[..len];
    let mut is_odd = len < whole;
    let decided = if frame.get(12..14) == Some(&ethernet::IPV6.to_be_bytes()) {
        v6::forward(frame, Some(ingress), None, fib)
    } else if len < whole
        && let Some(port) = forward_plain(frame, ingress, fib)
    {
        Ok(Verdict::Redirect(port))
    } else {
        is_odd |= ethernet::is_priority_tagged(frame);
        forward_any(frame, Some(ingress), None, fib)
    };
    (decided.unwrap_or_else(Verdict::Drop), is_odd)
}

/// Returns the length of `frame` without the padding that the link put behind its IP packet to reach the minimum
/// frame size (RFC 894, RFC 2464 §3). Returns the whole length if there is no such padding, or no IP packet with a
/// plausible length.
pub fn unpadded(frame: &[u8]) -> usize {
    let Ok((link, packet)) = Ethernet::parse(frame) else { return frame.len() };
    let length = match link.ethertype() {
        ethernet::IPV4 => Headers::read(frame).map(|(headers, _)| headers.ip.total_length().into()),
        ethernet::IPV6 => Ipv6::read(packet)
            .filter(|(header, _)| !v6::is_jumbogram(header, packet))
            .map(|(header, _)| header.total_length()),
        _ => None,
    };
    let length = length.filter(|length| *length >= ipv4::HEADER_LEN);
    length.map_or(frame.len(), |length| frame.len().min(ethernet::HEADER_LEN + length))
}

/// Forwards the IP packet in `frame`, which was admitted before and has waited, or which the router made itself.
/// Only its route is looked up; its source is not checked again. COLD.
pub(super) fn forward_admitted(frame: &mut [u8], fib: &Fib) -> Verdict {
    forward_checked(frame, None, None, fib)
}

/// Forwards the IP packet in `frame`, one check after the other. Without an `ingress` the packet was admitted
/// before. If it stands for several segments, the packet of each segment has at most `longest` bytes. COLD.
pub(super) fn forward_checked(
    frame: &mut [u8],
    ingress: Option<&Interface>,
    longest: Option<usize>,
    fib: &Fib,
) -> Verdict {
    let decided = match Ethernet::parse(frame).map(|(link, _)| link.ethertype()) {
        Ok(ethernet::IPV6) => v6::forward(frame, ingress, longest, fib),
        _ => forward_any(frame, ingress, longest, fib),
    };
    decided.unwrap_or_else(Verdict::Drop)
}

/// Forwards an ordinary frame. Leaves any other frame unchanged and undecided.
///
/// # Cost
/// One check of the frame's length; seven loads of the headers, three of which make the checksum's sum;
/// one more for the filter of sources; one compare for four routes; and six stores. It is all inlined, and nothing in it can panic.
#[inline(always)]
pub(crate) fn forward_plain(frame: &mut [u8], ingress: &Interface, fib: &Fib) -> Option<u8> {
    let (Headers { link, ip }, payload) = Headers::over(frame)?;
    let length = usize::from(ip.total_length());
    let usual = link.is_for(ingress.mac)
        && link.ethertype() == ethernet::IPV4
        && ip.is_plain()
        && length.wrapping_sub(ipv4::HEADER_LEN) == payload.len()
        && !(SUSPECT[usize::from(ip.src().octets()[0])] | SUSPECT[usize::from(ip.dst().octets()[0])])
        && ip.ttl() > 1
        && !(fib.own_sources.may_have(ip.src()) && is_own(ip.src().into(), fib));
    if !usual {
        return None;
    }
    let hop = fib.table.lookup(ip.dst())?;
    let egress = fib.interfaces.get(usize::from(hop.port))?;
    if length > usize::from(egress.mtu) {
        return None;
    }
    ip.decrement_ttl();
    // Field by field: a header built on the stack would stall on its own stores.
    link.dst = hop.mac;
    link.src = egress.mac;
    Some(hop.port)
}

/// Forwards any frame, one check after the other. The first check that fails gives the reason
/// ([`forward_checked`]).
#[cold]
#[inline(never)]
fn forward_any(
    frame: &mut [u8],
    ingress: Option<&Interface>,
    longest: Option<usize>,
    fib: &Fib,
) -> Result<Verdict, Reason> {
    let packet = check(frame, ingress, fib)?.in_segments(longest);
    let way = way(frame, &packet, fib)?;
    let records = options::check(Ethernet::parse(frame)?.1, fib.allow)?;
    let Some(way) = way else { return Ok(Verdict::Wait) };
    if packet.length > way.mtu {
        return Ok(Verdict::Fragment);
    }
    leave(frame, way, records, fib)
}

/// Writes the changes for forwarding into a frame, and also into its options if `records` is true.
fn leave(frame: &mut [u8], way: Way, records: bool, fib: &Fib) -> Result<Verdict, Reason> {
    let (link, bytes) = Ethernet::parse_mut(frame)?;
    Ipv4::parse_mut(bytes)?.decrement_ttl();
    if records {
        options::record(bytes, way.port, fib);
    }
    Ok(way.take(link))
}

/// The fields of a packet that its path depends on.
struct Packet {
    destination: IpAddr,
    /// Bytes of the packet, including its header.
    length: usize,
    /// Number of routers that may forward it, including this one.
    hops: u8,
    /// True if a router may fragment it.
    may_be_cut: bool,
}

impl Packet {
    /// Returns the same packet as it leaves in segments of at most this many bytes.
    fn in_segments(self, longest: Option<usize>) -> Packet {
        Packet { length: longest.unwrap_or(self.length), ..self }
    }
}

/// The path by which a packet leaves.
struct Way {
    port: u8,
    /// The MAC address of the station that receives it.
    station: MacAddr,
    /// The router's MAC address on the link.
    own: MacAddr,
    /// Maximum bytes of an IP packet in one frame on this path.
    mtu: usize,
}

impl Way {
    /// Addresses a frame for this path.
    fn take(self, link: &mut Ethernet) -> Verdict {
        link.dst = self.station;
        link.src = self.own;
        Verdict::Redirect(self.port)
    }
}

/// Returns the path of a packet, or None if the MAC address of its next hop is not known.
///
/// The TTL is checked after it is known that this router is not the destination (RFC 1812 §5.3.1). The length is
/// checked as soon as the link is known, so that the sender is informed at once and not after a neighbour answers.
/// A packet that may be fragmented waits whole.
fn way(frame: &[u8], packet: &Packet, fib: &Fib) -> Result<Option<Way>, Reason> {
    let (hop, own_mtu) = fib
        .table
        .next_hop_and_mtu(packet.destination, || fib.table.flows.of(frame))
        .ok_or(Reason::NoRoute)?;
    let (port, station) = match hop {
        Hop::Station { port, mac } => (port, Ok(Some(mac))),
        Hop::Unresolved(neighbour) => (neighbour.port, Ok(None)),
        Hop::Failed(neighbour) => (neighbour.port, Err(Reason::NeighFailed)),
        Hop::Local => return Err(Reason::LocalAddress),
        Hop::Blackhole => return Err(Reason::Blackhole),
        Hop::Unreachable => return Err(Reason::Unreachable),
        Hop::Prohibit => return Err(Reason::Prohibited),
        Hop::Elsewhere => return Err(Reason::NoRoute),
    };
    if packet.hops <= 1 {
        return Err(Reason::TtlExpired);
    }
    let egress = fib.interfaces.get(usize::from(port)).ok_or(Reason::NoRoute)?;
    let mtu = usize::from(egress.mtu_to(packet.destination, own_mtu));
    if packet.length > mtu && !packet.may_be_cut {
        return Err(Reason::PktTooBig);
    }
    Ok(station?.map(|station| Way { port, station, own: egress.mac, mtu }))
}

/// Makes all checks that do not depend on the route of the destination. For a received frame, also checks its MAC
/// addresses and the addresses that it may be from and to.
fn check(frame: &[u8], ingress: Option<&Interface>, fib: &Fib) -> Result<Packet, Reason> {
    let (link, packet) = Ethernet::parse(frame)?;
    if link.ethertype() != ethernet::IPV4 {
        return Err(other_ethertype(link.ethertype()));
    }
    if ingress.is_some_and(|ingress| link.dst != ingress.mac) {
        return Err(other_station(link.dst));
    }
    let (header, _) = Ipv4::parse(packet)?;
    if ingress.is_some() {
        let ends = [header.src(), header.dst()];
        if ends.iter().any(|end| is_refused(*end, fib)) || is_own(header.src().into(), fib) {
            return Err(Reason::Martian);
        }
    }
    Ok(Packet {
        destination: header.dst().into(),
        length: header.total_length().into(),
        hops: header.ttl(),
        may_be_cut: !header.dont_fragment(),
    })
}

/// Returns the neighbour whose MAC address a frame with the verdict [`Verdict::Wait`] waits for, or None if it need
/// not wait any more.
pub(super) fn awaited(frame: &[u8], table: &Table) -> Option<Neighbour> {
    let (link, packet) = Ethernet::parse(frame).ok()?;
    let destination: IpAddr = match link.ethertype() {
        ethernet::IPV6 => Ipv6::parse(packet).ok()?.dst().into(),
        _ => Ipv4::parse(packet).ok()?.0.dst().into(),
    };
    match table.next_hop(destination, || table.flows.of(frame))? {
        Hop::Unresolved(neighbour) => Some(neighbour),
        _ => None,
    }
}

#[cold]
fn other_ethertype(ethertype: u16) -> Reason {
    match ethertype {
        ethernet::ARP => Reason::Arp,
        _ => Reason::UnknownEthertype,
    }
}

#[cold]
fn other_station(dst: MacAddr) -> Reason {
    if dst.is_multicast() { Reason::LinkMulticast } else { Reason::NotForUs }
}

/// Returns true if a packet has this source although it is one of the router's own addresses, or a broadcast
/// address of one of its links. Such an address is listed, unless a route given by the operator leads its packets
/// elsewhere.
#[cold]
#[inline(never)]
fn is_own(source: IpAddr, fib: &Fib) -> bool {
    fib.own_sources.has(source) && fib.table.next_hop(source, || 0) == Some(Hop::Local)
}

/// Returns true if packets from or to this address are not forwarded because it is a martian.
pub(crate) fn is_refused(address: Ipv4Addr, fib: &Fib) -> bool {
    is_martian(address) && !(fib.allow.martians && is_switched(address))
}

/// Returns true if no packet from or to this address may be forwarded: this network (0/8), loopback (127/8),
/// multicast (not routed here), class E with the limited broadcast (RFC 1812 §5.3.7), and link-local (RFC 3927
/// §2.7).
pub(crate) const fn is_martian(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    matches!(first, 0 | 127 | 224..) || (first == 169 && second == 254)
}

/// Returns true for a martian that [`Allow::martians`] covers.
pub(crate) const fn is_switched(martian: Ipv4Addr) -> bool {
    matches!(martian.octets()[0], 0 | 127 | 240..) && !martian.is_broadcast()
}

/// The first octets under which there are martians. Only for 169 does the second octet matter. 169.254 is martian,
/// so testing one address with the second octet 254 decides for each first octet.
const SUSPECT: [bool; 256] = {
    let mut suspect = [false; 256];
    let mut first = 0;
    while first < suspect.len() {
        suspect[first] = is_martian(Ipv4Addr::new(first as u8, 254, 0, 0));
        first += 1;
    }
    suspect
};

#[cfg(test)]
mod tests;
