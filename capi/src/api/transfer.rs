//! Frames on their way from one worker to another, by whatever way the program has.

use super::burst::words;
use super::types::{netmem_frame, netmem_worker};
use super::worker::out;
use crate::misuse::{FRAME, Kind, refused};
use crate::sites::Site;
use crate::table::Tag;
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
    // SAFETY: the promise of C.
    let (site, frames) = unsafe { (Site::new(site), words(frames, n)) };
    pass_on(worker, "netmem_detach", frames, site, Tag::detach, |inside, n| inside.held -= n)
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
    // SAFETY: the promise of C.
    let (site, frames) = unsafe { (Site::new(site), words(frames, n)) };
    pass_on(worker, "netmem_attach", frames, site, Tag::attach, |inside, n| inside.held += n)
}

fn pass_on(
    worker: netmem_worker,
    call: &str,
    frames: Result<&mut [netmem_frame], c_int>,
    site: Site,
    pass: fn(&mut Tag, u64) -> Option<u64>,
    count: fn(&mut Inside, u64),
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, site) };
    let frames = match frames {
        Ok(frames) => frames,
        Err(errno) => return errno,
    };
    let mut passed = 0;
    for frame in frames {
        let Some(word) = pass(&mut inside.tag, frame.word) else {
            let kind = Kind::of(inside.tag.why(frame.word), false);
            let errno = refused(kind, call, FRAME, frame.word, site);
            if passed == 0 {
                return errno;
            }
            break;
        };
        frame.word = word;
        passed += 1;
    }
    count(&mut inside, passed);
    passed as c_int
}
