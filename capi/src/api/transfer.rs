//! Frames on their way from one worker to another, by whatever way the program has.

use super::burst::words;
use super::types::{netmem_frame, netmem_worker};
use super::worker::out;
use crate::misuse::{FRAME, Kind, refused};
use crate::sites::Site;
use crate::table::{Bad, Tag};
use crate::workers::{Inside, go_in};
use std::ffi::{c_char, c_int};

/// Makes frames nobody's, to be given to another thread, and replaces each word by the one under which that thread attaches the frame.
/// Returns how many. Where a word is not good, it and those behind it are as they were; where that is the first one the result is the negative errno.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_detach_at(
    worker: netmem_worker,
    frames: *mut netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; the word is all that a frame is.
    let (site, frames) = unsafe { (Site::new(site), words(frames.cast::<u64>(), n)) };
    let pass = |tag: &mut Tag, word| tag.detach(word).ok_or_else(|| tag.why(word));
    pass_on((worker, "netmem_detach", FRAME, site), frames, pass, |inside, n| inside.held -= n)
}

/// Makes detached frames this worker's, and replaces each word by the one that is good from now on. Returns as netmem_detach does. Of several that
/// try, one gets the frame.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_attach_at(
    worker: netmem_worker,
    frames: *mut netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; the word is all that a frame is.
    let (site, frames) = unsafe { (Site::new(site), words(frames.cast::<u64>(), n)) };
    let pass = |tag: &mut Tag, word| tag.attach(word).ok_or_else(|| tag.why(word));
    pass_on((worker, "netmem_attach", FRAME, site), frames, pass, |inside, n| inside.held += n)
}

/// Passes words on, each of which is replaced by the one that is good from then on. `what` they name.
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
