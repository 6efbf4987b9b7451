//! Tests each rule of RFC 8200 and RFC 4291 for routers, one packet for each.

use super::super::forward_ip;
use super::*;
use crate::route::{Change, Fib, FibEntry, HopId, Neighbour, fib};
use netmem::wire::{MacAddr, ethernet, ipv4, ipv6};
use std::net::IpAddr;
use zerocopy::IntoBytes;

const ROUTER: [Interface; 2] = [
    Interface { mac: MacAddr::new([2, 0, 0, 0, 0, 1]), mtu: 1280 },
    Interface { mac: MacAddr::new([2, 0, 0, 0, 0, 2]), mtu: 1280 },
];
const STATION: MacAddr = MacAddr::new([2, 0, 0, 0, 9, 9]);

/// A router whose routes of fd00:2::/32 lead to a station, of fd00:3::/32 to neighbours on the link, and of
/// fd00:4::/32 nowhere.
fn router() -> Fib {
    let (mut control, mut reader) = fib(Fib { interfaces: ROUTER.into(), ..Fib::default() });
    let silent = Neighbour { port: 1, address: "fd00:3::9".parse().unwrap() };
    let hops = [FibEntry::station(1, STATION), FibEntry::on_link(1), FibEntry::BLACKHOLE];
    let mut changes = vec![Change::Neighbour(silent, None)];
    for ((id, hop), net) in (0..).zip(hops).zip(["fd00:2::/32", "fd00:3::/32", "fd00:4::/32"]) {
        changes.push(Change::Hop(HopId(id), hop));
        changes.push(Change::Route(net.parse().unwrap(), HopId(id)));
    }
    control.apply(changes);
    assert!(reader.refresh());
    reader.fib().clone()
}

/// Builds a frame from `src` to `dst` with `payload` bytes behind the header.
fn frame(src: &str, dst: &str, hop_limit: u8, payload: usize) -> Vec<u8> {
    let [src, dst] = [src, dst].map(|address| address.parse().unwrap());
    let link = Ethernet::new(ROUTER[0].mac, STATION, ethernet::IPV6);
    let header = Ipv6::new(src, dst, ipv4::UDP, hop_limit, payload as u16);
    let mut frame = [link.as_bytes(), header.as_bytes()].concat();
    frame.resize(frame.len() + payload, 0x77);
    frame
}

fn usual() -> Vec<u8> {
    frame("fd00:1::1", "fd00:2::1", 64, 100)
}

fn verdict(frame: &mut [u8]) -> Verdict {
    forward_ip(frame, &ROUTER[0], &router())
}

#[test]
fn a_forwarded_frame_differs_only_in_its_hop_limit_and_its_mac_addresses() {
    let mut wanted = usual();
    let mut got = wanted.clone();
    assert_eq!(verdict(&mut got), Verdict::Redirect(1));
    wanted[..6].copy_from_slice(STATION.as_bytes());
    wanted[6..12].copy_from_slice(ROUTER[1].mac.as_bytes());
    wanted[14 + 7] = 63;
    assert_eq!(got, wanted);
}

#[test]
fn every_drop_has_its_reason_and_leaves_the_frame_unchanged() {
    let checked = |mut frame: Vec<u8>, reason: Reason| {
        let before = frame.clone();
        assert_eq!(verdict(&mut frame), Verdict::Drop(reason));
        assert_eq!(frame, before, "{reason:?}");
    };
    let spoilt = |at: usize, byte: u8| {
        let mut frame = usual();
        frame[at] = byte;
        frame
    };
    checked(usual()[..53].to_vec(), Reason::Short);
    checked(spoilt(14, 0x45), Reason::BadVersion);
    checked(spoilt(14 + 4, 1), Reason::Truncated);
    checked(spoilt(5, 0x33), Reason::NotForUs);
    checked(spoilt(0, 0x33), Reason::LinkMulticast);
    // RFC 8200 §3: the hop limit that would become 0.
    for hop_limit in [0, 1] {
        checked(frame("fd00:1::1", "fd00:2::1", hop_limit, 100), Reason::TtlExpired);
    }
    checked(frame("fd00:1::1", "fd00:5::1", 64, 100), Reason::NoRoute);
    checked(frame("fd00:1::1", "fd00:4::1", 64, 100), Reason::Blackhole);
    checked(frame("fd00:1::1", "fd00:3::9", 64, 100), Reason::NeighFailed);
    // RFC 8200 §5: the link's MTU limits the whole packet, and the packet is not fragmented.
    checked(frame("fd00:1::1", "fd00:2::1", 64, 1280 - ipv6::HEADER_LEN + 1), Reason::PktTooBig);
    assert_eq!(
        verdict(&mut frame("fd00:1::1", "fd00:2::1", 64, 1280 - ipv6::HEADER_LEN)),
        Verdict::Redirect(1)
    );
}

#[test]
fn a_packet_for_a_neighbour_whose_mac_address_is_not_known_waits_unchanged() {
    let mut frame = frame("fd00:1::1", "fd00:3::1", 64, 8);
    let before = frame.clone();
    assert_eq!(verdict(&mut frame), Verdict::Wait);
    assert_eq!(frame, before);
    let address: IpAddr = "fd00:3::1".parse().unwrap();
    assert_eq!(super::super::awaited(&frame, &router().table), Some(Neighbour { port: 1, address }));
}

#[test]
fn unspecified_loopback_mapped_link_local_and_multicast_are_forwarded_neither_from_nor_to() {
    let mapped = ["::ffff:0.0.0.0", "::ffff:10.0.0.1", "::ffff:255.255.255.255"];
    let others = ["::", "::1", "fe80::1", "febf:ffff::1", "ff02::1", "ff0e::1"];
    for martian in others.into_iter().chain(mapped) {
        for (src, dst) in [(martian, "fd00:2::1"), ("fd00:1::1", martian)] {
            // An ICMP error is sent to its sender, if there is one.
            let speaks = src.parse::<Ipv6Addr>().unwrap().is_unicast_link_local();
            let reason = if speaks { Reason::BeyondScope } else { Reason::Martian };
            assert_eq!(verdict(&mut frame(src, dst, 64, 8)), Verdict::Drop(reason), "{src} to {dst}");
        }
    }
    for good in
        ["fec0::1", "fe7f::1", "2001:db8::1", "::2", "::fffe:10.0.0.1", "::1:0:0:1", "0:0:0:0:1:ffff:a00:1"]
    {
        assert_eq!(verdict(&mut frame(good, "fd00:2::1", 64, 8)), Verdict::Redirect(1), "{good}");
    }
}

#[test]
fn link_padding_after_a_short_packet_does_not_count() {
    let mut padded = frame("fd00:1::1", "fd00:2::1", 64, 0);
    padded.resize(1600, 0);
    assert_eq!(verdict(&mut padded), Verdict::Redirect(1));
}
