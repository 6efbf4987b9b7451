//! Tests the traffic with etherparse, and the sink with every fault that may occur on a path.

use std::collections::{BTreeMap, BTreeSet};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::*;
use netmem::forward::Verdict;
use netmem::wire::checksum::Sum;
use netmem_router::ip::forward_ip;

mod faults;
mod stream;

fn frames(flows: usize, size: usize, count: usize) -> Vec<Vec<u8>> {
    let mut traffic = Traffic::new(flows, size).unwrap();
    let one = |_| {
        let mut frame = vec![0xee; size];
        assert_eq!(traffic.write(&mut frame), size);
        frame
    };
    (0..count).map(one).collect()
}

fn route(frame: &mut [u8]) {
    assert_eq!(forward_ip(frame, &INTERFACES[0], &router()), Verdict::Redirect(1));
}

#[test]
fn frames_read_as_documented_at_every_size() {
    for size in [SIZE_MIN, 65, 99, 128, 1000, 1513, 1514, 9018, SIZE_MAX] {
        let (flows, count) = (300, 601);
        for (i, frame) in frames(flows, size, count).iter().enumerate() {
            let (flow, seq) = ((i % flows) as u32, (i / flows) as u64);
            let packet = SlicedPacket::from_ethernet(frame).unwrap();
            let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("not IPv4") };
            let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("not UDP") };
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(usize::from(header.total_len) + 14, size);
            assert_eq!((header.time_to_live, header.dont_fragment), (64, true));
            assert_eq!(u32::from_be_bytes(header.source), 0x0a00_0001 + flow % 128);
            assert_eq!(u32::from_be_bytes(header.destination), 0x0a01_0001 + flow);
            let checksum = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
            assert_eq!((udp.checksum(), udp.destination_port()), (checksum, 9));
            assert_eq!(udp.payload()[..2], [0x6e, 0x6d]);
            assert_eq!(udp.payload()[2..6], flow.to_be_bytes());
            assert_eq!(udp.payload()[4..12], [&flow.to_be_bytes()[2..], &seq.to_be_bytes()[2..]].concat());
        }
    }
}

#[test]
fn sizes_and_flows_out_of_range_are_refused_with_the_range() {
    for size in [0, 63, SIZE_MAX + 1, usize::MAX] {
        assert_eq!(Traffic::new(1, size).err(), Some(TrafficError::Size { size, least: 64 }));
        assert!(TrafficError::Size { size, least: 64 }.to_string().contains("64 to 29116"));
    }
    for flows in [0, 65_535, usize::MAX] {
        assert_eq!(Sink::new(flows, 64, Hop::Routed).err(), Some(TrafficError::Flows { flows }));
        assert!(TrafficError::Flows { flows }.to_string().contains("1 to 65534"));
    }
    assert_eq!(Traffic::of(5..5, 64).err(), Some(TrafficError::Flows { flows: 0 }), "there is none");
    assert!(Traffic::new(FLOWS_MAX, SIZE_MAX).is_ok() && Traffic::new(1, SIZE_MIN).is_ok());
}

#[test]
fn a_short_buffer_is_left_alone_and_nothing_is_skipped() {
    let mut traffic = Traffic::new(1, 100).unwrap();
    let mut short = [0xee; 99];
    assert_eq!(traffic.write(&mut short), 0);
    assert_eq!(short, [0xee; 99]);
    let mut long = [0xee; 101];
    assert_eq!((traffic.write(&mut long), long[100]), (100, 0xee));
    assert_eq!(
        Sink::new(1, 100, Hop::Unchanged).unwrap().verify(&long[..100]),
        Outcome::Good { flow: 0, seq: 0 }
    );
}

#[test]
fn the_last_flow_ends_at_the_last_host_of_its_network() {
    let frames = frames(FLOWS_MAX, 64, FLOWS_MAX + 1);
    assert_eq!(frames[FLOWS_MAX - 1][30..34], [10, 1, 255, 254]);
    assert_eq!(frames[FLOWS_MAX][30..34], [10, 1, 0, 1]);
}

#[test]
fn routed_frames_are_good_and_counted() {
    for (flows, size) in [(1, 64), (7, 65), (1000, 64), (3, 1514)] {
        let mut sink = Sink::new(flows, size, Hop::Routed).unwrap();
        for (i, mut frame) in frames(flows, size, 3000).into_iter().enumerate() {
            route(&mut frame);
            let (flow, seq) = ((i % flows) as u32, (i / flows) as u64);
            assert_eq!(sink.verify(&frame), Outcome::Good { flow, seq });
        }
        assert_eq!(sink.tally(), Tally { received: 3000, ..Tally::default() });
    }
}

#[test]
fn a_cross_connect_must_change_nothing_and_a_router_must() {
    let mut frame = frames(1, 64, 1).remove(0);
    let mut unchanged = Sink::new(1, 64, Hop::Unchanged).unwrap();
    let mut routed = Sink::new(1, 64, Hop::Routed).unwrap();
    assert_eq!(unchanged.verify(&frame), Outcome::Good { flow: 0, seq: 0 });
    assert_eq!(routed.verify(&frame), Outcome::Corrupt(Fault::Link));
    route(&mut frame);
    assert_eq!(unchanged.verify(&frame), Outcome::Corrupt(Fault::Link));
    assert_eq!(routed.verify(&frame), Outcome::Good { flow: 0, seq: 0 });
}

