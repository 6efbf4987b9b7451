//! HOT: returns frames that the peer has read.

use super::{Fault, MemifPort};
use crate::pool::Batch;
use crate::port::Complete;
use crate::sync::Worker;

impl Complete for MemifPort {
    /// Without a peer, all frames that were sent to the last one come back.
    #[inline]
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
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
