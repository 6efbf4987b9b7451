//! The class of a size.

use crate::limits::{ORDER_MAX, PAGE_SIZE};
use std::alloc::Layout;

/// Bytes of the objects of each class.
pub(super) const CLASSES: [usize; 13] = [8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192];

/// The largest size of a class. Larger allocations come from pages.
const CLASS_MAX: usize = CLASSES[CLASSES.len() - 1];

/// The largest size that looks its class up in the table, in steps of 8 bytes. Above it the classes are the powers of
/// two.
const TABLE_MAX: usize = 192;

/// The class of each size up to 192. The index is `(size - 1) / 8`.
const TABLE: [u8; TABLE_MAX / 8] = {
    let mut table = [0; TABLE_MAX / 8];
    let mut eighth = 0;
    let mut class = 0;
    while eighth < table.len() {
        if CLASSES[class] < (eighth + 1) * 8 {
            class += 1;
        }
        table[eighth] = class as u8;
        eighth += 1;
    }
    table
};

/// The smallest class that holds `bytes`. None for 0 and for sizes larger than all classes.
///
/// # Cost
/// One comparison with the bounds, one with 192, then one look-up or one `lzcnt`; nothing for a constant.
#[inline(always)]
pub(super) fn of(bytes: usize) -> Option<usize> {
    let last = bytes.wrapping_sub(1);
    match last {
        CLASS_MAX.. => None,
        // 192 is class 6, and every doubling from 256 on is one more: 256 is class 7, and log2 of 255 is 7.
        TABLE_MAX.. => Some(last.ilog2() as usize),
        _ => Some(usize::from(TABLE[last / 8])),
    }
}

/// The alignment of the addresses of a class: the largest power of two that divides its size.
pub(super) const fn align(class: usize) -> usize {
    1 << CLASSES[class].trailing_zeros()
}

/// A size that is large enough for `layout`, and whose objects have the alignment that it requires.
pub(super) fn size_for(layout: Layout) -> usize {
    match of(layout.size()) {
        Some(class) if align(class) >= layout.align() => layout.size(),
        None if layout.size() == 0 && layout.align() <= super::ZERO_ADDRESS => 0,
        _ => layout.size().max(layout.align()).next_power_of_two(),
    }
}

/// The order of the smallest block of pages that holds `bytes`. None if there is none.
pub(super) fn order(bytes: usize) -> Option<u8> {
    let order = bytes.div_ceil(PAGE_SIZE).checked_next_power_of_two()?.ilog2() as u8;
    (order <= ORDER_MAX).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for bytes in (0..=20_000).step_by(crate::rounds::stride(97)) {
            let smallest = CLASSES.iter().position(|&size| size >= bytes);
            assert_eq!(of(bytes), smallest.filter(|_| bytes > 0), "{bytes} bytes");
        }
        assert_eq!((of(usize::MAX), of(8192), of(8193)), (None, Some(12), None));
    }

    #[test]
    fn powers_of_two_are_aligned_to_their_size_and_the_others_to_their_largest_power() {
        let aligns: Vec<usize> = (0..CLASSES.len()).map(align).collect();
        assert_eq!(aligns, [8, 16, 32, 64, 32, 128, 64, 256, 512, 1024, 2048, 4096, 8192]);
    }

    #[test]
    fn any_layout_gets_a_size_whose_class_is_aligned_enough() {
        for size in 0..=9000 {
            for align_log in 0..=13 {
                let layout = Layout::from_size_align(size, 1 << align_log).unwrap();
                let bytes = size_for(layout);
                assert!(bytes >= size);
                match of(bytes) {
                    Some(class) => assert!(align(class) >= layout.align(), "{layout:?}: {bytes}"),
                    None => assert!(bytes > CLASS_MAX || (size == 0 && layout.align() <= 16)),
                }
            }
        }
    }

    #[test]
    fn large_sizes_get_the_smallest_order_that_holds_them() {
        assert_eq!([8193, 16384, 16385, 4 << 20].map(order), [Some(2), Some(2), Some(3), Some(10)]);
        assert_eq!([(4 << 20) + 1, usize::MAX].map(order), [None, None]);
    }
}
