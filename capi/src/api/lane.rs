//! HOT: lanes, which carry frames from one worker to another. `packet_lane.rs` has the calls for packets.

use super::burst::words;
use super::known::look_up;
use super::packet::traced_pool;
use super::port::take;
use super::types::{list, netmem_count, netmem_frame, netmem_lane, netmem_worker, place};
use super::worker::{cold, out};
use crate::answer::answer;
use crate::errno::{EBUSY, EINVAL, EIO, EMFILE, ENFILE, ENOMEM, EPIPE};
use crate::failure::Failure;
use crate::lanes::{End, LANES, LaneError, Sending};
use crate::misuse::{FRAME, Kind, LANE, refused};
use crate::opened::Known;
use crate::sites::{self, Site};
use crate::table;
use crate::word;
use crate::workers::{State, go_in};
use netmem::Batch;
use netmem::limits::BATCH_MAX;
use netmem::steer::MeshError;
use std::ffi::{c_char, c_int};
use std::iter;
use std::os::fd::{AsFd, AsRawFd};

/// Default capacity of a lane in frames.
const FRAMES: u32 = 1024;

/// Opens a lane whose sender is the calling worker. Another worker of the memory becomes the receiver with
/// netmem_lane_join.
/// `frames` is the capacity: 64 to 2^20 frames, and as many packets. 0: 1024.
/// Returns 0, -EINVAL if `frames` is out of range, -ENOMEM if there is no memory for the rings, -EMFILE if the
/// process has no descriptors for the events of the receiver (`ulimit -n`), -ENFILE if the system has none or the
/// process has 4096 lanes, or -EIO if an event cannot be made for another reason.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_lane_open(
    worker: netmem_worker,
    frames: u32,
    lane: *mut netmem_lane,
) -> c_int {
    cold(worker, "netmem_lane_open", |mut inside| {
        // SAFETY: the promise of C.
        let to = unsafe { place("lane", lane) }?;
        let frames = if frames == 0 { FRAMES } else { frames };
        let sending = Sending::open(frames).map_err(|error| failure(frames, error))?;
        to.word = LANES.add(sending.lane.clone(), inside.memory_word)?;
        put(&mut inside.lanes.sending, to.word, sending);
        Ok(0)
    })
}

/// The failure of a lane that could not be made.
#[cold]
fn failure(frames: u32, error: LaneError) -> Failure {
    match error {
        LaneError::NoMemory | LaneError::Mesh(MeshError::NoMemory { .. }) => {
            let text = format!("a lane: no memory for {frames} frames and packets: give fewer");
            Failure::new(ENOMEM, text)
        }
        LaneError::Mesh(MeshError::Range { .. }) => {
            let text = format!("a lane for {frames} frames: give 64 to 1048576, or 0 for {FRAMES}");
            Failure::new(EINVAL, text)
        }
        LaneError::Bell(error) | LaneError::Mesh(MeshError::Bell(error)) => {
            let (errno, remedy) = match error.raw_os_error() {
                Some(EMFILE) => (EMFILE, "; raise the limit of open files (`ulimit -n`)"),
                Some(ENFILE) => (ENFILE, "; raise `sysctl fs.file-max`"),
                Some(ENOMEM) => (ENOMEM, ""),
                _ => (EIO, ""),
            };
            Failure::new(errno, format!("a lane: making its event: {error}{remedy}"))
        }
        LaneError::Mesh(error) => Failure::new(EINVAL, format!("a lane: {error}")),
    }
}

/// Makes the calling worker the receiver of a lane. The sender may join its own lane.
/// Returns 0, or -EBUSY if the lane has a receiver already.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_lane_join(worker: netmem_worker, lane: netmem_lane) -> c_int {
    const CALL: &str = "netmem_lane_join";
    cold(worker, CALL, |mut inside| {
        let mut none = Known::new();
        let found = look_up(&LANES, &mut none, inside.memory_word, (lane.word, CALL, Site::UNKNOWN));
        let found = match found {
            Ok(found) => found,
            Err(errno) => return Ok(errno),
        };
        let receiving = found.join().ok_or_else(|| Failure::new(EBUSY, "the lane has a receiver already"))?;
        put(&mut inside.lanes.receiving, lane.word, receiving);
        Ok(0)
    })
}

fn put<T>(ends: &mut Known<T>, lane: u64, end: T) {
    let place = word::place(lane);
    let len = ends.len().max(place + 1);
    ends.resize_with(len, || None);
    ends[place] = Some((lane, end));
}

