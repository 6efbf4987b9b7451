//! The workers, and who may be one now.
//!
//! A worker is for one thread at a time, and only inside of one call at a time. Its entry says which thread that is; a call goes in
//! by comparing the word and the thread, and says that it is inside until it returns. So a call that comes from another thread,
//! or out of a signal handler into one that is under way, is refused, and the state of a worker is `&mut` to the call that is in.
//!
//! All entries lie in one page that the kernel clears in a child (`MADV_WIPEONFORK`): there every worker's word is unknown,
//! without a check on the way in.
//!
//! # Soundness
//! `state` is followed only between the two stores of [`Inside`], by the thread whose number stood in `thread`: that number is put
//! there by the thread itself ([`open`], [`enter_thread`]), by compare-and-exchange where another one may try, and threads
//! that live have different ones. A thread that ended inside of nothing may leave its number to a later one, which is then the
//! worker's only thread all the same.

use crate::errno::{EBUSY, ECHILD, ENFILE, EPERM, ESTALE};
use crate::failure::{CHILD, Failure};
use crate::lanes::Ends;
use crate::objects::Uses;
use crate::opened::Known;
use crate::pools::Pools;
use crate::process::{self, PAGE, Wiped};
use crate::registry::{ReadyPool, Source};
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

/// In `thread`: a call is inside. No thread's number.
const INSIDE: usize = 1;
/// In `thread`: the worker is no thread's now.
const NOBODY: usize = 0;

/// One worker.
#[repr(C, align(32))]
struct Entry {
    /// 0 where there is none.
    word: AtomicU64,
    thread: AtomicUsize,
    state: AtomicPtr<State>,
}

/// A page that holds nothing else.
#[repr(C, align(4096))]
struct Page {
    entries: [Entry; PLACES],
}

/// Places in the page, of which the first [`WORKERS`] are given.
const PLACES: usize = PAGE / size_of::<Entry>();
const _: () = assert!(size_of::<Page>() == PAGE && WORKERS <= PLACES);
// SAFETY: one page, as is checked. Zeros are valid for every field, and say that there is no worker.
unsafe impl Wiped for Page {}

static PAGE_OF_ALL: Page = Page {
    entries: [const {
        Entry {
            word: AtomicU64::new(0),
            thread: AtomicUsize::new(NOBODY),
            state: AtomicPtr::new(ptr::null_mut()),
        }
    }; PLACES],
};
/// Held while a worker is opened or closed.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What a worker's calls work with.
pub struct State {
    /// The pools that it knows.
    pub pools: Pools,
    /// The caches and size classes that it knows, by place.
    pub caches: Known<Source>,
    /// The heads that it knows.
    pub heads: Known<HeadCache>,
    /// The ready pools that it knows.
    pub ready: Known<ReadyPool>,
    /// Empty between two calls; what moves packets in bulk has its room.
    pub packets: Packets,
    /// Empty between two calls: heads whose frames a port is asked to take.
    pub posting: InFlightHeads,
    /// Its ends of lanes.
    pub lanes: Ends,
    /// Its ports, by place.
    pub ports: Vec<Option<OpenPort>>,
    pub worker: Worker,
    pub tag: Tag,
    /// What it has of uses that are not frames'.
    pub uses: Uses,
    /// Frames, objects, pages, packets and shared frames that were given out to it and not given back.
    pub held: u64,
    pub memory: Memory,
    /// The memory's word.
    pub memory_word: u64,
}

/// A port of a worker.
pub struct OpenPort {
    pub word: u64,
    pub port: Box<dyn Port>,
    /// The word of the pool that it was opened with.
    pub pool: u64,
    /// Frames that it received when fewer were asked for.
    pub received: Batch,
    pub name: CString,
}

/// A call that is inside of its worker; the way out is its Drop.
pub struct Inside {
    entry: &'static Entry,
    here: usize,
    state: *mut State,
}

impl Deref for Inside {
    type Target = State;
    #[inline(always)]
    fn deref(&self) -> &State {
        // SAFETY: see the module: this call alone is inside, and the state lives until it is closed by a call that is.
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

/// Why a call does not get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// The word is no worker's, or of one that was closed.
    Closed,
    /// The worker is another thread's, or no thread's.
    OtherThread,
    /// A call of this worker is under way.
    Busy,
    /// This process is a child of the worker's.
    Child,
}

/// The entry that a worker of this word would have.
#[inline(always)]
fn entry(word: u64) -> &'static Entry {
    // A place that is none is brought into the page, where no word has it.
    &PAGE_OF_ALL.entries[word::place(word) % PLACES]
}

