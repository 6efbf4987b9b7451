//! The frame: eight bytes that are a claim on a piece of packet memory.
//!
//! ```text
//!   chunk start          off                off + len          frame size
//!   ├── headroom ────────┼─── data ─────────────┼── tailroom ──────┤
//! ```
//! The start of a frame's data is coloured: neighbours in memory begin 64 bytes further on. Otherwise all headers would
//! fall into two sets of the first-level cache.

use super::colour::Start;
use super::desc::{Desc, METADATA, NoRoom};
use super::frame_table;
use super::run::{RUN, starts_of_run};
use super::shared::Shared;
use crate::limits::CHUNK_SIZE;
use crate::sync::Worker;
use crate::sys::{cpu, region};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::num::{NonZeroU32, NonZeroU64};
use std::slice;

/// A frame with one owner: eight bytes, move-only; `Option<Frame>` has eight bytes too.
///
/// Give it to a port, to its pool ([`Frame::free`], in bulk [`Batch::free`](super::Batch::free)), or drop it. A dropped
/// frame is also freed, more slowly and without a leak.
///
/// ```compile_fail,E0382
/// # fn f(frame: netmem::pool::Frame, w: &mut netmem::sync::Worker) {
/// frame.free(w);
/// frame.free(w); // a frame cannot be freed twice
/// # }
/// ```
/// ```compile_fail,E0382
/// # fn f(port: &mut dyn netmem::port::Port, mut batch: netmem::pool::Batch, frame: netmem::pool::Frame,
/// #      w: &mut netmem::sync::Worker) {
/// batch.push(frame).unwrap();
/// port.tx(w, &mut batch);
/// frame.data(); // a posted frame cannot be read
/// # }
/// ```
/// ```compile_fail,E0277
/// fn copied<T: Clone>() {}
/// copied::<netmem::pool::Frame>(); // nor claimed twice
/// ```
#[derive(PartialEq, Eq)]
#[repr(transparent)]
#[must_use = "dropping it frees it to its pool on the slow path: call `free` with a worker"]
pub struct Frame {
    /// A [`Desc`] in one word: the id in the lower half, then `off`, then `len`. It is one word so that a frame stays
    /// in a register. Three fields were stored on the stack in parts, and a read of the whole waited for these stores.
    ///
    /// Invariant: a frame of a live pool, `off + len` at most its frame size, and no other claim on it. The id is not
    /// 0. With [metadata](super::metadata) there is data, which begins behind it and ends before [`METADATA`].
    pub(super) word: NonZeroU64,
}

const _: () = assert!(size_of::<Frame>() == 8 && size_of::<Option<Frame>>() == 8);

impl Frame {
    /// Claims a frame.
    ///
    /// # Safety
    /// `desc` names a frame of a pool that counts it as out. `off + len` lies within the frame, and there is no other
    /// claim on it: neither another `Frame` nor a device.
    #[inline(always)]
    pub(crate) unsafe fn from_desc(desc: Desc) -> Frame {
        Frame { word: desc.word() }
    }

    /// The contents of the frame.
    #[inline(always)]
    pub(super) fn desc(&self) -> Desc {
        let word = self.word.get();
        Desc { id: self.id(), off: (word >> 32) as u16, len: (word >> 48) as u16 }
    }

    /// Does the same as [`Frame::from_desc`] for a frame without data, whose data begins at `off`.
    ///
    /// # Safety
    /// As [`Frame::from_desc`]; `id` is not 0, and `off` below 2^16.
    #[inline(always)]
    pub(crate) unsafe fn empty(id: u32, off: u32) -> Frame {
        // SAFETY: not 0, as the caller promises; `len`, in the upper half of the upper half, is 0.
        Frame { word: unsafe { NonZeroU64::new_unchecked(u64::from(id) | u64::from(off) << 32) } }
    }

