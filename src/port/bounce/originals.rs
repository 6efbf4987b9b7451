//! The frames whose copies a device has. Each is found by its copy.

use crate::pool::{Frame, Pool};
use crate::port::Posted;

/// One place for each chunk in which a copy may begin.
#[derive(Debug)]
pub(super) struct Originals {
    /// The number of the first chunk of the memory that holds the copies.
    first: u32,
    /// Indexed by the copy's first chunk.
    places: Box<[Option<Posted>]>,
    /// Number of originals that are kept.
    kept: usize,
}

impl Originals {
    #[cold]
    pub(super) fn new(pool: &Pool) -> Originals {
        let region = pool.memory().region();
        let places = (0..region.chunks()).map(|_| None).collect();
        Originals { first: region.first_chunk(), places, kept: 0 }
    }

    /// Number of originals that are kept.
    #[inline]
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// The place where the original of a copy is kept.
    #[inline]
    fn at(&mut self, copy: &Frame) -> Option<&mut Option<Posted>> {
        self.places.get_mut(copy.id().get().wrapping_sub(self.first) as usize)
    }

    /// Stores the original of a copy that is to be sent.
    #[inline]
    pub(super) fn keep(&mut self, copy: &Frame, original: Posted) {
        if let Some(place) = self.at(copy) {
            let is_new = place.replace(original).is_none();
            self.kept += usize::from(is_new);
        }
    }

    /// Takes the original of a copy that the device no longer has.
    #[inline]
    pub(super) fn take(&mut self, copy: &Frame) -> Option<Posted> {
        let original = self.at(copy)?.take()?;
        self.kept -= 1;
        Some(original)
    }

    /// Frees all originals: the device will give none of the copies back.
    #[cold]
    #[inline(never)]
    pub(super) fn clear(&mut self) {
        self.places.fill_with(|| None);
        self.kept = 0;
    }
}
