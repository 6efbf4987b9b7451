//! What the forwarder counts.

use super::latency::Latency;
use super::position::Position;
use super::verdict::Drops;
use crate::stats::{Buckets, Count, Windows};

/// The forwarder's counters, written by its worker unless stated otherwise, and read by any thread.
///
/// Conservation, at every quiescent point: `received + taken + originated + fragments == transmitted + drops.total() + held +
/// passed + handed + fragmented`; and once all ports of all workers are idle, `transmitted == completed`.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Meters {
    /// Frames received from all ports.
    pub received: Count,
    /// Frames taken out of this worker's inbox; none without [`Steering`](super::Steering).
    pub taken: Count,
    /// Frames handed to other workers, those dropped on the way too; none without [`Steering`](super::Steering).
    pub handed: Count,
    /// Frames that a port took for transmission.
    pub transmitted: Count,
    /// Frames that came back sent.
    pub completed: Count,
    /// Frames that wait for a place in a transmit ring, or for a neighbour's link address.
    pub held: Count,
    /// Frames that the local queue took.
    pub passed: Count,
    /// Frames dropped, by reason.
    pub drops: Drops,
    /// Frames that the decision made of dropped ones ([`Decide::answer`](super::Decide::answer)), ICMP errors say; they were not
    /// received.
    pub originated: Count,
    /// Frames that were cut, for a narrower link ([`Decide::fragment`](super::Decide::fragment)) or into the segments that they stood for, by
    /// a port that cannot say how ([`Tx::carries_offloads`](crate::port::Tx::carries_offloads)): they are gone, and neither transmitted
    /// nor dropped.
    pub fragmented: Count,
    /// The pieces that were made of them, which were not received.
    pub fragments: Count,
    /// Packets that the forwarder copied into a frame of its pool before they went on, since others read their bytes or these were in
    /// several parts ([`HeadCache::make_sendable`](crate::packet::HeadCache::make_sendable)).
    pub copied: Count,
    /// Rounds without work, from the 65th in a row on.
    pub idle_rounds: Count,
    /// How often the worker slept ([`Idle::Sleep`](super::Idle)).
    pub sleeps: Count,
    /// How many frames a round received, from ports and other workers, of rounds that received some. Their sum is `received + taken`.
    pub bursts: Buckets<0, 16>,
    /// Nanoseconds of rounds with work in them, of [`Forwarder::run`](super::Forwarder::run): with pauses of the machine, without rests.
    pub busy_ns: Count,
    /// How long packets were here, in nanoseconds: from before the look at the ports in which they came to the end of the round in which
    /// they left, for a transmit ring, the local queue or another worker, or were dropped, or began to wait for a neighbour. Counted by
    /// [`Forwarder::run`](super::Forwarder::run), of whose clock readings it is made: none took longer, most took less.
    pub round_latency: Buckets<8, 24>,
    /// Time from reception to completion, where it is measured ([`Forwarder::measure_latency`](super::Forwarder)).
    pub latency: Latency,
    /// The last call that the worker began.
    pub position: Position,
    /// How often the worker had not come round for so long that it was said ([`Meters::note_stall`]).
    pub stalls: Count,
    /// Time per received frame, over windows in which there was work.
    pub windows: Windows,
}

impl Meters {
    /// The worker has not come round for long: for the thread that watches it, which has the [`Position`] too.
    #[cold]
    pub fn note_stall(&self) {
        self.stalls.add_shared(1);
    }
}
