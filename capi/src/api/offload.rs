//! COLD: the work that the sender of a packet left to a card: reads it, sets it, and completes a checksum.

use super::frame;
use super::types::{flag, given, netmem_frame, netmem_worker, place, unreserved};
use crate::failure::Failure;
use crate::sites::Site;
use netmem::Frame;
use netmem::wire::offload::{Gso, GsoKind, Offload, PartialChecksum};
use std::ffi::{c_char, c_int};
use std::num::NonZeroU16;

/// The work that the sender of a packet left to its card: a checksum to be completed, and segments to be cut. If all
/// fields are 0, nothing is left.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_offload {
    /// 1: the checksum of TCP or UDP is open: its field has only the sum of the pseudo-header. 0: it is complete.
    pub checksum: u32,
    /// Bytes from the first byte of the data to the first one that the checksum covers: the header of TCP or UDP. The
    /// checksum covers all bytes from there on.
    pub checksum_start: u16,
    /// Bytes from there to the checksum: 16 in TCP, 6 in UDP.
    pub checksum_offset: u16,
    /// How the packet is to be cut: NETMEM_GSO_TCP4, NETMEM_GSO_TCP6, NETMEM_GSO_UDP, or NETMEM_GSO_NONE (0) if it is one
    /// segment. The checksum of a packet that is to be cut is open too.
    pub gso: u32,
    /// Bytes of payload in each segment but the last. 0 if the packet is one segment.
    pub gso_size: u32,
    /// Must be 0.
    pub reserved: [u32; 4],
}

/// The kinds of segments, at their values in `netmem.h`.
const KINDS: [(u32, GsoKind); 3] = [(1, GsoKind::TcpV4), (2, GsoKind::TcpV6), (3, GsoKind::Udp)];

/// Reads an offload of the program.
///
/// # Errors
/// A field has a value that it cannot have.
pub fn read(from: &netmem_offload) -> Result<Offload, Failure> {
    unreserved("netmem_offload", &from.reserved)?;
    let (start, offset) = (from.checksum_start, from.checksum_offset);
    let checksum =
        flag("netmem_offload.checksum", from.checksum)?.then_some(PartialChecksum { start, offset });
    if checksum.is_none() && (start, offset) != (0, 0) {
        return Err(Failure::invalid(
            "netmem_offload.checksum is 0, and checksum_start or checksum_offset is not: give checksum = 1 for an open checksum",
        ));
    }
    let gso = read_gso(from.gso, from.gso_size)?;
    Ok(Offload { checksum, gso })
}

/// Reads how a packet is to be cut.
///
/// # Errors
/// An unknown kind, which is named before its size, or a size that does not fit the kind.
fn read_gso(kind: u32, size: u32) -> Result<Option<Gso>, Failure> {
    let known = KINDS.iter().find(|(value, _)| *value == kind).map(|(_, kind)| *kind);
    if known.is_none() && kind != 0 {
        let text = format!("netmem_offload.gso is {kind}: give one of NETMEM_GSO_NONE to NETMEM_GSO_UDP");
        return Err(Failure::invalid(text));
    }
    let size = u16::try_from(size).map_err(|_| {
        Failure::invalid(format!("netmem_offload.gso_size is {size}: a segment has at most 65535 bytes"))
    })?;
    match (known, NonZeroU16::new(size)) {
        (None, None) => Ok(None),
        (None, Some(size)) => {
            let text = format!(
                "netmem_offload.gso_size is {size}, and gso is NETMEM_GSO_NONE: give the kind of segments"
            );
            Err(Failure::invalid(text))
        }
        (Some(_), None) => Err(Failure::invalid("netmem_offload.gso_size is 0: the segments would be empty")),
        (Some(kind), Some(size)) => Ok(Some(Gso { kind, size })),
    }
}

impl netmem_offload {
    /// Returns the offload as C sees it.
    fn of(offload: Offload) -> netmem_offload {
        let PartialChecksum { start, offset } =
            offload.checksum.unwrap_or(PartialChecksum { start: 0, offset: 0 });
        let gso = offload.gso.and_then(|gso| {
            let known = KINDS.iter().find(|(_, kind)| *kind == gso.kind);
            known.map(|(value, _)| (*value, gso.size.get().into()))
        });
        let (gso, gso_size) = gso.unwrap_or((0, 0));
        netmem_offload {
            checksum: offload.checksum.is_some().into(),
            checksum_start: start,
            checksum_offset: offset,
            gso,
            gso_size,
            reserved: [0; 4],
        }
    }
}

/// Writes an offload to its place. Returns whether there is any.
pub fn got(offload: Option<Offload>, to: &mut netmem_offload) -> c_int {
    *to = netmem_offload::of(offload.unwrap_or_default());
    offload.is_some().into()
}