    /// Writes an empty frame for each of `ids` into as many slots.
    ///
    /// # Safety
    /// As [`Frame::empty`], for each of `ids` and the start that `start` gives it.
    #[inline(always)]
    pub(super) unsafe fn write_empty(places: &mut [MaybeUninit<Frame>], ids: &[u32], start: &Start) {
        // SAFETY: a Frame is such a word, and not 0; the rest is the caller's promise.
        let words = unsafe { slice::from_raw_parts_mut(places.as_mut_ptr().cast(), places.len()) };
        start.words.write(words, ids);
    }

    /// Writes the id of each of `frames` into as many slots.
    #[inline(always)]
    pub(super) fn write_ids(places: &mut [u32], frames: &[Frame], start: &Start) {
        // SAFETY: a Frame is its word, with the id in the lower half.
        let words = unsafe { slice::from_raw_parts(frames.as_ptr().cast(), frames.len()) };
        start.words.write_lower(places, words);
    }

    /// Gives the claim up to the code that takes the descriptor: a ring, a list.
    #[inline(always)]
    pub(crate) fn into_desc(self) -> Desc {
        ManuallyDrop::new(self).desc()
    }

    /// Turns the claim into a word, to be kept where a `Frame` cannot be: by a program in another language, in memory
    /// that is not Rust's. [`Frame::from_raw`] turns the word into a frame again. Without that call the frame is never
    /// freed.
    ///
    /// The word has the [id](Frame::id) in its lower 32 bits, the [headroom](Frame::headroom) in the next 16, and the
    /// [length](Frame::len) in the upper 16. With an [offload](Frame::set_offload) or a
    /// [timestamp](Frame::set_timestamp), only [`Frame::from_raw`] can use the bits in the middle.
    #[inline(always)]
    pub fn into_raw(self) -> NonZeroU64 {
        ManuallyDrop::new(self).word
    }

    /// Returns the frame of a word that [`Frame::into_raw`] gave.
    ///
    /// ```
    /// # use netmem::{page::{Memory, MemoryConfig}, pool::{Frame, Pool, PoolConfig}};
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
    /// let mut frame = pool.alloc(&mut w).ok_or("no frame")?;
    /// frame.put_slice(b"kept")?;
    /// let word = frame.into_raw();
    /// // SAFETY: it was given a line above, and is taken once.
    /// let frame = unsafe { Frame::from_raw(word) };
    /// assert_eq!((word.get() >> 48, frame.data()), (4, &b"kept"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    /// `into_raw` gave the word, and the word is turned into a frame once: it is a claim. Its headroom and length may
    /// differ from the original ones, if both together lie within the frame.
    #[inline(always)]
    pub unsafe fn from_raw(word: NonZeroU64) -> Frame {
        Frame { word }
    }

    /// Process-wide number of the frame's first 2 KiB chunk.
    #[inline(always)]
    pub fn id(&self) -> NonZeroU32 {
        // SAFETY: the invariant of `word`.
        unsafe { NonZeroU32::new_unchecked(self.word.get() as u32) }
    }

    /// The whole claim as a number, the id in its lower half.
    #[inline(always)]
    pub(super) fn word(&self) -> u64 {
        self.word.get()
    }

    /// Bytes of data.
    #[inline(always)]
    pub fn len(&self) -> usize {
        (self.word.get() >> 48) as usize
    }

