//! The caller's code runs when frames are freed, and may panic: the port serves the next peer, and counts every frame.

use super::traffic::until_down;
use super::*;
use crate::pool::tests::panics::{next_page_home_panics, panics};

/// Returns a server whose peer is gone. It has sent a frame of a closed pool and two of its own. The first one's free
/// runs code of the caller, which panics.
fn about_to_panic(path: &Path) -> Side {
    let (mut server, mut client) = (Side::server(path), Side::client(path, false));
    until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
    let closing = Pool::new(&server._memory, &mut server.w, &PoolConfig::default()).unwrap();
    let mut frames = Batch::new();
    closing.alloc_burst(&mut server.w, &mut frames, 1);
    closing.close();
    server.pool.alloc_burst(&mut server.w, &mut frames, 2);
    frames.iter_mut().for_each(|frame| frame.put(60).unwrap().fill(7));
    assert_eq!(server.port.tx(&mut server.w, &mut frames), 3);
    drop(client);
    until_down(&mut server);
    next_page_home_panics(&server._memory);
    server
}

/// Found in a review: the port was up, and had no rings.
#[test]
fn a_peer_that_comes_when_the_callers_code_panics_is_served() {
    let path = fresh_path();
    let mut server = about_to_panic(&path);
    let mut next = Side::client(&path, false);
    let end = Instant::now() + LONG;
    while !panics(|| server.idle()) {
        assert!(Instant::now() < end, "nothing panicked");
        next.idle();
    }
    assert!(server.is_up());
    until(&mut server, &mut next, |server, next| server.is_up() && next.is_up());
    server.idle();
    assert_eq!(next.send(&[vec![7; 60]]), 1);
    assert_eq!(server.receive(), [vec![7; 60]]);
    server.close();
    next.close();
}

/// Found in a review: the frames that had been sent were not counted as completed.
#[test]
fn a_close_in_which_the_callers_code_panics_counts_and_frees_every_frame() {
    let mut server = about_to_panic(&fresh_path());
    assert!(panics(|| _ = server.port.close()));
    server.close();
}
