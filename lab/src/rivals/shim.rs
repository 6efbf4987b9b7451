//! The border to the allocators' loops in C.
//!
//! Sound because every block is freed once, by the allocator that made it. The loops free what they allocate, and a
//! block that crosses does so between the two ends that [`Loops::ring`] makes for one allocator.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use netmem::ring::{Receiver, Sender, ring};

// Building these crates compiles the allocators. The loops in C call them.
use {libmimalloc_sys as _, snmalloc_sys as _, tikv_jemalloc_sys as _};

use super::dpdk::{BURST, Passed};
use super::{Found, Missing, Rival};

/// The functions of one allocator, as in `struct rival` in C, with the conditions that are stated there.
#[derive(Debug)]
#[repr(C)]
struct Table {
    name: *const c_char,
    package: *const c_char,
    version: unsafe extern "C" fn() -> *const c_char,
    single: unsafe extern "C" fn(usize, c_int, u64) -> u64,
    bulk: unsafe extern "C" fn(*mut *mut c_void, usize, usize, c_int, u64) -> u64,
    take: unsafe extern "C" fn(*mut *mut c_void, usize, usize, c_int, u64) -> usize,
    give: unsafe extern "C" fn(*mut *mut c_void, usize, c_int, u64) -> u64,
}

// SAFETY: constants, and the texts and functions that they point to.
unsafe impl Sync for Table {}

unsafe extern "C" {
    safe fn rival_allocator(place: usize) -> Option<&'static Table>;
}

/// The loops of an allocator.
///
/// Invariant: the allocator is available: its `version` function has returned a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loops(&'static Table);

/// Checks which allocators are available, and opens those that are opened by their name.
pub(super) fn find() -> Found {
    let mut found = Found::default();
    for table in (0..).map_while(|place| rival_allocator(place)) {
        let name = text(table.name).unwrap_or_default();
        // SAFETY: takes nothing, and returns NULL or a text.
        match text(unsafe { (table.version)() }) {
            Some(version) => {
                found.there.push(Rival { name, version: version.to_owned(), loops: Loops(table) });
            }
            None => {
                let remedy = format!("apt-get install {}", text(table.package).unwrap_or_default());
                found.missing.push(Missing { name, remedy });
            }
        }
    }
    found
}

fn text(text: *const c_char) -> Option<&'static str> {
    // SAFETY: all texts of the table are static and end in a NUL.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_str().unwrap_or_default())
}

/// Slots for the blocks that are allocated at the same time.
#[derive(Debug)]
pub struct Held(Vec<*mut c_void>);

impl Held {
    /// Makes `count` slots.
    pub fn new(count: usize) -> Self {
        Self(vec![ptr::null_mut(); count])
    }
}

impl Loops {
    #[inline]
    pub(super) fn single(&self, bytes: usize, touch: bool, ops: u32) -> u64 {
        // SAFETY: the allocator is available, and the loop frees every block that it allocated.
        unsafe { (self.0.single)(bytes, touch.into(), ops.into()) }
    }

    #[inline]
    pub(super) fn bulk(&self, Held(held): &mut Held, bytes: usize, touch: bool, ops: u32) -> u64 {
        // SAFETY: as above, and `held` has the length that is passed.
        unsafe { (self.0.bulk)(held.as_mut_ptr(), held.len(), bytes, touch.into(), ops.into()) }
    }

    pub(super) fn ring(&self, slots: usize, bytes: usize, touch: bool) -> (Sending, Receiving) {
        let (to_receiving, from_sending) = ring(slots as u32);
        let held = [ptr::null_mut(); BURST];
        let sending = Sending { loops: *self, held, bytes, touch, ring: to_receiving };
        (sending, Receiving { loops: *self, held, touch, ring: from_sending })
    }
}

/// A block in flight. A block that is dropped stays allocated.
struct Block(NonNull<c_void>);

// SAFETY: a block may be used and freed by any thread, one at a time.
unsafe impl Send for Block {}

/// The end at which blocks are allocated and sent, in bursts.
#[repr(align(128))]
pub struct Sending {
    loops: Loops,
    /// Empty between calls.
    held: [*mut c_void; BURST],
    bytes: usize,
    touch: bool,
    ring: Sender<Block>,
}