/// Returns the worker's end of this lane, or refuses the call.
///
/// # Errors
/// The errno for the call.
#[inline(always)]
pub fn end<'a, T>(
    ends: &'a mut Known<T>,
    which: End,
    (lane, call, site): (netmem_lane, &str, Site),
) -> Result<&'a mut T, c_int> {
    match ends.get_mut(word::place(lane.word)) {
        Some(Some((word, end))) if *word == lane.word => Ok(end),
        _ => Err(refused(why(which, lane), call, LANE, lane.word, site)),
    }
}

/// Says why the worker does not have this end of the lane.
#[cold]
fn why(which: End, lane: netmem_lane) -> Kind {
    match LANES.get(lane.word) {
        Ok((lane, _)) if !lane.is_gone(which) => Kind::WrongWorker,
        _ => Kind::Closed,
    }
}

/// The failure of a send to a lane whose receiver has closed its end.
#[cold]
pub fn no_receiver(call: &str) -> c_int {
    Failure::new(EPIPE, format!("{call}: the receiver has closed its end of the lane")).record()
}

/// The failure of a receive from an empty lane whose sender has closed its end.
#[cold]
pub fn no_sender(call: &str) -> c_int {
    Failure::new(EPIPE, format!("{call}: the sender has closed its end of the lane")).record()
}

