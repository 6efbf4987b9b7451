//! What every port promises, whatever is behind it, checked after every step of sequences of calls.

use crate::page::{Memory, MemoryConfig};
use crate::pool::{Batch, Pool, PoolConfig};
use crate::port::{Port, PortState};
use crate::sync::Worker;
use crate::sys::region::BackingWish;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::any::Any;
use std::num::NonZeroU32;

/// Frames of the pool.
const FRAMES: usize = 256;

#[derive(Debug, Clone)]
enum Step {
    Refill(usize),
    Fill(usize),
    Rx,
    Tx(usize),
    Complete,
    Kick,
    Free,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_usize..80).prop_map(Step::Refill),
        (0_usize..65).prop_map(Step::Fill),
        Just(Step::Rx),
        (0_usize..65).prop_map(Step::Tx),
        Just(Step::Complete),
        Just(Step::Kick),
        Just(Step::Free),
    ]
}

/// A memory with a worker and a pool.
pub(in crate::port) struct Ground {
    pub(in crate::port) w: Worker,
    pub(in crate::port) pool: Pool,
    _memory: Memory,
}

/// A memory with a pool of so many frames, each with at least 1,518 bytes of room.
pub(in crate::port) fn ground(frames: usize) -> Ground {
    let config =
        MemoryConfig { bytes: 2 << 20, workers: 1, backing: BackingWish::Small, ..MemoryConfig::default() };
    let memory = Memory::new(&config).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames, ..PoolConfig::default() }).unwrap();
    Ground { w, pool, _memory: memory }
}

/// Checks the promises on the ports that `open` opens, a new one for each sequence; with each comes what it needs to
/// stay alive.
///
/// # Panics
/// When one is broken.
pub(in crate::port) fn are_kept(mut open: impl FnMut(&Pool) -> (Box<dyn Port>, Box<dyn Any>)) {
    let mut runner = TestRunner::new(ProptestConfig { cases: 48, ..ProptestConfig::default() });
    let steps = proptest::collection::vec(step(), 1..60);
    // A port may be opened only once at a time, so the cell.
    let open = std::cell::RefCell::new(&mut open);
    runner
        .run(&steps, |steps| {
            let mut ground = ground(FRAMES);
            let (port, device) = open.borrow_mut()(&ground.pool);
            walk(&mut ground, port, &steps);
            drop(device);
            let ledger = ground.pool.ledger();
            assert!(ledger.all_home() && ledger.posted == 0 && ledger.owned == 0, "{ledger:?}");
            Ok(())
        })
        .unwrap();
}

/// Makes the calls, and checks after each; drops the port at the end.
fn walk(Ground { w, pool, .. }: &mut Ground, mut port: Box<dyn Port>, steps: &[Step]) {
    assert!(port.name().starts_with(port.kind()), "{} is no {}", port.name(), port.kind());
    assert_eq!(port.state(), PortState::Up);
    let mut held = Batch::new();
    let (mut received, mut sent, mut completed, mut filled) = (0, 0, 0, 0);
    for step in steps {
        match *step {
            Step::Refill(most) => filled += port.refill_to(w, pool, most),
            Step::Fill(n) => filled += give(w, pool, n, |w, frames| port.fill(w, frames)),
            Step::Rx => received += take(&mut held, |frames| port.rx(w, frames)),
            Step::Tx(n) => sent += give(w, pool, n, |w, frames| port.tx(w, frames)),
            Step::Complete => completed += take(&mut held, |frames| port.complete(w, frames)),
            Step::Kick => port.kick(),
            Step::Free => held.free(w),
        }
        let counters = port.counters();
        let counted =
            [&counters.rx, &counters.tx, &counters.completed, &counters.filled].map(|c| c.get() as usize);
        assert_eq!(counted, [received, sent, completed, filled], "{step:?}");
        assert_eq!(sent - completed, port.in_flight(), "{step:?}");
        let ledger = pool.ledger();
        assert!(ledger.balanced(), "{step:?}: {ledger:?}");
    }
    drop((port, held));
}

/// Offers `n` frames; what is not taken stays, in order, and goes home.
fn give(w: &mut Worker, pool: &Pool, n: usize, to: impl FnOnce(&mut Worker, &mut Batch) -> usize) -> usize {
    let mut frames = Batch::new();
    pool.alloc_burst(w, &mut frames, n);
    for frame in frames.iter_mut() {
        frame.put(60).unwrap().fill(7);
    }
    let ids = ids(&frames);
    let taken = to(w, &mut frames);
    assert_eq!(self::ids(&frames), ids[taken..], "what was not taken is the caller's, in order");
    frames.free(w);
    taken
}

/// Takes frames behind those held; returns how many.
fn take(held: &mut Batch, from: impl FnOnce(&mut Batch) -> usize) -> usize {
    let before = ids(held);
    let n = from(held);
    let after = ids(held);
    assert_eq!((&after[..before.len()], after.len() - before.len()), (&before[..], n));
    n
}

fn ids(frames: &Batch) -> Vec<NonZeroU32> {
    frames.iter().map(|frame| frame.id()).collect()
}
