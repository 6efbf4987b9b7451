//! Tests that packets too large for a link cross it in fragments, which are the same that the kernel would send.

use crate::frames::Wire;
use crate::router::{Router, addressed, set};
use crate::testbed::{Testbed, host_mac};
use netmem::wire::{Ethernet, Ipv4, ethernet};
use std::net::Ipv4Addr;

const H1: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
const H2: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 1);
/// The protocol number of the packets: for experiments (RFC 3692), so no host answers them.
const EXPERIMENT: u8 = 253;
/// The identification of the small packet that is sent behind each one, and comes behind what came of that.
const MARK: u16 = 0xffff;

/// A frame of h1's with a packet for h2: the bytes of its options, what flags and offset say, and bytes of data.
fn frame(id: u16, options: &[u8], fragment: u16, data: usize) -> Vec<u8> {
    let mut header = Ipv4::new(H1, H2, EXPERIMENT, 64, (options.len() + data) as u16).to_bytes();
    header[0] += (options.len() / 4) as u8;
    header[1] = 0xb8;
    header[4..6].copy_from_slice(&id.to_be_bytes());
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    let mut packet = [&header, options].concat();
    Ipv4::seal(&mut packet);
    packet.extend((0..data).map(|i| (i * 7 + i / 256) as u8));
    let link = [[2, 0, 0, 0, 1, 0xfe], [2, 0, 0, 0, 1, 1]].concat();
    [&link, &[8, 0][..], &packet].concat()
}

