//! Pools.

use super::types::{netmem_pool, netmem_pool_config, netmem_worker, place, string};
use super::worker::cold;
use crate::errno::{EINVAL, ETIMEDOUT};
use crate::failure::{Failure, answer};
use crate::misuse::{self, Kind};
use crate::pools::Pools;
use crate::registry;
use crate::sites::Site;
use netmem::{Pool, PoolConfig};
use std::ffi::c_int;
use std::ptr;
use std::time::Duration;

/// Opens a pool of frames, whose owner is the worker: what it allocates and frees there costs least. `config` may be NULL.
///
/// # Safety
/// As of the module.
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
        let made = Pool::new(&memory, &mut inside.worker, &config);
        pool.word =
            registry::add_pool(made.map_err(|error| Failure::new(EINVAL, error))?, inside.memory_word)?;
        Ok(0)
    })
}

/// # Safety
/// The name is null, or a string.
unsafe fn read(config: Option<&netmem_pool_config>) -> Result<PoolConfig, Failure> {
    let size = config.map_or(0, |config| config.frame_size as usize);
    let mut to = if size > 0 { PoolConfig::of_frames(size) } else { PoolConfig::default() };
    let Some(config) = config else { return Ok(to) };
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
    to.init_on_alloc = config.cleared != 0;
    Ok(to)
}

/// Closes a pool, from which nothing is allocated any more, and waits up to `milliseconds` until its frames are home. Returns 0 when they are,
/// and -ETIMEDOUT when some are not (netmem_last_error says how many): the pool is closed, its frames stay good until they are freed, and it may be
/// called again.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_pool_close(pool: netmem_pool, milliseconds: u32) -> c_int {
    answer(|| {
        let open = registry::close_pool(pool.word)?;
        let deadline = Duration::from_millis(milliseconds.into());
        open.pool.wait(deadline).map_err(|out| Failure::new(ETIMEDOUT, out))?;
        registry::remove_pool(pool.word);
        Ok(0)
    })
}

/// The pool of this word, as a worker that knows it finds it; else it gets to know it.
///
/// # Errors
/// The number that the call returns: the pool was closed, or is of another memory.
#[inline(always)]
pub fn find<'a>(
    known: &'a mut Pools,
    memory: u64,
    word: u64,
    call: &str,
    site: Site,
) -> Result<&'a Pool, c_int> {
    // SAFETY: a borrow that ends here, or is what is returned: then nothing is changed below.
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
