//! Tests of a port that is written outside of the crate, with the promises of all ports.

// Its `main` is the program's.
#[allow(dead_code)]
#[path = "../examples/zero_copy_port.rs"]
mod zero_copy_port;

use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::port::conformance::{Peer, check};
use netmem::port::mem::{MemConfig, MemPort};
use netmem::port::wrap::WrapPort;
use netmem::port::{Complete, Fill, Port, PortState, Posted, Rx, Tx};
use netmem::wire::offload::{Offload, PartialChecksum};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use zero_copy_port::{Card, CardPort};

/// The card, played by the test.
struct Network(Arc<Mutex<Card>>);

impl Peer for Network {
    fn deliver(&mut self, frame: &[u8]) {
        // If no frame is posted the packet is lost, as with a network card.
        let _ = self.0.lock().expect("the card").receive(frame);
    }

    fn collect(&mut self) -> Option<Vec<Vec<u8>>> {
        let mut card = self.0.lock().expect("the card");
        Some(std::iter::from_fn(|| card.send().map(<[u8]>::to_vec)).collect())
    }
}

#[test]
fn a_zero_copy_port_of_another_crate_keeps_the_promises_of_all_ports() {
    check(|_| {
        let port = CardPort::default();
        let network = Network(Arc::clone(&port.0));
        (Box::new(port), Box::new(network))
    });
}

/// A port around another one that changes nothing.
struct Plain<P>(P);

impl<P: Port> WrapPort for Plain<P> {
    fn within(&self) -> &dyn Port {
        &self.0
    }

    fn within_mut(&mut self) -> &mut dyn Port {
        &mut self.0
    }
}

#[test]
fn a_port_around_another_one_keeps_the_promises_of_all_ports() {
    check(|_| {
        let port = CardPort::default();
        let network = Network(Arc::clone(&port.0));
        (Box::new(Plain(port)), Box::new(network))
    });
}

/// Seen: each test with a port around another one had to repeat all operations, and lost those that it did not repeat.
#[test]
fn what_a_port_around_another_one_does_not_change_is_the_inner_ports() {
    let memory = Memory::new(&MemoryConfig { bytes: 2 << 20, ..MemoryConfig::default() }).expect("memory");
    let mut w = memory.worker().expect("a worker");
    let pool =
        Pool::new(&memory, &mut w, &PoolConfig { frames: 8, ..PoolConfig::default() }).expect("a pool");
    let (within, mut device) = MemPort::pair("0", &MemConfig { ring: 4, coalesce: 1 }).expect("a wire");
    let mut port: Box<dyn Port> = Box::new(Plain(within));
    assert_eq!((port.name(), port.kind()), ("mem:0", "mem"));
    assert_eq!((port.fill_room(), port.refill(&mut w, &pool), port.lacks_frames(8)), (4, 4, false));
    assert!(port.own_pool().is_none() && port.takes_frames_of(&pool) && port.can_refill_from(&pool));
    assert!(!port.arm() && port.wakeup_fd().is_some());
    device.deliver(3, |_| 60);
    port.disarm();
    assert_eq!((port.rx_posted(), port.rx_finished()), (4, false));
    let mut frames = Batch::new();
    assert_eq!(port.rx(&mut w, &mut frames), 3);
    assert_eq!((port.tx(&mut w, &mut frames), port.tx_posted(), port.can_retry_tx()), (3, 3, true));
    device.collect(3, |_| ());
    assert_eq!(port.complete(&mut w, &mut frames), 3);
    assert_eq!((port.counters().rx.get(), port.counters().completed.get()), (3, 3));
    assert_eq!(port.state(), PortState::Up);
    drop(device);
    port.kick();
    assert!(matches!(port.state(), PortState::Down(_)));
}

/// Seen: frames with a port that was written outside of the crate were `owned` in the ledger.
#[test]
fn frames_with_a_port_of_another_crate_are_counted_as_posted() {
    let memory = Memory::new(&MemoryConfig { bytes: 2 << 20, ..MemoryConfig::default() }).expect("memory");
    let mut w = memory.worker().expect("a worker");
    let pool =
        Pool::new(&memory, &mut w, &PoolConfig { frames: 128, ..PoolConfig::default() }).expect("a pool");
    let mut port = CardPort::default();
    let card = Arc::clone(&port.0);
    assert_eq!(port.refill(&mut w, &pool), 64);
    let mut frames = Batch::new();
    pool.alloc_burst(&mut w, &mut frames, 8);
    assert_eq!(port.tx(&mut w, &mut frames), 8);
    let ledger = pool.ledger();
    assert!(ledger.balanced() && (ledger.posted, ledger.owned) == (72, 0), "{ledger:?}");
    let sent = card.lock().expect("the card").send().map(<[u8]>::len);
    assert_eq!((sent, port.complete(&mut w, &mut frames)), (Some(0), 1));
    let ledger = pool.ledger();
    assert!(ledger.balanced() && (ledger.posted, ledger.owned) == (71, 1), "{ledger:?}");
    drop((port, card, frames));
    assert!(pool.ledger().all_freed());
}

