//! The pair: 16 aligned bytes of a descriptor that a holder changes at once ([hansen14-page]'s "double-word CAS").
//!
//! It uses `cmpxchg16b` if the processor has it, and otherwise the descriptor's lock bit. These are the two methods
//! that [hansen14-page] compares, with the same fall-back as in the kernel.

use super::Desc;
use crate::sync::shim::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// 16 aligned bytes. Loom has no such type: there, two words that are changed under the lock bit.
#[cfg(not(loom))]
pub(super) type Words<'a> = &'a [AtomicU64; 2];
#[cfg(loom)]
pub(super) type Words<'a> = [&'a AtomicU64; 2];

/// Whether this processor changes 16 bytes at once.
pub(super) fn available() -> bool {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    return std::arch::is_x86_feature_detected!("cmpxchg16b");
    #[cfg(any(not(target_arch = "x86_64"), loom))]
    false
}

/// The two words of one descriptor: the lower 64 bits of a value are the first word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair<'a> {
    desc: &'a Desc,
    words: Words<'a>,
    /// Whether the processor has the instruction. If so, `words` are 16-byte aligned.
    #[cfg_attr(loom, allow(dead_code, reason = "loom does not know it"))]
    wide: bool,
}

impl<'a> Pair<'a> {
    pub(super) fn new(desc: &'a Desc, words: Words<'a>, wide: bool) -> Self {
        #[cfg(not(loom))]
        let wide = wide && words.as_ptr().addr().is_multiple_of(16);
        Pair { desc, words, wide }
    }

    /// Reads the pair with two loads. Another thread may change it between them. The value is good as the expectation
    /// of [`Pair::compare_exchange`], which fails in that case. It is exact while no other thread writes.
    #[inline(always)]
    pub(crate) fn load(self) -> u128 {
        // Acquire: pairs with the Release in `compare_exchange` and `store`.
        let low = self.words[0].load(Acquire);
        u128::from(self.words[1].load(Acquire)) << 64 | u128::from(low)
    }

    /// Sets the pair. No other thread may write it at this time.
    #[inline(always)]
    pub(crate) fn store(self, value: u128) {
        self.words[0].store(value as u64, Relaxed);
        // Release: pairs with the Acquire in `load`; the other word was stored before.
        self.words[1].store((value >> 64) as u64, Release);
    }

    /// Replaces `old` by `new`, or returns the value that is there.
    #[inline(always)]
    pub(crate) fn compare_exchange(self, old: u128, new: u128) -> Result<(), u128> {
        let found = self.swap_if(old, new);
        if found == old { Ok(()) } else { Err(found) }
    }

    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[inline(always)]
    fn swap_if(self, old: u128, new: u128) -> u128 {
        if !self.wide {
            return self.swap_if_locked(old, new);
        }
        let at = self.words.as_ptr().cast_mut().cast::<u128>();
        // SAFETY: `wide` says that the processor has the instruction and that `words` is 16-byte aligned. `words` are
        // 16 bytes of atomics, which may be changed through a shared reference.
        unsafe { swap_if_wide(at, old, new) }
    }

    #[cfg(any(not(target_arch = "x86_64"), loom))]
    fn swap_if(self, old: u128, new: u128) -> u128 {
        self.swap_if_locked(old, new)
    }

    #[inline(never)]
    fn swap_if_locked(self, old: u128, new: u128) -> u128 {
        let _locked = self.desc.lock();
        let found = self.load();
        if found == old {
            self.store(new);
        }
        found
    }
}

/// Exchanges 16 bytes and returns the value found. If that was `old`, `new` is there now.
///
/// It is written in assembler, because the compiler's own 16-byte exchange calls a library in builds without
/// optimisation.
///
/// # Safety
/// The processor has cmpxchg16b. `at` is 16-byte aligned and valid for reads and writes. Others write it only with
/// atomics.
#[cfg(all(target_arch = "x86_64", not(any(loom, tsan))))]
#[inline(always)]
unsafe fn swap_if_wide(at: *mut u128, old: u128, new: u128) -> u128 {
    let (mut low, mut high) = (old as u64, (old >> 64) as u64);
    // SAFETY: the caller's promise. A locked instruction is a full barrier: AcqRel for what it writes, Acquire for what
    // it finds. The compiler moves nothing across it, because it may touch any memory. rbx, which the compiler
    // reserves, is restored.
    unsafe {
        std::arch::asm!(
            "xchg {low}, rbx",
            "lock cmpxchg16b [rdi]",
            "mov rbx, {low}",
            low = inout(reg) new as u64 => _,
            in("rdi") at,
            in("rcx") (new >> 64) as u64,
            inout("rax") low,
            inout("rdx") high,
            options(nostack),
        );
    }
    u128::from(high) << 64 | u128::from(low)
}

/// The same operation in a form that ThreadSanitizer can see.
///
/// # Safety
/// As above.
#[cfg(all(target_arch = "x86_64", tsan))]
#[target_feature(enable = "cmpxchg16b")]
unsafe fn swap_if_wide(at: *mut u128, old: u128, new: u128) -> u128 {
    // AcqRel, Acquire on failure: the value found was released by another `compare_exchange` or by `store`.
    // SAFETY: the caller's promise.
    unsafe { std::arch::x86_64::cmpxchg16b(at, old, new, std::sync::atomic::Ordering::AcqRel, Acquire) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::page::table::{DescriptorSize, Table};
    use std::sync::Barrier;
    use std::thread;

    /// Tables for both methods, independent of what this processor has.
    fn tables() -> impl Iterator<Item = Table> {
        let sizes = [DescriptorSize::Compact, DescriptorSize::Bytes56, DescriptorSize::Bytes64];
        sizes.into_iter().flat_map(|size| {
            [true, false].map(|wide| {
                let mut table = Table::new(5, size);
                table.wide &= wide;
                table
            })
        })
    }

    #[test]
    fn a_pair_changes_only_as_a_whole_and_only_from_what_was_expected() {
        for table in tables() {
            for index in 0..5 {
                let pair = table.pair(index);
                let (one, two) = (1 << 64 | 2, 3 << 64 | u128::from(index));
                assert_eq!(pair.compare_exchange(0, one), Ok(()));
                assert_eq!(pair.compare_exchange(2, two), Err(one), "half of it is not enough");
                assert_eq!(pair.compare_exchange(one, two), Ok(()));
                assert_eq!(pair.load(), two);
            }
            for index in 0..5 {
                let desc = table.desc(index);
                assert!(desc.order() == 0 && !desc.is_out() && !desc.is_listed(), "nothing else changed");
                assert_eq!(table.pair(index).load(), 3 << 64 | u128::from(index));
            }
        }
    }

    #[test]
    fn no_change_is_lost_when_two_threads_make_them() {
        const EACH: u128 = if cfg!(miri) { 500 } else { 20_000 };
        for table in tables() {
            let begin = Barrier::new(2);
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        begin.wait();
                        for _ in 0..EACH {
                            let mut old = table.pair(1).load();
                            // Both halves count. A torn change would let them differ.
                            while let Err(now) = table.pair(1).compare_exchange(old, old + (1 << 64 | 1)) {
                                old = now;
                            }
                        }
                    });
                }
            });
            assert_eq!(table.pair(1).load(), (2 * EACH) << 64 | (2 * EACH));
        }
    }
}
