//! The descriptor table: the state of each page. It lies beside the pages and never in them.
//!
//! ```text
//!   byte  0      4      8      12      14      15      16            24            32
//!         next   prev   refs   owner   order   state   word          more          │ padding of the wider strides
//!                                                      └──────── the pair ─────────┘
//! ```
//! A descriptor takes 32 bytes (0.8 % of the memory). Strides of 56 and 64 bytes reproduce the layouts that
//! [hansen14-page] compares. In the 56-byte stride every second descriptor begins 8 bytes off a 16-byte boundary. Its
//! pair lies at byte 24 instead of 16: 56 bytes, with the pair aligned internally.
//!
//! Every field is an atomic. The comment of each field says which code may write it, and when.
//!
//! The code is unsafe because the position of a descriptor depends on a stride that is known at run time only.

mod pair;

pub(crate) use pair::Pair;

use crate::sync::shim::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, yield_again};
#[cfg(not(loom))]
use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A bit in a claim's number: the block has more than one page, or is from the reserve; the descriptor says which. Page
/// numbers have 31 bits, so a single page is freed without reading its descriptor.
pub(super) const MARK: u32 = 1 << 31;
/// No block: either end of a list.
pub(super) const NIL: u32 = u32::MAX;
/// In `next`: the block is on no list.
const UNLISTED: u32 = u32::MAX - 1;
/// In `state`: the holder's lock bit.
const LOCKED: u8 = 0x80;
/// Looks of a thread that waits for that bit before it yields.
const SPINS_MAX: u32 = 10_000;
/// In `state`: the block was taken from the reserve.
const RESERVE: u8 = 0x40;
/// The rest of `state`: a [`State`].
const STATE: u8 = 0x3f;

/// Bytes from one page descriptor to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DescriptorSize {
    /// 32 bytes: as much as netmem needs.
    #[default]
    Compact,
    #[cfg(feature = "comparisons")]
    /// 56 bytes: the smaller `struct page` of [hansen14-page], whose 16-byte pair is aligned internally.
    Bytes56,
    #[cfg(feature = "comparisons")]
    /// 64 bytes: the current `struct page`, one cache line each.
    Bytes64,
}

impl DescriptorSize {
    /// Bytes from one descriptor to the next.
    pub fn bytes(self) -> usize {
        match self {
            DescriptorSize::Compact => 32,
            #[cfg(feature = "comparisons")]
            DescriptorSize::Bytes56 => 56,
            #[cfg(feature = "comparisons")]
            DescriptorSize::Bytes64 => 64,
        }
    }
}

/// The state of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// A page inside a larger block, free or not.
    Tail = 0,
    /// The first page of a block on a free list of its node.
    Free = 1,
    /// The first page of a block that is out: it has a holder or is in a worker's list.
    Out = 2,
}

/// One page's descriptor.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Desc {
    /// The neighbours of the block on its list, or [`UNLISTED`]. While the block is [`State::Free`], it is the node's
    /// list (under the node's lock). While the block is out, it is the holder's list (under the holder's lock).
    next: AtomicU32,
    prev: AtomicU32,
    /// The number of claims on a shared block; see `refs.rs`. While a [`Page`](super::Page) is the only claim, this is
    /// a number for the holder's own use. The holder leaves 0.
    pub(crate) refs: AtomicU32,
    /// The owner of the page: 0, a slab cache's number, or from [`FIRST`](super::owner::FIRST) on an owner's. The holder
    /// writes it.
    pub(crate) owner: AtomicU16,
    /// log2 of the block's pages. Written under the node's lock.
    order: AtomicU8,
    /// A [`State`], written under the node's lock; [`RESERVE`], written by the thread that takes the block; and
    /// [`LOCKED`], which belongs to the holder.
    state: AtomicU8,
    /// One word for the holder's use.
    pub(crate) word: AtomicU64,
    /// Together with `word` the pair, if the pair lies at byte 16.
    _more: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Desc>() == 32 && align_of::<Desc>() == 8);

impl Desc {
    #[cfg(loom)]
    fn new() -> Self {
        Desc {
            next: AtomicU32::new(UNLISTED),
            prev: AtomicU32::new(0),
            refs: AtomicU32::new(0),
            owner: AtomicU16::new(0),
            order: AtomicU8::new(0),
            state: AtomicU8::new(0),
            word: AtomicU64::new(0),
            _more: AtomicU64::new(0),
        }
    }

    /// log2 of the pages in the block that begins here. Stable while the block is out.
    #[inline]
    pub(crate) fn order(&self) -> u8 {
        self.order.load(Relaxed)
    }

    /// Whether a free block of this order begins here. Meaningful under the node's lock.
    pub(crate) fn is_free(&self, order: u8) -> bool {
        self.state.load(Relaxed) & STATE == State::Free as u8 && self.order() == order
    }

