//! HOT: appends bytes to the data of bursts of frames and of packets.

use super::burst::{fill, words};
use super::types::{netmem_frame, netmem_packet, netmem_worker};
use super::worker::out;
use crate::failure::{first_of, no_room};
use crate::misuse::{FRAME, Kind, PACKET, refused};
use crate::packets;
use crate::sites::Site;
use crate::table::Tag;
use crate::workers::go_in;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// The arrays of a call. Each is an errno if it is NULL and `n` is not 0.
struct Arrays<'a> {
    words: Result<&'a mut [u64], c_int>,
    lens: Result<&'a mut [u32], c_int>,
    to: Result<&'a mut [*mut c_void], c_int>,
}

impl<'a> Arrays<'a> {
    /// # Safety
    /// As for [`words`], for each array. The first two are only read.
    #[inline(always)]
    unsafe fn new(words_of: *const u64, lens: *const u32, to: *mut *mut c_void, n: u32) -> Arrays<'a> {
        // SAFETY: the caller's promise.
        unsafe {
            Arrays { words: words(words_of.cast_mut(), n), lens: words(lens.cast_mut(), n), to: words(to, n) }
        }
    }

    /// Gets the bytes of as many frames or packets from the front as `fast` can, which returns their number; then calls `put` with
    /// the handle and the length of the next one, and so on. NULL is the address of one for which `put` fails. Returns 0, or
    /// the first errno.
    #[inline(always)]
    fn put_each<T>(
        self,
        of: &mut T,
        mut fast: impl FnMut(&mut T, &[u64], &[u32], &mut [*mut c_void]) -> usize,
        mut put: impl FnMut(&mut T, u64, usize) -> Result<*mut u8, c_int>,
    ) -> c_int {
        let (words, lens, to) = match (self.words, self.lens, self.to) {
            (Ok(words), Ok(lens), Ok(to)) => (words, lens, to),
            (Err(errno), _, to) | (_, Err(errno), to) => {
                fill(to, ptr::null_mut());
                return errno;
            }
            (.., Err(errno)) => return errno,
        };
        let (mut first, mut done) = (0, 0);
        loop {
            done += fast(of, &words[done..], &lens[done..], &mut to[done..]);
            let (Some(&word), Some(to)) = (words.get(done), to.get_mut(done)) else { return first };
            first = first_of(first, || match put(of, word, lens[done] as usize) {
                Ok(tail) => {
                    *to = tail.cast();
                    0
                }
                Err(errno) => {
                    *to = ptr::null_mut();
                    errno
                }
            });
            done += 1;
        }
    }
}

/// Appends `lens[i]` bytes to the data of frame `i`, for each of `n` frames, as netmem_put does for one. Writes the address
/// of the first appended byte of each to `to`: NULL for an invalid handle and for a frame whose tailroom is less, and for all
/// frames if the worker, `frames` or `lens` is refused. The bytes are not cleared: write all of them.
/// Returns 0, or the negative errno of the first frame that got no bytes.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_put_each_at(
    worker: netmem_worker,
    frames: *const netmem_frame,
    lens: *const u32,
    n: u32,
    to: *mut *mut c_void,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_put_each";
    // SAFETY: the promise of C; a netmem_frame is one word.
    let (site, arrays) = unsafe { (Site::new(site), Arrays::new(frames.cast(), lens, to, n)) };
    let Some(mut inside) = go_in(worker.word) else {
        fill(arrays.to, ptr::null_mut());
        return out(worker, CALL, site);
    };
    arrays.put_each(&mut inside.tag, put_first, |tag, word, len| {
        match tag.change(word, |frame| frame.put(len).map(<[u8]>::as_mut_ptr)) {
            Some(put) => put.map_err(|lack| no_room(CALL, lack)),
            None => Err(refused(Kind::of(tag.why(word), false), CALL, FRAME, word, site)),
        }
    })
}

/// Appends bytes to empty frames with room in their first chunk, from the front. Stops at another frame and at an invalid handle.
/// Returns the number of frames that got their bytes.
#[inline(never)]
fn put_first(tag: &mut Tag, words: &[u64], lens: &[u32], to: &mut [*mut c_void]) -> usize {
    let mut done = 0;
    for ((&word, &len), to) in words.iter().zip(lens).zip(to) {
        let put = tag.change(word, |frame| frame.put_first(len as usize).map(<[u8]>::as_mut_ptr));
        let Some(Some(tail)) = put else { break };
        *to = tail.cast();
        done += 1;
    }
    done
}

/// Appends `lens[i]` bytes to the data of packet `i`, for each of `n` packets, as netmem_packet_put does for one. Writes the
/// address of the first appended byte of each to `to`: NULL for an invalid handle and for a packet whose last part is shared or
/// has less tailroom, and for all packets if the worker, `packets` or `lens` is refused. The bytes are not cleared: write all of
/// them.
/// Returns 0, or the negative errno of the first packet that got no bytes.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_put_each_at(
    worker: netmem_worker,
    packets: *const netmem_packet,
    lens: *const u32,
    n: u32,
    to: *mut *mut c_void,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_packet_put_each";
    // SAFETY: the promise of C; a netmem_packet is one word.
    let (site, arrays) = unsafe { (Site::new(site), Arrays::new(packets.cast(), lens, to, n)) };
    let Some(mut inside) = go_in(worker.word) else {
        fill(arrays.to, ptr::null_mut());
        return out(worker, CALL, site);
    };
    arrays.put_each(&mut inside.tag, packets::put_first, |tag, word, len| {
        match packets::change(tag, word, |packet, _| packet.put(len).map(<[u8]>::as_mut_ptr)) {
            Ok(put) => put.map_err(|lack| no_room(CALL, lack)),
            Err(kind) => Err(refused(kind, CALL, PACKET, word, site)),
        }
    })
}
