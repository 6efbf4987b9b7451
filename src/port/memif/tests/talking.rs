//! Tests of which peers may connect, and of what happens when they go.

use super::message::Message;
use super::*;
use crate::sys::seqpacket::Listener;

/// Returns the reasons for which the two sides are down, once both have changed.
fn refused(server: &MemifConfig, client: &MemifConfig, shared: bool) -> (String, String) {
    let path = fresh_path();
    let mut server = Side::open(&path, false, server);
    let nobody = server.reason();
    let mut client = Side::open(&path, shared, client);
    let first = client.reason();
    until(&mut server, &mut client, |server, client| server.reason() != nobody && client.reason() != first);
    let reasons = (server.reason(), client.reason());
    server.close();
    client.close();
    reasons
}

#[test]
fn a_client_that_may_not_connect_gets_the_reason() {
    let client = || MemifConfig { ring: 64, ..MemifConfig::default() };
    let secret = |text: &str, config: MemifConfig| MemifConfig { secret: text.into(), ..config };
    for (server, client, reason) in [
        (server_config(), MemifConfig { id: 7, ..client() }, "there is no interface with id 7"),
        (secret("sesame", server_config()), client(), "wrong secret"),
        (secret("sesame", server_config()), secret("sesam", client()), "wrong secret"),
    ] {
        let (at_server, at_client) = refused(&server, &client, true);
        assert_eq!(at_server, reason);
        assert_eq!(at_client, format!("the peer ended it: {reason}"));
    }
}

#[test]
fn a_secret_is_not_printed() {
    let config = MemifConfig { secret: "sesame".into(), ..MemifConfig::default() };
    assert!(!format!("{config:?}").contains("sesame"));
}

#[test]
fn a_client_that_knows_the_secret_is_let_in() {
    let path = fresh_path();
    let secret = |config: MemifConfig| MemifConfig { secret: "open sesame".into(), id: 9, ..config };
    let mut server = Side::open(&path, false, &secret(server_config()));
    let mut client = Side::open(&path, false, &secret(MemifConfig::default()));
    until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
    assert_eq!(server.port.peer(), Some(NAME));
    server.close();
    client.close();
}

#[test]
fn fewer_queues_and_smaller_rings_are_agreed_on() {
    let path = fresh_path();
    let mut server = Side::open(&path, false, &MemifConfig { queues: 2, ..server_config() });
    let mut client = Side::open(&path, false, &MemifConfig { queues: 3, ..MemifConfig::default() });
    until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
    assert_eq!((server.port.queues(), client.port.queues()), (2, 2));
    server.close();
    client.close();
}

#[test]
fn a_client_finds_the_next_server_and_a_server_the_next_client() {
    for shared in [true, false] {
        let path = fresh_path();
        let mut server = Side::server_of_lenders(&path);
        let mut client = Side::client(&path, shared);
        for _ in 0..4 {
            until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
            server.idle();
            client.idle();
            client.send(&[vec![1; 60], vec![2; 60]]);
            assert_eq!(server.receive().len(), 2);
            client.send(&[vec![3; 60]]);
            server.close();
            let end = Instant::now() + LONG;
            while client.is_up() {
                assert!(Instant::now() < end);
                client.idle();
            }
            assert_eq!(client.reason(), "the peer ended it: the port is closed");
            assert_eq!(client.complete(), 3, "frames come back though nobody read the last one");
            assert_eq!(client.send(&[vec![4; 60]]), 0);
            server = Side::server_of_lenders(&path);
        }
        for _ in 0..4 {
            until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
            server.idle();
            server.send(&[vec![1; 60]]);
            client.close();
            let end = Instant::now() + LONG;
            while server.is_up() {
                assert!(Instant::now() < end);
                server.idle();
            }
            assert_eq!(server.complete(), 1);
            client = Side::client(&path, shared);
        }
        server.close();
        client.close();
    }
}

#[test]
fn a_second_client_is_refused_with_the_reason() {
    let path = fresh_path();
    let (mut server, mut first) = (Side::server_of_lenders(&path), Side::client(&path, true));
    until(&mut server, &mut first, |server, client| server.is_up() && client.is_up());
    let mut second = Side::client(&path, true);
    until(&mut server, &mut second, |_, second| second.reason().contains("somebody is connected already"));
    server.idle();
    first.idle();
    assert!(server.is_up() && first.is_up());
    server.close();
    first.close();
    second.close();
}

