//! HOT: lanes, each from one worker to another.
//!
//! A lane is the library's hand-off ring of one sender and one receiver: a mesh of a single worker, whose two ends are given to two. Frames in it count as
//! `queued` in their pools' ledgers. Each end belongs to the worker that has it, and is closed alone.

use crate::opened::{Known, Opened};
use netmem::steer::{Inbox, Mesh, MeshConfig, MeshError, Outbox, Source};
use netmem::sync::Doorbell;
use netmem::{Batch, Worker};
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
    /// The receiving end, until a worker takes it.
    inbox: Mutex<Option<Inbox>>,
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
    pub lane: Arc<Lane>,
}

/// The receiving end, with the worker that has it.
pub struct Receiving {
    inbox: Inbox,
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
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Receiving { inbox, received: Batch::new(), lane: Arc::clone(self) })
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
    /// The sending end of a new lane for so many frames.
    ///
    /// # Errors
    /// [`LaneError`].
    pub fn open(frames: u32) -> Result<Sending, LaneError> {
        let config = MeshConfig { workers: 1, inbox: frames, flows: 1, ..MeshConfig::default() };
        let (mesh, ends) = Mesh::new(&config).map_err(LaneError::Mesh)?;
        let (outboxes, inboxes): (Vec<Outbox>, Vec<Inbox>) = ends.into_iter().unzip();
        let lane = Lane {
            mesh,
            bell: Doorbell::new().map_err(LaneError::Bell)?,
            inbox: Mutex::new(inboxes.into_iter().next()),
            sender_gone: AtomicBool::new(false),
            receiver_gone: AtomicBool::new(false),
        };
        let outbox = outboxes.into_iter().next();
        let outbox = outbox.ok_or_else(|| LaneError::Bell(io::ErrorKind::NotFound.into()))?;
        Ok(Sending { outbox, lane: Arc::new(lane) })
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

    /// Closes the end; whether nothing is left of the lane.
    pub fn close(self) -> bool {
        let Sending { outbox, lane } = self;
        drop(outbox);
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

    /// Whether something waits.
    pub fn waiting(&mut self) -> bool {
        !self.received.is_empty() || self.inbox.waiting()
    }

    /// Closes the end: what waits goes home. How many those were, and whether nothing is left of the lane.
    pub fn close(self, w: &mut Worker) -> (u64, bool) {
        let Receiving { mut inbox, mut received, lane } = self;
        let mut home = 0;
        loop {
            home += received.len() as u64;
            received.free(w);
            if inbox.take(w, &mut received).is_none() {
                break;
            }
        }
        drop(inbox);
        home += lane.mesh.stats().iter().map(|stats| stats.lost).sum::<u64>();
        (home, lane.leave(End::Receiver))
    }
}
