//! Version, errors, misuse and tracing of the library as a whole.

use super::types::{list, netmem_count, string};
use crate::answer::{answer, contained};
use crate::errno::EAGAIN;
use crate::failure::{self, Failure};
use crate::{misuse, report, sites};
use std::ffi::{c_char, c_int, c_void};

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn netmem_version() -> *const c_char {
    const { concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast() }
}

/// Returns one line of text about the last failed call of the calling thread, or "" if no call has failed.
/// The address stays the same as long as the thread lives, and the next failed call of the thread writes another text
/// there. A text has at most 511 bytes. Calls that allocate fail in this sense if they
/// allocate less than they were asked for, because a pool is empty (ENOBUFS) or a memory is (ENOMEM).
/// In a child of fork(2) it is the reason why calls are refused there, at another address.
/// A call that is refused because another call with the same worker or stock is in progress (-EBUSY, counted as
/// `reentered`) sets the text while the thread is in the function of netmem_set_report. Otherwise a signal handler
/// made it, or a jump left the other call: the text and the errno stay as they were, and only the report says why.
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
/// NETMEM_COUNT: count it. NETMEM_REPORT (the default): count it and report it in a line (netmem_set_report).
/// NETMEM_ABORT: count it, report it and abort the process.
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

/// Passes the lines of reports to a function of the program, together with `argument`. NULL for `report`
/// selects the default: lines are written to file descriptor 2, whatever file that is at that time. A program
/// that closes descriptor 2 or opens another file as 2 sets a function, or the policy NETMEM_COUNT.
/// A line begins with "netmem: " and has no end of line. It is valid until the function returns. The thread whose
/// call is reported calls the function. The library holds no lock meanwhile, but the worker of that call is in use:
/// calls with it fail with -EBUSY. The function must return: longjmp must not leave it, and an exception or pthread_exit
/// in it aborts the process. An interpreter that calls pthread_exit in threads that run when it ends, as CPython up to
/// 3.13 in daemon threads that wait for its lock, must join its threads before, or keep descriptor 2. Functions are called by
/// several threads at once, and a thread may still call the function that was set before.
/// A report never waits. Of each kind of misuse 16 reports are made at once, then one each second. Other
/// reports are left out, as are those that descriptor 2 cannot take without waiting. So are, if a function is
/// set, those of calls that the function itself, a signal handler or a child of fork(2) makes. The next report
/// of the kind has their number. netmem_misuses counts all misuse.
/// Returns 0, or -ENFILE if 64 different pairs of a function and an argument were set already.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_set_report(
    report: Option<extern "C" fn(line: *const c_char, argument: *mut c_void)>,
    argument: *mut c_void,
) -> c_int {
    answer("netmem_set_report", || report::set(report, argument).map(|()| 0))
}

/// Reports a line of the program, as the library reports misuse (netmem_set_report), but without a limit.
/// `line` has no end of line.
/// Returns 0, or -EAGAIN if nothing could take the line without waiting.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_report(line: *const c_char) -> c_int {
    contained("netmem_report", || {
        // SAFETY: the promise of C.
        let line = unsafe { string("line", line) }?.ok_or_else(|| Failure::null("line"))?;
        if report::line(format_args!("{line}")) {
            Ok(0)
        } else {
            Err(Failure::new(EAGAIN, "the line was left out: nothing could take it without waiting"))
        }
    })
}

/// Starts (`on` not 0) or stops (`on` 0) tracing. While tracing is on, the library records the call site
/// where each frame, object, page, packet and shared frame is allocated, and the call site where its use
/// ends. It copies their texts, at most 4096 different ones, so code that made calls may be unloaded
/// (dlclose(3)). Reports of misuse, netmem_pool_holders, netmem_cache_holders and netmem_sizes_holders show these call
/// sites. A frame that was allocated again after tracing stopped is shown with the call site of its last traced
/// allocation.
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
        unsafe { list(counts, room, all) }
    })
}
