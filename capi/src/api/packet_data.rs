//! HOT: reads and changes the bytes and the metadata of a packet.

use super::burst::{fill, words};
use super::offload::said;
use super::types::{list, netmem_packet, netmem_part, netmem_worker};
use super::worker::out;
use crate::errno::{EBUSY, EFAULT, ENOBUFS};
use crate::failure::{Failure, first_of, no_room};
use crate::misuse::{PACKET, refused};
use crate::packets;
use crate::sites::Site;
use crate::workers::go_in;
use netmem::Packet;
use netmem::pool::NoRoom;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::slice;

/// Reads one packet.
#[inline(always)]
pub fn look<R>(
    (worker, packet, call, site): (netmem_worker, netmem_packet, &str, Site),
    look: impl FnOnce(&Packet) -> R,
) -> Result<R, c_int> {
    let Some(inside) = go_in(worker.word) else { return Err(out(worker, call, site)) };
    packets::look(&inside.tag, packet.word, look)
        .map_err(|kind| refused(kind, call, PACKET, packet.word, site))
}

/// Changes one packet.
#[inline(always)]
pub fn change<R>(
    (worker, packet, call, site): (netmem_worker, netmem_packet, &str, Site),
    change: impl FnOnce(&mut Packet) -> Result<R, NoRoom>,
) -> Result<R, c_int> {
    let Some(mut inside) = go_in(worker.word) else { return Err(out(worker, call, site)) };
    match packets::change(&mut inside.tag, packet.word, |packet, _| change(packet)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(no_room(call, error)),
        Err(kind) => Err(refused(kind, call, PACKET, packet.word, site)),
    }
}

/// Returns the number of bytes of data of a packet, in all its parts.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_len_at(
    worker: netmem_worker,
    packet: netmem_packet,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let len = look((worker, packet, "netmem_packet_len", site), |packet| packet.len());
    len.map_or_else(|errno| errno, |len| c_int::try_from(len).unwrap_or(c_int::MAX))
}

/// Lists the parts of a packet, first to last, for reading. Writes at most `room` parts to `parts`.
/// Returns the number of parts of the packet, which may be larger than `room`. If it is 1, that part has all
/// the data.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_parts_at(
    worker: netmem_worker,
    packet: netmem_packet,
    parts: *mut netmem_part,
    room: usize,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let written = look((worker, packet, "netmem_packet_parts", site), |packet| {
        let all = packet.segments().map(part);
        // SAFETY: the promise of C.
        let n = unsafe { list(parts, room, all) }?;
        // SAFETY: as above, for as many parts as were written.
        if let Ok(written) = unsafe { words(parts, u32::try_from(room.min(n as usize)).unwrap_or(0)) } {
            if let Some(first) = written.first_mut() {
                first.headroom = short(packet.headroom());
            }
            if let Some(last) = written.get_mut(n as usize - 1) {
                last.tailroom = short(packet.tailroom());
            }
        }
        Ok(n)
    });
    said(written)
}

/// Describes the first part of each of `n` packets, for reading: the whole packet, unless it has more parts.
/// Writes one netmem_part for each packet to `parts`, with the headroom in front of it and, if it is the whole
/// packet, the tailroom behind it. Sets `data` to NULL for an invalid handle, and of all parts if the worker or
/// `packets` is refused.
/// Returns the number of packets that have more parts (netmem_packet_parts describes those), or the negative
/// errno of the first invalid handle.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_first_parts_at(
    worker: netmem_worker,
    packets: *const netmem_packet,
    n: u32,
    parts: *mut netmem_part,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_packet_first_parts";
    // SAFETY: the promise of C; the packets are only read.
    let (site, packets, parts) = unsafe { (Site::new(site), words(packets.cast_mut(), n), words(parts, n)) };
    let Some(inside) = go_in(worker.word) else {
        fill(parts, NO_PART);
        return out(worker, CALL, site);
    };
    let (packets, parts) = match (packets, parts) {
        (Ok(packets), Ok(parts)) => (packets, parts),
        (Err(errno), parts) => {
            fill(parts, NO_PART);
            return errno;
        }
        (_, Err(errno)) => return errno,
    };
    let (mut longer, mut first) = (0, 0);
    for (&mut netmem_packet { word }, to) in packets.iter_mut().zip(parts) {
        let looked = packets::look(&inside.tag, word, |packet| (first_part(packet), packet.is_linear()));
        let (part, is_whole) = looked.unwrap_or_else(|kind| {
            first = first_of(first, || refused(kind, CALL, PACKET, word, site));
            (NO_PART, true)
        });
        *to = part;
        longer += c_int::from(!is_whole);
    }
    if first == 0 { longer } else { first }
}

