//! The part of the redirect program that takes the packets that rules match, and leaves the rest to the kernel.
//!
//! It reads headers at fixed positions, because packets with tags, options or extension headers stay with the kernel. A
//! rule tests its named properties and jumps to the next rule at the first difference. All jumps go forward. Every test
//! loads its operands again. So the verifier, which follows each path, finds the same state behind every rule on each
//! path to it, and 64 rules cost it 64 times one.

use super::super::instruction::{Assembler, Label, Load, When};
use super::super::take::{EXTENSIONS, Take, TakeRule};
use super::{
    AT, ETHERNET_HEADER, ETHERTYPE, FRAGMENT, IPV4, IPV4_DESTINATION, IPV4_FRAGMENT, IPV4_HEADER, IPV4_PLAIN,
    IPV4_PROTOCOL, IPV6, IPV6_DESTINATION, IPV6_HEADER, IPV6_NEXT_HEADER, XDP_DATA, half, load_bounds,
    pass_discovery, unless_there,
};
use ipnet::IpNet;

/// Bytes that are read of a header with ports.
const PORTS: i32 = 4;
const DESTINATION_PORT: i16 = 2;

/// The positions of a family's fields that rules name.
struct Family {
    /// The destination address of a packet.
    octets: usize,
    protocol: i16,
    destination: i16,
    /// The first byte behind the header.
    payload: i32,
}

const V4: Family = Family {
    octets: 4,
    protocol: ETHERNET_HEADER as i16 + IPV4_PROTOCOL,
    destination: (ETHERNET_HEADER + IPV4_DESTINATION) as i16,
    payload: ETHERNET_HEADER + IPV4_HEADER,
};
const V6: Family = Family {
    octets: 16,
    protocol: ETHERNET_HEADER as i16 + IPV6_NEXT_HEADER,
    destination: (ETHERNET_HEADER + IPV6_DESTINATION) as i16,
    payload: ETHERNET_HEADER + IPV6_HEADER,
};

/// Jumps to `redirect` for packets that `take` matches, among frames for the station `mac`. Or it jumps to `pass`, or
/// continues behind this code, which means the same.
pub(super) fn take_what_matches(
    a: &mut Assembler,
    (take, mac): (&Take, [u8; 6]),
    redirect: Label,
    pass: Label,
) {
    let ipv6 = a.label();
    // The code before may have moved it behind tags.
    load_bounds(a, XDP_DATA);
    unless_there(a, ETHERNET_HEADER, pass);
    a.load(Load::Half, 3, AT, ETHERTYPE);
    a.go_when(3, When::Equal, IPV6, ipv6);
    a.go_when(3, When::NotEqual, IPV4, pass);
    unless_there(a, V4.payload, pass);
    a.load(Load::Byte, 3, AT, ETHERNET_HEADER as i16);
    a.go_when(3, When::NotEqual, IPV4_PLAIN, pass);
    a.load(Load::Half, 3, AT, ETHERNET_HEADER as i16 + IPV4_FRAGMENT);
    a.go_when(3, When::AnyOf, FRAGMENT, pass);
    rules_of(a, &V4, (take, mac), redirect, pass);
    a.go(pass);
    a.here(ipv6);
    unless_there(a, V6.payload, pass);
    a.load(Load::Byte, 3, AT, ETHERNET_HEADER as i16);
    a.and(3, 0xf0);
    a.go_when(3, When::NotEqual, 0x60, pass);
    for extension in EXTENSIONS {
        a.load(Load::Byte, 3, AT, V6.protocol);
        a.go_when(3, When::Equal, extension.into(), pass);
    }
    pass_discovery(a, pass);
    rules_of(a, &V6, (take, mac), redirect, pass);
}

/// Jumps to `redirect` if a rule matches. Or it jumps to `pass`, or continues behind this code.
fn rules_of(a: &mut Assembler, family: &Family, (take, mac): (&Take, [u8; 6]), redirect: Label, pass: Label) {
    let is_of_family = |rule: &&TakeRule| match rule.to {
        None => true,
        Some(IpNet::V4(_)) => family.octets == 4,
        Some(IpNet::V6(_)) => family.octets == 16,
    };
    let rules = || take.rules().iter().filter(is_of_family);
    let group = a.label();
    a.load(Load::Byte, 3, AT, 0);
    a.go_when(3, When::AnyOf, 1, group);
    let [b0, b1, b2, b3, b4, b5] = mac;
    a.load(Load::Word, 3, AT, 0);
    a.go_when(3, When::WordDiffers, i32::from_ne_bytes([b0, b1, b2, b3]), pass);
    a.load(Load::Half, 3, AT, 4);
    a.go_when(3, When::NotEqual, u16::from_ne_bytes([b4, b5]).into(), pass);
    rules().for_each(|rule| take_by(a, family, rule, redirect));
    a.go(pass);
    a.here(group);
    rules().filter(|rule| rule.is_of_groups()).for_each(|rule| take_by(a, family, rule, redirect));
}

/// Jumps to `redirect` if this rule matches.
fn take_by(a: &mut Assembler, family: &Family, rule: &TakeRule, redirect: Label) {
    let next = a.label();
    if let Some(protocol) = rule.protocol {
        a.load(Load::Byte, 3, AT, family.protocol);
        a.go_when(3, When::NotEqual, protocol.into(), next);
    }
    match rule.to {
        None => {}
        Some(IpNet::V4(net)) => unless_in(a, family, &net.addr().octets(), net.prefix_len(), next),
        Some(IpNet::V6(net)) => unless_in(a, family, &net.addr().octets(), net.prefix_len(), next),
    }
    if let Some(port) = rule.port {
        unless_there(a, family.payload + PORTS, next);
        a.load(Load::Half, 3, AT, family.payload as i16 + DESTINATION_PORT);
        a.go_when(3, When::NotEqual, half(port), next);
    }
    a.go(redirect);
    a.here(next);
}

/// Jumps to `next` unless the first `length` bits of the address are those of `octets`. It compares word by word, as
/// far as the length reaches.
fn unless_in(a: &mut Assembler, family: &Family, octets: &[u8], length: u8, next: Label) {
    for (i, word) in octets.as_chunks::<4>().0.iter().enumerate() {
        let bits = u32::from(length).saturating_sub(32 * i as u32).min(32);
        if bits == 0 {
            return;
        }
        a.load(Load::Word, 3, AT, family.destination + 4 * i as i16);
        if bits < 32 {
            let mask = u32::MAX << (32 - bits);
            a.and(3, i32::from_ne_bytes(mask.to_be_bytes()));
        }
        a.go_when(3, When::WordDiffers, i32::from_ne_bytes(*word), next);
    }
}
