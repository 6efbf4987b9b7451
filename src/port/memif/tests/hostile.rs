//! Tests of peers that send or write what no correct peer does, and of peers that die.

use super::buffers::Copying;
use super::hand::{Hand, LOG2_SIZE, PACKETS, REGION, TO_CLIENT, serves};
use super::message::{AddRegion, AddRing, MESSAGE_LEN, Message, Text, VERSION};
use super::pair::End;
use super::ring::{Descriptor, Lending, ring_bytes};
use super::*;
use crate::port::Wake;
use crate::sys::memfd::SharedMemory;
use crate::sys::seqpacket::Listener;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;

#[test]
fn every_message_cut_at_every_length_or_made_longer_ends_the_connection_and_no_more() {
    let path = fresh_path();
    let mut server = Side::server(&path);
    for (i, message) in Hand::sane().iter().enumerate() {
        for len in (1..MESSAGE_LEN).step_by(9).chain([MESSAGE_LEN - 1, MESSAGE_LEN + 1, 2 * MESSAGE_LEN]) {
            let hand = Hand::new(&path);
            hand.converse(&mut server, &Hand::sane()[..i]);
            let bytes = [message.bytes(), message.bytes()].concat();
            hand.connection.send(&bytes[..len], Some(hand.memory.as_fd())).unwrap();
            let Some(Message::Disconnect { reason, .. }) = hand.hear(&mut server) else { panic!("no end") };
            assert!(reason.to_string().contains("bytes where each has 128"), "{reason}");
            assert!(!server.is_up() && server.reason().contains("bytes where each has 128"));
        }
    }
    serves(&mut server, &path);
    server.close();
}

#[test]
fn unexpected_and_invalid_messages_end_the_connection_with_the_reason() {
    let path = fresh_path();
    let mut server = Side::server(&path);
    let [init, region, to_server, to_client, connect] = &Hand::sane()[..] else { panic!() };
    let ring = |change: fn(&mut AddRing)| {
        let mut ring = Hand::ring(true);
        change(&mut ring);
        Message::AddRing(ring)
    };
    let sized = |index, size| Message::AddRegion(AddRegion { index, size });
    let rest = [*to_client, *connect];
    let with = |bad: &[Message]| [&[*init, *region], bad, &rest].concat();
    let sentences: Vec<(Vec<Message>, &str)> = vec![
        (vec![*region], "unexpected ADD_REGION"),
        (vec![*connect], "0 rings to the server"),
        (vec![Message::Ack], "unexpected ACK"),
        (vec![*init, *init], "unexpected INIT"),
        (vec![*init, Message::Connected(Text::default())], "unexpected CONNECTED"),
        (vec![*init, sized(1, REGION)], "region 1 out of order"),
        (vec![*init, sized(0, REGION + 1), *to_server, *to_client, *connect], "16385 were announced"),
        (vec![*init, sized(0, 1 << 33), *to_server, *to_client, *connect], "were announced"),
        (vec![*init, sized(0, (1 << 33) + 1)], "at most 8 GiB"),
        (vec![*init, sized(0, u64::MAX)], "at most 8 GiB"),
        ((0..10).map(|i| if i == 0 { *init } else { sized(i - 1, 1 << 33) }).collect(), "64 GiB of all"),
        (vec![*init, sized(0, 0), *to_server, *to_client, *connect], "0 were announced"),
        (with(&[]), "0 rings to the server and 1 to the client"),
        (with(&[*to_server, *to_server]), "to-server ring 0 is not offered, missing, or given twice"),
        (with(&[ring(|ring| ring.index = 1)]), "to-server ring 1 is not offered"),
        (with(&[ring(|ring| ring.index = u16::MAX)]), "to-server ring 65535 is not offered"),
        (with(&[ring(|ring| ring.region = 1)]), "of region 1"),
        (with(&[ring(|ring| ring.region = u16::MAX)]), "of region 65535"),
        (with(&[ring(|ring| ring.offset = 8)]), "lies at 8"),
        (with(&[ring(|ring| ring.offset = 2048)]), "lies at 2048"),
        (with(&[ring(|ring| ring.offset = u32::MAX - 15)]), "of region 0"),
        (with(&[ring(|ring| ring.log2_size = 10)]), "no ring of 2^10 slots"),
        (with(&[ring(|ring| ring.log2_size = 255)]), "no ring of 2^255 slots"),
        (with(&[ring(|ring| ring.private_header = 8)]), "private headers of 8 bytes"),
    ];
    for (sentence, reason) in sentences {
        let hand = Hand::new(&path);
        hand.lay_rings(LOG2_SIZE);
        match hand.converse(&mut server, &sentence) {
            Some(Message::Disconnect { reason: told, .. }) => {
                assert!(told.to_string().contains(reason), "{told} for {reason}");
            }
            answer => panic!("{answer:?} where {reason} was due"),
        }
        assert!(server.reason().contains(reason), "{}", server.reason());
    }
    serves(&mut server, &path);
    server.close();
}

