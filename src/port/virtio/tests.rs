//! Tests of open offload work that a hostile sender describes.

use super::*;
use crate::pool::METADATA_LEN;
use crate::port::conformance::Fixture;
use crate::wire::offload::{Gso, GsoKind, PartialChecksum};
use crate::wire::{Ethernet, Ipv4, MacAddr, ethernet, ipv4};
use std::net::Ipv4Addr;
use std::num::NonZeroU16;

/// Returns an IPv4 packet with this transport header and payload, and a total length of `total`.
fn packet(protocol: u8, behind: &[u8], total: u16) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut packet =
        Ethernet::new(MacAddr::BROADCAST, MacAddr::new([2; 6]), ethernet::IPV4).to_bytes().to_vec();
    packet.extend(Ipv4::new(src, dst, protocol, 64, total - 20).to_bytes());
    packet.extend(behind);
    packet
}

/// Receives one packet, keeping its open work, and returns its frame.
fn landed(fixture: &mut Fixture, packet: &[u8], offload: Offload, counters: &PortCounters) -> Option<Frame> {
    let mut frames = vec![fixture.pool.alloc(&mut fixture.w).unwrap()];
    let mut rooms = RxBuffers::of(&mut frames);
    rooms.get(0).unwrap().behind()[..packet.len()].copy_from_slice(packet);
    let received =
        Received { len: packet.len(), tag: None, header: offload.to_virtio(packet), keeps: true, time: None };
    let n = Uncut::new(1).land(0, (0, 1), &mut rooms, received, counters);
    frames.pop().filter(|_| n == 1)
}

/// UDP from port 9 to port 1000, whose sum from its header on is that of `ports` and `word`.
fn datagram(word: u16) -> Vec<u8> {
    let mut behind = vec![0, 9, 0x03, 0xe8, 0, 12, 0, 0];
    behind.extend(word.to_be_bytes());
    behind.extend([0, 0]);
    packet(ipv4::UDP, &behind, 32)
}

/// Seen: a port kept a checksum that was to be written over the destination port. The rules judged port 1000, and the
/// packet was sent to port 53.
#[test]
fn a_checksum_that_lies_elsewhere_is_completed_before_the_rules_and_not_kept() {
    let mut fixture = Fixture::new(16);
    let counters = PortCounters::default();
    let over_the_port = Offload { checksum: Some(PartialChecksum { start: 34, offset: 2 }), gso: None };
    // The sum of all words is the complement of 53.
    let word = !53 - (9 + 1000 + 12);
    let frame = landed(&mut fixture, &datagram(word), over_the_port, &counters).unwrap();
    assert_eq!((&frame.data()[36..38], frame.offload()), (&[0, 53][..], None));
    assert_eq!(counters.csum_completed.get(), 1);
    frame.free(&mut fixture.w);
    let own = Offload { checksum: Some(PartialChecksum { start: 34, offset: 6 }), gso: None };
    let frame = landed(&mut fixture, &datagram(word), own, &counters).unwrap();
    assert_eq!((frame.data(), frame.offload()), (&datagram(word)[..], Some(own)));
    frame.free(&mut fixture.w);
    let outside = Offload { checksum: Some(PartialChecksum { start: 34, offset: 900 }), gso: None };
    assert!(landed(&mut fixture, &datagram(word), outside, &counters).is_none());
    assert_eq!((counters.csum_completed.get(), counters.rx_dropped.get()), (1, 1));
}

