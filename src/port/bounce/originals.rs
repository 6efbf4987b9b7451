//! The frames whose copies a device has, each found by its copy.

use crate::limits::CHUNK_SIZE;
use crate::pool::{Frame, Pool};
use crate::port::Posted;

/// A place for each frame that the pool of the copies may have.
#[derive(Debug)]
pub(super) struct Originals {
    /// The number of the first chunk of the memory that copies lie in.
    first: u32,
    /// Chunks of a copy.
    chunks: u32,
    /// By where in the memory the copy lies.
    places: Box<[Option<Posted>]>,
}

impl Originals {
    #[cold]
    pub(super) fn new(pool: &Pool) -> Originals {
        let region = pool.memory().region();
        let chunks = (pool.frame_size() / CHUNK_SIZE) as u32;
        let places = (0..region.chunks().div_ceil(chunks)).map(|_| None).collect();
        Originals { first: region.first_chunk(), chunks, places }
    }

    /// Where the original of a copy is kept; a copy begins at a multiple of its size.
    #[inline]
    fn at(&mut self, copy: &Frame) -> Option<&mut Option<Posted>> {
        let place = copy.id().get().wrapping_sub(self.first) / self.chunks;
        self.places.get_mut(place as usize)
    }

    /// Keeps the original of a copy that is to be sent.
    #[inline]
    pub(super) fn keep(&mut self, copy: &Frame, original: Posted) {
        if let Some(place) = self.at(copy) {
            *place = Some(original);
        }
    }

    /// Takes the original of a copy that is not the device's any more.
    #[inline]
    pub(super) fn take(&mut self, copy: &Frame) -> Option<Posted> {
        self.at(copy)?.take()
    }
}
