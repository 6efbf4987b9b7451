//! Closes a port and frees its frames to their pools. COLD.

use super::error::Fault;
use super::{Conversation, MemifPort};

impl MemifPort {
    /// Ends the connection and frees all posted frames to their pools. Returns how many. Dropping the port does the
    /// same.
    ///
    /// Nothing proves that a peer no longer uses the frames that were lent to it: memif has no message for this. A
    /// correct peer does not use them after a DISCONNECT, and a dead one cannot.
    #[cold]
    pub fn close(&mut self) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        if self.receiving > 0 {
            self.fault(&Fault::Closed);
        } else {
            // Clients that have not offered everything hear it too.
            self.conversation.disconnect(&Fault::Closed);
        }
        let sent: usize = self.pairs.iter_mut().map(|pair| pair.sent.clear()).sum();
        // As `complete` would have counted them.
        self.counters.completed.add(sent as u64);
        sent + self.pairs.iter_mut().map(|pair| pair.filled.clear()).sum::<usize>()
    }
}

impl MemifPort {
    /// In a child of the process that opened the port, forgets the parent's state: the rings are not mapped here.
    /// Posted frames stay posted, since the parent's peer may write into some of them. Returns 0, which every call then
    /// returns.
    #[cold]
    #[inline(never)]
    pub(super) fn abandon(&mut self) -> usize {
        // The addresses of the rings are unmapped in the child, or something else is mapped there. They must not be
        // unmapped.
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
