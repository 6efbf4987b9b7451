//! HOT: a port's queues.

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
use netmem::{Batch, Port, PortState, Worker};
use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;

/// The worker's port of this word.
///
/// # Errors
/// The number that the call returns.
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

/// The worker has no such port.
#[cold]
#[inline(never)]
fn not_here(port: netmem_port, call: &str, site: Site) -> c_int {
    let kind = if registry::is_port(port.word) { Kind::WrongWorker } else { Kind::Closed };
    refused(kind, call, PORT, port.word, site)
}

/// Receives up to `n` frames; returns how many.
///
/// # Safety
/// As of the module.
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
    let mut got = 0;
    while got < frames.len() {
        if open.received.is_empty() && open.port.rx(worker, &mut open.received) == 0 {
            break;
        }
        for (place, frame) in frames[got..].iter_mut().zip(open.received.drain()) {
            place.word = tag.give(frame);
            got += 1;
        }
    }
    *held += got as u64;
    if sites::is_on() {
        sites::note_given(frames[..got].iter().map(|frame| frame.word), open.pool, site);
    }
    got as c_int
}

/// Posts frames for transmission; returns how many. What was taken is the port's: its words are good no longer. The others stay the
/// caller's, and stand behind those in `frames`, in order. Where a word is not good nothing is posted at all from it on, and where it
/// is among the first 64 the result is the negative errno.
///
/// # Safety
/// As of the module.
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

/// Posts empty frames for reception; returns as netmem_port_tx does.
///
/// # Safety
/// As of the module.
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

/// Ends the uses of a burst of words, into `batch`.
///
/// # Errors
/// The first word that is not good, and what is wrong with it; nothing has changed then.
#[inline(always)]
pub fn take(tag: &mut Tag, burst: &[netmem_frame], batch: &mut Batch, end: End) -> Result<(), (u64, Kind)> {
    let mut ending = tag.ending(end);
    let taken = batch.extend(burst.iter().map_while(|frame| ending.take(frame.word)));
    if taken == burst.len() { Ok(()) } else { Err(untake(tag, burst, batch)) }
}

/// The uses of the words that were taken go on; the first word that was not, and what is wrong with it.
#[cold]
#[inline(never)]
fn untake(tag: &mut Tag, burst: &[netmem_frame], batch: &mut Batch) -> (u64, Kind) {
    let bad = burst[batch.len()].word;
    // First: a word that stands in the burst twice is good again afterwards.
    let kind = Kind::of(tag.why(bad), false);
    burst.iter().zip(batch.drain()).for_each(|(frame, took)| tag.restore(frame.word, took));
    (bad, kind)
}

/// Gives the words back that were not taken, behind those that were; both in order.
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

/// Tops the port up with empty frames of `pool`, to receive into; returns how many. To be called once a round.
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

/// Takes back the frames that were sent, and frees them; returns how many. Completions do not come by themselves: to be called once a round.
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

/// Does one thing to a port, that is not done to frames.
fn with(
    (worker, port, call): (netmem_worker, netmem_port, &str),
    work: impl FnOnce(&mut OpenPort) -> Result<c_int, Failure>,
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, Site::UNKNOWN) };
    match find_port(&mut inside.ports, port, call, Site::UNKNOWN) {
        Ok(open) => work(open).unwrap_or_else(Failure::keep),
        Err(errno) => errno,
    }
}

/// Wakes the device where it asked for that; to be called once a round, after the other calls. A memif port that is down goes on with its handshake in
/// this call, and at once in netmem_port_arm and netmem_port_disarm: a program that waits until a port is up kicks it until netmem_port_state says 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_kick(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_kick"), |open| {
        open.port.kick();
        Ok(0)
    })
}

/// Before the thread sleeps on netmem_port_fd: 1 where there is something already, and it had better not.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_arm(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_arm"), |open| Ok((open.port.arm() || !open.received.is_empty()).into()))
}

/// After the thread has slept.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_disarm(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_disarm"), |open| {
        open.port.disarm();
        Ok(0)
    })
}

/// The descriptor that is readable when something comes while the port is armed. It is the port's, and closed with it. -EINVAL where nothing
/// would wake.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_fd(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_fd"), |open| {
        let fd = open.port.wakeup_fd().map(|fd| fd.as_raw_fd());
        fd.ok_or_else(|| Failure::invalid("nothing wakes whoever sleeps on this port: poll it"))
    })
}

/// Returns 0 where the port carries frames, and -ENETDOWN where not; netmem_last_error says why. The answer is what netmem_port_kick saw last.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_state(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_state"), |open| match open.port.state() {
        PortState::Up => Ok(0),
        PortState::Down(why) => Err(Failure::new(ENETDOWN, why)),
    })
}

/// 1 where nothing will be received any more, since all of a file was (which netmem_port_kick finds out); 0 else.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_port_finished(worker: netmem_worker, port: netmem_port) -> c_int {
    with((worker, port, "netmem_port_finished"), |open| {
        Ok((open.received.is_empty() && open.port.rx_finished()).into())
    })
}

/// The port's name, as "xdp:eth0"; good until it is closed.
///
/// # Safety
/// As of the module.
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

/// A port's counters under the names of `netmem stat ports`: writes at most `room` and returns how many there are.
///
/// # Safety
/// As of the module.
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

/// Closes a port. Frames that it had go home, as far as its device is done with them.
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
