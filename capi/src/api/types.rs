//! The types of `netmem.h`.
#![allow(non_camel_case_types)]

use crate::failure::Failure;
use std::ffi::{CStr, c_char, c_void};

/// Handle of a memory: a region of pages, and the workers that allocate from it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_memory {
    pub word: u64,
}

/// Handle of a worker of a memory. One thread at a time uses a worker.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_worker {
    pub word: u64,
}

/// Handle of a pool of frames. The worker that opened the pool is its owner.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_pool {
    pub word: u64,
}

/// Handle of a port. A port belongs to the worker that opened it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_port {
    pub word: u64,
}

/// Handle of one use of a frame. It is valid until the frame is freed (netmem_free), posted to a port
/// (netmem_port_tx, netmem_port_fill), sent through a lane, detached, or converted to a packet or a shared
/// frame.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_frame {
    pub word: u64,
}

/// Handle of a cache of objects of one size.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_cache {
    pub word: u64,
}

/// Handle of a set of size classes, which allocate any number of bytes up to 4 MiB.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_sizes {
    pub word: u64,
}

/// Handle of one use of an object of a cache, or of bytes of size classes. It is valid until
/// netmem_object_free or netmem_object_detach.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_object {
    pub word: u64,
}

/// Handle of one use of a block of pages. It is valid until netmem_page_free or netmem_page_detach.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_page {
    pub word: u64,
}

/// Handle of a cache of packet heads. A head holds the metadata of one packet, such as its flow hash.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_heads {
    pub word: u64,
}

/// Handle of one use of a packet. A packet is a head and its data, which lies in one frame or in several
/// parts. The handle is valid until the packet is freed (netmem_packet_free), posted to a port
/// (netmem_port_tx_packets), sent through a lane, detached, joined to another packet, or converted to a
/// frame.
/// Bytes of a packet are shared if another packet or a claim of a shared frame can read them too. Shared
/// bytes cannot be written.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_packet {
    pub word: u64,
}

/// Handle of a ready pool. It keeps freed packets with their head and frame together, ready for the next use.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_ready {
    pub word: u64,
}

/// Handle of a lane. A lane is a pair of rings that carry frames and packets from one worker to another.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_lane {
    pub word: u64,
}

/// Handle of one claim on a shared frame. All claims on the frame read it; none may write it. The handle is
/// valid until netmem_shared_free, netmem_shared_detach, netmem_shared_into_frame or
/// netmem_packet_from_shared.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_shared {
    pub word: u64,
}

/// A raw frame: a frame without a generation. Calls do not check raw frames. Bits 32 to 47 are the headroom
/// in bytes, bits 48 to 63 the length in bytes. A frame with an offload or a time of recording has bit 47 set,
/// and 18 bytes less of headroom than bits 32 to 46 say: netmem_raw_headroom knows. netmem_raw_get_offload and
/// netmem_raw_get_timestamp read them.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_raw {
    pub word: u64,
}

/// Options of netmem_memory_open and netmem_memory_lend. A field that is 0 selects the default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_memory_config {
    /// Bytes of pages, rounded up to a multiple of 2 MiB, or of 4 KiB with small_pages. 0: 64 MiB. All of
    /// them are allocated when the memory is opened (Linux 5.14; before, at the first use of each page).
    /// netmem_memory_lend ignores this field.
    pub bytes: u64,
    /// Maximum number of workers, 1 to 64. 0: 4.
    pub workers: u32,
    /// 1: use small pages and do not try to get huge pages. 0: try to get huge pages.
    pub small_pages: u32,
    /// 1: allocate the memory in a file that a peer process can map (netmem_memory_fd). A memif port with
    /// lend=yes needs such a memory, smaller than 4 GiB; it lends frames of the memory to its peer. The
    /// caller vouches that peers write only to frames that were handed to them. Caches, size classes and
    /// heads cannot be opened in such a memory. 0: private memory. netmem_memory_lend takes only 0.
    pub in_file: u32,
    /// Must be 0.
    pub reserved: [u32; 5],
}

