//! Verdicts other than redirect, and the treatment of passed frames.

use super::*;
use netmem::forward::local_queue::{Reader, Retention, RetentionLimit, local_queue};
use netmem::packet::CopyBreak;
use netmem::slab::{CacheConfig, SizeClasses};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// A rig that passes every frame to a local queue of 256 slots.
fn passing(frames: usize) -> (Rig, Reader) {
    let mut rig = rig(frames, Box::new(PassAll));
    let (local_queue, reader) = local_queue(256);
    rig.forwarder.set_local_queue(local_queue);
    rig.forwarder.poll(&mut rig.w);
    (rig, reader)
}

impl Rig {
    /// Delivers `n` packets on port 0 and forwards them.
    fn feed(&mut self, traffic: &mut Traffic, n: usize) {
        let mut left = n;
        while left > 0 {
            left -= self.devices[0].deliver(left.min(64), |room| traffic.write(room));
            self.forwarder.poll(&mut self.w);
            self.check();
        }
    }
}

#[test]
fn every_frame_is_dropped_by_policy_in_drop_mode_and_nothing_leaves() {
    let mut rig = rig(512, Box::new(DropAll));
    rig.forwarder.poll(&mut rig.w);
    rig.feed(&mut Traffic::new(1, 64).unwrap(), 1_000);
    rig.settle(|_| panic!("a dropped frame left"));
    let meters = rig.forwarder.meters();
    assert_eq!((meters.drops.get(Reason::FilterDrop), meters.transmitted.get()), (1_000, 0));
    rig.end();
}

#[test]
fn reflected_frames_leave_by_the_port_they_came_from_with_their_mac_addresses_swapped() {
    let mut rig = rig(512, Box::new(Reflect));
    let (mut traffic, mut sink) = (Traffic::new(3, 90).unwrap(), Sink::new(3, 90, Hop::Reflected).unwrap());
    rig.forwarder.poll(&mut rig.w);
    assert_eq!(rig.devices[0].deliver(100, |room| traffic.write(room)), 100);
    assert_eq!(rig.devices[1].deliver(1, |_| 13), 1);
    (0..2).for_each(|_| assert!(rig.forwarder.poll(&mut rig.w) > 0));
    rig.devices[0].collect(200, |data| check(&mut sink, data));
    rig.settle(|_| panic!("a frame left by the other port"));
    assert_eq!((sink.tally().received, sink.tally().corrupt), (100, 0));
    assert_eq!(rig.forwarder.meters().drops.get(Reason::Short), 1);
    rig.end();
}

#[test]
fn passed_frames_are_read_in_order_by_another_worker_that_frees_them() {
    let (mut rig, mut reader) = passing(1024);
    let mut worker = rig.memory.worker().unwrap();
    let over = AtomicBool::new(false);
    let (mut traffic, mut expected) = (Traffic::new(5, 128).unwrap(), Traffic::new(5, 128).unwrap());
    let read = thread::scope(|scope| {
        let over = &over;
        let reading = scope.spawn(move || {
            let (mut read, mut batch, mut want) = (0, Batch::new(), [0; 2048]);
            loop {
                let last = over.load(Relaxed);
                let n = reader.read(&mut worker, &mut batch);
                for frame in batch.iter() {
                    let len = expected.write(&mut want);
                    assert_eq!(frame.data(), &want[..len]);
                }
                batch.free(&mut worker);
                read += n;
                match n {
                    0 if last => return read,
                    0 => thread::yield_now(),
                    _ => {}
                }
            }
        });
        let meters = rig.forwarder.meters();
        // No more than the queue holds, so that none is lost and the order can be compared.
        while meters.received.get() < 20_000 && !reading.is_finished() {
            let waiting = rig.pool.ledger().queued as usize;
            rig.devices[0].deliver(64_usize.min(256 - waiting.min(256)), |room| traffic.write(room));
            rig.forwarder.poll(&mut rig.w);
        }
        over.store(true, Relaxed);
        reading.join().unwrap()
    });
    let meters = rig.forwarder.meters();
    assert_eq!((read as u64, meters.drops.total()), (meters.passed.get(), 0));
    rig.check();
    rig.end();
}

