//! This process: whether it is a child (fork(2)) of the process that began to use the library, its clock, and whether its
//! threads can be cancelled.
//!
//! One word lies in a page that the kernel clears in a child (`MADV_WIPEONFORK`, Linux 4.14). The entries of workers
//! lie in such a page too.
//!
//! Unsafe code: the advice to the kernel, which changes no byte of this process (a child reads zeros, which are valid in
//! every page that is given here), and calls of the C library that write to one place each.

use std::ffi::c_int;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Bytes of a page of the system. If the system's pages are larger, the advice would clear what lies behind the page, and is
/// not given: a child is not detected.
pub const PAGE: usize = 4096;

/// A page that contains nothing else.
#[repr(C, align(4096))]
struct Page {
    /// 1 in the process that began to use the library, 0 in its children.
    parent: AtomicU32,
    _rest: [u8; PAGE - size_of::<AtomicU32>()],
}

static HERE: Page = Page { parent: AtomicU32::new(0), _rest: [0; PAGE - size_of::<AtomicU32>()] };
/// Whether this process, or an ancestor of it, has begun to use the library.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// A type whose statics fill one page, and for which all-zero bytes are a valid value.
///
/// # Safety
/// The size and the alignment are [`PAGE`], and all bytes may become zeros in a child.
pub unsafe trait Wiped: Sync + 'static {}

// SAFETY: an atomic and bytes. The size is checked below.
unsafe impl Wiped for Page {}
const _: () = assert!(size_of::<Page>() == PAGE);

/// Makes children of this process see zeros in the page.
fn wipe_in_children<P: Wiped>(page: &'static P) {
    const WIPE_ON_FORK: i32 = 18;
    unsafe extern "C" {
        fn madvise(address: *mut u8, length: usize, advice: i32) -> i32;
        fn getpagesize() -> c_int;
    }
    // SAFETY: it only reads what the process was started with.
    if !can_be_advised(usize::try_from(unsafe { getpagesize() }).unwrap_or(0)) {
        return;
    }
    // SAFETY: the type promises that one static fills the page. A kernel that does not know the advice does
    // not change what children see.
    let _ = unsafe { madvise(ptr::from_ref(page).cast_mut().cast(), PAGE, WIPE_ON_FORK) };
}

/// Whether advice about [`PAGE`] bytes concerns no others: madvise(2) rounds the length up to whole pages of the system.
fn can_be_advised(page_size: usize) -> bool {
    page_size == PAGE
}

/// Begins to use the library in this process, with this page to clear in children. Returns false in a child
/// of a process that began.
#[cold]
pub fn begin<P: Wiped>(page: &'static P) -> bool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        wipe_in_children(page);
        wipe_in_children(&HERE);
        HERE.parent.store(1, Relaxed);
        // Release: pairs with the Acquire in `is_child`. Who sees it sees the parent's word too, and is no child.
        BEGUN.store(true, Release);
    });
    !is_child()
}

/// Whether this process is a child of a process that began.
pub fn is_child() -> bool {
    // Acquire: pairs with the Release in `begin`.
    BEGUN.load(Acquire) && HERE.parent.load(Relaxed) == 0
}

/// Keeps pthread_cancel(3) from ending the calling thread until it is dropped: a thread that ends within a call would
/// unwind through Rust, which aborts the process.
pub struct Uncancelled {
    before: c_int,
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

impl Uncancelled {
    /// Begins it. A signal handler may call this too.
    pub fn begin() -> Uncancelled {
        const DISABLE: c_int = 1;
        let mut before = 0;
        // SAFETY: one place, which the call writes.
        let _ = unsafe { pthread_setcancelstate(DISABLE, &mut before) };
        Uncancelled { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut ignored = 0;
        // SAFETY: as in `begin`. With deferred cancellation (the default), this ends no thread.
        let _ = unsafe { pthread_setcancelstate(self.before, &mut ignored) };
    }
}

/// Nanoseconds of the system's monotonic clock. A signal handler may call this too.
pub fn monotonic_ns() -> u64 {
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
    }
    const MONOTONIC: c_int = 1;
    let mut now = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: one place, which the call writes.
    let _ = unsafe { clock_gettime(MONOTONIC, &mut now) };
    // Neither is negative: the clock begins at boot.
    now.seconds as u64 * 1_000_000_000 + now.nanoseconds as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: where the system has pages of 16 or 64 KiB, children could see other statics cleared.
    #[test]
    fn larger_pages_of_the_system_are_not_wiped_in_children() {
        assert!(can_be_advised(4096) && !can_be_advised(16384) && !can_be_advised(65536));
    }
}
