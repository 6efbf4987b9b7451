//! Tests of rules by a table, and of the list against a model.

mod ipv6;

use super::*;
use etherparse::PacketBuilder;
use proptest::prelude::*;
use std::collections::VecDeque;

fn rule(text: &str) -> Rule {
    text.parse().unwrap()
}

/// Returns the action of `filter` for the packet.
fn judged(rules: &[&str], frame: &[u8], ingress: u8) -> Option<Action> {
    let (filter, _) = filter(rules.iter().map(|text| rule(text)).collect()).unwrap();
    filter.judge(&Fields::read(frame, ingress), frame.len())
}

fn link() -> etherparse::PacketBuilderStep<etherparse::Ethernet2Header> {
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
}

fn udp(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
    let mut frame = Vec::new();
    link().ipv4(src, dst, 64).udp(ports.0, ports.1).write(&mut frame, &[7; 20]).unwrap();
    frame
}

fn tcp(src: [u8; 4], dst: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
    let mut frame = Vec::new();
    link().ipv4(src, dst, 64).tcp(ports.0, ports.1, 1, 1024).write(&mut frame, &[7; 20]).unwrap();
    frame
}

#[test]
fn a_rule_matches_a_packet_that_has_everything_it_names() {
    let frame = udp([10, 1, 2, 3], [192, 168, 0, 9], (1000, 53));
    for (text, matches) in [
        ("drop", true),
        ("drop,in=2", true),
        ("drop,in=1", false),
        ("drop,ethertype=ipv4", true),
        ("drop,ethertype=0x800", true),
        ("drop,ethertype=2048", true),
        ("drop,ethertype=arp", false),
        ("drop,src=10.0.0.0/8", true),
        ("drop,src=10.1.2.3", true),
        ("drop,src=10.1.2.2/32", false),
        ("drop,src=0.0.0.0/0", true),
        ("drop,dst=192.168.0.8/31", true),
        ("drop,dst=10.0.0.0/8", false),
        ("drop,proto=udp", true),
        ("drop,proto=17", true),
        ("drop,proto=tcp", false),
        ("drop,dport=53", true),
        ("drop,dport=50-53", true),
        ("drop,dport=54-99", false),
        ("drop,sport=0-65535", true),
        ("drop,sport=53", false),
        ("drop,in=2,ethertype=ipv4,src=10.1.0.0/16,dst=192.168.0.0/16,proto=udp,sport=1000,dport=53", true),
        ("drop,in=2,ethertype=ipv4,src=10.1.0.0/16,dst=192.168.0.0/16,proto=udp,sport=1001,dport=53", false),
    ] {
        assert_eq!(judged(&[text], &frame, 2).is_some(), matches, "{text}");
    }
    let other = tcp([10, 1, 2, 3], [192, 168, 0, 9], (1000, 53));
    assert!(judged(&["drop,proto=tcp,dport=53"], &other, 0).is_some(), "TCP has ports too");
}

#[test]
fn ports_are_found_behind_options_and_not_in_later_fragments_nor_other_protocols() {
    let plain = udp([10, 0, 0, 1], [10, 0, 0, 2], (7, 9));
    let mut options = plain.clone();
    options[14] = 0x46;
    options.splice(34..34, [1, 1, 1, 0]);
    assert!(judged(&["drop,dport=9"], &options, 0).is_some());
    let mut first = plain.clone();
    first[20] = 0x20;
    assert!(judged(&["drop,dport=9"], &first, 0).is_some(), "the first fragment has the ports");
    let mut later = plain.clone();
    later[21] = 1;
    assert!(judged(&["drop,dport=9"], &later, 0).is_none());
    assert!(judged(&["drop,proto=udp"], &later, 0).is_some());
    let mut icmp = plain.clone();
    icmp[23] = 1;
    assert!(judged(&["drop,sport=0-65535"], &icmp, 0).is_none());
    for len in 0..plain.len() {
        let fields = Fields::read(&plain[..len], 0);
        assert_eq!((fields.ethertype != 0, fields.ipv4.is_some()), (len >= 14, len >= 34), "{len} bytes");
        assert_eq!(fields.ipv4.is_some_and(|ip| ip.ports.is_some()), len >= 38, "{len} bytes");
    }
    let mut six = plain;
    six[14] = 0x65;
    assert_eq!(Fields::read(&six, 0).ipv4, None, "version 6 under IPv4's ethertype");
}

/// Returns the frame with these tags.
fn tagged(frame: &[u8], tags: &[[u8; 4]]) -> Vec<u8> {
    [&frame[..12], tags.as_flattened(), &frame[12..]].concat()
}

const PRIORITY: [u8; 4] = [0x81, 0, 0xe0, 0];
const VLAN: [u8; 4] = [0x81, 0, 0, 5];
const SERVICE: [u8; 4] = [0x88, 0xa8, 0, 9];

