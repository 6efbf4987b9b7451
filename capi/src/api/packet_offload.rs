//! COLD: the calls of `offload.rs` for packets.

use super::offload::{finish, got, netmem_offload, read, said, within};
use super::packet::not_one_frame;
use super::packet_data::{change, look};
use super::types::{given, netmem_packet, netmem_worker, place};
use crate::errno::EBUSY;
use crate::failure::Failure;
use crate::sites::Site;
use netmem::Packet;
use netmem::wire::offload::Offload;
use std::ffi::{c_char, c_int};

fn set_of_packet(packet: &mut Packet, offload: Offload, call: &str) -> Result<c_int, Failure> {
    let offload = within(offload, packet.len(), call)?;
    if packet.data_mut().is_none() {
        let text = format!(
            "{call}: others read these bytes too: call netmem_packet_make_writable, which copies them"
        );
        return Err(Failure::new(EBUSY, text));
    }
    packet.set_offload(offload).map_err(|error| Failure::no_room(call, error))?;
    Ok(0)
}

/// None if the packet has several parts, or others read its bytes.
fn finish_packet(packet: &mut Packet, call: &str) -> Option<Result<c_int, Failure>> {
    let (offload, is_linear) = (packet.offload(), packet.is_linear());
    let bytes = packet.data_mut().filter(|_| is_linear)?;
    let done = finish(offload, bytes, call).and_then(|was_open| {
        packet.set_offload(Offload::default()).map_err(|error| Failure::no_room(call, error))?;
        Ok(was_open.into())
    });
    Some(done)
}

/// Does for a packet what netmem_get_offload does for a frame. The offload is that of the first part that has one, and
/// `checksum_start` counts from the first byte of the packet.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_get_offload_at(
    worker: netmem_worker,
    packet: netmem_packet,
    offload: *mut netmem_offload,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let (site, to) = unsafe { (Site::new(site), place("offload", offload)) };
    let to = match to {
        Ok(to) => to,
        Err(failure) => return failure.record(),
    };
    let call = "netmem_packet_get_offload";
    let had = look((worker, packet, call, site), |packet| got(packet.offload(), to));
    had.unwrap_or_else(|errno| errno)
}

/// Does for a packet what netmem_set_offload does for a frame. The offload is stored with the first part, and
/// `checksum_start` counts from its first byte. The other parts have none then.
/// Returns 0, -EINVAL or -ENOBUFS as netmem_set_offload, or -EBUSY if the bytes of the first part are shared
/// (netmem_packet_make_writable). Returns -ENOBUFS too if the bytes of another part with an offload are shared.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_set_offload_at(
    worker: netmem_worker,
    packet: netmem_packet,
    offload: *const netmem_offload,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_packet_set_offload";
    // SAFETY: the promise of C.
    let (site, from) = unsafe { (Site::new(site), given("offload", offload)) };
    match from.and_then(read) {
        Ok(offload) => {
            said(change((worker, packet, CALL, site), |packet| Ok(set_of_packet(packet, offload, CALL))))
        }
        Err(failure) => failure.record(),
    }
}

/// Does for a packet what netmem_finish_checksum does for a frame.
/// Returns 1, 0 or -EINVAL as netmem_finish_checksum, or -EBUSY if the packet has several parts or its bytes are shared:
/// netmem_packet_make_sendable makes one frame of it.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_finish_checksum_at(
    worker: netmem_worker,
    packet: netmem_packet,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_packet_finish_checksum";
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let done = change((worker, packet, CALL, site), |packet| Ok(finish_packet(packet, CALL)));
    match done {
        Ok(Some(done)) => done.unwrap_or_else(Failure::record),
        Ok(None) => not_one_frame(CALL),
        Err(errno) => errno,
    }
}
