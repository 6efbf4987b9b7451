//! Converts 32-bit numbers in bulk to words that have them in their lower halves, and back. It converts eight at a time
//! from 16 items on, on processors that execute AVX2 in whole, and otherwise four.
//!
//! AVX2 is used through assembly. A function with AVX2 intrinsics cannot be inlined into one that is for every x86-64.
//! So each use of it would be a call, around which the caller saves its registers.
//!
//! What is left of less than eight items is converted four at a time, and what is left of less than four one at a time.
//! No two vectors overlap: a reader that comes soon would load a vector that two stores have written, and would wait for
//! both (ADR 0034).
//!
//! Unsafe code: vectors are read and written within slices. Each function ensures that its slices are long enough.

use super::cpu;
use std::mem::MaybeUninit;

/// The number of items in a run, which is full if it has all of them.
const RUN: usize = 8;
/// The number of items from which on AVX2 is used. With fewer items, a reader of the same few items waits longer for
/// the stores before, across the halves of a register, than the saved instructions take.
const WIDE: usize = 2 * RUN;

/// The end of assembly that has used whole registers of AVX. It clears their upper halves, because instructions without
/// AVX wait for them otherwise. If all code is built for AVX, there are no such instructions, and the compiler may keep
/// values in the upper halves of other registers.
#[cfg(all(target_arch = "x86_64", not(target_feature = "avx"), not(miri)))]
macro_rules! clear_upper {
    () => {
        "vzeroupper"
    };
}
#[cfg(all(target_arch = "x86_64", target_feature = "avx", not(miri)))]
macro_rules! clear_upper {
    () => {
        ""
    };
}

/// Makes words of numbers: the upper half is `(lower << SHIFT & mask) + add`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Words<const SHIFT: u32> {
    mask: u32,
    add: u32,
    /// Whether to use AVX2. Invariant: the processor has it then.
    is_wide: bool,
}

impl<const SHIFT: u32> Words<SHIFT> {
    /// Makes the state for this processor.
    #[cold]
    pub fn new(mask: u32, add: u32) -> Self {
        Words { mask, add, is_wide: has_avx2() && !cpu::splits_avx2() }
    }

    /// The upper half beside `lower`.
    #[inline(always)]
    pub fn upper(self, lower: u32) -> u32 {
        self.add + ((lower << SHIFT) & self.mask)
    }

    /// Writes the word of each of `lower` into as many slots.
    ///
    /// # Cost
    /// Ten instructions for eight words with AVX2, from 16 words on, otherwise 24.
    #[inline(always)]
    pub fn write(&self, places: &mut [MaybeUninit<u64>], lower: &[u32]) {
        let n = places.len().min(lower.len());
        let (to, from) = (places.as_mut_ptr().cast::<u64>(), lower.as_ptr());
        // A copy: the compiler must assume that the written words overlap this.
        let items = ToWords { words: *self, to, from };
        // SAFETY: both are `n` long, and each run and each number lies within.
        unsafe {
            if n < RUN {
                less_than_run(n, items);
                return;
            }
            if n >= WIDE && self.is_wide {
                self.write_wide(to, from, n & !(RUN - 1));
            } else {
                runs(n, items);
            }
            rest(n, items);
        }
    }

    #[inline(always)]
    fn word(self, lower: u32) -> u64 {
        u64::from(lower) | u64::from(self.upper(lower)) << 32
    }

    /// # Safety
    /// There are four words at `to`, and four numbers at `from`.
    #[inline(always)]
    unsafe fn write_four(self, to: *mut u64, from: *const u32) {
        // SAFETY: the caller's promise.
        unsafe {
            let lower = from.cast::<[u32; 4]>().read();
            to.cast::<[u64; 4]>().write(words(lower, lower.map(|lower| self.upper(lower))));
        }
    }

