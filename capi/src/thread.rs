//! The calling thread: its identity, in one instruction, and its end.
//!
//! Unsafe code: assembly reads the register that holds the address of the thread's own control block. Nothing is read
//! or written through that address afterwards. The calls for data of a thread (pthread_key_create(3)) write to one place
//! each, and are given a function of this file, which stays loaded (`build.rs`).

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

/// Returns a number of the calling thread. It is even, not 0, and differs from the number of every other living
/// thread.
#[inline(always)]
pub fn here() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let own: usize;
        // SAFETY: by the x86-64 ABI for TLS, fs points to the control block of the thread, whose first word
        // is its own address. The instruction loads memory of the thread itself.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) own, options(nostack, preserves_flags, pure, readonly))
        };
        own
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        thread_local!(static OWN: u64 = const { 0 });
        OWN.with(|own| std::ptr::from_ref(own).addr())
    }
}

unsafe extern "C" {
    fn pthread_key_create(key: *mut c_uint, destructor: extern "C" fn(*mut c_void)) -> c_int;
    fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
}

/// The data of a thread counts the rounds of destructors at its end. POSIX promises four rounds at least. The work is done
/// in the third, after the destructors of the program, which may still use what the work gives away.
const ROUND: usize = 3;

/// The key of that data. None if the system has no key.
static KEY: OnceLock<Option<c_uint>> = OnceLock::new();
/// The work.
static WORK: OnceLock<fn()> = OnceLock::new();

/// Makes `work`, which is always the same function, run when the calling thread ends, but not when the process ends by
/// exit(3). Returns whether it will.
#[cold]
pub fn at_end(work: fn()) -> bool {
    WORK.get_or_init(|| work);
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: one place, which the call writes.
        (unsafe { pthread_key_create(&mut key, ending) } == 0).then_some(key)
    });
    key.is_some_and(|key| set(key, 1))
}

fn set(key: c_uint, round: usize) -> bool {
    // SAFETY: the key exists. The value is a number, which nothing follows.
    unsafe { pthread_setspecific(key, ptr::without_provenance(round)) == 0 }
}

extern "C" fn ending(round: *mut c_void) {
    let (Some(Some(key)), Some(work)) = (KEY.get(), WORK.get()) else { return };
    if round.addr() >= ROUND || !set(*key, round.addr() + 1) {
        work();
    }
}
