//! Tests of packets between two ports.

use super::*;
use crate::port::conformance::{Fixture, Peer, PortPeer};
use crate::port::tests::promises;
use crate::port::tests::runts;
use crate::port::{Tx, Wake};

/// Returns packets of every length that matters, each with different bytes.
fn packets() -> Vec<Vec<u8>> {
    let lengths = [0, 1, 13, 14, 59, 60, 64, 65, 127, 128, 1514, 1515, 1518];
    lengths.iter().zip(0_u8..).map(|(&len, i)| (0..len).map(|at| (at as u8) ^ i).collect()).collect()
}

#[test]
fn packets_arrive_byte_for_byte_both_ways_lent_or_copied() {
    for shared in [true, false] {
        let (mut server, mut client) = connected(shared);
        assert_eq!((client.port.is_zero_copy(), server.port.is_zero_copy()), (shared, false));
        let sent = packets();
        // Often enough that 16-bit indices wrap.
        for round in 0..6_000 {
            assert_eq!(client.send(&sent), sent.len(), "round {round}");
            assert_eq!(server.receive(), sent, "round {round}");
            assert_eq!(client.complete(), sent.len(), "round {round}");
            assert_eq!(server.send(&sent), sent.len(), "round {round}");
            assert_eq!(client.receive(), sent, "round {round}");
            assert_eq!(server.complete(), sent.len(), "round {round}");
        }
        let count = |side: &Side, name| side.port.counters().iter().find(|(n, _)| *n == name).unwrap().1;
        let total = 6_000 * sent.len() as u64;
        for side in [&server, &client] {
            assert_eq!([count(side, "rx"), count(side, "tx"), count(side, "completed")], [total; 3]);
            assert_eq!(count(side, "rx_bytes"), count(side, "tx_bytes"));
        }
        assert_eq!(count(&server, "copied"), 2 * total, "each packet once each way");
        assert_eq!(count(&client, "copied"), if shared { 0 } else { 2 * total });
        server.close();
        client.close();
    }
}

#[test]
fn a_peer_that_does_not_read_holds_up_the_sender_and_nothing_is_lost() {
    for shared in [true, false] {
        let (server, client) = connected(shared);
        for (mut from, mut to) in [(client, server)].into_iter().chain(Some(connected(shared))) {
            let numbered = |n: u8| vec![n; 60];
            let (mut sent, mut completed, mut received) = (0_u8, 0, Vec::new());
            for _ in 0..100 {
                sent += from.send(&[numbered(sent)]) as u8;
                completed += from.complete();
            }
            assert!(sent >= 64 && from.send(&[numbered(sent)]) == 0, "the ring is full after {sent}");
            assert!(from.port.tx_posted() > 0, "or they would be given up");
            while received.len() < usize::from(sent) {
                received.extend(to.receive());
                completed += from.complete();
            }
            completed += from.complete();
            assert_eq!(received, (0..sent).map(numbered).collect::<Vec<_>>());
            assert_eq!((completed, from.port.tx_posted()), (sent.into(), 0));
            from.close();
            to.close();
        }
    }
}

/// Seen: `gen` on a server ended although its peer had not read the last of 20,000 packets. They were lost, but counted
/// as completed.
#[test]
fn unread_packets_are_reported_until_the_peer_has_read_them() {
    for shared in [true, false] {
        let (mut server, mut client) = connected(shared);
        for _ in 0..300 {
            assert_eq!(server.send(&[vec![1; 60], vec![2; 60], vec![3; 60]]), 3);
            assert_eq!((server.complete(), server.port.tx_posted()), (3, 0), "copied");
            assert_eq!(server.port.tx_unread(), 3);
            assert_eq!(client.receive().len(), 3);
            client.idle();
            assert_eq!(server.port.tx_unread(), 0);
            assert_eq!(client.send(&[vec![1; 60], vec![2; 60]]), 2);
            // Lent packets are not completed before they are read.
            assert_eq!((client.complete(), client.port.tx_unread()), if shared { (0, 0) } else { (2, 2) });
            assert_eq!(server.receive().len(), 2);
            client.complete();
            assert_eq!((client.port.tx_posted(), client.port.tx_unread()), (0, 0));
        }
        server.close();
        client.close();
    }
}

