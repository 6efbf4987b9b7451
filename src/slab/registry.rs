//! The caches of the process, by number, and the choice of a cache that a new one may share.

use super::shared::{Form, Shared};
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::page::{Memory, Page};
use crate::sync::Handle;
use crate::sys::region;
use std::num::NonZeroU32;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, MutexGuard, PoisonError};

/// Maximum number of caches in a process. Number 0 means no cache.
const CACHES: usize = 4096;

/// The caches by number. Each entry holds a strong count until the cache is closed and its last slab is given back.
static KNOWN: [AtomicPtr<Shared>; CACHES] = [const { AtomicPtr::new(ptr::null_mut()) }; CACHES];
/// The lock for giving out numbers and taking them back.
static NUMBERS: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn numbers() -> MutexGuard<'static, ()> {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cache of this form in `memory`: an existing one that may be shared, or a new one. None if all numbers are taken.
#[cold]
pub(super) fn find_or_register(
    memory: &Memory,
    form: &Form<'_>,
    make: impl FnOnce(u16) -> Arc<Shared>,
) -> Option<Handle<Shared>> {
    let _one_at_a_time = numbers();
    if form.mergeable {
        for known in &KNOWN {
            let known = known.load(Relaxed);
            // SAFETY: an entry that is not null holds a strong count, and is taken out only under the lock held here.
            if !unsafe { known.as_ref() }.is_some_and(|cache| cache.takes_in(memory, form)) {
                continue;
            }
            // SAFETY: the entry came from `Arc::into_raw`, and the count added here is the one taken. (The entry is
            // used, because a pointer made of a reference may not reach the counts before it.)
            let cache = unsafe {
                Arc::increment_strong_count(known);
                Arc::from_raw(known)
            };
            if let Some(handle) = Handle::another(&cache) {
                cache.add_name(form.name);
                return Some(handle);
            }
        }
    }
    let number = (1..CACHES).find(|&n| KNOWN[n].load(Relaxed).is_null())?;
    let shared = make(number as u16);
    // Release: pairs with the Acquire in `cache_at`.
    KNOWN[number].store(Arc::into_raw(Arc::clone(&shared)).cast_mut(), Release);
    Some(Handle::new(&shared))
}

/// Runs `f`, which does not panic, while no new cache becomes a sharer of this one.
#[cold]
pub(super) fn without_new_sharers<R>(cache: &Shared, f: impl FnOnce() -> R) -> R {
    let one_at_a_time = numbers();
    cache.closed_to_sharers.fetch_add(1, Relaxed);
    drop(one_at_a_time);
    let done = f();
    let _one_at_a_time = numbers();
    cache.closed_to_sharers.fetch_sub(1, Relaxed);
    done
}

/// Frees a cache's number and gives up the table's strong count.
///
/// # Safety
/// The number belongs to a cache that is closed and has no slab, and this is called once.
#[cold]
pub(super) unsafe fn retire(number: u16) {
    let shared = {
        let _one_at_a_time = numbers();
        let known = KNOWN[usize::from(number)].swap(ptr::null_mut(), Relaxed);
        // SAFETY: the entry came from `Arc::into_raw`, and the table's count becomes this function's.
        unsafe { Arc::from_raw(known) }
    };
    // Not under the lock: this also drops the constructor, which may hold the last handle of another cache.
    drop(shared);
}

/// The cache with this number, or null.
#[inline]
pub(super) fn cache_at(number: u16) -> *const Shared {
    // Acquire: pairs with the Release in `find_or_register`.
    KNOWN.get(usize::from(number)).map_or(ptr::null(), |known| known.load(Acquire))
}

/// The number of the cache whose slab holds `address`; 0 if the page has no owner.
///
/// # Safety
/// The address lies in a page of a netmem memory that is out.
pub(super) unsafe fn number_at(address: NonNull<u8>) -> u16 {
    let chunk = region::chunk_at(address.as_ptr()).unwrap_or_default();
    let page = NonZeroU32::new(chunk / (PAGE_SIZE / CHUNK_SIZE) as u32);
    // SAFETY: the page is out, so it keeps its memory.
    page.map_or(0, |page| unsafe { Page::owner_of(page) })
}

/// The name of the cache with this number, if there is one.
pub(super) fn cache_name(number: u16) -> Option<String> {
    let _one_at_a_time = numbers();
    // SAFETY: as in `find_or_register`.
    unsafe { cache_at(number).as_ref() }.map(|cache| cache.name())
}
