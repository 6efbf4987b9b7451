//! The redirect program: which packets of a queue come to its socket, and which stay with the kernel.
//!
//! [`Punt::Nothing`] is six instructions that look at no byte of the packet. [`Punt::Control`] looks at the headers,
//! in this order; what is not named here is redirected:
//!
//! | frame | verdict |
//! |---|---|
//! | shorter than an Ethernet header | redirect |
//! | to a group address: broadcast, multicast | pass |
//! | one or two VLAN tags (802.1Q, 802.1ad) | as what stands behind them |
//! | neither IPv4 nor IPv6: ARP, 802.1X, PPPoE, MPLS, a third tag | pass |
//! | from a DHCP server to this interface's link address, also before the host has the address (RFC 2131 §4.1) | pass |
//! | IPv4 to an own address (one in a prefix of [`AddressMaps`](super::AddressMaps)), also a fragment, also with options | pass |
//! | IPv6 to an own address, whatever extension headers it has | pass |
//! | IPv6 whose next header is ICMPv6 of type 133 to 137 (neighbour discovery, RFC 4861 §4) | pass |
//! | IPv4 or IPv6 whose header is cut short | redirect |
//!
//! An answer of a DHCP server is one over UDP to port 68, no fragment and without IPv4 options, that is meant for a client
//! with the link address it goes to (`chaddr`, its last four bytes): one that is on its way to somebody else is
//! redirected. Neighbour discovery behind extension headers is not looked for: it goes to a group address or an own one, and
//! those pass by their address. Nothing else of a header is checked: what passes, the kernel checks, and what is
//! redirected, whoever reads the socket. Where a driver takes VLAN tags out of frames before the program runs, as
//! generic mode does behind an interface that offloads them, no tag is seen.
//!
//! [`Punt::Neighbours`] passes ARP and neighbour discovery of that table, behind up to two tags, and redirects all else.
//!
//! Of what would be redirected, [`Take`] takes what its rules match, and leaves the rest to the kernel as well (`take.rs`).
//! A program that leaves anything counts it, for each queue.
//!
//! A queue without a socket passes everything, and counts none of what it would have redirected.
//!
//! The program at an interface's ingress ([`IngressProgram`](super::IngressProgram)) drops what the table has redirected, since a packet
//! socket has it by then. It passes frames that are for another station or for a VLAN, which a VLAN's interface takes.

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
    /// What the interface's own addresses and neighbours live from: group addresses, ARP and all else that is not IP,
    /// IPv6 neighbour discovery, answers of DHCP servers, and packets to own addresses.
    Control,
    /// What the interface's neighbours are found by, and find it by: ARP and IPv6 neighbour discovery.
    Neighbours,
}

/// Which packets a program punts, with what it needs for that.
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
    /// The same, with other words for the own addresses.
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

    /// Which packets these are.
    pub fn punt(&self) -> Punt {
        match self {
            Punted::Nothing => Punt::Nothing,
            Punted::Neighbours => Punt::Neighbours,
            Punted::Control(_) => Punt::Control,
        }
    }
}

/// What is left to the kernel, and the descriptors of the maps that say so.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    /// What is punted, with the maps of own addresses of IPv4 and IPv6.
    pub(super) punted: Punted<(i32, i32)>,
    /// What alone is taken of the rest, of frames for a station; None for all of it.
    pub(super) take: Option<(&'a Take, [u8; 6])>,
    /// The map from queue to how many frames were left.
    pub(super) counts: i32,
}

/// Functions of the kernel (`linux/bpf.h`).
const MAP_LOOKUP: i32 = 1;
const PULL_DATA: i32 = 39;
const REDIRECT_MAP: i32 = 51;

/// The verdict that leaves a packet to the kernel's stack.
const XDP_PASS: i32 = 2;

/// Where `struct xdp_md` keeps what is read of it.
const XDP_DATA: (i16, i16) = (0, 4);
const RX_QUEUE_INDEX: i16 = 16;

