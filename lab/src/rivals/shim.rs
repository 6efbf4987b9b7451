//! The border to the C loops: the only `unsafe` of the rivals.

use std::ffi::{CStr, c_char, c_int, c_void};

// Its build compiles mimalloc; the loops in C call it.
use libmimalloc_sys as _;

use super::{Held, Rival};

pub(super) const RIVALS: &[Rival] = &[
    Rival { name: "glibc", version: glibc_version, single: glibc_single, bulk: glibc_bulk },
    Rival { name: "mimalloc", version: mimalloc_version, single: mimalloc_single, bulk: mimalloc_bulk },
];

unsafe extern "C" {
    safe fn rival_glibc_single(bytes: usize, touched: c_int, ops: u64) -> u64;
    safe fn rival_mimalloc_single(bytes: usize, touched: c_int, ops: u64) -> u64;
    /// `held` must have room for `count` pointers.
    fn rival_glibc_bulk(held: *mut *mut c_void, count: usize, bytes: usize, touched: c_int, ops: u64) -> u64;
    /// `held` must have room for `count` pointers.
    fn rival_mimalloc_bulk(
        held: *mut *mut c_void,
        count: usize,
        bytes: usize,
        touched: c_int,
        ops: u64,
    ) -> u64;
    safe fn rival_glibc_version() -> *const c_char;
    safe fn rival_mimalloc_version() -> c_int;
}

fn glibc_single(bytes: usize, touch: bool, ops: u32) -> u64 {
    rival_glibc_single(bytes, touch.into(), ops.into())
}

fn mimalloc_single(bytes: usize, touch: bool, ops: u32) -> u64 {
    rival_mimalloc_single(bytes, touch.into(), ops.into())
}

fn glibc_bulk(Held(held): &mut Held, bytes: usize, touch: bool, ops: u32) -> u64 {
    // SAFETY: `held` has as many places as are said; the loop frees every block that it allocated.
    unsafe { rival_glibc_bulk(held.as_mut_ptr(), held.len(), bytes, touch.into(), ops.into()) }
}

fn mimalloc_bulk(Held(held): &mut Held, bytes: usize, touch: bool, ops: u32) -> u64 {
    // SAFETY: as above.
    unsafe { rival_mimalloc_bulk(held.as_mut_ptr(), held.len(), bytes, touch.into(), ops.into()) }
}

fn glibc_version() -> String {
    // SAFETY: the C library gives a static string that ends in a NUL.
    unsafe { CStr::from_ptr(rival_glibc_version()) }.to_string_lossy().into_owned()
}

/// 30106 is 3.1.6, as mimalloc counts since its version 2.2; before, 218 was 2.1.8.
fn mimalloc_version() -> String {
    let version = rival_mimalloc_version();
    let step = if version < 10_000 { 10 } else { 100 };
    format!("{}.{}.{}", version / step / step, version / step % step, version % step)
}