/// Returns IPv4 with 1,400 bytes behind a header of UDP or TCP, and its offload: segments of 500 bytes.
fn of_several(protocol: u8) -> (Vec<u8>, Offload) {
    let (kind, mut behind, offset) = if protocol == ipv4::UDP {
        (GsoKind::Udp, vec![0, 9, 0x03, 0xe8, 0x05, 0x80, 0, 0], 6)
    } else {
        (GsoKind::TcpV4, vec![0, 80, 0, 81, 0, 0, 0, 7, 0, 0, 0, 0, 5 << 4, 0x18, 1, 0, 0, 0, 0, 0], 16)
    };
    behind.resize(behind.len() + 1400, 1);
    let total = 20 + behind.len() as u16;
    let gso = Gso { kind, size: NonZeroU16::new(500).unwrap() };
    let checksum = PartialChecksum { start: 34, offset };
    (packet(protocol, &behind, total), Offload { checksum: Some(checksum), gso: Some(gso) })
}

/// Seen: datagrams that GRO had joined with complete checksums (`rx-gro-list`) were refused by the kernel when the port
/// sent them.
#[test]
fn a_packet_of_many_segments_is_kept_with_an_open_checksum_also_if_it_came_with_a_complete_one() {
    let mut fixture = Fixture::new(16);
    let counters = PortCounters::default();
    for protocol in [ipv4::UDP, ipv4::TCP] {
        let (packet, open) = of_several(protocol);
        let mut complete = packet.clone();
        open.checksum.unwrap().finish(&mut complete).unwrap();
        let came = Offload { checksum: None, ..open };
        let frame = landed(&mut fixture, &complete, came, &counters).unwrap();
        assert_eq!(frame.offload(), Some(open));
        let (segments, wanted) = [(frame.data(), open), (&complete[..], came)]
            .map(|(packet, offload)| {
                let segments = Segments::of(packet, &offload).unwrap();
                let mut all = vec![0; 3 * segments.bytes(0)];
                all.chunks_mut(segments.bytes(0)).enumerate().for_each(|(i, to)| {
                    assert!(segments.write(packet, i, to));
                });
                all
            })
            .into();
        assert_eq!(segments, wanted);
        assert_eq!(header(&frame)[..2], open.to_virtio(&packet)[..2]);
        frame.free(&mut fixture.w);
    }
    assert_eq!((counters.gso_kept.get(), counters.rx_dropped.get()), (2, 0));
}

#[test]
fn a_packet_of_many_segments_within_a_tunnel_is_cut_and_not_kept() {
    let mut fixture = Fixture::new(16);
    let counters = PortCounters::default();
    let (inner, offload) = of_several(ipv4::TCP);
    let whole = packet(4, &inner[14..], 20 + (inner.len() - 14) as u16);
    let mut frames: Vec<Frame> = (0..4).map(|_| fixture.pool.alloc(&mut fixture.w).unwrap()).collect();
    let mut rooms = RxBuffers::of(&mut frames);
    rooms.get(0).unwrap().behind()[..whole.len()].copy_from_slice(&whole);
    let header = offload.moved_by(20).to_virtio(&whole);
    let received = Received { len: whole.len(), tag: None, header, keeps: true, time: None };
    let mut uncut = Uncut::new(1);
    assert_eq!(uncut.land(0, (0, 1), &mut rooms, received, &counters), 0);
    let _ = rooms.get(0).unwrap().trim(0);
    assert_eq!(uncut.fill(&mut rooms, 0, &counters), 3);
    for (frame, len) in frames.iter().zip([574, 574, 474, 0]) {
        assert_eq!((frame.len(), frame.offload()), (len, None));
    }
    assert_eq!((counters.gso_cut.get(), counters.gso_kept.get(), counters.rx_dropped.get()), (1, 0, 0));
    frames.into_iter().for_each(|frame| frame.free(&mut fixture.w));
}

