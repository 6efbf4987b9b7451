//! Tests of clients whose memory lacks pages, or can.

use super::bells::hear;
use super::hand::{Hand, LOG2_SIZE, PACKETS, REGION, serves};
use super::message::{Hello, Message, Text, VERSION};
use super::ring::Descriptor;
use super::*;
use crate::sys::memfd::{SharedMemory, is_sealed, make_hole};
use crate::sys::seqpacket::Listener;
use std::os::fd::OwnedFd;

/// A client that has written nothing but the rings of its memory, as DPDK's.
fn sparse(path: &Path) -> Hand {
    let hand = Hand { memory: SharedMemory::sparse("sparse", REGION as usize), ..Hand::new(path) };
    hand.lay_rings(LOG2_SIZE);
    hand
}

/// Found: a client offered memory that it had never touched. Each page of it that a descriptor named was allocated at the
/// server's cost, until the system ended the server.
#[test]
fn a_client_whose_memory_has_holes_is_refused_by_a_server_that_accepts_none_and_another_is_served() {
    let path = fresh_path();
    let mut server = Side::open(&path, false, &MemifConfig { holes: 0, ..server_config() });
    serves(&mut server, &path);
    let hand = sparse(&path);
    let answer = hand.converse(&mut server, &Hand::sane());
    assert!(matches!(answer, Some(Message::Disconnect { .. })), "{answer:?}");
    assert!(
        server.reason().contains("region 0: its memory lacks 8192 bytes or more, and 0 may be allocated"),
        "{}",
        server.reason()
    );
    // A message in between ends the connection; so does the client's end.
    for last in [Some(Hand::region()), None] {
        let hand = Hand::new(&path);
        hand.lay_rings(LOG2_SIZE);
        hand.converse(&mut server, &Hand::sane()[..4]);
        hand.say(&Hand::sane()[4]);
        last.iter().for_each(|message| hand.say(message));
        drop(hand);
        server.idle();
    }
    serves(&mut server, &path);
    server.close();
}

/// DPDK's clients offer such memory.
#[test]
fn a_client_that_has_not_written_its_packets_is_served_within_the_budget_and_none_beyond_it() {
    let path = fresh_path();
    let config = MemifConfig { holes: REGION - u64::from(PACKETS), ..server_config() };
    let mut server = Side::open(&path, false, &config);
    let left = sparse(&path);
    let (mut to_server, mut to_client) = left.lay_rings(LOG2_SIZE);
    let answer = left.converse(&mut server, &Hand::sane());
    assert!(matches!(answer, Some(Message::Connected(_))), "{answer:?}");
    server.idle();
    let packet = Descriptor { next: false, region: 0, len: 60, offset: PACKETS };
    for ring in [&mut to_server, &mut to_client] {
        ring.write(ring.next_at(0), packet);
        ring.lend(1);
    }
    assert_eq!(server.receive(), [[0; 60]]);
    assert_eq!(server.send(&[vec![1; 60]]), 1);
    left.say(&Message::disconnect("it keeps its memory"));
    while server.is_up() {
        server.idle();
    }
    server.complete();
    // It holds what was allocated for it, until it drops the memory.
    let next = sparse(&path);
    let answer = next.converse(&mut server, &Hand::sane());
    assert!(matches!(answer, Some(Message::Disconnect { .. })), "{answer:?}");
    assert!(server.reason().contains("and 0 may be allocated"), "{}", server.reason());
    serves(&mut server, &path);
    drop((left, to_server, to_client));
    let end = Instant::now() + LONG;
    while !matches!(sparse(&path).converse(&mut server, &Hand::sane()), Some(Message::Connected(_))) {
        assert!(Instant::now() < end, "{}", server.reason());
    }
    server.close();
}

/// Frames that are lent are sealed for good, and several servers map them.
#[test]
fn a_client_that_lends_is_told_that_the_server_must_accept_holes() {
    let path = fresh_path();
    let (mut server, mut client) = (Side::server(&path), Side::client(&path, true));
    let why = "its memory cannot be sealed against holes: do not lend, or holes=ok at the server";
    until(&mut server, &mut client, |_, client| client.reason().contains(why));
    assert!(server.reason_or_up().contains(why), "{}", server.reason());
    server.close();
    let mut server = Side::server_of_lenders(&path);
    until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
    server.close();
    client.close();
}

/// Receives all that a client offers. Then makes a hole at the end of its memory, which is not used at first, or none, and
/// connects it. Returns the connection, the memory, and where its last page lies.
fn connect(listener: &Listener, client: &mut Side, makes_hole: bool) -> (Connection, OwnedFd, u64) {
    let connection = loop {
        client.idle();
        if let Some(connection) = listener.accept() {
            break connection;
        }
    };
    let say = |message: Message| connection.send(&message.bytes(), None).unwrap();
    let hello =
        Hello { min_version: VERSION, max_version: VERSION, max_log2_ring_size: 10, ..Hello::default() };
    say(Message::Hello(hello));
    let mut memory = None;
    loop {
        match hear(&connection, client) {
            (Message::AddRegion(region), Some(file)) => memory = Some((file, region.size - 4096)),
            (Message::Connect(_), _) => break,
            _ => {}
        }
        say(Message::Ack);
    }
    let (memory, last) = memory.unwrap();
    if makes_hole {
        make_hole(&memory, last).unwrap();
    }
    say(Message::Connected(Text::new("hand")));
    (connection, memory, last)
}

/// Found in a review: while a server made holes in a client's memory, the client's worker waited at each access.
#[test]
fn a_server_that_made_a_hole_is_left_and_none_can_make_one_once_the_memory_is_sealed() {
    let path = fresh_path();
    let listener = Listener::new(&path).unwrap();
    let mut client = Side::client(&path, false);
    let end = Instant::now() + LONG;
    let _left = connect(&listener, &mut client, true);
    while !client.reason_or_up().contains("region 0: the peer took pages of the memory away") {
        assert!(Instant::now() < end, "{:?}", client.port);
        client.idle();
    }
    let (_connection, memory, last) = connect(&listener, &mut client, false);
    while !(client.is_up() && is_sealed(&memory)) {
        assert!(Instant::now() < end, "{:?}", client.port);
        client.idle();
    }
    assert_eq!(make_hole(&memory, last), Err(Errno::PERM));
    client.idle();
    assert!(client.is_up());
    client.close();
}