// SAFETY: `held` has no meaning between calls.
unsafe impl Send for Sending {}

impl Sending {
    /// Allocates a burst of blocks, numbered from `next` on, and sends it. Does nothing if there is no room for a
    /// burst.
    #[inline]
    pub fn burst(&mut self, next: u64) -> Passed {
        let Self { loops, held, bytes, touch, ring } = self;
        if ring.room(BURST) < BURST {
            return Passed::default();
        }
        // SAFETY: the allocator is available, and `held` has the length that is passed.
        let made = unsafe { (loops.0.take)(held.as_mut_ptr(), BURST, *bytes, (*touch).into(), next) };
        // There is room, so all are sent.
        let items =
            ring.send_burst(made, &mut held.iter().filter_map(|block| NonNull::new(*block)).map(Block));
        Passed { items: items as u64, wrong: (BURST - made) as u64 }
    }
}

/// The end at which blocks are received and freed.
#[repr(align(128))]
pub struct Receiving {
    loops: Loops,
    /// Empty between calls.
    held: [*mut c_void; BURST],
    touch: bool,
    ring: Receiver<Block>,
}

// SAFETY: `held` has no meaning between calls.
unsafe impl Send for Receiving {}

impl Receiving {
    /// Receives at most a burst of blocks, the first of which should have number `next`, and frees them.
    #[inline]
    pub fn burst(&mut self, next: u64) -> Passed {
        let Self { loops, held, touch, ring } = self;
        let mut places = held.iter_mut();
        let items = ring.recv_burst(BURST, |Block(block)| {
            // There is a slot for each: no more were requested.
            if let Some(place) = places.next() {
                *place = block.as_ptr();
            }
        });
        // SAFETY: the allocator is available. These blocks came out of the ring, into which only the other end puts
        // blocks, from the same allocator and each once.
        let wrong = unsafe { (loops.0.give)(held.as_mut_ptr(), items, (*touch).into(), next) };
        Passed { items: items as u64, wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::all;

    #[test]
    fn a_rival_finds_memory_for_every_block_and_counts_those_it_has_none_for() {
        for rival in all() {
            assert!(rival.version.starts_with(|digit: char| digit.is_ascii_digit()), "{}", rival.version);
            let mut held = Held::new(7);
            for touch in [false, true] {
                assert_eq!(rival.single(16, touch, 100), 0);
                assert_eq!(rival.bulk(&mut held, 4_096, touch, 100), 0);
            }
            assert!(held.0.iter().all(|block| !block.is_null()));
            assert_eq!(rival.single(1 << 62, false, 3), 3, "{}", rival.name);
            assert_eq!(rival.bulk(&mut held, 1 << 62, true, 10), 10, "{}", rival.name);
        }
    }

    #[test]
    fn blocks_cross_threads_whole_and_in_order() {
        for (rival, touch) in all().iter().flat_map(|rival| [(rival, false), (rival, true)]) {
            let (mut sending, mut receiving) = rival.ring(64, 256, touch);
            for next in (0..10_000).step_by(BURST) {
                let there = &mut sending;
                let sent = std::thread::scope(|scope| scope.spawn(|| there.burst(next)).join().unwrap());
                let whole = Passed { items: BURST as u64, wrong: 0 };
                assert_eq!((sent, receiving.burst(next)), (whole, whole), "{}", rival.name);
            }
            assert_eq!(receiving.burst(0).items, 0);
        }
    }

    #[test]
    fn a_block_that_was_not_sent_or_could_not_be_made_is_seen() {
        for rival in all() {
            let (mut sending, mut receiving) = rival.ring(64, 256, true);
            assert_eq!(sending.burst(0).items, BURST as u64);
            assert_eq!(receiving.burst(1), Passed { items: BURST as u64, wrong: BURST as u64 });
            let (mut sending, mut receiving) = rival.ring(64, 1 << 62, true);
            assert_eq!(sending.burst(0), Passed { items: 0, wrong: BURST as u64 });
            assert_eq!(receiving.burst(0), Passed::default());
        }
    }
}
