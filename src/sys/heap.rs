//! The heap of the C library.

/// Makes all threads share the C library's first heap from now on. A thread with a heap of its own opens a file of
/// /proc when that heap shrinks (glibc, `M_ARENA_MAX` of mallopt(3)). This kills a thread that may not open files.
pub fn one_heap() {
    #[cfg(all(target_env = "gnu", not(miri)))]
    // SAFETY: mallopt(3) only sets a parameter, under the heap's own lock.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}
