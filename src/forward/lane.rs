//! A port, the frames that are to leave by it, and the heads that wait for frames it has.

use crate::packet::Flight;
use crate::pool::Batch;
use crate::port::Port;

/// A port and the frames that are to leave by it.
pub(super) struct Lane {
    pub(super) port: Box<dyn Port>,
    pub(super) out: Batch,
    /// On the full path, the heads of what is in flight and then of what is in `out`; on the fast path empty.
    pub(super) flight: Flight,
}

impl Lane {
    pub(super) fn new(port: Box<dyn Port>) -> Lane {
        Lane { port, out: Batch::new(), flight: Flight::default() }
    }
}
