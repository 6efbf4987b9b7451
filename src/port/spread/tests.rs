//! Tests of long packets that a device writes to several frames.

use super::*;
use crate::page::{Memory, MemoryConfig};
use crate::pool::{Frame, Pool, PoolConfig};
use crate::port::virtio::frames_each;
use crate::wire::offload::{Gso, GsoKind, PartialChecksum};
use crate::wire::segment::tests::{as_cut, cut};
use crate::wire::{Ethernet, Ipv4, MacAddr, ethernet, ipv4};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::num::NonZeroU16;
use std::time::Duration;

/// Returns a TCP packet with an open checksum.
fn packet(payload: usize, options: usize) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let header = 20 + 4 * options;
    let mut packet =
        Ethernet::new(MacAddr::BROADCAST, MacAddr::new([2; 6]), ethernet::IPV4).to_bytes().to_vec();
    packet.extend(Ipv4::new(src, dst, ipv4::TCP, 64, (header + payload) as u16).to_bytes());
    packet.extend([
        0,
        80,
        0,
        81,
        0xff,
        0xff,
        0xf0,
        7,
        0,
        0,
        0,
        0,
        ((5 + options) as u8) << 4,
        0x99,
        1,
        0,
        0,
        0,
        0,
        0,
    ]);
    packet.resize(packet.len() + 4 * options, 1);
    packet.extend((0..payload).map(|i| (i * 7 + i / 251) as u8));
    packet
}

/// Returns the segments of a packet with that offload.
fn segments(packet: &[u8], offload: &Offload) -> Vec<Vec<u8>> {
    if offload.gso.is_none() {
        let mut packet = packet.to_vec();
        offload.checksum.unwrap().finish(&mut packet).unwrap();
        return vec![as_cut(offload.checksum.unwrap(), packet)];
    }
    cut(&Segments::of(packet, offload).unwrap(), packet)
}

proptest! {
    #[test]
    fn what_lies_in_three_frames_is_cut_into_the_segments_of_the_whole(
        payload in 32_500..65_400usize, options in 0..=10usize, size in 128..2500u16, tag in any::<Option<[u8; 2]>>(),
        time in any::<Option<u32>>(),
    ) {
        let tag = tag.map(|[a, b]| [0x81, 0, a, b]);
        let config = MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() };
        let memory = Memory::new(&config).unwrap();
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 8, ..PoolConfig::of_frames(32 << 10) }).unwrap();
        let whole = packet(payload.min(65_535 - 40 - 4 * options), options);
        let gso = Gso { kind: GsoKind::TcpV4, size: NonZeroU16::new(size).unwrap() };
        let checksum = PartialChecksum { start: 34, offset: 16 };
        let offload = Offload { checksum: Some(checksum), gso: Some(gso) };
        let mut frames: Vec<Frame> = (0..4).map(|_| pool.alloc(&mut w).unwrap()).collect();
        let counters = PortCounters::default();
        let mut rooms = RxBuffers::of(&mut frames);
        prop_assert!(have_room(rooms.get(1).unwrap().tailroom()));
        let mut rest = &whole[..];
        for (i, room) in rooms.iter_mut().skip(1).enumerate() {
            let room = room_of(i, room.behind());
            let (here, behind) = rest.split_at(rest.len().min(room.len()));
            room[..here.len()].copy_from_slice(here);
            rest = behind;
        }
        prop_assert!(rest.is_empty());
        let (header, time) = (offload.to_virtio(&whole), time.map(|seconds| Duration::from_secs(seconds.into())));
        let received = Received { len: whole.len(), tag, header, keeps: true, time };
        let fits = usize::from(size) + 54 + 4 * options <= BEFORE;
        let made = part(&mut rooms, 1, &received, &counters);
        prop_assert_eq!(made.is_some(), fits);
        if let Some(made) = made {
            let (mut of_all, mut of_pieces) = (whole.clone(), Vec::new());
            let mut offload = offload;
            if let Some(tag) = tag {
                of_all.splice(12..12, tag);
                offload = offload.moved_by(4);
            }
            for piece in &frames[1..=made] {
                prop_assert_eq!(piece.timestamp(), time);
                of_pieces.extend(segments(piece.data(), &piece.offload().unwrap()));
            }
            prop_assert!(of_pieces == segments(&of_all, &offload), "{} pieces", made);
        } else {
            let mut slot = vec![0; 70_000];
            gather(&mut RxBuffers::of(&mut frames), 1, whole.len(), &mut slot);
            let first = frames[1].data();
            prop_assert!([first, &slot[..whole.len() - first.len()]].concat() == whole);
        }
        frames.into_iter().for_each(|frame| frame.free(&mut w));
    }
}

