//! Operations that copy bytes into a writable frame or into one part.

use super::data::Data;
use super::head::Head;
use super::heads::HeadCache;
use super::packet::Packet;
use crate::pool::{Frame, METADATA_LEN, Pool};
use crate::sync::{Steps, Worker};
use crate::wire::offload::Offload;
use std::mem;
use std::time::Duration;

/// Why bytes could not be copied into frames; the packet is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The pool has no frame.
    #[error("the pool has no free frame")]
    NoFrame,
    /// The bytes do not fit into one frame.
    #[error("{len} bytes to copy into a frame with room for {room}")]
    TooLong {
        /// Bytes to copy.
        len: usize,
        /// Bytes a frame of the pool has room for.
        room: usize,
    },
    /// The packet has open offload work or a timestamp, and there is no room for it before the copy's data.
    #[error(
        "{wanted} bytes of headroom wanted for the packet's offload or timestamp, where the pool's frames have {headroom}"
    )]
    NoHeadroom {
        /// Bytes of headroom that are wanted.
        wanted: usize,
        /// Bytes of headroom that a frame of the pool has.
        headroom: usize,
    },
    /// Two parts have open offload work ([`Packet::offload`]). [`Packet::set_offload`] removes both.
    #[error("two parts of the packet have open offload work, and one frame has room for one")]
    SecondOffload,
}

impl Packet {
    /// Makes all bytes writable: parts that others may read are copied into frames of `pool`.
    ///
    /// # Errors
    /// Returns [`CopyError`]; the bytes are the same, and some parts may have been copied.
    ///
    /// # Cost
    /// A look at each part, if all parts belong to this packet alone.
    #[track_caller]
    pub fn make_writable(&mut self, w: &mut Worker, pool: &Pool) -> Result<(), CopyError> {
        if self.frame().is_some() {
            return Ok(());
        }
        let (mut failed, mut steps) = (None, Steps::new());
        self.each_data_mut(|data| {
            if !data.reclaim() {
                match copied(w, pool, data.len(), [data.bytes()], (data.offload(), data.timestamp())) {
                    Ok(frame) => {
                        let before = mem::replace(data, Data::of(frame));
                        steps.run(|| before.free(w));
                    }
                    Err(error) => failed = Some(error),
                }
            }
            failed.is_none()
        });
        steps.end();
        failed.map_or(Ok(()), Err)
    }

    /// Copies as many of the packet's first bytes as `to` has room for. Returns their number.
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let mut done = 0;
        for bytes in self.segments() {
            let n = bytes.len().min(to.len() - done);
            to[done..done + n].copy_from_slice(&bytes[..n]);
            done += n;
        }
        done
    }
}

impl HeadCache {
    /// Brings all bytes into one part. If the first part is writable and has room, the bytes are appended to it.
    /// Otherwise all bytes are copied into a frame of `pool`.
    ///
    /// # Errors
    /// Returns [`CopyError`]; the packet is unchanged.
    #[track_caller]
    pub fn linearize(&self, w: &mut Worker, packet: &mut Packet, pool: &Pool) -> Result<(), CopyError> {
        if packet.is_linear() {
            return Ok(());
        }
        let len = packet.len();
        let offload = {
            let mut offloads = packet.offloads();
            let first = offloads.next();
            if offloads.next().is_some() {
                return Err(CopyError::SecondOffload);
            }
            first
        };
        let Head { data, next, .. } = packet.put_down();
        let Some(rest) = next.as_ref() else { return Ok(()) };
        let (behind, mut before) = (len.saturating_sub(data.len()), Data::NOTHING);
        if !appended(data, rest, behind, offload) {
            let segments = [data.bytes()].into_iter().chain(rest.segments());
            let frame = copied(w, pool, len, segments, (offload, data.timestamp()))?;
            before = mem::replace(data, Data::of(frame));
        }
        let rest = next.take();
        packet.pick_up();
        // Giving back memory of others runs their code, which may panic. So the packet is made whole before.
        let mut steps = Steps::new();
        steps.run(|| before.free(w));
        rest.into_iter().for_each(|rest| steps.run(|| self.free(w, rest)));
        steps.end();
        Ok(())
    }

