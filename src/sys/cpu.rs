//! Cores: the cores that this process may use, pinning a thread to one, and hints to the processor.
//!
//! Miri knows neither assembly nor prefetches: under Miri a value is only passed on.
#![cfg_attr(miri, allow(unused_mut))]

use crate::limits::CACHE_LINE;
use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{io, ptr};

/// The cores that this thread may run on, in ascending order.
///
/// # Errors
/// The error of `sched_getaffinity(2)`.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Pins the calling thread to one core.
///
/// # Errors
/// `InvalidInput` if this process may not use that core; otherwise the error of `sched_setaffinity(2)`.
pub fn pin(cpu: usize) -> io::Result<()> {
    Ok(sched_setaffinity(None, &only(cpu)?)?)
}

/// Makes the calling thread an ordinary one that may run where the first thread of the process may. Before, it has the
/// cores and the policy of the thread that started it, which may be one core that a worker never leaves.
///
/// It is left as it is where the system refuses.
#[cold]
#[cfg_attr(not(feature = "memif"), allow(dead_code))]
pub(super) fn unpin() {
    if let Ok(cores) = sched_getaffinity(Some(getpid())) {
        let _ = sched_setaffinity(None, &cores);
    }
    let priority: libc::c_int = 0;
    // SAFETY: it reads the priority, which is the only field of a `sched_param`. The function of the C library does
    // nothing in musl.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_OTHER, &raw const priority) };
}

/// A set of that core alone.
fn only(cpu: usize) -> io::Result<CpuSet> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("core {cpu}: no such core")));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(set)
}