/// Checks that the checksum of an offload lies in a packet of `len` bytes.
///
/// # Errors
/// It lies outside. A port would never send such a packet.
pub fn within(offload: Offload, len: usize, call: &str) -> Result<Offload, Failure> {
    match offload.checksum {
        Some(PartialChecksum { start, offset }) if usize::from(start) + usize::from(offset) + 2 > len => {
            Err(Failure::invalid(format!(
                "{call}: a checksum at byte {start} + {offset} of a packet of {len} bytes lies outside of it"
            )))
        }
        _ => Ok(offload),
    }
}

/// Completes the open checksum of a packet in `bytes`. Returns whether there was one.
///
/// # Errors
/// The packet is to be cut, or its end was cut off with the checksum.
pub fn finish(offload: Option<Offload>, bytes: &mut [u8], call: &str) -> Result<bool, Failure> {
    match offload.unwrap_or_default() {
        Offload { gso: Some(_), .. } => Err(Failure::invalid(format!(
            "{call}: the packet is to be cut into segments, each of which has a checksum: call netmem_cut_segments, for a raw frame netmem_raw_cut_segments"
        ))),
        Offload { checksum: Some(checksum), .. } => {
            checksum.finish(bytes).map_err(|error| Failure::invalid(format!("{call}: {error}")))?;
            Ok(true)
        }
        Offload { checksum: None, .. } => Ok(false),
    }
}

/// Sets the offload of a frame.
///
/// # Errors
/// The checksum lies outside of the data, or there is no room.
pub fn set_of_frame(frame: &mut Frame, offload: Offload, call: &str) -> Result<c_int, Failure> {
    let offload = within(offload, frame.len(), call)?;
    frame.set_offload(offload).map_err(|error| Failure::no_room(call, error))?;
    Ok(0)
}

/// Completes the open checksum of a frame. Returns 1 if there was one, and otherwise 0.
///
/// # Errors
/// Those of [`finish`].
pub fn finish_frame(frame: &mut Frame, call: &str) -> Result<c_int, Failure> {
    let was_open = finish(frame.offload(), frame.data_mut(), call)?;
    // Removes what is left of an offload whose headers are gone, too.
    frame.set_offload(Offload::default()).map_err(|error| Failure::no_room(call, error))?;
    Ok(was_open.into())
}

/// The result of a call: what was refused before `work`, or what `work` returned.
pub fn said(result: Result<Result<c_int, Failure>, c_int>) -> c_int {
    result.map_or_else(|errno| errno, |done| done.unwrap_or_else(Failure::record))
}

/// Reads into `offload` what is left to be done to the packet in a frame. Only frames that were received from a port
/// that keeps offloads (netmem_port_keep_offloads) have one, and frames that got one by netmem_set_offload.
/// `checksum_start` counts from where the data begins now: it changes with netmem_push and netmem_pull. Data that begins
/// behind it has no offload, also after a later netmem_push.
/// Returns 1 if work is left. Returns 0 if none is; all fields are 0 then.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_get_offload_at(
    worker: netmem_worker,
    frame: netmem_frame,
    offload: *mut netmem_offload,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let (site, to) = unsafe { (Site::new(site), place("offload", offload)) };
    let to = match to {
        Ok(to) => to,
        Err(failure) => return failure.record(),
    };
    let had = frame::look((worker, frame, "netmem_get_offload", site), |frame| got(frame.offload(), to));
    had.unwrap_or_else(|errno| errno)
}

/// Sets what is left to be done to the packet in a frame, in place of what was set before. All fields 0: nothing.
/// Set it when the headers are in the frame: `checksum_start` counts from where the data begins now, and moves with
/// netmem_push and netmem_pull. A port that does not carry offloads (netmem_port_carries_offloads) never takes a frame
/// with one.
/// Returns 0, -EINVAL if a field has a value that it cannot have or the checksum lies outside of the data, or -ENOBUFS if
/// the headroom is less than the 18 bytes that the offload takes. Nothing has changed then.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_set_offload_at(
    worker: netmem_worker,
    frame: netmem_frame,
    offload: *const netmem_offload,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_set_offload";
    // SAFETY: the promise of C.
    let (site, from) = unsafe { (Site::new(site), given("offload", offload)) };
    match from.and_then(read) {
        Ok(offload) => {
            said(frame::change((worker, frame, CALL, site), |frame| Ok(set_of_frame(frame, offload, CALL))))
        }
        Err(failure) => failure.record(),
    }
}

/// Completes the checksum of the packet in a frame, if it is open, as a card would. The frame has no offload then, and
/// every port can carry it.
/// Returns 1 if the checksum was open, or 0 if nothing was left to be done. Returns -EINVAL if the packet is to be cut
/// (netmem_cut_segments), or if the checksum lies behind the end of the data. Nothing has changed then.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_finish_checksum_at(
    worker: netmem_worker,
    frame: netmem_frame,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_finish_checksum";
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    said(frame::change((worker, frame, CALL, site), |frame| Ok(finish_frame(frame, CALL))))
}