#[test]
fn only_the_largest_frames_have_room_for_any_packet_together() {
    let room = |frame_size: usize| frame_size - 256;
    assert!([2048, 4096, 8192, 16_384].into_iter().all(|size| !have_room(room(size))));
    assert!(have_room(room(32_768)));
    assert!(!have_room(0) && room_of(1, &mut [0; 100]).is_empty());
}

#[test]
fn a_device_receives_into_three_frames_only_if_any_three_have_room() {
    let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let pools = [32 << 10, 2 << 10].map(|size| {
        Pool::new(&memory, &mut w, &PoolConfig { frames: 8, ..PoolConfig::of_frames(size) }).unwrap()
    });
    let mut frames: Vec<Frame> =
        [0, 1, 0, 0, 0, 0].into_iter().map(|i: usize| pools[i].alloc(&mut w).unwrap()).collect();
    let mut rooms = RxBuffers::of(&mut frames);
    let each = [(0..3, true), (0..6, true), (4..7, true), (3..6, false), (3..6, true)];
    assert_eq!(each.map(|(among, keeps)| frames_each(&mut rooms, among, keeps)), [1, 1, 1, 1, FRAMES]);
    frames.into_iter().for_each(|frame| frame.free(&mut w));
}

/// Returns what [`part`] makes of a TCP packet of 45,000 bytes, which a device wrote to the first three of `frames`, and
/// whether these are the segments of the whole. None if they had no room for it.
fn parted(frames: &mut [Frame]) -> Option<(Option<usize>, bool)> {
    let (whole, counters) = (packet(45_000, 0), PortCounters::default());
    let gso = Gso { kind: GsoKind::TcpV4, size: NonZeroU16::new(1448).unwrap() };
    let checksum = PartialChecksum { start: 34, offset: 16 };
    let offload = Offload { checksum: Some(checksum), gso: Some(gso) };
    let (mut rooms, mut rest) = (RxBuffers::of(frames), &whole[..]);
    for (i, room) in rooms.iter_mut().enumerate() {
        let room = room_of(i, room.behind());
        let (here, behind) = rest.split_at(rest.len().min(room.len()));
        room[..here.len()].copy_from_slice(here);
        rest = behind;
    }
    let received =
        Received { len: whole.len(), tag: None, header: offload.to_virtio(&whole), keeps: true, time: None };
    let made = rest.is_empty().then(|| part(&mut rooms, 0, &received, &counters))?;
    let mut pieces = Vec::new();
    for piece in &frames[..made.unwrap_or(0)] {
        pieces.extend(piece.offload().map_or_else(Vec::new, |offload| segments(piece.data(), &offload)));
    }
    Some((made, pieces == segments(&whole, &offload)))
}

/// Seen: only the sum of the frames' room was looked at. A small frame between large ones ended the worker, and in
/// place of a packet in a frame without headroom, another part of the packet was delivered, without its offload.
#[test]
fn a_packet_in_frames_of_several_pools_is_cut_right_or_left_to_be_gathered() {
    let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let of_frames = |size, headroom| PoolConfig { frames: 16, headroom, ..PoolConfig::of_frames(size) };
    let configs = [of_frames(2 << 10, 64), of_frames(32 << 10, 64), of_frames(32 << 10, 0)];
    let pools = configs.map(|config| Pool::new(&memory, &mut w, &config).unwrap());
    let mut split = 0;
    for order in 0..27 {
        // The frames of a pool begin at several places, so that some have headroom that was not asked for.
        for before in 0..8 {
            let mut frames = Vec::new();
            frames.extend(
                pools.iter().flat_map(|pool| vec![pool; before]).map(|pool| pool.alloc(&mut w).unwrap()),
            );
            let at = frames.len();
            frames.extend((0..3).map(|i| pools[order / 3_usize.pow(i) % 3].alloc(&mut w).unwrap()));
            if let Some((Some(made), is_right)) = parted(&mut frames[at..]) {
                assert!(is_right && made > 0, "order {order}, {before} before: {made}");
                split += 1;
            }
            frames.into_iter().for_each(|frame| frame.free(&mut w));
        }
    }
    assert!(split > 0);
}
