//! HOT: lanes, each from one worker to another.
//!
//! A lane is the library's hand-off ring of one sender and one receiver: a mesh of a single worker, whose two ends are given to two. Frames in it count as
//! `queued` in their pools' ledgers. Packets go by a ring beside it (`lane_packets.rs`). Each end belongs to the worker that has it, and is closed alone.

use crate::lane_packets::{self, PacketReceiver, PacketSender, Tally};
use crate::opened::{Known, Opened};
use netmem::steer::{Inbox, Mesh, MeshConfig, MeshError, Outbox, Source};
use netmem::sync::Doorbell;
use netmem::{Batch, HeadCache, Packets, Worker};
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, PoisonError};

/// All lanes of which an end is open.
pub static LANES: Opened<Arc<Lane>> = Opened::new("lanes", "the lane was closed, or never opened");

/// The only worker of the mesh.
const ONLY: usize = 0;

/// What both ends know of a lane.
pub struct Lane {
    pub mesh: Arc<Mesh>,
    /// What the receiver sleeps on.
    pub bell: Doorbell,
    /// Of its packets.
    pub tally: Tally,
    /// The receiving end, until a worker takes it.
    inbox: Mutex<Option<(Inbox, PacketReceiver)>>,
    sender_gone: AtomicBool,
    receiver_gone: AtomicBool,
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Sender,
    Receiver,
}

/// Why there is no lane.
#[derive(Debug)]
pub enum LaneError {
    /// A number is out of range, or there is no event to be had.
    Mesh(MeshError),
    /// There is no event to be had.
    Bell(io::Error),
}

/// The sending end, with the worker that has it.
pub struct Sending {
    outbox: Outbox,
    pub packets: PacketSender,
    pub lane: Arc<Lane>,
}

/// The receiving end, with the worker that has it.
pub struct Receiving {
    inbox: Inbox,
    pub packets: PacketReceiver,
    /// Frames that came when fewer were asked for.
    pub received: Batch,
    pub lane: Arc<Lane>,
}

/// The ends that a worker has, by the places of their lanes.
#[derive(Default)]
pub struct Ends {
    pub sending: Known<Sending>,
    pub receiving: Known<Receiving>,
}

impl Ends {
    /// How many.
    pub fn len(&self) -> usize {
        self.sending.iter().flatten().count() + self.receiving.iter().flatten().count()
    }
}

impl Lane {
    /// The receiving end, for the first that asks.
    pub fn join(self: &Arc<Lane>) -> Option<Receiving> {
        let (inbox, packets) = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Receiving { inbox, packets, received: Batch::new(), lane: Arc::clone(self) })
    }

    /// Whether an end was closed.
    pub fn is_gone(&self, end: End) -> bool {
        // Acquire: pairs with the Release in `leave`; what the sender sent before is seen.
        self.gone(end).load(Acquire)
    }

    fn gone(&self, end: End) -> &AtomicBool {
        match end {
            End::Sender => &self.sender_gone,
            End::Receiver => &self.receiver_gone,
        }
    }

    /// An end is closed; whether the other one was before, and nothing is left of the lane.
    fn leave(&self, end: End) -> bool {
        // The lock decides which of two that leave at once is the last.
        let _alone = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        // Release: pairs with the Acquire in `is_gone`.
        self.gone(end).store(true, Release);
        self.bell.ring();
        self.is_gone(End::Sender) && self.is_gone(End::Receiver)
    }
}

