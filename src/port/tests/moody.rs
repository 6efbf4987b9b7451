//! A wire that treats what is offered for transmission as an interface may.

use crate::pool::{Batch, Frame};
use crate::port::mem::MemPort;
use crate::port::{Port, PortCounters, PortState, set_aside};
use crate::sync::Worker;
use std::sync::{Arc, Mutex};

/// Bytes of an Ethernet header.
const HEADER: usize = 14;

/// What becomes of frames that are offered for transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Runts are never carried: they stay behind the others.
    Picky,
    /// The link is down: none is taken.
    Mute,
    /// The interface is gone: none is taken, and those it had never come back.
    Gone,
}

/// The port; its mood may change.
pub(crate) struct Moody {
    within: MemPort,
    mood: Arc<Mutex<Mood>>,
}

impl Moody {
    pub(crate) fn new(within: MemPort, mood: Mood) -> Moody {
        Moody { within, mood: Arc::new(Mutex::new(mood)) }
    }

    /// What its mood is changed by.
    pub(crate) fn mood(&self) -> Arc<Mutex<Mood>> {
        Arc::clone(&self.mood)
    }

    fn is(&self, mood: Mood) -> bool {
        *self.mood.lock().expect("nobody panics with it") == mood
    }

    fn carries(frame: &Frame) -> bool {
        frame.len() >= HEADER
    }
}

impl Port for Moody {
    fn name(&self) -> &str {
        self.within.name()
    }
    fn kind(&self) -> &'static str {
        self.within.kind()
    }
    fn fill_room(&mut self) -> usize {
        self.within.fill_room()
    }
    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.within.fill(w, frames)
    }
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.within.rx(w, frames)
    }
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if !self.is(Mood::Picky) {
            return 0;
        }
        let mut runts = self.unfit(frames);
        self.counters().tx_invalid.add(runts.len() as u64);
        let n = self.within.tx(w, frames);
        frames.append(&mut runts);
        n
    }
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if self.is(Mood::Gone) { 0 } else { self.within.complete(w, frames) }
    }
    fn kick(&mut self) {
        self.within.kick();
    }
    fn in_flight(&self) -> usize {
        if self.is(Mood::Gone) { 0 } else { self.within.in_flight() }
    }
    fn unfit(&self, frames: &mut Batch) -> Batch {
        set_aside(frames, Moody::carries)
    }
    fn state(&self) -> PortState {
        if self.is(Mood::Picky) { PortState::Up } else { PortState::Down("link down".into()) }
    }
    fn counters(&self) -> Arc<PortCounters> {
        self.within.counters()
    }
    fn filled(&self) -> usize {
        self.within.filled()
    }
}
