//! The redirect program: which packets of a queue go to its socket, and which stay with the kernel.
//!
//! [`Punt::Nothing`] is six instructions that read no byte of the packet. [`Punt::Control`] reads the headers, in this
//! order. Frames that are not named here are redirected:
//!
//! | frame | verdict |
//! |---|---|
//! | shorter than an Ethernet header | redirect |
//! | to a group address: broadcast, multicast | pass |
//! | one or two VLAN tags (802.1Q, 802.1ad) | as the frame behind the tags |
//! | neither IPv4 nor IPv6: ARP, 802.1X, PPPoE, MPLS, a third tag | pass |
//! | from a DHCP server to this interface's MAC address, also before the host has the address (RFC 2131 §4.1) | pass |
//! | IPv4 to an own address (one in a prefix of [`AddressMaps`](super::AddressMaps)), also a fragment, also with options | pass |
//! | IPv6 to an own address, with any extension headers | pass |
//! | IPv6 whose next header is ICMPv6 of type 133 to 137 (neighbour discovery, RFC 4861 §4) | pass |
//! | IPv4 or IPv6 whose header is cut short | redirect |
//!
//! An answer of a DHCP server is a UDP packet to port 68 that is not a fragment, has no IPv4 options, and is meant for
//! a client with the frame's destination MAC address (`chaddr`, its last four bytes). An answer that is on its way to
//! another client is redirected. Neighbour discovery behind extension headers is not searched for: it goes to a group
//! address or an own address, and passes by its address.
//!
//! Nothing else of a header is checked. The kernel checks the packets that pass, and the reader of the socket checks
//! the packets that are redirected. If a driver takes VLAN tags out of frames before the program runs, no tag is seen.
//! Generic mode does this behind an interface that offloads them.
//!
//! [`Punt::Neighbours`] passes ARP and neighbour discovery of that table, behind up to two tags, and redirects all
//! other frames.
//!
//! Of the frames that would be redirected, [`Take`] takes those that its rules match, and leaves the rest to the kernel
//! as well (`take.rs`). A program that leaves frames to the kernel counts them for each queue.
//!
//! A queue without a socket passes everything, and does not count the frames that it would have redirected.
//!
//! The program at an interface's ingress ([`IngressProgram`](super::IngressProgram)) drops the frames that the table
//! redirects, because a packet socket has them by then. It passes frames for another station or for a VLAN, which a
//! VLAN's interface takes.

mod take;

use super::instruction::{Assembler, Instruction, Label, Load, Store, When};
use super::take::Take;
use take::take_what_matches;

/// Which packets of a queue are left to the kernel's stack (routers call this punting) and never reach the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Punt {
    /// None: every frame comes to the socket.
    #[default]
    Nothing,
    /// The traffic that the interface's own addresses and neighbours depend on: group addresses, ARP and everything
    /// else that is not IP, IPv6 neighbour discovery, answers of DHCP servers, and packets to own addresses.
    Control,
    /// ARP and IPv6 neighbour discovery, with which the interface and its neighbours find each other.
    Neighbours,
}

/// Which packets a program punts, with the data that it needs for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Punted<A> {
    /// As [`Punt::Nothing`].
    Nothing,
    /// As [`Punt::Neighbours`].
    Neighbours,
    /// As [`Punt::Control`], with the own addresses.
    Control(A),
}

impl<A> Punted<A> {
    /// The same variant, with the own addresses converted.
    pub fn map<B>(self, other: impl FnOnce(A) -> B) -> Punted<B> {
        match self {
            Punted::Nothing => Punted::Nothing,
            Punted::Neighbours => Punted::Neighbours,
            Punted::Control(own) => Punted::Control(other(own)),
        }
    }

    /// The same by reference.
    pub fn as_ref(&self) -> Punted<&A> {
        match self {
            Punted::Nothing => Punted::Nothing,
            Punted::Neighbours => Punted::Neighbours,
            Punted::Control(own) => Punted::Control(own),
        }
    }

    /// The kind of packets.
    pub fn punt(&self) -> Punt {
        match self {
            Punted::Nothing => Punt::Nothing,
            Punted::Neighbours => Punt::Neighbours,
            Punted::Control(_) => Punt::Control,
        }
    }
}

/// The packets that are left to the kernel, and the descriptors of the maps for that.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    /// The packets that are punted, with the maps of own addresses of IPv4 and IPv6.
    pub(super) punted: Punted<(i32, i32)>,
    /// The only packets that are taken of the rest, among frames for a station. None takes all of the rest.
    pub(super) take: Option<(&'a Take, [u8; 6])>,
    /// The map from queue to the number of frames left.
    pub(super) counts: i32,
}