    /// Whether there is no data.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The data.
    ///
    /// # Cost
    /// One load of the region table and the bytes' own lines.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        // SAFETY: the invariant of `word`: mapped while the frame is out, within the frame, and `&self` excludes
        // writers; memory from the system is initialised.
        unsafe { std::slice::from_raw_parts(self.start(), self.len()) }
    }

    /// The data, for writing.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`; `&mut self` is the only claim.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.len()) }
    }

    /// Prefetches the first line of data.
    #[inline(always)]
    pub fn prefetch(&self) {
        cpu::prefetch(self.start());
    }

    /// Prefetches the first line of data for writing. This fetches the line from another core in one step instead of
    /// two.
    #[inline(always)]
    pub fn prefetch_write(&self) {
        cpu::prefetch_write(self.start());
    }

    /// The address of the data's first byte.
    #[inline(always)]
    pub(super) fn start(&self) -> *mut u8 {
        self.desc().start()
    }

    /// Bytes from the chunk's start to the data; 0 for empty data at the end of the longest frame.
    #[inline(always)]
    pub(crate) fn off(&self) -> usize {
        self.desc().begins_at()
    }

    /// Bytes before the data, without those of an [offload](Frame::set_offload) and a [timestamp](Frame::set_timestamp).
    #[inline(always)]
    pub fn headroom(&self) -> usize {
        let desc = self.desc();
        if desc.off & METADATA == 0 { usize::from(desc.off) } else { desc.room_before() }
    }

    /// Whether its sender left work to be done ([`Frame::offload`]).
    #[inline(always)]
    pub fn has_offload(&self) -> bool {
        self.desc().has_offload()
    }

    /// Whether nothing but room is before the data.
    #[cold]
    pub(super) fn is_bare(&self) -> bool {
        self.desc().off & METADATA == 0
    }

    /// Bytes after the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        let desc = self.desc();
        if desc.off & METADATA == 0 { self.size() - desc.end() } else { room_beyond(desc) }
    }

    /// Bytes of the whole frame.
    ///
    /// # Cost
    /// The frame's entry in the table of pools, and that pool's size: three loads.
    #[inline]
    pub fn size(&self) -> usize {
        // SAFETY: this frame is out, and keeps its pool.
        unsafe { frame_table::frame_size(self.id()) }
    }

    /// Begins the data `n` bytes earlier, for a header in front.
    ///
    /// # Errors
    /// [`NoRoom`] if the headroom is smaller.
    #[inline]
    pub fn push(&mut self, n: usize) -> Result<(), NoRoom> {
        self.settle();
        let n = NoRoom::check(n, self.headroom())?;
        let Desc { id, off, len } = self.desc();
        self.word = Desc { id, off: off - n, len: len + n }.word();
        Ok(())
    }

    /// Begins the data `n` bytes later.
    ///
    /// # Errors
    /// [`NoRoom`] if there is less data.
    #[inline]
    pub fn pull(&mut self, n: usize) -> Result<(), NoRoom> {
        let n = NoRoom::check(n, self.len())?;
        let Desc { id, off, len } = self.desc();
        self.word = Desc { id, off: off + n, len: len - n }.word();
        Ok(())
    }

    /// Extends the data by `n` bytes at its end, and returns these bytes for writing.
    ///
    /// They hold old contents of an earlier use of the frame, for example another packet. Write all of them before the
    /// frame is sent or shown. [`Frame::put_slice`] and [`Frame::put_zeroed`] do so. In a pool with
    /// [`init_on_alloc`](super::PoolConfig::init_on_alloc) they are 0.
    ///
    /// # Errors
    /// [`NoRoom`] if the tailroom is smaller; nothing has changed then.
    ///
    /// # Cost
    /// No look-up of the frame's size while the data ends in its first chunk, which every frame has.
    #[inline(always)]
    pub fn put(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        let word = self.word.get();
        // Without data the word is only `off` and the id. So one compare checks both that there is no data and that
        // there is room.
        let (end, change) = if n <= CHUNK_SIZE && word >> 32 <= (CHUNK_SIZE - n) as u64 {
            ((word >> 32) as usize, (n as u32) << 16)
        } else {
            with_room(self.desc(), n)?
        };
        // In both cases one addition, which leaves the lower half alone. So the id is known before it, and a free does
        // not wait for it.
        self.word = changed(self.word, change);
        let tail = region::address(self.id().get()).wrapping_add(end);
        // SAFETY: as in `data_mut`, of which these are the last bytes.
        Ok(unsafe { slice::from_raw_parts_mut(tail, n) })
    }

    /// Makes the data `n` bytes long from its current start, and returns it for writing. The bytes hold old contents.
    ///
    /// # Errors
    /// [`NoRoom`] if there is less room; nothing has changed then.
    #[inline(always)]
    #[cfg(feature = "memif")]
    pub(crate) fn rewrite(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        let empty = self.word.get() << 16 >> 16;
        let (word, off) = if n <= CHUNK_SIZE && empty >> 32 <= (CHUNK_SIZE - n) as u64 {
            (empty | (n as u64) << 48, (empty >> 32) as usize)
        } else {
            let desc = rewritten(self.desc(), n)?;
            (desc.word().get(), desc.begins_at())
        };
        // SAFETY: the id, in the lower half, is unchanged.
        self.word = unsafe { NonZeroU64::new_unchecked(word) };
        let start = region::address(self.id().get()).wrapping_add(off);
        // SAFETY: as in `data_mut`.
        Ok(unsafe { slice::from_raw_parts_mut(start, n) })
    }

    /// Does the same as [`Frame::put`] for a run of frames. Returns None, and changes nothing, if a frame has data
    /// already or may have no room in its first chunk.
    #[inline(always)]
    pub(crate) fn put_run(run: [&mut Frame; RUN], n: usize) -> Option<[&mut [u8]; RUN]> {
        let starts = starts_of_run(run.each_ref().map(|frame| frame.word()), n, region::origin)?;
        for frame in run {
            frame.word = longer(frame.word, n);
        }
        // SAFETY: as in `put`, for each frame its own bytes.
        Some(starts.map(|start| unsafe { slice::from_raw_parts_mut(start, n) }))
    }

    /// Does the same as [`Frame::put_run`] for frames side by side, whose region has this origin.
    #[inline(always)]
    pub(super) fn put_row<const N: usize>(
        run: &mut [Frame; N],
        n: usize,
        origin: *mut u8,
    ) -> Option<[&mut [u8]; N]> {
        const { assert!(N.is_multiple_of(4)) };
        let starts = starts_of_run(run.each_ref().map(Frame::word), n, |_| origin)?;
        for four in run.as_chunks_mut::<4>().0 {
            let words = cpu::sums(four.each_ref().map(Frame::word), (n as u64) << 48);
            for (frame, word) in four.iter_mut().zip(words) {
                // SAFETY: as in `changed`.
                frame.word = unsafe { NonZeroU64::new_unchecked(word) };
            }
        }
        // SAFETY: as in `put_run`.
        Some(starts.map(|start| unsafe { slice::from_raw_parts_mut(start, n) }))
    }

    /// Clears the metadata bit if no metadata belongs to the data any more.
    #[inline(always)]
    fn settle(&mut self) {
        let desc = self.desc();
        if desc.off & METADATA != 0 {
            // SAFETY: the frame is out, and `&mut` makes this the only claim.
            self.word = unsafe { desc.settled_for_push() }.word();
        }
    }

    /// Cuts the data to its first `len` bytes.
    ///
    /// # Errors
    /// [`NoRoom`] if there is less data.
    #[inline]
    pub fn trim(&mut self, len: usize) -> Result<(), NoRoom> {
        let len = NoRoom::check(len, self.len())?;
        self.word = Desc { len, ..self.desc() }.word();
        Ok(())
    }

    /// Empties the frame. Its data begins at `off`, which lies within the frame.
    #[inline(always)]
    pub(super) fn begin_at(&mut self, off: u32) {
        debug_assert!(off < 1 << 16);
        self.word = NonZeroU64::from(self.id()) | u64::from(off) << 32;
    }

    /// Frees the frame through the worker: fast if the worker owns its pool.
    #[inline]
    pub fn free(self, w: &mut Worker) {
        let id = self.id();
        // SAFETY: the frame is out, and so keeps its pool, until it is kept; the claim ends here, once.
        unsafe {
            let pool = cpu::expected(frame_table::pool(id), &mut w.recent);
            if (*pool).keep_hot_one(w, id) {
                std::mem::forget(self);
            } else {
                free_missed(w, self.into_desc().id);
            }
        }
    }
}

