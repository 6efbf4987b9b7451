//! Where a device receives into: the bytes of empty frames, without the frames.

#[cfg(any(feature = "af-packet", feature = "tap"))]
use crate::pool::METADATA_LEN;
use crate::pool::{Frame, NoRoom};
#[cfg(any(feature = "af-packet", feature = "tap"))]
use crate::wire::ethernet::TAG_LEN;
use crate::wire::offload::Offload;
use std::time::Duration;

/// The empty frames that a [`Device`](super::Device) may receive into, oldest first. Their bytes are the device's for as long
/// as a call lasts; the frames stay with the port.
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
/// No frame can be taken out, nor one of another pool put in:
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

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one at `i`.
    #[inline]
    pub fn get(&mut self, i: usize) -> Option<RxBuffer<'_>> {
        self.0.get_mut(i).map(RxBuffer)
    }

    /// All of them, for a device that receives several packets by one call.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = RxBuffer<'_>> {
        self.0.iter_mut().map(RxBuffer)
    }

    /// Exchanges two with what is in them: so what was received and is not wanted comes behind what is.
    ///
    /// # Panics
    /// If there are not as many.
    #[inline]
    pub fn swap(&mut self, one: usize, other: usize) {
        self.0.swap(one, other);
    }
}

/// The buffer of one frame; the port receives the bytes that are put there.
#[derive(Debug)]
pub struct RxBuffer<'a>(&'a mut Frame);

impl<'a> RxBuffer<'a> {
    /// Bytes of data.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes there is room for behind the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.0.tailroom()
    }

    /// The data.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.0.data_mut()
    }

    /// As [`Frame::put`]: ends the data `n` bytes later, and gives those bytes to be written.
    ///
    /// # Errors
    /// [`NoRoom`] when there is no room for them.
    #[inline]
    pub fn put(&mut self, n: usize) -> Result<&mut [u8], NoRoom> {
        self.0.put(n)
    }

    /// All the room there is, made data, to be written; [`RxBuffer::trim`] says how much of it was.
    #[inline]
    pub fn whole(self) -> &'a mut [u8] {
        let room = self.0.tailroom();
        // There is as much.
        self.0.put(room).unwrap_or_default()
    }

    /// As [`Frame::push`]: begins the data `n` bytes earlier.
    ///
    /// # Errors
    /// [`NoRoom`] when there is no room for them.
    #[inline]
    pub fn push(&mut self, n: usize) -> Result<(), NoRoom> {
        self.0.push(n)
    }

    /// As [`Frame::pull`]: begins the data `n` bytes later.
    ///
    /// # Errors
    /// [`NoRoom`] when there is less data.
    #[inline]
    pub fn pull(&mut self, n: usize) -> Result<(), NoRoom> {
        self.0.pull(n)
    }

    /// As [`Frame::trim`]: cuts the data to its first `len` bytes.
    ///
    /// # Errors
    /// [`NoRoom`] when there is less data.
    #[inline]
    pub fn trim(&mut self, len: usize) -> Result<(), NoRoom> {
        self.0.trim(len)
    }

    /// As [`Frame::set_offload`]: says what is left to be done to the data.
    ///
    /// # Errors
    /// [`NoRoom`] where the headroom has no room for it.
    pub fn set_offload(&mut self, offload: Offload) -> Result<(), NoRoom> {
        self.0.set_offload(offload)
    }

    /// As [`Frame::set_timestamp`]: says when the data was recorded.
    ///
    /// # Errors
    /// [`NoRoom`] where the headroom has no room for it.
    pub fn set_timestamp(&mut self, timestamp: Option<Duration>) -> Result<(), NoRoom> {
        self.0.set_timestamp(timestamp)
    }

    /// Whether there is headroom for an offload, with a VLAN tag before the data.
    #[cfg(any(feature = "af-packet", feature = "tap"))]
    pub(crate) fn has_room_for_offload(&self) -> bool {
        self.0.headroom() >= METADATA_LEN + TAG_LEN
    }
}
