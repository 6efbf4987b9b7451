//! Tests of a client whose next server has smaller rings, and of clients whose buffers have little room or none.

use super::hand::{Hand, LOG2_SIZE, PACKETS, serves};
use super::message::{Hello, Message, Text, VERSION};
use super::ring::{Descriptor, Serving};
use super::*;
use crate::port::{Fill, Tx};
use crate::sys::memfd::SharedMemory;
use crate::sys::seqpacket::{Connection, Listener, Received};

/// A server that the test plays. Its rings have at most four slots, and it only sends.
struct SmallServer {
    _connection: Connection,
    regions: Vec<Arc<SharedMemory>>,
    to_client: Serving,
}

impl SmallServer {
    fn new(client: &mut Side, listener: &Listener) -> SmallServer {
        let end = Instant::now() + LONG;
        let mut idle = || {
            assert!(Instant::now() < end);
            client.port.service();
        };
        let connection = loop {
            idle();
            if let Some(connection) = listener.accept() {
                break connection;
            }
        };
        let (min_version, max_version) = (VERSION, VERSION);
        let hello =
            Hello { min_version, max_version, max_region: 9, max_log2_ring_size: 2, ..Hello::default() };
        connection.send(&Message::Hello(hello).bytes(), None).unwrap();
        let (mut regions, mut ring) = (Vec::new(), None);
        loop {
            idle();
            let mut bytes = [0; message::MESSAGE_LEN];
            let Received::Message(_, descriptors) = connection.receive(&mut bytes) else { continue };
            match Message::parse(&bytes).unwrap() {
                Message::AddRegion(region) => {
                    let file = descriptors.into_iter().next().unwrap();
                    regions.push(SharedMemory::map(file, region.size, Sealing::Required).unwrap());
                }
                Message::AddRing(said) if !said.to_server => ring = Some(said),
                Message::Connect(_) => break,
                _ => {}
            }
            connection.send(&Message::Ack.bytes(), None).unwrap();
        }
        connection.send(&Message::Connected(Text::new("small")).bytes(), None).unwrap();
        while client.port.queues() == 0 {
            assert!(Instant::now() < end);
            client.port.service();
        }
        let ring = ring.unwrap();
        let to_client = Serving::new(&regions[0], ring.offset.into(), ring.log2_size).unwrap();
        assert_eq!(to_client.size(), 4);
        SmallServer { _connection: connection, regions, to_client }
    }

    /// Writes a packet into the next buffer that the client has lent.
    fn send(&mut self, packet: &[u8]) {
        assert!(self.to_client.ready().unwrap() > 0, "the client lends nothing");
        let position = self.to_client.ready_at(0);
        let said = self.to_client.read(position);
        assert!(self.regions[usize::from(said.region)].write(said.offset.into(), packet));
        self.to_client.write(position, Descriptor { len: packet.len() as u32, ..said });
        self.to_client.give_back(1);
    }
}

/// Waits until the client has seen that its server is gone.
fn until_down(client: &mut Side) {
    let end = Instant::now() + LONG;
    while client.is_up() {
        assert!(Instant::now() < end);
        client.port.service();
    }
}

#[test]
fn the_next_server_may_have_smaller_rings_and_brings_the_right_packets() {
    for shared in [true, false] {
        let (server, mut client) = connected(shared);
        // All 64 slots are filled. The packet that was sent last is neither read nor claimed.
        while client.port.rx_posted() < 64 {
            client.idle();
        }
        client.send(&[vec![1; 60]]);
        let path = server.port.name()["memif:".len()..].to_owned();
        server.close();
        until_down(&mut client);
        let listener = Listener::new(Path::new(&path)).unwrap();
        let mut small = SmallServer::new(&mut client, &listener);
        let completed = client.port.counters().completed.get();
        assert_eq!((completed, client.port.tx_posted()), (1, 0), "what the last server had is complete");
        for round in 0..40_u8 {
            client.idle();
            small.send(&[round; 60]);
            assert_eq!(client.receive(), [[round; 60]], "round {round}");
        }
        drop((small, listener));
        client.close();
    }
}

/// Seen: a client lent 16,384 buffers without room. Then each frame to it took a walk over all of them.
#[test]
fn a_buffer_without_room_ends_the_connection() {
    let path = fresh_path();
    let mut server = Side::server(&path);
    let (_hand, _, mut to_client) = Hand::connected(&mut server, &path);
    for i in 0..1 << LOG2_SIZE {
        let empty = Descriptor { next: false, region: 0, len: 0, offset: PACKETS };
        to_client.write(to_client.next_at(i), empty);
    }
    to_client.lend(1 << LOG2_SIZE);
    assert_eq!(server.send(&[vec![7; 20]]), 0);
    assert!(server.reason().contains("tx ring: the descriptor"), "{}", server.reason());
    assert_eq!(server.port.counters().bad_descriptor.get(), 1);
    serves(&mut server, &path);
    server.close();
}

/// Bytes of a buffer so small that a packet needs many.
const SMALL: u32 = 20;

/// Connects a client with rings of 128 slots.
fn with_many_slots(server: &mut Side, path: &Path) -> (Hand, ring::Lending, ring::Lending) {
    Hand::connected_by(server, path, 7)
}

#[test]
fn a_packet_in_65_slots_ends_the_connection_and_one_in_64_comes() {
    let path = fresh_path();
    let mut server = Side::server(&path);
    for (parts, comes) in [(65, false), (64, true)] {
        let (_hand, mut to_server, _) = with_many_slots(&mut server, &path);
        for i in 0..parts {
            let part = Descriptor { next: i < parts - 1, region: 0, len: SMALL, offset: PACKETS };
            to_server.write(to_server.next_at(i), part);
        }
        to_server.lend(parts);
        let came: Vec<usize> = server.receive().iter().map(Vec::len).collect();
        if comes {
            assert_eq!(came, [(parts * SMALL) as usize]);
        } else {
            assert!(came.is_empty());
            assert!(
                server.reason().contains("a packet without an end within 64 slots"),
                "{}",
                server.reason()
            );
        }
    }
    server.close();
}

#[test]
fn a_packet_leaves_in_64_slots_and_one_that_needs_65_is_dropped_and_counted() {
    let path = fresh_path();
    let mut server = Side::server(&path);
    let (_hand, _, mut to_client) = with_many_slots(&mut server, &path);
    for i in 0..128 {
        let small = Descriptor { next: false, region: 0, len: SMALL, offset: PACKETS + i * SMALL };
        to_client.write(to_client.next_at(i), small);
    }
    to_client.lend(128);
    let most = 64 * SMALL as usize;
    assert_eq!(server.send(&[vec![1; most + 1], vec![2; most]]), 2);
    assert_eq!(server.port.counters().tx_invalid.get(), 1);
    assert_eq!(to_client.returned().unwrap(), 64);
    let parts: Vec<_> = (0..64).map(|i| to_client.read(to_client.returned_at(i))).collect();
    assert!(parts.iter().all(|part| part.len == SMALL));
    assert_eq!(parts.iter().position(|part| !part.next), Some(63));
    server.close();
}
