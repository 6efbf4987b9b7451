//! A worker's answer at the end of a round.

use super::sizes::{Counted, Sizes};
use super::{Cuts, Rest};
use crate::forward::report::{PortSource, dropped};
use netmem::forward::{Forwarder, Meters};
use netmem::pool::Ledger;
use netmem::port::PortState;
use netmem::stats::Quantiles;
use std::sync::Arc;
use std::time::Instant;

/// The counts of a worker.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The number of the cut that it answers. 0 before the first.
    pub number: u64,
    pub at: Instant,
    /// The counts of its packets.
    pub packets: Packets,
    /// Dropped packets, by reason.
    pub drops: Vec<(&'static str, u64)>,
    /// Rounds without work, sleeps, and the number of times that it did not come round in time.
    pub idle_rounds: u64,
    pub sleeps: u64,
    pub stalls: u64,
    /// The time per packet, or None before the first window was full.
    pub windows: Option<Quantiles>,
    /// Nanoseconds of rounds with work in them.
    pub busy_ns: u64,
    /// Packets of a round, and nanoseconds that packets spent here.
    pub bursts: Counted,
    pub latency: Counted,
    pub ports: Vec<PortAnswer>,
    /// The frames of its pools, if only this worker moves them.
    pub ledgers: Option<Vec<Ledger>>,
}

/// The counts of a worker's packets: `received + taken + originated + fragments == transmitted + dropped + held +
/// passed + handed + fragmented`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packets {
    pub received: u64,
    pub taken: u64,
    pub originated: u64,
    pub fragments: u64,
    pub transmitted: u64,
    pub dropped: u64,
    pub held: u64,
    pub passed: u64,
    pub handed: u64,
    pub fragmented: u64,
}

/// One of its ports.
#[derive(Debug, Clone)]
pub struct PortAnswer {
    pub name: String,
    pub kind: &'static str,
    pub is_up: bool,
    /// It is down for good.
    pub is_failed: bool,
    /// How often it was seen to go down.
    pub downs: u64,
    pub counters: Vec<(&'static str, u64)>,
    /// Frames posted for transmission, sampled.
    pub posted: Counted,
}

impl Packets {
    fn read(meters: &Meters) -> Packets {
        Packets {
            received: meters.received.get(),
            taken: meters.taken.get(),
            originated: meters.originated.get(),
            fragments: meters.fragments.get(),
            transmitted: meters.transmitted.get(),
            dropped: meters.drops.total(),
            held: meters.held.get(),
            passed: meters.passed.get(),
            handed: meters.handed.get(),
            fragmented: meters.fragmented.get(),
        }
    }
}

impl Answer {
    /// Returns a worker's answer before it was asked.
    pub fn first(forwarder: &Forwarder) -> Answer {
        let ports = forwarder.ports().count();
        Answer::read(forwarder, 0, &vec![Sampled::default(); ports])
    }

    /// Returns where the frames of each of its pools were, of which there are `count`, and when.
    pub fn rest(&self, count: usize) -> Vec<Option<Rest>> {
        match &self.ledgers {
            Some(ledgers) => ledgers.iter().map(|ledger| Some((ledger.clone(), self.at))).collect(),
            None => vec![None; count],
        }
    }

    fn read(forwarder: &Forwarder, number: u64, sampled: &[Sampled]) -> Answer {
        let meters = forwarder.meters();
        let port = |(port, sampled): (&dyn netmem::port::Port, &Sampled)| PortAnswer {
            name: port.name().to_owned(),
            kind: port.kind(),
            is_up: port.state() == PortState::Up,
            is_failed: port.is_failed(),
            downs: sampled.downs,
            counters: PortSource::new(port).read(),
            posted: sampled.posted.counted(),
        };
        Answer {
            number,
            at: Instant::now(),
            packets: Packets::read(&meters),
            idle_rounds: meters.idle_rounds.get(),
            sleeps: meters.sleeps.get(),
            stalls: meters.stalls.get(),
            windows: meters.windows.quantiles(),
            busy_ns: meters.busy_ns.get(),
            bursts: Counted::of(&meters.bursts),
            latency: Counted::of(&meters.round_latency),
            ports: forwarder.ports().zip(sampled).map(port).collect(),
            ledgers: None,
            drops: dropped(&[meters], None),
        }
    }
}

/// A worker's part in the cuts.
pub struct Attendant {
    cuts: Arc<Cuts>,
    worker: usize,
    answered: u64,
    /// One for each port.
    sampled: Vec<Sampled>,
}

/// What only samples tell of a port.
#[derive(Debug, Clone, Default)]
struct Sampled {
    /// Frames posted for transmission.
    posted: Sizes,
    was_up: bool,
    /// How often it was up in one sample and down in the next.
    downs: u64,
}

impl Sampled {
    fn add(&mut self, posted: usize, is_up: bool) {
        self.posted.add(posted);
        self.downs += u64::from(std::mem::replace(&mut self.was_up, is_up) && !is_up);
    }
}

impl Attendant {
    /// Makes the part of worker `worker`, which has `ports` ports.
    pub fn new(cuts: Arc<Cuts>, worker: usize, ports: usize) -> Attendant {
        Attendant { cuts, worker, answered: 0, sampled: vec![Sampled::default(); ports] }
    }

    /// Call this when the worker has come round, after it has reported its status. It answers a pending question with the
    /// state at the end of its last round.
    pub fn come_round(&mut self, forwarder: &Forwarder) {
        let asked = self.cuts.asked(self.worker);
        if asked != self.answered {
            self.answered = asked;
            self.cuts.answer(self.worker, Answer::read(forwarder, asked, &self.sampled));
        }
    }

    /// Samples the frames that the ports have posted, and whether they are up.
    pub fn sample(&mut self, forwarder: &Forwarder) {
        for (sampled, port) in self.sampled.iter_mut().zip(forwarder.ports()) {
            sampled.add(port.tx_posted(), port.state() == PortState::Up);
        }
    }

    /// Records that the worker has ended. Its counts are now its answer to every later question.
    pub fn end(&self, forwarder: &Forwarder) {
        self.cuts.end(self.worker, Answer::read(forwarder, self.cuts.asked(self.worker), &self.sampled));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by an operator: a port that went down and came up again between two scrapes, over and over, raised no alert.
    #[test]
    fn a_port_that_is_up_again_at_each_scrape_was_down_as_often_as_it_went_down() {
        let mut sampled = Sampled::default();
        let seen = [false, true, true, false, false, true, false, true];
        seen.iter().for_each(|is_up| sampled.add(0, *is_up));
        assert_eq!(sampled.downs, 2, "a port that has not been up yet has not gone down");
    }
}
