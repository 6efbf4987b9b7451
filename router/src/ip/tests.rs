//! Tests the forwarder with frames that etherparse builds, with each fault by itself, and with a million random
//! frames.

use etherparse::{EtherType, Ethernet2Header, IpNumber, Ipv4Header, Ipv4Options};
use proptest::prelude::*;

use super::*;
use crate::route::{Change, FibEntry, HopId};
use netmem::wire::checksum::Sum;

const ROUTER: [Interface; 2] = [
    Interface { mac: MacAddr::new([2, 0, 0, 0, 0, 0xfe]), mtu: 1500 },
    Interface { mac: MacAddr::new([2, 0, 0, 0, 1, 0xfe]), mtu: 100 },
];
const HOSTS: [MacAddr; 2] = [MacAddr::new([2, 0, 0, 0, 0, 1]), MacAddr::new([2, 0, 0, 0, 1, 1])];

/// Routes to both hosts, and one to a port that does not exist.
fn router() -> Fib {
    let table = [
        "10.0.0.0/16,0,02:00:00:00:00:01",
        "10.1.0.0/16,1,02:00:00:00:01:01",
        "10.9.0.0/16,9,02:00:00:00:09:01",
    ]
    .into_iter()
    .map(|text| text.parse().unwrap())
    .collect();
    Fib { table, interfaces: ROUTER.into(), ..Fib::default() }
}

fn forward(frame: &mut [u8]) -> Verdict {
    forward_ip(frame, &ROUTER[0], &router())
}

/// Builds a frame from host 0 with etherparse.
fn frame(src: [u8; 4], dst: [u8; 4], ttl: u8, payload: &[u8], words: usize) -> Vec<u8> {
    let link = Ethernet2Header {
        source: HOSTS[0].bytes(),
        destination: ROUTER[0].mac.bytes(),
        ether_type: EtherType::IPV4,
    };
    let mut ip = Ipv4Header::new(0, ttl, IpNumber::UDP, src, dst).unwrap();
    ip.options = Ipv4Options::try_from(&vec![1; words * 4][..]).unwrap();
    ip.set_payload_len(payload.len()).unwrap();
    ip.header_checksum = ip.calc_header_checksum();
    [&link.to_bytes()[..], &ip.to_bytes(), payload].concat()
}

fn plain() -> Vec<u8> {
    frame([10, 0, 0, 1], [10, 1, 0, 1], 64, &[7; 30], 0)
}

/// Recomputes the header checksum after an edit, with or without options.
fn fix_checksum(frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(14..).filter(|packet| packet.len() >= 20) else { return };
    let header_len = (usize::from(packet[0] & 0xf) * 4).clamp(20, packet.len());
    packet[10..12].fill(0);
    let checksum = Sum::new().bytes(&packet[..header_len]).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

#[test]
fn a_forwarded_frame_differs_only_in_its_ttl_and_its_mac_addresses() {
    for words in [0, 1, 10] {
        let before = frame([10, 0, 0, 1], [10, 1, 2, 3], 64, &[7; 31], words);
        let mut after = before.clone();
        assert_eq!(forward(&mut after), Verdict::Redirect(1));

        let (link, rest) = Ethernet2Header::from_slice(&after).unwrap();
        assert_eq!((link.source, link.destination), (ROUTER[1].mac.bytes(), HOSTS[1].bytes()));
        let (ip, payload) = Ipv4Header::from_slice(rest).unwrap();
        assert_eq!((ip.time_to_live, ip.header_checksum), (63, ip.calc_header_checksum()));
        assert_eq!(payload, [7; 31]);
        let mut want = before;
        want[..12].copy_from_slice(&after[..12]);
        want[22] = 63;
        fix_checksum(&mut want);
        assert_eq!(after, want);
    }
}

#[test]
fn every_drop_has_its_reason_and_leaves_the_frame_unchanged() {
    let dropped = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = plain();
        edit(&mut frame);
        let before = frame.clone();
        match forward(&mut frame) {
            Verdict::Drop(reason) => {
                assert_eq!(frame, before);
                reason.name()
            }
            other => panic!("{other:?}"),
        }
    };
    // Edits the header and keeps its checksum valid.
    let header = |at: usize, bytes: &'static [u8]| {
        dropped(&move |f| {
            f[14 + at..][..bytes.len()].copy_from_slice(bytes);
            fix_checksum(f);
        })
    };
    assert_eq!(dropped(&|f| f.clear()), "short");
    assert_eq!(dropped(&|f| f.truncate(13)), "short");
    assert_eq!(dropped(&|f| f.truncate(33)), "short");
    assert_eq!(dropped(&|f| f[12..14].copy_from_slice(&[0x08, 0x06])), "arp");
    assert_eq!(dropped(&|f| f[12..14].copy_from_slice(&[0x86, 0xdd])), "bad_version");
    assert_eq!(dropped(&|f| f[12..14].copy_from_slice(&[0x88, 0xcc])), "unknown_ethertype");
    assert_eq!(dropped(&|f| f[5] ^= 1), "not_for_us");
    assert_eq!(dropped(&|f| f[..6].fill(0xff)), "link_multicast");
    assert_eq!(dropped(&|f| f[0] = 0x01), "link_multicast");
    assert_eq!(header(0, &[0x65]), "bad_version");
    assert_eq!(header(0, &[0x44]), "bad_header_length");
    assert_eq!(header(2, &[0, 19]), "bad_total_length");
    assert_eq!(dropped(&|f| f.truncate(63)), "truncated");
    assert_eq!(dropped(&|f| f[25] ^= 1), "bad_checksum");
    assert_eq!(header(8, &[1]), "ttl_expired");
    assert_eq!(header(8, &[0]), "ttl_expired");
    assert_eq!(header(16, &[11, 0, 0, 1]), "no_route");
    assert_eq!(header(16, &[10, 9, 0, 1]), "no_route");
    let mut long = frame([10, 0, 0, 1], [10, 1, 0, 1], 64, &[7; 81], 0);
    assert_eq!(forward(&mut long), Verdict::Drop(Reason::PktTooBig));
    let mut fits = frame([10, 0, 0, 1], [10, 1, 0, 1], 64, &[7; 80], 0);
    assert_eq!(forward(&mut fits), Verdict::Redirect(1));
}