/// The word with `n` more bytes of data. There is room for them.
#[inline(always)]
fn longer(word: NonZeroU64, n: usize) -> NonZeroU64 {
    changed(word, (n as u32) << 16)
}

/// The word with `upper` added to its upper half, which does not carry.
#[inline(always)]
fn changed(word: NonZeroU64, upper: u32) -> NonZeroU64 {
    // SAFETY: the id, in the lower half, is left alone and not 0.
    unsafe { NonZeroU64::new_unchecked(word.get().wrapping_add(u64::from(upper) << 32)) }
}

/// Frees a frame that its pool's owner could not just keep. It takes the number, so that the rest of the frame's
/// contents need not be put together.
///
/// # Safety
/// The frame is out, and the only claim on it ends with this call.
#[cold]
#[inline(never)]
pub(super) unsafe fn free_missed(w: &mut Worker, id: NonZeroU32) {
    // SAFETY: the caller's promise; an empty range lies within every frame.
    let frame = ManuallyDrop::new(unsafe { Frame::from_desc(Desc { id, off: 0, len: 0 }) });
    // SAFETY: the frame is out, and so keeps its pool, until it is put down; the claim ends here.
    unsafe { Shared::free_run(frame_table::pool(id), Some(w), slice::from_ref(&*frame)) }
}

