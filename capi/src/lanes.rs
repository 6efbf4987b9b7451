//! HOT: lanes, each from one worker to another.
//!
//! A lane is a hand-off ring of the library with one sender and one receiver: a mesh of a single worker, whose two ends
//! go to two workers. The ledgers of pools count the frames in a lane as `queued`. Packets have a ring of their own
//! (`lane_packets.rs`). Each end belongs to one worker and is closed separately.

use crate::lane_packets::{self, PacketReceiver, PacketSender, Tally};
use crate::opened::{Known, Opened};
use netmem::steer::{Inbox, Mesh, MeshConfig, MeshError, Outbox, Source};
use netmem::sync::Doorbell;
use netmem::{Batch, Frame, HeadCache, Packets, Worker};
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

/// All lanes of which at least one end is open.
pub static LANES: Opened<Arc<Lane>> = Opened::new("lane", "lanes");

/// The index of the only worker of the mesh.
const ONLY: usize = 0;

/// The part of a lane that both ends share.
pub struct Lane {
    pub mesh: Arc<Mesh>,
    /// The event that the receiver sleeps on.
    pub bell: Doorbell,
    /// The counts of its packets.
    pub tally: Tally,
    /// The receiving end, until a worker joins.
    inbox: Mutex<Option<(Inbox, PacketReceiver)>>,
    /// Frames that the close of the receiving end freed.
    freed: AtomicU64,
    sender_gone: AtomicBool,
    receiver_gone: AtomicBool,
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Sender,
    Receiver,
}

/// Why a lane cannot be made.
#[derive(Debug)]
pub enum LaneError {
    /// A number is out of range, or an event cannot be made.
    Mesh(MeshError),
    /// The event of the receiver cannot be made.
    Bell(io::Error),
    /// There is no memory for the ring of the packets.
    NoMemory,
}

/// The sending end, which its worker holds.
pub struct Sending {
    outbox: Outbox,
    pub packets: PacketSender,
    pub lane: Arc<Lane>,
}

/// The receiving end, which its worker holds.
pub struct Receiving {
    inbox: Inbox,
    pub packets: PacketReceiver,
    /// Frames that arrived beyond the number that the call asked for.
    pub received: Batch,
    pub lane: Arc<Lane>,
}

/// The ends that a worker holds, by the places of their lanes.
#[derive(Default)]
pub struct Ends {
    pub sending: Known<Sending>,
    pub receiving: Known<Receiving>,
}

impl Ends {
    /// Returns the number of ends.
    pub fn len(&self) -> usize {
        self.sending.iter().flatten().count() + self.receiving.iter().flatten().count()
    }
}

impl Lane {
    /// Returns the receiving end to the first caller, None to later ones.
    pub fn join(self: &Arc<Lane>) -> Option<Receiving> {
        let (inbox, packets) = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Receiving { inbox, packets, received: Batch::new(), lane: Arc::clone(self) })
    }

    /// Number of frames that the close of the receiving end freed. The mesh counts them as received.
    pub fn freed_at_close(&self) -> u64 {
        self.freed.load(Relaxed)
    }

    /// Whether an end was closed.
    pub fn is_gone(&self, end: End) -> bool {
        // Acquire: pairs with the Release in `leave`. The caller then sees what the sender sent before.
        self.gone(end).load(Acquire)
    }

    fn gone(&self, end: End) -> &AtomicBool {
        match end {
            End::Sender => &self.sender_gone,
            End::Receiver => &self.receiver_gone,
        }
    }

    /// Marks an end as closed. Returns whether the other end was closed before, so that nothing of the lane
    /// is left.
    fn leave(&self, end: End) -> bool {
        // If both ends leave at once, the lock decides which one is the last.
        let _alone = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        // Release: pairs with the Acquire in `is_gone`.
        self.gone(end).store(true, Release);
        self.bell.ring();
        self.is_gone(End::Sender) && self.is_gone(End::Receiver)
    }
}

impl Sending {
    /// Makes a lane for this number of frames, and as many packets. Returns its sending end.
    ///
    /// # Errors
    /// [`LaneError`].
    pub fn open(frames: u32) -> Result<Sending, LaneError> {
        let config = MeshConfig { workers: 1, inbox: frames, flows: 1, ..MeshConfig::default() };
        let (mesh, ends) = Mesh::new(&config).map_err(LaneError::Mesh)?;
        let (outboxes, inboxes): (Vec<Outbox>, Vec<Inbox>) = ends.into_iter().unzip();
        let (sender, receiver) = lane_packets::open(frames).map_err(|_| LaneError::NoMemory)?;
        let lane = Lane {
            mesh,
            tally: Tally::default(),
            bell: Doorbell::new().map_err(LaneError::Bell)?,
            inbox: Mutex::new(inboxes.into_iter().next().zip(Some(receiver))),
            freed: AtomicU64::new(0),
            sender_gone: AtomicBool::new(false),
            receiver_gone: AtomicBool::new(false),
        };
        let outbox = outboxes.into_iter().next();
        let outbox = outbox.ok_or_else(|| LaneError::Bell(io::ErrorKind::NotFound.into()))?;
        Ok(Sending { outbox, packets: sender, lane: Arc::new(lane) })
    }

    /// Returns the number of frames that the lane has room for, or None if the receiver has closed its end.
    #[inline(always)]
    pub fn room(&mut self) -> Option<usize> {
        self.outbox.has_reader(ONLY).then(|| self.outbox.room(ONLY))
    }

