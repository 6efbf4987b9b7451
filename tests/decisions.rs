//! Tests of the examples of decisions outside of the crate. Their packets are counted.

// Their `main` is the program's.
#[allow(dead_code)]
#[path = "../examples/acl.rs"]
mod acl;
#[allow(dead_code)]
#[path = "../examples/balancer.rs"]
mod balancer;

use netmem::steer::Source;
use netmem::wire::{Ipv4, ethernet, ipv4};
use netmem::{Decide, Reason, Verdict};
use std::net::Ipv4Addr;

#[test]
fn an_acl_drops_listed_packets_under_its_own_reason_and_forwards_all_others() {
    let denied = ["10.0.7.0/24", "10.0.16.0/20"].map(|prefix| prefix.parse().expect("a prefix"));
    let fates = acl::run(denied.into(), 25_600).expect("a run");
    assert_eq!(fates, [("crossed", 25_600 - 1_700), ("acl_denied", 1_700)]);
}

#[test]
fn no_vlan_tag_carries_a_packet_past_an_acl() {
    let mut acl = acl::Acl(vec!["10.0.7.0/24".parse().expect("a prefix")]);
    let mut judged = |tags: &[[u8; 2]], source: u8, ethertype: u16| {
        let mut frame = vec![2; 12];
        tags.iter().for_each(|tag| frame.extend([tag[0], tag[1], 0, 7]));
        frame.extend(ethertype.to_be_bytes());
        let address = Ipv4Addr::new(10, 0, source, 1);
        frame.extend(Ipv4::new(address, Ipv4Addr::new(192, 0, 2, 1), ipv4::UDP, 64, 26).to_bytes());
        frame.resize(90, 0);
        acl.decide(Source::default(), &mut frame)
    };
    let (vlan, service) = (ethernet::VLAN.to_be_bytes(), ethernet::SERVICE_VLAN.to_be_bytes());
    for tags in [&[][..], &[vlan], &[service, vlan], &[vlan; 5]] {
        assert_eq!(judged(tags, 7, ethernet::IPV4), Verdict::Drop(Reason::Own(0)), "{tags:?}");
        assert_eq!(judged(tags, 8, ethernet::IPV4), Verdict::Redirect(1), "{tags:?}");
        assert_eq!(judged(tags, 7, ethernet::ARP), Verdict::Redirect(1), "{tags:?}");
        assert_eq!(judged(tags, 8, 0x9100), Verdict::Drop(Reason::Own(1)), "what cannot be read: {tags:?}");
    }
}

#[test]
fn a_load_balancer_on_two_workers_keeps_each_flow_with_one_back_end() {
    const PACKETS: usize = 50_000;
    let got = balancer::run(PACKETS).expect("a run");
    let packets: usize = got.iter().flat_map(|flows| flows.values()).sum();
    let mut flows: Vec<u16> = got.iter().flat_map(|flows| flows.keys().copied()).collect();
    flows.sort_unstable();
    assert_eq!((packets, flows), (PACKETS, (2000..2097).collect()), "each flow in one place, whole");
    // Each worker gives its flows out in turn.
    assert!(
        got.iter().all(|flows| (97 / 3 - 2..=97 / 3 + 2).contains(&flows.len())),
        "{:?}",
        got.map(|flows| flows.len())
    );
}
