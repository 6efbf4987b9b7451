//! Closes a port and frees its frames to their pools. COLD.

use super::error::Fault;
use super::{Conversation, MemifPort};
use crate::port::posted::{Posted, free_all};

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
        let mut frames: Vec<Posted> = self.pairs.iter_mut().flat_map(|pair| pair.sent.split_off(0)).collect();
        // As `complete` would have counted them.
        self.counters.completed.add(frames.len() as u64);
        frames.extend(self.pairs.iter_mut().flat_map(|pair| pair.filled.split_off(0)));
        let freed = frames.len();
        // Last: to free a frame may run the caller's code, which may panic.
        free_all(frames);
        freed
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