    /// Lists frames to be sent, for which there was room. If the receiver has closed its end since, they are freed and
    /// counted as gone. Empties `frames`.
    #[inline(always)]
    pub fn list(&mut self, w: &mut Worker, frames: &mut Batch) {
        self.outbox.hand_off_or_drop(w, ONLY, Source::default(), frames);
    }

    /// Sends the listed frames and wakes the receiver.
    #[inline(always)]
    pub fn flush(&mut self, w: &mut Worker) {
        self.outbox.flush_all(w);
        self.lane.bell.ring();
    }

    /// Returns the number of packets that the lane has room for, at most `want`, or None if the receiver has
    /// closed its end.
    #[inline(always)]
    pub fn room_for_packets(&mut self, want: usize) -> Option<usize> {
        self.outbox.has_reader(ONLY).then(|| self.packets.room(want))
    }

    /// Sends packets. There must be room for all of them, and their marks must be in `packets.marks`. Returns
    /// the number sent.
    #[inline(always)]
    pub fn send_packets(&mut self, w: &Worker, packets: &mut Packets) -> usize {
        self.packets.send(&self.lane.tally, w, packets)
    }

    /// Wakes the receiver of packets that were sent.
    #[inline(always)]
    pub fn wake(&self) {
        self.lane.bell.ring();
    }

    /// Closes the end. Returns whether nothing of the lane is left.
    pub fn close(self) -> bool {
        let Sending { outbox, packets, lane } = self;
        // The frames and packets that the receiver can no longer see are freed with them.
        drop((outbox, packets));
        lane.leave(End::Sender)
    }
}

impl Receiving {
    /// Fetches the frames that wait, if none are left of those fetched before. Returns false if there are
    /// none.
    #[inline(always)]
    fn receive(&mut self, w: &mut Worker) -> bool {
        if !self.received.is_empty() {
            return true;
        }
        self.inbox.take(w, &mut self.received).is_some()
    }

    /// Receives frames until there is no place left or no more wait, and writes what `give` makes of each to its
    /// place. Returns the number received, or None if nothing waits and the sender has closed its end.
    #[inline(always)]
    pub fn receive_all<T>(
        &mut self,
        w: &mut Worker,
        places: &mut [T],
        mut give: impl FnMut(Frame) -> T,
    ) -> Option<usize> {
        // Read first: the call then sees everything that was sent before the sender closed.
        let is_over = self.lane.is_gone(End::Sender);
        let mut got = 0;
        while got < places.len() && self.receive(w) {
            for (place, frame) in places[got..].iter_mut().zip(self.received.drain()) {
                *place = give(frame);
                got += 1;
            }
        }
        self.finish();
        let is_at_end = got == 0 && is_over && !places.is_empty() && !self.waiting();
        (!is_at_end).then_some(got)
    }

    /// Gives the room of the received frames back to the sender.
    #[inline(always)]
    fn finish(&mut self) {
        if self.received.is_empty() {
            self.inbox.finish();
        }
    }

    /// Counts the `n` packets received last as arrived. Call it after they have handles.
    #[inline(always)]
    pub fn finish_packets(&mut self, n: usize) {
        self.packets.finish(&self.lane.tally, n);
    }

    /// Whether frames or packets wait.
    pub fn waiting(&mut self) -> bool {
        !self.received.is_empty() || self.inbox.waiting() || self.packets.waiting()
    }

    /// Closes the end and frees what waits. Packets are freed to the heads that the worker has looked up; `memory` is the
    /// handle of its memory.
    /// Returns the number of frames and packets freed, and whether nothing of the lane is left.
    pub fn close(
        self,
        w: &mut Worker,
        memory: u64,
        known: &mut Known<HeadCache>,
        empty: &mut Packets,
    ) -> (u64, bool) {
        let Receiving { mut inbox, packets, mut received, lane } = self;
        let mut freed = 0;
        loop {
            freed += received.len() as u64;
            received.free(w);
            if inbox.take(w, &mut received).is_none() {
                break;
            }
        }
        lane.freed.store(freed, Relaxed);
        // From now on only a call that is already running can send packets.
        drop(inbox);
        freed += packets.close(&lane.tally, (w, memory), known, empty);
        freed += lane.mesh.stats().iter().map(|stats| stats.lost).sum::<u64>();
        (freed, lane.leave(End::Receiver))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::{Memory, MemoryConfig, Pool, PoolConfig};

    /// Seen: the frames were freed, the call said that they were sent, and no counter had them.
    #[test]
    fn frames_whose_receiver_goes_while_they_are_sent_are_counted_as_gone() {
        let config = MemoryConfig { bytes: 4 << 20, workers: 2, ..MemoryConfig::default() };
        let memory = Memory::new(&config).unwrap();
        let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
        let config = PoolConfig { frames: 256, ..PoolConfig::default() };
        let pool = Pool::new(&memory, &mut w, &config).unwrap();
        let mut sending = Sending::open(64).unwrap();
        let receiving = sending.lane.join().unwrap();
        let mut frames = Batch::new();
        assert_eq!(pool.alloc_burst(&mut w, &mut frames, 10), 10);
        assert_eq!(sending.room(), Some(64));
        receiving.close(&mut other, 1, &mut Known::new(), &mut Packets::new());
        sending.list(&mut w, &mut frames);
        sending.flush(&mut w);
        assert_eq!((frames.len(), sending.lane.mesh.stats()[0].drops.inbox_gone), (0, 10));
        assert_eq!(pool.ledger().owned, 0);
    }
}
