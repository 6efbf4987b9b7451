//! Tests of servers that cannot accept a peer, and of ports that cannot watch theirs.

use super::hand::{Hand, serves};
use super::*;
use crate::sys::event::{Event, sleep_until_readable};
use crate::sys::poor::in_poor_process;
use crate::sys::seqpacket::{Connection, Listener};
use std::sync::{Mutex, MutexGuard};
use std::thread;

/// Its drop waits while a thread has the lock, as a close waits for a peer.
struct Waits(Arc<Mutex<()>>);

impl Drop for Waits {
    fn drop(&mut self) {
        drop(self.0.lock());
    }
}

fn listener(server: &Side) -> &Listener {
    match &server.port.conversation {
        Conversation::Server(server) => server.listener(),
        Conversation::Client(_) => panic!("a client does not listen"),
    }
}

/// Has former peers of the server leave as much as keeps new ones out, until the guard is dropped.
fn refuse_peers<'a>(server: &Side, lock: &'a Arc<Mutex<()>>) -> MutexGuard<'a, ()> {
    let held = lock.lock().unwrap();
    (0..64).for_each(|_| listener(server).leave(Waits(Arc::clone(lock))));
    assert!(listener(server).refuses_peers());
    held
}

fn is_woken(side: &Side) -> bool {
    side.port.wakeup_fd().is_some_and(|fd| sleep_until_readable(&[fd], Duration::ZERO))
}

/// Seen: the peer that waited in the backlog ended each sleep at once.
#[test]
fn a_server_that_accepts_nobody_is_not_woken_by_those_that_wait() {
    let path = fresh_path();
    let (mut server, lock) = (Side::server(&path), Arc::default());
    let held = refuse_peers(&server, &lock);
    let waits = Hand::new(&path);
    for _ in 0..3 {
        assert!(!server.port.arm() && !is_woken(&server));
        server.port.disarm();
    }
    assert!(server.reason().contains("no peer is accepted until"), "{}", server.reason());
    assert!(server.port.wakeup_fd().is_none(), "no event ends this");
    drop(held);
    // Some of it would still count beside what the next clients leave.
    while listener(&server).left() > 0 {
        thread::yield_now();
    }
    assert!(waits.hear(&mut server).is_some());
    assert!(!server.port.arm() && server.port.wakeup_fd().is_some());
    server.port.disarm();
    drop(waits);
    serves(&mut server, &path);
    server.close();
}

/// Takes all descriptors that this process may still have.
fn all_descriptors() -> Vec<Event> {
    std::iter::from_fn(|| Event::new().ok()).collect()
}

/// Seen: clients waited five seconds in vain, and the server said that none had connected.
#[test]
fn a_server_without_a_descriptor_for_its_peer_says_how_to_get_more() {
    let test = "a_server_without_a_descriptor_for_its_peer_says_how_to_get_more";
    in_poor_process(module_path!(), test, || {
        let path = fresh_path();
        let mut server = Side::server(&path);
        let waits = Connection::open(&path).unwrap();
        let all = all_descriptors();
        for _ in 0..3 {
            assert!(!server.port.arm() && !is_woken(&server));
            server.port.disarm();
        }
        assert!(server.reason().contains("ulimit -n"), "{}", server.reason());
        drop((all, waits));
        serves(&mut server, &path);
        server.close();
    });
}

/// Seen: no packet woke the port until its next peer came, and nothing said so.
#[test]
fn a_port_without_a_descriptor_to_watch_its_peer_says_so_and_tries_again_with_each_sleep() {
    let test = "a_port_without_a_descriptor_to_watch_its_peer_says_so_and_tries_again_with_each_sleep";
    in_poor_process(module_path!(), test, || {
        let (mut server, mut client) = connected(false);
        let all = all_descriptors();
        client.port.watch_anew();
        assert!(!client.port.arm() && client.port.wakeup_fd().is_none(), "no event would make it readable");
        client.port.disarm();
        let complaint = client.port.complaint().unwrap_or_default();
        assert!(complaint.contains("ulimit -n"), "{complaint}");
        drop(all);
        assert!(!client.port.arm() && !is_woken(&client));
        server.send(&[vec![1; 60]]);
        server.port.kick();
        assert!(is_woken(&client));
        client.port.disarm();
        assert_eq!((client.port.complaint(), client.receive().len()), (None, 1));
        server.complete();
        server.close();
        client.close();
    });
}

/// Seen: a counter said that the peer had been woken, once for each round in which it could not be.
#[test]
fn a_peer_that_cannot_be_woken_is_not_counted_as_woken_and_the_port_says_so() {
    let (mut server, mut client) = connected(false);
    assert!(!server.port.arm());
    client.port.ringer.destroy();
    let kicks = client.port.counters();
    let before = kicks.kicks.get();
    client.send(&[vec![1; 60]]);
    (0..10).for_each(|_| client.port.kick());
    assert_eq!(kicks.kicks.get(), before);
    let complaint = client.port.complaint().unwrap_or_default();
    assert!(complaint.contains("Invalid argument"), "{complaint}");
    client.port.ringer = Ringer::new().unwrap();
    client.port.kick();
    assert_eq!((kicks.kicks.get(), client.port.complaint()), (before + 1, None));
    server.port.disarm();
    assert_eq!(server.receive().len(), 1);
    client.complete();
    server.close();
    client.close();
}
