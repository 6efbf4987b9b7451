//! COLD: the memories, pools, caches, heads, ready pools and ports, by handle.

use crate::errno::ENFILE;
use crate::failure::Failure;
use crate::opened::Opened;
use crate::word;
use netmem::packet::ReadyPackets;
use netmem::page::Region;
use netmem::port::memif::Lend;
use netmem::slab::{RawCache, SizeClasses};
use netmem::{Frame, HeadCache, Memory, Pool};
use netmem_ports::{OpenConfig, PortOpener};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Maximum number of pools.
const POOLS: usize = 4096;

/// The handle of the pool at each place, 0 for none. Every allocation reads it.
static POOL_WORDS: [AtomicU64; POOLS] = [const { AtomicU64::new(0) }; POOLS];
static POOLS_OPEN: Mutex<Vec<Option<OpenPool>>> = Mutex::new(Vec::new());
static MEMORIES: Mutex<Vec<Option<OpenMemory>>> = Mutex::new(Vec::new());

/// The handles of the open ports. The ports themselves are in the state of their workers.
static PORTS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// All caches and size classes that are open.
pub static CACHES: Opened<Source> = Opened::new("cache", "caches");
/// All heads that are open.
pub static HEADS: Opened<HeadCache> = Opened::new("heads", "heads");
/// All ready pools that are open.
pub static READY: Opened<ReadyPool> = Opened::new("ready pool", "ready pools");

/// A ready pool.
#[derive(Clone)]
pub struct ReadyPool {
    pub ready: ReadyPackets,
    /// The handle of its heads.
    pub heads: u64,
    /// The handle of its pool.
    pub pool: u64,
}

/// A pool.
#[derive(Clone)]
pub struct OpenPool {
    pub word: u64,
    pub pool: Pool,
    /// The handle of its memory.
    pub memory: u64,
}

/// The source of an object.
#[derive(Clone, Debug)]
pub enum Source {
    /// A cache of objects of one size. The number is the size in bytes.
    Cache(RawCache, u32),
    /// Size classes.
    Sizes(SizeClasses),
}

impl Source {
    /// Returns the cache, or None if it is a set of size classes.
    pub fn cache(self) -> Option<RawCache> {
        if let Source::Cache(cache, _) = self { Some(cache) } else { None }
    }

    /// Returns the size classes, or None if it is a cache.
    pub fn sizes(self) -> Option<SizeClasses> {
        if let Source::Sizes(sizes) = self { Some(sizes) } else { None }
    }
}

/// A memory.
#[derive(Clone)]
pub struct OpenMemory {
    pub word: u64,
    /// None after the memory was closed, while parts of it are still in use.
    pub memory: Option<Memory>,
    /// Can be upgraded as long as a part of the memory is in use.
    pub region: Weak<Region>,
    /// Opens its ports, one after another. None after the memory was closed.
    pub opener: Option<Arc<Mutex<PortOpener>>>,
}

fn memories() -> MutexGuard<'static, Vec<Option<OpenMemory>>> {
    MEMORIES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pools() -> MutexGuard<'static, Vec<Option<OpenPool>>> {
    POOLS_OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this is the handle of an open pool.
#[inline(always)]
pub fn is_pool(word: u64) -> bool {
    // An index out of range is reduced to one in the table, where no entry has this handle.
    POOL_WORDS[word::place(word) % POOLS].load(Relaxed) == word
}

/// Puts a thing into the first free place of a list of at most `at_most` places. Returns its handle.
fn put<T>(list: &mut Vec<Option<T>>, at_most: usize, make: impl FnOnce(u64) -> T) -> Option<u64> {
    let place = list.iter().position(Option::is_none).unwrap_or(list.len());
    if place >= at_most {
        return None;
    }
    let word = word::new(place);
    list.resize_with(list.len().max(place + 1), || None);
    list[place] = Some(make(word));
    Some(word)
}

/// Registers a memory, frames of which its ports may lend to peers. Returns its handle.
///
/// # Errors
/// The process has the maximum number already.
pub fn add_memory(memory: Memory, lend: Lend) -> Result<u64, Failure> {
    let region = Arc::downgrade(memory.region());
    // Of the packets that a packet port leaves to it the kernel keeps copies: no call of C could tell that it cannot drop them.
    let config = OpenConfig { packets_alone: false, lend: Some(lend), ..OpenConfig::default() };
    let opener = PortOpener::new(&memory, config);
    let opener = Some(Arc::new(Mutex::new(opener)));
    let open = |word| OpenMemory { word, memory: Some(memory), region, opener };
    let word = put(&mut memories(), 1 << 12, open);
    word.ok_or_else(|| Failure::new(ENFILE, "the process has 4096 memories already: close one"))
}