/// The first part of a packet whose handle was refused.
const NO_PART: netmem_part = netmem_part { data: ptr::null(), len: 0, headroom: 0, tailroom: 0 };

fn first_part(packet: &Packet) -> netmem_part {
    let tailroom = if packet.is_linear() { short(packet.tailroom()) } else { 0 };
    netmem_part { headroom: short(packet.headroom()), tailroom, ..part(packet.data()) }
}

fn part(bytes: &[u8]) -> netmem_part {
    netmem_part { data: bytes.as_ptr().cast(), len: bytes.len() as u32, headroom: 0, tailroom: 0 }
}

fn short(room: usize) -> u16 {
    u16::try_from(room).unwrap_or(u16::MAX)
}

/// Returns the address of the data of the first part, for reading, or NULL if the handle is invalid.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_data_at(
    worker: netmem_worker,
    packet: netmem_packet,
    site: *const c_char,
) -> *const c_void {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let data = look((worker, packet, "netmem_packet_data", site), |packet| packet.data().as_ptr());
    data.map_or(ptr::null(), <*const u8>::cast)
}

/// Returns the address of the data of the first part, for writing. Returns NULL if the handle is invalid, or
/// if the bytes of the part are shared; netmem_packet_make_writable copies shared bytes.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_write_at(
    worker: netmem_worker,
    packet: netmem_packet,
    site: *const c_char,
) -> *mut c_void {
    const CALL: &str = "netmem_packet_write";
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let data = change((worker, packet, CALL, site), |packet| Ok(packet.data_mut().map(<[u8]>::as_mut_ptr)));
    match data {
        Ok(Some(data)) => data.cast(),
        Ok(None) => {
            let text = format!(
                "{CALL}: others read these bytes too: call netmem_packet_make_writable, which copies them"
            );
            Failure::new(EBUSY, text).record();
            ptr::null_mut()
        }
        Err(_) => ptr::null_mut(),
    }
}

/// Returns the address of `n` bytes of a packet, from byte `offset` on, for reading. If they lie in one part, this is
/// their place in the packet, and nothing is copied. Otherwise the call copies them to `buffer`, which has room for `n`
/// bytes, and returns `buffer`. `buffer` may be NULL for a packet that has one part.
/// Returns NULL if the handle is invalid, the packet ends before `offset + n` (ENOBUFS), or the bytes lie in several parts
/// and `buffer` is NULL (EFAULT).
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_read_at(
    worker: netmem_worker,
    packet: netmem_packet,
    offset: u32,
    n: u32,
    buffer: *mut c_void,
    site: *const c_char,
) -> *const c_void {
    const CALL: &str = "netmem_packet_read";
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let (offset, n) = (offset as usize, n as usize);
    let found = look((worker, packet, CALL, site), |packet| {
        let room = packet.len().saturating_sub(offset);
        if offset > packet.len() || n > room {
            let text = format!("{CALL}: {n} bytes at {offset} of a packet of {} bytes", packet.len());
            return Err(Failure::new(ENOBUFS, text));
        }
        match whole(packet, offset, n) {
            Some(bytes) => Ok(bytes.as_ptr().cast()),
            None if buffer.is_null() => Err(Failure::new(
                EFAULT,
                format!("{CALL}: the bytes lie in several parts, and buffer is NULL"),
            )),
            None => {
                // SAFETY: the promise of C: room for `n` bytes. The packet has as many from `offset` on.
                let to = unsafe { slice::from_raw_parts_mut(buffer.cast(), n) };
                copy_from(packet, offset, to);
                Ok(buffer.cast_const())
            }
        }
    });
    found.map_or(ptr::null(), |found| {
        found.unwrap_or_else(|failure| {
            failure.record();
            ptr::null()
        })
    })
}

