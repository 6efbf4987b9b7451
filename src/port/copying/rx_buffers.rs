//! The buffers that a device receives into: the bytes of empty frames, without the frames.

#[cfg(any(feature = "af-packet", feature = "tap", feature = "pcap"))]
use crate::pool::METADATA_LEN;
use crate::pool::{Frame, NoRoom};
#[cfg(any(feature = "af-packet", feature = "tap"))]
use crate::wire::ethernet::TAG_LEN;
use crate::wire::offload::Offload;
use std::time::Duration;

/// The empty frames that a [`Device`](super::Device) may receive into, oldest first. The device has their bytes for the
/// time of a call. The frames stay with the port.
///
/// ```
/// use netmem::port::copying::RxBuffers;
///
/// /// Receives as many packets as there are, and have room.
/// fn receive(packets: &mut Vec<Vec<u8>>, rooms: &mut RxBuffers<'_>) -> usize {
///     let mut n = 0;
///     while let (Some(mut room), Some(packet)) = (rooms.get(n), packets.pop()) {
///         if let Ok(bytes) = room.put(packet.len()) {
///             bytes.copy_from_slice(&packet);
///             n += 1;
///         }
///     }
///     n
/// }
/// ```
/// No frame can be taken out, and no frame of another pool can be put in:
/// ```compile_fail,E0308
/// # use netmem::{pool::Frame, port::copying::RxBuffers};
/// fn receive(rooms: &mut RxBuffers<'_>, mine: &mut Frame) -> usize {
///     std::mem::swap(&mut rooms.get(0).unwrap(), mine);
///     1
/// }
/// ```
#[derive(Debug)]
pub struct RxBuffers<'a>(&'a mut [Frame]);

impl<'a> RxBuffers<'a> {
    pub(crate) fn of(frames: &'a mut [Frame]) -> RxBuffers<'a> {
        RxBuffers(frames)
    }

    /// Number of buffers.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no buffers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The buffer at `i`.
    #[inline]
    pub fn get(&mut self, i: usize) -> Option<RxBuffer<'_>> {
        self.0.get_mut(i).map(RxBuffer)
    }

    /// All buffers, for a device that receives several packets in one call.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = RxBuffer<'_>> {
        self.0.iter_mut().map(RxBuffer)
    }

    /// Exchanges two buffers together with their data. A device uses it to move received data that is not wanted behind
    /// the data that is.
    ///
    /// # Panics
    /// Panics if an index is out of range.
    #[inline]
    pub fn swap(&mut self, one: usize, other: usize) {
        self.0.swap(one, other);
    }
}

/// The buffer of one frame; the port receives the bytes that are put there.
#[derive(Debug)]
pub struct RxBuffer<'a>(&'a mut Frame);

impl<'a> RxBuffer<'a> {
    /// Number of bytes of data.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of bytes of room behind the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.0.tailroom()
    }

    /// The data.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.0.data_mut()
    }

    /// As [`Frame::put`]: moves the end of the data `n` bytes forward, and returns those bytes for writing.
    ///
    /// If there is more room before the data than the pool's headroom ([`PoolConfig::headroom`](crate::pool::PoolConfig)),
    /// because frames begin at different places, and none behind, the data begins earlier. So every empty frame of the
    /// pool has room for the same packets: its size less the headroom.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if there is no room for them.
    #[inline]
    pub fn put(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        let before = self.0.len();
        if self.0.put(n).is_err() {
            self.0.put_earlier(n)?;
        }
        Ok(self.0.data_mut().get_mut(before..).unwrap_or_default())
    }

    /// As [`RxBuffer::put`], into an empty buffer that gets a timestamp. The data begins later by what a timestamp takes, so
    /// that the headroom stays, if there is room for both.
    ///
    /// # Errors
    /// As [`RxBuffer::put`].
    #[cfg(feature = "pcap")]
    #[cold]
    #[inline(never)]
    pub(crate) fn put_for_timestamp(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        if self.put(METADATA_LEN + n).is_err() {
            return self.put(n);
        }
        self.pull(METADATA_LEN)?;
        Ok(self.0.data_mut())
    }

    /// Turns all room that [`RxBuffer::put`] has into data and returns it for writing: the same number of bytes for every
    /// empty frame of a pool, since the data begins behind the pool's headroom. [`RxBuffer::trim`] then sets how much of it
    /// was written. If nothing was, the device does not report the buffer, which needs no trimming then.
    #[inline]
    pub fn whole(self) -> &'a mut [u8] {
        self.0.put_all()
    }

    /// Turns the room behind the data into data and returns it for writing. Frames keep their different starts, so this is
    /// for devices that have memory for the rest of a packet.
    #[cfg(any(feature = "af-packet", feature = "tap"))]
    #[inline]
    pub(crate) fn behind(self) -> &'a mut [u8] {
        let room = self.0.tailroom();
        // There is that much room.
        self.0.put(room).unwrap_or_default()
    }

    /// As [`Frame::push`]: moves the start of the data `n` bytes back.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if there is no room for them.
    #[inline]
    pub fn push(&mut self, n: usize) -> Result<(), NoRoom> {
        self.0.push(n)
    }

    /// As [`Frame::pull`]: moves the start of the data `n` bytes forward.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if there is less data.
    #[inline]
    pub fn pull(&mut self, n: usize) -> Result<(), NoRoom> {
        self.0.pull(n)
    }

    /// As [`Frame::trim`]: truncates the data to its first `len` bytes.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if there is less data.
    #[inline]
    pub fn trim(&mut self, len: usize) -> Result<(), NoRoom> {
        self.0.trim(len)
    }

    /// As [`Frame::set_offload`]: sets the work that is left to be done to the data.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if the headroom is too small for it.
    pub fn set_offload(&mut self, offload: Offload) -> Result<(), NoRoom> {
        self.0.set_offload(offload)
    }

    /// As [`Frame::set_timestamp`]: sets the time when the data was recorded.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if the headroom is too small for it.
    pub fn set_timestamp(&mut self, timestamp: Option<Duration>) -> Result<(), NoRoom> {
        self.0.set_timestamp(timestamp)
    }

    /// Returns whether there is headroom for an offload, with a VLAN tag before the data.
    #[cfg(any(feature = "af-packet", feature = "tap"))]
    pub(crate) fn has_room_for_offload(&self) -> bool {
        self.0.headroom() >= METADATA_LEN + TAG_LEN
    }
}
