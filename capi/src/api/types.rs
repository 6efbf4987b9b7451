//! The types of `netmem.h`.
#![allow(non_camel_case_types)]

use crate::failure::Failure;
use std::ffi::{CStr, c_char, c_void};

/// A memory: pages, and the workers that may take them. 0 in `word` is none, here and in the other handles.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_memory {
    pub word: u64,
}

/// A worker of a memory, for one thread at a time.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_worker {
    pub word: u64,
}

/// A pool of frames.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_pool {
    pub word: u64,
}

/// A port of a worker.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_port {
    pub word: u64,
}

/// A frame, and the use it was given out for. It is good until that use ends: by netmem_free, by netmem_port_tx.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_frame {
    pub word: u64,
}

/// A cache of objects of one size.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_cache {
    pub word: u64,
}

/// Size classes: bytes of any number.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_sizes {
    pub word: u64,
}

/// An object of a cache, or bytes of size classes, and the use that it was given out for. It is good until netmem_object_free.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_object {
    pub word: u64,
}

/// A block of pages, and the use that it was given out for. It is good until netmem_page_free.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_page {
    pub word: u64,
}

/// Heads for packets: of each packet what is known of it beside its bytes.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_heads {
    pub word: u64,
}

/// A packet: a head, and bytes in one frame or in several parts; and the use that it was given out for. It is good until that use ends: by
/// netmem_packet_free, by netmem_port_tx_packets.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_packet {
    pub word: u64,
}

/// A ready pool: packets whose head and frame stay together from one use to the next.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_ready {
    pub word: u64,
}

/// A lane: rings by which frames and packets go from one worker to another.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_lane {
    pub word: u64,
}

/// One of several claims on a frame, which none of them writes, and the use that it was given out for. It is good until netmem_shared_free.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_shared {
    pub word: u64,
}

/// A frame without a generation: nothing that is done with it is checked. Bits 32 to 47 are its headroom, 48 to 63 its length.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_raw {
    pub word: u64,
}

/// How a memory is made. What is 0 is as usual.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_memory_config {
    /// Bytes of pages, rounded up to 2 MiB; 0: 64 MiB.
    pub bytes: u64,
    /// Workers at most, to 64; 0: 4.
    pub workers: u32,
    /// 1: small pages, without a try to have huge ones.
    pub small_pages: u32,
    /// 1: in a file that a peer process can map (netmem_memory_fd). Ports hand its frames to the peers they are told to lend to: a memif port with
    /// lend=yes wants such a memory, of less than 4 GiB.
    pub in_file: u32,
    /// 0.
    pub reserved: [u32; 5],
}

/// How a pool is made. What is 0 is as usual.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_pool_config {
    /// What it is called in reports; NULL: "pool".
    pub name: *const c_char,
    /// Frames at most; 0: 4096.
    pub frames: u32,
    /// Bytes of a frame: 2048, 4096, 8192, 16384 or 32768; 0: 2048.
    pub frame_size: u32,
    /// Frames that its worker keeps at hand; 0: 512. To have none, NETMEM_NONE.
    pub cache: u32,
    /// 1: all bytes of a frame are 0 when it is given out.
    pub cleared: u32,
    /// 0.
    pub reserved: [u32; 8],
}

/// How a port is opened. What is 0 is as usual.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_port_config {
    /// Places of each ring, a power of two (else -EINVAL); 0: 2048.
    pub ring: u32,
    /// 0.
    pub reserved: [u32; 7],
}

/// How heads are made. What is 0 is as usual.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_heads_config {
    /// What they are called in reports; NULL: "packet_head".
    pub name: *const c_char,
    /// Free heads that each worker has at hand at most, 1 to 4096; 0: 128.
    pub size: u32,
    /// Heads that a worker gets at once when it has none, 1 to size; 0: a quarter of size.
    pub refill: u32,
    /// Heads that a worker gives back at once when it has too many, 1 to size; 0: a quarter of size.
    pub flush: u32,
    /// 0.
    pub reserved: [u32; 5],
}

/// One part of a packet, to be read.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_part {
    /// The first byte.
    pub data: *const c_void,
    /// Bytes of data; some parts may have none.
    pub len: u32,
    /// Of the first part, bytes before it that netmem_packet_push can take; 0 of others.
    pub headroom: u16,
    /// Of the last part, bytes after it that netmem_packet_put can take; 0 of others.
    pub tailroom: u16,
}

/// A frame's data, and the room around it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_span {
    /// The first byte; NULL where the word was refused.
    pub data: *mut c_void,
    /// Bytes of data.
    pub len: u32,
    /// Bytes before it.
    pub headroom: u16,
    /// Bytes after it.
    pub tailroom: u16,
}

/// A counter.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_count {
    /// Its name, ended by 0.
    pub name: [c_char; 32],
    pub value: u64,
}

/// Where a pool's frames are: free + cached + ready + owned + posted + queued + returning is total while nobody moves one.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_ledger {
    pub total: u64,
    pub free: u64,
    pub cached: u64,
    pub ready: u64,
    /// With the program.
    pub owned: u64,
    /// With devices.
    pub posted: u64,
    pub queued: u64,
    pub returning: u64,
    pub astray: u64,
}

/// Frames, or objects of a cache, that were given out at one place of the program and have not come back.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_holder {
    /// Where, as "FILE:LINE"; NULL where that was before netmem_trace(1).
    pub site: *const c_char,
    /// How many.
    pub frames: u64,
}

/// What stands behind a pointer that is given as an argument.
///
/// # Errors
/// It is null.
///
/// # Safety
/// Null, or a value that nobody changes meanwhile.
pub unsafe fn given<'a, T>(what: &str, pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::null(what))
}

/// Where a result goes.
///
/// # Errors
/// It is null.
///
/// # Safety
/// Null, or room for a value that is the call's meanwhile, and that is initialised.
pub unsafe fn place<'a, T>(what: &str, pointer: *mut T) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::null(what))
}

/// A string that is given as an argument; None for null.
///
/// # Errors
/// It is not UTF-8.
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

/// Writes as many of `values` as there is room for; how many there are.
///
/// # Safety
/// `room` values at `to`, which may be null where `room` is 0, are the call's.
pub unsafe fn list<T>(to: *mut T, room: usize, values: impl Iterator<Item = T>) -> i32 {
    let mut n = 0;
    for value in values {
        if n < room && !to.is_null() {
            // SAFETY: the caller's promise.
            unsafe { to.add(n).write(value) };
        }
        n += 1;
    }
    i32::try_from(n).unwrap_or(i32::MAX)
}

impl netmem_count {
    /// With this name, cut to what there is room for.
    pub fn new(name: &str, value: u64) -> netmem_count {
        // A char of C has a sign on some processors and none on others.
        let mut to: [c_char; 32] = [0; 32];
        for (to, byte) in to.iter_mut().take(31).zip(name.bytes()) {
            *to = c_char::from_ne_bytes([byte]);
        }
        netmem_count { name: to, value }
    }
}
