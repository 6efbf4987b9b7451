//! Version, errors, misuse and tracing of the library as a whole.

use super::types::{list, netmem_count};
use crate::answer::contained;
use crate::failure::{self, Failure};
use crate::{misuse, sites};
use std::ffi::{c_char, c_int};

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn netmem_version() -> *const c_char {
    const { concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast() }
}

/// Returns one line of text about the last failed call of the calling thread, or "" if no call has failed.
/// The text is valid until the next call of this thread fails. netmem_alloc and netmem_raw_alloc fail in this
/// sense if they allocate less than they were asked for, because their pool is empty.
/// If a call refused several handles, the text and the errno are those of the first of them.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_last_error() -> *const c_char {
    failure::last()
}

/// Returns the errno of the call that netmem_last_error describes, as a positive number, or 0 if there was none.
/// It tells the errors of a call that returns NULL apart. If the call returned -EINVAL, it is EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_last_errno() -> c_int {
    failure::last_errno()
}

/// Sets what the library does on misuse, in addition to the refusal.
/// NETMEM_COUNT: count it. NETMEM_REPORT (the default): count it and write a line to standard error.
/// NETMEM_ABORT: count it, write the line and abort the process.
/// Under each policy the refused call does nothing with the handle and returns a negative errno.
/// Returns 0, or -EINVAL if there is no such policy.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_set_policy(policy: c_int) -> c_int {
    contained("netmem_set_policy", || {
        let known = u32::try_from(policy).is_ok_and(misuse::set_policy);
        if known {
            Ok(0)
        } else {
            Err(Failure::invalid("policy: give NETMEM_COUNT, NETMEM_REPORT or NETMEM_ABORT"))
        }
    })
}

/// Returns the current policy: NETMEM_COUNT, NETMEM_REPORT or NETMEM_ABORT.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_policy() -> c_int {
    misuse::policy() as c_int
}

/// Starts (`on` not 0) or stops (`on` 0) tracing. While tracing is on, the library records the call site
/// where each frame, object, page, packet and shared frame is allocated, and the call site where its use
/// ends. Reports of misuse, netmem_pool_holders and netmem_cache_holders show these call sites. A frame that
/// was allocated again after tracing stopped is shown with the call site of its last traced allocation.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_trace(on: c_int) -> c_int {
    contained("netmem_trace", || {
        sites::trace(on != 0);
        Ok(0)
    })
}

/// Reads the counters of misuse, one for each kind. Writes at most `room` counters to `counts`.
/// Returns the number of counters, which may be larger than `room`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_misuses(counts: *mut netmem_count, room: usize) -> c_int {
    contained("netmem_misuses", || {
        let all = misuse::counts().map(|(name, value)| netmem_count::new(name, value));
        // SAFETY: the promise of C.
        Ok(unsafe { list(counts, room, all) })
    })
}