/// Packets of which a link of 1,400, 600 or 576 bytes carries some only in pieces.
fn packets() -> Vec<Vec<u8>> {
    // Options: record route; router alert and security, which are copied; an unknown option of either kind.
    const RECORD: [u8; 12] = [7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const COPIED: [u8; 12] = [0x94, 4, 0, 0, 1, 0x9e, 4, 1, 2, 1, 1, 0];
    const MIXED: [u8; 16] = [1, 0x1e, 5, 7, 7, 7, 0x9e, 3, 9, 1, 0x5e, 2, 0x94, 4, 0, 0];
    const LONG: [u8; 40] = {
        let mut option = [5; 40];
        (option[0], option[1]) = (0x1e, 40);
        option
    };
    let most = 1480;
    let all: [(&[u8], u16, usize); 22] = [
        (&[], 0, 0),
        (&[], 0, 548),
        (&[], 0, 556),
        (&[], 0, 557),
        (&[], 0, 580),
        (&[], 0, 581),
        (&[], 0, 1380),
        (&[], 0, 1381),
        (&[], 0, most),
        (&[], 0x8000, most),
        (&[], 0x4000, 500),
        (&[], 0x2000, most),
        (&[], 0x20b9, most),
        (&[], 0x00b9, 1479),
        (&[], 0x1e00, 1477),
        (&[], 0x2000, 1475),
        (&RECORD, 0, most - 12),
        (&COPIED, 0, most - 12),
        (&MIXED, 0, most - 16),
        (&MIXED, 0x20b9, most - 16),
        (&[1; 40], 0, most - 40),
        (&LONG, 0x2000, most - 40),
    ];
    (1..).zip(all).map(|(id, (options, fragment, data))| frame(id, options, fragment, data)).collect()
}

/// The packet of h1's in a frame that came to h2, with its identification.
fn experiment(frame: &[u8]) -> Option<(u16, Vec<u8>)> {
    let (link, packet) = Ethernet::parse(frame).ok()?;
    let header = Ipv4::parse(packet).ok().filter(|_| link.ethertype() == ethernet::IPV4)?.0;
    (header.protocol() == EXPERIMENT)
        .then(|| (header.id(), frame[..14 + usize::from(header.total_length())].to_vec()))
}

/// What comes to h2 of each of these frames of h1's.
fn come(bed: &Testbed, frames: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    let (mut from, mut to) = (Wire::of(&bed.h1), Wire::of(&bed.h2));
    let is_mark = |frame: &[u8]| experiment(frame).is_some_and(|(id, _)| id == MARK);
    let mut each = |sent: &Vec<u8>| {
        from.send(sent);
        from.send(&frame(MARK, &[], 0, 26));
        let come = to.receive_until(is_mark);
        let packets = come.iter().filter_map(|frame| experiment(frame)).filter(|(id, _)| *id != MARK);
        packets.map(|(_, frame)| frame).collect()
    };
    frames.iter().map(&mut each).collect()
}

/// A machine between the hosts that may speak to both, and whose link to h2 is narrow.
fn narrow(mtu: u16) -> Option<Testbed> {
    let bed = addressed(&["ping"])?;
    bed.dut.ip(&format!("link set two mtu {mtu}"));
    bed.h2.ip(&format!("link set eth0 mtu {mtu}"));
    Some(bed)
}

/// Seen: every packet without DF that was longer than the MTU of the next link was lost, and no ICMP error was sent.
#[test]
fn fragments_are_byte_for_byte_those_of_the_kernel() {
    let frames = packets();
    for mtu in [1400, 600, 576] {
        let Some(bed) = narrow(mtu) else { return };
        set(&bed.dut, &[("ipv4/ip_forward", "1")]);
        bed.h1.ping("10.77.2.1", 1, "");
        let kernel = come(&bed, &frames);
        drop(bed);
        let pieces: usize = kernel.iter().filter(|pieces| pieces.len() > 1).map(Vec::len).sum();
        assert!(pieces > 10, "the kernel made {pieces} fragments");
        for (ports, path) in [(["packet:one", "packet:two"], "fast"), (["xdp:one", "xdp:two"], "full")] {
            let Some(bed) = narrow(mtu) else { return };
            let router = Router::start_in(bed, ports, &["--path", path]);
            router.bed.h1.ping("10.77.2.1", 1, "");
            let netmem = come(&router.bed, &frames);
            for ((sent, kernel), netmem) in frames.iter().zip(&kernel).zip(&netmem) {
                assert_eq!(netmem, kernel, "of {sent:x?} by a link of {mtu} bytes, {path}");
            }
            assert_eq!(router.number("forward", "fragments"), pieces as u64);
            let summary = router.end();
            assert_eq!(summary["dropped"]["frag_failed"], 0);
            assert_eq!(summary["fragments"], pieces);
        }
    }
}

/// The same if the route has the small MTU and not the link: a route with an MTU, with a locked MTU, and one of several
/// paths.
#[test]
fn fragments_for_a_routes_own_mtu_are_byte_for_byte_those_of_the_kernel() {
    let frames = packets();
    for route in [
        "10.77.2.1/32 via 10.77.2.9 dev two onlink mtu 1300",
        "10.77.2.1/32 dev two mtu lock 600",
        "10.77.2.1/32 mtu 577 nexthop via 10.77.2.9 dev two nexthop via 10.77.2.8 dev two",
    ] {
        let lay = || {
            let bed = addressed(&["ping"])?;
            bed.dut.ip(&format!("route add {route}"));
            for last in [1, 8, 9] {
                bed.dut.ip(&format!("neigh replace 10.77.2.{last} lladdr {} dev two", host_mac(2)));
            }
            Some(bed)
        };
        let Some(bed) = lay() else { return };
        set(&bed.dut, &[("ipv4/ip_forward", "1")]);
        bed.h1.ping("10.77.2.1", 1, "");
        let kernel = come(&bed, &frames);
        drop(bed);
        let Some(bed) = lay() else { return };
        let router = Router::start_in(bed, ["xdp:one", "xdp:two"], &[]);
        router.bed.h1.ping("10.77.2.1", 1, "");
        let netmem = come(&router.bed, &frames);
        for ((sent, kernel), netmem) in frames.iter().zip(&kernel).zip(&netmem) {
            assert_eq!(netmem, kernel, "of {sent:x?} by {route}");
        }
        assert!(router.number("forward", "fragmented") > 3, "{route}");
        router.end();
    }
}

/// From the sender's view: the answer arrives, also if the packet was in fragments before.
#[test]
fn ping_of_4000_bytes_without_df_crosses_a_narrower_link() {
    for (ports, path) in [(["packet:one", "packet:two"], "full"), (["xdp:one", "xdp:two"], "fast")] {
        let Some(bed) = narrow(1300) else { return };
        let router = Router::start_in(bed, ports, &["--path", path]);
        for size in [1272, 1273, 1472, 4000, 20_000] {
            router.bed.h1.ping("10.77.2.1", 2, &format!("-M dont -i 0.1 -s {size}"));
        }
        let [cut, pieces] = ["fragmented", "fragments"].map(|name| router.number("forward", name));
        assert!(pieces >= 2 * cut && cut >= 2 * (1 + 1 + 2 + 13), "{cut} packets in {pieces} pieces");
        router.end();
    }
}
