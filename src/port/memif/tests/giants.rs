//! Tests of packets longer than an Ethernet frame, and of packets that lie in several slots.

use super::*;
use crate::pool::Frame;
use crate::wire::offload::{Offload, PartialChecksum};
use ring::{Descriptor, Lending};

/// Returns two connected ports with frames of these sizes, the server first.
fn connected_with(shared: bool, [server, client]: [usize; 2]) -> (Side, Side) {
    let path = fresh_path();
    let of = |frame_size, config| MemifConfig { frame_size, ..config };
    let mut server = Side::open(&path, false, &of(server, of_lenders(server_config())));
    let client = MemifConfig { ring: 64, ..of(client, MemifConfig::default()) };
    let mut client = Side::open(&path, shared, &client);
    until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
    server.idle();
    client.idle();
    assert_eq!(client.port.is_zero_copy(), shared);
    (server, client)
}

/// Returns packets of every length up to `most` that matters, each with different bytes.
fn giants(most: usize) -> Vec<Vec<u8>> {
    let ends = [60, 1514, 1519, 2047, 2048, 2049, 3584, 4096, 9018, 14_528, 16_384, 29_120];
    let lengths = ends.iter().filter(|&&len| len <= most);
    lengths.zip(1_u8..).map(|(&len, i)| (0..len).map(|at| (at / 7) as u8 ^ i).collect()).collect()
}

/// Returns the number of packets that were too long for this side.
fn too_long(side: &Side) -> u64 {
    side.port.counters().rx_too_long.get()
}

#[test]
fn giants_arrive_byte_for_byte_both_ways_lent_or_copied_where_frames_have_room() {
    for (frame_size, shared) in
        [4096, 8192, 16_384, 32_768].into_iter().flat_map(|size| [(size, true), (size, false)])
    {
        let (mut server, mut client) = connected_with(shared, [frame_size; 2]);
        let sent = giants(PoolConfig::room(frame_size));
        // Often enough that every slot is used.
        for round in 0..50 {
            assert_eq!(client.send(&sent), sent.len());
            assert!(server.receive() == sent, "round {round} of {frame_size}, lent {shared}");
            client.complete();
            assert_eq!(server.send(&sent), sent.len());
            assert!(client.receive() == sent, "round {round} of {frame_size} back, lent {shared}");
            server.complete();
        }
        assert_eq!([&server, &client].map(too_long), [0, 0]);
        server.close();
        client.close();
    }
}

/// Seen: a packet in five slots counted as five that the peer had not read.
#[test]
fn a_giant_that_a_peer_has_not_read_is_one_packet_in_all_counters() {
    let (mut server, mut client) = connected_with(false, [16_384, 2048]);
    server.send(&[vec![1; 9018], vec![2; 60], vec![3; 5000]]);
    assert_eq!((server.port.tx_unread(), client.port.rx_pending()), (3, Some(3)));
    client.close();
    let end = Instant::now() + LONG;
    while server.is_up() {
        assert!(Instant::now() < end, "{:?}", server.port);
        server.idle();
    }
    server.complete();
    let counters = server.port.counters();
    assert_eq!([&counters.tx, &counters.tx_left_unread].map(|count| count.get()), [3, 3]);
    server.close();
    let (mut server, mut client) = connected_with(false, [2048, 16_384]);
    client.send(&[vec![1; 9018], vec![2; 60], vec![3; 5000]]);
    assert_eq!((client.port.tx_unread(), server.port.rx_pending()), (3, Some(3)));
    server.close();
    client.close();
}

#[test]
fn giants_for_a_peer_with_smaller_frames_are_too_long_there_and_cost_no_others() {
    for shared in [true, false] {
        let (mut server, mut client) = connected_with(shared, [16_384, 2048]);
        for round in 1..=20 {
            assert_eq!(server.send(&[vec![1; 60], vec![2; 9018], vec![3; 60]]), 3);
            let mut received = client.receive();
            received.extend(client.receive());
            received.extend(client.receive());
            assert_eq!(received, [[1; 60], [3; 60]], "round {round}, lent {shared}");
            assert_eq!(too_long(&client), round);
            server.complete();
        }
        server.close();
        client.close();

        let (mut server, mut client) = connected_with(shared, [2048, 16_384]);
        assert_eq!(client.send(&[vec![1; 60], vec![2; 9018], vec![3; 60]]), 3);
        assert_eq!((server.receive(), too_long(&server)), (vec![vec![1; 60], vec![3; 60]], 1));
        server.close();
        client.close();
    }
}

/// Seen: most packets of 1,537 to 1,984 bytes were dropped, by the frame that each came to: frames begin their data at
/// different places, and most had no room behind it.
#[test]
fn a_packet_as_long_as_the_frame_less_its_headroom_is_received_into_any_frame() {
    for (shared, client_receives) in [(true, true), (false, true), (false, false), (true, false)] {
        let sizes = if client_receives { [4096, 2048] } else { [2048, 4096] };
        let (mut server, mut client) = connected_with(shared, sizes);
        let (from, to) =
            if client_receives { (&mut server, &mut client) } else { (&mut client, &mut server) };
        for len in [1519, 1537, 1600, 1984].into_iter().cycle().take(256) {
            let sent: Vec<u8> = (0..len).map(|at| (at / 7 + len) as u8).collect();
            assert_eq!(from.send(std::slice::from_ref(&sent)), 1);
            assert!(to.receive() == [sent], "{len} bytes, lent {shared}, to the client {client_receives}");
            from.complete();
        }
        assert_eq!([&server, &client].map(too_long), [0, 0]);
        server.close();
        client.close();
    }
}

