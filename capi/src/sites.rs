//! COLD: where in the program each use began and ended, while tracing is on.
//!
//! Two addresses for each chunk, object and page, and its pool or cache: addresses of text that the program was compiled with ("FILE:LINE"). They are kept after a use has ended, which is
//! when somebody asks.
//!
//! Unsafe code: the text is read through addresses that C gave, and segments that were leaked are borrowed.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};

const SEGMENT: usize = 1 << 15;
const SEGMENTS: usize = (1 << 32) / SEGMENT;

static ON: AtomicBool = AtomicBool::new(false);
/// By the lower halves of words: of frames the number of the chunk, of others with the bits that say what they are.
static DIRECTORY: [AtomicPtr<[Sites; SEGMENT]>; SEGMENTS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];

/// A place in the program's text: null, or the address of a string that stays.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Site(*mut c_char);

impl Site {
    /// What a call was given.
    ///
    /// # Safety
    /// Null, or a string that is there for as long as the process is, as a literal is.
    #[inline(always)]
    pub unsafe fn new(text: *const c_char) -> Site {
        Site(text.cast_mut())
    }

    /// Where it was not said.
    pub const UNKNOWN: Site = Site(ptr::null_mut());

    /// The address of its text, or null.
    pub fn address(self) -> *const c_char {
        self.0
    }

    /// Its text; None where it is not known.
    pub fn text(self) -> Option<&'static str> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: the promise of whoever made it.
        unsafe { CStr::from_ptr(self.0) }.to_str().ok()
    }
}

/// Where a frame, object or page was given out last, and where its last use ended.
#[derive(Debug, Default)]
pub struct Sites {
    given: AtomicPtr<c_char>,
    ended: AtomicPtr<c_char>,
    /// The word of the pool or cache that it was given out of.
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

/// Begins to note sites, or no longer.
pub fn trace(on: bool) {
    ON.store(on, Relaxed);
}

/// Whether sites are noted.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Relaxed)
}

/// What is known of a chunk; None where nothing is.
pub fn of(number: u32) -> Option<&'static Sites> {
    // Acquire: pairs with the Release in `segment`.
    let segment = DIRECTORY.get(number as usize / SEGMENT)?.load(Acquire);
    // SAFETY: null, or a box that was leaked.
    Some(&unsafe { segment.as_ref() }?[number as usize % SEGMENT])
}

/// Notes where these words were given out, and of which pool.
#[cold]
pub fn note_given(words: impl Iterator<Item = u64>, pool: u64, site: Site) {
    words.filter_map(|word| made(word as u32)).for_each(|sites| {
        sites.given.store(site.0, Relaxed);
        sites.pool.store(pool, Relaxed);
    });
}

/// Notes where the uses of these words ended.
#[cold]
pub fn note_ended(words: impl Iterator<Item = u64>, site: Site) {
    words.filter_map(|word| made(word as u32)).for_each(|sites| sites.ended.store(site.0, Relaxed));
}

/// As [`of`], with its segment made if need be.
fn made(number: u32) -> Option<&'static Sites> {
    let entry = DIRECTORY.get(number as usize / SEGMENT)?;
    if entry.load(Relaxed).is_null() {
        let new: Box<[Sites]> = std::iter::repeat_with(Sites::default).take(SEGMENT).collect();
        let new = Box::into_raw(<Box<[Sites; SEGMENT]>>::try_from(new).ok()?);
        // Release: pairs with the Acquire in `of`.
        if entry.compare_exchange(ptr::null_mut(), new, Release, Relaxed).is_err() {
            // SAFETY: it came out of a box above, and nobody has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
    of(number)
}
