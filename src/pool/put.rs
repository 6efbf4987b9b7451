//! Adds data behind a frame's data without exposing an old byte.

use super::desc::NoRoom;
use super::frame::Frame;
use super::frame_table;
use crate::limits::CHUNK_SIZE;

impl Frame {
    /// Does the same as [`Frame::put`] with bytes that are all 0.
    ///
    /// # Errors
    /// [`NoRoom`] if the tailroom is smaller; nothing has changed then.
    ///
    /// # Cost
    /// That of [`Frame::put`], and `n` bytes written.
    ///
    /// ```
    /// # use netmem::{page::{Memory, MemoryConfig}, pool::{Pool, PoolConfig}};
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
    /// let mut frame = pool.alloc(&mut w).ok_or("no frame")?;
    /// frame.put_slice(b"the last packet")?;
    /// frame.free(&mut w);
    ///
    /// let mut frame = pool.alloc(&mut w).ok_or("no frame")?; // the same one again
    /// assert_eq!(frame.put(4)?, b"the ", "what was there before: to be written before it is sent");
    /// assert_eq!(frame.put_zeroed(11)?, [0; 11]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn put_zeroed(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        let tail = self.put(n)?;
        tail.fill(0);
        Ok(tail)
    }

    /// As [`Frame::put`], if the frame has no data and the bytes lie in its first chunk. Otherwise returns None, and nothing has
    /// changed.
    ///
    /// ```
    /// # use netmem::{page::{Memory, MemoryConfig}, pool::{Pool, PoolConfig}};
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
    /// let mut frame = pool.alloc(&mut w).ok_or("no frame")?;
    /// frame.put_first(2).ok_or("no room")?.copy_from_slice(b"ab");
    /// assert_eq!(frame.data(), b"ab");
    /// assert!(frame.put_first(1).is_none(), "it has data");
    /// frame.free(&mut w);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cost
    /// No call, so that a loop over frames keeps what it needs in registers.
    #[inline(always)]
    pub fn put_first(&mut self, n: usize) -> Option<&mut [u8]> {
        // The condition of the fast half of `put`.
        let is_first = n <= CHUNK_SIZE && self.word() >> 32 <= (CHUNK_SIZE - n) as u64;
        if is_first { self.put(n).ok() } else { None }
    }

    /// Puts a copy of `bytes` behind the data.
    ///
    /// # Errors
    /// [`NoRoom`] if the tailroom is smaller; nothing has changed then.
    #[inline]
    pub fn put_slice(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        self.put(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// As [`Frame::put`], for a port that copies a packet into the frame. If the packet is too long to lie behind the frame's
    /// colour, its data begins earlier, down to the pool's headroom. Data that is there already moves.
    ///
    /// # Errors
    /// [`NoRoom`] if there is not enough room either, or the data has an offload or a timestamp before it; nothing has changed
    /// then.
    #[cold]
    #[inline(never)]
    pub(crate) fn put_earlier(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        let (len, room, spare) = (self.len(), self.tailroom(), self.spare());
        if let Some(lack) = n.checked_sub(room).filter(|&lack| 0 < lack && lack <= spare) {
            self.push(lack)?;
            self.data_mut().copy_within(lack.., 0);
            self.trim(len)?;
        }
        self.put(n)
    }

    /// Makes the data the bytes that it was when it began at `off` and had `len` bytes, without an offload or a timestamp.
    ///
    /// # Errors
    /// [`NoRoom`] if the frame ends before; nothing has changed then.
    #[cold]
    pub(crate) fn restore(&mut self, off: usize, len: usize) -> Result<(), NoRoom> {
        NoRoom::check(off + len, self.size())?;
        self.begin_at(off as u32);
        self.put(len).map(drop)
    }

    /// Puts as many bytes as [`Frame::put_earlier`] has room for, and returns them for writing.
    #[inline(never)]
    pub(crate) fn put_all(&mut self) -> &mut [u8] {
        let room = self.tailroom() + self.spare();
        // There is that much room.
        self.put_earlier(room).unwrap_or_default()
    }

    /// Number of bytes by which the data can begin earlier, and leave the pool's headroom.
    fn spare(&self) -> usize {
        let spare = self.headroom().saturating_sub(frame_table::least_headroom(self));
        if self.is_empty() || self.is_bare() { spare } else { 0 }
    }

    /// Writes 0 into every byte of the frame, also around its data.
    #[cold]
    pub(super) fn clear(&mut self) {
        let (headroom, len) = (self.headroom(), self.len());
        // They cannot fail, because they ask for the room that there is.
        let _ = self.push(headroom);
        let _ = self.put(self.tailroom());
        self.data_mut().fill(0);
        let _ = self.pull(headroom);
        let _ = self.trim(len);
    }
}

/// The data.
impl AsRef<[u8]> for Frame {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.data()
    }
}

/// The data, for writing.
impl AsMut<[u8]> for Frame {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self.data_mut()
    }
}
