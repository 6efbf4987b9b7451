//! Opens and closes memories.

use super::reclaim::still_out;
use super::types::{flag, given, netmem_memory, netmem_memory_config, place, unreserved};
use crate::answer::answer;
use crate::errno::{EBUSY, EEXIST, EINVAL, EMFILE, ENFILE, ENOMEM, ETIMEDOUT};
use crate::failure::{Failure, several};
use crate::lanes::LANES;
use crate::registry::{CACHES, HEADS, READY};
use crate::{own, registry, slots, workers};
use netmem::limits::CHUNK_SIZE;
use netmem::page::{BackingPreference, Lent, MemoryError, RegionError};
use netmem::port::memif::Lend;
use netmem::{Memory, MemoryConfig};
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Opens a memory and writes its handle to `memory`. `config` may be NULL, which selects the defaults.
/// A memory takes a multiple of 2 GiB of the addresses of the process, however small it is. While the call runs,
/// there must be 2 GiB more than `bytes` below the limit of the address space (RLIMIT_AS), and the first pool takes
/// 8 GiB more (netmem_pool_open).
/// Returns 0, -EINVAL if the options are not usable, -ENOMEM if the system has no memory or no address space,
/// -EMFILE if there is no descriptor for a memory in a file (`ulimit -n`), or -ENFILE if the process has 1023 memories
/// (fewer if they are larger than 2 GiB) or the system has too many descriptors.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_memory_open(
    config: *const netmem_memory_config,
    memory: *mut netmem_memory,
) -> c_int {
    answer("netmem_memory_open", || {
        // SAFETY: the promise of C.
        let (memory, given) = unsafe { (place("memory", memory)?, config.as_ref()) };
        let config = read(given)?;
        let in_file = given.map_or(0, |config| config.in_file);
        let made = if flag(IN_FILE, in_file)? {
            // SAFETY: the promise of C: netmem.h states that the caller of `in_file` vouches that peers write
            // only to frames that were handed to them.
            unsafe { Memory::shared(&config) }
        } else {
            Memory::new(&config)
        };
        memory.word = begun(made.map_err(failure)?)?;
        Ok(0)
    })
}

/// Opens a memory over `bytes` bytes at `base` that belong to the caller, such as a mapping of a memfd.
/// `config` may be NULL, which selects the defaults.
/// The bytes must be mapped, readable and writable. Nothing else may access them until netmem_memory_close
/// has returned 0. Caches, size classes and heads cannot be opened in such a memory.
/// Returns 0, -EFAULT if `base` is NULL, -EINVAL if the range or the options are not usable, -EEXIST if some of the
/// bytes are part of another memory, or an errno of netmem_memory_open.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_memory_lend(
    base: *mut c_void,
    bytes: usize,
    config: *const netmem_memory_config,
    memory: *mut netmem_memory,
) -> c_int {
    answer("netmem_memory_lend", || {
        // SAFETY: the promise of C.
        let (memory, config) = unsafe { (place("memory", memory)?, config.as_ref()) };
        // SAFETY: as above.
        unsafe { given("base", base) }?;
        if flag(IN_FILE, config.map_or(0, |config| config.in_file))? {
            let text = format!("{IN_FILE} is 1, but lent bytes stay where they are: set it to 0");
            return Err(Failure::invalid(text));
        }
        // The library's own text has a remedy that C does not have.
        if bytes / CHUNK_SIZE >= slots::NUMBERS {
            let text = format!("{bytes} bytes cannot be lent: lend less than 2 TiB");
            return Err(Failure::invalid(text));
        }
        // SAFETY: the promise of C: netmem.h states what the bytes must be, and that the caller gets them
        // back when `netmem_memory_close` returns 0.
        let lent = unsafe { Lent::adopt(base.cast(), bytes, ()) };
        let lent = lent.map_err(|error| Failure::new(EINVAL, error))?;
        // Two calls at once could otherwise both find the bytes unused.
        let _alone = LENDING.lock().unwrap_or_else(PoisonError::into_inner);
        unused(base as usize, bytes)?;
        memory.word = begun(Memory::lent(lent, &read(config)?).map_err(failure)?)?;
        Ok(0)
    })
}

/// The option for a memory that a peer can map, in messages.
const IN_FILE: &str = "netmem_memory_config.in_file";
/// Locked while bytes are lent.
static LENDING: Mutex<()> = Mutex::new(());

/// Checks that no memory has these bytes.
///
/// # Errors
/// EEXIST: some of them are part of an open memory, or of one whose parts are still in use.
fn unused(base: usize, bytes: usize) -> Result<(), Failure> {
    let end = base.saturating_add(bytes);
    if !registry::has_bytes(base..end) {
        return Ok(());
    }
    let text = format!(
        "the bytes {base:#x} to {end:#x} are part of another memory: lend each byte once, or close that memory first"
    );
    Err(Failure::new(EEXIST, text))
}

/// Registers a memory and begins to use the library in this process. This is the last step: if a call fails before, the
/// process has no memory, and its children may open one.
fn begun(memory: Memory) -> Result<u64, Failure> {
    let word = add(memory)?;
    workers::begin()?;
    Ok(word)
}