/// Functions of the kernel (`linux/bpf.h`).
const MAP_LOOKUP: i32 = 1;
const PULL_DATA: i32 = 39;
const REDIRECT_MAP: i32 = 51;

/// The verdict that leaves a packet to the kernel's stack.
const XDP_PASS: i32 = 2;

/// The positions of the fields of `struct xdp_md` that are read.
const XDP_DATA: (i16, i16) = (0, 4);
const RX_QUEUE_INDEX: i16 = 16;

/// The positions of the fields of `struct __sk_buff` that are read.
const SKB_LENGTH: i16 = 0;
const SKB_PACKET_TYPE: i16 = 4;
const SKB_VLAN_TCI: i16 = 24;
const SKB_DATA: (i16, i16) = (76, 80);
/// The packet type of frames for this station alone.
const PACKET_HOST: i32 = 0;
/// The VLAN's number in a tag; 0 is none (IEEE 802.1Q, priority tags).
const VLAN_ID: i32 = 0xfff;
/// More bytes than all headers that are read have together.
const HEADERS: i32 = 128;
/// Verdicts of a program at an ingress: the next program decides, or the packet is dropped.
const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;

/// Registers: the program's argument, which is the context; its copy that outlives calls; the position from which
/// headers are read; the end of the frame; the last four bytes of the frame's destination MAC address.
const ARGUMENT: u8 = 1;
const CONTEXT: u8 = 6;
const STACK: u8 = 10;
const AT: u8 = 7;
const END: u8 = 8;
const TO: u8 = 9;
/// The position on the stack of the key of the map of counts.
const KEY: i16 = -4;

const ETHERNET_HEADER: i32 = 14;
const VLAN_TAG: i32 = 4;
const TAGS_MAX: usize = 2;
const ETHERTYPE: i16 = 12;
const LINK_ADDRESS_END: i16 = 2;
const IPV4_HEADER: i32 = 20;
/// Version 4, and a header without options.
const IPV4_PLAIN: i32 = 0x45;
const IPV4_FRAGMENT: i16 = 6;
const IPV4_PROTOCOL: i16 = 9;
const IPV4_DESTINATION: i32 = 16;
const IPV6_HEADER: i32 = 40;
const IPV6_NEXT_HEADER: i16 = 6;
const IPV6_HOP_LIMIT: i16 = 7;
const IPV6_DESTINATION: i32 = 24;
const UDP: i32 = 17;
const UDP_HEADER: i32 = 8;
const UDP_DESTINATION: i16 = 2;
/// The position in `chaddr` of the last four bytes of a MAC address.
const DHCP_CLIENT: i32 = 28;
const ICMPV6: i32 = 58;
/// Neighbour discovery: router solicitation to redirect.
const ND_FIRST: i32 = 133;
const ND_LAST: i32 = 137;
/// Its hop limit where no router has forwarded it.
const ND_HOP_LIMIT: i32 = 255;

/// A number of two bytes in the form in which a load gives it.
const fn half(number: u16) -> i32 {
    number.to_be() as i32
}

const IPV4: i32 = half(0x0800);
const IPV6: i32 = half(0x86dd);
const ARP: i32 = half(0x0806);
const VLAN_8021Q: i32 = half(0x8100);
const VLAN_8021AD: i32 = half(0x88a8);
/// The bits that say: more fragments, or not the first one.
const FRAGMENT: i32 = half(0x3fff);
const DHCP_CLIENT_PORT: i32 = half(68);

/// The program over this map of sockets.
pub(super) fn redirect_program(sockets: i32, left: Option<Left<'_>>) -> Vec<Instruction> {
    let mut a = Assembler::new();
    let Some(Left { punted, take, counts }) = left else {
        redirect(&mut a, ARGUMENT, sockets);
        return a.finish();
    };
    let (others, unpunted, pass) = (a.label(), a.label(), a.label());
    a.copy(CONTEXT, ARGUMENT);
    match punted {
        Punted::Nothing => {}
        Punted::Neighbours => {
            load_bounds(&mut a, XDP_DATA);
            punt_neighbours(&mut a, unpunted, pass);
        }
        Punted::Control(own) => {
            load_bounds(&mut a, XDP_DATA);
            punt(&mut a, own, unpunted, pass);
            a.go(pass);
        }
    }
    a.here(unpunted);
    match take {
        Some(take) => take_what_matches(&mut a, take, others, pass),
        None => a.go(others),
    }
    a.here(pass);
    count(&mut a, counts);
    a.set(0, XDP_PASS);
    a.exit();
    a.here(others);
    redirect(&mut a, CONTEXT, sockets);
    a.finish()
}

