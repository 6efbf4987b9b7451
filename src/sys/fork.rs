//! Detects whether this process is a child (fork(2)) of the process that made an object. Rings that are shared with a
//! kernel or a peer are not mapped in a child, and must not be touched there.
//!
//! One word of the process lies in a page that the kernel clears in a child (MADV_WIPEONFORK, Linux 4.14), so that the
//! check costs a comparison. Soundness does not depend on the result: it only gives an early error.

use rustix::mm::{Advice, madvise};
use rustix::process::{Pid, getpid};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a page of the system. If pages are larger, the advice is refused, and a child is not detected.
const PAGE: usize = 4096;

/// A page that holds nothing else.
#[repr(C, align(4096))]
struct Page {
    /// 1 from the first check on, and 0 in a child.
    marked: AtomicU32,
    _rest: [u8; PAGE - size_of::<AtomicU32>()],
}

static HERE: Page = Page { marked: AtomicU32::new(0), _rest: [0; PAGE - size_of::<AtomicU32>()] };
/// Run in a child too, although its parent ran it.
static MARKED: Once = Once::new();

/// The process in which an object was made.
#[derive(Clone, Copy, Debug)]
pub struct Birthplace(Pid);

impl Birthplace {
    /// This process.
    #[cold]
    pub fn here() -> Birthplace {
        MARKED.call_once(|| {
            // SAFETY: the page is all of one static of zeros that nothing else lies in. In this process the advice
            // changes no byte. A child reads zeros, which are valid, where it would have read the same static.
            let advised =
                unsafe { madvise(ptr::from_ref(&HERE).cast_mut().cast(), PAGE, Advice::LinuxWipeOnFork) };
            // A kernel that does not know the advice treats children as before.
            let _ = advised;
            HERE.marked.store(1, Relaxed);
        });
        Birthplace(getpid())
    }

    /// Whether this is another process than that one: its child, or a child's child.
    ///
    /// # Cost
    /// Two instructions; in a child a system call.
    #[inline]
    pub fn is_elsewhere(self) -> bool {
        HERE.marked.load(Relaxed) == 0 && self.is_another_process()
    }

    #[cold]
    #[inline(never)]
    fn is_another_process(self) -> bool {
        getpid() != self.0
    }
}

/// Runs `work` in a child of this process. Returns whether it came to its end there. For tests.
#[cfg(test)]
pub(crate) fn in_child(work: impl FnOnce()) -> bool {
    use rustix::process::{WaitOptions, waitpid};
    // SAFETY: the child has this thread alone, calls what tests call (the allocator is made for that by the C library), and
    // ends without running what the parent has registered for its end.
    match unsafe { libc::fork() } {
        0 => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: it ends the process, whatever its state.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        child => {
            let child = Pid::from_raw(child).expect("fork(2)");
            let (_, status) =
                waitpid(Some(child), WaitOptions::empty()).expect("waitpid(2)").expect("it ends");
            status.exit_status() == Some(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_known_as_one_and_what_it_makes_itself_is_its_own() {
        let ours = Birthplace::here();
        assert!(!ours.is_elsewhere());
        assert!(in_child(|| {
            assert!(ours.is_elsewhere());
            let own = Birthplace::here();
            assert!(!own.is_elsewhere() && ours.is_elsewhere());
            assert!(in_child(|| assert!(own.is_elsewhere() && ours.is_elsewhere())));
        }));
        assert!(!ours.is_elsewhere());
    }
}
