//! Tests that no port carries a byte of an earlier packet together with a shorter one.

use super::promises::shared_fixture;
use crate::pool::Batch;
use crate::port::Port;
use crate::port::conformance::{Fixture, Peer};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Number of frames of the pool.
const FRAMES: usize = 128;
/// Number of marker frames each way before the first runt: more than any ring of these tests has.
const MARKERS: usize = 256;
/// Bytes of a marker.
const LONG: usize = 1500;
/// Bytes of the longest runt: the smallest Ethernet frame without its checksum.
pub const LONGEST: usize = 60;
/// The byte that fills markers, and that no runt has.
const MARK: u8 = 0xee;
/// Only guards against a hang.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns a frame that fills the whole frame it lies in.
pub fn marker() -> Vec<u8> {
    vec![MARK; LONG]
}

/// Returns the first `len` bytes of a frame that has its length in each byte behind its header.
pub fn runt(len: usize) -> Vec<u8> {
    let mut bytes = vec![2, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 0x88, 0xb5];
    bytes.resize(LONGEST, len as u8);
    bytes.truncate(len);
    bytes
}

/// The runts that were seen, by their lengths.
#[derive(Debug)]
pub struct Seen([bool; LONGEST + 1]);

impl Seen {
    pub fn new() -> Seen {
        Seen([false; LONGEST + 1])
    }

    /// Records a frame that came.
    ///
    /// # Panics
    /// Panics if it is neither a marker nor a runt, alone or with zeros behind it.
    pub fn see(&mut self, bytes: &[u8]) {
        if bytes == marker() {
            return;
        }
        let is = |len: &usize| {
            let (own, behind) = bytes.split_at_checked(*len).unwrap_or((&[], &[1]));
            own == runt(*len) && behind.iter().all(|byte| *byte == 0)
        };
        let len = (1..=LONGEST).rev().find(is);
        assert!(len.is_some(), "{} bytes that nobody sent: {bytes:x?}", bytes.len());
        self.0[len.unwrap_or_default()] = true;
    }

    pub fn has(&self, len: usize) -> bool {
        self.0[len]
    }
}

/// A port that frames go through both ways.
struct Passage {
    here: Fixture,
    port: Box<dyn Port>,
    peer: Box<dyn Peer>,
    /// The frames that came to each side.
    seen: Seen,
    seen_far: Seen,
}

/// Checks that no byte of a marker comes with a runt, out of the port that `open` opens or into it. Runts have all
/// lengths from 1 byte on. Those of `least` bytes or more must all come.
///
/// # Panics
/// Panics if such a byte comes, or a runt does not come.
pub fn come_alone(least: usize, open: impl FnOnce(&mut Fixture) -> (Box<dyn Port>, Box<dyn Peer>)) {
    let mut here = shared_fixture(FRAMES);
    let (port, peer) = open(&mut here);
    let mut passage = Passage { here, port, peer, seen: Seen::new(), seen_far: Seen::new() };
    for _ in 0..MARKERS {
        passage.pass(&marker());
    }
    for len in 1..=LONGEST {
        let end = Instant::now() + PATIENCE;
        loop {
            passage.pass(&marker());
            passage.pass(&runt(len));
            (0..20).for_each(|_| passage.pump());
            if len < least || (passage.seen.has(len) && passage.seen_far.has(len)) {
                break;
            }
            assert!(Instant::now() < end, "{len} bytes: {:?}, {:?}", passage.seen, passage.seen_far);
            yield_now();
        }
    }
    let Passage { here, port, peer, .. } = passage;
    drop((port, peer));
    let ledger = here.pool.ledger();
    assert!(ledger.all_freed() && ledger.balanced(), "{ledger:?}");
}

impl Passage {
    /// Sends a frame each way: out of the port in a frame that was full of markers and was then truncated.
    fn pass(&mut self, bytes: &[u8]) {
        let Fixture { w, pool, .. } = &mut self.here;
        let mut batch = Batch::new();
        if let Some(mut frame) = pool.alloc(w) {
            frame.put(LONG).unwrap().fill(MARK);
            frame.trim(0).unwrap();
            frame.put(bytes.len()).unwrap().copy_from_slice(bytes);
            batch.push(frame).unwrap();
        }
        self.port.tx(w, &mut batch);
        batch.free(w);
        self.peer.deliver(bytes);
        self.pump();
    }

    /// Takes the frames that came to both sides.
    fn pump(&mut self) {
        let Fixture { w, pool, .. } = &mut self.here;
        let mut batch = Batch::new();
        self.port.refill_to(w, pool, FRAMES / 2);
        self.port.kick();
        self.port.rx(w, &mut batch);
        batch.iter().for_each(|frame| self.seen.see(frame.data()));
        batch.free(w);
        for bytes in self.peer.collect().into_iter().flatten() {
            self.seen_far.see(&bytes);
        }
        self.port.complete(w, &mut batch);
        batch.free(w);
    }
}