#[test]
fn a_descriptor_that_is_not_an_eventfd_is_refused_before_it_is_used() {
    let path = fresh_path();
    let mut server = Side::server(&path);
    let (reader, writer) = std::io::pipe().unwrap();
    let memory = SharedMemory::new("no bell", 4096).unwrap();
    let no_event = "ADD_RING with a descriptor that is not an eventfd";
    let unknown = "a descriptor that is neither an eventfd nor memory that can be sealed (memfd_create)";
    for (other, why) in [(reader.as_fd(), unknown), (writer.as_fd(), unknown), (memory.as_fd(), no_event)] {
        let hand = Hand::new(&path);
        hand.lay_rings(LOG2_SIZE);
        hand.converse(&mut server, &Hand::sane()[..2]);
        hand.connection.send(&Hand::sane()[2].bytes(), Some(other)).unwrap();
        // The connection is reset if it is closed with a message that was not received.
        let heard = hand.hear(&mut server);
        assert!(matches!(heard, Some(Message::Disconnect { .. })) || heard.is_none() && why == unknown);
        assert_eq!(server.reason(), why);
    }
    serves(&mut server, &path);
    server.close();
}

#[test]
fn descriptors_that_are_missing_or_unsealed_are_refused() {
    let path = fresh_path();
    let mut server = Side::server(&path);
    for (said, missing) in [(1, "ADD_REGION without a descriptor"), (2, "ADD_RING without a descriptor")] {
        let hand = Hand::new(&path);
        hand.converse(&mut server, &Hand::sane()[..said]);
        hand.connection.send(&Hand::sane()[said].bytes(), None).unwrap();
        assert!(matches!(hand.hear(&mut server), Some(Message::Disconnect { .. })));
        assert_eq!(server.reason(), missing);
    }
    let tell = |server: &mut Side| {
        let (hand, _file) = Hand::with_scissors(&path);
        hand.lay_rings(LOG2_SIZE);
        hand.converse(server, &Hand::sane());
        hand
    };
    drop(tell(&mut server));
    let refusal = "a descriptor that is neither an eventfd nor memory that can be sealed (memfd_create)";
    assert_eq!(server.reason(), refusal);
    serves(&mut server, &path);
    server.close();
    let trusting = MemifConfig { sealing: Sealing::Trusted, ..server_config() };
    let mut server = Side::open(&path, false, &trusting);
    let _hand = tell(&mut server);
    assert!(server.is_up(), "its owner is trusted: {:?}", server.port);
    server.close();
}

/// Lends one packet to the server, and one buffer for a packet to the client, in the rings of [`Hand::connected`].
fn lend_one_each(to_server: &mut Lending, to_client: &mut Lending) {
    let packet = Descriptor { next: false, region: 0, len: 60, offset: PACKETS };
    for ring in [to_server, to_client] {
        ring.write(ring.next_at(0), packet);
        ring.lend(1);
    }
}

