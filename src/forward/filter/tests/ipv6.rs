//! Tests of rules over IPv6, with a packet's content behind its extension headers.

use super::{judged, link, rule, tcp, udp};
use crate::forward::filter::{Action, Fields, filter};
use proptest::prelude::*;

const UDP: u8 = 17;
const TCP: u8 = 6;
const ICMPV6: u8 = 58;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

/// Returns a frame with these extension headers before `carried`. Each has a number of words of eight bytes (a fragment
/// header: its offset).
fn frame(extensions: &[(u8, u8)], protocol: u8, carried: &[u8]) -> Vec<u8> {
    let nexts = extensions.iter().map(|(kind, _)| *kind).chain([protocol]);
    let mut rest = Vec::new();
    for ((kind, value), next) in extensions.iter().zip(nexts.clone().skip(1)) {
        match *kind {
            FRAGMENT => rest.extend([next, 0, 0, value << 3 | 1, 0, 0, 0, 7]),
            // In words of four bytes, minus two.
            AUTHENTICATION => {
                rest.extend([next, 2 * value]);
                rest.extend(vec![0; 8 * usize::from(*value) + 6]);
            }
            _ => {
                rest.extend([next, *value]);
                rest.extend(vec![0; 8 * usize::from(*value) + 6]);
            }
        }
    }
    rest.extend(carried);
    let mut frame = vec![2; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend((rest.len() as u16).to_be_bytes());
    frame.extend([nexts.clone().next().unwrap(), 64]);
    frame.extend([0xfd; 32]);
    frame.extend(rest);
    frame
}

/// The first bytes of a datagram with ports 7 and 1900.
const PORTS: [u8; 8] = [0, 7, 0x07, 0x6c, 0, 8, 0, 0];

/// Observed: the guide's rule dropped datagrams of IPv4 and let those of IPv6 pass.
#[test]
fn a_rule_that_names_a_protocol_and_a_port_drops_both_families() {
    let rules = ["drop,proto=udp,dport=1900"];
    let (src, dst) = ([10, 0, 0, 1], [239, 255, 255, 250]);
    assert!(judged(&rules, &udp(src, dst, (7, 1900)), 0).is_some());
    let mut six = Vec::new();
    link().ipv6([0xfd; 16], [0xff; 16], 64).udp(7, 1900).write(&mut six, &[7; 20]).unwrap();
    assert!(judged(&rules, &six, 0).is_some(), "IPv6");
    let mut other = Vec::new();
    link().ipv6([0xfd; 16], [0xff; 16], 64).udp(1900, 7).write(&mut other, &[7; 20]).unwrap();
    assert!(judged(&rules, &other, 0).is_none());
    assert!(judged(&rules, &tcp(src, dst, (7, 1900)), 0).is_none());
}

#[test]
fn a_rule_matches_an_ipv6_packet_that_has_everything_it_names() {
    let datagram = frame(&[], UDP, &PORTS);
    for (text, matches) in [
        ("drop", true),
        ("drop,ethertype=ipv6", true),
        ("drop,proto=udp", true),
        ("drop,proto=tcp", false),
        ("drop,dport=1900", true),
        ("drop,dport=1901-1999", false),
        ("drop,sport=0-65535", true),
        ("drop,sport=1900", false),
        ("drop,in=2,ethertype=ipv6,proto=udp,sport=7,dport=1900", true),
        ("drop,in=1,ethertype=ipv6,proto=udp,sport=7,dport=1900", false),
        ("drop,ethertype=ipv4,proto=udp", false),
        ("drop,src=0.0.0.0/0", false),
        ("drop,dst=0.0.0.0/0", false),
        ("drop,dst=0.0.0.0/0,proto=udp,dport=1900", false),
    ] {
        assert_eq!(judged(&[text], &datagram, 2).is_some(), matches, "{text}");
    }
    assert!(judged(&["drop,proto=tcp,dport=1900"], &frame(&[], TCP, &PORTS), 0).is_some());
}

#[test]
fn icmp_is_that_of_ipv4_and_icmpv6_that_of_ipv6() {
    let echo = frame(&[(HOP_BY_HOP, 0)], ICMPV6, &[128, 0, 0, 0, 0, 0, 0, 0]);
    let mut ping = udp([10, 0, 0, 1], [10, 0, 0, 2], (7, 9));
    ping[23] = 1;
    for (text, matches) in [("drop,proto=icmp", [true, false]), ("drop,proto=icmpv6", [false, true])] {
        assert_eq!([&ping, &echo].map(|frame| judged(&[text], frame, 0).is_some()), matches, "{text}");
    }
    assert!(judged(&["drop,sport=0-65535"], &echo, 0).is_none(), "it has no ports");
    assert_eq!(rule("drop,proto=icmpv6").to_string(), "drop,proto=58");
}

#[test]
fn later_ipv6_fragments_have_the_protocol_and_no_ports() {
    let matches =
        |frame: &[u8]| ["drop,proto=udp", "drop,dport=1900"].map(|text| judged(&[text], frame, 0).is_some());
    assert_eq!(matches(&frame(&[(FRAGMENT, 0)], UDP, &PORTS)), [true, true], "the first has the ports");
    assert_eq!(matches(&frame(&[(ROUTING, 2), (FRAGMENT, 3)], UDP, &PORTS)), [true, false]);
    let elsewhere = frame(&[(FRAGMENT, 3), (DESTINATION, 0)], UDP, &PORTS);
    assert_eq!(matches(&elsewhere), [false, false], "the last extension header is in the first fragment");
    assert!(judged(&["drop,proto=60"], &elsewhere, 0).is_none());
}

#[test]
fn extension_headers_that_do_not_end_match_no_rule_that_names_a_protocol() {
    let chain = |n: usize| frame(&vec![(DESTINATION, 0); n], UDP, &PORTS);
    assert!(judged(&["drop,proto=udp,dport=1900"], &chain(8), 0).is_some());
    assert_eq!(Fields::read(&chain(9), 0).ipv6, None);
    assert!(judged(&["drop,proto=udp"], &chain(9), 0).is_none());
    assert!(judged(&["accept,proto=udp", "drop,ethertype=ipv6"], &chain(9), 0).is_some());
}

#[test]
fn what_there_is_of_an_ipv6_frame_is_read_and_of_another_version_nothing() {
    let whole = frame(&[(HOP_BY_HOP, 0)], UDP, &PORTS);
    for length in 0..=whole.len() {
        let ipv6 = Fields::read(&whole[..length], 0).ipv6;
        assert_eq!(ipv6.map(|ip| ip.protocol), (length >= 62).then_some(UDP), "{length} bytes");
        assert_eq!(ipv6.and_then(|ip| ip.ports), (length >= 66).then_some((7, 1900)), "{length} bytes");
        let priority = [&whole[..12], &[0x81, 0, 0xe0, 0], &whole[12..]].concat();
        let tagged = Fields::read(&priority[..length + 4], 0);
        assert_eq!(tagged.ipv6, ipv6, "{length} bytes behind a tag");
    }
    let mut four = whole.clone();
    four[14] = 0x45;
    assert_eq!(Fields::read(&four, 0).ipv6, None, "version 4 under IPv6's ethertype");
    let vlan = [&whole[..12], &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 5], &whole[12..]].concat();
    assert!(judged(&["drop,proto=udp,dport=1900"], &vlan, 0).is_some(), "behind two tags");
}