/// The program at an ingress, with the maps of own addresses of IPv4 and IPv6. It passes control traffic, and drops all
/// other frames for this station.
pub(super) fn ingress_program(own: (i32, i32)) -> Vec<Instruction> {
    let mut a = Assembler::new();
    let (short, taken, pass) = (a.label(), a.label(), a.label());
    a.copy(CONTEXT, ARGUMENT);
    a.load(Load::Word, 3, CONTEXT, SKB_PACKET_TYPE);
    a.go_when(3, When::NotEqual, PACKET_HOST, pass);
    a.load(Load::Word, 3, CONTEXT, SKB_VLAN_TCI);
    a.go_when(3, When::AnyOf, VLAN_ID, pass);
    // The headers may lie in several buffers, and a program sees only the first.
    a.load(Load::Word, 2, CONTEXT, SKB_LENGTH);
    a.go_when(2, When::AtMost, HEADERS, short);
    a.set(2, HEADERS);
    a.here(short);
    a.copy(1, CONTEXT);
    a.call(PULL_DATA);
    load_bounds(&mut a, SKB_DATA);
    punt(&mut a, own, taken, pass);
    a.here(pass);
    a.set(0, TCX_NEXT);
    a.exit();
    a.here(taken);
    a.set(0, TCX_DROP);
    a.exit();
    a.finish()
}

/// Loads the begin and the end of the frame, from a context that has them at these offsets.
fn load_bounds(a: &mut Assembler, (data, end): (i16, i16)) {
    a.load(Load::Word, AT, CONTEXT, data);
    a.load(Load::Word, END, CONTEXT, end);
}

/// `counts[context->rx_queue_index] += 1`, if the map has that index.
fn count(a: &mut Assembler, counts: i32) {
    let absent = a.label();
    a.load(Load::Word, 3, CONTEXT, RX_QUEUE_INDEX);
    a.store(Store::Word, STACK, KEY, 3);
    a.set_map(1, counts);
    a.copy(2, STACK);
    a.add(2, KEY.into());
    a.call(MAP_LOOKUP);
    a.go_when(0, When::Equal, 0, absent);
    a.set(1, 1);
    a.add_to(0, 0, 1);
    a.here(absent);
}

/// `return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS);` — the low bits of the flags are the
/// verdict when the map has no socket at that index (Linux 5.3).
fn redirect(a: &mut Assembler, context: u8, sockets: i32) {
    a.load(Load::Word, 2, context, RX_QUEUE_INDEX);
    a.set_map(1, sockets);
    a.set(3, XDP_PASS);
    a.call(REDIRECT_MAP);
    a.exit();
}

/// Jumps to `pass` for ARP and neighbour discovery, behind tags too, and to `redirect` for all other frames.
fn punt_neighbours(a: &mut Assembler, redirect: Label, pass: Label) {
    unless_there(a, ETHERNET_HEADER, redirect);
    a.load(Load::Half, 3, AT, ETHERTYPE);
    skip_tags(a, redirect);
    a.go_when(3, When::Equal, ARP, pass);
    a.go_when(3, When::NotEqual, IPV6, redirect);
    unless_there(a, ETHERNET_HEADER + IPV6_HEADER, redirect);
    pass_discovery(a, pass);
    a.go(redirect);
}

/// Jumps to `redirect`. Or it jumps to `pass`, or continues behind this code, which means the same.
fn punt(a: &mut Assembler, (own_v4, own_v6): (i32, i32), redirect: Label, pass: Label) {
    unless_there(a, ETHERNET_HEADER, redirect);
    a.load(Load::Byte, 3, AT, 0);
    a.go_when(3, When::AnyOf, 1, pass);
    a.load(Load::Word, TO, AT, LINK_ADDRESS_END);
    a.load(Load::Half, 3, AT, ETHERTYPE);
    skip_tags(a, redirect);
    let ipv6 = a.label();
    a.go_when(3, When::Equal, IPV6, ipv6);
    a.go_when(3, When::NotEqual, IPV4, pass);
    unless_there(a, ETHERNET_HEADER + IPV4_HEADER, redirect);
    pass_dhcp(a, pass);
    unless_own(a, own_v4, (ETHERNET_HEADER + IPV4_DESTINATION, 1), redirect);
    a.go(pass);
    a.here(ipv6);
    unless_there(a, ETHERNET_HEADER + IPV6_HEADER, redirect);
    pass_discovery(a, pass);
    unless_own(a, own_v6, (ETHERNET_HEADER + IPV6_DESTINATION, 4), redirect);
}

