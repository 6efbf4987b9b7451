//! Two workers under load: one allocates and the other frees, then they swap. Then both use nearly all of the memory.
//!
//! `NETMEM_STRESS_SECONDS` is the length of each half (default 1; CI gives it ten). The same tests run under the
//! sanitizers (`.ci/sanitizers`).

#![allow(clippy::unwrap_used)]

use netmem::page::{BackingPreference, Memory, MemoryConfig, Page};
use netmem::ring::{Receiver, Sender, ring};
use netmem::slab::{Cache, CacheConfig, Layer, Object, WordForm};
use netmem::sync::Worker;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of items in transfer from one worker to the other.
const RING: u32 = 1024;
/// Maximum number of items that a worker holds.
const BURST: usize = 64;

type Big = [u64; 32];

fn half() -> Duration {
    let seconds = std::env::var("NETMEM_STRESS_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1))
}

fn memory(mib: usize) -> Memory {
    let backing = BackingPreference::Small;
    Memory::new(&MemoryConfig { bytes: mib << 20, workers: 2, backing, ..MemoryConfig::default() }).unwrap()
}

/// What travels from the worker that allocates to the one that frees.
trait Freight: Sync {
    type Item: Send;
    /// Allocates up to [`BURST`] items, each with a stamp so that the receiver can tell if it was corrupted.
    fn load(&self, w: &mut Worker, stamp: u64, items: &mut Vec<Self::Item>);
    /// Looks at the stamps and frees.
    fn unload(&self, w: &mut Worker, items: &mut Vec<Self::Item>);
    /// Called while both work. Returns whether no more memory is in use than allowed.
    fn within_bounds(&self) -> Result<(), String>;
}

/// Loads until `stop`, at least once, then drops the ring.
fn send<C: Freight>(freight: &C, w: &mut Worker, mut to: Sender<C::Item>, stop: &AtomicBool) {
    let mut items = Vec::with_capacity(BURST);
    let mut stamp = 0;
    loop {
        stamp += 1;
        freight.load(w, stamp, &mut items);
        while !items.is_empty() {
            let n = to.room(items.len()).min(items.len());
            to.send_burst(n, &mut items.drain(..n));
            thread::yield_now();
        }
        if stop.load(Relaxed) {
            return;
        }
    }
}

/// Unloads until the sender is `done` and the ring is empty. Returns how many came.
fn receive<C: Freight>(freight: &C, w: &mut Worker, mut from: Receiver<C::Item>, done: &AtomicBool) -> usize {
    let mut items = Vec::with_capacity(BURST);
    let mut received = 0;
    loop {
        let last = done.load(Relaxed);
        received += from.recv_burst(BURST, |item| items.push(item));
        if items.is_empty() {
            if last {
                return received;
            }
            thread::yield_now();
        }
        freight.unload(w, &mut items);
    }
}

/// One half: `from` allocates, `to` frees, and this thread watches the bounds.
fn one_way<C: Freight>(freight: &C, from: &mut Worker, to: &mut Worker, half: Duration) {
    let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let (sender, receiver) = ring(RING);
    let end = Instant::now() + half;
    thread::scope(|scope| {
        let sending = scope.spawn(|| send(freight, from, sender, &stop));
        let receiving = scope.spawn(|| receive(freight, to, receiver, &done));
        let mut broken = Ok(());
        while Instant::now() < end && broken.is_ok() {
            broken = freight.within_bounds();
            thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Relaxed);
        sending.join().unwrap();
        // The join is the edge over which the receiver sees the sender's last items.
        done.store(true, Relaxed);
        assert!(receiving.join().unwrap() > 0);
        broken.unwrap();
    });
}

fn there_and_back<C: Freight>(memory: &Memory, freight: &C, half: Duration) {
    let (mut a, mut b) = (memory.worker().unwrap(), memory.worker().unwrap());
    one_way(freight, &mut a, &mut b, half);
    one_way(freight, &mut b, &mut a, half);
}

struct Pages(Memory);

impl Freight for Pages {
    type Item = Page;

    fn load(&self, w: &mut Worker, stamp: u64, items: &mut Vec<Page>) {
        let order = if stamp.is_multiple_of(8) { (stamp / 8 % 4) as u8 } else { 0 };
        for _ in 0..BURST >> order {
            let mut page = self.0.alloc(w, order).expect("there is memory enough");
            let number = page.number().get();
            page.bytes_mut()[..4].copy_from_slice(&number.to_ne_bytes());
            page.bytes_mut().last_chunk_mut::<4>().unwrap().copy_from_slice(&number.to_ne_bytes());
            items.push(page);
        }
    }

    fn unload(&self, w: &mut Worker, items: &mut Vec<Page>) {
        for page in items.drain(..) {
            let number = page.number().get().to_ne_bytes();
            assert_eq!((&page.bytes()[..4], page.bytes().last_chunk()), (&number[..], Some(&number)));
            self.0.free(w, page);
        }
    }

    /// The items in transfer (blocks of up to 8 pages), and the maximum of two workers' lists of four orders.
    fn within_bounds(&self) -> Result<(), String> {
        let stats = self.0.stats();
        let on_the_way = u64::from(RING) * 8 + 2 * BURST as u64;
        let in_lists = 2 * 4 * 4 * 64;
        let used = stats.total - stats.free;
        (used <= on_the_way + in_lists).then_some(()).ok_or(format!("{used} pages in use: {stats:?}"))
    }
}

#[test]
fn pages_allocated_by_one_worker_and_freed_by_the_other_stay_within_bounds_and_come_back() {
    let pages = Pages(memory(64));
    let before = pages.0.stats().free;
    there_and_back(&pages.0, &pages, half());
    assert_eq!(pages.0.stats().free, before, "both workers are gone, and gave everything back");
    assert_eq!(pages.0.stats().cached, 0);
}

struct Objects(Memory, Cache<Big>);

impl Freight for Objects {
    type Item = Object<Big>;

    fn load(&self, w: &mut Worker, stamp: u64, items: &mut Vec<Object<Big>>) {
        if stamp.is_multiple_of(2) {
            assert!(self.1.alloc_bulk(w, BURST, items, || [stamp; 32]), "there is memory enough");
        } else {
            items.extend((0..BURST).map(|_| self.1.alloc(w, [stamp; 32]).expect("there is memory enough")));
        }
    }

    fn unload(&self, w: &mut Worker, items: &mut Vec<Object<Big>>) {
        for object in &*items {
            assert!(object.iter().all(|&word| word == object[0]), "spoilt: {object:?}");
        }
        if items.len().is_multiple_of(2) {
            self.1.free_bulk(w, items);
        } else {
            items.drain(..).for_each(|object| self.1.free(w, object));
        }
    }

    /// Twice the slabs for the items in transfer, in two workers' caches and in the barn.
    fn within_bounds(&self) -> Result<(), String> {
        let used = self.0.stats().total - self.0.stats().free;
        let objects = RING as usize + 2 * BURST + (2 * 2 + 10) * 64 + 2 * 256;
        let most = 2 * (objects / 16) as u64 + 2 * 4 * 4 * 64;
        (used <= most)
            .then_some(())
            .ok_or(format!("{used} pages in use, {most} may be: {:?}", self.1.stats()))
    }
}

fn objects(layer: Layer, word: WordForm, half: Duration) {
    let memory = memory(16);
    let before = memory.stats().free;
    let config = CacheConfig { name: format!("{layer:?} {word:?}"), layer, word, ..CacheConfig::default() };
    let objects = Objects(memory.clone(), Cache::new(&memory, &config).unwrap());
    there_and_back(&memory, &objects, half);
    objects.1.shrink();
    drop(objects);
    assert_eq!(memory.stats().free, before, "{layer:?} {word:?}");
}

#[test]
fn objects_allocated_by_one_worker_and_freed_by_the_other_stay_within_bounds_and_come_back() {
    objects(Layer::Sheaf, WordForm::Packed, half());
}

#[test]
fn objects_of_every_other_layer_and_form_of_the_word_stay_within_bounds_and_come_back() {
    for word in [WordForm::Packed, WordForm::Wide, WordForm::Lock] {
        objects(Layer::CpuSlab, word, half() / 10);
    }
    objects(Layer::Sheaf, WordForm::Wide, half() / 10);
}

/// Allocates and frees pages so that nearly all of the memory is allocated, for `half()`, at least once. It must not be
/// without a page for long.
fn at_the_edge(memory: &Memory, w: &mut Worker, most: usize) {
    let end = Instant::now() + half();
    let mut held = Vec::with_capacity(most);
    loop {
        while held.len() < most {
            // A thief cannot enter the cache of a worker that the system stopped in the middle of a call before the
            // worker continues.
            let patience = Instant::now() + Duration::from_secs(60);
            let page = std::iter::from_fn(|| Some(memory.alloc(w, 0)))
                .find(|page| page.is_some() || Instant::now() > patience);
            held.push(page.flatten().expect("free pages lie with the other worker"));
        }
        held.drain(most / 4..).for_each(|page| memory.free(w, page));
        if Instant::now() >= end {
            break;
        }
    }
    held.into_iter().for_each(|page| memory.free(w, page));
}

#[test]
fn two_workers_that_use_the_whole_memory_drain_each_others_lists() {
    let memory = memory(2);
    let total = memory.stats().total as usize;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| at_the_edge(&memory, &mut memory.worker().unwrap(), total / 2 - 1));
        }
    });
    assert_eq!(memory.stats().free, memory.stats().total);
}