/// Reads the options; a NULL `config` selects the defaults.
///
/// # Errors
/// A reserved field is not 0.
fn read(config: Option<&netmem_memory_config>) -> Result<MemoryConfig, Failure> {
    let mut to = MemoryConfig::default();
    if let Some(config) = config {
        unreserved("netmem_memory_config", &config.reserved)?;
        if config.bytes > 0 {
            to.bytes = usize::try_from(config.bytes).unwrap_or(usize::MAX);
        }
        if config.workers > 0 {
            to.workers = config.workers as usize;
        }
        if flag("netmem_memory_config.small_pages", config.small_pages)? {
            to.backing = BackingPreference::Small;
        }
    }
    Ok(to)
}

/// The failure of a memory that could not be made: of its options, or of the system.
#[cold]
fn failure(error: MemoryError) -> Failure {
    Failure::new(errno_of(&error), error)
}

/// The errno of a memory that could not be made.
pub fn errno_of(error: &MemoryError) -> i32 {
    match error {
        MemoryError::Region(RegionError::Segments { .. }) => ENFILE,
        MemoryError::Region(RegionError::Map { errno, .. })
            if [EMFILE, ENFILE].contains(&errno.raw_os_error()) =>
        {
            errno.raw_os_error()
        }
        MemoryError::Region(
            RegionError::Map { .. } | RegionError::AddressSpace { .. } | RegionError::Guard { .. },
        ) => ENOMEM,
        _ => EINVAL,
    }
}

/// Registers a memory, after it has made slots for the uses of its frames.
fn add(memory: Memory) -> Result<u64, Failure> {
    make_slots(&memory)?;
    // SAFETY: the promise of C: a port uses it only if its string has `lend=yes`, with which the caller of
    // netmem_port_open vouches for the peer, as netmem.h states.
    registry::add_memory(memory, unsafe { Lend::to_trusted_peers() })
}

/// Makes slots for the uses of a memory's frames.
///
/// # Errors
/// Handles cannot address the frames, or there is no memory for the slots.
pub fn make_slots(memory: &Memory) -> Result<(), Failure> {
    let chunks = slots::chunks_of(memory.region());
    if chunks.end as usize > slots::NUMBERS {
        return Err(Failure::new(
            ENFILE,
            "handles can address 2 TiB, of which each memory takes a multiple of 2 GiB, and this memory would exceed that: close one",
        ));
    }
    if !slots::open(chunks) {
        return Err(Failure::new(
            ENOMEM,
            "no memory for the table of handles: allow the process more memory (ulimit -v)",
        ));
    }
    Ok(())
}

/// Returns the descriptor of the file in which a memory with `in_file` lies, for a peer to map. The library
/// closes the descriptor with the memory.
/// Returns -EINVAL if the memory was opened without `in_file`.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_memory_fd(memory: netmem_memory) -> c_int {
    answer("netmem_memory_fd", || {
        let file = registry::with_memory(memory.word, |open| {
            let region = open.region.upgrade()?;
            region.file().map(|file| file.as_raw_fd())
        })?;
        file.ok_or_else(|| Failure::invalid("the memory is not in a file: open it with in_file"))
    })
}

/// Closes a memory. Close its workers, pools, caches, heads, ready pools and lanes first. Waits up to
/// `milliseconds` for the last frames to be freed, also those of memories that ports of its workers had of their own
/// (netmem_port_open).
/// Returns 0 if no part of the memory is in use any more, -EBUSY if one of these is still open, or -ETIMEDOUT
/// if parts of the memory are still in use; netmem_last_error says which. After -ETIMEDOUT the memory cannot be used to open anything any
/// more, and a worker of any other memory can free its detached and raw frames. The call may be repeated.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_memory_close(memory: netmem_memory, milliseconds: u32) -> c_int {
    answer("netmem_memory_close", || {
        let word = memory.word;
        registry::with_memory(word, |_| ())?;
        let open = [
            (workers::of_memory(word), "worker", "workers"),
            (registry::pools_of(word), "pool", "pools"),
            (CACHES.of_memory(word), "cache", "caches"),
            (HEADS.of_memory(word), "cache of heads", "caches of heads"),
            (READY.of_memory(word), "ready pool", "ready pools"),
            (LANES.of_memory(word), "lane", "lanes"),
        ];
        for (open, one, more) in open {
            if open > 0 {
                let open = several(open, one, more);
                return Err(Failure::new(EBUSY, format!("{open} of the memory still open: close first")));
            }
        }
        registry::remove_closed_pools(word);
        // Drops the last handle without holding the lock.
        drop(registry::with_memory(word, |open| (open.memory.take(), open.opener.take()))?);
        let begun = Instant::now();
        let deadline = Duration::from_millis(milliseconds.into());
        loop {
            let is_out = registry::with_memory(word, |open| open.region.strong_count())? > 0;
            if !is_out && own::of_memory(word).is_empty() {
                break;
            }
            if begun.elapsed() >= deadline {
                return Err(Failure::new(ETIMEDOUT, still_out(word)?));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        registry::remove_memory(word);
        Ok(0)
    })
}
