//! COLD: cuts a packet that stands for several into its segments.

use super::burst::words;
use super::pool::{find, short_of};
use super::types::{netmem_frame, netmem_pool, netmem_worker};
use super::worker::out;
use crate::errno::ENOBUFS;
use crate::failure::{Failure, last_errno, several};
use crate::misuse::{FRAME, Kind, refused};
use crate::sites::{self, Site};
use crate::workers::{State, go_in};
use netmem::wire::segment::Segments;
use netmem::{Frame, Pool, Worker};
use std::ffi::{c_char, c_int};

const CALL: &str = "netmem_cut_segments";

/// Cuts the packet in a frame into its segments, as a card would: writes each segment to a new frame of `pool`, with its
/// own headers and a complete checksum, and the handles of these frames to `frames`. The frame stays as it is, and stays
/// with the caller. A packet has at most NETMEM_SEGMENTS_MAX segments.
/// Returns the number of segments. Returns -EINVAL if the packet is not to be cut (netmem_get_offload), if its headers are
/// not of the kind of its offload, or if it has more segments; -ENOBUFS if it has more than `n`, if a segment has no room
/// in a frame of `pool`, or if the pool has too few frames; -ENOMEM if the memory has no more pages for the pool. No frame
/// is allocated then.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_cut_segments_at(
    worker: netmem_worker,
    pool: netmem_pool,
    frame: netmem_frame,
    frames: *mut netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let (site, places) = unsafe { (Site::new(site), words(frames, n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { pools, worker, tag, held, memory_word, .. } = &mut *inside;
    let (from, places) = match (find(pools, *memory_word, pool.word, CALL, site), places) {
        (Ok(from), Ok(places)) => (from, places),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let cut = tag.look(frame.word, |frame| cut(CALL, frame, from, worker, places.len()));
    let segments = match cut {
        Some(Ok(segments)) => segments,
        Some(Err(errno)) => return errno,
        None => return refused(Kind::of(tag.why(frame.word), false), CALL, FRAME, frame.word, site),
    };
    let made = segments.len();
    for (place, segment) in places.iter_mut().zip(segments) {
        place.word = tag.give(segment);
    }
    *held += made as u64;
    if sites::is_on() {
        sites::note_given(places[..made].iter().map(|frame| frame.word), pool.word, site);
    }
    made as c_int
}

/// Returns the segments of a frame, at most `room`.
///
/// # Errors
/// The errno for the call of this name. The frames that were allocated are free again.
pub fn cut(
    call: &str,
    frame: &Frame,
    pool: &Pool,
    worker: &mut Worker,
    room: usize,
) -> Result<Vec<Frame>, c_int> {
    let segments = plan(call, frame, room).map_err(Failure::record)?;
    let mut made: Vec<Frame> = Vec::with_capacity(segments.count());
    let why = loop {
        let at = made.len();
        if at == segments.count() {
            return Ok(made);
        }
        let Some(mut segment) = pool.alloc(worker) else {
            short_of(pool, call);
            break -last_errno();
        };
        let done = write(call, &segments, (frame, at), &mut segment);
        made.push(segment);
        if let Err(failure) = done {
            break failure.record();
        }
    };
    made.into_iter().for_each(|segment| segment.free(worker));
    Err(why)
}

/// Returns how a frame is cut into at most `room` segments.
///
/// # Errors
/// It cannot be cut.
fn plan(call: &str, frame: &Frame, room: usize) -> Result<Segments, Failure> {
    let offload = frame.offload().unwrap_or_default();
    if offload.gso.is_none() {
        return Err(Failure::invalid(format!(
            "{call}: the packet is one segment: netmem_finish_checksum, for a raw frame netmem_raw_finish_checksum, completes its checksum"
        )));
    }
    let segments = Segments::of(frame.data(), &offload);
    let segments = segments.map_err(|error| Failure::invalid(format!("{call}: {error}")))?;
    if segments.count() > room {
        let count = several(segments.count(), "segment", "segments");
        let text = format!("{call}: the packet has {count}, and the array has room for {room}");
        return Err(Failure::new(ENOBUFS, text));
    }
    Ok(segments)
}

/// Writes one segment of a frame to another frame.
fn write(
    call: &str,
    segments: &Segments,
    (frame, at): (&Frame, usize),
    to: &mut Frame,
) -> Result<(), Failure> {
    let bytes = segments.bytes(at);
    let room = to.put(bytes).map_err(|error| Failure::no_room(call, error))?;
    if !segments.write(frame.data(), at, room) {
        return Err(Failure::invalid(format!("{call}: the packet ends within a segment")));
    }
    // A frame without headroom has no room for the time of the packet.
    let _ = to.set_timestamp(frame.timestamp());
    Ok(())
}
