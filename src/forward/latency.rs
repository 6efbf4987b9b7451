//! The time that packets take from reception to completion: one sample for each round and port.
//!
//! It begins with the poll round that transmits, which is the one that received unless a transmit ring was full. The
//! time is the forwarder's own time in its rounds; the caller's time between two rounds is not latency of the memory
//! path. All packets in flight are ended without a sample by a round in which the machine stopped, and by a time in
//! which nothing comes back. A port is assumed to complete in the order of transmission.

use crate::stats::{Count, Samples};
use crate::sys::clock;
use std::collections::VecDeque;

/// Maximum number of rounds that are timed at once for each port. Others are not timed.
const MARKS: usize = 1 << 10;
/// A round longer than this many nanoseconds is a gap: no round takes that long. So is a longer time without a
/// completion: the other side does not move.
const GAP_NS: f64 = 100_000.0;

/// Times from reception to completion; written by the forwarder's worker, read by any thread.
#[derive(Debug, Default)]
pub struct Latency {
    samples: Samples,
    /// Bursts that were in flight when the machine, or the other side, stopped.
    dropped: Count,
}

/// The 50th and the 99th percentile of the most recent samples, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LatencyQuantiles {
    /// Half of the bursts took longer.
    pub p50: f64,
    /// One burst in a hundred took longer.
    pub p99: f64,
    /// Number of bursts timed.
    pub samples: u64,
    /// Bursts left out because the machine, or the other side, stopped while they were in flight.
    pub dropped: u64,
}

impl Latency {
    /// The quantiles of the most recent 4,096 samples; None before the first.
    pub fn quantiles(&self) -> Option<LatencyQuantiles> {
        let [p50, p99] = self.samples.at([0.5, 0.99])?.map(|ticks| f64::from(ticks) / clock::ticks_per_ns());
        Some(LatencyQuantiles { p50, p99, samples: self.samples.counted(), dropped: self.dropped.get() })
    }
}

/// The forwarder's side: the bursts in flight.
#[derive(Debug)]
pub(super) struct Probe {
    gap: u64,
    /// The clock when the round began, and the ticks of the rounds before it.
    began: u64,
    before: u64,
    /// The forwarder's time at the last completion.
    back: u64,
    ports: Vec<Marks>,
}

/// The bursts in flight through one port.
#[derive(Debug, Default)]
struct Marks {
    /// Number of frames that the port has taken in all, and number that it has completed.
    entered: u64,
    left: u64,
    /// The number of the last frame of a round, and the time when the round began.
    marks: VecDeque<(u64, u64)>,
}

impl Marks {
    /// Takes the oldest round whose last frame has left. Returns the time when it began.
    fn next_left(&mut self) -> Option<u64> {
        self.marks.front().filter(|&&(last, _)| last <= self.left)?;
        self.marks.pop_front().map(|(_, received)| received)
    }
}

impl Probe {
    /// Makes a probe of ports with this number of frames in flight each.
    pub(super) fn new(in_flight: impl Iterator<Item = u64>) -> Probe {
        let ports = in_flight.map(|entered| Marks { entered, ..Marks::default() }).collect();
        Probe { gap: (GAP_NS * clock::ticks_per_ns()) as u64, began: 0, before: 0, back: 0, ports }
    }

    /// Begins a round.
    pub(super) fn begin(&mut self, now: u64) {
        self.began = now;
    }

    /// Ends the round.
    pub(super) fn end(&mut self, now: u64, latency: &Latency) {
        let ticks = now.wrapping_sub(self.began);
        self.before = self.before.wrapping_add(ticks);
        if ticks > self.gap || self.before.wrapping_sub(self.back) > self.gap {
            self.back = self.before;
            let under_way: usize = self.ports.iter_mut().map(|port| port.marks.drain(..).count()).sum();
            latency.dropped.add(under_way as u64);
        }
    }

    /// Counts `n` frames that a port took in this round.
    pub(super) fn entered(&mut self, port: usize, n: usize) {
        let port = &mut self.ports[port];
        // It began with the port's own number of frames in flight, which may be any.
        port.entered = port.entered.saturating_add(n as u64);
        if n > 0 && port.marks.len() < MARKS {
            port.marks.push_back((port.entered, self.before));
        }
    }

    /// Of the frames that a port took, this many are still in flight. The others never come back.
    #[cold]
    pub(super) fn stranded(&mut self, port: usize, in_flight: usize, latency: &Latency) {
        let port = &mut self.ports[port];
        port.left = port.left.max(port.entered.saturating_sub(in_flight as u64));
        while port.next_left().is_some() {
            latency.dropped.add(1);
        }
    }

    /// Counts `n` frames that were completed.
    pub(super) fn left(&mut self, port: usize, n: usize, now: u64, latency: &Latency) {
        let time = self.before.wrapping_add(now.wrapping_sub(self.began));
        if n > 0 {
            self.back = time;
        }
        let port = &mut self.ports[port];
        port.left += n as u64;
        while let Some(received) = port.next_left() {
            latency.samples.take(time.wrapping_sub(received));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(latency: &Latency) -> Option<[u32; 2]> {
        latency.samples.at([0.0, 1.0])
    }

    #[test]
    fn a_round_is_timed_when_its_last_frame_comes_back_and_rests_between_rounds_do_not_count() {
        let (mut probe, latency) = (Probe::new([0].into_iter()), Latency::default());
        probe.begin(1_000);
        probe.entered(0, 32);
        probe.end(1_100, &latency);
        probe.begin(9_000);
        probe.left(0, 31, 9_010, &latency);
        assert_eq!(ticks(&latency), None);
        probe.left(0, 1, 9_050, &latency);
        assert_eq!(ticks(&latency), Some([150, 150]));
    }

    /// Seen: the completion of frames that were sent before the measurement ended the first round, and each later one too soon.
    #[test]
    fn frames_that_were_in_flight_before_the_measurement_end_no_round() {
        let (mut probe, latency) = (Probe::new([100].into_iter()), Latency::default());
        probe.begin(0);
        probe.entered(0, 32);
        probe.left(0, 100, 10, &latency);
        assert_eq!(ticks(&latency), None);
        probe.left(0, 32, 15, &latency);
        assert_eq!(ticks(&latency), Some([15, 15]));
    }

    #[test]
    fn frames_that_never_come_back_leave_no_sample_and_do_not_delay_the_next_ones() {
        let (mut probe, latency) = (Probe::new([0].into_iter()), Latency::default());
        probe.begin(0);
        probe.entered(0, 200);
        probe.stranded(0, 0, &latency);
        probe.entered(0, 8);
        probe.end(10, &latency);
        probe.begin(20);
        probe.left(0, 8, 25, &latency);
        assert_eq!((ticks(&latency), latency.dropped.get()), (Some([15, 15]), 1));
    }

    #[test]
    fn a_round_in_which_the_machine_stopped_leaves_no_sample() {
        let (mut probe, latency) = (Probe::new([0, 0].into_iter()), Latency::default());
        probe.begin(0);
        probe.entered(0, 1);
        probe.entered(1, 1);
        probe.end(probe.gap + 1, &latency);
        probe.begin(probe.gap + 2);
        probe.left(0, 1, probe.gap + 3, &latency);
        assert_eq!((ticks(&latency), latency.dropped.get()), (None, 2));
    }
}
