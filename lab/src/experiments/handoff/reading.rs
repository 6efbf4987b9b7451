//! A router that reads every line of a packet first, as code that looks into packets does. So the packets, and not the
//! headers alone, pass through its core's caches.

use std::error::Error;
use std::hint::black_box;

use netmem::forward::{Decide, Verdict, Verdicts};
use netmem::limits::CACHE_LINE;
use netmem::pool::Batch;
use netmem::steer::Source;
use netmem_router::Router;

/// For frames: none of the lab's packets is cut, answered or made to wait.
pub(super) struct Reading(pub(super) Router);

impl Decide for Reading {
    fn check(&self, ports: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.check(ports)
    }

    fn takes_offloads(&self) -> bool {
        self.0.takes_offloads()
    }

    fn refresh(&mut self) -> bool {
        self.0.refresh()
    }

    #[inline]
    fn decide(&mut self, from: Source, frame: &mut [u8]) -> Verdict {
        read(frame);
        self.0.decide(from, frame)
    }

    #[inline]
    fn decide_burst(&mut self, from: Source, burst: &mut Batch, verdicts: &mut Verdicts) {
        burst.iter().for_each(|frame| read(frame.data()));
        self.0.decide_burst(from, burst, verdicts);
    }
}

/// Reads a byte of each line.
#[inline]
fn read(data: &[u8]) {
    black_box(data.iter().step_by(CACHE_LINE).fold(0, |sum, byte| sum ^ byte));
}
