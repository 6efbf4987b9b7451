//! HOT: frames that the peer has read.

use super::{Fault, MemifPort};
use crate::pool::Batch;
use crate::sync::Worker;

impl MemifPort {
    /// Without a peer all that was sent to the last one comes back.
    #[inline]
    pub(super) fn complete_burst(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let before = frames.len();
        for queue in 0..self.pairs.len() {
            if let Err(corrupt) = self.pairs[queue].complete(w, frames) {
                self.fault(&Fault::Ring("tx", corrupt));
                break;
            }
        }
        let n = frames.len() - before;
        self.counters.completed.add(n as u64);
        n
    }
}
