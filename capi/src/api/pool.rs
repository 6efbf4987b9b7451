//! Opens and closes pools.

use super::types::{flag, netmem_pool, netmem_pool_config, netmem_worker, place, string, unreserved};
use super::worker::cold;
use crate::answer::answer;
use crate::errno::{EINVAL, ENFILE, ENOBUFS, ENOMEM, ETIMEDOUT};
use crate::failure::{Failure, short};
use crate::misuse::{self, Kind};
use crate::pools::Pools;
use crate::registry;
use crate::sites::Site;
use netmem::pool::PoolError;
use netmem::{Pool, PoolConfig};
use std::ffi::c_int;
use std::ptr;
use std::time::Duration;

/// Opens a pool of frames. The calling worker becomes the owner of the pool: allocating from the pool and
/// freeing to it costs the owner least. `config` may be NULL, which selects the defaults.
/// The first pool takes 8 GiB of the addresses of the process, for a table that all pools share and that takes almost
/// no memory. So a limit of the address space (RLIMIT_AS) must leave 8 GiB beside the memories.
/// Returns 0, -EINVAL if the options are not usable, -ENOMEM if there is no memory or no address space for the tables
/// of the pool, or -ENFILE if the process has 4096 pools.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_pool_open(
    worker: netmem_worker,
    config: *const netmem_pool_config,
    pool: *mut netmem_pool,
) -> c_int {
    cold(worker, "netmem_pool_open", |mut inside| {
        // SAFETY: the promise of C.
        let (pool, config) = unsafe { (place("pool", pool)?, read(config.as_ref())?) };
        let memory = inside.memory.clone();
        let made = Pool::new(&memory, &mut inside.worker, &config).map_err(failure)?;
        pool.word = registry::add_pool(made, inside.memory_word)?;
        Ok(0)
    })
}

/// The failure of a pool that could not be made.
#[cold]
fn failure(error: PoolError) -> Failure {
    let errno = match error {
        PoolError::NoMemory { .. } | PoolError::Table(_) => ENOMEM,
        PoolError::TooMany => ENFILE,
        _ => EINVAL,
    };
    Failure::new(errno, error)
}

/// # Safety
/// The name is null or a string.
unsafe fn read(config: Option<&netmem_pool_config>) -> Result<PoolConfig, Failure> {
    let size = config.map_or(0, |config| config.frame_size as usize);
    let mut to = if size > 0 { PoolConfig::of_frames(size) } else { PoolConfig::default() };
    let Some(config) = config else { return Ok(to) };
    unreserved("netmem_pool_config", &config.reserved)?;
    // SAFETY: the promise of C.
    if let Some(name) = unsafe { string("name", config.name) }? {
        to.name = name.to_owned();
    }
    if config.frames > 0 {
        to.frames = config.frames as usize;
    }
    match config.cache {
        0 => {}
        u32::MAX => (to.cache, to.refill) = (0, 0),
        cache => (to.cache, to.refill) = (cache as usize, (cache as usize).div_ceil(2)),
    }
    to.init_on_alloc = flag("netmem_pool_config.init_on_alloc", config.init_on_alloc)?;
    match config.headroom {
        0 => {}
        u32::MAX => to.headroom = 0,
        headroom => to.headroom = headroom as usize,
    }
    if config.data > 0 {
        to.data = config.data as usize;
    }
    to.capacity = config.capacity as usize;
    Ok(to)
}

/// Returns the bytes of data that every empty frame of a pool has room for: the smallest tailroom
/// (netmem_pool_config.data). Many frames have more (netmem_spans).
#[unsafe(no_mangle)]
pub extern "C" fn netmem_pool_room(pool: netmem_pool) -> c_int {
    answer("netmem_pool_room", || Ok(i32::try_from(open_pool(pool)?.room()).unwrap_or(i32::MAX)))
}

