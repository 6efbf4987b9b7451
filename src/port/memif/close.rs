//! Taking a port away, and bringing its frames home. COLD.

use super::error::Fault;
use super::{Conversation, MemifPort};

impl MemifPort {
    /// Ends the connection and sends every frame home; returns how many those were. Dropping the port does the same.
    ///
    /// Nothing proves that a peer which was lent frames touches them no more: memif has no such word. A sane peer does not
    /// after a DISCONNECT, and a dead one cannot.
    #[cold]
    pub fn close(&mut self) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        if self.receiving > 0 {
            self.fault(&Fault::Closed);
        }
        let sent: usize = self.pairs.iter_mut().map(|pair| pair.sent.clear()).sum();
        // As `complete` would have given them back.
        self.counters.completed.add(sent as u64);
        sent + self.pairs.iter_mut().map(|pair| pair.filled.clear()).sum::<usize>()
    }
}

impl MemifPort {
    /// Forgets, in a child of the process that opened the port, what is the parent's: rings that are not mapped here. Frames
    /// that were posted stay posted, since the parent's peer may write into some. Returns 0, what every call comes to.
    #[cold]
    #[inline(never)]
    pub(super) fn abandon(&mut self) -> usize {
        // Where rings were mapped is a hole, or something else by now, and not to be unmapped.
        std::mem::forget(std::mem::take(&mut self.pairs));
        if let Conversation::Client(client) = &mut self.conversation {
            client.forget();
        }
        (self.active, self.receiving, self.peer) = (0, 0, None);
        0
    }
}

impl Drop for MemifPort {
    fn drop(&mut self) {
        self.close();
    }
}