#[test]
fn a_client_that_cuts_its_memory_takes_the_port_down_and_the_next_client_is_served() {
    const LOST: &str = "region 0: the peer took pages of the memory away";
    let path = fresh_path();
    let trusting = MemifConfig { sealing: Sealing::Trusted, ..server_config() };
    let mut server = Side::open(&path, false, &trusting);
    // Truncates all of it, or only the packets.
    for left in [0, u64::from(PACKETS)] {
        let steps: [fn(&mut Side); 3] =
            [Side::idle, |side| _ = side.receive(), |side| _ = side.send(&[vec![1; 60]])];
        for step in steps {
            let (hand, file) = Hand::with_scissors(&path);
            let (mut to_server, mut to_client) = hand.lay_rings(LOG2_SIZE);
            let answer = hand.converse(&mut server, &Hand::sane());
            assert!(matches!(answer, Some(Message::Connected(_))), "{answer:?}");
            server.idle();
            lend_one_each(&mut to_server, &mut to_client);
            file.set_len(left).unwrap();
            let end = Instant::now() + LONG;
            step(&mut server);
            while server.is_up() {
                assert!(Instant::now() < end, "{left}");
                server.send(&[vec![1; 60]]);
                server.receive();
                server.idle();
            }
            assert!(server.reason().contains(LOST), "{left}: {}", server.reason());
            server.complete();
            serves(&mut server, &path);
        }
    }
    server.close();
}

/// A server may punch holes into a client's memory. The next access then asks the machine for a page, and there may be
/// none.
#[test]
fn a_client_whose_own_memory_is_lost_goes_down_and_connects_with_new_memory() {
    let path = fresh_path();
    let mut server = Side::server_of_lenders(&path);
    for lends in [false, true] {
        let mut client = Side::client(&path, lends);
        while !client.is_up() || !server.is_up() {
            server.idle();
            client.idle();
        }
        match &client.port.pairs[0].rings.as_ref().unwrap().tx {
            End::Lent(ring) | End::Copied(Copying::Own { ring, .. }) => ring.lose(),
            End::Copied(Copying::Peers { .. }) => unreachable!("it is a client"),
        }
        while client.is_up() {
            client.idle();
        }
        assert!(
            client.reason().contains("region 0: the peer took pages of the memory away"),
            "{}",
            client.reason()
        );
        while !client.is_up() || !server.is_up() {
            server.idle();
            client.idle();
        }
        client.close();
    }
    server.close();
}

#[test]
fn a_client_that_cuts_its_memory_before_it_connects_is_refused() {
    let path = fresh_path();
    let trusting = MemifConfig { sealing: Sealing::Trusted, ..server_config() };
    let mut server = Side::open(&path, false, &trusting);
    let (hand, file) = Hand::with_scissors(&path);
    hand.lay_rings(LOG2_SIZE);
    hand.converse(&mut server, &Hand::sane()[..4]);
    file.set_len(100).unwrap();
    hand.say(&Hand::sane()[4]);
    assert!(matches!(hand.hear(&mut server), Some(Message::Disconnect { .. })));
    assert_eq!(server.reason(), format!("region 0: its memory has 100 bytes where {REGION} were announced"));
    serves(&mut server, &path);
    server.close();
}

/// Writes invalid values into one ring, before the server reads it.
type Spoil = fn(&Hand, &mut Lending, &mut Lending);