/// Returns the cache or the size classes of this handle. The handles of both are in one table. `kind` selects the one that
/// the call takes ([`Source::cache`], [`Source::sizes`]).
///
/// # Errors
/// No open source of this kind has this handle.
pub fn source<T>(word: u64, kind: fn(Source) -> Option<T>) -> Result<T, Failure> {
    let (found, _) = CACHES.get(word)?;
    kind(found).ok_or_else(|| Failure::closed(CACHES.what, word))
}

/// Calls `with` with the memory of this handle.
///
/// # Errors
/// Nothing open has this handle.
pub fn with_memory<R>(word: u64, with: impl FnOnce(&mut OpenMemory) -> R) -> Result<R, Failure> {
    let mut memories = memories();
    let found = memories.get_mut(word::place(word)).and_then(Option::as_mut).filter(|open| open.word == word);
    found.map(with).ok_or_else(|| Failure::closed("memory", word))
}

/// Whether some of these bytes are part of a memory that is open, or of which parts are still in use.
pub fn has_bytes(bytes: Range<usize>) -> bool {
    memories().iter().flatten().filter_map(|open| open.region.upgrade()).any(|region| {
        let base = region.base().addr();
        base < bytes.end && bytes.start < base + region.len()
    })
}

/// Removes a memory.
pub fn remove_memory(word: u64) {
    let mut memories = memories();
    if let Some(place) = memories.get_mut(word::place(word)) {
        place.take_if(|open| open.word == word);
    }
}

/// Registers a pool. Returns its handle.
///
/// # Errors
/// The process has the maximum number already.
pub fn add_pool(pool: Pool, memory: u64) -> Result<u64, Failure> {
    let mut pools = pools();
    let word = put(&mut pools, POOLS, |word| OpenPool { word, pool, memory });
    let word = word.ok_or_else(|| Failure::new(ENFILE, "the process has 4096 pools already: close one"))?;
    // Release: for a thread that gets the handle in another way than from this thread. It looks the pool up
    // under the lock.
    POOL_WORDS[word::place(word)].store(word, Release);
    Ok(word)
}

/// Returns the pool of this handle.
///
/// # Errors
/// Nothing open has this handle.
pub fn pool(word: u64) -> Result<OpenPool, Failure> {
    let pools = pools();
    let found = pools.get(word::place(word)).and_then(Option::as_ref).filter(|open| open.word == word);
    found.cloned().ok_or_else(|| Failure::closed("pool", word))
}

/// Returns the handle of the pool of this frame, also if that pool was closed. Returns 0 if no pool has it.
#[cold]
pub fn pool_of(frame: &Frame) -> u64 {
    pools().iter().flatten().find(|open| open.pool.owns(frame)).map_or(0, |open| open.word)
}

/// Closes a pool: no call finds it by its handle any more. It stays registered until it is removed.
///
/// # Errors
/// Nothing open has this handle.
pub fn close_pool(word: u64) -> Result<OpenPool, Failure> {
    let open = pool(word)?;
    // An earlier call may have closed it. If that call has removed it by now, another pool may have its place.
    let _ = POOL_WORDS[word::place(word)].compare_exchange(word, 0, Relaxed, Relaxed);
    Ok(open)
}

/// Removes a closed pool.
pub fn remove_pool(word: u64) {
    let taken = pools().get_mut(word::place(word)).and_then(|place| place.take_if(|open| open.word == word));
    // Without the lock, because this may be the last reference to the pool.
    drop(taken);
}

/// Returns the number of open pools of this memory.
pub fn pools_of(memory: u64) -> usize {
    pools().iter().flatten().filter(|open| open.memory == memory && is_pool(open.word)).count()
}

/// Removes the pools of this memory that were closed but whose frames were not all waited for.
pub fn remove_closed_pools(memory: u64) {
    let closed = |open: &mut OpenPool| open.memory == memory && !is_pool(open.word);
    let taken: Vec<_> = pools().iter_mut().filter_map(|place| place.take_if(closed)).collect();
    drop(taken);
}

fn ports() -> MutexGuard<'static, BTreeSet<u64>> {
    PORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers the handle of a port that a worker has opened.
pub fn add_port(word: u64) {
    ports().insert(word);
}

/// Whether a worker has an open port of this handle.
#[cold]
pub fn is_port(word: u64) -> bool {
    ports().contains(&word)
}

/// Removes a port that its worker closes.
pub fn remove_port(word: u64) {
    ports().remove(&word);
}
