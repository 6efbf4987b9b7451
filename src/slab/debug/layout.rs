//! The position of an object in its slot, and the data beside it.

use super::DebugOptions;
use super::track::Stamp;
use std::ops::Range;

/// Minimum number of bytes of a red zone.
const RED_ZONE: usize = 8;
/// Bytes of the freelist word, and of the mark behind it.
const WORD: usize = 8;

/// The layout of objects in a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::slab) struct Layout {
    /// Bytes from one object to the next; a multiple of the alignment.
    pub(in crate::slab) stride: usize,
    /// Bytes from the slab's begin to the first object; a multiple of the alignment.
    pub(in crate::slab) offset: usize,
    /// Bytes from an object's begin to its freelist word; a multiple of 8.
    pub(in crate::slab) link: usize,
    /// Bytes at the slab's end where no object lies: an inaccessible page, or none.
    pub(in crate::slab) guard: usize,
}

impl Layout {
    /// Lays objects out side by side. The freelist word lies at their begin, or behind them if the contents of free
    /// objects are `kept`.
    ///
    /// `size` and `align` are at most those of a slab ([`Shared::create`](crate::slab::shared::Shared::create)), so
    /// that no sum here or in [`Plan::new`] wraps.
    pub(in crate::slab) fn plain(size: usize, align: usize, kept: bool) -> Layout {
        let align = align.max(WORD);
        let link = if kept { size.next_multiple_of(WORD) } else { 0 };
        Layout { stride: size.max(link + WORD).next_multiple_of(align), offset: 0, link, guard: 0 }
    }

    /// Lays objects out with `beside` bytes behind each, up to the freelist word.
    pub(in crate::slab) fn with_room(size: usize, align: usize, beside: usize) -> Layout {
        let (align, link) = (align.max(WORD), (size + beside).next_multiple_of(WORD));
        Layout { stride: (link + WORD).next_multiple_of(align), offset: 0, link, guard: 0 }
    }

    /// The same layout in slabs that end with `guard` bytes without objects.
    pub(in crate::slab) fn before_guard(self, guard: usize) -> Layout {
        Layout { guard, ..self }
    }

    /// The number of objects in `bytes` bytes. Each has a whole stride, which includes the offset.
    pub(in crate::slab) fn objects(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.guard) / self.stride
    }
}

/// The data that a cache with debug keeps around each object. Offsets are counted from the object's begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) layout: Layout,
    /// Bytes of the object.
    pub(super) size: usize,
    red_zone: bool,
    store_user: bool,
}

impl Plan {
    pub(super) fn new(options: &DebugOptions, size: usize, align: usize) -> Plan {
        let (size, align) = (size.max(1), align.max(WORD));
        let offset = if options.red_zone { align } else { 0 };
        let right = if options.red_zone { RED_ZONE } else { 0 };
        let beside = 2 * WORD + if options.store_user { 2 * size_of::<Stamp>() } else { 0 };
        let stride = (offset + (size + right).next_multiple_of(WORD) + beside).next_multiple_of(align);
        let layout = Layout { stride, offset, link: stride - offset - beside, guard: 0 };
        Plan { layout, size, red_zone: options.red_zone, store_user: options.store_user }
    }

    /// The object's bytes.
    pub(super) fn object(&self) -> Range<isize> {
        0..self.size as isize
    }

    /// The red zones: before the object, and behind it up to the freelist word.
    pub(super) fn red_zones(&self) -> Option<[Range<isize>; 2]> {
        let zones = [-(self.layout.offset as isize)..0, self.size as isize..self.layout.link as isize];
        self.red_zone.then_some(zones)
    }

    /// The mark.
    pub(super) fn mark(&self) -> isize {
        (self.layout.link + WORD) as isize
    }

    /// The two call sites, if they are kept.
    pub(super) fn tracks(&self) -> Option<usize> {
        self.store_user.then_some(self.layout.link + 2 * WORD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(bits: u32) -> DebugOptions {
        DebugOptions {
            sanity: bits & 1 != 0,
            red_zone: bits & 2 != 0,
            poison: bits & 4 != 0,
            store_user: bits & 8 != 0,
            ..DebugOptions::default()
        }
    }

    #[test]
    fn whatever_is_chosen_nothing_overlaps_and_every_object_is_aligned() {
        for bits in 1..16 {
            for align in (0..=12).map(|log| 1usize << log) {
                for size in [1, 7, 8, 9, 24, 63, 64, 100, 256, 4096, 5000] {
                    let (options, plan) = (options(bits), Plan::new(&options(bits), size, align));
                    let Layout { stride, offset, link, .. } = plan.layout;
                    assert_eq!((stride % align, offset % align, link % 8), (0, 0, 0), "{plan:?}");
                    let room = if options.red_zone { RED_ZONE } else { 0 };
                    assert!(offset >= room && link >= size + room, "{plan:?}");
                    assert_eq!(plan.mark(), link as isize + 8);
                    let end = plan.tracks().map_or(link + 16, |tracks| tracks + 16);
                    assert_eq!(end, stride - offset, "the slot ends where the next begins: {plan:?}");
                }
            }
        }
    }

    #[test]
    fn plain_objects_are_as_tight_as_the_freelist_word_lets_them_be() {
        assert_eq!(Layout::plain(256, 64, false), Layout { stride: 256, offset: 0, link: 0, guard: 0 });
        assert_eq!(Layout::plain(3, 1, false), Layout { stride: 8, offset: 0, link: 0, guard: 0 });
        assert_eq!(Layout::plain(20, 4, true), Layout { stride: 32, offset: 0, link: 24, guard: 0 });
        assert_eq!(Layout::plain(96, 32, true), Layout { stride: 128, offset: 0, link: 96, guard: 0 });
    }

    #[test]
    fn the_costs_that_the_documentation_states() {
        let extra = |bits, size, align| Plan::new(&options(bits), size, align).layout.stride - size;
        assert_eq!(extra(1, 64, 8), 16, "sanity");
        assert_eq!(extra(4, 64, 8), 16, "poison");
        assert_eq!(extra(2, 64, 8), 32, "red zone");
        assert_eq!(extra(8, 64, 8), 32, "store user");
        assert_eq!(extra(15, 64, 8), 48, "all");
        assert_eq!(extra(15, 256, 64), 128, "all, in units of the alignment");
    }
}
