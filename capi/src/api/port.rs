//! HOT: receives and transmits frames through the queues of a port.

use super::burst::words;
use super::types::{netmem_frame, netmem_pool, netmem_port, netmem_worker};
use super::worker::out;
use crate::api::pool::find;
use crate::misuse::{FRAME, Kind, PORT, refused};
use crate::registry;
use crate::sites::{self, Site};
use crate::table::{End, Tag};
use crate::word;
use crate::workers::{OpenPort, State, go_in};
use netmem::limits::BATCH_MAX;
use netmem::{Batch, Frame, Port, Worker};
use std::ffi::{c_char, c_int};

/// Returns the worker's port of this handle, or refuses the call.
///
/// # Errors
/// The errno for the call.
#[inline(always)]
pub fn find_port<'a>(
    ports: &'a mut [Option<OpenPort>],
    port: netmem_port,
    call: &str,
    site: Site,
) -> Result<&'a mut OpenPort, c_int> {
    match ports.get_mut(word::place(port.word)) {
        Some(Some(open)) if open.word == port.word => Ok(open),
        _ => Err(not_here(port, call, site)),
    }
}

/// Refuses a call with a port that the worker does not have.
#[cold]
#[inline(never)]
fn not_here(port: netmem_port, call: &str, site: Site) -> c_int {
    let kind = if registry::is_port(port.word) { Kind::WrongWorker } else { Kind::Closed };
    refused(kind, call, PORT, port.word, site)
}

/// Receives up to `n` frames and writes their handles to `frames`.
/// Returns the number received.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_rx_at(
    worker: netmem_worker,
    port: netmem_port,
    frames: *mut netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_port_rx";
    // SAFETY: the promise of C.
    let (site, frames) = unsafe { (Site::new(site), words(frames, n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { ports, worker, tag, held, .. } = &mut *inside;
    let (open, frames) = match (find_port(ports, port, CALL, site), frames) {
        (Ok(open), Ok(frames)) => (open, frames),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let got = receive(open, worker, frames, |frame| netmem_frame { word: tag.give(frame) });
    *held += got as u64;
    if sites::is_on() {
        sites::note_given(frames[..got].iter().map(|frame| frame.word), open.pool, site);
    }
    got as c_int
}

/// Receives frames until there is no place left or the port has no more, and writes what `give` makes of each to
/// its place. Returns the number received.
#[inline(always)]
pub fn receive<T>(
    open: &mut OpenPort,
    worker: &mut Worker,
    places: &mut [T],
    mut give: impl FnMut(Frame) -> T,
) -> usize {
    let mut got = 0;
    while got < places.len() {
        if open.received.is_empty() && open.port.rx(worker, &mut open.received) == 0 {
            break;
        }
        for (place, frame) in places[got..].iter_mut().zip(open.received.drain()) {
            *place = give(frame);
            got += 1;
        }
    }
    got
}

/// Posts up to `n` frames for transmission.
/// Returns the number posted. The port owns these frames; their handles are invalid. The other frames stay
/// with the caller: the call moves them to the end of `frames`, in order, so that they begin at the index
/// that the call returns.
/// The call works in groups of 64 frames and stops before a group that contains an invalid handle. If that is
/// the first group, returns the negative errno of the handle.
/// A port takes no frame while it is down (netmem_port_state) or full (netmem_port_complete makes room), and never one
/// that it cannot carry: a program that offers such a frame again and again never ends. netmem_port_take_unsendable
/// finds these frames. A frame that was taken can still be lost: see tx_lost of netmem_port_counts.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_tx_at(
    worker: netmem_worker,
    port: netmem_port,
    frames: *mut netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let (site, frames) = unsafe { (Site::new(site), words(frames, n)) };
    post((worker, port, "netmem_port_tx", site), frames, End::Sent, |port, worker, batch| {
        port.tx(worker, batch)
    })
}

/// Posts up to `n` frames for reception. Data that they still have is dropped. Returns as netmem_port_tx does.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_fill_at(
    worker: netmem_worker,
    port: netmem_port,
    frames: *mut netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let (site, frames) = unsafe { (Site::new(site), words(frames, n)) };
    post((worker, port, "netmem_port_fill", site), frames, End::Filled, |port, worker, batch| {
        port.fill(worker, batch)
    })
}

#[inline(always)]
fn post(
    (worker, port, call, site): (netmem_worker, netmem_port, &str, Site),
    frames: Result<&mut [netmem_frame], c_int>,
    end: End,
    post: impl Fn(&mut dyn Port, &mut Worker, &mut Batch) -> usize,
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, site) };
    let State { ports, worker, tag, held, .. } = &mut *inside;
    let (open, frames) = match (find_port(ports, port, call, site), frames) {
        (Ok(open), Ok(frames)) => (open, frames),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let (mut posted, mut batch) = (0, Batch::new());
    for burst in frames.chunks_mut(BATCH_MAX) {
        if let Err((word, kind)) = take(tag, burst, &mut batch, end) {
            let errno = refused(kind, call, FRAME, word, site);
            return if posted == 0 { errno } else { posted as c_int };
        }
        let before = batch.len();
        post(&mut *open.port, worker, &mut batch);
        let taken = before - batch.len();
        if !batch.is_empty() {
            put_back(tag, burst, &mut batch);
        }
        *held -= taken as u64;
        posted += taken;
        if sites::is_on() {
            sites::note_ended(burst[..taken].iter().map(|frame| frame.word), site);
        }
        if taken < before {
            break;
        }
    }
    posted as c_int
}