/// Seen: the example sent packets whose checksum was left to it, and which it did not complete.
#[test]
fn frames_with_open_offload_work_are_counted_and_stay_in_the_batch() {
    let memory = Memory::new(&MemoryConfig { bytes: 2 << 20, ..MemoryConfig::default() }).expect("memory");
    let mut w = memory.worker().expect("a worker");
    let pool =
        Pool::new(&memory, &mut w, &PoolConfig { frames: 8, ..PoolConfig::default() }).expect("a pool");
    let mut port = CardPort::default();
    let mut frames = Batch::new();
    pool.alloc_burst(&mut w, &mut frames, 3);
    frames.put_each(60, |_, bytes| bytes.fill(1));
    let checksum = Some(PartialChecksum { start: 34, offset: 6 });
    frames[0].set_offload(Offload { checksum, ..Offload::default() }).expect("headroom");
    assert_eq!((port.tx(&mut w, &mut frames), frames.len(), port.tx_posted()), (2, 1, 2));
    assert_eq!((port.counters().tx_invalid.get(), port.counters().tx.get()), (1, 2));
    assert_eq!((port.take_unsendable(&mut frames).len(), frames.len()), (1, 0));
    drop(port);
    assert!(pool.ledger().all_freed());
}

/// Seen: the two rings were counted under one lock each. A frame that the card moved in between counted twice, and the
/// room was less than nothing.
#[test]
fn a_frame_that_the_card_moves_during_the_count_is_counted_once() {
    let memory = Memory::new(&MemoryConfig { bytes: 2 << 20, ..MemoryConfig::default() }).expect("memory");
    let mut w = memory.worker().expect("a worker");
    let pool =
        Pool::new(&memory, &mut w, &PoolConfig { frames: 128, ..PoolConfig::default() }).expect("a pool");
    let mut port = CardPort::default();
    let card = Arc::downgrade(&port.0);
    // Ends with the port, also if the test fails.
    let receives = thread::spawn(move || {
        while let Some(card) = card.upgrade() {
            let _ = card.lock().expect("the card").receive(&[7; 60]);
        }
    });
    let mut frames = Batch::new();
    for _ in 0..10_000 {
        port.refill(&mut w, &pool);
        (0..50).for_each(|_| assert_eq!(port.rx_posted(), 64));
        port.rx(&mut w, &mut frames);
        frames.free(&mut w);
    }
    drop(port);
    receives.join().expect("the card's thread");
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_store_that_panics_or_takes_too_few_leaves_a_balanced_ledger() {
    let memory = Memory::new(&MemoryConfig { bytes: 2 << 20, ..MemoryConfig::default() }).expect("memory");
    let mut w = memory.worker().expect("a worker");
    let pool =
        Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..PoolConfig::default() }).expect("a pool");
    let mut frames = Batch::new();
    pool.alloc_burst(&mut w, &mut frames, 32);
    let mut store: Vec<Posted> = frames.post(&w, 10).take(4).collect();
    let places = |pool: &Pool| {
        let ledger = pool.ledger();
        assert!(ledger.balanced(), "{ledger:?}");
        (ledger.posted, ledger.owned)
    };
    assert_eq!((frames.len(), places(&pool)), (28, (4, 28)));
    let posting = AssertUnwindSafe(|| {
        frames.post(&w, 20).enumerate().for_each(|(i, posted)| {
            assert!(i < 5, "the store is full");
            store.push(posted);
        });
    });
    assert!(catch_unwind(posting).is_err());
    // The frame for the store is back in its pool.
    assert_eq!((frames.len(), places(&pool)), (22, (9, 22)));
    let mut given = 0;
    let giving = AssertUnwindSafe(|| {
        frames.claim(
            &w,
            std::iter::from_fn(|| {
                given += 1;
                assert!(given < 4, "the store is broken");
                store.pop()
            }),
        )
    });
    assert!(catch_unwind(giving).is_err());
    assert_eq!((frames.len(), places(&pool)), (25, (6, 25)));
    assert_eq!((frames.claim(&w, store.drain(..)), places(&pool)), (6, (0, 31)));
    frames.free(&mut w);
    assert!(pool.ledger().all_freed());
}