    /// Whether a block that is out begins here.
    pub(crate) fn is_out(&self) -> bool {
        self.state.load(Relaxed) & STATE == State::Out as u8
    }

    /// Whether the block that begins here is out and was taken from the reserve.
    pub(crate) fn is_reserve(&self) -> bool {
        self.state.load(Relaxed) & RESERVE != 0
    }

    /// Marks a block as taken from the reserve until it is freed. Called by the thread that took it, before another
    /// thread knows of the block.
    pub(super) fn mark_reserve(&self) {
        self.state.store(State::Out as u8 | RESERVE, Relaxed);
    }

    /// Sets the state of the block. Called under the node's lock, when the block has no holder.
    pub(super) fn set(&self, state: State, order: u8) {
        self.state.store(state as u8, Relaxed);
        self.order.store(order, Relaxed);
    }

    /// Whether the block is on a list. Called under the list's lock.
    pub(crate) fn is_listed(&self) -> bool {
        self.next.load(Relaxed) != UNLISTED
    }

    pub(super) fn next(&self) -> u32 {
        self.next.load(Relaxed)
    }

    pub(super) fn prev(&self) -> u32 {
        self.prev.load(Relaxed)
    }

    pub(super) fn set_next(&self, page: u32) {
        self.next.store(page, Relaxed);
    }

    pub(super) fn set_prev(&self, page: u32) {
        self.prev.store(page, Relaxed);
    }

    pub(super) fn set_unlisted(&self) {
        self.next.store(UNLISTED, Relaxed);
    }

    /// Takes the holder's lock bit, and spins until it is free, but not for long. Dropping the guard gives it up.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_> {
        // Acquire: pairs with the Release in `Locked::drop`.
        while self.state.fetch_or(LOCKED, Acquire) & LOCKED != 0 {
            self.wait_for_lock();
        }
        Locked { desc: self }
    }

    #[cold]
    fn wait_for_lock(&self) {
        let (mut spins, mut waits) = (0, 0);
        while self.state.load(Relaxed) & LOCKED != 0 {
            std::hint::spin_loop();
            spins += 1;
            // Its holder may wait for this core.
            if cfg!(loom) || spins > SPINS_MAX {
                yield_again(&mut waits);
            }
        }
    }
}

/// The stay inside a descriptor's lock bit.
#[must_use]
pub(crate) struct Locked<'a> {
    desc: &'a Desc,
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `Desc::lock`.
        self.desc.state.fetch_and(!LOCKED, Release);
    }
}

/// A cache line of words.
#[cfg(not(loom))]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// The memory of descriptors, which are atomics. It is one cell instead of one cell for each word, because Miri checks
/// every cell behind a reference that is made or passed on.
#[cfg(not(loom))]
#[repr(transparent)]
struct Lines(UnsafeCell<[Line]>);

// SAFETY: its contents are accessed as atomics only.
#[cfg(not(loom))]
unsafe impl Sync for Lines {}

#[cfg(not(loom))]
impl Lines {
    /// Makes `n` lines of zeros.
    fn new(n: usize) -> Box<Lines> {
        let lines: Box<[Line]> = (0..n).map(|_| Line([0; 8])).collect();
        // SAFETY: transparent around a cell, which is transparent around the slice.
        unsafe { Box::from_raw(Box::into_raw(lines) as *mut Lines) }
    }
}

/// The descriptors of all pages of a memory.
pub(crate) struct Table {
    /// Room for `len` descriptors, `stride` bytes apart. No code ever gets a `&mut` into it.
    #[cfg(not(loom))]
    lines: Box<Lines>,
    #[cfg(loom)]
    descs: Box<[Desc]>,
    len: usize,
    /// Bytes from one descriptor to the next.
    stride: usize,
    /// Whether the processor has cmpxchg16b. Otherwise the pair is written under the descriptor's lock bit.
    wide: bool,
}

impl Table {
    /// Makes the descriptors of `pages` pages. Each is on no list and has no owner.
    pub(crate) fn new(pages: usize, size: DescriptorSize) -> Self {
        let (len, stride, wide) = (pages, size.bytes(), pair::available());
        #[cfg(loom)]
        return Table { descs: (0..pages).map(|_| Desc::new()).collect(), len, stride, wide };
        #[cfg(not(loom))]
        {
            let lines = Lines::new((len * stride).div_ceil(size_of::<Line>()));
            let table = Table { lines, len, stride, wide };
            table.range(0, len).for_each(|desc| desc.next.store(UNLISTED, Relaxed));
            table
        }
    }

    /// The number of pages.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that the descriptors take.
    pub(crate) fn bytes(&self) -> usize {
        self.len * self.stride
    }

