//! Tests of a port and its device, one of which is dropped: each frame is in one state, and each packet in one counter.

use crate::page::{Memory, MemoryConfig};
use crate::pool::{Batch, Pool, PoolConfig};
use crate::port::mem::{MemConfig, MemDevice, MemPort};
use crate::port::{Complete, Fill, Port, PortState, Rx, Tx, Wake};
use crate::sync::Worker;
use crate::sys::event::sleep_until_readable;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

struct Bench {
    _memory: Memory,
    w: Worker,
    pool: Pool,
    port: MemPort,
    device: MemDevice,
}

/// A link with 16 frames posted for reception, 9 transmitted, and nothing delivered or sent.
fn bench() -> Bench {
    let config = MemoryConfig { bytes: 4 << 20, workers: 1, ..MemoryConfig::default() };
    let memory = Memory::new(&config).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    let (mut port, device) = MemPort::pair("0", &MemConfig { ring: 16, coalesce: 8 }).unwrap();
    assert_eq!(port.refill(&mut w, &pool), 16);
    let mut frames = Batch::new();
    pool.alloc_burst(&mut w, &mut frames, 9);
    assert_eq!(port.tx(&mut w, &mut frames), 9);
    Bench { _memory: memory, w, pool, port, device }
}

/// The frames transmitted, completed and lost.
fn counted(port: &MemPort) -> [u64; 3] {
    let counters = port.counters();
    [&counters.tx, &counters.completed, &counters.tx_lost].map(|count| count.get())
}

/// Observed: the port stayed up, and the frames that its device had not sent stayed posted for good, in no counter.
#[test]
fn a_port_whose_device_is_dropped_is_down_and_each_frame_is_received_or_completed() {
    let Bench { _memory, mut w, pool, mut port, mut device } = bench();
    assert_eq!((device.collect(4, |_| ()), device.deliver(3, |_| 60)), (4, 3));
    assert_eq!((port.state(), port.is_failed(), port.can_retry_tx()), (PortState::Up, false, true));

    drop(device);
    assert!(
        port.is_failed() && matches!(port.state(), PortState::Down(why) if why.contains("MemPort::pair"))
    );
    let mut frames = Batch::new();
    pool.alloc_burst(&mut w, &mut frames, 2);
    assert_eq!((port.tx(&mut w, &mut frames), port.fill(&mut w, &mut frames), frames.len()), (0, 0, 2));
    assert_eq!((port.tx_posted(), port.can_retry_tx()), (9, false), "room will come, and no device");
    frames.free(&mut w);
    assert_eq!(port.complete(&mut w, &mut frames), 4, "the device had sent these");
    assert_eq!(port.complete(&mut w, &mut frames), 5, "and not these");
    assert_eq!((port.complete(&mut w, &mut frames), port.tx_posted()), (0, 0));
    assert_eq!(port.rx(&mut w, &mut frames), 3, "they were delivered");
    assert_eq!((port.refill(&mut w, &pool), port.fill_room(), port.lacks_frames(16)), (0, 0, false));
    assert_eq!(counted(&port), [9, 9, 5]);
    assert_eq!((pool.ledger().posted, pool.ledger().owned, port.rx_posted()), (13, 12, 13));
    assert!(pool.ledger().balanced(), "{:?}", pool.ledger());

    frames.free(&mut w);
    drop(port);
    assert!(pool.ledger().all_freed() && pool.ledger().balanced(), "{:?}", pool.ledger());
}

#[test]
fn frames_that_were_not_completed_are_counted_when_the_port_is_dropped_after_its_device() {
    let Bench { _memory, w: _w, pool, port, mut device } = bench();
    assert_eq!(device.collect(4, |_| ()), 4);
    drop(device);
    let counters = port.counters();
    assert_eq!(counted(&port), [9, 0, 0]);
    drop(port);
    assert_eq!((counters.completed.get(), counters.tx_lost.get()), (9, 5));
    assert!(pool.ledger().all_freed() && pool.ledger().balanced(), "{:?}", pool.ledger());
}

#[test]
fn a_device_sends_on_without_its_port_and_counts_what_it_has_left() {
    let Bench { _memory, w: _w, pool, port, mut device } = bench();
    let counters = port.counters();
    drop(port);
    assert_eq!((counters.completed.get(), counters.tx_lost.get()), (9, 0));
    assert_eq!((device.collect(4, |_| ()), device.deliver(3, |_| 60)), (4, 3));
    assert_eq!(pool.ledger().posted, 25);
    drop(device);
    assert_eq!((counters.completed.get(), counters.tx_lost.get()), (9, 5));
    assert!(pool.ledger().all_freed() && pool.ledger().balanced(), "{:?}", pool.ledger());
}

#[test]
fn a_device_that_is_dropped_by_a_panic_leaves_each_frame_in_one_state() {
    let Bench { _memory, mut w, pool, mut port, mut device } = bench();
    let mut read = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut device = device;
        device.collect(9, |_| {
            read += 1;
            assert!(read < 4, "the fourth");
        });
    }));
    assert!(panicked.is_err() && port.is_failed());
    let mut frames = Batch::new();
    assert_eq!((port.complete(&mut w, &mut frames), port.complete(&mut w, &mut frames)), (3, 6));
    assert_eq!(counted(&port), [9, 9, 6], "three were read");
    drop(port);
    assert_eq!((pool.ledger().owned, pool.ledger().posted), (9, 0));
    frames.free(&mut w);

    let Bench { _memory, mut w, pool, mut port, device: another } = bench();
    device = another;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut device = device;
        device.deliver(2, |_| 60);
        device.deliver(9, |_| panic!("the third"));
    }));
    assert!(panicked.is_err() && port.is_failed());
    assert_eq!((port.rx(&mut w, &mut frames), port.rx_posted()), (2, 14));
    frames.free(&mut w);
    drop(port);
    assert!(pool.ledger().all_freed() && pool.ledger().balanced(), "{:?}", pool.ledger());
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no ppoll")]
fn a_worker_that_sleeps_wakes_once_when_the_device_is_dropped() {
    let is_readable = |port: &MemPort| sleep_until_readable(port.wakeup_fd().as_slice(), Duration::ZERO);
    let Bench { _memory, mut w, mut port, device, .. } = bench();
    assert!(!port.arm() && !is_readable(&port));
    drop(device);
    assert!(is_readable(&port), "it slept");
    port.disarm();
    assert!(port.arm(), "it sees the state, and claims its frames");
    port.disarm();
    let mut frames = Batch::new();
    assert_eq!(port.complete(&mut w, &mut frames), 9);
    assert!(!port.arm() && !is_readable(&port), "nothing more comes");
    frames.free(&mut w);

    // A device that was dropped during the last round has rung while the worker was awake.
    let Bench { _memory, mut port, device, .. } = bench();
    port.kick();
    drop(device);
    assert!(port.arm() && !is_readable(&port));
}
