//! Tests of which queues get frames if a port may have fewer than its rings have slots.

use super::traffic::{packet, until_down};
use super::*;
use crate::steer::tx_queue;

/// Opens a port with this number of queues.
fn with_queues(path: &Path, shared: bool, role: Role, queues: u16) -> Side {
    Side::open(path, shared, &of_lenders(MemifConfig { role, queues, ring: 64, ..MemifConfig::default() }))
}

/// Lets two sides connect. Neither posts a frame.
fn connect(a: &mut Side, b: &mut Side) {
    let end = Instant::now() + LONG;
    while !(a.is_up() && b.is_up()) {
        assert!(Instant::now() < end, "{:?} and {:?}", a.port, b.port);
        a.port.service();
        b.port.service();
    }
}

/// Tops a side up to `most` frames. Returns the number of frames that each of its queues has then.
fn refill_to(side: &mut Side, most: usize) -> Vec<usize> {
    side.port.refill_to(&mut side.w, &side.pool, most);
    side.port.pairs.iter().map(|pair| pair.filled.len()).collect()
}

/// Sends `each` packets on each queue. Returns the number of packets that arrive. No frame is posted in between.
fn delivered(from: &mut Side, to: &mut Side, each: u8) -> usize {
    let queues = from.port.queues() as u16;
    for queue in 0..queues {
        let queue_of = |flow| tx_queue(None, from.port.toeplitz.flow(&packet(flow, 0), 0), queues);
        let flow = (0..=u8::MAX).find(|&flow| queue_of(flow) == queue).expect("a flow of each queue");
        let packets: Vec<_> = (0..each).map(|number| packet(flow, number)).collect();
        assert_eq!(from.send(&packets), packets.len(), "queue {queue}");
    }
    let (mut batch, mut arrived) = (Batch::new(), 0);
    loop {
        match to.port.rx(&mut to.w, &mut batch) {
            0 => return arrived,
            n => arrived += n,
        }
        batch.free(&mut to.w);
    }
}

/// Seen: of eight queues, the first four had all frames that the forwarder let their port have. Packets of the flows of
/// the other four were never received, and no counter showed it.
#[test]
fn each_queue_gets_frames_and_receives_if_the_first_ones_could_take_all() {
    for (receiver, shared) in [(Role::Client, true), (Role::Client, false), (Role::Server, false)] {
        let path = fresh_path();
        let mut server = with_queues(&path, false, Role::Server, 4);
        let mut client = with_queues(&path, shared, Role::Client, 4);
        connect(&mut server, &mut client);
        let (from, to) =
            if receiver == Role::Client { (&mut server, &mut client) } else { (&mut client, &mut server) };
        assert_eq!(to.port.fill_room(), 4 * 64);
        assert_eq!(refill_to(to, 3), [1, 1, 1, 0]);
        assert_eq!(refill_to(to, 4), [1; 4]);
        for _ in 0..3 {
            assert_eq!(refill_to(to, 128), [32; 4]);
            assert_eq!(delivered(from, to, 20), 4 * 20);
        }
        assert_eq!(refill_to(to, usize::MAX), [64; 4]);
        server.close();
        client.close();
    }
}

#[test]
fn the_emptiest_queue_gets_the_next_frames_and_the_fullest_none() {
    let path = fresh_path();
    let mut server = with_queues(&path, false, Role::Server, 4);
    let mut client = with_queues(&path, false, Role::Client, 4);
    connect(&mut server, &mut client);
    for (posted, most, after) in [
        ([0, 0, 0, 40], 43, [1, 1, 1, 40]),
        ([0, 0, 0, 40], 64, [8, 8, 8, 40]),
        ([20, 0, 10, 40], 90, [20, 15, 15, 40]),
        ([0, 64, 64, 64], 200, [8, 64, 64, 64]),
        ([16, 16, 15, 16], 64, [16; 4]),
    ] {
        for (pair, n) in server.port.pairs.iter_mut().zip(posted) {
            drop(pair.filled.split_off(0));
            if n == 0 {
                continue;
            }
            let mut frames = Batch::new();
            assert_eq!(server.pool.alloc_burst(&mut server.w, &mut frames, n), n);
            pair.filled.post(&server.w, &mut frames, n);
        }
        assert_eq!(refill_to(&mut server, most), after, "{posted:?} to {most}");
    }
    server.close();
    client.close();
}

/// Seen: a port had all its frames on the one queue of its first peer, and the next peer had four queues. Three of them
/// got no frame until packets arrived on the first.
#[test]
fn the_next_peers_queues_get_frames_though_the_last_peer_had_other_queues() {
    for (role, shared) in [(Role::Client, true), (Role::Client, false), (Role::Server, false)] {
        let of_peer = if role == Role::Client { Role::Server } else { Role::Client };
        for (before, filled, after, refilled) in [
            (1, [64, 0, 0, 0], 4, [16; 4]),
            (4, [16; 4], 1, [64, 0, 0, 0]),
            (4, [16; 4], 2, [32, 32, 0, 0]),
            (3, [22, 21, 21, 0], 3, [22, 21, 21, 0]),
        ] {
            let path = fresh_path();
            let mut port = with_queues(&path, shared, role, 4);
            let mut peer = with_queues(&path, false, of_peer, before);
            connect(&mut port, &mut peer);
            assert_eq!(refill_to(&mut port, 64), filled, "{role:?}, {before} queues");
            peer.close();
            until_down(&mut port);
            let mut peer = with_queues(&path, false, of_peer, after);
            connect(&mut port, &mut peer);
            assert_eq!(refill_to(&mut port, 64), refilled, "{role:?}, {before} queues, then {after}");
            assert_eq!(delivered(&mut peer, &mut port, 12), 12 * usize::from(after));
            port.close();
            peer.close();
        }
    }
}
