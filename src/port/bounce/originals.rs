//! The frames whose copies a device has, each found by its copy.

use crate::pool::{Frame, Pool};
use crate::port::Posted;

/// A place for each chunk that a copy may begin with.
#[derive(Debug)]
pub(super) struct Originals {
    /// The number of the first chunk of the memory that copies lie in.
    first: u32,
    /// By the copy's first chunk.
    places: Box<[Option<Posted>]>,
    /// How many there are.
    kept: usize,
}

impl Originals {
    #[cold]
    pub(super) fn new(pool: &Pool) -> Originals {
        let region = pool.memory().region();
        let places = (0..region.chunks()).map(|_| None).collect();
        Originals { first: region.first_chunk(), places, kept: 0 }
    }

    /// How many there are.
    #[inline]
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Where the original of a copy is kept.
    #[inline]
    fn at(&mut self, copy: &Frame) -> Option<&mut Option<Posted>> {
        self.places.get_mut(copy.id().get().wrapping_sub(self.first) as usize)
    }

    /// Keeps the original of a copy that is to be sent.
    #[inline]
    pub(super) fn keep(&mut self, copy: &Frame, original: Posted) {
        if let Some(place) = self.at(copy) {
            let is_new = place.replace(original).is_none();
            self.kept += usize::from(is_new);
        }
    }

    /// Takes the original of a copy that is not the device's any more.
    #[inline]
    pub(super) fn take(&mut self, copy: &Frame) -> Option<Posted> {
        let original = self.at(copy)?.take()?;
        self.kept -= 1;
        Some(original)
    }

    /// Sends all home: the device will give none of the copies back.
    #[cold]
    #[inline(never)]
    pub(super) fn clear(&mut self) {
        self.places.fill_with(|| None);
        self.kept = 0;
    }
}
