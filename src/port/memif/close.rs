//! Taking a port away, and bringing its frames home. COLD.

use super::MemifPort;
use super::error::Fault;

impl MemifPort {
    /// Ends the connection and sends every frame home; returns how many those were. Dropping the port does the same.
    ///
    /// Nothing proves that a peer which was lent frames touches them no more: memif has no such word. A sane peer does not
    /// after a DISCONNECT, and a dead one cannot.
    #[cold]
    pub fn close(&mut self) -> usize {
        if self.receiving > 0 {
            self.fault(&Fault::Closed);
        }
        let sent: usize = self.pairs.iter_mut().map(|pair| pair.sent.clear()).sum();
        // As `complete` would have given them back.
        self.counters.completed.add(sent as u64);
        sent + self.pairs.iter_mut().map(|pair| pair.filled.clear()).sum::<usize>()
    }
}

impl Drop for MemifPort {
    fn drop(&mut self) {
        self.close();
    }
}