/// Where `struct __sk_buff` keeps what is read of it.
const SKB_LENGTH: i16 = 0;
const SKB_PACKET_TYPE: i16 = 4;
const SKB_VLAN_TCI: i16 = 24;
const SKB_DATA: (i16, i16) = (76, 80);
/// The packet type of frames for this station alone.
const PACKET_HOST: i32 = 0;
/// The VLAN's number in a tag; 0 is none (IEEE 802.1Q, priority tags).
const VLAN_ID: i32 = 0xfff;
/// Bytes that all headers that are looked at have together, and more.
const HEADERS: i32 = 128;
/// Verdicts of a program at an ingress: the next one decides; the packet goes no further.
const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;

/// Registers: the program's argument, which is the context; where it outlives calls; where the headers are read from;
/// where the frame ends; the last four bytes of the link address it goes to.
const ARGUMENT: u8 = 1;
const CONTEXT: u8 = 6;
const STACK: u8 = 10;
const AT: u8 = 7;
const END: u8 = 8;
const TO: u8 = 9;
/// On the stack, the key of the map of counts.
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
const IPV6_DESTINATION: i32 = 24;
const UDP: i32 = 17;
const UDP_HEADER: i32 = 8;
const UDP_DESTINATION: i16 = 2;
/// `chaddr`, of which the last four bytes of a link address stand here.
const DHCP_CLIENT: i32 = 28;
const ICMPV6: i32 = 58;
/// Neighbour discovery: router solicitation to redirect.
const ND_FIRST: i32 = 133;
const ND_LAST: i32 = 137;

/// A number of two bytes as a load gives it.
const fn half(number: u16) -> i32 {
    number.to_be() as i32
}

const IPV4: i32 = half(0x0800);
const IPV6: i32 = half(0x86dd);
const ARP: i32 = half(0x0806);
const VLAN_8021Q: i32 = half(0x8100);
const VLAN_8021AD: i32 = half(0x88a8);
/// More fragments, or not the first one.
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

/// The program at an ingress, with the maps of own addresses of IPv4 and IPv6: the control traffic passes, and all else for this
/// station is dropped.
pub(super) fn ingress_program(own: (i32, i32)) -> Vec<Instruction> {
    let mut a = Assembler::new();
    let (short, taken, pass) = (a.label(), a.label(), a.label());
    a.copy(CONTEXT, ARGUMENT);
    a.load(Load::Word, 3, CONTEXT, SKB_PACKET_TYPE);
    a.go_when(3, When::NotEqual, PACKET_HOST, pass);
    a.load(Load::Word, 3, CONTEXT, SKB_VLAN_TCI);
    a.go_when(3, When::AnyOf, VLAN_ID, pass);
    // The headers may lie in several buffers, of which a program sees the first alone.
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

/// Loads where the frame begins and ends, of a context that keeps it there.
fn load_bounds(a: &mut Assembler, (data, end): (i16, i16)) {
    a.load(Load::Word, AT, CONTEXT, data);
    a.load(Load::Word, END, CONTEXT, end);
}

/// `counts[context->rx_queue_index] += 1`, where the map has that index.
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

/// Goes to `pass` for ARP and neighbour discovery, behind tags too, and to `redirect` for all else.
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

/// Goes to `redirect`; or to `pass`, or on behind all of this, which means the same.
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

/// Goes to `label` unless so many bytes are there. A load is allowed only behind this.
fn unless_there(a: &mut Assembler, bytes: i32, label: Label) {
    a.copy(2, AT);
    a.add(2, bytes);
    a.go_when(2, When::Above, END.into(), label);
}

/// Moves on behind VLAN tags: register 3 is the ethertype behind them.
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

/// Goes to `pass` for a DHCP server's answer to a client with the link address that the frame goes to.
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

/// Goes to `pass` for neighbour discovery.
fn pass_discovery(a: &mut Assembler, pass: Label) {
    let other = a.label();
    a.load(Load::Byte, 3, AT, ETHERNET_HEADER as i16 + IPV6_NEXT_HEADER);
    a.go_when(3, When::NotEqual, ICMPV6, other);
    unless_there(a, ETHERNET_HEADER + IPV6_HEADER + 1, other);
    a.load(Load::Byte, 3, AT, (ETHERNET_HEADER + IPV6_HEADER) as i16);
    a.add(3, -ND_FIRST);
    a.go_when(3, When::AtMost, ND_LAST - ND_FIRST, pass);
    a.here(other);
}

/// Goes to `redirect` unless the address of `words` times 4 bytes that stands so far in is in a prefix of the map.
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
