//! The shared frame: one of several read-only claims on a frame.
//!
//! The claims are counted in the frame table, one count for each frame; a [`Frame`] never touches it. Only the end of
//! the last claim makes a `Frame` again, and only a `Frame` can be freed. So its type ensures that a frame is freed at
//! one reference.

use super::desc::{Desc, NoRoom};
use super::frame::Frame;
use super::frame_table;
use crate::page::{Left, Refs};
use crate::sync::Worker;
use crate::wire::offload::Offload;
use std::mem::ManuallyDrop;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

/// One of several claims on a frame: read-only, eight bytes; `Option<SharedFrame>` has eight bytes too.
///
/// [`Frame::share`] and [`Fragment::share`](super::Fragment::share) make it. Each claim has a view of its own, which it
/// can only narrow. More than 2^31 claims on one frame (cloned and forgotten) end the process, as with `Arc`.
///
/// ```
/// # use netmem::{page::{Memory, MemoryConfig}, pool::{Pool, PoolConfig}};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
/// # let mut w = memory.worker()?;
/// # let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 16, ..Default::default() })?;
/// let mut frame = pool.alloc(&mut w).ok_or("no frame")?;
/// frame.put(5)?;
/// frame.data_mut().copy_from_slice(b"hello");
/// let whole = frame.share();
/// let mut end = whole.clone();
/// end.pull(3)?;
/// assert_eq!((whole.data(), end.data(), end.is_unique()), (&b"hello"[..], &b"lo"[..], false));
/// whole.free(&mut w); // the frame stays with the other holder
/// let frame = end.into_frame().map_err(|_| "several holders")?; // and is to be written again
/// frame.free(&mut w);
/// # Ok(())
/// # }
/// ```
/// ```compile_fail,E0599
/// # fn f(mut shared: netmem::pool::SharedFrame) {
/// shared.data_mut(); // nobody writes what others read
/// # }
/// ```
#[derive(Debug, PartialEq, Eq)]
#[repr(transparent)]
#[must_use = "dropping it releases its claim on the slow path: give it back with a worker"]
pub struct SharedFrame {
    /// Invariant: one of the claims that the frame's count holds. `off` and `len` lie within bytes that no code writes
    /// as long as this claim exists.
    desc: Desc,
}

const _: () = assert!(size_of::<SharedFrame>() == 8 && size_of::<Option<SharedFrame>>() == 8);

impl Frame {
    /// Makes the frame shareable: it can have several holders, and none of them writes.
    ///
    /// # Cost
    /// A store into the frame table; no locked instruction.
    #[inline]
    pub fn share(self) -> SharedFrame {
        let shared = SharedFrame { desc: self.into_desc() };
        shared.refs().begin();
        shared
    }
}

impl SharedFrame {
    /// Makes a claim of those that the frame's count holds already.
    ///
    /// # Safety
    /// The claim has no other owner, and no code writes the bytes of `desc` as long as the claim exists.
    #[inline(always)]
    pub(super) unsafe fn from_desc(desc: Desc) -> SharedFrame {
        SharedFrame { desc }
    }

    /// Turns the claim into a word, to be kept where a `SharedFrame` cannot be: by a program in another language.
    /// [`SharedFrame::from_raw`] turns the word into a claim again. Without that call the frame is never freed.
    ///
    /// The word has the form of [`Frame::into_raw`].
    #[inline(always)]
    pub fn into_raw(self) -> NonZeroU64 {
        ManuallyDrop::new(self).desc.word()
    }

    /// Returns the claim of a word that [`SharedFrame::into_raw`] gave.
    ///
    /// ```
    /// # use netmem::{Memory, MemoryConfig, Pool, PoolConfig, SharedFrame};
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
    /// let mut frame = pool.alloc(&mut w).ok_or("no frame")?;
    /// frame.put_slice(b"kept")?;
    /// let word = frame.share().into_raw();
    /// // SAFETY: it was given a line above, and is taken once.
    /// let shared = unsafe { SharedFrame::from_raw(word) };
    /// assert_eq!((shared.data(), shared.is_unique()), (&b"kept"[..], true));
    /// shared.free(&mut w);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    /// `into_raw` gave the word, and the word is turned into a `SharedFrame` once: it is a claim.
    #[inline(always)]
    pub unsafe fn from_raw(word: NonZeroU64) -> SharedFrame {
        // SAFETY: the lower half of such a word is the number of a chunk, and no chunk has the number 0.
        let id = unsafe { NonZeroU32::new_unchecked(word.get() as u32) };
        let desc = Desc { id, off: (word.get() >> 32) as u16, len: (word.get() >> 48) as u16 };
        // SAFETY: the caller's promise.
        unsafe { SharedFrame::from_desc(desc) }
    }

