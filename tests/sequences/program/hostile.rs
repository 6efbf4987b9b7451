//! A device that does to its frames whatever safe code can, reports any numbers, and panics.

use super::value::Register;
use super::view::View;
use netmem::pool::Frame;
use netmem::port::copying::{Device, RxBuffers};
use netmem::port::{PortCounters, PortState};
use netmem::stats::Writer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

pub struct Hostile {
    /// Its next action.
    pub mood: Arc<AtomicU8>,
    pub register: &'static Register,
}

impl Hostile {
    /// The number of frames that it reports, of `n`.
    fn says(&self, n: usize) -> usize {
        match self.mood.load(Relaxed) & 3 {
            0 => usize::MAX,
            1 => n + 1,
            2 => n / 2,
            _ => n,
        }
    }
}

impl Device for Hostile {
    fn kind(&self) -> &'static str {
        "hostile"
    }

    fn receive(&mut self, rooms: &mut RxBuffers<'_>, _: &Writer<PortCounters>) -> usize {
        let (all, n) = (rooms.len(), rooms.len().min(usize::from(self.mood.load(Relaxed) >> 2)));
        for (i, mut room) in rooms.iter_mut().enumerate() {
            if i < n {
                View::write(room.put(64).unwrap());
                self.register.tick();
            }
        }
        if n < all {
            rooms.swap(n, all - 1);
        }
        self.says(n)
    }

    fn send(&mut self, frames: &[Frame], _: &Writer<PortCounters>) -> usize {
        for frame in frames {
            View::read(frame.data());
            self.register.tick();
        }
        self.says(frames.len())
    }

    fn end_round(&mut self, _: &Writer<PortCounters>) {
        self.register.tick();
    }

    fn close(&mut self, _: &Writer<PortCounters>) {
        self.register.tick();
    }

    fn publish(&self, _: &Writer<PortCounters>) {
        self.register.tick();
    }

    fn state(&self) -> PortState {
        PortState::Up
    }
}
