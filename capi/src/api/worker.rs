//! Opens and closes workers.

use super::types::{netmem_memory, netmem_worker, place};
use crate::answer::answer;
use crate::failure::Failure;
use crate::misuse;
use crate::registry;
use crate::sites::Site;
use crate::workers::{self, Inside};
use std::ffi::c_int;

/// Opens a worker of a memory for the calling thread. Every call that moves frames takes a worker. Only the
/// thread to which the worker belongs may make such calls, so each thread that uses the library needs a
/// worker of its own.
/// Returns 0, or -ENFILE if the memory has no free worker, the process has 120 workers, or there is no key for
/// data of threads (pthread_key_create).
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_worker_open(memory: netmem_memory, worker: *mut netmem_worker) -> c_int {
    answer("netmem_worker_open", || {
        workers::begin()?;
        // SAFETY: the promise of C.
        let worker = unsafe { place("worker", worker) }?;
        let open = registry::with_memory(memory.word, |open| open.memory.clone())?;
        let open = open.ok_or_else(|| Failure::closed("memory", memory.word))?;
        worker.word = workers::open(&open, memory.word)?;
        Ok(0)
    })
}

/// Closes a worker. Never call it from a signal handler: at the very beginning of a call that the handler interrupted, it is
/// not refused, and the call goes on without its worker.
/// Returns 0, or -EBUSY if the worker still has an open port or an end of a lane, or holds frames, objects,
/// pages, packets or shared frames. Raw frames do not count: they stay allocated until any worker frees them.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_worker_close(worker: netmem_worker) -> c_int {
    cold(worker, "netmem_worker_close", |inside| workers::close(inside).map(|()| 0))
}

/// Releases the worker from the calling thread, so that another thread can take it over with
/// netmem_worker_enter. When a thread ends, it leaves its workers, after the destructors of its data
/// (pthread_key_create). A worker in whose call the thread ended stays unusable (-EPERM). Never call it from a signal
/// handler, for the reason that netmem_worker_close gives.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_worker_leave(worker: netmem_worker) -> c_int {
    cold(worker, "netmem_worker_leave", |inside| {
        workers::leave_thread(inside);
        Ok(0)
    })
}

/// Assigns a worker that belongs to no thread to the calling thread.
/// Returns 0, also if the worker belongs to the calling thread already. Returns -EPERM if it belongs to
/// another thread. A call from a signal handler is refused only if it interrupted a call with this worker.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_worker_enter(worker: netmem_worker) -> c_int {
    const CALL: &str = "netmem_worker_enter";
    // Before anything takes a lock or memory: the interrupted call may have both.
    if workers::is_busy_here(worker.word) {
        return out(worker, CALL, Site::UNKNOWN);
    }
    answer(CALL, || workers::enter_thread(worker.word).map(|()| 0))
}

/// Returns the number of frames, objects, pages, packets and shared frames that the worker holds: it was
/// given them and has not given them back.
/// Raw frames are not included. Only their pool accounts for them: as `owned` in netmem_pool_ledger, and
/// netmem_pool_close waits for them.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_worker_held(worker: netmem_worker) -> c_int {
    cold(worker, "netmem_worker_held", |inside| Ok(i32::try_from(inside.held).unwrap_or(i32::MAX)))
}

/// Runs a call of a worker that is not made for each packet.
pub fn cold(worker: netmem_worker, call: &str, work: impl FnOnce(Inside) -> Result<i32, Failure>) -> c_int {
    match workers::go_in(worker.word) {
        Some(inside) => answer(call, || work(inside)),
        None => out(worker, call, Site::UNKNOWN),
    }
}

/// Refuses a call that cannot enter its worker.
#[cold]
#[inline(never)]
pub fn out(worker: netmem_worker, call: &str, site: Site) -> c_int {
    misuse::refused_worker(workers::why_out(worker.word), call, worker.word, site)
}
