//! What concerns the library as a whole.

use super::types::{list, netmem_count};
use crate::failure::{self, Failure, contained};
use crate::{misuse, sites};
use std::ffi::{c_char, c_int};

/// The library's version, as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn netmem_version() -> *const c_char {
    const { concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast() }
}

/// What went wrong with the last call of this thread that failed, in one line; good until its next failure. Where a call has
/// refused several words it is about the first, as the errno is.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_last_error() -> *const c_char {
    failure::last()
}

/// Says what is done about misuse: NETMEM_COUNT, NETMEM_REPORT (a line on standard error, the default) or NETMEM_ABORT (and
/// the process ends). In each case it is counted, and the call does nothing and returns a negative errno.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_set_policy(policy: c_int) -> c_int {
    contained(|| {
        let known = u32::try_from(policy).is_ok_and(misuse::set_policy);
        if known {
            Ok(0)
        } else {
            Err(Failure::invalid("policy: give NETMEM_COUNT, NETMEM_REPORT or NETMEM_ABORT"))
        }
    })
}

/// What is done about misuse now.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_policy() -> c_int {
    misuse::policy() as c_int
}

/// Notes from now on where each frame, object and page is given out and where its use ends, for reports, netmem_pool_holders and
/// netmem_cache_holders; 0: no longer.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_trace(on: c_int) -> c_int {
    contained(|| {
        sites::trace(on != 0);
        Ok(0)
    })
}

/// Misuse so far, by kind: writes at most `room` counters and returns how many there are.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_misuses(counts: *mut netmem_count, room: usize) -> c_int {
    contained(|| {
        let all = misuse::counts().map(|(name, value)| netmem_count::new(name, value));
        // SAFETY: the promise of C.
        Ok(unsafe { list(counts, room, all) })
    })
}
