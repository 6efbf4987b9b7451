//! Packets of several parts, and packets that share bytes.

use super::burst::words;
use super::packet::traced_pool;
use super::pool::find;
use super::types::{netmem_packet, netmem_pool, netmem_worker};
use super::worker::out;
use crate::errno::{EINVAL, ENOBUFS, ENOMEM};
use crate::failure::Failure;
use crate::misuse::{PACKET, refused};
use crate::opened::Known;
use crate::packets;
use crate::registry::HEADS;
use crate::sites::{self, Site};
use crate::table::End;
use crate::workers::{State, go_in};
use netmem::packet::{CopyError, SplitError};
use netmem::{HeadCache, Packet, Pool, Worker};
use std::borrow::Cow;
use std::ffi::{c_char, c_int};
use std::{iter, mem};

/// Joins two packets. The handle of `other` becomes invalid.
fn join(
    (worker, call, site): (netmem_worker, &str, Site),
    (packet, other): (netmem_packet, netmem_packet),
    join: impl FnOnce(&mut Packet, Packet),
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, site) };
    let State { tag, uses, held, .. } = &mut *inside;
    if packet.word == other.word {
        return Failure::invalid(format!("{call}: a packet cannot be joined with itself")).record();
    }
    // Checked first: if this handle is invalid, the other packet does not change.
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

/// Appends the parts of packet `other` to those of `packet`, without a copy. The handle of `other` becomes
/// invalid and its flow hash is lost. An offload of either is that of the whole packet then; if both have one, the
/// packet cannot be made one frame until netmem_packet_set_offload replaces them.
/// Returns 0, or -EINVAL if both are the same packet.
///
/// # Safety
/// See the module.
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

/// Prepends the parts of packet `other` to those of `packet`, without a copy. The handle of `other` becomes
/// invalid. `packet` takes over the flow hash of `other`. Offloads are as after netmem_packet_append: `checksum_start`
/// now counts from the first byte of `other`.
/// Returns 0, or -EINVAL if both are the same packet.
///
/// # Safety
/// See the module.
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

/// Makes a second packet from `packet` and writes its handle to `second`.
fn second(
    (worker, call, site): (netmem_worker, &str, Site),
    packet: netmem_packet,
    second: *mut netmem_packet,
    make: impl FnOnce(&HeadCache, &mut Worker, &mut Packet) -> Result<Packet, Failure>,
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, site) };
    let State { heads: known, worker, tag, uses, held, memory_word, .. } = &mut *inside;
    // SAFETY: the promise of C.
    let to = match unsafe { words(second, 1) } {
        Ok(to) => to,
        Err(errno) => return errno,
    };
    if !uses.reserve(1) {
        return Failure::new(ENOMEM, format!("{call}: there is no memory for a word")).record();
    }
    let made = packets::change(tag, packet.word, |packet, of| {
        let heads = heads_of(known, *memory_word, of)?;
        Ok::<_, Failure>((make(&heads, worker, packet)?, of))
    });
    match made {
        Ok(Ok((made, of))) => {
            to[0].word = packets::give(uses, tag, made, of);
            *held += 1;
            if sites::is_on() {
                sites::note_given(iter::once(to[0].word), traced_pool(packet.word), site);
            }
            0
        }
        Ok(Err(failure)) => failure.record(),
        Err(kind) => refused(kind, call, PACKET, packet.word, site),
    }
}

/// Returns the heads of a packet.
///
/// # Errors
/// They were closed.
fn heads_of(known: &mut Known<HeadCache>, memory: u64, of: u64) -> Result<Cow<'_, HeadCache>, Failure> {
    HEADS.of_part(known, memory, of).ok_or_else(|| Failure::invalid("the heads were closed"))
}

/// Splits a packet after its first `at` bytes, without a copy. The bytes after them become a new packet,
/// whose handle is written to `rest`. If the split is inside a part, both packets share that part and neither
/// can write it.
/// Returns 0, -ENOBUFS if the packet has fewer than `at` bytes, or -ENOMEM if there is no memory for a head.
/// On failure the packet is unchanged.
///
/// # Safety
/// See the module.
#[must_use]
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

/// Makes a second packet over the same bytes and writes its handle to `other`. While both packets exist,
/// neither can be written. Each is pulled and trimmed independently.
/// Returns 0, or -ENOMEM if there is no memory for heads.
///
/// # Safety
/// See the module.
#[must_use]
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

/// Moves the bytes of a packet. Bytes that are copied go to frames of the pool.
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
        let heads = heads_of(known, *memory_word, of)?;
        let errno = |error: CopyError| {
            let errno = match error {
                CopyError::NoFrame => ENOMEM,
                CopyError::SecondOffload => EINVAL,
                _ => ENOBUFS,
            };
            Failure::new(errno, format!("{call}: {error}"))
        };
        copy(&heads, worker, packet, pool).map_err(errno)
    });
    match done {
        Ok(done) => done.unwrap_or_else(Failure::record),
        Err(kind) => refused(kind, call, PACKET, packet.word, site),
    }
}

/// Merges the parts of a packet into one. Copies the bytes of the other parts into the first part if it is
/// writable and has the tailroom; otherwise copies all bytes into a frame of `pool`.
/// Returns 0, -ENOMEM if the pool has no frame, -ENOBUFS if the bytes do not fit into one frame or its headroom has no
/// room for the offload or timestamp, or -EINVAL if two parts have an offload.
///
/// # Safety
/// See the module.
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

/// Makes all bytes of a packet writable: copies each shared part into a frame of `pool`.
/// Returns 0, or an errno of netmem_packet_linearize.
///
/// # Safety
/// See the module.
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

/// Converts the data of a packet to one unshared frame, as netmem_port_tx_packets requires. Bytes are copied
/// into a frame of `pool` if necessary.
/// Returns 1 if bytes were copied, 0 if no copy was necessary, or an errno of netmem_packet_linearize.
///
/// # Safety
/// See the module.
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
