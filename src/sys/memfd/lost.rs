//! SIGBUS on memory that is shared with a peer: the mapping is lost, and the process continues.
//!
//! ```text
//!   access ─► SIGBUS ─► a guarded mapping? ─ yes ─► anonymous memory in its place, marked lost ─► the access again: zeros
//!                                          └ no ──► to the handler that was there before
//! ```
//! The kernel sends the signal for an access to a page behind the end of the file (its owner made the file shorter), to
//! a page that was punched out of huge pages, or to a page that there is no memory left for (mmap(2), "SIGBUS";
//! Documentation/mm/overcommit-accounting.rst).
//!
//! The handler loads and stores atomics and calls mmap(2), sigaction(2) and raise(3), nothing else, so it may run
//! wherever the signal comes. It replaces all of a mapping at once. From then on the peer sees nothing of it, and no
//! access faults again. The user of the mapping asks [`Guard::is_lost`] when it is convenient. The bytes that it read
//! before that are bytes that a peer might have written as well.
//!
//! The handler is installed with the first guard and stays. Signals that are not about a guarded mapping, such as
//! hardware errors, go to the handler that was there before, or end the process as they always did. If that handler
//! replaces this one on a signal that was merely sent (kill(2)), this one is installed again. A handler that is
//! installed later disables the guards, unless it passes unknown signals on to the former handler.

use crate::sys::errno::last_errno;
use crate::sys::fork::Birthplace;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Maximum number of mappings guarded at once: 128 memif servers whose clients bring as many regions as they may. So one
/// client that may connect to several servers cannot keep the clients of others out.
const PLACES_MAX: usize = 8192;

/// The guarded mappings. Written under [`ENTERING`], read by the handler.
static PLACES: [Place; PLACES_MAX] = [const { Place::free() }; PLACES_MAX];
/// Held by a thread that writes an entry; never by the handler.
static ENTERING: Mutex<()> = Mutex::new(());
/// The handler of the signal before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// One mapping, or none if `base` is 0 or if a process made it of which this one is a child: a child has the table, but
/// not the mappings ([`SharedMemory`](super::SharedMemory)), and other memory of its own may lie there.
#[derive(Debug)]
struct Place {
    /// Odd while the four fields below are being written, and another even number afterwards.
    version: AtomicU32,
    base: AtomicUsize,
    len: AtomicUsize,
    /// Bytes of a page of its file.
    page: AtomicUsize,
    /// The number of the process that made the mapping.
    process: AtomicU32,
    lost: AtomicBool,
}

/// The address and length of a mapping, and the bytes of a page of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    base: usize,
    len: usize,
    page: usize,
}

impl Range {
    fn holds(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.len
    }
}

impl Place {
    const fn free() -> Place {
        let [base, len, page] = [const { AtomicUsize::new(0) }; 3];
        let [version, process] = [const { AtomicU32::new(0) }; 2];
        Place { version, base, len, page, process, lost: AtomicBool::new(false) }
    }

    /// Whether a mapping may be entered.
    fn is_free(&self) -> bool {
        self.base.load(Relaxed) == 0 || self.is_of_another_process()
    }

    fn is_of_another_process(&self) -> bool {
        Birthplace::of_number(self.process.load(Relaxed)).is_elsewhere()
    }

    /// Called with [`ENTERING`] held.
    fn write(&self, range: Range) {
        // It is odd already if this process is a child that was forked while its parent wrote the entry.
        let odd = self.version.load(Relaxed) | 1;
        self.version.store(odd, Relaxed);
        // Release: pairs with the acquire fence in `read`: a thread that sees a value below sees that version, or a
        // later one.
        fence(Release);
        self.base.store(range.base, Relaxed);
        self.len.store(range.len, Relaxed);
        self.page.store(range.page, Relaxed);
        self.process.store(Birthplace::here().number(), Relaxed);
        // Release: pairs with the acquire in `read`: a thread that sees this version sees the values above.
        self.version.store(odd.wrapping_add(1), Release);
    }

    /// The entered mapping. None if there is none, or if the entry is being changed; no thread uses that mapping.
    fn read(&self) -> Option<Range> {
        // Acquire: pairs with the last store of `write`.
        let version = self.version.load(Acquire);
        let [base, len, page] = [&self.base, &self.len, &self.page].map(|word| word.load(Relaxed));
        let is_here = !self.is_of_another_process();
        // Acquire: pairs with the release fence in `write`.
        fence(Acquire);
        let whole = version.is_multiple_of(2) && self.version.load(Relaxed) == version;
        (whole && is_here && base != 0).then_some(Range { base, len, page })
    }
}

/// A mapping is guarded as long as this exists. It must be dropped before the mapping is.
#[derive(Debug)]
pub(super) struct Guard {
    place: &'static Place,
    birthplace: Birthplace,
}