#[test]
fn invalid_indices_and_descriptors_take_the_port_down_and_the_next_client_is_served() {
    let path = fresh_path();
    let mut server = Side::server(&path);
    fn packet(ring: &mut Lending, descriptor: Descriptor) {
        ring.write(ring.next_at(0), descriptor);
        ring.lend(1);
    }
    const SANE: Descriptor = Descriptor { next: false, region: 0, len: 60, offset: PACKETS };
    let spoils: [(Spoil, &str); 12] = [
        (|_, rx, _| packet(rx, Descriptor { region: 1, ..SANE }), "outside of its region"),
        (|_, rx, _| packet(rx, Descriptor { region: u16::MAX, ..SANE }), "outside of its region"),
        (|_, rx, _| packet(rx, Descriptor { offset: REGION as u32, ..SANE }), "outside of its region"),
        (|_, rx, _| packet(rx, Descriptor { offset: u32::MAX, ..SANE }), "outside of its region"),
        (|_, rx, _| packet(rx, Descriptor { len: u32::MAX, ..SANE }), "outside of its region"),
        (|_, rx, _| packet(rx, Descriptor { offset: REGION as u32 - 59, ..SANE }), "outside of its region"),
        (|_, rx, _| packet(rx, Descriptor { next: true, ..SANE }), "index ends within a packet"),
        (
            |_, rx, _| {
                for i in 0..8 {
                    rx.write(rx.next_at(i), Descriptor { next: true, ..SANE });
                }
                rx.lend(8);
            },
            "a packet without an end",
        ),
        (|hand, _, _| hand.memory.word(6).unwrap().store(9), "impossible"),
        (|hand, _, _| hand.memory.word(6).unwrap().store(u16::MAX), "impossible"),
        (|hand, _, _| hand.memory.word(TO_CLIENT + 6).unwrap().store(9), "impossible"),
        (|_, _, tx| packet(tx, Descriptor { region: 3, ..SANE }), "outside of its region"),
    ];
    for (number, (spoil, reason)) in spoils.into_iter().enumerate() {
        let (hand, mut rx, mut tx) = Hand::connected(&mut server, &path);
        spoil(&hand, &mut rx, &mut tx);
        assert!(server.receive().is_empty());
        server.send(&[vec![1; 60]]);
        assert!(server.reason().contains(reason), "{number}: {}", server.reason());
        assert!(matches!(hand.hear(&mut server), Some(Message::Disconnect { .. })));
        assert_eq!((server.send(&[vec![1; 60]]), server.receive().len()), (0, 0), "down is down");
        server.complete();
        serves(&mut server, &path);
    }
    server.close();
}

#[test]
fn bytes_that_a_server_writes_into_the_clients_rings_bring_no_frame_twice_and_none_too_long() {
    for (shared, wrong) in [(true, "is invalid"), (false, "outside of its region")] {
        for (len, next) in [(u32::MAX, false), (2049, false), (60, true)] {
            let (mut server, mut client) = connected(shared);
            assert_eq!(server.send(&[vec![1; 60]]), 1);
            let rings = server.port.pairs[0].rings.as_mut().unwrap();
            let pair::End::Copied(ring) = &mut rings.tx else { panic!("a server copies") };
            // The slot that was given back last.
            let position = u32::MAX;
            let said = ring.room(position).unwrap().0;
            ring.describe(position, Descriptor { len, next, ..said });
            assert!(client.receive().is_empty());
            let wanted = if next { "index ends within a packet" } else { wrong };
            assert!(client.reason().contains(wanted), "{}", client.reason());
            until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
            server.idle();
            client.idle();
            server.complete();
            assert_eq!(server.send(&[vec![2; 60]]), 1);
            assert_eq!(client.receive(), [vec![2; 60]]);
            server.close();
            client.close();
        }
    }
}

#[test]
fn a_client_that_dies_after_any_message_leaves_a_server_that_serves_the_next() {
    let path = fresh_path();
    let mut server = Side::server(&path);
    for said in 0..=Hand::sane().len() {
        let hand = Hand::new(&path);
        hand.lay_rings(LOG2_SIZE);
        hand.converse(&mut server, &Hand::sane()[..said]);
        drop(hand);
        let end = Instant::now() + LONG;
        while server.reason_or_up() != "the peer is gone" {
            assert!(Instant::now() < end, "{said}: {:?}", server.port);
            server.idle();
        }
        serves(&mut server, &path);
    }
    server.close();
}