    /// One page's descriptor.
    ///
    /// # Panics
    /// As a slice, if the page does not exist.
    #[inline(always)]
    pub(crate) fn desc(&self, index: u32) -> &Desc {
        assert!((index as usize) < self.len, "page {index} of {}", self.len);
        self.at(index as usize)
    }

    /// One page's descriptor, or None if the page does not exist.
    #[inline(always)]
    pub(crate) fn get(&self, index: u32) -> Option<&Desc> {
        ((index as usize) < self.len).then(|| self.at(index as usize))
    }

    /// The descriptors of `n` pages from `first` on (fewer at the table's end).
    pub(crate) fn range(&self, first: u32, n: usize) -> impl Iterator<Item = &Desc> {
        let first = first as usize;
        (first..self.len.min(first + n)).map(|index| self.at(index))
    }

    /// One page's pair of words, for a holder that changes both at once.
    ///
    /// # Panics
    /// As [`Table::desc`].
    #[inline(always)]
    pub(crate) fn pair(&self, index: u32) -> Pair<'_> {
        let desc = self.desc(index);
        #[cfg(loom)]
        return Pair::new(desc, [&desc.word, &desc._more], self.wide);
        #[cfg(not(loom))]
        self.words(index, desc)
    }

    #[cfg(not(loom))]
    #[inline(always)]
    fn words<'a>(&'a self, index: u32, desc: &'a Desc) -> Pair<'a> {
        let place = self.place(index as usize);
        let words = place.wrapping_add(16 + (place.addr() & 8)).cast::<[AtomicU64; 2]>();
        // SAFETY: `pair` checked the index. Bytes 16 to 32 lie inside every stride. Bytes 24 to 40 are used if the
        // position is not a multiple of 16, which happens in the stride of 56 only. Aligned for u64, and as in `at`.
        Pair::new(desc, unsafe { &*words }, self.wide)
    }

    /// The address of a descriptor.
    #[cfg(not(loom))]
    #[inline(always)]
    fn place(&self, index: usize) -> *const u8 {
        self.lines.0.get().cast_const().cast::<u8>().wrapping_add(index * self.stride)
    }

    /// A descriptor whose `index` was checked.
    #[cfg(not(loom))]
    #[inline(always)]
    fn at(&self, index: usize) -> &Desc {
        debug_assert!(index < self.len);
        // SAFETY: callers checked `index < len`, and `lines` has room for `len` strides of at least a Desc. Every
        // stride and the beginning are multiples of 8, a Desc's alignment. All of it is zeroes or was written as a Desc
        // or its pair. Any bits are values of atomics, and atomics may be shared while others write them.
        unsafe { &*self.place(index).cast::<Desc>() }
    }

    #[cfg(loom)]
    fn at(&self, index: usize) -> &Desc {
        &self.descs[index]
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("len", &self.len).field("stride", &self.stride).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Barrier;
    use std::thread;

    const SIZES: [DescriptorSize; 3] =
        [DescriptorSize::Compact, DescriptorSize::Bytes56, DescriptorSize::Bytes64];

    #[test]
    fn descriptors_do_not_overlap_with_any_stride() {
        for size in SIZES {
            let table = Table::new(9, size);
            for index in 0..9 {
                table.desc(index).set(State::Out, index as u8);
                table.desc(index).owner.store(index as u16, Relaxed);
                table.desc(index).word.store(u64::MAX - u64::from(index), Relaxed);
            }
            for (index, desc) in table.range(0, 9).enumerate() {
                let found = (desc.order(), desc.owner.load(Relaxed), desc.word.load(Relaxed));
                assert_eq!(found, (index as u8, index as u16, u64::MAX - index as u64));
                assert!(desc.is_out() && !desc.is_listed() && !desc.is_reserve());
            }
            assert_eq!((table.range(7, 9).count(), table.bytes()), (2, 9 * size.bytes()));
            assert!(table.get(9).is_none());
        }
    }

    /// Counted without atomics, by the thread that holds the lock bit.
    struct Counted(Cell<u32>);

    // SAFETY: the test accesses the cell only under the lock bit.
    unsafe impl Sync for Counted {}

    #[test]
    fn the_lock_bit_lets_one_in_at_a_time_and_leaves_the_state_alone() {
        const EACH: u32 = 20_000;
        let (table, counted, begin) =
            (Table::new(1, DescriptorSize::Compact), Counted(Cell::new(0)), Barrier::new(2));
        table.desc(0).set(State::Out, 3);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let counted = &counted;
                    begin.wait();
                    for _ in 0..EACH {
                        let _locked = table.desc(0).lock();
                        counted.0.set(counted.0.get() + 1);
                    }
                });
            }
        });
        assert_eq!(counted.0.get(), 2 * EACH);
        assert!(table.desc(0).is_out() && table.desc(0).order() == 3);
    }
}
