//! The location of the bytes of one part of a packet.

use super::external::External;
use crate::pool::{Fragment, Frame, METADATA_LEN, NoRoom, SharedFrame};
use crate::sync::Worker;
use crate::wire::offload::Offload;
use std::mem;
use std::time::Duration;

/// The location of the bytes of one part of a packet.
///
/// COLD: a packet carries the frame that has all its bytes. The head is asked only if the bytes are elsewhere.
#[derive(Debug)]
pub(super) enum Data {
    /// In a frame that belongs to the part alone. None is [`Data::NOTHING`].
    Frame(Option<Frame>),
    /// In a frame that others read too, each with its own view.
    Shared(SharedFrame),
    /// In a piece of a frame; the piece belongs to the part alone.
    Fragment(Fragment),
    /// In memory that does not belong to netmem, which others may read too.
    External(External),
}

impl Data {
    /// Nowhere: the head belongs to no packet.
    pub(super) const NOTHING: Data = Data::Frame(None);

    /// In a frame.
    #[inline(always)]
    pub(super) fn of(frame: Frame) -> Data {
        Data::Frame(Some(frame))
    }

    /// Takes the data and leaves nothing.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Data {
        mem::replace(self, Data::NOTHING)
    }

    /// Returns the frame, if it belongs to the part alone.
    #[inline]
    pub(super) fn own_frame(&self) -> Option<&Frame> {
        match self {
            Data::Frame(frame) => frame.as_ref(),
            Data::Shared(_) | Data::Fragment(_) | Data::External(_) => None,
        }
    }

    /// Frees the bytes through the worker.
    pub(super) fn free(self, w: &mut Worker) {
        match self {
            Data::Frame(None) => {}
            Data::Frame(Some(frame)) => frame.free(w),
            Data::Shared(shared) => shared.free(w),
            Data::Fragment(fragment) => fragment.free(w),
            Data::External(external) => drop(external),
        }
    }

    /// Returns a second claim on the same bytes. From now on neither holder writes them.
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

    /// Takes a shared frame back as its only holder, if the other holders are gone. Returns whether the bytes are now
    /// unshared.
    pub(super) fn reclaim(&mut self) -> bool {
        if let Data::Shared(_) = self
            && let Data::Shared(shared) = self.take()
        {
            *self = shared.into_frame().map_or_else(Data::Shared, Data::of);
        }
        matches!(self, Data::Frame(Some(_)) | Data::Fragment(_))
    }

    /// Bytes of memory that cannot be used for another purpose while this part is held.
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

    /// Returns the bytes for writing, if it is known that nobody else sees them ([`Data::reclaim`]).
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

    /// Returns the open offload work of the bytes, if they are in a frame.
    #[cold]
    pub(super) fn offload(&self) -> Option<Offload> {
        match self {
            Data::Frame(Some(frame)) => frame.offload(),
            Data::Shared(shared) => shared.offload(),
            Data::Frame(None) | Data::Fragment(_) | Data::External(_) => None,
        }
    }

    /// Sets the open offload work of the bytes.
    ///
    /// # Errors
    /// [`NoRoom`] if others may read the bytes, if they are not in a frame, or as [`Frame::set_offload`].
    #[cold]
    pub(super) fn set_offload(&mut self, offload: Offload) -> Result<(), NoRoom> {
        match self {
            Data::Frame(Some(frame)) => frame.set_offload(offload),
            _ if self.offload().is_none() && offload.is_none() => Ok(()),
            _ => nothing_but(METADATA_LEN),
        }
    }

    /// Returns the timestamp of the bytes, if they are in a frame that has one.
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

/// If there is no room at all, only zero bytes fit.
fn nothing_but(wanted: usize) -> Result<(), NoRoom> {
    within(wanted, 0).map(drop)
}

/// Returns `wanted`, if there is that much room.
pub(super) fn within(wanted: usize, room: usize) -> Result<usize, NoRoom> {
    if wanted > room { Err(NoRoom::of(wanted, room)) } else { Ok(wanted) }
}