    /// # Safety
    /// The processor has AVX2; there are `n` words at `to`, and as many numbers at `from`: whole runs, one at least.
    #[inline(always)]
    unsafe fn write_wide(&self, to: *mut u64, from: *const u32, n: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the caller's promise. The assembly declares what it changes. This includes the upper halves of all
        // registers, which are cleared at the end: it may be inlined into a function for AVX2.
        unsafe {
            core::arch::asm!(
                "vpbroadcastd ymm0, dword ptr [{words}]",
                "vpbroadcastd ymm1, dword ptr [{words} + 4]",
                "sub {at}, 8",
                "je 3f",
                "2:",
                // The first and third pair of numbers in one lane, the second and fourth in the other: so the unpacked
                // numbers are in order.
                "vpermq ymm2, [{from} + 4*{at}], 0xd8",
                "vpslld ymm3, ymm2, {shift}",
                "vpand ymm3, ymm3, ymm0",
                "vpaddd ymm3, ymm3, ymm1",
                "vpunpckldq ymm4, ymm2, ymm3",
                "vpunpckhdq ymm5, ymm2, ymm3",
                "vmovdqu [{to} + 8*{at}], ymm4",
                "vmovdqu [{to} + 8*{at} + 32], ymm5",
                "sub {at}, 8",
                "ja 2b",
                // The first run: in the loop it would take longer (64 frames 13.8 ns for 11.7 on a Zen 4 core).
                "3:",
                "vpermq ymm2, [{from}], 0xd8",
                "vpslld ymm3, ymm2, {shift}",
                "vpand ymm3, ymm3, ymm0",
                "vpaddd ymm3, ymm3, ymm1",
                "vpunpckldq ymm4, ymm2, ymm3",
                "vpunpckhdq ymm5, ymm2, ymm3",
                "vmovdqu [{to}], ymm4",
                "vmovdqu [{to} + 32], ymm5",
                clear_upper!(),
                at = inout(reg) n => _,
                from = in(reg) from,
                to = in(reg) to,
                words = in(reg) std::ptr::from_ref(self),
                shift = const SHIFT,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack)
            )
        };
        // Never reached: `is_wide` is false there.
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = (to, from, n);
    }

    /// Writes the lower half of each of `words` into as many slots.
    ///
    /// # Cost
    /// Six instructions for eight words with AVX2, from 16 words on, otherwise twelve.
    #[inline(always)]
    pub fn write_lower(&self, places: &mut [u32], words: &[u64]) {
        let n = places.len().min(words.len());
        let (to, from) = (places.as_mut_ptr(), words.as_ptr());
        let items = ToLower { to, from };
        // SAFETY: both are `n` long, and each run and each word lies within.
        unsafe {
            if n < RUN {
                less_than_run(n, items);
                return;
            }
            if n >= WIDE && self.is_wide {
                write_lower_wide(to, from, n & !(RUN - 1));
            } else {
                runs(n, items);
            }
            rest(n, items);
        }
    }
}

/// A conversion of a few items. A trait and not closures, which the compiler need not inline: a call saves registers, also
/// for the bursts that do not make it.
trait Convert: Copy {
    /// Converts the four items from a place on.
    ///
    /// # Safety
    /// There are four items from there on.
    unsafe fn four(self, at: usize);

    /// Converts the item at a place.
    ///
    /// # Safety
    /// There is an item.
    unsafe fn one(self, at: usize);
}

/// Words to be made of numbers.
#[derive(Clone, Copy)]
struct ToWords<const SHIFT: u32> {
    words: Words<SHIFT>,
    to: *mut u64,
    from: *const u32,
}

impl<const SHIFT: u32> Convert for ToWords<SHIFT> {
    #[inline(always)]
    unsafe fn four(self, at: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.words.write_four(self.to.add(at), self.from.add(at)) }
    }

    #[inline(always)]
    unsafe fn one(self, at: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.to.add(at).write(self.words.word(*self.from.add(at))) }
    }
}

/// Numbers to be made of words.
#[derive(Clone, Copy)]
struct ToLower {
    to: *mut u32,
    from: *const u64,
}

impl Convert for ToLower {
    #[inline(always)]
    unsafe fn four(self, at: usize) {
        // SAFETY: the caller's promise.
        unsafe { write_lower_four(self.to.add(at), self.from.add(at)) }
    }