/// Ends the uses of a burst of handles and moves their frames to `batch`.
///
/// # Errors
/// The first invalid handle, with the reason. Nothing has changed then.
#[inline(always)]
pub fn take(tag: &mut Tag, burst: &[netmem_frame], batch: &mut Batch, end: End) -> Result<(), (u64, Kind)> {
    let mut ending = tag.ending(end);
    let taken = batch.extend(burst.iter().map_while(|frame| ending.take(frame.word)));
    if taken == burst.len() { Ok(()) } else { Err(untake(tag, burst, batch)) }
}

/// Restores the uses of the handles that were taken. Returns the first handle that was refused, with the
/// reason.
#[cold]
#[inline(never)]
fn untake(tag: &mut Tag, burst: &[netmem_frame], batch: &mut Batch) -> (u64, Kind) {
    let bad = burst[batch.len()].word;
    // Read first: a handle that the burst contains twice is valid again after the restore.
    let kind = Kind::of(tag.why(bad), false);
    burst.iter().zip(batch.drain()).for_each(|(frame, took)| tag.restore(frame.word, took));
    (bad, kind)
}

/// Restores the handles of the frames that the port did not take, and moves them behind those it took. Both
/// stay in order.
#[cold]
#[inline(never)]
pub fn put_back(tag: &mut Tag, burst: &mut [netmem_frame], batch: &mut Batch) {
    let (mut left, mut n) = ([netmem_frame { word: 0 }; BATCH_MAX], 0);
    for frame in batch.drain() {
        let number = frame.id().get();
        let Some(word) = burst.iter().find(|word| word.word as u32 == number) else { continue };
        (left[n], n) = (*word, n + 1);
        tag.restore(word.word, frame);
    }
    let is_left = |frame: &netmem_frame| left[..n].iter().any(|left| left.word == frame.word);
    let mut taken = 0;
    for at in 0..burst.len() {
        if !is_left(&burst[at]) {
            burst.swap(taken, at);
            taken += 1;
        }
    }
    burst[taken..].copy_from_slice(&left[..n]);
}

/// Posts empty frames of `pool` for reception until the fill ring is full or the pool is empty. Call it once
/// in each round. A port takes as many frames as its ring has slots (netmem_port_config.ring). So two ports with rings of
/// 2048 slots take all frames of a default pool, and the program can allocate none: open a pool with more frames.
/// Returns the number of frames posted.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_refill(worker: netmem_worker, port: netmem_port, pool: netmem_pool) -> c_int {
    const CALL: &str = "netmem_port_refill";
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    let State { pools, ports, worker, memory_word, .. } = &mut *inside;
    match (
        find_port(ports, port, CALL, Site::UNKNOWN),
        find(pools, *memory_word, pool.word, CALL, Site::UNKNOWN),
    ) {
        (Ok(open), Ok(pool)) => open.port.refill(worker, pool) as c_int,
        (Err(errno), _) | (_, Err(errno)) => errno,
    }
}

/// Frees the frames that the device has transmitted. Call it once in each round: without it the transmit ring
/// stays full.
/// Returns the number of frames freed.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_complete(worker: netmem_worker, port: netmem_port) -> c_int {
    const CALL: &str = "netmem_port_complete";
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    let State { ports, worker, .. } = &mut *inside;
    let open = match find_port(ports, port, CALL, Site::UNKNOWN) {
        Ok(open) => open,
        Err(errno) => return errno,
    };
    let (mut batch, mut completed) = (Batch::new(), 0);
    loop {
        let n = open.port.complete(worker, &mut batch);
        batch.free(worker);
        completed += n;
        if n < BATCH_MAX {
            return completed as c_int;
        }
    }
}
