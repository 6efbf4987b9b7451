//! From one core to another in bursts: packets that are allocated and written on one core and read and freed on the
//! other, the same for blocks of memory, and rings alone.

mod blocks;
mod lines;
mod many;
mod packets;
#[cfg(feature = "rivals")]
mod queues;
mod rings;

use std::thread;

use super::sides::{PASS, Side};
use super::target::Target;
use super::{Scene, over_first, rows};
use crate::bench::{Bench, Cores, Effort, SetUpError};
use crate::experiments::page_cross_worker::pair;
use crate::method::clock::Tsc;
use crate::method::peer::Peer;
use crate::method::poll::{PollSampler, Shape};
use crate::method::round::{Label, Series, Variant};
use crate::method::window::Windows;
use crate::rivals::dpdk::{BURST, Passed};

/// Slots in a ring: too few for one side to run a whole window on items that the other, stopped side had sent
/// before.
const SLOTS: usize = 512;

/// Items in a window.
const WINDOW: u64 = 8 * PASS;

/// Number of fruitless checks at the end after which nothing is in flight any more.
const LAST_LOOKS: usize = 3;

/// A side in cache lines of its own.
#[repr(align(128))]
struct Apart<S>(S);

impl<S: Side> Side for Apart<S> {
    fn pass(&mut self, next: u64) -> Passed {
        self.0.pass(next)
    }

    fn stop_sending(&mut self) -> u64 {
        self.0.stop_sending()
    }
}

/// One end, and its counts since it was made.
struct End<'a> {
    side: Box<dyn Side + 'a>,
    done: Passed,
}

impl<'a> End<'a> {
    fn new(side: impl Side + 'a) -> Self {
        Self { side: Box::new(Apart(side)), done: Passed::default() }
    }

    fn pass(&mut self) -> usize {
        let Passed { items, wrong } = self.side.pass(self.done.items);
        self.done.items += items;
        self.done.wrong += wrong;
        items as usize
    }
}

/// Two ends of a ring.
struct Crossing<'a> {
    variant: &'static str,
    /// The giving end and the taking end.
    ends: (End<'a>, End<'a>),
}

impl<'a> Crossing<'a> {
    fn new(variant: &'static str, gives: impl Side + 'a, takes: impl Side + 'a) -> Self {
        Self { variant, ends: (End::new(gives), End::new(takes)) }
    }

    /// Takes the items in flight, and checks that every sent item arrived, in order and unchanged.
    fn settle(self, bench: &mut Bench<'_>, what: &str) {
        let (gives, mut takes) = self.ends;
        let sent = gives.done.items + takes.side.stop_sending();
        let mut looks = 0;
        while looks < LAST_LOOKS {
            looks += usize::from(takes.pass() == 0);
        }
        let (refused, Passed { items: got, wrong }) = (gives.done.wrong, takes.done);
        bench.check_done(
            &format!("{}, {what}: all arrived, in order and whole", self.variant),
            sent > 0,
            sent == got && refused + wrong == 0,
            format!("{sent} sent, {got} arrived, {refused} refused, {wrong} wrong"),
        );
    }
}

/// The pace of both, measured at the receiving end. The other end is on another core, on one thread in all rounds, and
/// never rests in a round.
struct Pace<'p, 'scope, 'a> {
    label: Label,
    takes: &'p mut End<'a>,
    gives: &'p Peer<'scope, End<'a>>,
    sampler: PollSampler<'p, Tsc>,
}

impl Variant for Pace<'_, '_, '_> {
    fn label(&self) -> &Label {
        &self.label
    }

    fn round(&mut self, windows: usize) -> Windows {
        self.sampler.round_with(windows, self.gives, &mut || self.takes.pass())
    }
}

/// Measures all transfers.
pub(super) fn groups(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    peer_core: usize,
) -> Result<Vec<Target>, SetUpError> {
    let mut targets = packets::group(scene, bench, peer_core)?;
    targets.extend(rings::group(scene, bench, peer_core, BURST)?);
    targets.extend(rings::group(scene, bench, peer_core, 1)?);
    blocks::groups(scene, bench, peer_core)?;
    for senders in many::SENDERS {
        many::group(scene, bench, peer_core, senders)?;
    }
    let effort = effort(bench);
    targets.extend(pair::measure(bench, (scene.memory, scene.clock), peer_core, effort)?);
    bench.note(format!(
        "across cores: the pace of the pair through a ring of {SLOTS}, waiting included; both sides poll again at \
         once"
    ));
    Ok(targets)
}

/// Many rounds of few windows, because the rounds differ by the regime that each happens to be in.
fn effort(bench: &Bench<'_>) -> Effort {
    Effort { windows: bench.effort().windows.div_ceil(4), ..bench.effort() }
}

/// Measures `crossings`, the first compared with each other one, then lets everything arrive.
fn measure(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    peer_core: usize,
    crossings: Vec<Crossing<'_>>,
    (what, named): (&str, &dyn Fn(&str) -> Label),
) -> Vec<Series> {
    let shape = Shape { burst: PASS as usize, packets: WINDOW, waits: true };
    let (compared, effort) = (over_first(crossings.len()), effort(bench));
    let (series, crossings) = thread::scope(|scope| {
        let mut pairs = Vec::new();
        for Crossing { variant, ends: (gives, takes) } in crossings {
            let gives = Peer::spawn(scope, Some(peer_core), gives, |gives| _ = gives.pass());
            pairs.push((variant, gives, takes));
        }
        let mut variants: Vec<Box<dyn Variant + '_>> = Vec::new();
        for (variant, gives, takes) in &mut pairs {
            let (label, sampler) = (named(variant), PollSampler::new(scene.clock, shape));
            variants.push(Box::new(Pace { label, takes, gives: &*gives, sampler }));
        }
        let series = bench.measure_with(&mut variants, &compared, Cores::Cross, effort);
        drop(variants);
        let back =
            pairs.into_iter().map(|(variant, gives, takes)| Crossing { variant, ends: (gives.end(), takes) });
        (series, back.collect::<Vec<_>>())
    });
    rows(bench, &series);
    crossings.into_iter().for_each(|crossing| crossing.settle(bench, what));
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;
    use netmem::ring::ring;

    fn crossing() -> Crossing<'static> {
        let (sends, receives) = ring::<u64>(SLOTS as u32);
        Crossing::new("netmem", sends, receives)
    }

    #[test]
    fn items_in_flight_at_the_end_are_received_and_counted() {
        let mut crossing = crossing();
        assert_eq!(crossing.ends.0.pass(), 256);
        let report = report_of(false, |bench| crossing.settle(bench, "ring"));
        assert!(report.ok(), "{:?}", report.checks);
    }

    #[test]
    fn a_run_that_sent_nothing_fails_the_check_unless_it_was_stopped() {
        for stopped in [false, true] {
            let report = report_of(stopped, |bench| crossing().settle(bench, "ring"));
            assert_eq!(report.ok(), stopped, "{:?}", report.checks);
        }
    }

    #[test]
    fn an_item_that_is_missing_fails_the_check() {
        let mut crossing = crossing();
        crossing.ends.0.pass();
        crossing.ends.1.done.items = 1;
        let report = report_of(false, |bench| crossing.settle(bench, "ring"));
        assert!(!report.ok() && report.checks[0].detail.contains("256 wrong"), "{:?}", report.checks);
    }
}