    #[inline(always)]
    unsafe fn one(self, at: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.to.add(at).write(*self.from.add(at) as u32) }
    }
}

/// # Safety
/// There are four numbers at `to`, and four words at `from`.
#[inline(always)]
unsafe fn write_lower_four(to: *mut u32, from: *const u64) {
    // SAFETY: the caller's promise.
    unsafe { to.cast::<[u32; 4]>().write(lower_halves(from.cast::<[u64; 4]>().read())) };
}

/// # Safety
/// The processor has AVX2; there are `n` numbers at `to`, and as many words at `from`: whole runs, one at least.
#[inline(always)]
unsafe fn write_lower_wide(to: *mut u32, from: *const u64, n: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as in `write_wide`.
    unsafe {
        core::arch::asm!(
            "sub {at}, 8",
            "je 3f",
            "2:",
            // Lane by lane, and then the pairs in order.
            "vmovups ymm0, [{from} + 8*{at}]",
            "vshufps ymm0, ymm0, [{from} + 8*{at} + 32], 0x88",
            "vpermq ymm0, ymm0, 0xd8",
            "vmovups [{to} + 4*{at}], ymm0",
            "sub {at}, 8",
            "ja 2b",
            "3:",
            "vmovups ymm0, [{from}]",
            "vshufps ymm0, ymm0, [{from} + 32], 0x88",
            "vpermq ymm0, ymm0, 0xd8",
            "vmovups [{to}], ymm0",
            clear_upper!(),
            at = inout(reg) n => _,
            from = in(reg) from,
            to = in(reg) to,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
            out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack)
        )
    };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (to, from, n);
}

fn has_avx2() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// Converts all full runs, of which there is one at least.
///
/// # Safety
/// There are `n` items.
#[inline(always)]
unsafe fn runs(n: usize, items: impl Convert) {
    let mut at = 0;
    loop {
        // SAFETY: there is a whole run from `at` on.
        unsafe {
            items.four(at);
            items.four(at + 4);
        }
        at += RUN;
        if n - at < RUN {
            return;
        }
    }
}

/// Converts the items behind the last full run.
///
/// # Safety
/// There are `n` items.
#[inline(always)]
unsafe fn rest(n: usize, items: impl Convert) {
    if n.is_multiple_of(RUN) {
        return;
    }
    // SAFETY: four of the `n` items stand there, and each of the last `n % 4`.
    unsafe {
        if n % RUN >= 4 {
            items.four(n & !(RUN - 1));
        }
        if !n.is_multiple_of(4) {
            for at in few(n % 4) {
                items.one((n & !3) + at);
            }
        }
    }
}

/// Converts fewer items than a run.
///
/// # Safety
/// There are `n` items.
#[inline(always)]
unsafe fn less_than_run(n: usize, items: impl Convert) {
    // SAFETY: the caller's promise, and each number of `few` is below `n`.
    unsafe {
        if n >= 4 {
            rest(n, items);
        } else if n > 0 {
            // As in `rest`, with fewer instructions.
            for at in few(n) {
                items.one(at);
            }
        }
    }
}

/// All numbers below `n`, which is 1 to 3; some are there twice.
#[inline(always)]
fn few(n: usize) -> [usize; 3] {
    [0, n / 2, n - 1]
}

