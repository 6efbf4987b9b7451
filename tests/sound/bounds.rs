//! Numbers that cannot be: an error, or a bound, and never a panic, an abort or a lie.

use super::*;
use netmem::packet::{HeadCache, InFlightHeads, ReadyPackets, ReadyStack, Reset};
use netmem::pool::{Batch, Frame, Pool, PoolConfig};
use netmem::port::copying::{CopyingPort, Device, RxBuffers};
use netmem::port::{Fill, PortCounters, PortState, Tx};
use netmem::slab::{CacheConfig, CacheError, DebugOptions, Layer, OnMisuse, RawCache, SizeClasses};
use netmem::stats::Writer;
use netmem::steer::{OrderChecker, OrderError};
use std::alloc::Layout;

const MAX: usize = usize::MAX;
/// A slab's largest order, 10, holds 4 MiB.
const SLAB_MAX: usize = 4 << 20;

fn debugs() -> impl Iterator<Item = DebugOptions> {
    (0..16).map(|bits| DebugOptions {
        sanity: bits & 1 != 0,
        red_zone: bits & 2 != 0,
        poison: bits & 4 != 0,
        store_user: bits & 8 != 0,
        on_misuse: OnMisuse::Report,
    })
}

#[test]
fn sizes_and_alignments_that_cannot_be_are_errors_whatever_is_looked_for() {
    let near = |n: usize| (0..70).flat_map(move |d| [n.wrapping_sub(d), n.wrapping_add(d)]);
    let mut sizes: Vec<usize> = [0, MAX, MAX / 2 + 1, SLAB_MAX, 1 << 40].into_iter().flat_map(near).collect();
    sizes.extend([4096, 8192, 32768, 65536, 100_000, MAX - 4096, MAX - 32768, MAX / 3, isize::MAX as usize]);
    let aligns = [0, 1, 2, 3, 8, 12, 64, 4095, 4096, 32768, 65536, 1 << 40, 1 << 63, MAX - 7, MAX];
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    for debug in debugs() {
        for layer in [Layer::Sheaf, Layer::CpuSlab] {
            for &align in &aligns {
                for &size in &sizes {
                    for order in [None, Some(0), Some(10), Some(11), Some(64), Some(255)] {
                        let config =
                            CacheConfig { debug, layer, order, merge: false, ..CacheConfig::default() };
                        let made =
                            catch_unwind(AssertUnwindSafe(|| RawCache::new(&memory, size, align, &config)));
                        let what = format!("{size} bytes aligned to {align}, order {order:?}, {debug:?}");
                        let Ok(made) = made else { panic!("{what}: panicked") };
                        let Ok(cache) = made else { continue };
                        let fits = size <= SLAB_MAX && align.is_power_of_two() && align <= 32768;
                        assert!(fits, "{what}: made");
                        let stride = cache.stats().slab_size as usize;
                        assert!(stride >= size && stride.is_multiple_of(align), "{what}: {stride} apart");
                        // A few are used: from their first byte to their last.
                        if size % 9 == 0 && size <= 100_000 {
                            use_it(&cache, &mut w, size, align);
                        }
                        assert!(cache.destroy().is_ok());
                    }
                }
            }
        }
    }
    let error = RawCache::new(&memory, MAX, 8, &CacheConfig::default()).unwrap_err();
    assert!(matches!(error, CacheError::Size { size: MAX, .. }), "{error}");
    assert!(error.to_string().contains("objects of 18446744073709551615 bytes"), "{error}");
}

#[allow(unsafe_code)]
fn use_it(cache: &RawCache, w: &mut netmem::sync::Worker, size: usize, align: usize) {
    let (Some(one), Some(two)) = (cache.alloc(w), cache.alloc(w)) else { return };
    assert!(one.addr().get().abs_diff(two.addr().get()) >= size);
    for object in [one, two] {
        assert_eq!(object.addr().get() % align, 0);
        // SAFETY: it was just allocated with this number of bytes, only this function has it, and it is freed once.
        unsafe {
            object.write_bytes(1, size);
            cache.free(w, object).unwrap();
        }
    }
    assert!(cache.validate().is_empty());
}

