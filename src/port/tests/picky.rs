//! A wire that carries no runts, as an interface: those that are offered stay behind the others.

use crate::pool::Batch;
use crate::port::mem::MemPort;
use crate::port::{Port, PortCounters, PortState, set_aside};
use crate::sync::Worker;
use std::sync::Arc;

/// Bytes of an Ethernet header.
const HEADER: usize = 14;

pub(in crate::port) struct Picky(pub(in crate::port) MemPort);

impl Port for Picky {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn kind(&self) -> &'static str {
        self.0.kind()
    }
    fn fill_room(&mut self) -> usize {
        self.0.fill_room()
    }
    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.0.fill(w, frames)
    }
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.0.rx(w, frames)
    }
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let mut runts = set_aside(frames, |frame| frame.len() >= HEADER);
        let n = self.0.tx(w, frames);
        frames.append(&mut runts);
        n
    }
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.0.complete(w, frames)
    }
    fn kick(&mut self) {
        self.0.kick();
    }
    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
    fn state(&self) -> PortState {
        self.0.state()
    }
    fn counters(&self) -> Arc<PortCounters> {
        self.0.counters()
    }
    fn filled(&self) -> usize {
        self.0.filled()
    }
}