/// The `n` bytes at `offset` of a packet, if they lie in one part.
fn whole(packet: &Packet, mut offset: usize, n: usize) -> Option<&[u8]> {
    for part in packet.segments() {
        if offset < part.len() || n == 0 && offset == part.len() {
            return part.get(offset..offset + n);
        }
        offset -= part.len();
    }
    None
}

/// Copies bytes from `offset` of a packet on, as many as there is room for. Returns their number.
fn copy_from(packet: &Packet, mut offset: usize, to: &mut [u8]) -> usize {
    let mut copied = 0;
    for part in packet.segments() {
        let from = part.get(offset..).unwrap_or_default();
        offset = offset.saturating_sub(part.len());
        let n = from.len().min(to.len() - copied);
        to[copied..copied + n].copy_from_slice(&from[..n]);
        copied += n;
    }
    copied
}

/// Copies the first bytes of a packet, from all its parts, to `to`: at most `room` bytes. netmem_packet_read reads bytes
/// from any offset.
/// Returns the number of bytes copied.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_copy_at(
    worker: netmem_worker,
    packet: netmem_packet,
    to: *mut c_void,
    room: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let (site, to) = unsafe { (Site::new(site), words(to.cast::<u8>(), room)) };
    let to = match to {
        Ok(to) => to,
        Err(errno) => return errno,
    };
    let copied = look((worker, packet, "netmem_packet_copy", site), |packet| packet.copy_to(to) as c_int);
    copied.unwrap_or_else(|errno| errno)
}

/// Appends `n` bytes to the data of a packet, in its last part.
/// Returns the address of the first appended byte. The bytes are not cleared: write all of them. Returns NULL
/// if the handle is invalid, the tailroom of the last part is less than `n`, or the bytes of that part are
/// shared.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_put_at(
    worker: netmem_worker,
    packet: netmem_packet,
    n: u32,
    site: *const c_char,
) -> *mut c_void {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let tail = change((worker, packet, "netmem_packet_put", site), |packet| {
        packet.put(n as usize).map(<[u8]>::as_mut_ptr)
    });
    tail.map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// Prepends `n` bytes to the data of a packet, for a header.
/// Returns 0, or -ENOBUFS if the headroom of the first part is less than `n`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_push_at(
    worker: netmem_worker,
    packet: netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let done = change((worker, packet, "netmem_packet_push", site), |packet| packet.push(n as usize));
    done.map_or_else(|errno| errno, |()| 0)
}

/// Removes `n` bytes from the start of the data of a packet, across parts if needed. Parts that become empty
/// stay in the packet.
/// Returns 0, or -ENOBUFS if there are fewer than `n` bytes of data.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_pull_at(
    worker: netmem_worker,
    packet: netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let done = change((worker, packet, "netmem_packet_pull", site), |packet| packet.pull(n as usize));
    done.map_or_else(|errno| errno, |()| 0)
}

/// Truncates the data of a packet to its first `len` bytes. Parts that become empty stay in the packet.
/// Returns 0, or -ENOBUFS if there are fewer than `len` bytes of data.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_trim_at(
    worker: netmem_worker,
    packet: netmem_packet,
    len: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let done = change((worker, packet, "netmem_packet_trim", site), |packet| packet.trim(len as usize));
    done.map_or_else(|errno| errno, |()| 0)
}

/// Records the flow hash of a packet. The hash stays with the packet, not with its frame.
/// Returns 0.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_set_flow_hash_at(
    worker: netmem_worker,
    packet: netmem_packet,
    hash: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let done = change((worker, packet, "netmem_packet_set_flow_hash", site), |packet| {
        packet.set_flow_hash(hash);
        Ok(())
    });
    done.map_or_else(|errno| errno, |()| 0)
}

/// Reads the flow hash of a packet into `hash`: 0 if none was recorded.
/// Returns 0.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_flow_hash_at(
    worker: netmem_worker,
    packet: netmem_packet,
    hash: *mut u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let (site, to) = unsafe { (Site::new(site), words(hash, 1)) };
    let to = match to {
        Ok(to) => to,
        Err(errno) => return errno,
    };
    let done = look((worker, packet, "netmem_packet_flow_hash", site), |packet| to[0] = packet.flow_hash());
    done.map_or_else(|errno| errno, |()| 0)
}