#[test]
#[allow(unsafe_code)]
fn an_allocation_of_any_number_of_bytes_succeeds_or_is_refused() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    for debug in [DebugOptions::default(), DebugOptions { on_misuse: OnMisuse::Report, ..DebugOptions::ALL }]
    {
        let sizes = SizeClasses::new(&memory, &CacheConfig { debug, merge: false, ..CacheConfig::default() })
            .unwrap();
        for bytes in [SLAB_MAX, SLAB_MAX + 1, MAX / 2, MAX - 4095, MAX - 1, MAX] {
            assert!(sizes.alloc(&mut w, bytes).is_none());
            assert!(sizes.alloc_zeroed(&mut w, bytes).is_none() && sizes.bytes(&mut w, bytes).is_none());
            let small = sizes.alloc(&mut w, 100).unwrap();
            // SAFETY: allocated just now, and out until it is freed below.
            unsafe {
                small.write_bytes(9, 100);
                assert_eq!(sizes.resize(&mut w, small, bytes).unwrap(), None);
                assert_eq!((small.add(99).read(), sizes.size_of(small)), (9, 128));
                sizes.free(&mut w, small).unwrap();
            }
        }
        for align in (0..63).map(|log| 1 << log) {
            for size in [0, 1, 8192, SLAB_MAX, isize::MAX as usize - align + 1] {
                let Ok(layout) = Layout::from_size_align(size, align) else { continue };
                let Some(at) = sizes.alloc_aligned(&mut w, layout) else { continue };
                assert_eq!(at.addr().get() % align, 0, "{layout:?}");
                // SAFETY: just allocated, and not used any more.
                unsafe { sizes.free(&mut w, at).unwrap() };
            }
        }
    }
}

#[test]
fn a_limit_beyond_the_pools_frames_keeps_as_many_as_there_are() {
    let memory = memory(2);
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    let heads = HeadCache::new(&memory).unwrap();
    for max in [1 << 40, MAX / 16, MAX - 64, MAX] {
        let pairs = ReadyPackets::new(&pool, &heads, max);
        let kept: Vec<_> = (0..64).filter_map(|_| pairs.get(&mut w)).collect();
        kept.into_iter().for_each(|packet| pairs.free(&mut w, packet));
        assert_eq!((pairs.now(), pairs.max()), (64, max), "all frames that the pool has");
        pairs.set_max(10);
        assert_eq!(pairs.now(), 10);
        pairs.set_max(max);
        assert_eq!((pairs.now(), pairs.stats().max), (10, max as u64));
        let mut stack = ReadyStack::new(&pool, &heads, max, Reset::AtPut);
        pairs.drain(&mut w);
        let kept: Vec<_> = (0..64).filter_map(|_| stack.get(&mut w)).collect();
        kept.into_iter().for_each(|packet| stack.free(&mut w, packet));
        assert_eq!((stack.now(), stack.max()), (64, max));
        stack.set_max(&mut w, max - 1);
        assert_eq!(stack.drain(&mut w), 64);
    }
    assert!(pool.ledger().all_freed());
}

struct Nothing;

impl Device for Nothing {
    fn kind(&self) -> &'static str {
        "nothing"
    }
    fn receive(&mut self, _: &mut RxBuffers<'_>, _: &Writer<PortCounters>) -> usize {
        0
    }
    fn send(&mut self, frames: &[Frame], _: &Writer<PortCounters>) -> usize {
        frames.len()
    }
    fn state(&self) -> PortState {
        PortState::Up
    }
}

#[test]
fn queues_of_any_length_take_what_is_put_in_and_allocate_no_more() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
    let heads = HeadCache::new(&memory).unwrap();
    for size in [0, 1 << 40, MAX / 8, MAX - 64, MAX] {
        let mut port = CopyingPort::new("nothing:0".into(), Nothing, size);
        let mut frames = Batch::new();
        pool.alloc_burst(&mut w, &mut frames, 64);
        assert_eq!(port.tx(&mut w, &mut frames), size.min(64));
        frames.free(&mut w);
        pool.alloc_burst(&mut w, &mut frames, 64);
        assert_eq!(port.fill(&mut w, &mut frames), size.min(64));
        frames.free(&mut w);
        drop(port);
        let mut flight = InFlightHeads::new(size);
        let frame = pool.alloc(&mut w).unwrap();
        let packet = heads.attach(&mut w, frame).unwrap();
        assert!(flight.detach(packet, &mut frames).is_ok());
        assert_eq!((flight.len(), frames.len()), (1, 1));
        frames.free(&mut w);
    }
    assert!(pool.ledger().all_freed());
}

#[test]
fn more_flows_than_a_checker_of_order_follows_are_an_error_with_the_range() {
    for flows in [65_537, 1 << 40, MAX] {
        let error = OrderChecker::new(flows).unwrap_err();
        assert_eq!(error, OrderError::Flows { flows });
        assert_eq!(error.to_string(), format!("{flows} flows to follow: give 0 to 65536"));
    }
    assert!(OrderChecker::new(65_536).is_ok_and(|mut order| order.see(65_535, 0)));
}

/// Seen: the largest number made the checker turn for 2^64 steps.
#[test]
fn the_largest_number_of_a_frame_is_seen_like_any() {
    for first in [0, 7, u64::MAX - 1] {
        let mut order = OrderChecker::new(1).unwrap();
        assert_eq!((order.see(0, first), order.see(0, u64::MAX)), (true, true));
        assert_eq!(order.counts().received, 2);
    }
}