#[test]
fn each_segment_of_a_cut_packet_and_each_packet_behind_it_has_the_time_of_its_own_packet() {
    let mut fixture = Fixture::new(16);
    let (counters, mut uncut) = (PortCounters::default(), Uncut::new(2));
    let (several, offload) = of_several(ipv4::TCP);
    let one = datagram(7);
    let times = [1, 2].map(Duration::from_secs);
    let mut frames: Vec<Frame> = (0..5).map(|_| fixture.pool.alloc(&mut fixture.w).unwrap()).collect();
    let mut rooms = RxBuffers::of(&mut frames);
    let packets = [(&several, offload.to_virtio(&several)), (&one, [0; VIRTIO_LEN])];
    for (i, ((packet, header), time)) in packets.into_iter().zip(times).enumerate() {
        rooms.get(i).unwrap().behind()[..packet.len()].copy_from_slice(packet);
        let tag = Some([0x81, 0, 0, 7]);
        let received = Received { len: packet.len(), tag, header, keeps: false, time: Some(time) };
        assert_eq!(uncut.land(i, (i, 1), &mut rooms, received, &counters), 0);
        let _ = rooms.get(i).unwrap().trim(0);
    }
    assert_eq!(uncut.fill(&mut rooms, 0, &counters), 4);
    let [first, second] = times.map(Some);
    assert!(frames.iter().map(Frame::timestamp).eq([first, first, first, second, None]));
    assert!(frames.iter().take(4).all(|frame| frame.data()[12..16] == [0x81, 0, 0, 7]));
    frames.into_iter().for_each(|frame| frame.free(&mut fixture.w));
}

#[test]
fn a_kept_packet_has_its_offload_and_its_time_and_without_room_for_the_time_it_is_counted() {
    let mut fixture = Fixture::new(16);
    let counters = PortCounters::default();
    let (several, offload) = of_several(ipv4::TCP);
    let mut frames = vec![fixture.pool.alloc(&mut fixture.w).unwrap()];
    let mut rooms = RxBuffers::of(&mut frames);
    rooms.get(0).unwrap().behind()[..several.len()].copy_from_slice(&several);
    let (header, time) = (offload.to_virtio(&several), Some(Duration::from_nanos(5)));
    let received = Received { len: several.len(), tag: None, header, keeps: true, time };
    assert_eq!(Uncut::new(1).land(0, (0, 1), &mut rooms, received, &counters), 1);
    assert_eq!((frames[0].offload(), frames[0].timestamp()), (Some(offload), time));
    frames.pop().unwrap().free(&mut fixture.w);

    let mut short = fixture.pool.alloc(&mut fixture.w).unwrap();
    short.push(short.headroom() - METADATA_LEN + 1).unwrap();
    let mut frames = vec![short];
    let len = frames[0].len();
    let received = Received { len, tag: None, header: [0; VIRTIO_LEN], keeps: false, time };
    let n = Uncut::new(1).land(0, (0, 1), &mut RxBuffers::of(&mut frames), received, &counters);
    assert_eq!((n, counters.rx_dropped.get()), (0, 1));
    frames.pop().unwrap().free(&mut fixture.w);
}

/// Seen: the limit of segments counted those of the IP packet, and the kernel cut the bytes behind it too: 1,850 segments of
/// a frame of 1,900 bytes.
#[test]
fn bytes_behind_a_packet_of_many_segments_are_no_segments_of_it() {
    let mut fixture = Fixture::new(16);
    let counters = PortCounters::default();
    let mut behind = vec![0, 80, 0, 81, 0, 0, 0, 7, 0, 0, 0, 0, 5 << 4, 0x18, 1, 0, 0, 0, 0, 0];
    behind.resize(20 + 6 + 1400, 1);
    let long = packet(ipv4::TCP, &behind, 46);
    let gso = Gso { kind: GsoKind::TcpV4, size: NonZeroU16::new(1).unwrap() };
    let offload = Offload { checksum: Some(PartialChecksum { start: 34, offset: 16 }), gso: Some(gso) };
    let frame = landed(&mut fixture, &long, offload, &counters).unwrap();
    assert_eq!((frame.data(), frame.offload()), (&long[..60], Some(offload)));
    assert_eq!(counters.gso_kept.get(), 1);
    frame.free(&mut fixture.w);
}