#[test]
fn packets_from_or_to_martians_are_not_forwarded() {
    let table = ["0.0.0.0/0,1,02:00:00:00:01:01".parse().unwrap()].into_iter().collect();
    let everywhere = Fib { table, ..router() };
    let verdict = |src, dst| forward_ip(&mut frame(src, dst, 64, &[], 0), &ROUTER[0], &everywhere);
    let good = [10, 0, 0, 1];
    for martian in [
        [0, 0, 0, 0],
        [0, 1, 2, 3],
        [127, 0, 0, 1],
        [127, 255, 255, 255],
        [169, 254, 0, 1],
        [224, 0, 0, 1],
        [239, 255, 255, 255],
        [240, 0, 0, 1],
        [255, 255, 255, 255],
    ] {
        assert_eq!(verdict(martian, good), Verdict::Drop(Reason::Martian), "from {martian:?}");
        assert_eq!(verdict(good, martian), Verdict::Drop(Reason::Martian), "to {martian:?}");
    }
    for near in [
        [1, 0, 0, 0],
        [126, 255, 255, 255],
        [128, 0, 0, 0],
        [169, 253, 0, 1],
        [169, 255, 0, 1],
        [223, 255, 255, 255],
    ] {
        assert_eq!(verdict(near, good), Verdict::Redirect(1), "from {near:?}");
        assert_eq!(verdict(good, near), Verdict::Redirect(1), "to {near:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_get_a_verdict(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let before = bytes.clone();
        if let Verdict::Drop(_) = forward(&mut bytes) {
            prop_assert_eq!(bytes, before);
        }
    }
}

/// Marsaglia's xorshift64: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn one_in(&mut self, n: u64) -> bool {
        (self.next() >> 32).is_multiple_of(n)
    }
}

/// Makes a random frame. Each field is valid more often than not, so that later checks are reached too.
fn random_frame(random: &mut Random) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..20).flat_map(|_| random.next().to_ne_bytes()).collect();
    if random.one_in(20) {
        frame.truncate((random.next() % 64) as usize);
        return frame;
    }
    frame.truncate(64 + (random.next() % 97) as usize);
    let mut right = |frame: &mut [u8], at: usize, bytes: &[u8], wrong_one_in: u64| {
        if !random.one_in(wrong_one_in) {
            frame[at..][..bytes.len()].copy_from_slice(bytes);
        }
    };
    let length = (frame.len() - 14) as u16;
    right(&mut frame, 0, &ROUTER[0].mac.bytes(), 20);
    right(&mut frame, 12, &[0x08], 20);
    right(&mut frame, 13, &[0x00], 20);
    right(&mut frame, 14, &[0x45], 5);
    right(&mut frame, 16, &length.to_be_bytes(), 10);
    right(&mut frame, 26, &[10, 0], 10);
    right(&mut frame, 30, &[10, 1], 5);
    if !random.one_in(10) {
        fix_checksum(&mut frame);
    }
    match random.next() % 60 {
        0 => frame[..6].fill(0xff),
        1 => frame[12..14].copy_from_slice(&[0x08, 0x06]),
        2 => frame[12..14].copy_from_slice(&[0x86, 0xdd]),
        3 => frame[14] = 0x44,
        4 => frame[16..18].copy_from_slice(&[0, (random.next() % 20) as u8]),
        _ => {}
    }
    frame
}

