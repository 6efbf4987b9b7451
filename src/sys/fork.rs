//! Detects whether this process is a child (fork(2)) of the process that made an object. Rings that are shared with a
//! kernel or a peer are not mapped in a child, and must not be touched there.
//!
//! One word of the process lies in a page that the kernel clears in a child (MADV_WIPEONFORK, Linux 4.14), so that the
//! check costs a comparison. What is sound without it stays sound: what a child must not touch is not mapped there. The
//! exception is memory whose frames are lent, which the caller keeps from a child (`Memory::shared`).

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a page of the system. If pages are larger, the advice would clear what lies behind, and is not given: a child
/// is not detected.
const PAGE: usize = 4096;

/// A page that holds nothing else.
#[repr(C, align(4096))]
struct Page {
    /// The number of this process; 0 until it makes an object, in a child too.
    process: AtomicU32,
    _rest: [u8; PAGE - size_of::<AtomicU32>()],
}

static HERE: Page = Page { process: AtomicU32::new(0), _rest: [0; PAGE - size_of::<AtomicU32>()] };
/// The last number given to this process or to one that it descends from. An object that a process has from before it was
/// forked has a number of these; its own number is greater. Numbers of pids would not do: in a new namespace
/// (pid_namespaces(7)) a child may have its parent's.
static LAST: AtomicU32 = AtomicU32::new(0);

/// The process in which an object was made.
#[derive(Clone, Copy, Debug)]
pub struct Birthplace(u32);

impl Birthplace {
    /// This process.
    #[cold]
    pub fn here() -> Birthplace {
        let process = HERE.process.load(Relaxed);
        Birthplace(if process == 0 { enter() } else { process })
    }

    /// The number of that process, for memory that a handler of signals reads.
    pub(super) fn number(self) -> u32 {
        self.0
    }

    /// The process of that [`number`](Self::number).
    pub(super) fn of_number(number: u32) -> Birthplace {
        Birthplace(number)
    }

    /// Whether this is another process than that one: its child, or a child's child.
    ///
    /// # Cost
    /// Two instructions.
    #[inline]
    pub fn is_elsewhere(self) -> bool {
        HERE.process.load(Relaxed) != self.0
    }
}

/// Gives this process a number, and returns it.
#[cold]
fn enter() -> u32 {
    if page_size() == PAGE {
        // SAFETY: the page is all of one static of zeros that nothing else lies in. In this process the advice changes
        // no byte. A child reads zeros, which are valid, where it would have read the same static.
        let advised =
            unsafe { madvise(ptr::from_ref(&HERE).cast_mut().cast(), PAGE, Advice::LinuxWipeOnFork) };
        // A kernel that does not know the advice treats children as their parents.
        let _ = advised;
    }
    let next = LAST.fetch_add(1, Relaxed) + 1;
    // Another thread may have been faster.
    HERE.process.compare_exchange(0, next, Relaxed, Relaxed).map_or_else(|faster| faster, |_| next)
}

/// Runs `work` in a child of this process. Returns whether it came to its end there. For tests.
#[cfg(test)]
pub(crate) fn in_child(work: impl FnOnce()) -> bool {
    use rustix::process::{Pid, WaitOptions, waitpid};
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
            assert!(!own.is_elsewhere());
        }));
        assert!(!ours.is_elsewhere());
    }

    /// Seen: in namespaces of processes, a parent and its child both have number 1, and the child used its parent's
    /// rings.
    #[test]
    fn no_process_has_a_number_of_those_that_it_descends_from() {
        let ours = Birthplace::here();
        assert!(in_child(|| {
            assert!(in_child(|| {
                let own = Birthplace::here();
                assert!(in_child(|| {
                    let last = Birthplace::here();
                    assert!(ours.0 < own.0 && own.0 < last.0);
                }));
            }));
        }));
    }
}
