//! libnetmem, as a program in C uses it: opened by its name, with each call through a pointer.
//!
//! Sound because the functions are called with the types that netmem.h declares, by the one thread that has the worker,
//! and because the memory that they write to lives longer than the call.

pub mod crossing;
pub mod packets;

use std::env;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use crate::system::library::Library;

/// The variable that names the library if it is not installed.
pub(super) const LIBRARY: &str = "NETMEM_LAB_LIBNETMEM";

/// Maximum number of frames of one call.
pub const BURST_MAX: usize = 32;

/// The settings of a memory, as in netmem.h.
#[derive(Default)]
#[repr(C)]
struct MemoryConfig {
    bytes: u64,
    workers: u32,
    small_pages: u32,
    in_file: u32,
    reserved: [u32; 5],
}

/// The settings of a pool, as in netmem.h.
#[repr(C)]
struct PoolConfig {
    name: *const c_char,
    frames: u32,
    frame_size: u32,
    cache: u32,
    cleared: u32,
    reserved: [u32; 8],
}

/// A handle of any kind: one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
struct Word(u64);

type MemoryOpen = unsafe extern "C" fn(*const MemoryConfig, *mut Word) -> c_int;
type WorkerOpen = unsafe extern "C" fn(Word, *mut Word) -> c_int;
type OfWorker = unsafe extern "C" fn(Word) -> c_int;
type PoolOpen = unsafe extern "C" fn(Word, *const PoolConfig, *mut Word) -> c_int;
type Close = unsafe extern "C" fn(Word, u32) -> c_int;
type Alloc = unsafe extern "C" fn(Word, Word, *mut Word, u32, *const c_char) -> c_int;
type Free = unsafe extern "C" fn(Word, *const Word, u32, *const c_char) -> c_int;
type RawAlloc = unsafe extern "C" fn(Word, Word, *mut Word, u32) -> c_int;
type RawFree = unsafe extern "C" fn(Word, *const Word, u32) -> c_int;
type RawPoolFree = unsafe extern "C" fn(Word, Word, *const Word, u32) -> c_int;
type Version = unsafe extern "C" fn() -> *const c_char;

/// The kind of a frame's handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handles {
    /// Words that are checked at each call.
    Checked,
    /// Words that nothing checks.
    Raw,
    /// The same, and the call that frees them names their pool.
    RawOfPool,
}

/// Returns the library, which it opens.
///
/// # Errors
/// How to get the library.
pub(super) fn library() -> Result<Library, String> {
    let named = env::var(LIBRARY).unwrap_or_else(|_| "libnetmem.so.0".to_owned());
    // SAFETY: libnetmem does nothing when it is opened.
    unsafe { Library::open(&named) }.ok_or_else(|| {
        format!(
            "there is no {named}: make -C capi install PREFIX=DIR and name DIR/lib/libnetmem.so.0 by {LIBRARY}"
        )
    })
}

/// A pool of libnetmem, with its worker and its memory. It is closed when it is dropped.
pub struct LibnetmemPool {
    memory: Word,
    worker: Word,
    pool: Word,
    alloc: Alloc,
    free: Free,
    raw_alloc: RawAlloc,
    raw_free: RawFree,
    raw_pool_free: RawPoolFree,
    held: OfWorker,
    pool_close: Close,
    worker_close: OfWorker,
    memory_close: Close,
    /// The version that the library reports.
    pub version: String,
}