/// The router, with a hundred addresses of its own in the network of host 0.
fn addressed() -> Fib {
    let nets: Vec<ipnet::IpNet> = (0..100).map(|i| format!("10.0.{i}.7/32").parse().unwrap()).collect();
    let mut fib = router();
    let id = HopId(99);
    let routes = nets.iter().map(|net| Change::Route(*net, id));
    let changes: Vec<_> = [Change::Hop(id, FibEntry::LOCAL)].into_iter().chain(routes).collect();
    fib.apply(changes.iter().chain([&Change::OwnAddresses(nets.into())]));
    fib
}

#[test]
fn the_hot_path_forwards_as_the_single_checks_do_or_leaves_the_frame_to_them() {
    let (router, mut random) = (addressed(), Random(0x6661_7374_2026));
    let (mut hot, mut own) = (0, 0);
    for _ in 0..100_000 {
        let frame = random_frame(&mut random);
        let (mut ours, mut theirs) = (frame.clone(), frame.clone());
        let checked = forward_any(&mut theirs, Some(&ROUTER[0]), None, &router);
        if let Some(&[a, b, c, d]) = frame.get(26..30)
            && router.own_sources.has(Ipv4Addr::new(a, b, c, d).into())
        {
            own += u32::from(checked == Err(Reason::Martian));
        }
        match forward_plain(&mut ours, &ROUTER[0], &router) {
            Some(port) => {
                hot += 1;
                assert_eq!((Ok(Verdict::Redirect(port)), &ours), (checked, &theirs));
            }
            None => {
                assert_eq!(ours, frame);
                let padded = || frame.len() > 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
                let uncommon = || frame[14] != 0x45 || frame[26] == 169 || padded();
                let is_told = checked.is_err() || checked == Ok(Verdict::Fragment);
                assert!(is_told || uncommon(), "{frame:?}");
            }
        }
    }
    assert!(hot > 10_000, "{hot} of 100000 frames took the hot path");
    assert!(own > 10, "{own} frames came from the router's own addresses");
}

#[test]
fn every_martian_is_under_a_suspect_first_octet_and_few_others_are() {
    for first in 0..=u8::MAX {
        let martians = (0..=u8::MAX).filter(|second| is_martian([first, *second, 1, 1].into())).count();
        assert_eq!(SUSPECT[usize::from(first)], martians > 0, "{first}: {martians} martians");
    }
    assert_eq!(SUSPECT.iter().filter(|suspect| **suspect).count(), 32 + 3);
}

/// `NETMEM_RANDOM_FRAMES` sets the number of frames. The default is a million.
#[test]
fn a_million_random_frames_end_in_every_verdict_and_no_panic() {
    let frames =
        std::env::var("NETMEM_RANDOM_FRAMES").map_or(1_000_000, |n| n.parse().expect("a number of frames"));
    let (router, mut random) = (router(), Random(0x6e65_746d_656d_2026));
    let (mut forwarded, mut cut, mut dropped) = (0u64, 0u64, [0u64; Reason::ALL.len()]);
    for _ in 0..frames {
        let mut frame = random_frame(&mut random);
        let before = frame.clone();
        match forward_ip(&mut frame, &ROUTER[0], &router) {
            Verdict::Redirect(port) => {
                forwarded += 1;
                let (mut want, port) = (before, usize::from(port));
                want[..6].copy_from_slice(&HOSTS[port].bytes());
                want[6..12].copy_from_slice(&ROUTER[port].mac.bytes());
                want[22] -= 1;
                fix_checksum(&mut want);
                assert_eq!(frame, want);
            }
            Verdict::Drop(reason) => {
                dropped[reason.index()] += 1;
                assert_eq!(frame, before, "{reason:?}");
            }
            Verdict::Fragment => {
                cut += 1;
                assert_eq!(frame, before);
            }
            other => panic!("a router says {other:?}"),
        }
    }
    assert_eq!(forwarded + cut + dropped.iter().sum::<u64>(), frames);
    if frames >= 100_000 {
        assert!(forwarded > frames / 6, "{forwarded} of {frames} forwarded");
        assert!(cut > 0, "none was to be cut");
        // The source check of a port comes before these checks.
        let of_packets = Reason::ALL.iter().copied().take_while(|reason| *reason != Reason::TxFull);
        for reason in of_packets.filter(|reason| *reason != Reason::IpRpfilter) {
            assert!(dropped[reason.index()] > 0, "no frame was dropped as {}: {dropped:?}", reason.name());
        }
    }
}
