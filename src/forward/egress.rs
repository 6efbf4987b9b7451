//! A port, the frames that are to leave by it, and the heads that wait for frames it has.

use crate::packet::InFlightHeads;
use crate::pool::Batch;
use crate::port::Port;

/// A port and the frames that are to leave by it.
pub(super) struct Egress {
    pub(super) port: Box<dyn Port>,
    pub(super) out: Batch,
    /// What is left to be done to a frame must be done before it is in `out`: the port does not carry it.
    pub(super) wants_complete: bool,
    /// Where frames are packets: the heads of what is in flight and then of what is in `out`.
    pub(super) flight: InFlightHeads,
    /// Where packets are posted: the heads of the frames in the fill ring.
    pub(super) filling: InFlightHeads,
}

impl Egress {
    pub(super) fn new(port: Box<dyn Port>) -> Egress {
        Egress {
            port,
            out: Batch::new(),
            wants_complete: false,
            flight: InFlightHeads::default(),
            filling: InFlightHeads::default(),
        }
    }
}