/// Sends up to `n` frames through a lane, from the front of the array. Only the lane's sender may call it.
/// Returns the number sent, which is less than `n` if the lane becomes full. The handles of frames that were
/// sent become invalid; the receiver gets new ones. The other frames stay with the caller, unchanged.
/// The call works in groups of 64 frames and stops before a group that contains an invalid handle. If that is
/// the first group, returns the negative errno of the handle.
/// Returns -EPIPE if the receiver has closed its end.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_lane_send_at(
    worker: netmem_worker,
    lane: netmem_lane,
    frames: *const netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_lane_send";
    // SAFETY: the promise of C; the frames are only read.
    let (site, frames) = unsafe { (Site::new(site), words(frames.cast_mut(), n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { lanes, worker, tag, held, .. } = &mut *inside;
    let (sending, frames) = match (end(&mut lanes.sending, End::Sender, (lane, CALL, site)), frames) {
        (Ok(sending), Ok(frames)) => (sending, frames),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let Some(room) = sending.room() else {
        return no_receiver(CALL);
    };
    let fit = frames.len().min(room);
    let (mut sent, mut refusal) = (0, None);
    for burst in frames[..fit].chunks(BATCH_MAX) {
        let mut batch = Batch::new();
        if let Err((word, kind)) = take(tag, burst, &mut batch, table::End::Moved) {
            refusal = Some(refused(kind, CALL, FRAME, word, site));
            break;
        }
        sending.list(worker, &mut batch);
        sent += burst.len();
        if sites::is_on() {
            sites::note_ended(burst.iter().map(|frame| frame.word), site);
        }
    }
    sending.flush(worker);
    *held -= sent as u64;
    refusal.filter(|_| sent == 0).unwrap_or(sent as c_int)
}

/// Receives up to `n` frames from a lane, oldest first. Only the lane's receiver may call it.
/// Returns the number received, or -EPIPE if the sender has closed its end and neither frames nor packets wait
/// in the lane.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_lane_receive_at(
    worker: netmem_worker,
    lane: netmem_lane,
    frames: *mut netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_lane_receive";
    // SAFETY: the promise of C.
    let (site, frames) = unsafe { (Site::new(site), words(frames, n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { lanes, worker, tag, held, .. } = &mut *inside;
    let (receiving, frames) = match (end(&mut lanes.receiving, End::Receiver, (lane, CALL, site)), frames) {
        (Ok(receiving), Ok(frames)) => (receiving, frames),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let give = |frame| netmem_frame { word: tag.give(frame) };
    let Some(got) = receiving.receive_all(worker, frames, give) else { return no_sender(CALL) };
    *held += got as u64;
    if sites::is_on() {
        for frame in &frames[..got] {
            sites::note_given(iter::once(frame.word), traced_pool(frame.word), site);
        }
    }
    got as c_int
}

/// Arms the descriptor of netmem_lane_fd, before the receiver sleeps on it.
/// Returns 0 if the receiver may sleep. Returns 1 if frames or packets wait in the lane or the sender has
/// closed its end: the receiver should not sleep then.
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn netmem_lane_arm(worker: netmem_worker, lane: netmem_lane) -> c_int {
    const CALL: &str = "netmem_lane_arm";
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    match end(&mut inside.lanes.receiving, End::Receiver, (lane, CALL, Site::UNKNOWN)) {
        Ok(receiving) => {
            receiving.lane.bell.arm();
            (receiving.waiting() || receiving.lane.is_gone(End::Sender)).into()
        }
        Err(errno) => errno,
    }
}

/// Disarms the descriptor of netmem_lane_fd, after the receiver has slept or decided not to sleep.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_lane_disarm(worker: netmem_worker, lane: netmem_lane) -> c_int {
    const CALL: &str = "netmem_lane_disarm";
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    match end(&mut inside.lanes.receiving, End::Receiver, (lane, CALL, Site::UNKNOWN)) {
        Ok(receiving) => {
            receiving.lane.bell.disarm();
            0
        }
        Err(errno) => errno,
    }
}

/// Returns the descriptor on which the receiver sleeps. While the lane is armed, it becomes readable when
/// frames or packets arrive or the sender closes its end.
/// The lane owns the descriptor and closes it.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_lane_fd(worker: netmem_worker, lane: netmem_lane) -> c_int {
    const CALL: &str = "netmem_lane_fd";
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    match end(&mut inside.lanes.receiving, End::Receiver, (lane, CALL, Site::UNKNOWN)) {
        Ok(receiving) => receiving.lane.bell.as_fd().as_raw_fd(),
        Err(errno) => errno,
    }
}

/// Closes the worker's end of a lane, or both ends if the worker has both.
/// When the sender closes, the receiver can still receive what was sent. When the receiver closes, frames and
/// packets that wait in the lane are freed.
/// Returns the number of frames and packets freed this way, 0 for a sender. A lane that has never had a
/// receiver stays open when its sender closes: join it and close that end too.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_lane_close(worker: netmem_worker, lane: netmem_lane) -> c_int {
    const CALL: &str = "netmem_lane_close";
    cold(worker, CALL, |mut inside| {
        let State { lanes, heads, packets, worker, memory_word, .. } = &mut *inside;
        let sending = take_end(&mut lanes.sending, lane);
        let receiving = take_end(&mut lanes.receiving, lane);
        if sending.is_none() && receiving.is_none() {
            let which = if why(End::Sender, lane) == Kind::WrongWorker { End::Sender } else { End::Receiver };
            return Ok(refused(why(which, lane), CALL, LANE, lane.word, Site::UNKNOWN));
        }
        let (mut freed, mut is_last) = (0, false);
        if let Some(sending) = sending {
            is_last |= sending.close();
        }
        if let Some(receiving) = receiving {
            let (went, last) = receiving.close(worker, *memory_word, heads, packets);
            (freed, is_last) = (went, is_last | last);
        }
        if is_last {
            LANES.close(lane.word, |_| Ok(()))?;
        }
        Ok(i32::try_from(freed).unwrap_or(i32::MAX))
    })
}

fn take_end<T>(ends: &mut Known<T>, lane: netmem_lane) -> Option<T> {
    let end = ends.get_mut(word::place(lane.word))?.take_if(|(word, _)| *word == lane.word);
    end.map(|(_, end)| end)
}

/// Reads the counters of a lane. Writes at most `room` counters to `counts`. Read them before the second end is closed:
/// then the lane is gone, and the call returns -ESTALE.
/// Returns the number of counters, which may be larger than `room`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_lane_counts(
    lane: netmem_lane,
    counts: *mut netmem_count,
    room: usize,
) -> c_int {
    answer("netmem_lane_counts", || {
        let (lane, _) = LANES.get(lane.word)?;
        let stats = lane.mesh.stats().into_iter().next().unwrap_or_default();
        let freed = lane.freed_at_close();
        let (sent, came) = lane.tally.counts();
        let left = sent.wrapping_sub(came);
        let (waiting, lost) = if lane.is_gone(End::Receiver) { (0, left) } else { (left, 0) };
        let all = [
            ("sent", stats.enqueued),
            ("received", stats.dequeued.saturating_sub(freed)),
            ("waiting", stats.waiting),
            ("lost", stats.lost + freed),
            ("gone", stats.drops.inbox_gone),
            ("packets_sent", sent),
            ("packets_received", came),
            ("packets_waiting", waiting),
            ("packets_lost", lost),
        ];
        let all = all.into_iter().map(|(name, value)| netmem_count::new(name, value));
        // SAFETY: the promise of C.
        unsafe { list(counts, room, all) }
    })
}