#[test]
fn a_stalled_reader_holds_only_its_queue_and_further_frames_are_counted_drops() {
    let (mut rig, reader) = passing(1024);
    rig.feed(&mut Traffic::new(1, 64).unwrap(), 1_000);
    let (meters, counters) = (rig.forwarder.meters(), reader.counters());
    assert_eq!((meters.passed.get(), meters.drops.get(Reason::LocalQueueFull)), (256, 744));
    assert_eq!((counters.held(), rig.pool.ledger().queued), (256, 256));
    drop(reader);
    assert_eq!((counters.held(), rig.pool.ledger().queued), (0, 0));
    rig.end();
}

#[test]
fn passed_frames_are_dropped_for_that_reason_without_a_local_queue_and_after_its_reader_is_gone() {
    let mut lonely = rig(256, Box::new(PassAll));
    lonely.forwarder.poll(&mut lonely.w);
    lonely.feed(&mut Traffic::new(1, 64).unwrap(), 10);
    let (mut left, reader) = passing(256);
    drop(reader);
    left.feed(&mut Traffic::new(1, 64).unwrap(), 10);
    for rig in [lonely, left] {
        assert_eq!(rig.forwarder.meters().drops.get(Reason::NoLocalQueue), 10);
        rig.end();
    }
}

#[test]
fn a_retention_keeps_at_most_the_set_number_of_packets_and_fewer_after_a_change() {
    let (mut rig, reader) = passing(1024);
    let mut worker = rig.memory.worker().unwrap();
    let keep = Arc::new(RetentionLimit::new(100, Duration::MAX));
    let counters = reader.counters();
    let mut retention = Retention::new(reader, Arc::clone(&keep));
    let (mut traffic, mut expected) = (Traffic::new(1, 64).unwrap(), Traffic::new(1, 64).unwrap());
    for round in 1..=20 {
        rig.feed(&mut traffic, 30);
        retention.turn(&mut worker);
        assert_eq!(retention.kept(), (round * 30).min(100));
        assert_eq!(rig.pool.ledger().queued, counters.kept.get());
    }
    let mut want = [0; 64];
    for _ in 0..500 {
        expected.write(&mut want);
    }
    for data in retention.frames() {
        expected.write(&mut want);
        assert_eq!(data, want, "the last 100 are kept, untouched");
    }
    keep.set_packets(7);
    assert_eq!((retention.turn(&mut worker), retention.kept(), counters.held()), (93, 7, 7));
    assert_eq!((retention.release(&mut worker), retention.kept(), rig.pool.ledger().queued), (7, 0, 0));
    rig.end();
}

#[test]
fn a_retention_keeps_at_most_the_set_bytes_of_memory_however_short_packets_are() {
    let (mut rig, reader) = passing(1024);
    let mut worker = rig.memory.worker().unwrap();
    let keep = Arc::new(RetentionLimit::new(usize::MAX, Duration::MAX));
    let counters = reader.counters();
    let mut retention = Retention::new(reader, Arc::clone(&keep));
    let size = rig.pool.frame_size();
    keep.set_bytes(40 * size + size / 2);
    for round in 1..=5 {
        rig.feed(&mut Traffic::new(1, 64).unwrap(), 30);
        retention.turn(&mut worker);
        let kept = (round * 30).min(40);
        assert_eq!((retention.kept(), retention.kept_bytes()), (kept, kept * size));
        assert_eq!(counters.kept_bytes.get(), (kept * size) as u64);
    }
    keep.set_bytes(size);
    assert_eq!(
        (retention.turn(&mut worker), retention.kept(), counters.kept_bytes.get()),
        (39, 1, size as u64)
    );
    keep.set_bytes(usize::MAX);
    rig.feed(&mut Traffic::new(1, 64).unwrap(), 30);
    assert_eq!((retention.turn(&mut worker), retention.kept()), (30, 31));
    assert_eq!(
        (retention.release(&mut worker), retention.kept_bytes(), counters.kept_bytes.get()),
        (31, 0, 0)
    );
    rig.end();
}