/// Goes in, if the word is that of a worker of this thread.
///
/// # Cost
/// Two loads, two stores and two comparisons, all of one line.
#[inline(always)]
pub fn go_in(word: u64) -> Option<Inside> {
    let (entry, here) = (entry(word), thread::here());
    if entry.word.load(Relaxed) != word || entry.thread.load(Relaxed) != here {
        return None;
    }
    entry.thread.store(INSIDE, Relaxed);
    // A signal handler runs on this thread: the compiler alone could put what follows, loads too, before that store. SeqCst, since
    // nothing less orders a store before a load; it is no instruction.
    compiler_fence(SeqCst);
    Some(Inside { entry, here, state: entry.state.load(Relaxed) })
}

/// The entry of the worker of this word, if there is one.
#[cold]
fn found(word: u64) -> Option<&'static Entry> {
    Some(entry(word)).filter(|entry| word != 0 && entry.word.load(Relaxed) == word)
}

/// Why [`go_in`] said no.
#[cold]
pub fn why_out(word: u64) -> Out {
    if process::is_child() {
        return Out::Child;
    }
    match found(word) {
        None => Out::Closed,
        Some(entry) if entry.thread.load(Relaxed) == INSIDE => Out::Busy,
        Some(_) => Out::OtherThread,
    }
}

/// This process begins to use the library.
///
/// # Errors
/// A child of one that did already has no use of it.
#[cold]
pub fn begin() -> Result<(), Failure> {
    if process::begin(&PAGE_OF_ALL) { Ok(()) } else { Err(Failure::new(ECHILD, CHILD)) }
}

/// A worker of this memory that is this thread's; its word.
///
/// # Errors
/// There is none left, of the process or of the memory.
#[cold]
pub fn open(memory: &Memory, memory_word: u64) -> Result<u64, Failure> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let free = PAGE_OF_ALL.entries[..WORKERS].iter().position(|entry| entry.word.load(Relaxed) == 0);
    let place = free.ok_or_else(|| {
        Failure::new(ENFILE, format!("the process has {WORKERS} workers already: close one"))
    })?;
    let worker = memory.worker().map_err(|error| Failure::new(ENFILE, too_many(&error)))?;
    let region = memory.region();
    let chunks = region.first_chunk()..region.first_chunk() + region.chunks();
    // SAFETY: the place is free, and taken below before anybody else looks for one.
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
    entry.state.store(Box::into_raw(Box::new(state)), Relaxed);
    entry.thread.store(thread::here(), Relaxed);
    entry.word.store(word, Relaxed);
    Ok(word)
}

/// Why the memory has no further worker.
fn too_many(error: &WorkerError) -> String {
    match error {
        WorkerError::AllTaken { workers } => format!(
            "all {workers} workers of this memory are in use: close one (netmem_worker_close), or open the memory with more (netmem_memory_config.workers)"
        ),
        other => other.to_string(),
    }
}

/// Closes a worker that a call is inside of. What its caches hold goes back.
///
/// # Errors
/// It has open ports, or frames.
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
    let state = inside.entry.state.swap(ptr::null_mut(), Relaxed);
    inside.entry.word.store(0, Relaxed);
    inside.here = NOBODY;
    drop(inside);
    drop(alone);
    // SAFETY: it came out of a box in `open`, and nobody gets in any more: the word is gone.
    drop(unsafe { Box::from_raw(state) });
    Ok(())
}

/// The worker is no thread's from now on, until one enters.
#[cold]
pub fn leave_thread(mut inside: Inside) {
    inside.here = NOBODY;
    // Release: pairs with the Acquire in `enter_thread`, so that the next thread sees all that this one did.
    std::sync::atomic::fence(Release);
}

/// The worker is this thread's from now on.
///
/// # Errors
/// It is another thread's, or there is none.
#[cold]
pub fn enter_thread(word: u64) -> Result<(), Failure> {
    // Nobody opens or closes one meanwhile.
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(entry) = found(word) else {
        return Err(Failure::new(ESTALE, "the worker was closed, or never opened"));
    };
    let here = thread::here();
    // Acquire: pairs with the Release in `leave_thread`.
    let entered = entry.thread.compare_exchange(NOBODY, here, Acquire, Relaxed);
    match entered {
        Err(other) if other != here => Err(Failure::new(
            EPERM,
            "the worker is another thread's: netmem_worker_leave there first, netmem_worker_enter here then",
        )),
        _ => Ok(()),
    }
}

/// How many workers of this memory are open.
#[cold]
pub fn of_memory(memory_word: u64) -> usize {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let open = PAGE_OF_ALL.entries.iter().filter(|entry| entry.word.load(Relaxed) != 0);
    // SAFETY: a worker is opened and closed under the lock, so its state lives; its memory's word is only ever read.
    open.filter(|entry| unsafe { (*entry.state.load(Relaxed)).memory_word } == memory_word).count()
}