#[test]
fn what_ipv6_carries_is_looked_for_as_soon_as_a_rule_asks_for_it() {
    let datagram = frame(&[], UDP, &PORTS);
    let (mut filter, control) = filter(vec![rule("accept,in=3")]).unwrap();
    let mut said = || {
        filter.refresh();
        filter.judge(&filter.fields(&datagram, 0), datagram.len())
    };
    assert_eq!(said(), None);
    for asked in ["drop,proto=udp", "drop,sport=7", "drop,dport=1900"] {
        control.insert(1, rule(asked)).unwrap();
        assert_eq!(said(), Some(Action::Drop), "{asked}");
        control.remove(1).unwrap();
        assert_eq!(said(), None);
    }
    let (filter, _) = crate::forward::filter::filter(vec![rule("drop,dport=1900")]).unwrap();
    assert!(filter.fields(&datagram, 0).ipv6.is_some(), "rules that were there from the start");
}

/// Extension headers in any order, each of one word or more.
fn extensions() -> impl Strategy<Value = Vec<(u8, u8)>> {
    let kind =
        proptest::sample::select(vec![HOP_BY_HOP, ROUTING, AUTHENTICATION, DESTINATION, 135, 139, 140]);
    let extension = prop_oneof![3 => (kind, 0u8..4), 1 => Just((FRAGMENT, 0)), 1 => (Just(FRAGMENT), 1u8..9)];
    proptest::collection::vec(extension, 0..10)
}

/// The protocol and ports that rules must find, according to the headers.
fn expected(extensions: &[(u8, u8)], protocol: u8, ports: [u16; 2]) -> Option<(u8, Option<[u16; 2]>)> {
    let later = extensions.iter().position(|(kind, offset)| *kind == FRAGMENT && *offset > 0);
    match later {
        Some(at) if at >= 9 || at + 1 < extensions.len() => None,
        Some(_) => Some((protocol, None)),
        None if extensions.len() > 8 => None,
        None => Some((protocol, matches!(protocol, TCP | UDP).then_some(ports))),
    }
}

proptest! {
    #[test]
    fn a_rule_decides_about_an_ipv6_packet_by_what_was_put_behind_its_extension_headers(
        extensions in extensions(),
        protocol in proptest::sample::select(vec![TCP, UDP, ICMPV6, 50, 59]),
        ports in [0u16..4, 0u16..4],
        named in (proptest::option::of(proptest::sample::select(vec![TCP, UDP, ICMPV6, FRAGMENT, DESTINATION])),
                  proptest::option::of(0u16..4), proptest::option::of(0u16..4)),
    ) {
        let carried = [ports[0].to_be_bytes(), ports[1].to_be_bytes(), [0; 2], [0; 2]].concat();
        let frame = frame(&extensions, protocol, &carried);
        let mut asked = rule("drop");
        (asked.protocol, asked.src_ports, asked.dst_ports) =
            (named.0, named.1.map(|port| port..=port), named.2.map(|port| port..=3));
        let found = expected(&extensions, protocol, ports);
        let has_ports = |[src, dst]: [u16; 2]| {
            named.1.is_none_or(|port| port == src) && named.2.is_none_or(|port| port <= dst)
        };
        let want = (named == (None, None, None)) || found.is_some_and(|(protocol, ports)| {
            named.0.is_none_or(|asked| asked == protocol)
                && ((named.1, named.2) == (None, None) || ports.is_some_and(has_ports))
        });
        let (filter, _) = filter(vec![asked]).unwrap();
        prop_assert_eq!(filter.judge(&Fields::read(&frame, 0), frame.len()).is_some(), want);
    }
}