#[test]
fn every_flipped_bit_is_found_and_named_after_its_place() {
    for size in [SIZE_MIN, 200] {
        let mut sink = Sink::new(2, size, Hop::Routed).unwrap();
        let mut frame = frames(2, size, 2).remove(1);
        route(&mut frame);
        let mut named = BTreeMap::<_, BTreeSet<usize>>::new();
        for bit in 0..size * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            let Outcome::Corrupt(fault) = sink.verify(&frame) else {
                panic!("bit {bit} flipped and not seen")
            };
            frame[bit / 8] ^= 1 << (bit % 8);
            named.entry(fault.name()).or_default().insert(bit / 8);
        }
        assert_eq!(named["link"], (0..14).collect());
        assert_eq!(named["stamp"], (42..64).collect());
        assert_eq!(named["udp"], (34..42).collect());
        assert_eq!(named.remove("payload").unwrap_or_default(), (64..size).collect());
        let header: BTreeSet<usize> =
            ["bad_version", "bad_header_length", "bad_total_length", "truncated", "bad_checksum"]
                .iter()
                .filter_map(|name| named.get(name))
                .flatten()
                .copied()
                .collect();
        assert_eq!(header, (14..34).collect());
        assert_eq!(
            sink.tally(),
            Tally { received: size as u64 * 8, corrupt: size as u64 * 8, ..Tally::default() }
        );
    }
}

#[test]
fn a_router_that_does_half_its_work_is_caught() {
    let verdict = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = frames(1, 64, 1).remove(0);
        route(&mut frame);
        edit(&mut frame);
        Sink::new(1, 64, Hop::Routed).unwrap().verify(&frame)
    };
    let reheader = |frame: &mut [u8], edit: &dyn Fn(&mut [u8])| {
        edit(&mut frame[14..34]);
        frame[24..26].fill(0);
        let checksum = Sum::new().bytes(&frame[14..34]).checksum();
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    };
    assert_eq!(verdict(&|f| f[22] = 64), Outcome::Corrupt(Fault::Ipv4(netmem::wire::Malformed::BadChecksum)));
    assert_eq!(verdict(&|f| reheader(f, &|h| h[8] = 64)), Outcome::Corrupt(Fault::Ttl));
    assert_eq!(verdict(&|f| reheader(f, &|h| h[1] = 4)), Outcome::Corrupt(Fault::Header));
    assert_eq!(verdict(&|f| f.push(0)), Outcome::Corrupt(Fault::Length));
    assert_eq!(verdict(&|f| f.truncate(63)), Outcome::Corrupt(Fault::Length));
    assert_eq!(verdict(&|f| f.truncate(5)), Outcome::Corrupt(Fault::Length));
}

#[test]
fn bytes_left_over_from_an_earlier_frame_are_seen() {
    let frames = frames(1, 1000, 2);
    let mut mixed = frames[1].clone();
    mixed[500..].copy_from_slice(&frames[0][500..]);
    let mut sink = Sink::new(1, 1000, Hop::Unchanged).unwrap();
    assert_eq!(sink.verify(&mixed), Outcome::Corrupt(Fault::Payload));
}

#[test]
fn a_flow_that_was_never_sent_is_no_good_frame() {
    let frame = frames(3, 64, 3).remove(2);
    assert_eq!(Sink::new(2, 64, Hop::Unchanged).unwrap().verify(&frame), Outcome::Corrupt(Fault::Stamp));
}

/// Returns the tally that the sink must have by definition, for the arrivals of one flow that are never later than
/// the sink remembers.
fn model(arrivals: &[usize]) -> Tally {
    let mut tally = Tally { received: arrivals.len() as u64, ..Tally::default() };
    let (mut came, mut highest) = (BTreeSet::new(), None);
    for &seq in arrivals {
        if !came.insert(seq) {
            tally.duplicates += 1;
        } else if highest.is_some_and(|highest| seq < highest) {
            tally.reordered += 1;
        }
        highest = highest.max(Some(seq));
    }
    tally.missing = highest.map_or(0, |highest| highest + 1 - came.len()) as u64;
    tally
}

/// Returns the tally of a sink for packets of one flow with these sequence numbers.
fn tally_of(seqs: impl IntoIterator<Item = u64>) -> Tally {
    let mut sink = Sink::new(1, 64, Hop::Unchanged).unwrap();
    let mut traffic = Traffic::new(1, 64).unwrap();
    let mut frame = [0; 64];
    for seq in seqs {
        traffic.seq = seq;
        traffic.write(&mut frame);
        assert_eq!(sink.verify(&frame), Outcome::Good { flow: 0, seq });
    }
    sink.tally()
}

