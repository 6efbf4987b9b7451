//! Whether this process is a child (fork(2)) of the one that began to use the library.
//!
//! One word lies in a page that the kernel clears in a child (`MADV_WIPEONFORK`, Linux 4.14), as the entries of workers do.
//!
//! Unsafe code: the advice. It changes no byte of this process; a child reads zeros, which are valid in every page that is given.

use std::ptr;
use std::sync::Once;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Bytes of a page of the system's. Where pages are larger the advice is refused, and a child is not known.
pub const PAGE: usize = 4096;

/// A page that holds nothing else.
#[repr(C, align(4096))]
struct Page {
    /// 1 in the process that began; 0 in its children.
    parent: AtomicU32,
    _rest: [u8; PAGE - size_of::<AtomicU32>()],
}

static HERE: Page = Page { parent: AtomicU32::new(0), _rest: [0; PAGE - size_of::<AtomicU32>()] };
/// Whether this process, or one that it is a child of, has begun.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// A type of which a static fills one page, and of which zeros in every byte are a valid value.
///
/// # Safety
/// As stated: its size and alignment are [`PAGE`], and all of it may turn to zeros in a child.
pub unsafe trait Wiped: Sync + 'static {}

// SAFETY: an atomic and bytes; the size is checked.
unsafe impl Wiped for Page {}
const _: () = assert!(size_of::<Page>() == PAGE);

/// Lets a child of this process see zeros in the page.
fn wipe_in_children<P: Wiped>(page: &'static P) {
    const WIPE_ON_FORK: i32 = 18;
    unsafe extern "C" {
        fn madvise(address: *mut u8, length: usize, advice: i32) -> i32;
    }
    // SAFETY: the page is all of one static, by the promise of its type. A kernel that does not know the advice leaves children as
    // they were.
    let _ = unsafe { madvise(ptr::from_ref(page).cast_mut().cast(), PAGE, WIPE_ON_FORK) };
}

/// This process begins to use the library, with this page of its; false in a child of one that did.
#[cold]
pub fn begin<P: Wiped>(page: &'static P) -> bool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        wipe_in_children(page);
        wipe_in_children(&HERE);
        HERE.parent.store(1, Relaxed);
        BEGUN.store(true, Relaxed);
    });
    !is_child()
}

/// Whether this is a child of a process that began.
pub fn is_child() -> bool {
    BEGUN.load(Relaxed) && HERE.parent.load(Relaxed) == 0
}
