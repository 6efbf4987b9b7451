//! The slots of a ring of ids: 0 in an empty slot. Ids are read and written four at a time.
//!
//! Unsafe code: assembly, since no atomic access of the language is wider than a general register. A vector access is
//! one access of each slot in it, because the four slots lie at a multiple of 16 bytes ([`parts`]). On processors with
//! AVX, such an access is done at once (Intel, SDM 3A, 10.1.1; AMD, APM 2, 7.3.2). Processors before AVX, and
//! emulators, split it into aligned halves at most. x86 keeps loads in order and stores in order, so each access is also
//! an Acquire or a Release. Loom, Miri and ThreadSanitizer check atomic accesses instead of the assembly.

use crate::sync::shim::AtomicU32;
use std::sync::atomic::Ordering;

/// The number of slots in a vector.
const FOUR: usize = 4;

/// Slots that are accessed at once.
pub(super) type Four = [AtomicU32; FOUR];

/// Returns the slots before the first vector of a run, its vectors, and the slots behind them.
#[inline(always)]
pub(super) fn parts(run: &[AtomicU32]) -> (&[AtomicU32], &[Four], &[AtomicU32]) {
    // Loom's slots have another size, and no assembly.
    let lead = if cfg!(loom) { 0 } else { run.as_ptr().align_offset(size_of::<Four>()) };
    let (lead, rest) = run.split_at(lead.min(run.len()));
    let (fours, rest) = rest.as_chunks();
    (lead, fours, rest)
}

/// Returns the ids in four slots, or None if one of them is empty.
///
/// Acquire: edge S of [`Mpsc`](super::Mpsc).
#[inline(always)]
pub(super) fn load(slots: &Four) -> Option<[u32; FOUR]> {
    let ids = read(slots);
    // None of the four comparisons is left out, so that they are one vector comparison.
    let empty = ids.map(|id| id == 0);
    (!(empty[0] | empty[1] | empty[2] | empty[3])).then_some(ids)
}

/// Writes ids into four slots.
///
/// Release: edge S of [`Mpsc`](super::Mpsc).
#[inline(always)]
pub(super) fn store(slots: &Four, ids: [u32; FOUR]) {
    debug_assert!(!ids.contains(&0));
    write(slots, ids, Ordering::Release);
}

/// Empties slots.
#[inline(always)]
pub(super) fn clear(slots: &[AtomicU32]) {
    let (lead, fours, rest) = parts(slots);
    lead.iter().chain(rest).for_each(|slot| slot.store(0, Ordering::Relaxed));
    fours.iter().for_each(|four| write(four, [0; FOUR], Ordering::Relaxed));
}

/// Reads four slots, each as by an Acquire.
#[inline(always)]
fn read(slots: &Four) -> [u32; FOUR] {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri, tsan))))]
    // SAFETY: the slots may be read, and every pattern of bits is four numbers; SSE2 is part of every x86-64. Without
    // `nomem` and `readonly`, the compiler moves no access across the assembly.
    unsafe {
        let words: std::arch::x86_64::__m128i;
        core::arch::asm!(
            "movdqu {words}, [{slots}]",
            words = out(xmm_reg) words,
            slots = in(reg) slots,
            options(nostack, preserves_flags)
        );
        std::mem::transmute(words)
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri, tsan)))))]
    slots.each_ref().map(|slot| slot.load(Ordering::Acquire))
}

/// Writes four slots, each by a store of `order` or stronger.
#[inline(always)]
fn write(slots: &Four, words: [u32; FOUR], order: Ordering) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri, tsan))))]
    // SAFETY: the slots are atomic, so they may be written through a shared reference; SSE2 is part of every x86-64.
    // Without `nomem`, the compiler moves no access across the assembly.
    unsafe {
        let _ = order;
        core::arch::asm!(
            "movdqu [{slots}], {words}",
            words = in(xmm_reg) std::mem::transmute::<[u32; FOUR], std::arch::x86_64::__m128i>(words),
            slots = in(reg) slots,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri, tsan)))))]
    slots.iter().zip(words).for_each(|(slot, word)| slot.store(word, order));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn slots<const N: usize>(words: [u32; N]) -> [AtomicU32; N] {
        words.map(AtomicU32::new)
    }

    fn words(slots: &[AtomicU32]) -> Vec<u32> {
        slots.iter().map(|slot| slot.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn the_vectors_of_each_run_lie_at_multiples_of_their_size_and_the_parts_are_the_run() {
        let places = slots(std::array::from_fn::<_, { 5 * FOUR }, _>(|at| at as u32));
        for (from, to) in (0..5 * FOUR).flat_map(|from| (from..=5 * FOUR).map(move |to| (from, to))) {
            let (lead, fours, rest) = parts(&places[from..to]);
            assert!(fours.iter().all(|four| four.as_ptr().addr() % size_of::<Four>() == 0));
            let all = [lead, fours.as_flattened(), rest].map(words).concat();
            assert_eq!(all, words(&places[from..to]));
        }
    }

    #[test]
    fn four_ids_are_loaded_and_none_if_one_slot_of_them_is_empty() {
        let ids = [1, u32::MAX, 1 << 31, 7];
        assert_eq!(load(&slots(ids)), Some(ids));
        for empty in 0..FOUR {
            let mut ids = ids;
            ids[empty] = 0;
            assert_eq!(load(&slots(ids)), None);
        }
    }

    #[test]
    fn four_ids_are_stored_and_nothing_beside_them() {
        let places = slots([9; 3 * FOUR]);
        store(places[2..].first_chunk().expect("four"), [1, 2, 3, 4]);
        assert_eq!(words(&places), [9, 9, 1, 2, 3, 4, 9, 9, 9, 9, 9, 9]);
    }

    #[test]
    fn of_every_number_of_slots_each_is_cleared_and_nothing_beside_them() {
        for n in 0..3 * FOUR {
            let places = slots([9; 4 * FOUR]);
            clear(&places[2..2 + n]);
            let mut expected = [9; 4 * FOUR];
            expected[2..2 + n].fill(0);
            assert_eq!(words(&places), expected);
        }
    }
}
