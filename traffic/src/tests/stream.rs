//! Tests streams with etherparse, and arrivals with every frame that a port may receive.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::super::*;

const TIME: u64 = 0x0123_4567_89ab;

fn addresses(src: &str, dst: &str) -> Addresses {
    let span = |text: &str, n| Span { first: text.parse::<IpAddr>().unwrap(), n };
    Addresses::new(span(src, 3), span(dst, 5)).unwrap()
}

fn config(v6: bool) -> StreamConfig {
    let addresses =
        if v6 { addresses("fd00::fffe", "fd01::1") } else { addresses("10.0.0.254", "192.0.2.1") };
    let (src_ports, dst_ports) = (Span { first: 65_535, n: 2 }, Span { first: 7, n: 4 });
    let sizes = if v6 { vec![84, 85, 1514] } else { vec![64, 67, 590, 1514] };
    StreamConfig {
        stream: 9,
        flows: 7,
        sizes,
        addresses,
        src_ports,
        dst_ports,
        ttl: 33,
        ..StreamConfig::default()
    }
}

fn frames(config: &StreamConfig, n: usize) -> Vec<Vec<u8>> {
    let mut stream = Stream::new(config.clone()).unwrap();
    let one = |_| {
        let mut frame = vec![0xee; stream.next_size()];
        assert_eq!(stream.write(&mut frame, TIME), frame.len());
        frame
    };
    (0..n).map(one).collect()
}

fn expected() -> Expected {
    Expected { stream: 9, ..Expected::default() }
}

/// Returns the addresses and ports of a frame, after etherparse found all checksums valid.
fn read(frame: &[u8]) -> ([IpAddr; 2], [u16; 2], u8, Vec<u8>) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("not UDP") };
    let (hosts, ttl, checksum): ([IpAddr; 2], _, _) = match packet.net {
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            let checksum = udp.to_header().calc_checksum_ipv4(&header, udp.payload());
            let hosts = [header.source, header.destination].map(|of| Ipv4Addr::from(of).into());
            (hosts, header.time_to_live, checksum)
        }
        Some(NetSlice::Ipv6(ip)) => {
            let header = ip.header().to_header();
            let checksum = udp.to_header().calc_checksum_ipv6(&header, udp.payload());
            let hosts = [header.source, header.destination].map(|of| Ipv6Addr::from(of).into());
            (hosts, header.hop_limit, checksum)
        }
        _ => panic!("not IP"),
    };
    assert_eq!(udp.checksum(), checksum.unwrap());
    (hosts, [udp.source_port(), udp.destination_port()], ttl, udp.payload().to_vec())
}

#[test]
fn frames_of_both_families_read_as_asked_for_flow_by_flow_and_size_by_size() {
    for v6 in [false, true] {
        let config = config(v6);
        for (i, frame) in frames(&config, 50).iter().enumerate() {
            assert_eq!(frame.len(), config.sizes[i % config.sizes.len()]);
            let (flow, seq) = (i % 7, (i / 7) as u64);
            let (hosts, ports, ttl, payload) = read(frame);
            let (from, to) = (flow as u32 % 3, flow as u32 % 5);
            let wanted: [IpAddr; 2] = match config.addresses {
                Addresses::V4(..) => {
                    [0x0a00_00fe + from, 0xc000_0201 + to].map(|bits| Ipv4Addr::from_bits(bits).into())
                }
                Addresses::V6(src, dst) => [(src, from), (dst, to)]
                    .map(|(span, step)| Ipv6Addr::from_bits(span.first.to_bits() + u128::from(step)).into()),
            };
            assert_eq!((hosts, ttl), (wanted, 33));
            assert_eq!(ports, [65_535_u16.wrapping_add(flow as u16 % 2), 7 + flow as u16 % 4]);
            let stamp =
                [&[0x6e, 0x6d, 0, 9, 0, flow as u8][..], &seq.to_be_bytes()[2..], &TIME.to_be_bytes()[2..]];
            assert_eq!(payload[..18], stamp.concat());
        }
    }
}

/// Seen: with 1,000 flows and `imix`, 750 flows never got a packet of 1,514 bytes.
#[test]
fn every_flow_gets_every_size_and_the_mix_stays_exact() {
    for (flows, sizes) in [(1000, 12), (2, 12), (12, 12), (24, 12), (9, 12), (7, 4), (1, 4), (6, 1)] {
        let sizes: Vec<usize> = (0..sizes).map(|i| 64 + i).collect();
        let config = StreamConfig { flows, sizes: sizes.clone(), ..StreamConfig::default() };
        let mut stream = Stream::new(config).unwrap();
        let (mut buf, mut got, mut used) = ([0; 128], BTreeSet::new(), vec![0; sizes.len()]);
        for i in 0..flows * sizes.len() {
            let size = stream.write(&mut buf, TIME);
            got.insert((i % flows, size));
            used[size - 64] += 1;
        }
        assert_eq!(got.len(), flows * sizes.len(), "{flows} flows, {} sizes", sizes.len());
        assert_eq!(used, vec![flows; sizes.len()]);
    }
}

