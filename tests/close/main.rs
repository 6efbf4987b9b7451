//! A pool is closed while its frames are in every place they can be, and they come back late, one place after the other.

#![allow(clippy::unwrap_used)]

mod everywhere;

use everywhere::{BYTES, Everywhere, OUT, Places};
use netmem::forward::local_queue::{Reader, Retention};
use netmem::packet::{HeadCache, Packet, ReadyStack};
use netmem::page::{BackingPreference, Memory, MemoryConfig};
use netmem::pool::{Batch, Fragment, Fragments, Frame, FrameState, Pool, SharedFrame, StillOut};
use netmem::port::mem::{MemDevice, MemPort};
use netmem::port::{Complete, Fill, Rx};
use netmem::sync::Worker;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Only one region at a time: another test's region may be mapped at the address of one that was unmapped.
static ALONE: Mutex<()> = Mutex::new(());

fn memory() -> Memory {
    let backing = BackingPreference::Small;
    Memory::new(&MemoryConfig { bytes: 4 << 20, workers: 2, backing, ..MemoryConfig::default() }).unwrap()
}

/// Whether something is mapped at `address`, as the kernel has it.
fn is_mapped(address: usize) -> bool {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().any(|line| {
        let bounds = line.split(' ').next().and_then(|range| range.split_once('-')).unwrap();
        let [from, to] = [bounds.0, bounds.1].map(|bound| usize::from_str_radix(bound, 16).unwrap());
        (from..to).contains(&address)
    })
}

/// A closed pool, the frames that are still out of it, and two workers, of which the first owns the pool.
struct Closed {
    pool: Pool,
    out: Places,
    w: Worker,
    other: Worker,
}

impl Closed {
    /// The wait is not over: just these frames are missing, and no page was unmapped.
    #[track_caller]
    fn still_out(&self) -> StillOut {
        let still = self.pool.close_and_wait(Duration::ZERO).unwrap_err();
        let ledger = &still.0;
        let [owned, posted, queued, ready] = [ledger.owned, ledger.posted, ledger.queued, ledger.ready];
        assert_eq!(Places { owned, posted, queued, ready }, self.out, "{still}");
        assert!(ledger.balanced() && ledger.out() == self.out.total(), "{ledger:?}");
        assert_eq!(self.pool.mapped_pages() * 2, ledger.total, "{still}");
        still
    }

    /// Received, sent, and with the device forever.
    fn empty_device(&mut self, mut port: MemPort, mut device: MemDevice) {
        assert_eq!(port.refill(&mut self.w, &self.pool), 0);
        let mut batch = Batch::new();
        port.rx(&mut self.w, &mut batch);
        (self.out.owned, self.out.posted) = (self.out.owned + 2, self.out.posted - 2);
        self.still_out();
        free(&mut self.other, batch, 2);
        self.out.owned -= 2;
        self.still_out();
        device.collect(1, |_| ());
        let mut batch = Batch::new();
        port.complete(&mut self.w, &mut batch);
        free(&mut self.w, batch, 2);
        self.out.posted -= 2;
        self.still_out();
        drop((port, device));
        self.out.posted = 0;
        self.still_out();
    }

    fn empty_queues(&mut self, mut reader: Reader, packets: &Receiver<Packet>, heads: &HeadCache) {
        let mut batch = Batch::new();
        reader.read(&mut self.other, &mut batch);
        free(&mut self.other, batch, 2);
        self.out.queued -= 2;
        self.still_out();
        for packet in packets.try_iter() {
            assert_eq!(packet.data(), BYTES);
            heads.free(&mut self.w, packet);
            self.out.owned -= 1;
            self.still_out();
        }
    }

    fn empty_stack(&mut self, mut stack: ReadyStack) {
        assert!(stack.get(&mut self.w).is_none(), "a closed pool's pairs are given back, not out");
        self.out.ready = 0;
        self.still_out();
    }

