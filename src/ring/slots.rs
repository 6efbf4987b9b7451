//! The slots of a ring of ids: 0 in an empty slot. Ids are read and written four at a time.
//!
//! Unsafe code: assembly, since no atomic access of the language is wider than a general register. A vector access is
//! one access of each slot in it: a processor may split it, but never within four aligned bytes. x86 keeps loads in
//! order and stores in order, so each access is also an Acquire or a Release. Under Loom, Miri and ThreadSanitizer there
//! are atomic accesses instead of the assembly.

use crate::sync::shim::AtomicU32;
use std::sync::atomic::Ordering;

/// The number of slots in a vector.
pub(super) const FOUR: usize = 4;

/// Returns the ids in four slots, or None if one of them is empty.
///
/// Acquire: edge S of [`Mpsc`](super::Mpsc).
#[inline(always)]
pub(super) fn load(slots: &[AtomicU32; FOUR]) -> Option<[u32; FOUR]> {
    let ids = read(slots);
    // None of the four comparisons is left out, so that they are one vector comparison.
    let empty = ids.map(|id| id == 0);
    (!(empty[0] | empty[1] | empty[2] | empty[3])).then_some(ids)
}

/// Writes ids into four slots.
///
/// Release: edge S of [`Mpsc`](super::Mpsc).
#[inline(always)]
pub(super) fn store(slots: &[AtomicU32; FOUR], ids: [u32; FOUR]) {
    write(slots, ids, Ordering::Release);
}

/// Empties slots.
#[inline(always)]
pub(super) fn clear(slots: &[AtomicU32]) {
    let (fours, rest) = slots.as_chunks();
    fours.iter().for_each(|four| write(four, [0; FOUR], Ordering::Relaxed));
    rest.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
}

/// Reads four slots, each as by an Acquire.
#[inline(always)]
fn read(slots: &[AtomicU32; FOUR]) -> [u32; FOUR] {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri, tsan))))]
    // SAFETY: the slots may be read, and every pattern of bits is four numbers; SSE2 is part of every x86-64. What
    // follows stays behind the assembly, which may write memory as far as the compiler knows.
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
fn write(slots: &[AtomicU32; FOUR], words: [u32; FOUR], order: Ordering) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri, tsan))))]
    // SAFETY: the slots are atomic, so they may be written through a shared reference; SSE2 is part of every x86-64.
    // What comes before stays in front of the assembly, which may read memory as far as the compiler knows.
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
    fn four_ids_are_stored_at_each_alignment_and_nothing_beside_them() {
        for at in 0..=FOUR {
            let places = slots([9; 3 * FOUR]);
            let four = places[at..].first_chunk().expect("four");
            store(four, [1, 2, 3, 4]);
            let mut expected = [9; 3 * FOUR];
            expected[at..at + FOUR].copy_from_slice(&[1, 2, 3, 4]);
            assert_eq!(words(&places), expected);
        }
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