/// Makes the next `slots` slots one packet.
fn chain(ring: &mut Lending, slots: u32) {
    for at in 0..slots {
        let said = ring.read(at);
        ring.write(at, Descriptor { next: at + 1 < slots, ..said });
    }
}

/// Returns the client's end of the ring to it, whose frames are lent.
fn lent(client: &mut Side) -> &mut Lending {
    let rings = client.port.pairs[0].rings.as_mut().unwrap();
    let pair::End::Lent(ring) = &mut rings.rx else { panic!("frames are lent") };
    ring
}

#[test]
fn a_packet_in_many_slots_is_put_together_whether_lent_or_copied() {
    const SLOTS: u32 = 40;
    let parts: Vec<Vec<u8>> = (0..SLOTS as u8).map(|part| vec![part; 100 + usize::from(part)]).collect();
    let (mut server, mut client) = connected_with(false, [8192; 2]);
    assert_eq!(client.send(&parts), parts.len());
    assert_eq!(client.send(&[vec![7; 60]]), 1);
    let rings = client.port.pairs[0].rings.as_mut().unwrap();
    let pair::End::Copied(buffers::Copying::Own { ring, .. }) = &mut rings.tx else { panic!("no rings") };
    chain(ring, SLOTS);
    assert_eq!(server.receive(), [parts.concat(), vec![7; 60]]);
    server.close();
    client.close();

    let (mut server, mut client) = connected_with(true, [8192; 2]);
    assert_eq!(server.send(&parts), parts.len());
    assert_eq!(server.send(&[vec![7; 60]]), 1);
    chain(lent(&mut client), SLOTS);
    let mut received = client.receive();
    received.extend(client.receive());
    assert_eq!(received, [parts.concat(), vec![7; 60]]);
    let counters = client.port.counters();
    assert_eq!((counters.rx.get(), counters.copied.get(), too_long(&client)), (2, 1, 0));
    assert_eq!(counters.rx_bytes.get() as usize, parts.concat().len() + 60);
    server.close();
    client.close();
}

#[test]
fn a_part_that_is_longer_than_its_frame_takes_the_port_down_and_every_frame_returns_to_its_pool() {
    for (part, len) in [(0, 8193), (1, 8193), (4, u32::MAX)] {
        let (mut server, mut client) = connected_with(true, [8192; 2]);
        assert_eq!(server.send(&vec![vec![1; 100]; 5]), 5);
        let ring = lent(&mut client);
        chain(ring, 5);
        let said = ring.read(part);
        ring.write(part, Descriptor { len, ..said });
        assert!(client.receive().is_empty());
        assert!(client.reason().contains("is invalid"), "{part}: {}", client.reason());
        until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
        server.close();
        client.close();
    }
}

#[test]
fn frames_of_no_size_that_a_pool_has_are_refused_and_so_are_more_buffers_than_offsets_reach() {
    let wanted = MemoryConfig { bytes: 2 << 20, workers: 1, ..MemoryConfig::default() };
    let memory = Memory::new(&wanted).unwrap();
    let refused = |config: MemifConfig| MemifPort::open(&fresh_path(), &memory, &config).unwrap_err();
    for frame_size in [0, 1024, 3000, 65_536] {
        let error = refused(MemifConfig { frame_size, ..MemifConfig::default() });
        assert_eq!(error, MemifError::FrameSize(frame_size));
    }
    // 4 GiB hold three queues, each with two rings of 16,384 buffers of 32 KiB.
    let error =
        refused(MemifConfig { frame_size: 32_768, ring: 1 << 14, queues: 4, ..MemifConfig::default() });
    assert_eq!(error, MemifError::Queues { queues: 4, most: 3 });
}

#[test]
fn a_frame_that_has_an_offload_lends_no_byte_beyond_its_end() {
    for frame_size in [2048, 4096, 32_768] {
        let config = MemifConfig { frame_size, ..MemifConfig::default() };
        let mut side = Side::open(&fresh_path(), true, &config);
        let lender = side.port.lender.unwrap();
        let mut frame = side.pool.alloc(&mut side.w).unwrap();
        let base = lender.empty(&frame).offset as usize - frame.headroom();
        let end = |frame: &Frame| {
            let room = lender.empty(frame);
            room.offset as usize + room.len as usize - base
        };
        assert_eq!(end(&frame), frame_size);
        frame.put_zeroed(60).unwrap();
        frame
            .set_offload(Offload { checksum: Some(PartialChecksum { start: 34, offset: 6 }), gso: None })
            .unwrap();
        assert!(end(&frame) <= frame_size, "{frame_size}: {}", end(&frame));
        frame.pull(60).unwrap();
        assert!(end(&frame) <= frame_size, "{frame_size}, empty: {}", end(&frame));
        frame.put(frame.tailroom()).unwrap();
        frame.pull(frame.len()).unwrap();
        assert!(end(&frame) <= frame_size, "{frame_size}, at the end: {}", end(&frame));
        frame.free(&mut side.w);
        side.close();
    }
}