    /// The frame's count.
    #[inline(always)]
    fn refs(&self) -> Refs<'_> {
        // SAFETY: this claim keeps the frame out for as long as it is borrowed, and the frame keeps its frame table.
        unsafe { frame_table::of(self.desc.id) }.refs(self.desc.id)
    }

    /// Process-wide number of the frame's first 2 KiB chunk; the same for all claims on the frame.
    #[inline(always)]
    pub fn id(&self) -> NonZeroU32 {
        self.desc.id
    }

    /// Bytes of data in this claim's view.
    #[inline(always)]
    pub fn len(&self) -> usize {
        usize::from(self.desc.len)
    }

    /// Whether the view holds no data.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.desc.len == 0
    }

    /// The data in this claim's view.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        let start = self.desc.start();
        // SAFETY: the frame is mapped while a claim on it is out. By the invariant of `desc` the bytes lie within it
        // and no code writes them; memory from the system is initialised.
        unsafe { std::slice::from_raw_parts(start, self.len()) }
    }

    /// Does the same as [`Frame::offload`] for this claim's view.
    #[inline]
    pub fn offload(&self) -> Option<Offload> {
        self.desc.offload()
    }

    /// As [`Frame::timestamp`].
    #[inline]
    pub fn timestamp(&self) -> Option<Duration> {
        self.desc.timestamp()
    }

    /// Begins this claim's view `n` bytes later.
    ///
    /// # Errors
    /// [`NoRoom`] if there is less data.
    #[inline]
    pub fn pull(&mut self, n: usize) -> Result<(), NoRoom> {
        let n = NoRoom::check(n, self.len())?;
        let Desc { id, off, len } = self.desc;
        self.desc = Desc { id, off: off + n, len: len - n };
        Ok(())
    }

    /// Cuts this claim's view to its first `len` bytes.
    ///
    /// # Errors
    /// [`NoRoom`] if there is less data.
    #[inline]
    pub fn trim(&mut self, len: usize) -> Result<(), NoRoom> {
        let len = NoRoom::check(len, self.len())?;
        self.desc.len = len;
        Ok(())
    }

    /// Bytes that this claim pins, independent of the size of its view: those of the frame.
    pub fn pinned(&self) -> usize {
        // SAFETY: this claim keeps the frame out, and the frame keeps its frame table.
        unsafe { frame_table::frame_size(self.desc.id) }
    }

    /// The number of claims on the frame at this moment. Pieces of the frame that [`Fragments`](super::Fragments) may
    /// still give out count too.
    pub fn holders(&self) -> u32 {
        self.refs().count()
    }

    /// Whether this is the only claim. If so, no thread can make another one.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.holders() == 1
    }

    /// Returns the frame itself, for writing, if this is the only claim on it. Its data is this claim's view.
    ///
    /// # Errors
    /// The claim, if there are others.
    ///
    /// # Cost
    /// One locked instruction.
    #[inline]
    pub fn into_frame(self) -> Result<Frame, SharedFrame> {
        if !self.refs().end() {
            return Err(self);
        }
        // SAFETY: the count went from one, this claim, to none: no other code has the frame.
        Ok(unsafe { Frame::from_desc(ManuallyDrop::new(self).desc) })
    }

    /// Gives this claim up. Returns the frame itself if this was the last claim, to be freed in bulk or used again.
    ///
    /// # Cost
    /// One locked instruction; none if this is the only claim.
    #[inline]
    #[must_use = "dropping the frame of the last claim frees it on the slow path"]
    pub fn release(self) -> Option<Frame> {
        ManuallyDrop::new(self).give_up()
    }

    /// Gives this claim up. The last claim frees the frame through the worker.
    ///
    /// # Cost
    /// As [`SharedFrame::release`], and for the last one as [`Frame::free`].
    #[inline]
    pub fn free(self, w: &mut Worker) {
        if let Some(frame) = self.release() {
            frame.free(w);
        }
    }

    /// Called once, at the end of the claim.
    #[inline]
    fn give_up(&mut self) -> Option<Frame> {
        // SAFETY: the claim ends here, and its view lies within the frame.
        unsafe { release(self.desc, self.refs()) }
    }
}

/// Gives up one of the claims that `refs` counts on a frame. Returns the frame with the view of `desc` if the claim was
/// the last.
///
/// # Safety
/// The claim ends with this call, and the bytes that `desc` names lie within the frame.
#[inline]
pub(super) unsafe fn release(desc: Desc, refs: Refs<'_>) -> Option<Frame> {
    match refs.release() {
        // SAFETY: the count is at none and only this release was told so: no other code has the frame.
        Left::Nothing => Some(unsafe { Frame::from_desc(desc) }),
        Left::One | Left::Several => None,
    }
}

impl Clone for SharedFrame {
    /// Makes another claim with the same view.
    ///
    /// # Cost
    /// One locked instruction.
    #[inline]
    fn clone(&self) -> Self {
        self.refs().clone_claim();
        SharedFrame { desc: self.desc }
    }
}

/// The data.
impl AsRef<[u8]> for SharedFrame {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.data()
    }
}

impl Drop for SharedFrame {
    /// Does the same as [`SharedFrame::free`] without a worker: the last claim frees its frame the slower way.
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        drop(self.give_up());
    }
}
