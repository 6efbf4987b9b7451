//! Workers.

use super::types::{netmem_memory, netmem_worker, place};
use crate::errno::ESTALE;
use crate::failure::{Failure, answer};
use crate::misuse::{self, Kind};
use crate::registry;
use crate::sites::Site;
use crate::workers::{self, Inside};
use std::ffi::c_int;

/// Opens a worker of a memory, for the thread that calls. Every call that moves frames wants one, and only its own thread may make
/// them; threads that use the library at the same time have a worker each.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_worker_open(memory: netmem_memory, worker: *mut netmem_worker) -> c_int {
    answer(|| {
        workers::begin()?;
        // SAFETY: the promise of C.
        let worker = unsafe { place("worker", worker) }?;
        let open = registry::with_memory(memory.word, |open| open.memory.clone())?;
        let open = open.ok_or_else(|| Failure::new(ESTALE, "the memory was closed"))?;
        worker.word = workers::open(&open, memory.word)?;
        Ok(0)
    })
}

/// Closes a worker, which has no port and no end of a lane any more, and holds no frame, object, page, packet or shared frame (else -EBUSY). Raw frames are
/// not counted: they are out of their pool until they are freed, by whatever worker.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_worker_close(worker: netmem_worker) -> c_int {
    cold(worker, "netmem_worker_close", |inside| workers::close(inside).map(|()| 0))
}

/// Makes the worker no thread's, for another one to call netmem_worker_enter. A thread that ends leaves or closes its workers first.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_worker_leave(worker: netmem_worker) -> c_int {
    cold(worker, "netmem_worker_leave", |inside| {
        workers::leave_thread(inside);
        Ok(0)
    })
}

/// Makes a worker that no thread has the calling thread's.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_worker_enter(worker: netmem_worker) -> c_int {
    answer(|| workers::enter_thread(worker.word).map(|()| 0))
}

/// Frames, objects, pages, packets and shared frames that the worker was given and has not given back. Raw frames are not among them: only their pool has
/// them, as `owned` in netmem_pool_ledger, and netmem_pool_close waits for them.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_worker_held(worker: netmem_worker) -> c_int {
    cold(worker, "netmem_worker_held", |inside| Ok(i32::try_from(inside.held).unwrap_or(i32::MAX)))
}

/// Does a worker's call that is not made for each packet.
pub fn cold(worker: netmem_worker, call: &str, work: impl FnOnce(Inside) -> Result<i32, Failure>) -> c_int {
    match workers::go_in(worker.word) {
        Some(inside) => answer(|| work(inside)),
        None => out(worker, call, Site::UNKNOWN),
    }
}

/// The call does not get into its worker.
#[cold]
#[inline(never)]
pub fn out(worker: netmem_worker, call: &str, site: Site) -> c_int {
    let kind = Kind::from(workers::why_out(worker.word));
    misuse::refused(kind, call, "worker", worker.word, site)
}
