//! The forwarder's counters.

use super::latency::Latency;
use super::position::Position;
use super::verdict::Drops;
use crate::stats::{Buckets, Count, Windows};

/// The forwarder's counters, written by its worker unless stated otherwise, and read by any thread.
///
/// Conservation, at every quiescent point: `received + taken + originated + fragments == transmitted + drops.total() +
/// held + passed + handed + fragmented`. Once all ports of all workers are idle, also `transmitted == completed`.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Meters {
    /// Frames received from all ports.
    pub received: Count,
    /// Frames taken out of this worker's inbox; none without [`Steering`](super::Steering).
    pub taken: Count,
    /// Frames handed to other workers, including those dropped on the way; none without [`Steering`](super::Steering).
    pub handed: Count,
    /// Frames that a port took for transmission.
    pub transmitted: Count,
    /// Frames that ports completed.
    pub completed: Count,
    /// Frames that wait for a slot in a transmit ring, or for a neighbour's MAC address.
    pub held: Count,
    /// Frames that the local queue took, or that the decision took out of a burst
    /// ([`Decide::decide_burst`](super::Decide::decide_burst)).
    pub passed: Count,
    /// Frames dropped, by reason.
    pub drops: Drops,
    /// Frames that the decision made of dropped ones ([`Decide::answer`](super::Decide::answer)), for example ICMP
    /// errors, or added to a burst. They were not received.
    pub originated: Count,
    /// Frames that were cut: for a narrower link ([`Decide::fragment`](super::Decide::fragment)), or into their
    /// segments, for a port that does not carry offloads ([`Tx::carries_offloads`](crate::port::Tx::carries_offloads)).
    /// They no longer exist, and count neither as transmitted nor as dropped.
    pub fragmented: Count,
    /// The pieces that were made of them. They were not received.
    pub fragments: Count,
    /// Packets that the forwarder copied into a frame of its pool before they went on, since others read their bytes or
    /// they were in several parts ([`HeadCache::make_sendable`](crate::packet::HeadCache::make_sendable)).
    pub copied: Count,
    /// Rounds without work, from the 65th in a row on.
    pub idle_rounds: Count,
    /// How often the worker slept ([`Idle::Sleep`](super::Idle)).
    pub sleeps: Count,
    /// Number of frames that a round received, from ports and other workers, for rounds that received some. Their sum
    /// is `received + taken`.
    pub bursts: Buckets<0, 16>,
    /// Nanoseconds of rounds with work, of [`Forwarder::run`](super::Forwarder::run): including pauses of
    /// the machine, excluding idle time.
    pub busy_ns: Count,
    /// The time that packets spent here, in nanoseconds. It begins before the look at the ports in which they came. It
    /// ends at the end of the round in which they left (for a transmit ring, the local queue or another worker), were
    /// dropped, or began to wait for a neighbour. [`Forwarder::run`](super::Forwarder::run) counts it from its clock
    /// readings: no packet took longer, most took less.
    pub round_latency: Buckets<8, 24>,
    /// Time from reception to completion, if it is measured ([`Forwarder::measure_latency`](super::Forwarder)).
    pub latency: Latency,
    /// The last call that the worker began.
    pub position: Position,
    /// Number of reports that the worker had not finished its round for a long time ([`Meters::note_stall`]).
    pub stalls: Count,
    /// Time per received frame, over windows in which there was work.
    pub windows: Windows,
}

impl Meters {
    /// Counts a stall: the worker has not finished its round for a long time. Called by the thread that watches it,
    /// which also has the [`Position`].
    #[cold]
    pub fn note_stall(&self) {
        self.stalls.add_shared(1);
    }
}
