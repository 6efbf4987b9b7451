//! Passes frames from one worker to another, over any queue of the program.

use super::burst::words;
use super::types::{netmem_frame, netmem_worker};
use super::worker::out;
use crate::misuse::{FRAME, Kind, refused};
use crate::sites::Site;
use crate::table::{Bad, Tag};
use crate::workers::{Inside, go_in};
use std::ffi::{c_char, c_int};

/// Detaches `n` frames from the worker, so that another worker can attach them. Replaces each handle in
/// `frames` by the handle to pass to netmem_attach there; the old handles become invalid.
/// Returns the number detached. Stops at the first invalid handle: that handle and those after it are
/// unchanged. If the first handle is invalid, returns its negative errno.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_detach_at(
    worker: netmem_worker,
    frames: *mut netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; a netmem_frame is one word.
    let (site, frames) = unsafe { (Site::new(site), words(frames.cast::<u64>(), n)) };
    let pass = |tag: &mut Tag, word| tag.detach(word).ok_or_else(|| tag.why(word));
    pass_on((worker, "netmem_detach", FRAME, site), frames, pass, |inside, n| inside.held -= n)
}

/// Attaches `n` detached frames to the worker. Replaces each handle in `frames` by the handle to use from now
/// on. If several workers try to attach the same frame, one of them gets it. The worker may be of another memory: the
/// frame stays part of its own memory and pool, and goes back there when it is freed. A port whose device reaches only the
/// memory of its worker (xdp, memif with lend=yes) does not take such a frame (netmem_port_take_unsendable).
/// Returns as netmem_detach does.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_attach_at(
    worker: netmem_worker,
    frames: *mut netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; a netmem_frame is one word.
    let (site, frames) = unsafe { (Site::new(site), words(frames.cast::<u64>(), n)) };
    let pass = |tag: &mut Tag, word| tag.attach(word).ok_or_else(|| tag.why(word));
    pass_on((worker, "netmem_attach", FRAME, site), frames, pass, |inside, n| inside.held += n)
}

/// Detaches or attaches: replaces each handle by the one that `pass` returns. `what` is the kind of thing
/// that the handles name.
pub fn pass_on(
    (worker, call, what, site): (netmem_worker, &str, &str, Site),
    words: Result<&mut [u64], c_int>,
    pass: impl Fn(&mut Tag, u64) -> Result<u64, Bad>,
    count: fn(&mut Inside, u64),
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, site) };
    let words = match words {
        Ok(words) => words,
        Err(errno) => return errno,
    };
    let mut passed = 0;
    for word in words {
        match pass(&mut inside.tag, *word) {
            Ok(now) => *word = now,
            Err(bad) => {
                let errno = refused(Kind::of(bad, false), call, what, *word, site);
                if passed == 0 {
                    return errno;
                }
                break;
            }
        }
        passed += 1;
    }
    count(&mut inside, passed);
    passed as c_int
}
