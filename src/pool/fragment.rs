//! Fragments: frames of a pool cut into pieces that are written by a holder each.
//!
//! ```text
//!   frame   ├─ piece ─┼─── piece ───┼─ piece ─┼──── not cut yet ────┤      count = BIAS
//! ```
//! The frame's count in the frame table begins at a bias far above any number of pieces, so that giving a piece out changes
//! nothing but a number of the cutter's own; when a frame is cut up, what the pieces did not use of the bias is taken
//! back at once (page_pool's fragments). From then on the last piece to go sends the frame home; if all were gone
//! already, the cutter begins the same frame again.
//!
//! What a piece pins: its whole frame. A holder that keeps one piece of B bytes of each frame pins
//! `frame_size / B rounded up to 64` times what it was given, 32 times at most with frames of 2 KiB, 512 times with
//! frames of 32 KiB. Who lets others hold pieces for long takes small frames, or copies the bytes out.

use super::desc::{Desc, NoRoom};
use super::frame::Frame;
use super::frame_table;
use super::pool::Pool;
use super::share::{SharedFrame, release};
use crate::limits::CACHE_LINE;
use crate::page::{Left, Refs};
use crate::sync::Worker;
use crate::sys::region;
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::panic::Location;

/// Claims that a frame to be cut begins with: more than there are lines in a frame, and so far below 2^31 that pieces
/// can be shared a thousand million times.
const BIAS: u32 = 1 << 30;

/// Cuts frames of one pool into pieces.
///
/// Keeps one frame open; the frames whose pieces are out count as owned in the pool's ledger.
#[derive(Debug)]
pub struct Fragments {
    pool: Pool,
    open: Option<Open>,
}

/// The frame that is being cut.
///
/// Invariant: of the frame's claims `BIAS − pieces` are the cutter's, and nobody else has the bytes from `at` on.
#[derive(Debug)]
struct Open {
    id: NonZeroU32,
    at: usize,
    pieces: u32,
}

impl Fragments {
    /// Pieces of the frames of `pool`.
    pub fn new(pool: &Pool) -> Fragments {
        Fragments { pool: pool.clone(), open: None }
    }

    /// An empty piece with room for `bytes`, rounded up to whole lines of 64; None when that is more than a frame, or
    /// the pool has none left.
    ///
    /// # Cost
    /// No locked instruction while the open frame has room; one a frame after that.
    #[inline]
    #[track_caller]
    pub fn alloc(&mut self, w: &mut Worker, bytes: usize) -> Option<Fragment> {
        let size = self.pool.frame_size();
        if bytes > size {
            return None;
        }
        let bytes = bytes.max(1).next_multiple_of(CACHE_LINE);
        if self.open.as_ref().is_none_or(|open| size - open.at < bytes) {
            self.turn(w)?;
        }
        self.open.as_mut().map(|open| open.cut(bytes))
    }

    /// Opens the next frame: the same one again if all its pieces are gone.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn turn(&mut self, w: &mut Worker) -> Option<()> {
        // No closure: it would be the caller that a trace names.
        let frame = match self.finish() {
            Some(mut frame) => {
                if self.pool.shared.renewable == 0 {
                    frame.clear();
                }
                frame
            }
            None => self.pool.alloc(w)?,
        };
        let id = frame.into_desc().id;
        if self.pool.is_traced() {
            self.pool.shared.note(&[id.get()], Location::caller());
        }
        refs(id).begin_with(BIAS);
        self.open = Some(Open { id, at: 0, pieces: 0 });
        Some(())
    }

    /// Gives up what is not cut of the open frame; the frame, if all its pieces are gone.
    fn finish(&mut self) -> Option<Frame> {
        let open = self.open.take()?;
        match refs(open.id).release_many(BIAS - open.pieces) {
            // SAFETY: the count is at none, told to this release alone: nobody else has the frame.
            Left::Nothing => Some(unsafe { Frame::from_desc(Desc { id: open.id, off: 0, len: 0 }) }),
            Left::One | Left::Several => None,
        }
    }

    /// Gives up what is not cut of the open frame: it goes home with its last piece, or now.
    #[cold]
    pub fn flush(&mut self, w: &mut Worker) {
        if let Some(frame) = self.finish() {
            frame.free(w);
        }
    }
}

impl Open {
    #[inline]
    fn cut(&mut self, bytes: usize) -> Fragment {
        let start = self.at as u16;
        self.at += bytes;
        self.pieces += 1;
        Fragment { desc: Desc { id: self.id, off: start, len: 0 }, start, end: self.at as u16 }
    }
}

/// The data.
impl AsRef<[u8]> for Fragment {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.data()
    }
}

impl Drop for Fragments {
    #[cold]
    fn drop(&mut self) {
        drop(self.finish());
    }
}