/// Seen: 100 packets lay in the ring of a peer that was killed. They counted as completed, and nothing said that they
/// were lost.
#[test]
fn packets_that_a_peer_has_not_read_when_it_goes_are_counted() {
    let unread = |side: &Side| {
        let counters = side.port.counters();
        [counters.tx.get(), counters.completed.get(), counters.tx_left_unread.get()]
    };
    let three = [vec![1; 60], vec![2; 60], vec![3; 60]];
    for shared in [true, false] {
        for (mut from, mut to) in [connected(shared), connected(shared)].into_iter().zip([true, false]).map(
            |((server, client), from_client)| if from_client { (client, server) } else { (server, client) },
        ) {
            // Read ones are not counted.
            assert_eq!(from.send(&three), 3);
            assert_eq!(to.receive().len(), 3);
            to.idle();
            assert_eq!((from.complete(), unread(&from)), (3, [3, 3, 0]), "shared: {shared}");
            assert_eq!(from.send(&three), 3);
            to.close();
            for _ in 0..10_000 {
                from.idle();
                from.complete();
                if !from.is_up() {
                    break;
                }
            }
            assert!(!from.is_up(), "shared: {shared}");
            from.complete();
            assert_eq!((unread(&from), from.port.tx_unread()), ([6, 6, 3], 0), "shared: {shared}");
            from.close();
        }
    }
}

/// Returns a server and a client that are connected with four queues.
fn connected_by_four(shared: bool) -> (Side, Side) {
    let path = fresh_path();
    let queues = |config: MemifConfig| MemifConfig { queues: 4, ..config };
    let mut server = Side::open(&path, false, &queues(of_lenders(server_config())));
    let mut client = Side::open(&path, shared, &queues(MemifConfig { ring: 32, ..MemifConfig::default() }));
    until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
    server.idle();
    client.idle();
    assert_eq!((server.port.queues(), client.port.queues()), (4, 4));
    (server, client)
}

/// Returns a packet of a flow, with a number.
pub(super) fn packet(flow: u8, number: u8) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    bytes[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    bytes[26..34].copy_from_slice(&[10, flow.wrapping_mul(37), 0, flow, 10, 0, 1, 1]);
    bytes[50] = number;
    bytes
}

#[test]
fn flows_keep_their_queue_and_their_order_and_several_queues_are_used() {
    let (mut server, mut client) = connected_by_four(true);
    let mut numbers = [0_u8; 16];
    for number in 0..200_u8 {
        let sent: Vec<_> = (0..16).map(|flow| packet(flow, number)).collect();
        assert_eq!(client.send(&sent), 16);
        let used = client.port.pairs.iter().filter(|pair| pair.sent.len() > 0).count();
        assert!(used > 1, "16 flows over {used} queue");
        for packet in server.receive() {
            let flow = usize::from(packet[29]);
            assert_eq!(packet[50], numbers[flow], "flow {flow}");
            numbers[flow] += 1;
        }
        client.complete();
    }
    assert_eq!(numbers, [200; 16]);
    server.close();
    client.close();
}

#[test]
fn a_packet_longer_than_a_buffer_goes_in_several_slots_and_is_one_again() {
    let path = fresh_path();
    let mut server = Side::server(&path);
    let mut client = Side::client(&path, false);
    until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
    server.idle();
    client.idle();
    let long: Vec<u8> = (0..1500).map(|i| (i / 7) as u8).collect();
    // Makes the client's empty buffers short.
    for pair in &mut client.port.pairs {
        let Some(pair::Rings { rx: pair::End::Copied(buffers::Copying::Own { ring, buffers, .. }), .. }) =
            &mut pair.rings
        else {
            panic!("no rings")
        };
        for position in 0..64 {
            ring.write(position, ring::Descriptor { len: 500, ..buffers.empty(position) });
        }
    }
    assert_eq!(server.send(&[long.clone(), vec![9; 60]]), 2);
    assert_eq!(client.receive(), [long, vec![9; 60]]);
    server.close();
    client.close();
}

#[test]
fn frames_of_another_memory_stay_with_the_caller() {
    let (server, mut client) = connected(true);
    let mut other = Side::server(&fresh_path());
    let mut batch = Batch::new();
    batch.push(other.pool.alloc(&mut other.w).unwrap()).unwrap();
    batch.push(client.pool.alloc(&mut client.w).unwrap()).unwrap();
    assert_eq!(client.port.tx(&mut client.w, &mut batch), 1);
    assert_eq!(client.port.counters().wrong_memory.get(), 1);
    assert_eq!(batch.len(), 1);
    batch.free(&mut other.w);
    client.close();
    server.close();
    other.close();
}

fn readable(side: &Side, at_most: Duration) -> bool {
    crate::sys::event::sleep_until_readable(&[side.port.wakeup_fd().unwrap()], at_most)
}