#[test]
fn impossible_settings_are_refused_with_the_remedy() {
    let memory = Memory::new(&MemoryConfig { bytes: 2 << 20, ..MemoryConfig::default() }).unwrap();
    let config = MemifConfig::default;
    let refused = |path: &Path, config: &MemifConfig| MemifPort::open(path, &memory, config).unwrap_err();
    let path = fresh_path();
    for ring in [0, 1, 3, 1 << 15] {
        assert_eq!(refused(&path, &MemifConfig { ring, ..config() }), MemifError::RingSize(ring));
    }
    for queues in [0, 17] {
        let error = refused(&path, &MemifConfig { queues, ..config() });
        assert_eq!(error, MemifError::Queues { queues, most: 16 });
    }
    let secret = "twenty-four bytes at all".to_owned();
    assert_eq!(refused(&path, &MemifConfig { secret, ..config() }), MemifError::Secret(24));
    let long = PathBuf::from("/".repeat(108));
    for path in [&long, Path::new("")] {
        assert_eq!(refused(path, &config()), MemifError::Path { path: path.into() });
    }
    let nowhere = Path::new("/no/such/folder/memif.sock");
    let error = refused(nowhere, &MemifConfig { role: Role::Server, ..config() });
    assert!(error.to_string().contains("make its folder first"), "{error}");
    let _server = Side::server(&path);
    let error = refused(&path, &MemifConfig { role: Role::Server, ..config() });
    assert!(error.to_string().contains("another process listens there already"), "{error}");
}

#[test]
fn a_client_waits_for_a_server_that_closes_the_connection_and_refuses_it_at_first() {
    let path = fresh_path();
    let mut client = Side::client(&path, true);
    assert!(!client.port.wait(LONG), "nobody listens, and nobody waits");
    // Seen: this panicked.
    assert!(!client.port.wait(Duration::MAX));
    let listener = Listener::new(&path).unwrap();
    let server = std::thread::spawn(move || {
        for refuses in [false, true, true] {
            let connection = loop {
                match listener.accept() {
                    Some(connection) => break connection,
                    None => std::thread::yield_now(),
                }
            };
            if refuses {
                connection.send(&Message::disconnect("not yet").bytes(), None).unwrap();
            }
        }
        drop(listener);
        let mut server = Side::server_of_lenders(&path);
        while !server.is_up() {
            server.idle();
        }
        server
    });
    let end = Instant::now() + LONG;
    while !client.port.wait(LONG) {
        assert!(Instant::now() < end);
        client.idle();
    }
    // If the client closed at once, the server might not have seen that it was up.
    let server = server.join().unwrap();
    client.close();
    server.close();
}

/// Seen: a program that kicked its port every 50 ms waited for over a minute, and was told that no process listened.
#[test]
fn ports_that_are_kicked_now_and_then_meet_within_a_few_rounds() {
    let path = fresh_path();
    let (mut server, mut client) = (Side::server(&path), Side::client(&path, false));
    let mut rounds = 0;
    while !(server.is_up() && client.is_up()) {
        // A thread may take any time.
        rounds += i32::from(!server.port.conversation.is_mapping());
        assert!(rounds < 64, "{:?} and {:?}", server.port, client.port);
        assert!(!client.reason_or_up().contains("no process listens"), "{}", client.reason());
        std::thread::sleep(Duration::from_millis(2));
        server.port.kick();
        client.port.kick();
    }
    server.close();
    client.close();
}

/// Seen: a program whose rounds took 50 ms noticed only after minutes that its peer had gone.
#[test]
fn a_port_that_is_kicked_now_and_then_sees_within_a_few_rounds_that_its_peer_is_gone() {
    let path = fresh_path();
    let (mut server, mut client) = (Side::server(&path), Side::client(&path, false));
    until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
    server.close();
    let mut rounds = 0;
    while client.is_up() {
        rounds += 1;
        assert!(rounds < 200, "{:?}", client.port);
        std::thread::sleep(Duration::from_millis(50));
        client.port.kick();
    }
    client.close();
}
