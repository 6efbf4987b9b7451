//! COLD: finds the frames that a port can never carry.
//!
//! # Unsafe code
//! As in `port.rs` and `raw.rs`.

use super::burst::words;
use super::port::{find_port, put_back, take};
use super::raw::claims;
use super::types::{netmem_frame, netmem_port, netmem_raw, netmem_worker};
use super::worker::out;
use crate::misuse::{FRAME, Kind, RAW, refused};
use crate::sites::Site;
use crate::table::{End, Tag};
use crate::workers::{State, go_in};
use netmem::limits::BATCH_MAX;
use netmem::{Batch, Port};
use std::convert::Infallible;
use std::ffi::{c_char, c_int};

/// Finds the frames that the port can never carry: those of another memory than the device can reach, those that lie in
/// more pieces than it takes, and those with work left that it cannot do; for an xdp port also those shorter than an
/// Ethernet header or longer than the MTU allows. A packet or tap port does not find a frame whose length the kernel
/// refuses: netmem_port_tx takes it, and it is counted as tx_invalid. Call it for the frames that netmem_port_tx did not
/// take, or before netmem_port_tx. The call moves them to the end of `frames`; all frames stay with the caller, and both
/// kinds stay in order.
/// Returns the number found: `frames + n - found` is the first. Free these frames, and send the others again later.
/// If a handle is invalid, returns its negative errno and finds nothing.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_take_unsendable_at(
    worker: netmem_worker,
    port: netmem_port,
    frames: *mut netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_port_take_unsendable";
    // SAFETY: the promise of C.
    let (site, frames) = unsafe { (Site::new(site), words(frames, n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { ports, tag, .. } = &mut *inside;
    let (open, frames) = match (find_port(ports, port, CALL, site), frames) {
        (Ok(open), Ok(frames)) => (open, frames),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let bad = frames.iter().find(|frame| tag.look(frame.word, |_| ()).is_none());
    if let Some(&netmem_frame { word }) = bad {
        return refused(Kind::of(tag.why(word), false), CALL, FRAME, word, site);
    }
    let found = part_all(frames, |burst| part(tag, &*open.port, burst));
    found.map_or_else(|(word, kind)| refused(kind, CALL, FRAME, word, site), |found| found as c_int)
}

/// Moves the frames of a burst that the port can never carry to its end. Returns their number.
///
/// # Errors
/// A handle that the burst contains twice, with the reason. Nothing has changed then.
fn part(tag: &mut Tag, port: &dyn Port, burst: &mut [netmem_frame]) -> Result<usize, (u64, Kind)> {
    let mut batch = Batch::new();
    take(tag, burst, &mut batch, End::Sent)?;
    let mut bad = port.take_unsendable(&mut batch);
    let found = bad.len();
    for frame in batch.drain() {
        let number = frame.id().get();
        let Some(&netmem_frame { word }) = burst.iter().find(|word| word.word as u32 == number) else {
            continue;
        };
        tag.restore(word, frame);
    }
    put_back(tag, burst, &mut bad);
    Ok(found)
}

/// Does for raw frames what netmem_port_take_unsendable does for frames.
/// Returns the number found, or -EBADF if one of the words is 0.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_take_unsendable_raw(
    worker: netmem_worker,
    port: netmem_port,
    frames: *mut netmem_raw,
    n: u32,
) -> c_int {
    const CALL: &str = "netmem_port_take_unsendable_raw";
    // SAFETY: the promise of C.
    let frames = unsafe { words(frames, n) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    let (open, frames) = match (find_port(&mut inside.ports, port, CALL, Site::UNKNOWN), frames) {
        (Ok(open), Ok(frames)) => (open, frames),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    if frames.iter().any(|frame| frame.word == 0) {
        return refused(Kind::MadeUp, CALL, RAW, 0, Site::UNKNOWN);
    }
    let found = part_all(frames, |burst| {
        // SAFETY: the caller's promise. Each frame is a word of the array again below.
        let mut batch = unsafe { claims(burst) };
        let mut bad = open.port.take_unsendable(&mut batch);
        let found = bad.len();
        let all = batch.drain().chain(bad.drain());
        burst.iter_mut().zip(all).for_each(|(to, frame)| to.word = frame.into_raw().get());
        Ok::<usize, Infallible>(found)
    });
    found.map_or(0, |found| found as c_int)
}

/// Calls `part` with each burst, which moves some frames to the end of the burst and returns their number. Moves these
/// to the end of `frames`. Returns their number.
pub fn part_all<T, E>(
    frames: &mut [T],
    mut part: impl FnMut(&mut [T]) -> Result<usize, E>,
) -> Result<usize, E> {
    let (mut others, mut found) = (0, 0);
    for start in (0..frames.len()).step_by(BATCH_MAX) {
        let end = frames.len().min(start + BATCH_MAX);
        let more = part(&mut frames[start..end])?;
        // Those found before lie in front of this burst.
        frames[others..end - more].rotate_left(found);
        found += more;
        others = end - found;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_in_each_of_several_bursts_is_at_the_end_and_all_stay_in_order() {
        let mut frames: Vec<usize> = (0..3 * BATCH_MAX + 5).collect();
        let is_bad = |n: &usize| n.is_multiple_of(7);
        let found = part_all(&mut frames, |burst| {
            burst.sort_by_key(is_bad);
            Ok::<usize, ()>(burst.iter().filter(|n| is_bad(n)).count())
        });
        let (good, bad) = frames.split_at(frames.len() - found.unwrap());
        assert!(good.iter().all(|n| !is_bad(n)) && bad.iter().all(is_bad), "{frames:?}");
        assert!(good.is_sorted() && bad.is_sorted() && bad.len() == 29, "{frames:?}");
    }
}
