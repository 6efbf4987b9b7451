//! A variant with its parts: memory, workers, the mesh between them, and the balance at the end.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use netmem::page::{Memory, MemoryConfig};
use netmem::stats::{Count, Writer};
use netmem::steer::InboxStats;

use super::contents::changed_frames;
use super::plan::{By, Plan, Way};
use super::set_up::{Shared, Workers, workers};
use super::turn::{Fewer, Left, Own, Turn};
use crate::bench::{Bench, SetUpError};
use crate::experiments::check_all_freed;
use crate::method::clock::{Clock, Tsc};
use crate::method::poll::{PollSampler, Shape};
use crate::method::round::{Label, Variant};
use crate::method::window::Windows;

/// Number of fruitless checks after which the measured worker lets its clock be read.
const LOOKS: usize = 256;

/// Bursts that leave, at least, between two readings of the clock.
const POLL_BURSTS: usize = 4;

/// Number of consecutive rounds without movement after which nothing is in flight.
const LAST_LOOKS: usize = 3;

/// One variant.
pub(super) struct Rig {
    pub(super) plan: Plan,
    label: Label,
    workers: RefCell<Workers>,
    /// One, or one for each of two queues.
    shared: Vec<Shared>,
    _memory: Memory,
}

impl Rig {
    pub(super) fn new(plan: Plan) -> Result<Rig, SetUpError> {
        let bytes = plan.bytes() + plan.bytes() / 4 + (8 << 20);
        let memory = Memory::new(&MemoryConfig { bytes, workers: 4, ..MemoryConfig::default() });
        let memory = memory.map_err(SetUpError::at("memory"))?;
        let sets = if plan.way == Way::Queues { 2 } else { 1 };
        let (mut shared, mut all) = (Vec::new(), Workers::new());
        let lefts: Vec<Arc<Left>> = (0..sets).map(|_| Arc::new(Left::new())).collect();
        for (number, left) in lefts.iter().enumerate() {
            // The last worker is the measured one, and gets the larger share.
            let fewer = plan.skew.filter(|_| number == 0).zip(lefts.get(1));
            let fewer = fewer.map(|(percent, than)| Fewer::new(Arc::clone(than), percent));
            let (set, workers) = workers(&plan, &memory, Arc::clone(left), fewer)?;
            shared.push(set);
            all.extend(workers);
        }
        Ok(Rig { label: plan.label(), plan, workers: RefCell::new(all), shared, _memory: memory })
    }

    /// Returns the packets that left, for each worker that receives. The second is 0 if there is only one.
    pub(super) fn left(&self) -> [u64; 2] {
        let mut left = [0; 2];
        left.iter_mut().zip(&self.shared).for_each(|(sum, shared)| *sum = shared.left.total());
        left
    }

    /// Returns the share of its time in which the measured worker that receives plays the card, in percent.
    pub(super) fn generating(&self) -> Option<f64> {
        self.workers.borrow().iter().filter_map(|worker| worker.generating()).next_back()
    }

    /// Lets every packet in flight leave, on this thread. Checks that nothing was lost, late, damaged or leaked.
    /// Returns the number of late packets.
    pub(super) fn settle(self, bench: &mut Bench<'_>) -> u64 {
        let (name, plan) = (describe(&self.label), &self.plan);
        let mut workers = self.workers.into_inner();
        let received: u64 = workers.iter_mut().map(|worker| worker.end()).sum();
        let mut looks = 0;
        while looks < LAST_LOOKS {
            looks += usize::from(workers.iter_mut().map(|worker| worker.poll()).sum::<usize>() == 0);
        }
        let mut dropped: u64 = workers.iter_mut().map(|worker| worker.complete()).sum();
        let left: u64 = self.shared.iter().map(|shared| shared.left.total()).sum();
        let stats: Vec<InboxStats> = self.shared.iter().flat_map(|shared| (shared.stats)()).collect();
        dropped += stats.iter().map(|stats| stats.drops.total() + stats.lost).sum::<u64>();
        let kept: u64 = stats.iter().map(|stats| stats.kept).sum();
        bench.check_done(
            &format!("{name}: every packet accounted for"),
            received > 0,
            received == left + dropped && dropped == 0,
            format!(
                "{received} received, {kept} of them kept by their worker, {left} left, {dropped} dropped"
            ),
        );
        let sum = |of: fn(&Left) -> &[Writer<Own<Count>>; 2]| {
            self.shared.iter().flat_map(|shared| of(&shared.left)).map(|count| count.0.get()).sum::<u64>()
        };
        let (late, damaged) = (sum(|left| &left.late), sum(|left| &left.damaged));
        if plan.keeps_order() {
            bench.check(
                &format!("{name}: order kept within each flow"),
                late == 0,
                format!("{late} of {left} late"),
            );
        }
        let mut w = workers.swap_remove(0).into_worker();
        drop(workers);
        let pools = || self.shared.iter().flat_map(|shared| &shared.pools);
        // A router's packets are compared when they leave.
        let changed: usize = match plan.by {
            By::Loop => pools().map(|pool| changed_frames(pool, &mut w)).sum(),
            By::Frames | By::Packets => 0,
        };
        bench.check(
            &format!("{name}: contents intact"),
            damaged == 0 && changed == 0,
            format!("{damaged} packets wrong, {changed} frames changed"),
        );
        pools().for_each(|pool| check_all_freed(bench, &name, pool));
        late
    }
}

