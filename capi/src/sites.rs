//! COLD: the call sites where each use began and ended, while tracing is on.
//!
//! The table has two addresses for each chunk, object and page, and its pool or cache. The addresses are those of string
//! literals in the program ("FILE:LINE"). They are kept after a use has ended, because reports need them then.
//!
//! Unsafe code: reads the text at addresses that C gave, and borrows segments that are leaked.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};

const SEGMENT: usize = 1 << 15;
const SEGMENTS: usize = (1 << 32) / SEGMENT;

static ON: AtomicBool = AtomicBool::new(false);
/// By the lower half of handles: for frames the number of the chunk, for other things also the bits of the
/// kind.
static DIRECTORY: [AtomicPtr<[Sites; SEGMENT]>; SEGMENTS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];

/// A call site as text: null, or the address of a string that stays valid.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Site(*mut c_char);

impl Site {
    /// Wraps the call site argument of a call.
    ///
    /// # Safety
    /// Null, or a string that lives as long as the process, such as a literal.
    #[inline(always)]
    pub unsafe fn new(text: *const c_char) -> Site {
        Site(text.cast_mut())
    }

    /// No call site.
    pub const UNKNOWN: Site = Site(ptr::null_mut());

    /// Returns the address of the text, or null.
    pub fn address(self) -> *const c_char {
        self.0
    }

    /// Returns the text, or None if it is not known.
    pub fn text(self) -> Option<&'static str> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: the promise of the caller of `new`.
        unsafe { CStr::from_ptr(self.0) }.to_str().ok()
    }
}

/// The call sites at which a frame, object or page was last allocated and its last use ended.
#[derive(Debug, Default)]
pub struct Sites {
    given: AtomicPtr<c_char>,
    ended: AtomicPtr<c_char>,
    /// The handle of the pool or cache that it was allocated from.
    pool: AtomicU64,
}

impl Sites {
    pub fn given(&self) -> Site {
        Site(self.given.load(Relaxed))
    }

    pub fn pool(&self) -> u64 {
        self.pool.load(Relaxed)
    }

    pub fn ended(&self) -> Site {
        Site(self.ended.load(Relaxed))
    }
}

/// Starts or stops the recording of call sites.
pub fn trace(on: bool) {
    ON.store(on, Relaxed);
}

/// Whether call sites are recorded.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Relaxed)
}

/// Returns the call sites of this number, or None if none were recorded.
pub fn of(number: u32) -> Option<&'static Sites> {
    // Acquire: pairs with the Release in `made`.
    let segment = DIRECTORY.get(number as usize / SEGMENT)?.load(Acquire);
    // SAFETY: null, or a leaked box.
    Some(&unsafe { segment.as_ref() }?[number as usize % SEGMENT])
}

/// Records where the things of these handles were allocated, and the pool.
#[cold]
pub fn note_given(words: impl Iterator<Item = u64>, pool: u64, site: Site) {
    words.filter_map(|word| made(word as u32)).for_each(|sites| {
        sites.given.store(site.0, Relaxed);
        sites.pool.store(pool, Relaxed);
    });
}

/// Records where the uses of these handles ended.
#[cold]
pub fn note_ended(words: impl Iterator<Item = u64>, site: Site) {
    words.filter_map(|word| made(word as u32)).for_each(|sites| sites.ended.store(site.0, Relaxed));
}

/// As [`of`], but makes the segment if it does not exist yet.
fn made(number: u32) -> Option<&'static Sites> {
    let entry = DIRECTORY.get(number as usize / SEGMENT)?;
    if entry.load(Relaxed).is_null() {
        let new: Box<[Sites]> = std::iter::repeat_with(Sites::default).take(SEGMENT).collect();
        let new = Box::into_raw(<Box<[Sites; SEGMENT]>>::try_from(new).ok()?);
        // Release: pairs with the Acquire in `of`.
        if entry.compare_exchange(ptr::null_mut(), new, Release, Relaxed).is_err() {
            // SAFETY: it came from the box above, and no other thread has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
    of(number)
}