/// Options of netmem_pool_open. A field that is 0 selects the default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_pool_config {
    /// Name in reports. NULL: "pool".
    pub name: *const c_char,
    /// Maximum number of frames, 1 to 4194304, rounded up to whole pages: 1 gives 2 frames of 2048 bytes. 0: 4096.
    pub frames: u32,
    /// Bytes of a frame: 2048, 4096, 8192, 16384 or 32768. 0: 2048.
    pub frame_size: u32,
    /// Maximum number of free frames in the owner's cache, 1 to 65536. 0: 512. NETMEM_NO_CACHE: no cache.
    pub cache: u32,
    /// 1: clear all bytes of a frame to 0 when the frame is allocated. 0: do not.
    pub init_on_alloc: u32,
    /// Minimum bytes before the data of an empty or received frame, for headers (netmem_push). 0: 64.
    /// NETMEM_NO_HEADROOM: none. At most `frame_size` less `data`.
    pub headroom: u32,
    /// Bytes of data that every empty frame has room for. 0: 1518 of 2048, 3584 of 4096, 7232 of 8192, 14528 of 16384,
    /// 29120 of 32768. The rest of the frame is used to begin the data of different frames at up to eight different
    /// places, which spreads them over the processor's caches: so the headroom of a default frame of 2048 bytes is 64
    /// to 512 bytes, and its tailroom 1536 to 1984. `frame_size` less `headroom`: the data of all frames begins at the
    /// same place.
    pub data: u32,
    /// Maximum number of frames that netmem_pool_resize can set, 1 to 4194304. Fewer than `frames`, as 0: `frames`.
    pub capacity: u32,
    /// Must be 0.
    pub reserved: [u32; 5],
}

/// Options of netmem_port_open. A field that is 0 selects the default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_port_config {
    /// Slots of each ring, a power of two: of a memif port 2 to 16384, of an xdp port 1 to 65536. 0: 2048.
    /// netmem_port_open returns -EINVAL for any other value.
    pub ring: u32,
    /// Must be 0.
    pub reserved: [u32; 7],
}

/// Options of netmem_heads_open. A field that is 0 selects the default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_heads_config {
    /// Name in reports. NULL: "packet_head".
    pub name: *const c_char,
    /// Maximum number of free heads that each worker keeps, 1 to 4096. 0: 128.
    pub size: u32,
    /// Heads that a worker takes in one refill, when it has no free head. 1 to `size`. 0: a quarter of
    /// `size`.
    pub refill: u32,
    /// Heads that a worker gives back in one flush, when its list of free heads is full. 1 to `size`. 0: a
    /// quarter of `size`.
    pub flush: u32,
    /// Must be 0.
    pub reserved: [u32; 5],
}

/// One part of a packet, for reading.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_part {
    /// First byte of the data.
    pub data: *const c_void,
    /// Bytes of data. A part may be empty.
    pub len: u32,
    /// In the first part: bytes before the data that netmem_packet_push can use. In other parts: 0.
    pub headroom: u16,
    /// In the last part: bytes after the data that netmem_packet_put can use. In other parts: 0.
    pub tailroom: u16,
}

/// The data of a frame, and the free bytes before and after it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_span {
    /// First byte of the data. NULL if the frame's handle was refused.
    pub data: *mut c_void,
    /// Bytes of data.
    pub len: u32,
    /// Free bytes before the data.
    pub headroom: u16,
    /// Free bytes after the data.
    pub tailroom: u16,
}

/// One counter.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_count {
    /// Name of the counter, a string that ends with a 0 byte.
    pub name: [c_char; 32],
    /// Value of the counter.
    pub value: u64,
}