impl Guard {
    /// Guards `len` bytes from `base` on, of a file with pages of `page` bytes.
    ///
    /// # Errors
    /// `NOBUFS` if the maximum number is guarded already; otherwise the error of sigaction(2).
    ///
    /// # Safety
    /// The bytes are one mapping of the caller's. No reference points into it, and it may become anonymous memory of
    /// zeros at any time until the guard is dropped.
    #[cold]
    pub(super) unsafe fn new(base: NonNull<u8>, len: usize, page: usize) -> Result<Guard, Errno> {
        static INSTALLED: OnceLock<Result<(), Errno>> = OnceLock::new();
        (*INSTALLED.get_or_init(install))?;
        let _alone = ENTERING.lock().unwrap_or_else(PoisonError::into_inner);
        let place = PLACES.iter().find(|place| place.is_free()).ok_or(Errno::NOBUFS)?;
        place.lost.store(false, Relaxed);
        place.write(Range { base: base.addr().get(), len, page });
        Ok(Guard { place, birthplace: Birthplace::here() })
    }

    /// Whether the mapping is memory of this process alone by now, at least in part.
    pub(super) fn is_lost(&self) -> bool {
        // Relaxed: it is set by the thread that accessed the mapping. That thread asks, or the order comes from what
        // the threads share.
        self.place.lost.load(Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // In a child the entry may have another mapping by now.
        if self.birthplace.is_elsewhere() {
            return;
        }
        let _alone = ENTERING.lock().unwrap_or_else(PoisonError::into_inner);
        self.place.write(Range { base: 0, len: 0, page: 0 });
    }
}

/// Keeps the handler that is there, and makes [`on_sigbus`] the handler.
fn install() -> Result<(), Errno> {
    // SAFETY: all zeros is a sigaction: the default action, no flags, an empty mask.
    let mut before = unsafe { std::mem::zeroed::<libc::sigaction>() };
    // SAFETY: only asks, into memory of ours.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) } != 0 {
        return Err(last_errno());
    }
    // Stored before the first signal can come to this handler.
    BEFORE.get_or_init(|| before);
    if set_handler() { Ok(()) } else { Err(last_errno()) }
}

/// Makes [`on_sigbus`] the handler; also within a handler. Returns whether it is.
fn set_handler() -> bool {
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_sigbus;
    // SAFETY: as in `install`.
    let mut ours = unsafe { std::mem::zeroed::<libc::sigaction>() };
    ours.sa_sigaction = handler as usize;
    // On the stack for signals if the thread has one; system calls are restarted.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler does only what is safe in a handler, and hands on signals that are not its own.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, ptr::null_mut()) == 0 }
}

extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel describes the signal in a siginfo that lives until we return. If nothing was accessed, the
    // address is some number, which is not used.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    if code != libc::BUS_ADRERR || !replace(address) {
        hand_on(signal, code, info, context);
    }
}

/// Replaces the guarded mapping that contains `address` by memory of this process. Returns false if there is none.
pub(super) fn replace(address: usize) -> bool {
    let found = PLACES.iter().find_map(|place| {
        let range = place.read().filter(|range| range.holds(address))?;
        Some((place, range))
    });
    let Some((place, Range { base, len, page })) = found else { return false };
    place.lost.store(true, Relaxed);
    // All of it. If that is more than may be promised, only the accessed page.
    let first = (address & !(page - 1)).max(base);
    put_anonymous(base, len) || put_anonymous(first, page.min(base + len - first))
}

/// Puts zeros in place of `len` bytes of a guarded mapping.
fn put_anonymous(base: usize, len: usize) -> bool {
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the range is part of a mapping whose owner allowed that (`Guard::new`), and which is still there: the thread that
    // was interrupted is about to touch it. No reference points into it. The call leaves errno alone.
    unsafe { mmap_anonymous(ptr::without_provenance_mut(base), len, access, flags) }.is_ok()
}

/// Does what the handler before would have done with the signal.
fn hand_on(signal: c_int, code: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let before = BEFORE.get().map_or((libc::SIG_DFL, 0), |before| (before.sa_sigaction, before.sa_flags));
    match before {
        // A signal that a process sent, or one about a page that nobody has accessed. An access that cannot be made is
        // not ignored.
        (libc::SIG_IGN, _) if !is_access(code) => {}
        (libc::SIG_DFL | libc::SIG_IGN, _) => end(signal),
        (handler, flags) if flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: a handler that was installed with this flag takes these.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
            stay(code);
        }
        (handler, _) => {
            // SAFETY: a handler that was installed without it takes the number.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
            stay(code);
        }
    }
}

/// Whether the signal is about an access, which is made again when the handler returns.
fn is_access(code: c_int) -> bool {
    code > 0 && code != libc::BUS_MCEERR_AO
}

/// Installs the handler again, after the one before has returned from a signal that is about no access. Rust's own sets
/// the default action, for the access to end the process when it is made again.
fn stay(code: c_int) {
    if !is_access(code) {
        set_handler();
    }
}

/// Lets the signal end the process, once the handler returns.
fn end(signal: c_int) {
    // SAFETY: all zeros is the default action; both calls are safe in a handler. The signal is blocked until it returns.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &raw const default, ptr::null_mut());
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests;
