//! Where a packet's bytes are.

use crate::pool::{Frame, NoRoom};
use crate::sync::Worker;
use std::mem;

/// Where a packet's bytes are.
#[derive(Debug)]
pub(super) enum Data {
    /// Nowhere: the head is no packet's.
    Nothing,
    /// In a frame that is the packet's alone.
    Frame(Frame),
}

impl Data {
    /// Takes it, and leaves nothing.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Data {
        mem::replace(self, Data::Nothing)
    }

    /// Sends the bytes home through the worker.
    pub(super) fn free(self, w: &mut Worker) {
        match self {
            Data::Nothing => {}
            Data::Frame(frame) => frame.free(w),
        }
    }

    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Data::Nothing => &[],
            Data::Frame(frame) => frame.data(),
        }
    }

    /// The bytes, to write, if nobody else can see them.
    #[inline(always)]
    pub(super) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Data::Nothing => None,
            Data::Frame(frame) => Some(frame.data_mut()),
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        match self {
            Data::Nothing => 0,
            Data::Frame(frame) => frame.len(),
        }
    }

    #[inline]
    pub(super) fn headroom(&self) -> usize {
        match self {
            Data::Nothing => 0,
            Data::Frame(frame) => frame.headroom(),
        }
    }

    #[inline]
    pub(super) fn tailroom(&self) -> usize {
        match self {
            Data::Nothing => 0,
            Data::Frame(frame) => frame.tailroom(),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, n: usize) -> Result<(), NoRoom> {
        match self {
            Data::Nothing => none(n),
            Data::Frame(frame) => frame.push(n),
        }
    }

    #[inline]
    pub(super) fn pull(&mut self, n: usize) -> Result<(), NoRoom> {
        match self {
            Data::Nothing => none(n),
            Data::Frame(frame) => frame.pull(n),
        }
    }

    #[inline]
    pub(super) fn put(&mut self, n: usize) -> Result<(), NoRoom> {
        match self {
            Data::Nothing => none(n),
            Data::Frame(frame) => frame.put(n),
        }
    }

    #[inline]
    pub(super) fn trim(&mut self, len: usize) -> Result<(), NoRoom> {
        match self {
            Data::Nothing => none(len),
            Data::Frame(frame) => frame.trim(len),
        }
    }
}

/// Where there is no room at all, only nothing fits.
fn none(wanted: usize) -> Result<(), NoRoom> {
    if wanted == 0 { Ok(()) } else { Err(NoRoom { wanted, room: 0 }) }
}