/// Observed: after a router forwarded priority-tagged frames, rules that did not look behind the tag let them all pass.
/// Later a tag that names a VLAN carried a packet past every rule with an address, a protocol or a port.
#[test]
fn a_tag_carries_no_packet_past_a_rule_with_an_address_a_protocol_or_a_port() {
    let frame = udp([10, 1, 2, 3], [10, 0, 0, 5], (1000, 53));
    let sequences: [&[[u8; 4]]; 6] =
        [&[PRIORITY], &[VLAN], &[SERVICE], &[SERVICE, VLAN], &[PRIORITY, VLAN], &[VLAN; 40]];
    for tags in sequences {
        let tagged = tagged(&frame, tags);
        for rule in ["drop,dst=10.0.0.5", "drop,src=10.1.0.0/16", "drop,proto=udp,dport=53"] {
            assert!(judged(&[rule], &tagged, 0).is_some(), "{rule} behind {tags:x?}");
        }
        assert!(judged(&["drop,dst=10.0.0.6"], &tagged, 0).is_none(), "{tags:x?}");
        for length in 0..=tagged.len() {
            let fields = Fields::read(&tagged[..length], 0);
            let packet = length.saturating_sub(4 * tags.len());
            assert_eq!(fields.ipv4.is_some(), packet >= 34, "{length} bytes with {tags:x?}");
        }
    }
}

#[test]
fn the_ethertype_of_a_rule_is_that_of_the_first_tag_unless_this_names_no_vlan() {
    let frame = udp([10, 1, 2, 3], [10, 0, 0, 5], (1000, 53));
    let seen: [(&[[u8; 4]], &str); 6] = [
        (&[], "ipv4"),
        (&[PRIORITY], "ipv4"),
        (&[VLAN], "0x8100"),
        (&[SERVICE], "0x88a8"),
        (&[SERVICE, VLAN], "0x88a8"),
        (&[PRIORITY, SERVICE, VLAN], "0x88a8"),
    ];
    for (tags, outer) in seen {
        let tagged = tagged(&frame, tags);
        for ethertype in ["ipv4", "0x8100", "0x88a8"] {
            let rule = format!("drop,ethertype={ethertype},dst=10.0.0.5");
            assert_eq!(judged(&[&rule], &tagged, 0).is_some(), ethertype == outer, "{rule} for {tags:x?}");
        }
    }
}

/// There is no packet in such a frame that a rule could miss.
#[test]
fn a_frame_that_ends_within_its_tags_matches_only_rules_without_an_address_a_protocol_or_a_port() {
    let frame = udp([10, 1, 2, 3], [10, 0, 0, 5], (1000, 53));
    let cut = &tagged(&frame, &[VLAN; 300])[..1200];
    for rule in ["drop,dst=0.0.0.0/0", "drop,proto=udp", "drop,dport=53", "drop,ethertype=ipv4"] {
        assert!(judged(&[rule], cut, 0).is_none(), "{rule}");
    }
    for rule in ["drop", "drop,ethertype=0x8100"] {
        assert!(judged(&[rule], cut, 0).is_some(), "{rule}");
    }
}

#[test]
fn a_rule_is_written_as_it_is_read() {
    for text in [
        "accept",
        "drop,in=3",
        "pass,ethertype=0x86dd",
        "drop,in=0,ethertype=0x0800,src=10.0.0.0/8,dst=1.2.3.4/32,proto=17,sport=1-2,dport=53",
    ] {
        assert_eq!(rule(text).to_string(), text);
    }
    assert_eq!(rule(" drop , proto=udp ").to_string(), "drop,proto=17");
}

/// Observed: `drop,proto=icmp,dport=1900` was accepted, and no packet can match it.
#[test]
fn ports_of_a_protocol_without_ports_are_refused() {
    for (bad, said) in [
        (
            "drop,proto=icmp,dport=1900",
            "dport beside proto=1, which has no ports: give proto=tcp, proto=udp or no proto",
        ),
        ("drop,sport=7,proto=icmp", "sport beside proto=1, which"),
        ("pass,proto=132,sport=1-2,dport=3", "sport beside proto=132, which"),
    ] {
        let error = bad.parse::<Rule>().unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains('\n'), "{bad}: {error}");
    }
    for good in ["drop,proto=6,dport=1900", "drop,proto=17,sport=1", "drop,dport=1900", "drop,proto=1"] {
        assert_eq!(rule(good).to_string(), good);
    }
}

#[test]
fn a_text_that_is_no_rule_is_told_what_would_be_one() {
    for (bad, remedy) in [
        ("", "begin with accept, drop or pass"),
        ("reject", "begin with accept, drop or pass"),
        ("drop,", "write in, ethertype"),
        ("drop,port=3", "write in, ethertype"),
        ("drop,in", "write in, ethertype"),
        ("drop,in=256", "a port's number"),
        ("drop,ethertype=ip", "ipv4, ipv6 or arp"),
        ("drop,ethertype=0x10000", "up to 65535"),
        ("drop,src=10.0.0.1/8", "without host bits"),
        ("drop,dst=10.0.0", "an IPv4 prefix"),
        ("drop,proto=sctp", "icmp, icmpv6, tcp or udp"),
        ("drop,proto=256", "up to 255"),
        ("drop,dport=99-53", "the lower first"),
        ("drop,sport=1-2-3", "a port, or two"),
        ("drop,sport=", "a port, or two"),
        ("drop,in=1,in=1", "given twice"),
    ] {
        let error = bad.parse::<Rule>().unwrap_err().to_string();
        assert!(error.contains(remedy) && !error.contains('\n'), "{bad}: {error}");
    }
}

