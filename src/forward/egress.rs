//! A port, the frames that will leave by it, and the heads that wait for frames of the port.

use crate::packet::InFlightHeads;
use crate::pool::Batch;
use crate::port::Port;

/// A port and the frames that will leave by it.
pub(super) struct Egress {
    pub(super) port: Box<dyn Port>,
    pub(super) out: Batch,
    /// The offload work of a frame must be done before it is in `out`: the port does not carry it.
    pub(super) wants_complete: bool,
    /// If frames are packets: the heads of the frames in flight, and then of those in `out`.
    pub(super) flight: InFlightHeads,
    /// If packets are posted: the heads of the frames in the fill ring.
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