/// [brouer17-pages]: small packets that are kept pin whole frames. Short packets kept as copies cost their own
/// bytes only, and their frames are reused.
#[test]
fn short_packets_that_are_kept_as_copies_hold_no_frames_and_read_the_same() {
    let (mut rig, reader) = passing(1024);
    let mut worker = rig.memory.worker().unwrap();
    let sizes = SizeClasses::new(&rig.memory, &CacheConfig::default()).unwrap();
    let keep = Arc::new(RetentionLimit::new(usize::MAX, Duration::MAX));
    let counters = reader.counters();
    let mut retention = Retention::new(reader, Arc::clone(&keep)).with_copy_break(CopyBreak::new(&sizes));
    let (mut short, mut long) = (Traffic::new(1, 64).unwrap(), Traffic::new(1, 900).unwrap());
    // More packets than the pool has frames.
    for _ in 0..60 {
        rig.feed(&mut short, 30);
        retention.turn(&mut worker);
    }
    rig.feed(&mut long, 30);
    retention.turn(&mut worker);
    assert_eq!((retention.kept(), counters.copies.get(), counters.held()), (1830, 1800, 1830));
    assert_eq!(rig.pool.ledger().queued, 30, "the long ones alone");
    assert_eq!(retention.kept_bytes(), 1800 * 64 + 30 * rig.pool.frame_size());
    let mut sinks = [Sink::new(1, 64, Hop::Unchanged).unwrap(), Sink::new(1, 900, Hop::Unchanged).unwrap()];
    retention.frames().for_each(|data| check(&mut sinks[usize::from(data.len() > 64)], data));
    assert_eq!(sinks.map(|sink| (sink.tally().received, sink.tally().corrupt)), [(1800, 0), (30, 0)]);
    keep.set_packets(40);
    assert_eq!((retention.turn(&mut worker), counters.copies.get()), (1790, 10));
    assert_eq!((retention.release(&mut worker), counters.copies.get(), rig.pool.ledger().queued), (40, 0, 0));
    rig.check();
    // Pages of finished slabs are in the lists of the worker that freed the last copy.
    drop((retention, sizes, worker));
    rig.end();
}

#[test]
fn a_retention_frees_packets_that_are_too_old_without_new_packets() {
    let (mut rig, reader) = passing(512);
    let mut worker = rig.memory.worker().unwrap();
    let keep = Arc::new(RetentionLimit::new(usize::MAX, Duration::MAX));
    let mut retention = Retention::new(reader, Arc::clone(&keep));
    rig.feed(&mut Traffic::new(1, 64).unwrap(), 50);
    retention.turn(&mut worker);
    assert_eq!(retention.kept(), 50);
    keep.set_time(Duration::ZERO);
    thread::sleep(Duration::from_millis(1));
    assert_eq!((retention.turn(&mut worker), retention.kept()), (50, 0));
    rig.end();
}

#[test]
fn a_reader_that_never_frees_is_reported_as_queued_and_its_frames_stay_valid() {
    let (mut rig, reader) = passing(512);
    let mut worker = rig.memory.worker().unwrap();
    let mut retention = Retention::new(reader, Arc::new(RetentionLimit::new(usize::MAX, Duration::MAX)));
    let mut traffic = Traffic::new(1, 64).unwrap();
    rig.feed(&mut traffic, 200);
    retention.turn(&mut worker);
    drop((rig.forwarder, rig.devices));
    let still_out = rig.pool.close_and_wait(Duration::ZERO).unwrap_err();
    assert_eq!((still_out.0.queued, still_out.0.owned), (200, 0), "{still_out}");
    let mut sink = Sink::new(1, 64, Hop::Unchanged).unwrap();
    retention.frames().for_each(|data| check(&mut sink, data));
    assert_eq!((sink.tally().received, sink.tally().corrupt), (200, 0), "nothing is unmapped early");
    drop(retention);
    rig.pool.close_and_wait(Duration::ZERO).unwrap();
    drop((rig.pool, rig.w, worker));
    assert_eq!(rig.memory.stats().free, rig.memory.stats().total);
}