#[test]
fn a_flow_remembers_its_last_packets_across_a_jump() {
    for jump in [REMEMBERED - 2, REMEMBERED - 1, REMEMBERED, REMEMBERED + 1, 9 * REMEMBERED] {
        // Packet 0 arrives again while it is still remembered.
        let again = if jump < REMEMBERED { 0 } else { jump };
        let arrivals = [0, jump, again, jump - 1, jump - 1, jump + 1];
        assert_eq!(tally_of(arrivals), model(&arrivals.map(|seq| seq as usize)), "jump to {jump}");
    }
}

/// Seen: of 1,000 packets ten were lost, and ten others came again at the end: `lost 0`, `reordered 10`,
/// `duplicates 0`. What was further back than 64 numbers counted as reordered, and one less as lost.
#[test]
fn a_late_duplicate_does_not_hide_a_loss() {
    let with_loss = |end: u64| (0..end).filter(|seq| !(500..510).contains(seq));
    let lost = Tally { missing: 10, ..Tally::default() };
    assert_eq!(tally_of(with_loss(1000).chain(0..10)), Tally { received: 1000, duplicates: 10, ..lost });
    // The same beyond what is remembered: packets before the loss may be the lost ones, and those after it are not.
    let end = 3 * REMEMBERED;
    let tally = tally_of(with_loss(end).chain(495..515));
    assert_eq!(tally, Tally { received: end - 10 + 20, duplicates: 5, late: 15, ..lost });
    assert_eq!(tally.distinct(), end - 10);
}

#[test]
fn a_packet_that_comes_again_after_any_time_is_a_duplicate_if_none_was_lost() {
    let again = [0, 7, REMEMBERED, 5 * REMEMBERED - 1];
    let tally = tally_of((0..5 * REMEMBERED).chain(again));
    assert_eq!(tally, Tally { received: 5 * REMEMBERED + 4, duplicates: 4, ..Tally::default() });
}

proptest! {
    #[test]
    fn jumps_beyond_what_is_remembered_hide_no_loss(steps in prop::collection::vec((0_u64..3, 0..3 * REMEMBERED), 1..40)) {
        let mut seqs: Vec<u64> = Vec::new();
        let mut next = 0;
        for (step, far) in steps {
            match step {
                0 => seqs.extend(next..next + far),
                1 => seqs.push(next + far),
                _ => seqs.push(next.saturating_sub(far)),
            }
            next = seqs.iter().max().map_or(0, |highest| highest + 1);
        }
        let came: Vec<usize> = seqs.iter().map(|seq| *seq as usize).collect();
        let (tally, exact) = (tally_of(seqs), model(&came));
        let Tally { reordered, duplicates, late, missing, .. } = tally;
        prop_assert_eq!(reordered + duplicates + late, exact.reordered + exact.duplicates);
        prop_assert!(reordered <= exact.reordered && duplicates <= exact.duplicates);
        prop_assert_eq!(missing - exact.missing, exact.reordered - reordered);
        prop_assert_eq!(tally.distinct() + (missing - exact.missing), exact.received - exact.duplicates);
    }

    #[test]
    fn order_is_accounted_as_defined(arrivals in prop::collection::vec(0usize..64, 0..200)) {
        let frames = frames(1, 64, 64);
        let mut sink = Sink::new(1, 64, Hop::Unchanged).unwrap();
        for &seq in &arrivals {
            sink.verify(&frames[seq]);
        }
        prop_assert_eq!(sink.tally(), model(&arrivals));
    }

    #[test]
    fn flows_are_accounted_apart(picks in prop::collection::vec(0usize..60, 0..200)) {
        let frames = frames(3, 64, 60);
        let mut sink = Sink::new(3, 64, Hop::Unchanged).unwrap();
        for &i in &picks {
            sink.verify(&frames[i]);
        }
        let of_flow = |flow| picks.iter().filter(|i| **i % 3 == flow).map(|i| i / 3).collect::<Vec<_>>();
        let parts = [0, 1, 2].map(|flow| model(&of_flow(flow)));
        prop_assert_eq!(sink.tally().reordered, parts.iter().map(|part| part.reordered).sum::<u64>());
        prop_assert_eq!(sink.tally().duplicates, parts.iter().map(|part| part.duplicates).sum::<u64>());
        prop_assert_eq!(sink.tally().missing, parts.iter().map(|part| part.missing).sum::<u64>());
    }

    #[test]
    fn any_bytes_are_corrupt_and_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), size in 64usize..200) {
        let mut sink = Sink::new(10, size, Hop::Routed).unwrap();
        prop_assert!(matches!(sink.verify(&bytes), Outcome::Corrupt(_)));
    }

    #[test]
    fn any_stamp_with_a_right_check_is_accounted_without_a_panic(seqs in prop::collection::vec(0..WRAP, 0..20)) {
        let mut sink = Sink::new(1, 64, Hop::Unchanged).unwrap();
        for seq in seqs.into_iter().chain([WRAP - 1, WRAP - 2, 0, 1]) {
            let mut traffic = Traffic::new(1, 64).unwrap();
            traffic.seq = seq;
            let mut frame = [0; 64];
            traffic.write(&mut frame);
            prop_assert_eq!(sink.verify(&frame), Outcome::Good { flow: 0, seq });
        }
    }
}