impl LibnetmemPool {
    /// Opens a pool of `frames` frames of `frame_size` bytes, with `cache` of them at its worker.
    ///
    /// # Errors
    /// How to get the library, or which call failed.
    pub fn open(frames: u32, frame_size: u32, cache: u32) -> Result<LibnetmemPool, String> {
        let library = library()?;
        // SAFETY: the type in netmem.h. It takes nothing and returns a static text.
        let version = unsafe { CStr::from_ptr(function::<Version>(library, c"netmem_version")?()) };
        let version = version.to_string_lossy().into_owned();
        // SAFETY: the types of these functions in netmem.h.
        let (memory_open, worker_open, pool_open) = unsafe {
            (
                function::<MemoryOpen>(library, c"netmem_memory_open")?,
                function::<WorkerOpen>(library, c"netmem_worker_open")?,
                function::<PoolOpen>(library, c"netmem_pool_open")?,
            )
        };
        // SAFETY: as above.
        let mut opened = unsafe {
            LibnetmemPool {
                memory: Word::default(),
                worker: Word::default(),
                pool: Word::default(),
                alloc: function(library, c"netmem_alloc_at")?,
                free: function(library, c"netmem_free_at")?,
                raw_alloc: function(library, c"netmem_raw_alloc")?,
                raw_free: function(library, c"netmem_raw_free")?,
                raw_pool_free: function(library, c"netmem_raw_pool_free")?,
                held: function(library, c"netmem_worker_held")?,
                pool_close: function(library, c"netmem_pool_close")?,
                worker_close: function(library, c"netmem_worker_close")?,
                memory_close: function(library, c"netmem_memory_close")?,
                version,
            }
        };
        // DPDK and the library's own memory have the same pages here.
        let small = MemoryConfig { small_pages: 1, ..MemoryConfig::default() };
        let config =
            PoolConfig { name: ptr::null(), frames, frame_size, cache, cleared: 0, reserved: [0; 8] };
        let done =
            |step: &str, errno: c_int| if errno == 0 { Ok(()) } else { Err(format!("{step}: {errno}")) };
        // SAFETY: handles that were opened before, a configuration, and destinations that live longer than the calls.
        unsafe {
            done("netmem_memory_open", memory_open(&raw const small, &raw mut opened.memory))?;
            done("netmem_worker_open", worker_open(opened.memory, &raw mut opened.worker))?;
            done("netmem_pool_open", pool_open(opened.worker, &raw const config, &raw mut opened.pool))?;
        }
        Ok(opened)
    }

    /// Allocates and frees `ops` frames, `burst` at a time. Returns how many allocations failed.
    pub fn run(&mut self, handles: Handles, burst: usize, ops: u32) -> u64 {
        match handles {
            Handles::Checked => self.checked(burst, ops),
            Handles::Raw => self.raw::<false>(burst, ops),
            Handles::RawOfPool => self.raw::<true>(burst, ops),
        }
    }

    #[inline(never)]
    fn checked(&mut self, burst: usize, ops: u32) -> u64 {
        let (mut words, mut refused) = ([Word::default(); BURST_MAX], 0);
        let n = burst.min(BURST_MAX) as u32;
        for _ in 0..ops / n {
            // SAFETY: room for the burst, and handles that the call before returned.
            unsafe {
                let got = (self.alloc)(self.worker, self.pool, words.as_mut_ptr(), n, ptr::null());
                let got = got.max(0) as u32;
                refused += u64::from(n - got);
                refused += u64::from((self.free)(self.worker, words.as_ptr(), got, ptr::null()) != 0);
            }
        }
        refused
    }

    #[inline(never)]
    fn raw<const OF_POOL: bool>(&mut self, burst: usize, ops: u32) -> u64 {
        let (mut words, mut refused) = ([Word::default(); BURST_MAX], 0);
        let n = burst.min(BURST_MAX) as u32;
        for _ in 0..ops / n {
            // SAFETY: as in `checked`. The loop frees each raw frame once, and the pool owns all of them.
            unsafe {
                let got = (self.raw_alloc)(self.worker, self.pool, words.as_mut_ptr(), n).max(0) as u32;
                refused += u64::from(n - got);
                let said = if OF_POOL {
                    (self.raw_pool_free)(self.worker, self.pool, words.as_ptr(), got)
                } else {
                    (self.raw_free)(self.worker, words.as_ptr(), got)
                };
                refused += u64::from(said != 0);
            }
        }
        refused
    }

    /// Returns the number of frames that the worker has not freed.
    pub fn out(&self) -> u64 {
        // SAFETY: a worker that is open.
        unsafe { (self.held)(self.worker) }.max(0) as u64
    }
}

impl Drop for LibnetmemPool {
    fn drop(&mut self) {
        // SAFETY: handles that were opened, or are 0, which is refused.
        unsafe {
            (self.pool_close)(self.pool, 1000);
            (self.worker_close)(self.worker);
            (self.memory_close)(self.memory, 1000);
        }
    }
}

/// Returns the function with this name.
///
/// # Safety
/// As for [`Library::function`].
unsafe fn function<F: Copy>(library: Library, name: &CStr) -> Result<F, String> {
    // SAFETY: the caller's promise.
    unsafe { library.function(name) }.ok_or_else(|| format!("{}: it has none", name.to_string_lossy()))
}
