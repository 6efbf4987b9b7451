//! The workers, and the thread to which each one belongs.
//!
//! One thread at a time uses a worker, and only one call at a time is inside it. The entry of a worker names the
//! thread. A call enters by comparing the handle and the thread, and marks the entry as busy until it returns. So a
//! call from another thread, or from a signal handler that interrupted a call, is refused. The call that is inside has
//! the state of the worker as `&mut`.
//!
//! All entries lie in one page that the kernel clears in a child (`MADV_WIPEONFORK`). So every handle of a worker is
//! unknown in a child, without a check on entry. The states themselves stay reachable there ([`STATES`]).
//!
//! # Soundness
//! A call follows `state` only between the two stores of [`Inside`], and only if the number of its own thread stood in
//! `thread`. A thread puts its number there itself ([`open`], [`enter_thread`]), by compare-and-exchange where another
//! thread may try at the same time. Two living threads have different numbers. A thread that ends leaves its workers
//! ([`leave_all`]), so a later thread that gets the same number has none of them. A worker in whose call its thread ended,
//! or which a call left by a jump (longjmp(3)), stays busy until the process ends.
//!
//! There is a gap: between the check and the mark of [`go_in`], a signal handler is not seen as one that interrupted a
//! call. Its calls with the same worker are over when the call goes on, which is harmless unless they closed the worker or
//! left it. So netmem.h forbids these two in handlers. Closing the gap would take a locked instruction in every call.

use crate::errno::{EBUSY, ECHILD, ENFILE, EPERM};
use crate::failure::{CHILD, Failure};
use crate::lanes::Ends;
use crate::objects::Uses;
use crate::opened::Known;
use crate::pools::Pools;
use crate::process::{self, PAGE, Wiped};
use crate::registry::{ReadyPool, Source};
use crate::slots::chunks_of;
use crate::table::{Tag, WORKERS};
use crate::{thread, word};
use netmem::limits::BATCH_MAX;
use netmem::packet::InFlightHeads;
use netmem::sync::WorkerError;
use netmem::{Batch, HeadCache, Memory, Packets, Port, Worker};
use std::ffi::CString;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, compiler_fence};
use std::sync::{Mutex, PoisonError};

/// Bit of `thread` while a call is inside, in addition to the number of the calling thread, which is even.
const INSIDE: usize = 1;
/// Value of `thread` while the worker belongs to no thread.
const NOBODY: usize = 0;

/// The entry of one worker.
#[repr(C, align(32))]
struct Entry {
    /// The handle of the worker. 0 if the entry is free.
    word: AtomicU64,
    thread: AtomicUsize,
    state: AtomicPtr<State>,
    /// The handle of the memory. Other threads read it, while only the thread of the worker may look into the state.
    memory: AtomicU64,
}

/// A page that contains nothing else.
#[repr(C, align(4096))]
struct Page {
    entries: [Entry; PLACES],
}

/// Entries in the page. Workers use the first [`WORKERS`] of them.
const PLACES: usize = PAGE / size_of::<Entry>();
const _: () = assert!(size_of::<Page>() == PAGE && WORKERS <= PLACES);
// SAFETY: one page, which is checked above. Zeros are valid for every field and mean that there is no worker.
unsafe impl Wiped for Page {}

static PAGE_OF_ALL: Page = Page {
    entries: [const {
        Entry {
            word: AtomicU64::new(0),
            thread: AtomicUsize::new(NOBODY),
            state: AtomicPtr::new(ptr::null_mut()),
            memory: AtomicU64::new(0),
        }
    }; PLACES],
};
/// The states by place, in a page that children see too. LeakSanitizer would otherwise report them in a child that ends by
/// exit(3). Only [`close`] follows them, which no call in a child reaches.
static STATES: [AtomicPtr<State>; PLACES] = [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];
/// Locked while a worker is opened or closed.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The state that the calls of a worker use.
pub struct State {
    /// The pools that the worker has looked up.
    pub pools: Pools,
    /// The caches and size classes that it has looked up, by place.
    pub caches: Known<Source>,
    /// The heads that it has looked up.
    pub heads: Known<HeadCache>,
    /// The ready pools that it has looked up.
    pub ready: Known<ReadyPool>,
    /// Room for packets that move in bulk. Empty between two calls.
    pub packets: Packets,
    /// The heads of frames that a port is asked to take. Empty between two calls.
    pub posting: InFlightHeads,
    /// Its ends of lanes.
    pub lanes: Ends,
    /// Its ports, by place.
    pub ports: Vec<Option<OpenPort>>,
    pub worker: Worker,
    pub tag: Tag,
    /// Its uses of things other than frames.
    pub uses: Uses,
    /// Number of frames, objects, pages, packets and shared frames that the worker holds.
    pub held: u64,
    pub memory: Memory,
    /// The handle of the memory.
    pub memory_word: u64,
}

