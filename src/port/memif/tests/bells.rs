//! Tests of peers that make the eventfd by which they are woken a blocking one, and fill its counter.

use super::hand::{Hand, PACKETS};
use super::message::{AddRing, Hello, MESSAGE_LEN, Message, Text, VERSION};
use super::ring::{Descriptor, Serving};
use super::*;
use crate::port::Wake;
use crate::sys::memfd::SharedMemory;
use crate::sys::seqpacket::{Connection, Listener, Received};
use crate::sys::shared_event::hostile::{drain, fill};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::thread;

/// How often the eventfd is filled. In between the port writes it.
const ROUNDS: usize = 300;

/// Lets `side` send and wake its peer on a thread of its own, while the test fills and drains `bell`, the eventfd that
/// `side` writes. `make_room` takes what was sent. After each attack the port must write the eventfd again.
fn stays_awake(mut side: Side, bell: &OwnedFd, mut make_room: impl FnMut()) -> Side {
    let over = &AtomicBool::new(false);
    let kicks = side.port.counters();
    let rung = || kicks.kicks.get();
    thread::scope(|scope| {
        let sending = scope.spawn(move || {
            while !over.load(Relaxed) {
                side.send(&[vec![1; 60]]);
                side.port.kick();
                side.complete();
            }
            side
        });
        let until = Instant::now() + 2 * LONG;
        for round in 0..ROUNDS {
            drain(bell);
            fill(bell);
            let before = rung();
            while rung() < before + 2 {
                make_room();
                if Instant::now() > until || sending.is_finished() {
                    over.store(true, Relaxed);
                    drain(bell);
                    panic!("the port waits in round {round}");
                }
            }
        }
        over.store(true, Relaxed);
        sending.join().unwrap()
    })
}

#[test]
fn a_client_that_fills_its_event_and_makes_it_wait_stops_no_server() {
    let path = fresh_path();
    let mut server = Side::server(&path);
    let (hand, _to_server, mut to_client) = Hand::connected(&mut server, &path);
    let bell = hand.bell().try_clone_to_owned().unwrap();
    to_client.wake.want(true);
    let empty = Descriptor { next: false, region: 0, len: 100, offset: PACKETS };
    let mut make_room = move || {
        let n = to_client.returned().unwrap();
        to_client.take_back(n);
        let room = to_client.room();
        (0..room).for_each(|i| to_client.write(to_client.next_at(i), empty));
        to_client.lend(room);
    };
    make_room();
    stays_awake(server, &bell, make_room).close();
}

/// A server that the test plays. It takes a client's offer: the eventfd that the client writes, and this end of the
/// ring.
struct Served {
    _connection: Connection,
    bell: OwnedFd,
    ring: Serving,
}

/// Returns the next message, and its descriptor if it has one.
pub(super) fn hear(connection: &Connection, client: &mut Side) -> (Message, Option<OwnedFd>) {
    let (mut bytes, end) = ([0; MESSAGE_LEN], Instant::now() + LONG);
    loop {
        assert!(Instant::now() < end, "the client says nothing: {:?}", client.port);
        client.idle();
        match connection.receive(&mut bytes) {
            Received::Message(_, descriptors) => {
                return (Message::parse(&bytes).unwrap(), descriptors.into_iter().next());
            }
            Received::Nothing => {}
            Received::End | Received::UnknownDescriptor | Received::NoRoom => {
                panic!("the client hung up: {:?}", client.port)
            }
        }
    }
}

impl Served {
    fn connected(listener: &Listener, client: &mut Side) -> Served {
        let end = Instant::now() + LONG;
        let connection = loop {
            assert!(Instant::now() < end, "nobody connects");
            client.idle();
            if let Some(connection) = listener.accept() {
                break connection;
            }
        };
        let say = |message: Message| connection.send(&message.bytes(), None).unwrap();
        let hello = Hello {
            min_version: VERSION,
            max_version: VERSION,
            max_region: 9,
            max_log2_ring_size: 10,
            ..Hello::default()
        };
        say(Message::Hello(hello));
        let (mut memory, mut rung) = (None, None);
        loop {
            let (message, descriptor) = hear(&connection, client);
            match (message, descriptor) {
                (Message::AddRegion(region), Some(file)) if region.index == 0 => {
                    memory = Some(SharedMemory::map(file, region.size, Sealing::Required).unwrap());
                }
                (Message::AddRing(ring @ AddRing { to_server: true, .. }), Some(bell)) => {
                    rung = Some((ring, bell));
                }
                (Message::Connect(_), _) => break,
                _ => {}
            }
            say(Message::Ack);
        }
        say(Message::Connected(Text::new("hand")));
        let (ring, bell) = rung.unwrap();
        let ring = Serving::new(&memory.unwrap(), ring.offset.into(), ring.log2_size).unwrap();
        Served { _connection: connection, bell, ring }
    }
}

#[test]
fn a_server_that_fills_its_event_and_makes_it_wait_stops_no_client() {
    let path = fresh_path();
    let listener = Listener::new(&path).unwrap();
    for shared in [true, false] {
        let mut client = Side::client(&path, shared);
        let Served { _connection, bell, mut ring } = Served::connected(&listener, &mut client);
        while !client.is_up() {
            client.idle();
        }
        ring.wake.want(true);
        let make_room = move || {
            let n = ring.ready().unwrap();
            ring.give_back(n);
        };
        stays_awake(client, &bell, make_room).close();
    }
}
