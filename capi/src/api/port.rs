//! HOT: receives and transmits frames through the queues of a port.

use super::burst::words;
use super::types::{list, netmem_count, netmem_frame, netmem_pool, netmem_port, netmem_worker, place};
use super::worker::{cold, out};
use crate::api::pool::find;
use crate::errno::ENETDOWN;
use crate::failure::Failure;
use crate::misuse::{FRAME, Kind, PORT, refused};
use crate::registry;
use crate::sites::{self, Site};
use crate::table::{End, Tag};
use crate::word;
use crate::workers::{OpenPort, State, go_in};
use netmem::limits::BATCH_MAX;
use netmem::{Batch, Frame, Port, PortState, Worker};
use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;

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
///
/// # Safety
/// See the module.
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
fn put_back(tag: &mut Tag, burst: &mut [netmem_frame], batch: &mut Batch) {
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
/// in each round.
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

/// Runs a call on a port that does not move frames.
fn with(
    (worker, port, call): (netmem_worker, netmem_port, &str),
    work: impl FnOnce(&mut OpenPort) -> Result<c_int, Failure>,
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, Site::UNKNOWN) };
    match find_port(&mut inside.ports, port, call, Site::UNKNOWN) {
        Ok(open) => work(open).unwrap_or_else(Failure::record),
        Err(errno) => errno,
    }
}

/// Wakes the device if it asked for that. Call it once in each round, after the other calls.
/// If a memif port is down, this call continues its handshake. netmem_port_arm and netmem_port_disarm also do
/// so, at once. To wait until the port is up, repeat netmem_port_kick until netmem_port_state returns 0.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_kick(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_kick"), |open| {
        open.port.kick();
        Ok(0)
    })
}

/// Arms the descriptor of netmem_port_fd, before the thread sleeps on it.
/// Returns 0 if the thread may sleep. Returns 1 if something has arrived already: the thread should not sleep
/// then.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_arm(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_arm"), |open| Ok((open.port.arm() || !open.received.is_empty()).into()))
}

/// Disarms the descriptor of netmem_port_fd, after the thread has slept.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_disarm(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_disarm"), |open| {
        open.port.disarm();
        Ok(0)
    })
}

/// Returns the descriptor on which the thread sleeps. While the port is armed, it becomes readable when
/// something arrives. The port owns the descriptor and closes it.
/// Returns -EINVAL if the port has no such descriptor: poll it instead.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_fd(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_fd"), |open| {
        let fd = open.port.wakeup_fd().map(|fd| fd.as_raw_fd());
        fd.ok_or_else(|| Failure::invalid("this port cannot wake a sleeping thread: poll it"))
    })
}

/// Returns 0 if the port carries frames. Returns -ENETDOWN if it does not; netmem_last_error gives the
/// reason. The result is the state at the last netmem_port_kick.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_state(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_state"), |open| match open.port.state() {
        PortState::Up => Ok(0),
        PortState::Down(why) => Err(Failure::new(ENETDOWN, why)),
    })
}

/// Returns 1 if the port will receive nothing more, because it reads a file and has reached its end. Returns
/// 0 otherwise. The result is the state at the last netmem_port_kick.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_finished(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_finished"), |open| {
        Ok((open.received.is_empty() && open.port.rx_finished()).into())
    })
}

/// Writes the name of the port, such as "xdp:eth0", to `name`. The name is valid until the port is closed.
/// Returns 0.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_name(
    worker: netmem_worker,
    port: netmem_port,
    name: *mut *const c_char,
) -> c_int {
    with((worker, port, "netmem_port_name"), |open| {
        // SAFETY: the promise of C.
        *unsafe { place("name", name) }? = open.name.as_ptr();
        Ok(0)
    })
}

/// Reads the counters of a port, under the names that `netmem stat ports` shows. Writes at most `room`
/// counters to `counts`.
/// Returns the number of counters, which may be larger than `room`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_counts(
    worker: netmem_worker,
    port: netmem_port,
    counts: *mut netmem_count,
    room: usize,
) -> c_int {
    with((worker, port, "netmem_port_counts"), |open| {
        let counters = open.port.counters();
        let all = counters.iter().map(|(name, value)| netmem_count::new(name, value));
        // SAFETY: the promise of C.
        Ok(unsafe { list(counts, room, all) })
    })
}

/// Closes a port. Its frames are freed, except for frames that the device still uses.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_close(worker: netmem_worker, port: netmem_port) -> c_int {
    cold(worker, "netmem_port_close", |mut inside| {
        let State { ports, worker, .. } = &mut *inside;
        if let Err(errno) = find_port(ports, port, "netmem_port_close", Site::UNKNOWN) {
            return Ok(errno);
        }
        registry::remove_port(port.word);
        let mut open = ports[word::place(port.word)].take();
        if let Some(open) = &mut open {
            open.received.free(worker);
        }
        drop(open);
        Ok(0)
    })
}