/// The count of claims on the frame `id`, a claim on which the caller has.
#[inline(always)]
fn refs<'a>(id: NonZeroU32) -> Refs<'a> {
    // SAFETY: the caller's claim keeps the frame out, and that its frame table, until the count says that it is given up.
    unsafe { frame_table::of(id) }.refs(id)
}

/// A writable piece of a frame with one owner; the other pieces have other owners.
///
/// Twelve bytes: it carries its bounds, so that no move of its data needs a look-up. Pins its whole frame: see
/// [`Fragments`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "dropped, its claim ends by the slow way"]
pub struct Fragment {
    /// Invariant: one of the frame's claims, `start <= off`, `off + len <= end`, and nobody else has these bytes.
    desc: Desc,
    start: u16,
    end: u16,
}

impl Fragment {
    /// Process-wide number of the first 2 KiB chunk of its frame.
    pub fn id(&self) -> NonZeroU32 {
        self.desc.id
    }

    /// Bytes of data.
    #[inline(always)]
    pub fn len(&self) -> usize {
        usize::from(self.desc.len)
    }

    /// Whether there is no data.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.desc.len == 0
    }

    /// Bytes before the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        usize::from(self.desc.off - self.start)
    }

    /// Bytes after the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        usize::from(self.end - self.desc.off - self.desc.len)
    }

    /// Bytes of the whole piece: a multiple of 64.
    #[inline]
    pub fn size(&self) -> usize {
        usize::from(self.end - self.start)
    }

    /// Bytes that stay with the holder of this piece however small it is: those of its frame.
    pub fn pinned(&self) -> usize {
        // SAFETY: this piece keeps the frame out, and that its frame table.
        unsafe { frame_table::frame_size(self.desc.id) }
    }

    /// The data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: mapped while the frame is out, within the piece by the invariant of `desc`, and `&self` excludes
        // writers; memory from the system is initialised.
        unsafe { std::slice::from_raw_parts(self.address(), self.len()) }
    }

    /// The data, to write.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`; `&mut self` is the only claim on these bytes.
        unsafe { std::slice::from_raw_parts_mut(self.address(), self.len()) }
    }

    #[inline]
    fn address(&self) -> *mut u8 {
        region::address(self.desc.id.get()).wrapping_add(usize::from(self.desc.off))
    }

    /// Begins the data `n` bytes earlier.
    ///
    /// # Errors
    /// [`NoRoom`] when the headroom is smaller.
    #[inline]
    pub fn push(&mut self, n: usize) -> Result<(), NoRoom> {
        let n = NoRoom::check(n, self.headroom())?;
        self.desc.off -= n;
        self.desc.len += n;
        Ok(())
    }

    /// Begins the data `n` bytes later.
    ///
    /// # Errors
    /// [`NoRoom`] when there is less data.
    #[inline]
    pub fn pull(&mut self, n: usize) -> Result<(), NoRoom> {
        let n = NoRoom::check(n, self.len())?;
        self.desc.off += n;
        self.desc.len -= n;
        Ok(())
    }

    /// Ends the data `n` bytes later, and gives those bytes to be written: as with [`Frame::put`] they hold what an earlier
    /// use left there.
    ///
    /// # Errors
    /// [`NoRoom`] when the tailroom is smaller.
    #[inline]
    pub fn put(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        let old = self.len();
        self.desc.len += NoRoom::check(n, self.tailroom())?;
        Ok(&mut self.data_mut()[old..])
    }

    /// Cuts the data to its first `len` bytes.
    ///
    /// # Errors
    /// [`NoRoom`] when there is less data.
    #[inline]
    pub fn trim(&mut self, len: usize) -> Result<(), NoRoom> {
        self.desc.len = NoRoom::check(len, self.len())?;
        Ok(())
    }

    /// Makes the data one that can have several holders, none of whom writes; what is around it is given up.
    #[inline]
    pub fn share(self) -> SharedFrame {
        // SAFETY: the piece's claim becomes the shared one, and nobody else has its bytes.
        unsafe { SharedFrame::from_desc(ManuallyDrop::new(self).desc) }
    }

    /// Gives the piece up; its whole frame, empty, if it was the last of it, to be freed in bulk or used again.
    ///
    /// # Cost
    /// One locked instruction; none for the last.
    #[inline]
    pub fn release(self) -> Option<Frame> {
        ManuallyDrop::new(self).give_up()
    }

    /// Gives the piece up; the last one of a frame sends it home through the worker.
    #[inline]
    pub fn free(self, w: &mut Worker) {
        if let Some(frame) = self.release() {
            frame.free(w);
        }
    }

    /// Called once, at the piece's end.
    #[inline]
    fn give_up(&mut self) -> Option<Frame> {
        // SAFETY: the claim ends here; an empty view lies within any frame.
        unsafe { release(Desc { off: 0, len: 0, ..self.desc }, refs(self.desc.id)) }
    }
}

impl Drop for Fragment {
    /// As [`Fragment::free`], without a worker: the last one's frame goes home by the slow way.
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        drop(self.give_up());
    }
}