#[test]
fn a_server_that_dies_or_sends_an_invalid_message_is_tried_again() {
    let hello = message::Hello {
        min_version: VERSION,
        max_version: VERSION,
        max_region: 9,
        max_log2_ring_size: 10,
        ..message::Hello::default()
    };
    let old = message::Hello { min_version: 0x0100, max_version: 0x0100, ..hello };
    let poor = message::Hello { max_region: 0, ..hello };
    let words: [(Vec<Message>, &str); 6] = [
        (vec![], "the peer is gone"),
        (vec![Message::Hello(hello)], "the peer is gone"),
        (vec![Message::Ack], "unexpected ACK"),
        (vec![Message::Hello(old)], "version 0x0100"),
        (vec![Message::Hello(poor)], "leave lend=yes out"),
        (vec![Message::Hello(hello), Message::Connected(Text::default())], "unexpected CONNECTED"),
    ];
    let path = fresh_path();
    let mut client = Side::client(&path, true);
    for (words, reason) in words {
        let listener = Listener::new(&path).unwrap();
        let end = Instant::now() + LONG;
        let connection = loop {
            assert!(Instant::now() < end);
            client.idle();
            if let Some(connection) = listener.accept() {
                break connection;
            }
        };
        for word in &words {
            let _ = connection.send(&word.bytes(), None);
            client.idle();
        }
        // The server is gone for good: no process listens any more.
        drop(listener);
        drop(connection);
        while !client.reason().contains(reason) {
            assert!(Instant::now() < end, "{reason}: {}", client.reason());
            client.idle();
        }
    }
    let mut server = Side::server_of_lenders(&path);
    until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
    server.close();
    client.close();
}

/// Descriptors of which a part is valid.
fn descriptors() -> impl Strategy<Value = Vec<Descriptor>> {
    let region = prop_oneof![9 => Just(0), 1 => any::<u16>()];
    let len = prop_oneof![9 => 0..3000_u32, 1 => any::<u32>()];
    let offset = prop_oneof![9 => 0..REGION as u32, 1 => any::<u32>()];
    let one = (prop::bool::weighted(0.2), region, len, offset);
    let one = one.prop_map(|(next, region, len, offset)| Descriptor { next, region, len, offset });
    prop::collection::vec(one, 2 << LOG2_SIZE)
}

#[test]
fn random_bytes_in_the_shared_memory_crash_no_server_and_every_frame_returns_to_its_pool() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(64) });
    let bytes = prop::collection::vec((0..2 * ring_bytes(LOG2_SIZE) as u64, any::<u8>()), 0..4);
    let steps = prop::collection::vec((descriptors(), bytes, 1..=1_u32 << LOG2_SIZE), 1..20);
    let (received, sent) = (Cell::new(0), Cell::new(0));
    runner
        .run(&steps, |steps| {
            let path = fresh_path();
            let mut server = Side::server(&path);
            let mut peer = Hand::connected(&mut server, &path);
            for (said, bytes, lent) in steps {
                let (hand, to_server, to_client) = &mut peer;
                for (ring, said) in [to_server, to_client].into_iter().zip(said.chunks(1 << LOG2_SIZE)) {
                    (0..).zip(said).for_each(|(position, said)| ring.write(position, *said));
                    let back = ring.returned().unwrap_or(0);
                    ring.take_back(back);
                    ring.lend(lent.min(ring.room()));
                }
                let half = ring_bytes(LOG2_SIZE) as u64;
                for (at, byte) in bytes {
                    hand.memory.write(if at < half { at } else { at - half + TO_CLIENT }, &[byte]);
                }
                received.set(received.get() + server.receive().len());
                sent.set(sent.get() + server.send(&[vec![9; 60], vec![8; 1500]]));
                server.complete();
                server.port.kick();
                if !server.is_up() {
                    peer = Hand::connected(&mut server, &path);
                }
            }
            drop(peer);
            server.close();
            Ok(())
        })
        .unwrap();
    assert!(received.get() > 0 && sent.get() > 0, "{received:?} {sent:?}");
}