#[test]
fn an_impossible_stream_is_refused_with_the_range() {
    let refused = |change: &dyn Fn(&mut StreamConfig), v6| {
        let mut config = config(v6);
        change(&mut config);
        Stream::new(config).unwrap_err().to_string()
    };
    assert!(refused(&|c| c.sizes.push(63), false).contains("64 to 29116"));
    assert!(refused(&|c| c.sizes.push(83), true).contains("84 to 29116"));
    assert!(refused(&|c| c.sizes.push(29117), true).contains("84 to 29116"));
    assert!(refused(&|c| c.sizes.clear(), false).contains("no size"));
    assert!(refused(&|c| c.flows = 0, false).contains("1 to 65534"));
    let (v4, v6) = (Span::one(IpAddr::V4(Ipv4Addr::LOCALHOST)), Span::one(IpAddr::V6(Ipv6Addr::LOCALHOST)));
    assert_eq!((Addresses::new(v4, v6), Addresses::new(v6, v4)), (None, None));
}

#[test]
fn whole_packets_are_good_and_have_their_flow_and_number() {
    for v6 in [false, true] {
        let mut arrivals = Arrivals::new(expected());
        for (i, frame) in frames(&config(v6), 100).iter().enumerate() {
            let identity = Identity { stream: 9, flow: (i % 7) as u16, seq: (i / 7) as u64, time: TIME };
            assert_eq!(arrivals.take(frame), Arrival::Good(identity));
        }
        assert_eq!(arrivals.tally(), Tally { received: 100, ..Tally::default() });
        assert_eq!((arrivals.tally().distinct(), arrivals.foreign()), (100, 0));
    }
}

#[test]
fn a_frame_of_the_built_in_network_is_one_of_stream_0() {
    let mut frame = [0; 100];
    Traffic::new(1, 100).unwrap().write(&mut frame);
    assert_eq!(Arrivals::new(Expected::default()).take(&frame), Arrival::Good(Identity::default()));
}

/// Returns the bytes of an otherwise unchanged frame in which a flipped bit is not detected.
fn unseen(frame: &[u8], expected: Expected) -> BTreeSet<usize> {
    let mut arrivals = Arrivals::new(expected);
    let mut frame = frame.to_vec();
    let mut unseen = BTreeSet::new();
    for bit in 0..frame.len() * 8 {
        frame[bit / 8] ^= 1 << (bit % 8);
        match arrivals.take(&frame) {
            Arrival::Corrupt(_) => {}
            Arrival::Good(_) => _ = unseen.insert(bit / 8),
            Arrival::Foreign => panic!("bit {bit} makes it foreign"),
        }
        frame[bit / 8] ^= 1 << (bit % 8);
    }
    unseen
}

#[test]
fn every_flipped_bit_is_seen_but_where_routers_may_change_what_no_checksum_covers() {
    let known = |v6| {
        let StreamConfig { src_mac, dst_mac, ttl, .. } = config(v6);
        Expected { src_mac: Some(src_mac), dst_mac: Some(dst_mac), ttl: Some(ttl), ..expected() }
    };
    for frame in frames(&config(false), 3) {
        assert_eq!(unseen(&frame, expected()), (0..12).collect());
        assert_eq!(unseen(&frame, known(false)), BTreeSet::new());
    }
    // The traffic class of IPv6 is in two bytes. Their other halves are checked.
    for frame in frames(&config(true), 3) {
        assert_eq!(unseen(&frame, expected()), (0..12).chain([14, 15, 21]).collect());
        assert_eq!(unseen(&frame, known(true)), [14, 15].into());
    }
}

#[test]
fn a_packet_of_another_stream_counts_only_as_foreign() {
    let frame = frames(&config(false), 1).remove(0);
    let mut arrivals = Arrivals::new(Expected { stream: 8, ..Expected::default() });
    assert_eq!(arrivals.take(&frame), Arrival::Foreign);
    // A whole datagram of another program that happens to begin with the magic number.
    let mut packet = Vec::new();
    let payload = [&[0x6e, 0x6d][..], &[7; 40]].concat();
    let built = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 9).udp(1, 2);
    built.write(&mut packet, &payload).unwrap();
    assert_eq!(arrivals.take(&packet), Arrival::Foreign);
    assert_eq!(arrivals.take(&[]), Arrival::Foreign);
    assert_eq!((arrivals.tally(), arrivals.foreign()), (Tally::default(), 3));
}

#[test]
fn a_truncated_or_lengthened_packet_with_a_whole_stamp_is_corrupt() {
    let frame = frames(&config(false), 3).remove(2);
    let mut arrivals = Arrivals::new(expected());
    for len in [64, 65, 589] {
        assert!(matches!(arrivals.take(&frame[..len]), Arrival::Corrupt(_)), "{len}");
    }
    assert_eq!(arrivals.take(&[&frame[..], &[0]].concat()), Arrival::Corrupt(Fault::Length));
    assert_eq!(arrivals.take(&frame[..63]), Arrival::Foreign);
}

proptest! {
    #[test]
    fn any_bytes_are_judged_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), v6 in any::<bool>(), keep in 0_usize..100) {
        let mut arrivals = Arrivals::new(expected());
        prop_assert_eq!(arrivals.take(&bytes), Arrival::Foreign);
        let mut frame = frames(&config(v6), 1).remove(0);
        let n = frame.len().min(keep);
        frame.truncate(n);
        frame.extend(bytes);
        arrivals.take(&frame);
    }
}