/// A port of a worker.
pub struct OpenPort {
    pub word: u64,
    pub port: Box<dyn Port>,
    /// The handle of the pool of the frames that it receives. 0: a pool of the port's own.
    pub pool: u64,
    /// Frames that the device returned beyond the number that the call asked for.
    pub received: Batch,
    /// Whether the thread may sleep on the port's descriptor.
    pub is_armed: bool,
    pub name: CString,
    /// What is known of it beyond its name.
    pub detail: CString,
    /// The address of this end of the link when it was last looked at.
    pub mac: [u8; 6],
    /// The interface whose address that is; None if the end has an address of its own.
    pub interface: Option<String>,
    /// The interface's MTU when the port was opened; None if the link has no interface.
    pub mtu: Option<u16>,
}

/// A call that is inside its worker. Its Drop leaves the worker.
pub struct Inside {
    entry: &'static Entry,
    here: usize,
    state: *mut State,
}

impl Deref for Inside {
    type Target = State;
    #[inline(always)]
    fn deref(&self) -> &State {
        // SAFETY: see the module. Only this call is inside, and the state lives until a call that is inside
        // closes the worker.
        unsafe { &*self.state }
    }
}

impl DerefMut for Inside {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut State {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.state }
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Release);
        self.entry.thread.store(self.here, Relaxed);
    }
}

/// Why a call cannot enter its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// The handle is not that of a worker, or the worker was closed.
    Closed,
    /// The worker belongs to another thread.
    OtherThread,
    /// The worker belongs to no thread: its thread has left it, or has ended.
    NoThread,
    /// Another call of this worker is running.
    Busy,
    /// This process is a child of the worker's process.
    Child,
}

/// Returns the entry in which a worker of this handle would be.
#[inline(always)]
fn entry(word: u64) -> &'static Entry {
    // An index out of range is reduced to one in the page, where no entry has this handle.
    &PAGE_OF_ALL.entries[word::place(word) % PLACES]
}

/// Enters the worker of this handle, if it belongs to the calling thread.
///
/// # Cost
/// Two loads, two stores and two comparisons, all in one cache line.
#[inline(always)]
pub fn go_in(word: u64) -> Option<Inside> {
    let (entry, here) = (entry(word), thread::here());
    if entry.word.load(Relaxed) != word || entry.thread.load(Relaxed) != here {
        return None;
    }
    entry.thread.store(here | INSIDE, Relaxed);
    // A signal handler runs on this thread, so only the compiler could move what follows, including loads,
    // before that store. SeqCst, because no weaker ordering keeps a store before a load. It compiles to no
    // instruction.
    compiler_fence(SeqCst);
    Some(Inside { entry, here, state: entry.state.load(Relaxed) })
}

/// Returns the entry of the worker of this handle, if there is such a worker.
#[cold]
fn found(word: u64) -> Option<&'static Entry> {
    Some(entry(word)).filter(|entry| word != 0 && entry.word.load(Relaxed) == word)
}

/// Returns why [`go_in`] refused.
#[cold]
pub fn why_out(word: u64) -> Out {
    if process::is_child() {
        return Out::Child;
    }
    match found(word) {
        None => Out::Closed,
        Some(entry) if is_interrupted(entry) => Out::Busy,
        Some(entry) if entry.thread.load(Relaxed) == NOBODY => Out::NoThread,
        Some(_) => Out::OtherThread,
    }
}

/// Whether the calling thread is inside this worker: a signal handler has interrupted a call.
#[cold]
fn is_interrupted(entry: &Entry) -> bool {
    entry.thread.load(Relaxed) == thread::here() | INSIDE
}

/// Begins to use the library in this process.
///
/// # Errors
/// This process is a child of a process that began to use the library.
#[cold]
pub fn begin() -> Result<(), Failure> {
    if process::begin(&PAGE_OF_ALL) { Ok(()) } else { Err(Failure::new(ECHILD, CHILD)) }
}

/// Makes the calling thread leave its workers when it ends.
fn leave_at_end() -> Result<(), Failure> {
    let text = "the process has no key for data of threads: delete one (pthread_key_delete(3))";
    if thread::at_end(leave_all) { Ok(()) } else { Err(Failure::new(ENFILE, text)) }
}

/// Releases the workers of the calling thread, which ends.
fn leave_all() {
    let here = thread::here();
    for entry in &PAGE_OF_ALL.entries {
        // Release: pairs with the Acquire in `enter_thread`. The next thread sees everything that this thread did.
        // An error: it belongs to another thread, or this one ended within a call.
        let _ = entry.thread.compare_exchange(here, NOBODY, Release, Relaxed);
    }
}

