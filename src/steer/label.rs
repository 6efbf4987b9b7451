//! What a line between workers says of its frames, and lines that carry none but a condition.

use super::lane::Parcel;
use crate::pool::Line;
use zerocopy::native_endian::U32;

/// Where frames came in: what the worker that gets them must know and cannot read from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Source {
    /// The port's number with the worker that received.
    pub port: u8,
    /// The receive queue: of the port, or of the second worker ([`Record`](super::Record)).
    pub queue: u16,
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    /// Frames, all from one place.
    Frames(Source),
    /// No frames: what follows in this lane may be taken when the same sender's lane to `worker` is finished up to
    /// `position`. So frames of flows that were moved here do not overtake those that went there before.
    Barrier { worker: u8, position: U32 },
}

/// What travels in a lane between workers.
pub(super) type Parcels = Line<Label>;

impl Parcel for Line<Label> {
    #[inline(always)]
    fn units(&self) -> u32 {
        match self.label {
            Label::Frames(_) => self.len() as u32,
            // It counts as well, so that a lane is not finished while a barrier stands in it.
            Label::Barrier { .. } => 1,
        }
    }
}