/// Number of frames of a pool in each state. free + cached + ready + owned + posted + queued + returning
/// equals total as long as no thread moves a frame during the count.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_ledger {
    /// Frames that the pool has made of pages so far and still has.
    pub total: u64,
    /// Free, in the depot of the pool.
    pub free: u64,
    /// Free, in the owner's cache.
    pub cached: u64,
    /// In packets that ready pools keep.
    pub ready: u64,
    /// Allocated by the program, as frames, packets, shared frames or raw frames.
    pub owned: u64,
    /// Posted to devices: in their fill, rx, tx and completion rings.
    pub posted: u64,
    /// In lanes between workers.
    pub queued: u64,
    /// On the remote free queue: freed by another worker, and not yet taken back by the owner.
    pub returning: u64,
    /// Frames by which the two counts of posted, queued and ready frames differ, plus frames of other pools
    /// among the free frames. Normally 0.
    pub miscounted: u64,
    /// 0 in this version.
    pub reserved: [u64; 7],
}

/// Frames of a pool, or objects of a cache, that one call site allocated and that are not freed yet.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_holder {
    /// The call site as "FILE:LINE", a copy that stays valid until the process ends. NULL if the allocating call
    /// was given no call site.
    pub site: *const c_char,
    /// Number of frames, or of objects.
    pub frames: u64,
    /// 0 in this version.
    pub reserved: [u64; 2],
}

/// Returns the value behind the pointer argument named `what`.
///
/// # Errors
/// The pointer is null.
///
/// # Safety
/// Null, or a value that does not change during the call.
pub unsafe fn given<'a, T>(what: &str, pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::null(what))
}

/// Returns the place behind the pointer argument named `what`, for a result.
///
/// # Errors
/// The pointer is null.
///
/// # Safety
/// Null, or an initialised value that nothing else accesses during the call.
pub unsafe fn place<'a, T>(what: &str, pointer: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::null(what))
}

/// Checks that the reserved fields of these options are 0, so that a later version can give them a meaning.
///
/// # Errors
/// One of them is not 0.
pub fn unreserved(options: &str, reserved: &[u32]) -> Result<(), Failure> {
    match reserved.iter().position(|&word| word != 0) {
        None => Ok(()),
        Some(at) => Err(Failure::invalid(format!(
            "{options}.reserved[{at}] is {}: set all fields that the program does not use to 0",
            reserved[at]
        ))),
    }
}

/// Returns the value of an option that is 1 or 0.
///
/// # Errors
/// It is neither, so that a later version can give other values a meaning.
pub fn flag(option: &str, value: u32) -> Result<bool, Failure> {
    match value {
        0 | 1 => Ok(value == 1),
        _ => Err(Failure::invalid(format!("{option} is {value}: give 0 or 1"))),
    }
}

/// Returns a string argument. None for NULL.
///
/// # Errors
/// The string is not UTF-8.
///
/// # Safety
/// Null, or a string that ends with a 0.
pub unsafe fn string<'a>(what: &str, pointer: *const c_char) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    crate::failure::text(what, unsafe { CStr::from_ptr(pointer) }).map(Some)
}

/// Writes at most `room` of `values` to `to`. Returns the number of values, which may be larger than `room`.
///
/// # Errors
/// `to` is null, and `room` is not 0.
///
/// # Safety
/// `to` is null or has room for `room` values that nothing else accesses.
pub unsafe fn list<T>(to: *mut T, room: usize, values: impl Iterator<Item = T>) -> Result<i32, Failure> {
    if to.is_null() && room > 0 {
        return Err(Failure::null("the array"));
    }
    let mut n = 0;
    for value in values {
        if n < room {
            // SAFETY: the caller's promise.
            unsafe { to.add(n).write(value) };
        }
        n += 1;
    }
    Ok(i32::try_from(n).unwrap_or(i32::MAX))
}

impl netmem_count {
    /// Makes a counter. Cuts a name that is longer than the array.
    pub fn new(name: &str, value: u64) -> netmem_count {
        // A char in C is signed on some processors and unsigned on others.
        let mut to: [c_char; 32] = [0; 32];
        for (to, byte) in to.iter_mut().take(31).zip(name.bytes()) {
            *to = c_char::from_ne_bytes([byte]);
        }
        netmem_count { name: to, value }
    }
}
