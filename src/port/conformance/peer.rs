//! The other end of a port's link.

use super::{FRAMES, Fixture};
use crate::pool::Batch;
use crate::port::Port;

/// The other end of a port's link.
pub trait Peer {
    /// Sends a frame to the port.
    fn deliver(&mut self, frame: &[u8]);

    /// Takes the frames that the port has transmitted, in order. Returns None if they cannot be seen.
    fn collect(&mut self) -> Option<Vec<Vec<u8>>>;
}

/// No peer.
impl Peer for () {
    fn deliver(&mut self, _frame: &[u8]) {}

    fn collect(&mut self) -> Option<Vec<Vec<u8>>> {
        None
    }
}

/// Another port as the peer, with its own frames.
pub struct PortPeer {
    /// The port at the other end.
    pub port: Box<dyn Port>,
    /// The pool of its frames.
    pub fixture: Fixture,
}

impl std::fmt::Debug for PortPeer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PortPeer").field("port", &self.port.name()).finish_non_exhaustive()
    }
}

impl Peer for PortPeer {
    fn deliver(&mut self, frame: &[u8]) {
        let PortPeer { port, fixture: Fixture { w, pool, .. } } = self;
        let (mut sent, mut batch) = (pool.alloc(w).expect("a frame of the peer's"), Batch::new());
        sent.put_slice(frame).expect("room for a frame");
        drop(batch.push(sent));
        port.tx(w, &mut batch);
        batch.free(w);
        port.kick();
        port.complete(w, &mut batch);
        batch.free(w);
    }

    fn collect(&mut self) -> Option<Vec<Vec<u8>>> {
        let PortPeer { port, fixture: Fixture { w, pool, .. } } = self;
        let mut batch = Batch::new();
        port.refill_to(w, pool, FRAMES / 2);
        port.rx(w, &mut batch);
        port.kick();
        let come = batch.iter().map(|frame| frame.data().to_vec()).collect();
        batch.free(w);
        Some(come)
    }
}