/// Jumps to `label` unless this many bytes are there. A load is allowed only behind this check.
fn unless_there(a: &mut Assembler, bytes: i32, label: Label) {
    a.copy(2, AT);
    a.add(2, bytes);
    a.go_when(2, When::Above, END.into(), label);
}

/// Skips VLAN tags: register 3 is the ethertype behind them.
fn skip_tags(a: &mut Assembler, redirect: Label) {
    let untagged = a.label();
    for _ in 0..TAGS_MAX {
        let tagged = a.label();
        a.go_when(3, When::Equal, VLAN_8021Q, tagged);
        a.go_when(3, When::NotEqual, VLAN_8021AD, untagged);
        a.here(tagged);
        a.add(AT, VLAN_TAG);
        unless_there(a, ETHERNET_HEADER, redirect);
        a.load(Load::Half, 3, AT, ETHERTYPE);
    }
    a.here(untagged);
}

/// Jumps to `pass` for a DHCP server's answer to a client with the frame's destination MAC address.
fn pass_dhcp(a: &mut Assembler, pass: Label) {
    const IPV4: i16 = ETHERNET_HEADER as i16;
    const UDP_AT: i16 = IPV4 + IPV4_HEADER as i16;
    const CLIENT: i32 = UDP_AT as i32 + UDP_HEADER + DHCP_CLIENT + LINK_ADDRESS_END as i32;
    let other = a.label();
    a.load(Load::Byte, 3, AT, IPV4);
    a.go_when(3, When::NotEqual, IPV4_PLAIN, other);
    a.load(Load::Byte, 3, AT, IPV4 + IPV4_PROTOCOL);
    a.go_when(3, When::NotEqual, UDP, other);
    a.load(Load::Half, 3, AT, IPV4 + IPV4_FRAGMENT);
    a.go_when(3, When::AnyOf, FRAGMENT, other);
    unless_there(a, CLIENT + 4, other);
    a.load(Load::Half, 3, AT, UDP_AT + UDP_DESTINATION);
    a.go_when(3, When::NotEqual, DHCP_CLIENT_PORT, other);
    a.load(Load::Word, 3, AT, CLIENT as i16);
    a.go_when(3, When::Differs, TO.into(), other);
    a.go(pass);
    a.here(other);
}

/// Jumps to `pass` for neighbour discovery. A packet that was forwarded is none (RFC 4861 §6.1, §7.1), and the kernel would
/// forward it again, past all rules.
fn pass_discovery(a: &mut Assembler, pass: Label) {
    let other = a.label();
    a.load(Load::Byte, 3, AT, ETHERNET_HEADER as i16 + IPV6_NEXT_HEADER);
    a.go_when(3, When::NotEqual, ICMPV6, other);
    a.load(Load::Byte, 3, AT, ETHERNET_HEADER as i16 + IPV6_HOP_LIMIT);
    a.go_when(3, When::NotEqual, ND_HOP_LIMIT, other);
    unless_there(a, ETHERNET_HEADER + IPV6_HEADER + 1, other);
    a.load(Load::Byte, 3, AT, (ETHERNET_HEADER + IPV6_HEADER) as i16);
    a.add(3, -ND_FIRST);
    a.go_when(3, When::AtMost, ND_LAST - ND_FIRST, pass);
    a.here(other);
}

/// Jumps to `redirect` unless a prefix of the map contains the address of `words` times 4 bytes at this offset.
fn unless_own(a: &mut Assembler, map: i32, (offset, words): (i32, i16), redirect: Label) {
    let key = -4 * (words + 1);
    a.set(3, 32 * i32::from(words));
    a.store(Store::Word, STACK, key, 3);
    for word in 0..words {
        a.load(Load::Word, 3, AT, offset as i16 + 4 * word);
        a.store(Store::Word, STACK, key + 4 * (word + 1), 3);
    }
    a.set_map(1, map);
    a.copy(2, STACK);
    a.add(2, key.into());
    a.call(MAP_LOOKUP);
    a.go_when(0, When::Equal, 0, redirect);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_punt_nothing_is_six_instructions_and_to_punt_control_some_hundred() {
        let program = |own| redirect_program(5, own).len();
        assert_eq!(program(None), 6);
        let control = program(Some(Left { punted: Punted::Control((6, 7)), take: None, counts: 8 }));
        assert!((90..110).contains(&control), "{control}");
    }
}
