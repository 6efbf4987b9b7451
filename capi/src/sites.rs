//! COLD: the call sites where each use began and ended, while tracing is on.
//!
//! The table has two addresses for each chunk, object and page, and its pool or cache. The addresses are those of copies
//! of the texts that the calls gave ("FILE:LINE"): the code that made a call may be unloaded (dlclose(3)) before a report
//! needs its text. Each different text is copied once, and copies are never freed.
//!
//! Unsafe code: reads the text at addresses that C gave, and borrows copies and segments that are leaked.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};

const SEGMENT: usize = 1 << 15;
const SEGMENTS: usize = (1 << 32) / SEGMENT;

static ON: AtomicBool = AtomicBool::new(false);
/// By the lower half of handles: for frames the number of the chunk, for other things also the bits of the
/// kind.
static DIRECTORY: [AtomicPtr<[Sites; SEGMENT]>; SEGMENTS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];

/// Maximum number of different texts that are copied. `netmem_trace` names it.
const COPIES: usize = 4096;
/// The text that is recorded for all others.
const OTHERS: &CStr = c"one of the call sites after the first 4096";
/// The copies, by the hashes of their texts. Two slots for each, so that a search soon finds an empty one.
static TEXTS: [AtomicPtr<c_char>; 2 * COPIES] = [const { AtomicPtr::new(ptr::null_mut()) }; 2 * COPIES];
static COPIED: AtomicUsize = AtomicUsize::new(0);

/// The call site that a call was given, as text: null, or the address of a string that is valid during the call.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Site(*mut c_char);

impl Site {
    /// Wraps the call site argument of a call.
    ///
    /// # Safety
    /// Null, or a string that stays as it is during the call for which the site is used.
    #[inline(always)]
    pub unsafe fn new(text: *const c_char) -> Site {
        Site(text.cast_mut())
    }

    /// No call site.
    pub const UNKNOWN: Site = Site(ptr::null_mut());

    /// Returns the text, or None if it is not known.
    pub fn text(&self) -> Option<&str> {
        self.bytes()?.to_str().ok()
    }

    fn bytes(&self) -> Option<&CStr> {
        // SAFETY: the promise of the caller of `new`.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }
}

/// A recorded call site: null, or the address of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Recorded(*mut c_char);

impl Recorded {
    const UNKNOWN: Recorded = Recorded(ptr::null_mut());

    /// Returns the address of the text, or null.
    pub fn address(self) -> *const c_char {
        self.0
    }

    /// Returns the text, or None if it is not known.
    pub fn text(self) -> Option<&'static str> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: `copy` made the text, and copies are never freed.
        unsafe { CStr::from_ptr(self.0) }.to_str().ok()
    }

    /// Returns the copy of a text. Makes it if there is none yet.
    fn copy(site: Site) -> Recorded {
        let Some(text) = site.bytes() else { return Recorded::UNKNOWN };
        let mut at = hash(text) % TEXTS.len();
        loop {
            // Acquire: pairs with the Release below.
            let copy = TEXTS[at].load(Acquire);
            if copy.is_null() {
                if COPIED.fetch_add(1, Relaxed) >= COPIES {
                    COPIED.fetch_sub(1, Relaxed);
                    return Recorded(OTHERS.as_ptr().cast_mut());
                }
                let new = CString::from(text).into_raw();
                // Release: pairs with the Acquire above.
                if TEXTS[at].compare_exchange(ptr::null_mut(), new, Release, Relaxed).is_ok() {
                    return Recorded(new);
                }
                COPIED.fetch_sub(1, Relaxed);
                // SAFETY: it came from a string above, and no other thread has seen it.
                drop(unsafe { CString::from_raw(new) });
                // Another thread has put a text there: perhaps this one.
                continue;
            }
            // SAFETY: not null, so it is a copy, which is never freed.
            if unsafe { CStr::from_ptr(copy) } == text {
                return Recorded(copy);
            }
            at = (at + 1) % TEXTS.len();
        }
    }
}

/// FNV-1a.
fn hash(text: &CStr) -> usize {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    text.to_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix) as usize
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
    pub fn given(&self) -> Recorded {
        Recorded(self.given.load(Relaxed))
    }

    pub fn pool(&self) -> u64 {
        self.pool.load(Relaxed)
    }

    pub fn ended(&self) -> Recorded {
        Recorded(self.ended.load(Relaxed))
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
    let site = Recorded::copy(site);
    words.filter_map(|word| made(word as u32)).for_each(|sites| {
        sites.given.store(site.0, Relaxed);
        sites.pool.store(pool, Relaxed);
    });
}

/// As [`note_given`], if tracing is on.
#[inline(always)]
pub fn note_all_given(words: &[u64], pool: u64, site: Site) {
    if is_on() {
        note_given(words.iter().copied(), pool, site);
    }
}

/// Records where the uses of these handles ended.
#[cold]
pub fn note_ended(words: impl Iterator<Item = u64>, site: Site) {
    let site = Recorded::copy(site);
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
