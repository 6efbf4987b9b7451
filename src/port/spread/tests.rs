//! Tests of long packets that a device writes to several frames.

use super::*;
use crate::page::{Memory, MemoryConfig};
use crate::pool::{Frame, Pool, PoolConfig};
use crate::wire::offload::{Gso, GsoKind, PartialChecksum};
use crate::wire::segment::tests::{as_cut, cut};
use crate::wire::{Ethernet, Ipv4, MacAddr, ethernet, ipv4};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::num::NonZeroU16;

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
            let room = room_of(i, room.whole());
            let (here, behind) = rest.split_at(rest.len().min(room.len()));
            room[..here.len()].copy_from_slice(here);
            rest = behind;
        }
        prop_assert!(rest.is_empty());
        let received = Received { len: whole.len(), tag, header: offload.to_virtio(&whole), keeps: true };
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