    fn release_several_holders(
        &mut self,
        [first, second]: [SharedFrame; 2],
        pieces: Fragments,
        piece: Fragment,
    ) {
        assert_eq!((first.data(), second.data()), (BYTES, BYTES));
        thread::spawn(move || drop(second)).join().unwrap();
        self.still_out();
        first.free(&mut self.other);
        self.out.owned -= 1;
        self.still_out();
        drop(pieces);
        self.still_out();
        assert_eq!(piece.data(), BYTES);
        piece.free(&mut self.w);
        self.out.owned -= 1;
    }

    fn release_keeper(&mut self, mut retention: Retention, traced: bool) {
        let last = self.still_out();
        let kept = last.1.iter().find(|holder| holder.state == Some(FrameState::Queued));
        assert_eq!(kept.map(|holder| (last.1.len(), holder.frames)), traced.then_some((1, 2)), "{last}");
        assert_eq!(retention.turn(&mut self.other), 0, "it never lets go");
        self.still_out();
        retention.frames().for_each(|bytes| assert_eq!(bytes, BYTES));
        assert_eq!(retention.release(&mut self.other), 2);
    }
}

/// Frees frames that came out of a device or a queue, after a look at their bytes.
#[track_caller]
fn free(w: &mut Worker, mut batch: Batch, n: usize) {
    assert_eq!(batch.len(), n);
    batch.iter().for_each(|frame| assert_eq!(frame.data(), BYTES));
    batch.free(w);
}

#[test]
fn frames_come_back_from_every_place_after_their_pool_was_closed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for traced in [false, true] {
        let memory = memory();
        let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
        let all = Everywhere::lay(&memory, &mut w, &mut other, traced);
        thread::sleep(Duration::from_millis(5));
        let mut closed = Closed { pool: all.pool.clone(), out: OUT, w, other };
        all.check_report(&closed.still_out(), traced);
        assert!(closed.pool.alloc(&mut closed.w).is_none() && closed.pool.alloc(&mut closed.other).is_none());
        assert_eq!(all.pairs.now(), 0);
        closed.empty_device(all.port, all.device);
        closed.empty_queues(all.reader, &all.packets, &all.heads);
        closed.empty_stack(all.stack);
        closed.release_several_holders([all.first, all.clone], all.pieces, all.piece);
        closed.release_keeper(all.retention, traced);
        closed.pool.close_and_wait(Duration::ZERO).unwrap();
        let Closed { pool, w, other, .. } = closed;
        assert_eq!((pool.mapped_pages(), pool.inflight(), pool.holders()), (0, 0, Vec::new()));
        assert!(pool.ledger().all_freed());
        drop((pool, all.pool, all.pairs, all.heads, w, other));
        assert_eq!(memory.stats().free, memory.stats().total);
    }
}

#[test]
fn the_memory_stays_mapped_until_the_last_of_its_frames_is_given_up_anywhere() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let memory = memory();
    let base = memory.region().base().addr();
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let all = Everywhere::lay(&memory, &mut w, &mut other, true);
    let Everywhere { pool, heads, pairs, stack, port, device, reader, retention, packets, .. } = all;
    let Everywhere { clone, first, pieces, piece, .. } = all;
    drop((memory, w, other, pool, pairs, heads));
    let gone = |what: &str| assert!(is_mapped(base), "unmapped with {what}");
    gone("every handle but those of the stack and the cutter");
    drop(stack);
    drop(pieces);
    gone("the last handle of the pool");
    drop(first);
    drop((port, device));
    gone("the port");
    drop(packets);
    gone("the packets' queue");
    drop(reader);
    gone("the queue's reader");
    retention.frames().for_each(|bytes| assert_eq!(bytes, BYTES));
    drop(retention);
    gone("the retention");
    assert_eq!(piece.data(), BYTES);
    drop(piece);
    gone("the piece");
    let last: Frame = clone.into_frame().unwrap();
    assert_eq!(last.data(), BYTES);
    gone("the last but one holder");
    thread::spawn(move || drop(last)).join().unwrap();
    assert!(!is_mapped(base), "the last frame's end unmaps the memory");
}
