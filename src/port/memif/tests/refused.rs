//! Tests of clients whose servers refuse them, or go before packets flow.

use super::bells::hear;
use super::message::{Hello, Message, Text, VERSION};
use super::offer::MADE;
use super::*;
use crate::sys::seqpacket::{Connection, Listener};

/// Waits for the client's next connection, and greets it. Returns the connection after the client's INIT.
fn greeted(listener: &Listener, client: &mut Side) -> Connection {
    let end = Instant::now() + LONG;
    let connection = loop {
        assert!(Instant::now() < end, "the client does not connect: {:?}", client.port);
        client.idle();
        if let Some(connection) = listener.accept() {
            break connection;
        }
    };
    let (min_version, max_version) = (VERSION, VERSION);
    let hello = Hello { min_version, max_version, max_region: 9, max_log2_ring_size: 10, ..Hello::default() };
    connection.send(&Message::Hello(hello).bytes(), None).unwrap();
    let (init, _) = hear(&connection, client);
    assert!(matches!(init, Message::Init(_)), "{init:?}");
    connection
}

/// Waits until the client is down for this reason.
fn until_down_by(client: &mut Side, reason: &str) {
    let end = Instant::now() + LONG;
    while !client.reason().contains(reason) {
        assert!(Instant::now() < end, "{reason}: {}", client.reason());
        client.idle();
    }
}

/// The client's pause after the next conversation that fails.
fn pause(client: &Side) -> Duration {
    match &client.port.conversation {
        Conversation::Client(client) => client.pause(),
        Conversation::Server(_) => panic!("a server does not connect"),
    }
}

/// Seen: a client that was refused made and cleared all its shared memory fifty times a second, on the worker.
#[test]
fn a_client_that_is_refused_makes_no_memory_and_waits_longer_each_time() {
    for shared in [true, false] {
        let path = fresh_path();
        let listener = Listener::new(&path).unwrap();
        let (mut client, made) = (Side::client(&path, shared), MADE.get());
        let first = pause(&client);
        for refusal in 0..4_u32 {
            assert_eq!(pause(&client), first * (1 << refusal));
            let connection = greeted(&listener, &mut client);
            let reason = format!("refusal {refusal}");
            connection.send(&Message::disconnect(&reason).bytes(), None).unwrap();
            until_down_by(&mut client, &reason);
        }
        assert_eq!((MADE.get() - made, pause(&client)), (0, first * 16));
        drop(listener);
        let mut server = Side::server_of_lenders(&path);
        until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
        assert_eq!(MADE.get() - made, 1);
        std::thread::sleep(Duration::from_secs(1));
        server.close();
        until_is(&mut client, |client| !client.is_up());
        assert_eq!(pause(&client), first * 2, "after a connection that lasted");
        client.close();
    }
}

/// Its memory is made, and does not come fifty times a second.
#[test]
fn a_client_whose_server_accepts_it_and_goes_waits_longer_each_time() {
    let path = fresh_path();
    let listener = Listener::new(&path).unwrap();
    let (mut client, made) = (Side::client(&path, false), MADE.get());
    let first = pause(&client);
    for round in 1..4_u32 {
        let connection = greeted(&listener, &mut client);
        connection.send(&Message::Ack.bytes(), None).unwrap();
        let (region, file) = hear(&connection, &mut client);
        assert!(matches!(region, Message::AddRegion(_)) && file.is_some(), "{region:?}");
        let reason = format!("end {round}");
        connection.send(&Message::disconnect(&reason).bytes(), None).unwrap();
        until_down_by(&mut client, &reason);
        assert_eq!((MADE.get() - made, pause(&client)), (round, first * (1 << round)));
    }
    client.close();
}

/// Seen: it made and cleared all its shared memory nearly fifty times a second, because CONNECTED ended its longer pause.
#[test]
fn a_client_whose_server_connects_it_and_goes_at_once_waits_longer_each_time() {
    let path = fresh_path();
    let listener = Listener::new(&path).unwrap();
    let mut client = Side::client(&path, false);
    let first = pause(&client);
    // While the machine stands still, a connection lasts.
    let is_longer = (0..20).any(|_| {
        let connection = greeted(&listener, &mut client);
        loop {
            connection.send(&Message::Ack.bytes(), None).unwrap();
            if matches!(hear(&connection, &mut client).0, Message::Connect(_)) {
                break;
            }
        }
        connection.send(&Message::Connected(Text::new("briefly")).bytes(), None).unwrap();
        until_is(&mut client, Side::is_up);
        drop(connection);
        until_is(&mut client, |client| !client.is_up());
        pause(&client) > first * 2
    });
    assert!(is_longer, "{:?}", pause(&client));
    client.close();
}

fn until_is(client: &mut Side, wanted: fn(&Side) -> bool) {
    let end = Instant::now() + LONG;
    while !wanted(client) {
        assert!(Instant::now() < end, "{:?}", client.port);
        client.idle();
    }
}

#[test]
fn a_client_waits_a_second_at_most_and_not_longer_where_no_server_listens() {
    let mut client = Side::client(&fresh_path(), false);
    let first = pause(&client);
    client.port.service();
    client.port.service();
    assert_eq!(pause(&client), first, "no server listens");
    for _ in 0..10 {
        client.port.fault(&Fault::Silent);
    }
    assert_eq!(pause(&client), Duration::from_secs(1));
    client.close();
}
