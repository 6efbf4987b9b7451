//! HOT: a port and the frames that are to leave by it.

use super::meters::Meters;
use super::verdict::Reason;
use crate::pool::Batch;
use crate::port::Port;
use crate::sync::Worker;

/// A port and the frames that are to leave by it.
pub(super) struct Lane {
    pub(super) port: Box<dyn Port>,
    pub(super) out: Batch,
}

impl Lane {
    pub(super) fn new(port: Box<dyn Port>) -> Lane {
        Lane { port, out: Batch::new() }
    }

    /// Gives the port what is to leave by it, as far as it takes it; returns how many frames are left.
    #[inline]
    pub(super) fn send(&mut self, w: &mut Worker, meters: &Meters) -> usize {
        if !self.out.is_empty() {
            let sent = self.port.tx(w, &mut self.out);
            meters.transmitted.add(sent as u64);
            if sent == 0 && self.port.in_flight() == 0 {
                self.give_up(Reason::TxRefused, w, meters);
            }
        }
        self.out.len()
    }

    /// Drops all that waits: the port's ring stayed full, or it is empty and the port takes nothing (link down).
    #[cold]
    #[inline(never)]
    pub(super) fn give_up(&mut self, reason: Reason, w: &mut Worker, meters: &Meters) {
        meters.drops.add(reason, self.out.len() as u64);
        self.out.free(w);
    }
}