impl Sending {
    /// The sending end of a new lane for so many frames, and as many packets.
    ///
    /// # Errors
    /// [`LaneError`].
    pub fn open(frames: u32) -> Result<Sending, LaneError> {
        let config = MeshConfig { workers: 1, inbox: frames, flows: 1, ..MeshConfig::default() };
        let (mesh, ends) = Mesh::new(&config).map_err(LaneError::Mesh)?;
        let (outboxes, inboxes): (Vec<Outbox>, Vec<Inbox>) = ends.into_iter().unzip();
        let (sender, receiver) = lane_packets::open(frames);
        let lane = Lane {
            mesh,
            tally: Tally::default(),
            bell: Doorbell::new().map_err(LaneError::Bell)?,
            inbox: Mutex::new(inboxes.into_iter().next().zip(Some(receiver))),
            sender_gone: AtomicBool::new(false),
            receiver_gone: AtomicBool::new(false),
        };
        let outbox = outboxes.into_iter().next();
        let outbox = outbox.ok_or_else(|| LaneError::Bell(io::ErrorKind::NotFound.into()))?;
        Ok(Sending { outbox, packets: sender, lane: Arc::new(lane) })
    }

    /// Frames that the lane has room for now; None where the receiver has closed its end.
    #[inline(always)]
    pub fn room(&mut self) -> Option<usize> {
        self.outbox.has_reader(ONLY).then(|| self.outbox.room(ONLY))
    }

    /// Lists frames for which there is room; `frames` is empty then.
    #[inline(always)]
    pub fn list(&mut self, w: &mut Worker, frames: &mut Batch) {
        self.outbox.hand_off(w, ONLY, Source::default(), frames);
    }

    /// Sends what is listed, and wakes who receives it.
    #[inline(always)]
    pub fn flush(&mut self, w: &mut Worker) {
        self.outbox.flush_all(w);
        self.lane.bell.ring();
    }

    /// Packets that the lane has room for now, at most `want`; None where the receiver has closed its end.
    #[inline(always)]
    pub fn room_for_packets(&mut self, want: usize) -> Option<usize> {
        self.outbox.has_reader(ONLY).then(|| self.packets.room(want))
    }

    /// Sends packets, for all of which there is room; how many. What goes with them stands in `packets.marks`.
    #[inline(always)]
    pub fn send_packets(&mut self, w: &Worker, packets: &mut Packets) -> usize {
        self.packets.send(&self.lane.tally, w, packets)
    }

    /// Wakes who receives packets that were sent.
    #[inline(always)]
    pub fn wake(&self) {
        self.lane.bell.ring();
    }

    /// Closes the end; whether nothing is left of the lane.
    pub fn close(self) -> bool {
        let Sending { outbox, packets, lane } = self;
        // What the receiver did not see any more goes home with them.
        drop((outbox, packets));
        lane.leave(End::Sender)
    }
}

impl Receiving {
    /// Brings in what waits, where nothing is left of what came before; false where there is nothing.
    #[inline(always)]
    pub fn receive(&mut self, w: &mut Worker) -> bool {
        if !self.received.is_empty() {
            return true;
        }
        self.inbox.take(w, &mut self.received).is_some()
    }

    /// Says that there is room for as many as were taken.
    #[inline(always)]
    pub fn finish(&mut self) {
        if self.received.is_empty() {
            self.inbox.finish();
        }
    }

    /// Says that the `n` packets that were received last have words.
    #[inline(always)]
    pub fn finish_packets(&mut self, n: usize) {
        self.packets.finish(&self.lane.tally, n);
    }

    /// Whether something waits.
    pub fn waiting(&mut self) -> bool {
        !self.received.is_empty() || self.inbox.waiting() || self.packets.waiting()
    }

    /// Closes the end: what waits goes home, packets by those heads that the worker knows. How many frames and packets those were, and whether nothing is left
    /// of the lane.
    pub fn close(self, w: &mut Worker, known: &mut Known<HeadCache>, empty: &mut Packets) -> (u64, bool) {
        let Receiving { mut inbox, packets, mut received, lane } = self;
        let mut home = 0;
        loop {
            home += received.len() as u64;
            received.free(w);
            if inbox.take(w, &mut received).is_none() {
                break;
            }
        }
        // No packet is sent from now on but by a call that is under way.
        drop(inbox);
        home += packets.close(&lane.tally, w, known, empty);
        home += lane.mesh.stats().iter().map(|stats| stats.lost).sum::<u64>();
        (home, lane.leave(End::Receiver))
    }
}
