//! Memories.

use super::types::{given, netmem_memory, netmem_memory_config, place};
use crate::errno::{EBUSY, EINVAL, ENOMEM, ETIMEDOUT};
use crate::failure::{Failure, answer};
use crate::lanes::LANES;
use crate::registry::{CACHES, HEADS, READY};
use crate::{registry, slots, workers};
use netmem::page::{BackingPreference, Lent};
use netmem::{Memory, MemoryConfig};
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Opens a memory of its own; `config` may be NULL.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_memory_open(
    config: *const netmem_memory_config,
    memory: *mut netmem_memory,
) -> c_int {
    answer(|| {
        workers::begin()?;
        // SAFETY: the promise of C.
        let (memory, given) = unsafe { (place("memory", memory)?, config.as_ref()) };
        let config = read(given);
        let made = if given.is_some_and(|config| config.in_file != 0) {
            // SAFETY: netmem.h says of `in_file` what the caller vouches for: that peers write no frame but those they were handed.
            unsafe { Memory::shared(&config) }
        } else {
            Memory::new(&config)
        };
        memory.word = add(made.map_err(|error| Failure::new(ENOMEM, error))?)?;
        Ok(0)
    })
}

/// Opens a memory over `bytes` bytes at `base`, which are the caller's: mapped, readable and writable, and touched by nobody else
/// until netmem_memory_close has returned 0. A mapping of a memfd is such memory. `config` may be NULL.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_memory_lend(
    base: *mut c_void,
    bytes: usize,
    config: *const netmem_memory_config,
    memory: *mut netmem_memory,
) -> c_int {
    answer(|| {
        workers::begin()?;
        // SAFETY: the promise of C.
        let (memory, config) = unsafe { (place("memory", memory)?, config.as_ref()) };
        // SAFETY: as above.
        unsafe { given("base", base) }?;
        // SAFETY: what netmem.h says of the bytes; `netmem_memory_close` says when they are the caller's again.
        let lent = unsafe { Lent::adopt(base.cast(), bytes, ()) };
        let lent = lent.map_err(|error| Failure::new(EINVAL, error))?;
        memory.word = add(Memory::lent(lent, &read(config)).map_err(|error| Failure::new(EINVAL, error))?)?;
        Ok(0)
    })
}

fn read(config: Option<&netmem_memory_config>) -> MemoryConfig {
    let mut to = MemoryConfig::default();
    if let Some(config) = config {
        if config.bytes > 0 {
            to.bytes = usize::try_from(config.bytes).unwrap_or(usize::MAX);
        }
        if config.workers > 0 {
            to.workers = config.workers as usize;
        }
        if config.small_pages != 0 {
            to.backing = BackingPreference::Small;
        }
    }
    to
}

/// Takes it in, with slots for the uses of its frames.
fn add(memory: Memory) -> Result<u64, Failure> {
    let region = memory.region();
    let chunks = region.first_chunk()..region.first_chunk() + region.chunks();
    if chunks.end as usize > slots::NUMBERS {
        return Err(Failure::new(
            ENOMEM,
            "handles number 2 TiB of frames, and this memory would lie behind them",
        ));
    }
    slots::open(chunks);
    registry::add_memory(memory)
}

/// The descriptor of the file that a memory with `in_file` lies in, for a peer to map. It is closed with the memory.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_memory_fd(memory: netmem_memory) -> c_int {
    answer(|| {
        let file = registry::with_memory(memory.word, |open| {
            let region = open.region.upgrade()?;
            region.file().map(|file| file.as_raw_fd())
        })?;
        file.ok_or_else(|| Failure::invalid("the memory is in no file: open it with in_file"))
    })
}

/// Closes a memory, whose workers, pools, caches, heads, ready pools and lanes were closed before, and waits up to `milliseconds` until the last of its frames is home.
/// Returns 0 when nothing of it is in use any more, and -ETIMEDOUT when some is: then it may be called again.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_memory_close(memory: netmem_memory, milliseconds: u32) -> c_int {
    answer(|| {
        let word = memory.word;
        registry::with_memory(word, |_| ())?;
        let open = [
            (workers::of_memory(word), "workers"),
            (registry::pools_of(word), "pools"),
            (CACHES.of_memory(word), "caches"),
            (HEADS.of_memory(word), "heads"),
            (READY.of_memory(word), "ready pools"),
            (LANES.of_memory(word), "lanes"),
        ];
        for (open, what) in open {
            if open > 0 {
                return Err(Failure::new(
                    EBUSY,
                    format!("{open} {what} of the memory are open: close them first"),
                ));
            }
        }
        registry::remove_closed_pools(word);
        // The last handle is dropped without the lock.
        drop(registry::with_memory(word, |open| (open.memory.take(), open.umem.take()))?);
        let begun = Instant::now();
        let deadline = Duration::from_millis(milliseconds.into());
        while registry::with_memory(word, |open| open.region.strong_count())? > 0 {
            if begun.elapsed() >= deadline {
                return Err(Failure::new(ETIMEDOUT, "frames of the memory are still out"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        registry::remove_memory(word);
        Ok(0)
    })
}
