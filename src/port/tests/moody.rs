//! A wire that treats frames offered for transmission as an interface may.

use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Frame, Pool};
use crate::port::mem::MemPort;
use crate::port::{Complete, Fill, Port, PortCounters, PortState, Rx, Tx, Wake};
use crate::stats::Writer;
use crate::sync::Worker;
use std::sync::{Arc, Mutex};

/// Bytes of an Ethernet header.
const HEADER: usize = 14;

/// The behaviour towards frames that are offered for transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Runts are never carried: they stay behind the others.
    Picky,
    /// The link is down: no frame is taken.
    Mute,
    /// The interface is gone: no frame is taken, and frames that it had never come back.
    Gone,
    /// All frames are taken. Sent frames come back last first.
    Backwards,
    /// All frames are taken. Sent frames come back empty, as an `xdp` port gives them back.
    Emptying,
    /// No pool is one that it could receive into.
    Choosy,
    /// It reports a full batch of sent frames each time, however many it gives back.
    Boastful,
    /// It returns the largest number from each call, whatever it did, and has as many frames in flight.
    Absurd,
    /// It says that this number of frames is posted for reception, always.
    Posted(usize),
}

/// The port; its mood may change.
pub(crate) struct Moody {
    within: MemPort,
    /// Frames kept to be given back last first.
    sent: Vec<Frame>,
    mood: Arc<Mutex<Mood>>,
    /// The wire's counters when they were last read, with its own `tx_invalid`.
    counters: Writer<PortCounters>,
}

impl Moody {
    pub(crate) fn new(within: MemPort, mood: Mood) -> Moody {
        Moody { within, sent: Vec::new(), mood: Arc::new(Mutex::new(mood)), counters: Writer::default() }
    }

    /// Returns the handle that changes its mood.
    pub(crate) fn mood(&self) -> Arc<Mutex<Mood>> {
        Arc::clone(&self.mood)
    }

    fn is(&self) -> Mood {
        *self.mood.lock().expect("nobody panics with it")
    }

    /// The number that it returns if it moved `n` frames.
    fn says(&self, n: usize) -> usize {
        if self.is() == Mood::Absurd { usize::MAX } else { n }
    }

    fn give_back(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let mut batch = Batch::new();
        self.within.complete(w, &mut batch);
        self.sent.extend(batch.drain());
        let n = frames.room().min(self.sent.len());
        self.sent.drain(self.sent.len() - n..).rev().for_each(|frame| drop(frames.push(frame)));
        n
    }
}

impl Fill for Moody {
    fn fill_room(&mut self) -> usize {
        self.within.fill_room()
    }

    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let n = self.within.fill(w, frames);
        self.says(n)
    }

    fn rx_posted(&self) -> usize {
        if let Mood::Posted(said) = self.is() { said } else { self.within.rx_posted() }
    }

    fn takes_frames_of(&self, _pool: &Pool) -> bool {
        self.is() != Mood::Choosy
    }
}

impl Rx for Moody {
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let n = self.within.rx(w, frames);
        self.says(n)
    }
}

impl Tx for Moody {
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if matches!(self.is(), Mood::Mute | Mood::Gone) {
            return 0;
        }
        let mut runts = self.take_unsendable(frames);
        self.counters.add(|counters| &counters.tx_invalid, runts.len() as u64);
        let n = self.within.tx(w, frames);
        frames.append(&mut runts);
        self.says(n)
    }

    fn tx_posted(&self) -> usize {
        match self.is() {
            Mood::Gone => 0,
            Mood::Absurd => usize::MAX,
            _ => self.within.tx_posted() + self.sent.len(),
        }
    }

    fn take_unsendable(&self, frames: &mut Batch) -> Batch {
        let picky = self.is() == Mood::Picky;
        frames.extract(|frame| picky && frame.len() < HEADER)
    }
}

impl Complete for Moody {
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        match self.is() {
            Mood::Gone => 0,
            Mood::Backwards => self.give_back(w, frames),
            Mood::Emptying => {
                let before = frames.len();
                let n = self.within.complete(w, frames);
                frames[before..].iter_mut().for_each(|frame| frame.trim(0).expect("shorter"));
                n
            }
            Mood::Boastful => {
                self.within.complete(w, frames);
                BATCH_MAX
            }
            Mood::Picky | Mood::Mute | Mood::Choosy | Mood::Posted(_) | Mood::Absurd => {
                let n = self.within.complete(w, frames);
                self.says(n)
            }
        }
    }
}

impl Wake for Moody {
    fn kick(&mut self) {
        self.within.kick();
    }
}

impl Port for Moody {
    fn name(&self) -> &str {
        self.within.name()
    }

    fn kind(&self) -> &'static str {
        self.within.kind()
    }

    fn state(&self) -> PortState {
        match self.is() {
            Mood::Mute | Mood::Gone => PortState::Down("link down".into()),
            _ => PortState::Up,
        }
    }

    fn counters(&self) -> Arc<PortCounters> {
        let wire = self.within.counters();
        macro_rules! copied {
            ($($name:ident)*) => { $(self.counters.set(|counters| &counters.$name, wire.$name.get());)* };
        }
        copied!(rx rx_bytes tx tx_bytes completed filled rx_no_frame rx_ring_full rx_dropped rx_too_long wrong_memory kicks copied);
        self.counters.reader()
    }
}
