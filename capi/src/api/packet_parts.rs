//! Packets of several parts, and packets over the same bytes.

use super::burst::words;
use super::packet::{note_given, traced_pool};
use super::pool::find;
use super::types::{netmem_packet, netmem_pool, netmem_worker};
use super::worker::out;
use crate::errno::{ENOBUFS, ENOMEM};
use crate::failure::Failure;
use crate::misuse::{PACKET, refused};
use crate::packets;
use crate::registry::HEADS;
use crate::sites::{self, Site};
use crate::table::End;
use crate::workers::{State, go_in};
use netmem::packet::{CopyError, SplitError};
use netmem::{HeadCache, Packet, Pool, Worker};
use std::ffi::{c_char, c_int};
use std::{iter, mem, slice};

/// Joins two packets, of which the word of `other` is good no longer.
fn join(
    (worker, call, site): (netmem_worker, &str, Site),
    (packet, other): (netmem_packet, netmem_packet),
    join: impl FnOnce(&mut Packet, Packet),
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, site) };
    let State { tag, uses, held, .. } = &mut *inside;
    if packet.word == other.word {
        return Failure::invalid(format!("{call}: a packet cannot be joined with itself")).keep();
    }
    // Looked at first: where it is not good the other one stays as it is.
    if let Err(kind) = packets::look(tag, packet.word, |_| ()) {
        return refused(kind, call, PACKET, packet.word, site);
    }
    let taken = match packets::take(uses, tag, other.word, End::Moved) {
        Ok((taken, _)) => taken,
        Err(kind) => return refused(kind, call, PACKET, other.word, site),
    };
    *held -= 1;
    if sites::is_on() {
        sites::note_ended(iter::once(other.word), site);
    }
    let joined = packets::change(tag, packet.word, |packet, _| join(packet, taken));
    joined.map_or_else(|kind| refused(kind, call, PACKET, packet.word, site), |()| 0)
}

/// Puts the parts of `other` behind those of `packet`, without a copy. The word of `other` is good no longer, and what was recorded of it is forgotten.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_append_at(
    worker: netmem_worker,
    packet: netmem_packet,
    other: netmem_packet,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    join((worker, "netmem_packet_append", site), (packet, other), Packet::append)
}

/// Puts the parts of `other` in front of those of `packet`, without a copy. The word of `other` is good no longer; what is recorded is that of `other`
/// from then on.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_prepend_at(
    worker: netmem_worker,
    packet: netmem_packet,
    other: netmem_packet,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    join((worker, "netmem_packet_prepend", site), (packet, other), |packet, other| {
        let behind = mem::replace(packet, other);
        packet.append(behind);
    })
}

/// Makes a second packet of one, whose word goes to `second`.
fn second(
    (worker, call, site): (netmem_worker, &str, Site),
    packet: netmem_packet,
    second: *mut netmem_packet,
    make: impl FnOnce(&HeadCache, &mut Worker, &mut Packet) -> Result<Packet, Failure>,
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, site) };
    let State { heads: known, worker, tag, uses, held, .. } = &mut *inside;
    // SAFETY: the promise of C.
    let to = match unsafe { words(second, 1) } {
        Ok(to) => to,
        Err(errno) => return errno,
    };
    if !uses.reserve(1) {
        return Failure::new(ENOMEM, format!("{call}: there is no memory for a word")).keep();
    }
    let made = packets::change(tag, packet.word, |packet, of| {
        let heads = HEADS.of_part(known, of).ok_or_else(|| Failure::invalid("the heads were closed"))?;
        Ok::<_, Failure>((make(heads, worker, packet)?, of))
    });
    match made {
        Ok(Ok((made, of))) => {
            to[0].word = packets::give(uses, tag, made, of);
            *held += 1;
            if sites::is_on() {
                note_given(slice::from_ref(&to[0]), traced_pool(packet.word), site);
            }
            0
        }
        Ok(Err(failure)) => failure.keep(),
        Err(kind) => refused(kind, call, PACKET, packet.word, site),
    }
}

