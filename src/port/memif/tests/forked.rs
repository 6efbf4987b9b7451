//! Tests of a port in a child of the process that opened it.

use super::*;
use crate::port::{Fill, Rx, Wake};
use crate::sys::fork::in_child;

/// Makes every call of the port. None must have an effect.
fn touch(side: &mut Side) {
    let mut batch = Batch::new();
    // Seen: as the first call, this read a ring that is not mapped in the child.
    assert_eq!(side.port.tx_unread(), 0);
    assert!(side.reason().contains("open a port after fork(2)"), "{}", side.reason());
    assert_eq!(side.send(&[vec![1; 60]]), 0);
    assert!(side.receive().is_empty());
    assert_eq!((side.complete(), side.port.fill_room(), side.port.rx_pending()), (0, 0, Some(0)));
    assert_eq!(side.port.rx(&mut side.w, &mut batch), 0);
    side.port.kick();
    side.port.disarm();
    assert!(!side.port.arm() && !side.port.wait(LONG));
    assert_eq!(side.port.close(), 0);
}

/// Seen with AF_XDP: the child's first poll ended the child with SIGSEGV.
#[test]
fn in_a_child_a_port_is_down_with_the_reason_and_the_parents_goes_on() {
    for shared in [true, false] {
        let (mut server, mut client) = connected(shared);
        client.send(&[vec![1; 60], vec![2; 60]]);
        assert!(in_child(|| {
            let seen = [&server, &client].map(|side| (side.port.peer().is_some(), side.port.queues()));
            assert_eq!(seen, [(false, 0); 2], "before any call that gives the rings up");
            touch(&mut server);
            touch(&mut client);
            // A port that is dropped without a call before.
            drop((server.port, client.port));
        }));
        let (mut server, mut client) = connected(shared);
        let before = server.port.name().to_owned();
        assert!(in_child(|| {
            touch(&mut server);
            touch(&mut client);
            drop(MemifPort::open(&fresh_path(), &server._memory, &server_config()).unwrap());
        }));
        assert!(before.strip_prefix("memif:").is_some_and(|path| Path::new(path).exists()), "{before}");
        client.send(&[vec![3; 60]]);
        assert_eq!(server.receive(), [[3; 60]]);
        assert_eq!(server.send(&[vec![4; 60]]), 1);
        assert_eq!(client.receive(), [[4; 60]]);
        server.complete();
        client.complete();
        server.close();
        client.close();
    }
}