/// Checks that a packet wakes the other side while that is armed.
fn wakes(from: &mut Side, to: &mut Side) {
    from.idle();
    to.idle();
    assert!(!to.port.arm() && !readable(to, Duration::ZERO));
    from.send(&[vec![1; 60]]);
    from.port.kick();
    assert!(readable(to, LONG));
    to.port.disarm();
    assert!(to.port.arm(), "it is there still");
    to.port.disarm();
    assert_eq!(to.receive().len(), 1);
    from.complete();
}

#[test]
fn a_sleeper_is_woken_by_a_packet_and_by_a_peer() {
    let path = fresh_path();
    let mut server = Side::server_of_lenders(&path);
    assert!(!server.port.arm() && !readable(&server, Duration::ZERO));
    let mut client = Side::client(&path, true);
    assert!(readable(&server, LONG), "a client has come");
    server.port.disarm();
    until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
    for _ in 0..3 {
        wakes(&mut client, &mut server);
        wakes(&mut server, &mut client);
    }
    assert_eq!([&client, &server].map(|side| side.port.counters().kicks.get()), [3, 3]);
    client.send(&[vec![1; 60]]);
    client.port.kick();
    assert_eq!(client.port.counters().kicks.get(), 3, "nobody sleeps");
    server.close();
    client.close();
}

/// Services a side that receives nothing, until it is down.
pub(super) fn until_down(side: &mut Side) {
    let end = Instant::now() + LONG;
    while side.is_up() {
        assert!(Instant::now() < end);
        side.port.service();
    }
}

#[test]
fn packets_that_a_peer_sent_before_it_went_are_received_and_then_the_next_one_comes() {
    for shared in [true, false] {
        let path = fresh_path();
        let (mut server, mut client) = (Side::server_of_lenders(&path), Side::client(&path, shared));
        until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
        server.idle();
        client.idle();
        assert_eq!(client.send(&[vec![1; 60], vec![2; 60]]), 2);
        client.close();
        until_down(&mut server);
        assert_eq!((server.port.queues(), server.send(&[vec![9; 60]])), (0, 0));
        let mut client = Side::client(&path, shared);
        server.port.service();
        assert!(!server.is_up(), "what the last one sent comes first");
        assert_eq!(server.receive(), [[1; 60], [2; 60]]);
        until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
        server.idle();
        client.idle();
        assert_eq!(server.send(&[vec![3; 60]]), 1);
        server.close();
        until_down(&mut client);
        assert_eq!(client.receive(), [[3; 60]]);
        assert_eq!(client.port.counters().rx_dropped.get(), 0);
        client.close();
    }
}

#[test]
fn packets_that_nobody_receives_after_the_peer_went_are_given_up_and_counted() {
    for shared in [true, false] {
        let (mut server, mut client) = connected(shared);
        assert_eq!(client.send(&[vec![1; 60], vec![2; 60]]), 2);
        assert_eq!(server.send(&[vec![3; 60]]), 1);
        client.port.fault(&Fault::Closed);
        assert_eq!(client.port.counters().rx_dropped.get(), 1, "we ended it");
        until_down(&mut server);
        let (mut looks, counters) = (0, server.port.counters());
        while counters.rx_dropped.get() == 0 {
            server.port.service();
            looks += 1;
        }
        assert_eq!((counters.rx_dropped.get(), server.receive().len()), (2, 0));
        assert!(looks > 10, "{looks}");
        server.close();
        client.close();
    }
}

#[test]
fn an_invalid_descriptor_of_a_former_peer_ends_the_reception_there() {
    let (mut server, mut client) = connected(false);
    assert_eq!(client.send(&[vec![1; 60], vec![2; 60], vec![3; 60]]), 3);
    let Some(pair::Rings { tx: pair::End::Copied(buffers::Copying::Own { ring, .. }), .. }) =
        &mut client.port.pairs[0].rings
    else {
        panic!("no rings")
    };
    ring.write(1, ring::Descriptor { next: false, region: 9, len: 60, offset: 0 });
    client.close();
    until_down(&mut server);
    assert_eq!(server.receive(), [[1; 60]]);
    let counters = server.port.counters();
    assert_eq!((counters.bad_descriptor.get(), counters.rx_dropped.get()), (1, 2));
    assert!(server.reason().contains("points outside"), "{}", server.reason());
    server.close();
}

#[test]
fn a_peer_that_goes_in_the_middle_of_a_packet_counts_no_bad_descriptor() {
    let (mut server, mut client) = connected(false);
    assert_eq!(client.send(&[vec![1; 60], vec![2; 60]]), 2);
    let Some(pair::Rings { tx: pair::End::Copied(buffers::Copying::Own { ring, .. }), .. }) =
        &mut client.port.pairs[0].rings
    else {
        panic!("no rings")
    };
    ring.write(1, ring::Descriptor { next: true, ..ring.read(1) });
    client.close();
    until_down(&mut server);
    let gone = server.reason();
    assert_eq!(server.receive(), [[1; 60]]);
    let counters = server.port.counters();
    assert_eq!((server.reason(), counters.bad_descriptor.get(), counters.rx_dropped.get()), (gone, 0, 1));
    server.close();
}