/// The lower halves of four words, side by side.
///
/// # Cost
/// Two loads and a shuffle, while a compiler makes eight loads and stores.
#[inline(always)]
fn lower_halves(words: [u64; 4]) -> [u32; 4] {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{__m128, _mm_shuffle_ps};
        // SAFETY: bits of the same size, and every pattern is a value of either type; SSE is part of every x86-64.
        unsafe {
            let [low, high] = std::mem::transmute::<[u64; 4], [__m128; 2]>(words);
            std::mem::transmute::<__m128, [u32; 4]>(_mm_shuffle_ps::<0b10_00_10_00>(low, high))
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    words.map(|word| word as u32)
}

/// Four words, each of a lower half and the upper half beside it.
///
/// # Cost
/// Two shuffles, while a compiler makes the upper halves in two pieces.
#[inline(always)]
fn words(low: [u32; 4], high: [u32; 4]) -> [u64; 4] {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{__m128i, _mm_unpackhi_epi32, _mm_unpacklo_epi32};
        // SAFETY: bits of the same size, and every pattern is a value of either type; SSE2 is part of every x86-64. The
        // assembly is no instruction, only a value whose origin is hidden from the compiler.
        unsafe {
            let [low, mut high] = std::mem::transmute::<[[u32; 4]; 2], [__m128i; 2]>([low, high]);
            core::arch::asm!("/* {0} */", inout(xmm_reg) high, options(pure, nomem, nostack, preserves_flags));
            let words = [_mm_unpacklo_epi32(low, high), _mm_unpackhi_epi32(low, high)];
            std::mem::transmute::<[__m128i; 2], [u64; 4]>(words)
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    [0, 1, 2, 3].map(|i: usize| u64::from(low[i]) | u64::from(high[i]) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_words_and_words_halves() {
        let (low, high) = ([1, u32::MAX, 3, 0], [5, 6, u32::MAX, 8]);
        let words = super::words(low, high);
        assert_eq!(words, [5 << 32 | 1, 6 << 32 | 0xffff_ffff, 0xffff_ffff << 32 | 3, 8 << 32]);
        assert_eq!(lower_halves(words), low);
    }

    #[test]
    fn of_every_number_each_is_written_and_nothing_behind_the_last_eight_at_a_time_or_four() {
        const MOST: usize = 80;
        let low: [u32; MOST] = std::array::from_fn(|at| (at as u32 + 1).wrapping_mul(0x9e37_79b9));
        let here = Words::<5>::new(0x1c0, 64);
        for words in [Words { is_wide: has_avx2(), ..here }, Words { is_wide: false, ..here }] {
            for n in 0..=MOST {
                let (mut whole, mut lower) = ([MaybeUninit::new(7); MOST], [7; MOST]);
                words.write(&mut whole[..n], &low);
                // SAFETY: all were written at the start.
                let whole = whole.map(|word| unsafe { word.assume_init() });
                words.write_lower(&mut lower, &whole[..n]);
                for (at, &low) in low.iter().enumerate() {
                    let word = u64::from(low) | u64::from(64 + (low << 5 & 0x1c0)) << 32;
                    let meant = if at < n { (word, low) } else { (7, 7) };
                    assert_eq!((whole[at], lower[at]), meant, "{at} of {n}");
                }
            }
        }
    }

    /// Seen: the end of the assembly cleared the upper halves of registers in which a caller with AVX2 had values.
    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn a_caller_with_avx2_keeps_its_vectors() {
        use std::arch::asm;
        use std::arch::x86_64::{_mm256_extract_epi64, _mm256_set1_epi64x};

        #[target_feature(enable = "avx2")]
        fn last_of_kept(numbers: &[u32; 16]) -> [i64; 3] {
            let words = Words::<5> { is_wide: true, ..Words::new(0x1c0, 64) };
            let (mut whole, mut lower) = ([MaybeUninit::new(0); 16], [0; 16]);
            let (mut a, mut b, mut c) = (_mm256_set1_epi64x(1), _mm256_set1_epi64x(2), _mm256_set1_epi64x(3));
            // SAFETY: it does nothing, but the compiler no longer knows the values.
            unsafe {
                asm!("/* {a} {b} {c} */", a = inout(ymm_reg) a, b = inout(ymm_reg) b, c = inout(ymm_reg) c);
            }
            words.write(&mut whole, numbers);
            // SAFETY: all were written.
            words.write_lower(&mut lower, &whole.map(|word| unsafe { word.assume_init() }));
            assert_eq!(lower, *numbers);
            [_mm256_extract_epi64(a, 3), _mm256_extract_epi64(b, 3), _mm256_extract_epi64(c, 3)]
        }

        if has_avx2() {
            // SAFETY: the processor has AVX2.
            assert_eq!(unsafe { last_of_kept(&std::array::from_fn(|at| at as u32)) }, [1, 2, 3]);
        }
    }
}