/// Whether the processor executes an instruction of AVX2 as two of 128 bits, as AMD's cores before Zen 2 do.
#[cold]
pub fn splits_avx2() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        /// The leaf that tells which leaves of this kind there are.
        const LEAVES: u32 = 0x8000_0000;
        /// AMD's hints for optimization. Bit 0: vector units of 128 bits; bit 2: of 256; bit 3: of 512.
        const HINTS: u32 = 0x8000_001a;
        #[allow(unused_unsafe, reason = "the call is safe in newer Rust")]
        // SAFETY: every x86-64 has the instruction.
        let eax = |leaf| unsafe { std::arch::x86_64::__cpuid(leaf) }.eax;
        eax(LEAVES) >= HINTS && eax(HINTS) & 0b1101 == 1
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// Prefetches the cache line that holds `address`. Harmless for any address.
#[inline]
pub fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: PREFETCHT0 is a hint; it never faults, for any address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Prefetches the cache line that holds `address` for writing. Harmless for any address.
#[inline]
pub fn prefetch_write(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: PREFETCHW is a hint; it never faults, for any address, and is a no-op on processors that do not know it.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// The addresses of the cache lines that hold `items`. If they are prefetched together, they travel together. A loop
/// over the items may wait for each in turn.
#[inline(always)]
pub fn lines<T>(items: &[T]) -> impl Iterator<Item = *const u8> {
    let first: *const u8 = items.as_ptr().cast();
    let lead = first.addr() % CACHE_LINE;
    (0..lead + size_of_val(items))
        .step_by(CACHE_LINE)
        .map(move |at| first.wrapping_sub(lead).wrapping_add(at))
}

/// The same pointer, in one register from here on: data behind it is addressed as pointer plus constant.
///
/// If the compiler sees how a pointer was computed, it repeats the addition in every access. A load that is addressed
/// by two registers waits about five cycles for the store before it. With one register and a constant it often waits
/// for none.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block, reason = "intended: nothing is read or written")]
pub fn in_one_register<T>(pointer: *const T) -> *const T {
    let mut one = pointer;
    // SAFETY: no instruction at all, only a value whose origin is hidden from the compiler.
    #[cfg(not(miri))]
    unsafe {
        core::arch::asm!("/* {0} */", inout(reg) one, options(pure, nomem, nostack, preserves_flags))
    };
    one
}

/// The pointer `meant`, predicted to lie at `recent`, which is its address afterwards.
///
/// If the guess is right, data behind it is reached without waiting for the loads that led to `meant`. A branch, which
/// the processor predicts, takes their place.
#[inline(always)]
pub fn expected<T>(meant: *const T, recent: &mut usize) -> *const T {
    let mut guess = *recent;
    // SAFETY: no instruction at all, only a value whose origin the compiler does not see: if the two are equal it would
    // use `meant` again.
    #[cfg(not(miri))]
    unsafe {
        core::arch::asm!("/* {0} */", inout(reg) guess, options(pure, nomem, nostack, preserves_flags))
    };
    let address = meant.expose_provenance();
    if address == *recent {
        return ptr::with_exposed_provenance(guess);
    }
    *recent = address;
    meant
}

/// The same words, each in a register of its own.
#[inline(always)]
pub fn in_registers<const N: usize>(words: [u64; N]) -> [u64; N] {
    words.map(|mut word| {
        // SAFETY: no instruction at all, only a value whose origin is hidden from the compiler.
        #[cfg(not(miri))]
        unsafe {
            core::arch::asm!("/* {0} */", inout(reg) word, options(pure, nomem, nostack, preserves_flags))
        };
        word
    })
}

/// Makes all bytes of `memory` values, whatever they are. The bytes between the fields of a value that was written there,
/// and those of a value that was moved out, count as not initialised before.
///
/// # Safety
/// The memory is mapped, may be written, and belongs to the caller alone.
///
/// # Cost
/// No instruction.
pub unsafe fn initialise(memory: *mut [u8]) {
    // SAFETY: no instruction at all; for the compiler it may have written every byte.
    #[cfg(not(miri))]
    unsafe {
        core::arch::asm!("/* {0} */", in(reg) memory.cast::<u8>(), options(nostack, preserves_flags))
    };
    // SAFETY: as promised. Miri does not run assembly.
    #[cfg(miri)]
    unsafe {
        memory.cast::<u8>().write_bytes(0, memory.len())
    };
}

/// Four words, each with `more` added, modulo 2^64.
///
/// # Cost
/// Two additions and two stores of values in memory, while a compiler makes four of each.
#[inline(always)]
pub fn sums(words: [u64; 4], more: u64) -> [u64; 4] {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{__m128i, _mm_add_epi64, _mm_set1_epi64x};
        // SAFETY: bits of the same size, and every pattern is a value of either type; SSE2 is part of every x86-64. The
        // assembly is no instruction, only values whose origin is hidden from the compiler.
        unsafe {
            let [mut low, mut high] = std::mem::transmute::<[u64; 4], [__m128i; 2]>(words);
            core::arch::asm!("/* {0} {1} */", inout(xmm_reg) low, inout(xmm_reg) high,
                options(pure, nomem, nostack, preserves_flags));
            let more = _mm_set1_epi64x(more as i64);
            let sums = [_mm_add_epi64(low, more), _mm_add_epi64(high, more)];
            std::mem::transmute::<[__m128i; 2], [u64; 4]>(sums)
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    words.map(|word| word.wrapping_add(more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_the_one_meant_whether_it_was_expected_or_not() {
        let (one, two) = (1_u8, 2_u8);
        let mut recent = 0;
        for meant in [&one, &one, &two, &two, &one] {
            let pointer = expected(meant, &mut recent);
            assert_eq!((pointer, recent), (ptr::from_ref(meant), pointer.addr()));
            // SAFETY: it is the address of a live byte.
            assert_eq!(unsafe { *pointer }, *meant);
        }
    }

    #[test]
    fn a_thread_pins_to_a_core_it_may_use_and_to_no_other() {
        let cores = allowed().unwrap();
        let last = *cores.last().unwrap();
        std::thread::spawn(move || {
            pin(last).unwrap();
            assert_eq!(allowed().unwrap(), [last]);
            assert!(pin(usize::MAX).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn each_of_four_words_grows_by_as_much_and_words_in_registers_stay_what_they_are() {
        let words = [0, 1 << 47, u64::MAX, u64::from(u32::MAX)];
        assert_eq!(in_registers(words), words);
        assert_eq!(sums(words, 3), [3, 1 << 47 | 3, 2, 1 << 32 | 2]);
        assert_eq!(sums(words, 1 << 63), words.map(|word| word.wrapping_add(1 << 63)));
    }
}