#[test]
fn a_queue_that_ends_within_a_packet_does_not_affect_the_others() {
    let (mut server, mut client) = connected_by_four(false);
    let sent: Vec<_> = (0..16).map(|flow| packet(flow, 0)).collect();
    assert_eq!(client.send(&sent), 16);
    let broken = client.port.pairs.iter_mut().find(|pair| pair.sent.len() > 0).expect("a queue");
    let lost = broken.sent.len();
    assert!(lost < 16, "several queues are used");
    let Some(pair::Rings { tx: pair::End::Copied(buffers::Copying::Own { ring, .. }), .. }) =
        &mut broken.rings
    else {
        panic!("no rings")
    };
    (0..lost as u32).for_each(|i| ring.write(i, ring::Descriptor { next: true, ..ring.read(i) }));
    client.close();
    until_down(&mut server);
    let received = server.receive().len() + server.receive().len();
    let counters = server.port.counters();
    assert_eq!(
        (received, counters.rx_dropped.get()),
        (16 - lost, 1),
        "one packet, in all slots of its queue"
    );
    assert_eq!(counters.bad_descriptor.get(), 0);
    server.close();
}

#[test]
fn a_client_tries_again_after_a_server_that_went_in_the_middle_of_a_packet() {
    for shared in [true, false] {
        let (mut server, mut client) = connected(shared);
        assert_eq!(server.send(&[vec![1; 60]]), 1);
        let rings = server.port.pairs[0].rings.as_mut().unwrap();
        let pair::End::Copied(ring) = &mut rings.tx else { panic!("a server copies") };
        let said = ring.room(u32::MAX).unwrap().0;
        ring.describe(u32::MAX, ring::Descriptor { len: 60, next: true, ..said });
        let path = server.port.name()["memif:".len()..].to_owned();
        server.close();
        until_down(&mut client);
        assert!(client.receive().is_empty());
        let counters = client.port.counters();
        assert_eq!((counters.bad_descriptor.get(), counters.rx_dropped.get()), (0, 1));
        let mut server = Side::server_of_lenders(Path::new(&path));
        until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
        server.close();
        client.close();
    }
}

/// Opens a port in that role over the memory of `here`, and its peer.
fn ends(here: &Fixture, config: &MemifConfig) -> (Box<dyn Port>, Box<dyn Peer>) {
    let (path, there) = (fresh_path(), Fixture::new(512));
    let of_peer = if config.role == Role::Client { Role::Server } else { Role::Client };
    let config = &of_lenders(config.clone());
    let theirs = MemifConfig { role: of_peer, ..config.clone() };
    let mut port = MemifPort::open(&path, &here.memory, config).unwrap();
    let mut peer = MemifPort::open(&path, &there.memory, &theirs).unwrap();
    let end = Instant::now() + LONG;
    while port.state() != PortState::Up || peer.state() != PortState::Up {
        assert!(Instant::now() < end, "{port:?} and {peer:?}");
        port.service();
        peer.service();
    }
    assert_eq!(port.is_zero_copy(), config.lend.is_some() && config.role == Role::Client);
    (Box::new(port), Box::new(PortPeer { port: Box::new(peer), fixture: there }))
}

#[test]
fn both_ends_keep_their_promises_lent_or_copied_over_one_queue_or_several() {
    for (lends, queues) in [(true, 1), (true, 3), (false, 2)] {
        for role in [Role::Client, Role::Server] {
            let lend = lends.then(Lend::in_tests);
            let config = MemifConfig { role, queues, ring: 32, lend, ..MemifConfig::default() };
            promises::are_kept(|here| ends(here, &config));
        }
    }
}

/// A lent runt lies in a frame that another packet filled before, and a copied one in such a buffer.
#[test]
fn a_runt_over_memif_comes_without_a_byte_of_an_earlier_packet_lent_or_copied() {
    for (lends, queues) in [(true, 1), (false, 1), (true, 2), (false, 3)] {
        for role in [Role::Client, Role::Server] {
            let lend = lends.then(Lend::in_tests);
            let config = MemifConfig { role, queues, ring: 32, lend, ..MemifConfig::default() };
            runts::come_alone(1, |here| ends(here, &config));
        }
    }
}