    /// Makes a packet's bytes one frame that belongs to the packet alone. A port takes only such packets
    /// ([`HeadCache::detach`], [`InFlightHeads::detach`](super::InFlightHeads::detach)). Shared bytes, chains and
    /// memory outside frames are copied into a frame of `pool`. Returns whether bytes were copied. The packet's record
    /// stays. (In Linux: `skb_linearize_cow`.)
    ///
    /// ```
    /// # use netmem::{Batch, HeadCache, Memory, MemoryConfig, Pool, PoolConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..Default::default() })?;
    /// # let heads = HeadCache::new(&memory)?;
    /// let mut packet = heads.alloc(&mut w, &pool).ok_or("no packet")?;
    /// packet.put_slice(b"to be sent, and kept")?;
    /// let mut sent = heads.share(&mut w, &mut packet).ok_or("no head")?;
    ///
    /// let mut frames = Batch::new(); // what a port's `tx` takes
    /// assert!(heads.make_sendable(&mut w, &mut sent, &pool)?, "copied");
    /// frames.push(heads.detach(&mut w, sent).map_err(|_| "not one frame")?).map_err(|_| "full")?;
    /// assert_eq!((frames[0].data(), packet.data()), (&b"to be sent, and kept"[..], &b"to be sent, and kept"[..]));
    /// # frames.free(&mut w);
    /// # heads.free(&mut w, packet);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns [`CopyError`] if there is no frame for the copy or the bytes do not fit into one. The bytes are the
    /// same.
    ///
    /// # Cost
    /// One comparison if there is nothing to do. Otherwise a look at each part, and a copy of the bytes unless all
    /// others that shared them are gone. If the first part of a chain is writable and has room, only the bytes behind
    /// that part are copied.
    #[track_caller]
    pub fn make_sendable(&self, w: &mut Worker, packet: &mut Packet, pool: &Pool) -> Result<bool, CopyError> {
        if packet.frame().is_some() {
            return Ok(false);
        }
        let was_linear = packet.is_linear();
        self.linearize(w, packet, pool)?;
        packet.reclaim();
        if packet.frame().is_some() {
            return Ok(!was_linear);
        }
        let metadata = (packet.offload(), packet.timestamp());
        let frame = copied(w, pool, packet.len(), [packet.data()], metadata)?;
        let before = mem::replace(&mut packet.put_down().data, Data::of(frame));
        packet.pick_up();
        before.free(w);
        Ok(true)
    }
}

/// Copies `rest`, which has `len` bytes, behind the data of the first part, which then has the offload of both. Returns
/// false, and changes nothing, if the part is not writable or has no room.
fn appended(data: &mut Data, rest: &Packet, len: usize, offload: Option<Offload>) -> bool {
    let before = data.len();
    if !data.reclaim() {
        return false;
    }
    let mut grown = Grown { data, before };
    let Ok(room) = grown.data.put(len) else { return false };
    let copied = rest.copy_to(room);
    // As in `copied`.
    room[copied..].fill(0);
    let is_done =
        grown.data.offload() == offload || grown.data.set_offload(offload.unwrap_or_default()).is_ok();
    if is_done {
        grown.before += len;
    }
    is_done
}

/// A part to which bytes are copied. The owner of memory outside frames is code of others, which may panic: a drop ends
/// the data after `before` bytes, so that no old bytes of the frame stay.
struct Grown<'a> {
    data: &'a mut Data,
    before: usize,
}

impl Drop for Grown<'_> {
    fn drop(&mut self) {
        // There is that much data.
        let _ = self.data.trim(self.before);
    }
}

/// Returns a frame of `pool` with a copy of `segments`, which have `len` bytes together. Missing bytes become zeros. The
/// frame gets the given offload work and timestamp.
#[track_caller]
fn copied<'a>(
    w: &mut Worker,
    pool: &Pool,
    len: usize,
    segments: impl IntoIterator<Item = &'a [u8]>,
    (offload, timestamp): (Option<Offload>, Option<Duration>),
) -> Result<Frame, CopyError> {
    let mut frame = pool.alloc(w).ok_or(CopyError::NoFrame)?;
    let room = frame.put(len).map(drop).and_then(|()| {
        frame.set_offload(offload.unwrap_or_default())?;
        frame.set_timestamp(timestamp)
    });
    if let Err(no) = room {
        let headroom = frame.headroom();
        let has_data = frame.len() == len;
        frame.free(w);
        let error = if has_data && headroom < METADATA_LEN {
            CopyError::NoHeadroom { wanted: METADATA_LEN, headroom }
        } else {
            CopyError::TooLong { len, room: no.room as usize }
        };
        return Err(error);
    }
    let mut to = frame.data_mut();
    for bytes in segments {
        let (here, behind) = to.split_at_mut(bytes.len().min(to.len()));
        here.copy_from_slice(&bytes[..here.len()]);
        to = behind;
    }
    // The owner of memory outside frames may return fewer bytes now than when they were counted.
    to.fill(0);
    Ok(frame)
}