/// Cuts a packet after its first `at` bytes; what is behind becomes the packet `rest`, without a copy. Where the cut goes through a part the two share
/// that, and neither writes it. -ENOBUFS where the packet is shorter, -ENOMEM where there is no memory for a head: the packet is as it was then.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_split_at(
    worker: netmem_worker,
    packet: netmem_packet,
    at: u32,
    rest: *mut netmem_packet,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_packet_split";
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    second((worker, CALL, site), packet, rest, |heads, worker, packet| {
        heads.split(worker, packet, at as usize).map_err(|error| {
            let errno = if matches!(error, SplitError::NoHead) { ENOMEM } else { ENOBUFS };
            Failure::new(errno, format!("{CALL}: {error}"))
        })
    })
}

/// Makes a second packet over the same bytes, whose word goes to `other`. Neither can be written while the other is there; each pulls and trims for itself. -ENOMEM where there is
/// no memory for heads.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_share_at(
    worker: netmem_worker,
    packet: netmem_packet,
    other: *mut netmem_packet,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_packet_share";
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    second((worker, CALL, site), packet, other, |heads, worker, packet| {
        let none = || Failure::new(ENOMEM, format!("{CALL}: there is no memory for heads"));
        heads.share(worker, packet).ok_or_else(none)
    })
}

/// Changes where a packet's bytes lie, with frames of a pool for those that are copied.
fn copy(
    (worker, call, site): (netmem_worker, &str, Site),
    (packet, pool): (netmem_packet, netmem_pool),
    copy: impl FnOnce(&HeadCache, &mut Worker, &mut Packet, &Pool) -> Result<c_int, CopyError>,
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, site) };
    let State { pools, heads: known, worker, tag, memory_word, .. } = &mut *inside;
    let pool = match find(pools, *memory_word, pool.word, call, site) {
        Ok(pool) => pool,
        Err(errno) => return errno,
    };
    let done = packets::change(tag, packet.word, |packet, of| {
        let heads = HEADS.of_part(known, of).ok_or_else(|| Failure::invalid("the heads were closed"))?;
        let errno = |error: CopyError| {
            let errno = if matches!(error, CopyError::NoFrame) { ENOMEM } else { ENOBUFS };
            Failure::new(errno, format!("{call}: {error}"))
        };
        copy(heads, worker, packet, pool).map_err(errno)
    });
    match done {
        Ok(done) => done.unwrap_or_else(Failure::keep),
        Err(kind) => refused(kind, call, PACKET, packet.word, site),
    }
}

/// Brings all bytes into one part: behind those of the first, if that can be written and has the room, or else into a frame of `pool`. -ENOMEM where
/// the pool has none, -ENOBUFS where the bytes do not fit into one.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_linearize_at(
    worker: netmem_worker,
    packet: netmem_packet,
    pool: netmem_pool,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    copy((worker, "netmem_packet_linearize", site), (packet, pool), |heads, worker, packet, pool| {
        heads.linearize(worker, packet, pool).map(|()| 0)
    })
}

/// Makes all bytes such that they can be written: parts that others may read are copied into frames of `pool`. Returns as netmem_packet_linearize.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_make_writable_at(
    worker: netmem_worker,
    packet: netmem_packet,
    pool: netmem_pool,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    copy((worker, "netmem_packet_make_writable", site), (packet, pool), |_, worker, packet, pool| {
        packet.make_writable(worker, pool).map(|()| 0)
    })
}

/// Makes the bytes one frame that is the packet's alone, which is what a port takes. Returns 1 where bytes were copied, 0 where that was not needed, and
/// else as netmem_packet_linearize.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_make_sendable_at(
    worker: netmem_worker,
    packet: netmem_packet,
    pool: netmem_pool,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    copy((worker, "netmem_packet_make_sendable", site), (packet, pool), |heads, worker, packet, pool| {
        heads.make_sendable(worker, packet, pool).map(c_int::from)
    })
}