/// Sets the maximum number of frames of a pool, 1 to netmem_pool_config.capacity, rounded up to whole pages.
/// Fewer: pages whose frames are all free go back to the memory, where any pool, cache or page can use them. They go
/// at once if no frame of them is allocated, posted, in a lane or in a ready pool (netmem_ready_drain), and otherwise
/// when the last of their frames is freed. netmem_pool_resize(pool, 1) and then netmem_pool_resize(pool, n) gives back
/// what is free now and keeps the maximum.
/// Returns 0, or -EINVAL if `frames` is out of range.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_pool_resize(pool: netmem_pool, frames: u32) -> c_int {
    answer("netmem_pool_resize", || {
        let found = open_pool(pool)?;
        let most = found.capacity();
        found.resize(frames as usize).map(|()| 0).map_err(|_| {
            let text = format!("{frames} frames: give 1 to {most} (netmem_pool_config.capacity)");
            Failure::invalid(text)
        })
    })
}

/// Returns the open pool of this handle.
fn open_pool(pool: netmem_pool) -> Result<Pool, Failure> {
    let found = registry::pool(pool.word).ok().filter(|_| registry::is_pool(pool.word));
    found.map(|open| open.pool).ok_or_else(|| Failure::closed("pool", pool.word))
}

/// Closes a pool and waits up to `milliseconds` until all of its frames are freed. No frame can be allocated
/// from the pool any more.
/// Returns 0 if all frames were freed, or -ETIMEDOUT if some were not; netmem_last_error says how many. After
/// -ETIMEDOUT the pool is closed and its frames stay valid until they are freed. The call may be repeated to
/// wait again, until netmem_memory_close has returned -ETIMEDOUT: from then on it returns -ESTALE, and only
/// netmem_memory_close waits for the frames.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_pool_close(pool: netmem_pool, milliseconds: u32) -> c_int {
    answer("netmem_pool_close", || {
        let open = registry::close_pool(pool.word)?;
        let deadline = Duration::from_millis(milliseconds.into());
        open.pool.close_and_wait(deadline).map_err(|out| Failure::new(ETIMEDOUT, out))?;
        registry::remove_pool(pool.word);
        Ok(0)
    })
}

/// Stores why a call got fewer frames of a pool than it asked for: the pool has its maximum number, or the memory has no
/// more pages for it.
#[cold]
#[inline(never)]
pub fn short_of(pool: &Pool, call: &str) {
    let (made, most) = (usize::try_from(pool.inflight()).unwrap_or(0), pool.frames());
    if made < most {
        short(
            ENOMEM,
            format_args!(
                "{call}: the memory has no more pages for the pool, which has {made} of {most} frames"
            ),
        );
    } else {
        short(ENOBUFS, format_args!("{call}: the pool has no more free frames"));
    }
}

/// Returns the pool of this handle, from the worker's table of known pools. If the pool is not in the table,
/// looks it up and adds it.
///
/// # Errors
/// The errno for the call: the pool was closed, or it belongs to another memory.
#[inline(always)]
pub fn find<'a>(
    known: &'a mut Pools,
    memory: u64,
    word: u64,
    call: &str,
    site: Site,
) -> Result<&'a Pool, c_int> {
    // SAFETY: this borrow ends here, or the function returns it and changes nothing below.
    match unsafe { &*ptr::from_ref(known) }.look_up(word).filter(|_| registry::is_pool(word)) {
        Some(pool) => Ok(pool),
        None => get_to_know(known, memory, word, call, site),
    }
}

#[cold]
#[inline(never)]
fn get_to_know<'a>(
    known: &'a mut Pools,
    memory: u64,
    word: u64,
    call: &str,
    site: Site,
) -> Result<&'a Pool, c_int> {
    let open = registry::pool(word).ok().filter(|_| registry::is_pool(word));
    let Some(open) = open else { return Err(misuse::refused(Kind::Closed, call, "pool", word, site)) };
    if open.memory != memory {
        return Err(misuse::refused(Kind::WrongMemory, call, "pool", word, site));
    }
    Ok(known.put(word, open.pool, registry::is_pool))
}