/// The contents of a frame that is out, with `n` bytes of data from its current start.
#[cold]
#[inline(never)]
#[cfg(feature = "memif")]
fn rewritten(desc: Desc, n: usize) -> Result<Desc, NoRoom> {
    let empty = Desc { len: 0, ..desc }.plain();
    let len = NoRoom::check(n, room_beyond(empty))?;
    Ok(Desc { len, ..empty })
}

/// The end of the data of a frame that is out, if there is room for `n` bytes after it, and the addend for the upper
/// half of its word. The addend also clears the metadata bit if there is no data. By value: a frame whose address is
/// never taken stays in a register.
#[cold]
#[inline(never)]
fn with_room(desc: Desc, n: usize) -> Result<(usize, u32), NoRoom> {
    let settled = desc.settled();
    let end = settled.end();
    let more = if n <= CHUNK_SIZE && end <= CHUNK_SIZE - n {
        n as u16
    } else {
        NoRoom::check(n, room_beyond(settled))?
    };
    let longer = Desc { len: settled.len + more, ..settled };
    Ok((end, longer.upper().wrapping_sub(desc.upper())))
}

/// The tailroom of a frame that is out, also beyond its first chunk. By value, as `with_room`.
#[cold]
#[inline(never)]
fn room_beyond(desc: Desc) -> usize {
    // SAFETY: the caller has the frame, so it is out and keeps its pool.
    let size = unsafe { frame_table::frame_size(desc.id) };
    // Data with metadata ends before the metadata bit.
    let size = if desc.settled().has_metadata() { size.min(usize::from(METADATA) - 1) } else { size };
    size - desc.end()
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.desc().fmt(f)
    }
}

impl Drop for Frame {
    /// Frees the frame the slow way: no lock, no thread-local, no allocation. Exception: if the pool is closed and this
    /// was its last frame, the drop gives the pages back.
    #[inline(always)]
    fn drop(&mut self) {
        dropped(self.word);
    }
}

/// By value: a frame that would be dropped after a panic stays in a register until then.
#[cold]
#[inline(never)]
fn dropped(word: NonZeroU64) {
    let frame = ManuallyDrop::new(Frame { word });
    // SAFETY: the claim was the dropped frame's and ends here.
    unsafe { Shared::free_run(frame_table::pool(frame.id()), None, slice::from_ref(&frame)) }
}
