//! COLD: the memories that ports have of their own (lend=yes,peer=). No handle names them: they are known by the handle of
//! the memory of the worker that opened the port.

use crate::failure::several;
use netmem::Pool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The pools of all such memories whose ports are open, or of which frames are still out.
static ALL: Mutex<Vec<Own>> = Mutex::new(Vec::new());

/// The pool of all frames of a port's own memory.
#[derive(Clone)]
pub struct Own {
    /// The handle of the memory of the port's worker.
    of: u64,
    /// The name of the port.
    port: String,
    pub pool: Pool,
}

fn all() -> MutexGuard<'static, Vec<Own>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the pool of a port that a worker of this memory opens.
pub fn add(of: u64, port: String, pool: Pool) {
    forget_freed();
    all().push(Own { of, port, pool });
}

/// Closes the pool of a port that was closed.
pub fn close(pool: &Pool) {
    pool.close();
    forget_freed();
}

/// Forgets the pools of closed ports of which no frame is out any more: their memories go.
pub fn forget_freed() {
    let is_freed = |own: &mut Own| own.pool.is_closed() && own.pool.close_and_wait(Duration::ZERO).is_ok();
    let freed: Vec<Own> = all().extract_if(.., is_freed).collect();
    // Without the lock, because the memories are unmapped.
    drop(freed);
}

/// Returns the pools of ports of workers of this memory.
pub fn of_memory(word: u64) -> Vec<Own> {
    forget_freed();
    all().iter().filter(|own| own.of == word).cloned().collect()
}

/// Returns what is still out of closed ports of a memory, one entry for each port.
pub fn still_out(word: u64) -> Vec<String> {
    let text = |Own { port, pool, .. }: Own| {
        let out = several(pool.ledger().out() as usize, "frame", "frames");
        format!("{out} of the own memory of {port}, which was closed")
    };
    of_memory(word).into_iter().map(text).collect()
}
