//! Fragments: frames of a pool that are cut into pieces. Each piece has one holder, which writes it.
//!
//! ```text
//!   frame   ├─ piece ─┼─── piece ───┼─ piece ─┼──── not cut yet ────┤      count = BIAS
//! ```
//! The frame's count in the frame table begins at a bias far above any number of pieces. So giving a piece out changes
//! only a number of the cutter. When a frame is cut up, the unused rest of the bias is taken back at once (page_pool's
//! fragments). From then on, the release of the last piece frees the frame. If all pieces are gone already, the cutter
//! begins the same frame again. Exception: a frame that must pass its pool first, for example because its page is to
//! leave, is freed, and another one is allocated.
//!
//! A piece pins its whole frame. A holder that keeps one piece of B bytes of each frame pins `frame_size / B rounded up
//! to 64` times the bytes that it was given: at most 32 times with frames of 2 KiB, and 512 times with frames of 32
//! KiB. If holders keep pieces for long, use small frames, or copy the bytes out.

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

/// The claims that a frame has when cutting begins. They are more than there are lines in a frame, and so far below
/// 2^31 that pieces can be shared a thousand million times.
const BIAS: u32 = 1 << 30;

/// Cuts frames of one pool into pieces.
///
/// It keeps one frame open. Frames whose pieces are out count as owned in the pool's ledger.
#[derive(Debug)]
pub struct Fragments {
    pool: Pool,
    open: Option<Open>,
}

/// The frame that is being cut.
///
/// Invariant: of the frame's claims, `BIAS − pieces` belong to the cutter, and no other code has the bytes from `at`
/// on.
#[derive(Debug)]
struct Open {
    id: NonZeroU32,
    at: usize,
    pieces: u32,
}

impl Fragments {
    /// Makes a cutter for the frames of `pool`.
    pub fn new(pool: &Pool) -> Fragments {
        Fragments { pool: pool.clone(), open: None }
    }

    /// Allocates an empty piece with room for `bytes`, rounded up to whole lines of 64. Returns None if that is more
    /// than a frame, or if the pool has no frame left. A cutter of a closed pool still gives out the rest of its open
    /// frame, and no other frame.
    ///
    /// # Cost
    /// No locked instruction while the open frame has room; then one for each frame.
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

    /// Opens the next frame: the same one again if all its pieces are gone, and it need not pass the pool.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn turn(&mut self, w: &mut Worker) -> Option<()> {
        // No closure here: a trace would name the closure as the caller.
        let frame = match self.finish() {
            Some(frame) if self.pool.shared.is_renewable() => frame,
            finished => {
                if let Some(frame) = finished {
                    frame.free(w);
                }
                self.pool.alloc(w)?
            }
        };
        let id = frame.into_desc().id;
        refs(id).begin_with(BIAS);
        self.open = Some(Open { id, at: 0, pieces: 0 });
        Some(())
    }

    /// Gives up the uncut rest of the open frame. Returns the frame if all its pieces are gone.
    fn finish(&mut self) -> Option<Frame> {
        let open = self.open.take()?;
        match refs(open.id).release_many(BIAS - open.pieces) {
            // SAFETY: the count is at none and only this release was told so: no other code has the frame.
            Left::Nothing => Some(unsafe { Frame::from_desc(Desc { id: open.id, off: 0, len: 0 }) }),
            Left::One | Left::Several => None,
        }
    }

    /// Gives up the uncut rest of the open frame. The frame is freed with its last piece, or now if there is none.
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

/// The count of claims on the frame `id`. The caller has a claim on it.
#[inline(always)]
fn refs<'a>(id: NonZeroU32) -> Refs<'a> {
    // SAFETY: the caller's claim keeps the frame out until the count says that it is given up, and the frame keeps its
    // frame table.
    unsafe { frame_table::of(id) }.refs(id)
}

/// A writable piece of a frame with one owner; the other pieces have other owners.
///
/// Twelve bytes: it carries its bounds, so that no move of its data needs a look-up. It pins its whole frame: see
/// [`Fragments`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "dropping it releases its claim on the slow path: give it back with a worker"]
pub struct Fragment {
    /// Invariant: one of the frame's claims, `start <= off`, `off + len <= end`, and no other code has these bytes.
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

    /// Bytes that this piece pins, independent of its size: those of its whole frame.
    pub fn pinned(&self) -> usize {
        // SAFETY: this piece keeps the frame out, and the frame keeps its frame table.
        unsafe { frame_table::frame_size(self.desc.id) }
    }

    /// The data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: mapped while the frame is out, within the piece by the invariant of `desc`, and `&self` excludes
        // writers; memory from the system is initialised.
        unsafe { std::slice::from_raw_parts(self.address(), self.len()) }
    }

    /// The data, for writing.
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
    /// [`NoRoom`] if the headroom is smaller.
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
    /// [`NoRoom`] if there is less data.
    #[inline]
    pub fn pull(&mut self, n: usize) -> Result<(), NoRoom> {
        let n = NoRoom::check(n, self.len())?;
        self.desc.off += n;
        self.desc.len -= n;
        Ok(())
    }

    /// Extends the data by `n` bytes at its end, and returns these bytes for writing. As with [`Frame::put`], they hold
    /// old contents of an earlier use.
    ///
    /// # Errors
    /// [`NoRoom`] if the tailroom is smaller.
    #[inline]
    pub fn put(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        let old = self.len();
        self.desc.len += NoRoom::check(n, self.tailroom())?;
        Ok(&mut self.data_mut()[old..])
    }

    /// Cuts the data to its first `len` bytes.
    ///
    /// # Errors
    /// [`NoRoom`] if there is less data.
    #[inline]
    pub fn trim(&mut self, len: usize) -> Result<(), NoRoom> {
        self.desc.len = NoRoom::check(len, self.len())?;
        Ok(())
    }

    /// Makes the data shareable: it can have several holders, and none of them writes. The headroom and tailroom are
    /// given up.
    #[inline]
    pub fn share(self) -> SharedFrame {
        // SAFETY: the piece's claim becomes the shared one, and no other code has its bytes.
        unsafe { SharedFrame::from_desc(ManuallyDrop::new(self).desc) }
    }

    /// Gives the piece up. If it was the last piece of its frame, returns the whole frame, empty, to be freed in bulk
    /// or used again.
    ///
    /// # Cost
    /// One locked instruction; none for the last.
    #[inline]
    #[must_use = "dropping the frame of the last piece frees it on the slow path"]
    pub fn release(self) -> Option<Frame> {
        ManuallyDrop::new(self).give_up()
    }

    /// Gives the piece up. The last piece of a frame frees the frame through the worker.
    #[inline]
    pub fn free(self, w: &mut Worker) {
        if let Some(frame) = self.release() {
            frame.free(w);
        }
    }

    /// Called once, at the end of the piece.
    #[inline]
    fn give_up(&mut self) -> Option<Frame> {
        // SAFETY: the claim ends here; an empty view lies within any frame.
        unsafe { release(Desc { off: 0, len: 0, ..self.desc }, refs(self.desc.id)) }
    }
}

impl Drop for Fragment {
    /// Does the same as [`Fragment::free`] without a worker: the last piece frees its frame the slower way.
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        drop(self.give_up());
    }
}
