//! A barrier on every core that runs this process, paid for by the calling thread.
//!
//! membarrier(2), private expedited: after it returns, every other thread of the process has passed a full memory
//! barrier since it was called. With it the owner of a worker slot can use plain stores, and the (rare) thief pays
//! (`sync::slot`).

use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};
use std::sync::OnceLock;

/// Registers this process for the barrier, once. Returns false if the kernel does not have it.
pub fn available() -> bool {
    static READY: OnceLock<bool> = OnceLock::new();
    // Miri has no membarrier(2), so owners fence there.
    if cfg!(miri) {
        return false;
    }
    *READY.get_or_init(|| {
        membarrier_query().contains_command(MembarrierCommand::PrivateExpedited)
            && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    })
}

/// Runs the barrier. Returns true if it was done on every core. Returns false if it is not [`available`], and if the
/// kernel has no memory for it at the moment.
///
/// Owners rely on a barrier that is available. If it is forbidden later, as by a seccomp filter that was installed
/// since, the process ends: no thread may enter the state of another one then.
///
/// # Cost
/// One system call and an interrupt to each core that runs a thread of this process: microseconds.
pub fn all_cores() -> bool {
    let done = available()
        && match membarrier(MembarrierCommand::PrivateExpedited) {
            Ok(_) => true,
            Err(Errno::NOMEM) => false,
            Err(errno) => forbidden(errno),
        };
    #[cfg(test)]
    tests::DONE.set(tests::DONE.get() + u32::from(done));
    done
}

#[cold]
#[inline(never)]
fn forbidden(errno: Errno) -> ! {
    eprintln!(
        "netmem: membarrier(2) fails since it was registered ({errno}): a seccomp filter must allow it"
    );
    std::process::abort()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    thread_local! {
        /// The number of barriers that this thread has run.
        pub(crate) static DONE: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn the_barrier_works_wherever_it_is_available() {
        assert_eq!(super::all_cores(), super::available());
    }
}
