//! Where the bytes of one part of a packet are.

use super::external::External;
use crate::pool::{Fragment, Frame, NoRoom, SharedFrame};
use crate::sync::Worker;
use crate::wire::offload::Offload;
use std::mem;
use std::time::Duration;

/// Where the bytes of one part of a packet are.
///
/// COLD: a packet carries a frame that has all its bytes, and asks here only about others.
#[derive(Debug)]
pub(super) enum Data {
    /// In a frame that is the part's alone. None is [`Data::NOTHING`].
    Frame(Option<Frame>),
    /// In a frame that others read too, each with a view of its own.
    Shared(SharedFrame),
    /// In a piece of a frame that is the part's alone.
    Fragment(Fragment),
    /// In memory that is not ours, which others may read too.
    External(External),
}

impl Data {
    /// Nowhere: the head is no packet's.
    pub(super) const NOTHING: Data = Data::Frame(None);

    /// In a frame.
    #[inline(always)]
    pub(super) fn of(frame: Frame) -> Data {
        Data::Frame(Some(frame))
    }

    /// Takes it, and leaves nothing.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Data {
        mem::replace(self, Data::NOTHING)
    }

    /// The frame, where the part has it for itself alone.
    #[inline]
    pub(super) fn own_frame(&self) -> Option<&Frame> {
        match self {
            Data::Frame(frame) => frame.as_ref(),
            Data::Shared(_) | Data::Fragment(_) | Data::External(_) => None,
        }
    }

    /// Sends the bytes home through the worker.
    pub(super) fn free(self, w: &mut Worker) {
        match self {
            Data::Frame(None) => {}
            Data::Frame(Some(frame)) => frame.free(w),
            Data::Shared(shared) => shared.free(w),
            Data::Fragment(fragment) => fragment.free(w),
            Data::External(external) => drop(external),
        }
    }

    /// A second holder of the same bytes; neither writes them from now on.
    pub(super) fn share(&mut self) -> Data {
        let shared = match self.take() {
            Data::Frame(Some(frame)) => Data::Shared(frame.share()),
            Data::Fragment(fragment) => Data::Shared(fragment.share()),
            shared => shared,
        };
        let second = match &shared {
            Data::Shared(shared) => Data::Shared(shared.clone()),
            Data::External(external) => Data::External(external.clone()),
            _ => Data::NOTHING,
        };
        *self = shared;
        second
    }

    /// Takes a shared frame back for itself alone, if the other holders are gone; whether the bytes are its alone now.
    pub(super) fn reclaim(&mut self) -> bool {
        if let Data::Shared(_) = self
            && let Data::Shared(shared) = self.take()
        {
            *self = shared.into_frame().map_or_else(Data::Shared, Data::of);
        }
        matches!(self, Data::Frame(Some(_)) | Data::Fragment(_))
    }

    /// Bytes of memory that cannot be used for anything else while this part is held.
    pub(super) fn pinned(&self) -> usize {
        match self {
            Data::Frame(None) => 0,
            Data::Frame(Some(frame)) => frame.size(),
            Data::Shared(shared) => shared.pinned(),
            Data::Fragment(fragment) => fragment.pinned(),
            Data::External(external) => external.pinned(),
        }
    }

    #[cold]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Data::Frame(None) => &[],
            Data::Frame(Some(frame)) => frame.data(),
            Data::Shared(shared) => shared.data(),
            Data::Fragment(fragment) => fragment.data(),
            Data::External(external) => external.data(),
        }
    }

    /// The bytes, to write, if they are known to be seen by nobody else ([`Data::reclaim`]).
    pub(super) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Data::Frame(Some(frame)) => Some(frame.data_mut()),
            Data::Fragment(fragment) => Some(fragment.data_mut()),
            _ => None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes().len()
    }

    /// What is left to be done to the bytes, where they are in a frame.
    #[cold]
    pub(super) fn offload(&self) -> Option<Offload> {
        match self {
            Data::Frame(Some(frame)) => frame.offload(),
            Data::Shared(shared) => shared.offload(),
            Data::Frame(None) | Data::Fragment(_) | Data::External(_) => None,
        }
    }

    /// When they were recorded, where they are in a frame that says so.
    #[cold]
    pub(super) fn timestamp(&self) -> Option<Duration> {
        match self {
            Data::Frame(Some(frame)) => frame.timestamp(),
            Data::Shared(shared) => shared.timestamp(),
            Data::Frame(None) | Data::Fragment(_) | Data::External(_) => None,
        }
    }

    #[cold]
    pub(super) fn headroom(&self) -> usize {
        match self {
            Data::Frame(Some(frame)) => frame.headroom(),
            Data::Fragment(fragment) => fragment.headroom(),
            Data::Frame(None) | Data::Shared(_) | Data::External(_) => 0,
        }
    }

    #[cold]
    pub(super) fn tailroom(&self) -> usize {
        match self {
            Data::Frame(Some(frame)) => frame.tailroom(),
            Data::Fragment(fragment) => fragment.tailroom(),
            Data::Frame(None) | Data::Shared(_) | Data::External(_) => 0,
        }
    }

    #[cold]
    pub(super) fn push(&mut self, n: usize) -> Result<(), NoRoom> {
        match self {
            Data::Frame(Some(frame)) => frame.push(n),
            Data::Fragment(fragment) => fragment.push(n),
            Data::Frame(None) | Data::Shared(_) | Data::External(_) => nothing_but(n),
        }
    }

    pub(super) fn pull(&mut self, n: usize) -> Result<(), NoRoom> {
        match self {
            Data::Frame(None) => nothing_but(n),
            Data::Frame(Some(frame)) => frame.pull(n),
            Data::Shared(shared) => shared.pull(n),
            Data::Fragment(fragment) => fragment.pull(n),
            Data::External(external) => external.pull(n),
        }
    }

    pub(super) fn put(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        match self {
            Data::Frame(Some(frame)) => frame.put(n),
            Data::Fragment(fragment) => fragment.put(n),
            Data::Frame(None) | Data::Shared(_) | Data::External(_) => nothing_but(n).map(|()| &mut [][..]),
        }
    }

    pub(super) fn trim(&mut self, len: usize) -> Result<(), NoRoom> {
        match self {
            Data::Frame(None) => nothing_but(len),
            Data::Frame(Some(frame)) => frame.trim(len),
            Data::Shared(shared) => shared.trim(len),
            Data::Fragment(fragment) => fragment.trim(len),
            Data::External(external) => external.trim(len),
        }
    }
}

/// Where there is no room at all, nothing fits but no bytes.
fn nothing_but(wanted: usize) -> Result<(), NoRoom> {
    within(wanted, 0).map(drop)
}

/// `wanted`, if there is that much room.
pub(super) fn within(wanted: usize, room: usize) -> Result<usize, NoRoom> {
    if wanted > room { Err(NoRoom::of(wanted, room)) } else { Ok(wanted) }
}