#[cfg(test)]
impl Rig {
    /// Polls every worker in turn, on this thread.
    pub(super) fn turn(&self, rounds: usize) {
        for _ in 0..rounds {
            self.workers.borrow_mut().iter_mut().for_each(|worker| _ = worker.poll());
        }
    }

    /// Returns the number of packets that went from one worker to another.
    pub(super) fn handed(&self) -> u64 {
        self.shared.iter().flat_map(|shared| (shared.stats)()).map(|stats| stats.dequeued).sum()
    }

    /// Returns the number of packets that left.
    pub(super) fn total(&self) -> u64 {
        total(&self.left())
    }

    /// Returns the number of frames of the receiving workers' pools that are posted.
    pub(super) fn posted(&self) -> u64 {
        self.shared.iter().map(|shared| shared.pools[0].ledger().posted).sum()
    }

    /// Records for each flow that a packet has left which is still to come.
    pub(super) fn skip(&self) {
        self.shared.iter().for_each(|shared| shared.left.skip());
    }
}

/// Returns the variant and its differences in its group.
fn describe(label: &Label) -> String {
    let of = |name: &str| label.params.get(name).and_then(|value| value.as_str()).unwrap_or_default();
    format!("{}, {}", label.variant, of("load"))
}

/// The pace of a rig, measured where packets leave last.
pub(super) struct Pace<'a> {
    rig: &'a Rig,
    clock: &'a Tsc,
    sampler: PollSampler<'a, Tsc>,
    peer_core: usize,
}

impl<'a> Pace<'a> {
    pub(super) fn new(rig: &'a Rig, clock: &'a Tsc, packets: u64, peer_core: usize) -> Pace<'a> {
        let shape = Shape { burst: POLL_BURSTS * rig.plan.burst, packets, waits: true };
        Pace { rig, clock, sampler: PollSampler::new(clock, shape), peer_core }
    }
}

/// Runs a round of a worker on a core where other work takes `pressure` percent of the time, while packets move.
#[inline]
fn beside_other_work(worker: &mut dyn Turn, pressure: u64, clock: &Tsc) -> usize {
    if pressure == 0 {
        return worker.poll();
    }
    let begun = clock.ticks();
    let moved = worker.poll();
    if moved > 0 {
        clock.wait((clock.ticks() - begun) * pressure / (100 - pressure));
    }
    moved
}

fn total(left: &[u64; 2]) -> u64 {
    left.iter().sum()
}

/// Returns true if fewer than `wanted` packets have left, or fewer than a fourth of them from a worker that
/// receives and has ever received.
fn is_short(before: &[u64; 2], left: &[u64; 2], wanted: u64) -> bool {
    let behind = |(before, left): (&u64, &u64)| *left > 0 && left - before < wanted / 4;
    total(left) - total(before) < wanted || before.iter().zip(left).any(behind)
}

impl Variant for Pace<'_> {
    fn label(&self) -> &Label {
        &self.rig.label
    }

    fn round(&mut self, windows: usize) -> Windows {
        let workers = &mut *self.rig.workers.borrow_mut();
        let Some((last, others)) = workers.split_last_mut() else { return Windows::default() };
        let (rig, clock, pressure) = (self.rig, self.clock, self.rig.plan.pressure);
        let mut before = rig.left();
        let wanted = (POLL_BURSTS * rig.plan.burst) as u64;
        let mut poll = || {
            let (mut looks, mut left) = (0, before);
            // Each of two receiving workers must have its part. If one is paused, the other's work would count for
            // both.
            while looks < LOOKS && is_short(&before, &left, wanted) {
                let idle = beside_other_work(&mut **last, pressure, clock) == 0;
                left = rig.left();
                looks += usize::from(idle || total(&left) - total(&before) >= wanted);
            }
            let done = total(&left) - total(&before);
            before = left;
            done as usize
        };
        let mut peer: Box<dyn FnMut() + Send> = match others {
            [other] => Box::new(|| _ = beside_other_work(&mut **other, pressure, clock)),
            _ => Box::new(|| std::thread::sleep(Duration::from_micros(100))),
        };
        self.sampler.round(windows, Some(self.peer_core), &mut poll, &mut *peer)
    }
}

#[cfg(test)]
mod tests {
    use super::is_short;

    #[test]
    fn a_pass_is_short_while_one_of_two_that_receive_has_stopped() {
        assert!(is_short(&[100, 100], &[300, 100], 128));
        assert!(!is_short(&[100, 100], &[200, 132], 128));
        assert!(is_short(&[100, 0], &[227, 0], 128) && !is_short(&[100, 0], &[228, 0], 128));
    }
}
