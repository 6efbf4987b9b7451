//! Takes single frames, or selected frames, out of a batch.

use super::Batch;
use crate::pool::frame::Frame;
use crate::sync::Worker;
use std::slice;

impl Batch {
    /// Takes the frames out for which `pick` returns true. Both these frames and the remaining frames keep their order.
    /// Both batches know their pool if this one did.
    ///
    /// # Panics
    /// If `pick` panics. The frames that `pick` has seen by then are freed.
    ///
    /// # Cost
    /// Sixteen bytes copied for each frame.
    ///
    /// ```
    /// # use netmem::{page::{Memory, MemoryConfig}, pool::{Batch, Pool, PoolConfig}};
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
    /// let mut frames = Batch::new();
    /// pool.alloc_burst(&mut w, &mut frames, 8);
    /// for (i, frame) in frames.iter_mut().enumerate() {
    ///     frame.put_slice(&[i as u8])?;
    /// }
    /// let odd = frames.extract(|frame| frame.data()[0] % 2 == 1); // to go elsewhere
    /// assert_eq!((odd.len(), odd[0].data()), (4, &[1][..]));
    /// frames.retain(&mut w, |frame| frame.data()[0] > 0); // the others are freed, in bulk
    /// assert_eq!(frames.pop_front().ok_or("none")?.data(), [2]);
    /// let rest: Vec<u8> = frames.into_iter().map(|frame| frame.data()[0]).collect();
    /// assert_eq!(rest, [4, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "dropping the frames that were taken out frees them on the slow path"]
    pub fn extract(&mut self, mut pick: impl FnMut(&Frame) -> bool) -> Batch {
        let (mut picked, mut rest) = (Batch::new(), Batch::new());
        let mut drain = self.drain();
        while let Some(frame) = drain.as_slice().first() {
            let to = if pick(frame) { &mut picked } else { &mut rest };
            drain.move_to(to, 1);
        }
        drop(drain);
        self.append(&mut rest);
        picked
    }

    /// Keeps the frames for which `keep` returns true, in order, and frees the others in bulk.
    ///
    /// # Panics
    /// As [`Batch::extract`].
    ///
    /// # Cost
    /// That of [`Batch::extract`] and of [`Batch::free`].
    pub fn retain(&mut self, w: &mut Worker, mut keep: impl FnMut(&Frame) -> bool) {
        self.extract(|frame| !keep(frame)).free(w);
    }

    /// Takes the oldest frame.
    ///
    /// # Cost
    /// The others move up by one slot: [`Batch::drain`] is the form for many frames.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Frame> {
        self.drain().next()
    }
}

/// The frames of a batch, oldest first. Frames that are not taken are freed without a worker.
#[derive(Debug)]
pub struct IntoFrames(
    /// Newest first.
    Batch,
);

impl Iterator for IntoFrames {
    type Item = Frame;

    #[inline]
    fn next(&mut self) -> Option<Frame> {
        self.0.pop()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}

impl ExactSizeIterator for IntoFrames {}

impl IntoIterator for Batch {
    type Item = Frame;
    type IntoIter = IntoFrames;

    fn into_iter(mut self) -> IntoFrames {
        self.reverse();
        IntoFrames(self)
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a Frame;
    type IntoIter = slice::Iter<'a, Frame>;

    #[inline]
    fn into_iter(self) -> slice::Iter<'a, Frame> {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Batch {
    type Item = &'a mut Frame;
    type IntoIter = slice::IterMut<'a, Frame>;

    #[inline]
    fn into_iter(self) -> slice::IterMut<'a, Frame> {
        self.iter_mut()
    }
}
