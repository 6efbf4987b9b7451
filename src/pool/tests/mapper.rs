//! A device whose mappings are made page by page, and may be refused.

use super::*;
use crate::limits::PAGE_SIZE;
use crate::pool::DmaMapper;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// The device's own addresses begin here, far from the process's.
const BASE: u64 = 0x10_0000_0000;

/// The calls that a device got: each existing mapping, and the synced bytes.
#[derive(Debug, Default)]
struct Told {
    mapped: BTreeMap<u64, usize>,
    synced: Vec<(&'static str, u64, usize)>,
    maps: usize,
    unmaps: usize,
}

/// A device with a maximum number of mappings, which panics at the mapping with this number.
#[derive(Debug)]
struct Device {
    told: Mutex<Told>,
    most: usize,
    panics_at_map: usize,
    panics_at_unmap: usize,
}

impl Device {
    fn new(most: usize) -> Device {
        Device { told: Mutex::default(), most, panics_at_map: 0, panics_at_unmap: 0 }
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn assert_mapped(&self, at: u64, bytes: usize) {
        let told = self.told();
        let (first, len) = told.mapped.range(..=at).next_back().expect("a mapping before it");
        assert!(at + bytes as u64 <= first + *len as u64, "{at:x} is mapped");
    }
}

impl DmaMapper for Device {
    fn map(&self, first: NonNull<u8>, bytes: usize) -> io::Result<u64> {
        let mut told = self.told();
        told.maps += 1;
        assert_ne!(told.maps, self.panics_at_map, "as a caller's code may");
        if told.mapped.len() == self.most {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        assert_eq!((first.as_ptr().addr() % PAGE_SIZE, bytes % PAGE_SIZE), (0, 0));
        let at = BASE + first.as_ptr().addr() as u64;
        assert_eq!(told.mapped.insert(at, bytes), None, "mapped twice");
        Ok(at)
    }

    fn unmap(&self, at: u64, bytes: usize) {
        let mut told = self.told();
        told.unmaps += 1;
        assert_eq!(told.mapped.remove(&at), Some(bytes), "unmapped, and it was not mapped");
        assert_ne!(told.unmaps, self.panics_at_unmap, "as a caller's code may");
    }

    fn sync_for_device(&self, at: u64, bytes: usize) {
        self.assert_mapped(at, bytes);
        self.told().synced.push(("device", at, bytes));
    }

    fn sync_for_cpu(&self, at: u64, bytes: usize) {
        self.assert_mapped(at, bytes);
        self.told().synced.push(("cpu", at, bytes));
    }
}

fn config(device: &Arc<Device>, frame_size: usize, frames: usize) -> PoolConfig {
    let dma = DmaMap::Mapper(Arc::clone(device) as Arc<dyn DmaMapper>);
    PoolConfig { frames, cache: 8, refill: 4, dma, ..PoolConfig::of_frames(frame_size) }
}

#[test]
fn whatever_the_device_refuses_no_page_is_lost_or_left_mapped() {
    for (frame_size, frames_of_map) in [(2048, 2), (4096, 1), (16384, 1)] {
        for most in 0..8 {
            let (memory, device) = (memory(1), Arc::new(Device::new(most)));
            let mut w = memory.worker().unwrap();
            let all = memory.stats().free;
            let pool = Pool::new(&memory, &mut w, &config(&device, frame_size, 16)).unwrap();
            let frames: Vec<Frame> = std::iter::from_fn(|| pool.alloc(&mut w)).collect();
            assert_eq!(frames.len(), (most * frames_of_map).min(16), "{most} mappings of {frame_size}");
            assert_eq!(
                pool.mapped_pages() as usize,
                device.told().mapped.values().sum::<usize>() / PAGE_SIZE
            );
            assert_eq!(pool.stats().map_failed > 0, most * frames_of_map < 16);
            for frame in &frames {
                device.assert_mapped(pool.device_address(frame).expect("an address"), frame.len());
            }
            frames.into_iter().for_each(|frame| pool.free(&mut w, frame));
            assert!(pool.ledger().balanced());
            pool.close_and_wait(Duration::ZERO).unwrap();
            assert!(device.told().mapped.is_empty());
            drop((pool, w));
            assert_eq!(memory.stats().free, all);
        }
    }
}

#[test]
fn a_page_that_leaves_is_unmapped_once_and_mapped_anew_when_it_comes_back() {
    let (memory, device) = (memory(1), Arc::new(Device::new(usize::MAX)));
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &config(&device, 2048, 64)).unwrap();
    for frames in [64, 8, 64, 2, 64] {
        pool.resize(frames).unwrap();
        let out: Vec<Frame> = std::iter::from_fn(|| pool.alloc(&mut w)).collect();
        assert_eq!(out.len(), frames);
        out.into_iter().for_each(|frame| pool.free(&mut w, frame));
        assert_eq!(device.told().mapped.len() as u64, pool.mapped_pages());
    }
    pool.close_and_wait(Duration::ZERO).unwrap();
    let told = device.told();
    assert_eq!((told.mapped.len(), told.maps), (0, told.unmaps));
}

/// [brouer17-pages]: only the length that was touched goes over.
#[test]
fn a_device_that_sees_no_caches_is_told_of_the_bytes_of_each_frame_and_no_more() {
    let (memory, device) = (memory(1), Arc::new(Device::new(usize::MAX)));
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &config(&device, 2048, 16)).unwrap();
    let other = super::pool(&memory, &mut w, 16);
    let mut batch = Batch::new();
    pool.alloc_burst(&mut w, &mut batch, 3);
    other.alloc_burst(&mut w, &mut batch, 1);
    for i in 0..4 {
        batch.get_mut(i).unwrap().put(60 + i).unwrap();
    }
    // The metadata before a frame's data is not the device's.
    batch.get_mut(2).unwrap().set_timestamp(Some(Duration::from_secs(1))).unwrap();
    batch.sync_for_device(&w, 4);
    batch.sync_for_cpu(&w, 1);
    pool.sync_for_device(&w, &batch[3]);
    let starts = [0, 1, 2].map(|i: usize| BASE + batch[i].data().as_ptr().addr() as u64);
    let told =
        |to, frames: std::ops::Range<usize>| frames.map(|i| (to, starts[i], 60 + i)).collect::<Vec<_>>();
    assert_eq!(device.told().synced, [told("device", 0..3), told("cpu", 1..3)].concat());
    assert_eq!(pool.synced_bytes(), 60 + 61 + 62 + 61 + 62);
    batch.free(&mut w);
}

#[test]
fn a_mapper_that_panics_costs_no_page() {
    for (panics_at_map, panics_at_unmap) in [(1, 0), (3, 0), (0, 1), (0, 5)] {
        let memory = memory(1);
        let mut w = memory.worker().unwrap();
        let all = memory.stats().free;
        let device = Arc::new(Device { panics_at_map, panics_at_unmap, ..Device::new(usize::MAX) });
        let pool = Pool::new(&memory, &mut w, &config(&device, 4096, 16)).unwrap();
        let alloc = |w: &mut Worker| catch_unwind(AssertUnwindSafe(|| pool.alloc(w)));
        let first = alloc(&mut w);
        assert_eq!(first.is_err(), panics_at_map > 0);
        let mut frames: Vec<Frame> = first.ok().flatten().into_iter().collect();
        frames.extend(std::iter::from_fn(|| pool.alloc(&mut w)));
        assert_eq!(frames.len(), 16, "it goes on");
        frames.into_iter().for_each(|frame| pool.free(&mut w, frame));
        let closed = catch_unwind(AssertUnwindSafe(|| pool.close()));
        assert_eq!(closed.is_err(), panics_at_unmap > 0);
        assert!(device.told().mapped.is_empty());
        drop((pool, w));
        assert_eq!(memory.stats().free, all);
    }
}

/// A device with its mappings at the end of the address space, of which the last may go beyond it.
#[derive(Debug)]
struct AtTheEnd {
    first: u64,
    unmaps: AtomicUsize,
}

impl DmaMapper for AtTheEnd {
    fn map(&self, _: NonNull<u8>, _: usize) -> io::Result<u64> {
        Ok(self.first)
    }