/// Opens a worker of this memory for the calling thread. Returns its handle.
///
/// # Errors
/// The process or the memory has no free worker.
#[cold]
pub fn open(memory: &Memory, memory_word: u64) -> Result<u64, Failure> {
    leave_at_end()?;
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let free = PAGE_OF_ALL.entries[..WORKERS].iter().position(|entry| entry.word.load(Relaxed) == 0);
    let place = free.ok_or_else(|| {
        Failure::new(ENFILE, format!("the process has {WORKERS} workers already: close one"))
    })?;
    let worker = memory.worker().map_err(|error| Failure::new(ENFILE, too_many(&error)))?;
    let chunks = chunks_of(memory.region());
    // SAFETY: the place is free, and the lock keeps other threads from taking it before this one does.
    let tag = unsafe { Tag::new(place, chunks) };
    let state = State {
        pools: Pools::new(),
        caches: Vec::new(),
        heads: Vec::new(),
        ready: Vec::new(),
        packets: Packets::new(),
        posting: InFlightHeads::new(BATCH_MAX),
        lanes: Ends::default(),
        ports: Vec::new(),
        worker,
        tag,
        uses: Uses::default(),
        held: 0,
        memory: memory.clone(),
        memory_word,
    };
    let (entry, word) = (&PAGE_OF_ALL.entries[place], word::new(place));
    let state = Box::into_raw(Box::new(state));
    STATES[place].store(state, Relaxed);
    entry.state.store(state, Relaxed);
    entry.memory.store(memory_word, Relaxed);
    entry.thread.store(thread::here(), Relaxed);
    entry.word.store(word, Relaxed);
    Ok(word)
}

/// The message for a memory that has no free worker.
fn too_many(error: &WorkerError) -> String {
    match error {
        WorkerError::AllTaken { workers } => format!(
            "all {workers} workers of this memory are in use: close one (netmem_worker_close), or open the memory with more (netmem_memory_config.workers)"
        ),
        other => other.to_string(),
    }
}

/// Closes the worker that the call is inside of. The contents of its caches go back.
///
/// # Errors
/// The worker has open ports or ends of lanes, or holds frames or other things.
#[cold]
pub fn close(mut inside: Inside) -> Result<(), Failure> {
    let held = inside.held;
    if held > 0 {
        let text = format!(
            "the worker holds {held} frames, objects, pages and packets: free, send or detach them first, or call netmem_worker_reclaim"
        );
        return Err(Failure::new(EBUSY, text));
    }
    if inside.ports.iter().any(Option::is_some) {
        return Err(Failure::new(EBUSY, "the worker has open ports: close them first (netmem_port_close)"));
    }
    if inside.lanes.len() > 0 {
        return Err(Failure::new(
            EBUSY,
            "the worker has ends of lanes: close them first (netmem_lane_close)",
        ));
    }
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let place = word::place(inside.entry.word.load(Relaxed));
    let state = STATES[place].swap(ptr::null_mut(), Relaxed);
    inside.entry.state.store(ptr::null_mut(), Relaxed);
    inside.entry.word.store(0, Relaxed);
    inside.here = NOBODY;
    drop(inside);
    drop(alone);
    // SAFETY: it came from a box in `open`, and no call can enter any more, because the entry has no handle.
    drop(unsafe { Box::from_raw(state) });
    Ok(())
}

/// Releases the worker from its thread, until a thread enters it.
#[cold]
pub fn leave_thread(mut inside: Inside) {
    inside.here = NOBODY;
    // Release: pairs with the Acquire in `enter_thread`. The next thread sees everything that this thread
    // did.
    std::sync::atomic::fence(Release);
}

/// Whether the calling thread has interrupted a call of this worker.
#[cold]
pub fn is_busy_here(word: u64) -> bool {
    found(word).is_some_and(is_interrupted)
}

/// Assigns the worker to the calling thread, which is not inside it.
///
/// # Errors
/// The worker belongs to another thread, or there is no such worker.
#[cold]
pub fn enter_thread(word: u64) -> Result<(), Failure> {
    // Keeps other threads from opening or closing a worker.
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(entry) = found(word) else {
        return Err(Failure::closed("worker", word));
    };
    leave_at_end()?;
    let here = thread::here();
    // Acquire: pairs with the Release in `leave_thread` and `leave_all`.
    let entered = entry.thread.compare_exchange(NOBODY, here, Acquire, Relaxed);
    match entered {
        Err(other) if other != here => Err(Failure::new(
            EPERM,
            "the worker belongs to another thread: call netmem_worker_leave there, then netmem_worker_enter here",
        )),
        _ => Ok(()),
    }
}

/// Returns the number of open workers of this memory.
#[cold]
pub fn of_memory(memory_word: u64) -> usize {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let open = PAGE_OF_ALL.entries.iter().filter(|entry| entry.word.load(Relaxed) != 0);
    open.filter(|entry| entry.memory.load(Relaxed) == memory_word).count()
}