#[test]
fn the_first_rule_that_matches_decides_and_is_counted_with_the_bytes() {
    let frame = udp([10, 0, 0, 1], [10, 0, 0, 2], (7, 9));
    let rules = ["accept,proto=tcp", "pass,dport=9", "drop"].map(rule);
    let (filter, control) = filter(rules.to_vec()).unwrap();
    for _ in 0..3 {
        assert_eq!(filter.judge(&Fields::read(&frame, 0), frame.len()), Some(Action::Pass));
    }
    let counts = control.rules().into_iter().map(|count| (count.packets, count.bytes)).collect::<Vec<_>>();
    assert_eq!(counts, [(0, 0), (3, 3 * frame.len() as u64), (0, 0)]);
    assert_eq!(control.unmatched(), 0);
}

#[test]
fn a_place_that_is_not_there_and_too_many_rules_are_refused_and_change_nothing() {
    let (_, control) = filter(vec![rule("drop")]).unwrap();
    assert_eq!(control.insert(2, rule("pass")), Err(FilterError::NoSuchRule { at: 2, rules: 1 }));
    assert_eq!(control.remove(1), Err(FilterError::NoSuchRule { at: 1, rules: 1 }));
    let many = vec![rule("pass"); RULES_MAX + 1];
    assert_eq!(control.replace(many), Err(FilterError::TooMany { rules: RULES_MAX + 1 }));
    assert_eq!(control.rules().len(), 1);
}

/// An operation on a filter.
#[derive(Debug, Clone)]
enum Step {
    Judge { ingress: u8, bytes: usize },
    Insert(usize, Rule),
    Remove(usize),
    Replace(Vec<Rule>),
}

/// Rules that differ only in the port, so that several match and lists often have some in common.
fn some_rule() -> impl Strategy<Value = Rule> {
    let action = prop_oneof![Just(Action::Accept), Just(Action::Drop), Just(Action::Pass)];
    (action, proptest::option::of(0u8..3)).prop_map(|(action, ingress)| Rule { ingress, ..Rule::all(action) })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..3, 0usize..2000).prop_map(|(ingress, bytes)| Step::Judge { ingress, bytes }),
        1 => (0usize..6, some_rule()).prop_map(|(at, rule)| Step::Insert(at, rule)),
        1 => (0usize..6).prop_map(Step::Remove),
        1 => proptest::collection::vec(some_rule(), 0..5).prop_map(Step::Replace),
    ]
}

proptest! {
    #[test]
    fn a_list_that_is_changed_while_it_is_used_decides_and_counts_as_a_plain_one(
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let (mut filter, control) = filter(Vec::new()).unwrap();
        let mut model: Vec<(Rule, u64, u64)> = Vec::new();
        for step in steps {
            match step {
                Step::Judge { ingress, bytes } => {
                    filter.refresh();
                    let fields = Fields { ingress, ethertype: 0, ipv4: None, ipv6: None };
                    let hit = model.iter_mut().find(|(rule, ..)| rule.ingress.is_none_or(|port| port == ingress));
                    let want = hit.map(|(rule, packets, counted)| {
                        *packets += 1;
                        *counted += bytes as u64;
                        rule.action
                    });
                    prop_assert_eq!(filter.judge(&fields, bytes), want);
                }
                Step::Insert(at, rule) => {
                    let done = control.insert(at, rule.clone()).is_ok();
                    prop_assert_eq!(done, at <= model.len());
                    if done {
                        // Equal rules are distinguished only by their order: counts stay with the first ones.
                        let mut rules: Vec<_> = model.iter().map(|(rule, ..)| rule.clone()).collect();
                        rules.insert(at, rule);
                        model = carried(model, rules);
                    }
                }
                Step::Remove(at) => {
                    let done = control.remove(at).is_ok();
                    prop_assert_eq!(done, at < model.len());
                    if done {
                        let mut rules: Vec<_> = model.iter().map(|(rule, ..)| rule.clone()).collect();
                        rules.remove(at);
                        model = carried(model, rules);
                    }
                }
                Step::Replace(rules) => {
                    control.replace(rules.clone()).unwrap();
                    model = carried(model, rules);
                }
            }
            let counts = control.rules().into_iter().map(|count| (count.rule, count.packets, count.bytes));
            prop_assert_eq!(counts.collect::<Vec<_>>(), model.clone());
        }
    }
}

/// The model's rule for counts: of equal rules, the first takes the first one's counts.
fn carried(old: Vec<(Rule, u64, u64)>, rules: Vec<Rule>) -> Vec<(Rule, u64, u64)> {
    let mut old: VecDeque<_> = old.into();
    let take = |rule: Rule| match old.iter().position(|(known, ..)| *known == rule) {
        Some(at) => old.remove(at).unwrap(),
        None => (rule, 0, 0),
    };
    rules.into_iter().map(take).collect()
}
