//! Runs a program on a frame that was not received.

use super::bpf;
use rustix::io::Errno;
use std::cell::UnsafeCell;
use std::os::fd::{AsRawFd, OwnedFd};

const BPF_PROG_TEST_RUN: libc::c_int = 10;

/// Runs `program` on `frame` (14 bytes at least) `count` times (0 counts as 1). Returns the last verdict.
///
/// Source: `union bpf_attr`, `test`, of `linux/bpf.h`.
pub(super) fn test_run(program: &OwnedFd, frame: &[u8], count: u32) -> Result<u32, Errno> {
    #[repr(C)]
    #[derive(Default)]
    struct TestRun {
        prog_fd: u32,
        retval: u32,
        data_size_in: u32,
        data_size_out: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
        contexts: [u64; 3],
        flags: u32,
        cpu: u32,
        batch_size: u32,
        padding: u32,
    }
    // In a cell: the kernel writes its answer into the attributes.
    let attributes = UnsafeCell::new(TestRun {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: frame.len() as u32,
        data_in: frame.as_ptr().expose_provenance() as u64,
        repeat: count,
        ..TestRun::default()
    });
    // SAFETY: the attributes have the layout that the command requires, and may be written to; the frame outlives the
    // call, which only reads it.
    unsafe { bpf(BPF_PROG_TEST_RUN, &attributes) }?;
    Ok(attributes.into_inner().retval)
}