    fn unmap(&self, at: u64, _: usize) {
        assert_eq!(at, self.first);
        self.unmaps.fetch_add(1, Relaxed);
    }
}

/// Found: the address of a frame was computed beyond the last address.
#[test]
fn a_mapping_that_ends_beyond_the_last_address_is_refused() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    // One page, since the pool has only one.
    for (first, fits) in [(u64::MAX - PAGE_SIZE as u64 + 1, true), (u64::MAX - PAGE_SIZE as u64 + 2, false)] {
        let device = Arc::new(AtTheEnd { first, unmaps: AtomicUsize::new(0) });
        let dma = DmaMap::Mapper(device.clone());
        let config = PoolConfig { frames: 2, dma, ..PoolConfig::default() };
        let pool = Pool::new(&memory, &mut w, &config).unwrap();
        let frame = pool.alloc(&mut w);
        assert_eq!((frame.is_some(), pool.stats().map_failed), (fits, u64::from(!fits)));
        let address = frame.as_ref().and_then(|frame| pool.device_address(frame));
        assert!(address.is_none_or(|address| address > first));
        frame.into_iter().for_each(|frame| frame.free(&mut w));
        drop(pool);
        assert_eq!(device.unmaps.load(Relaxed), 1, "also the refused one is taken back");
    }
}
