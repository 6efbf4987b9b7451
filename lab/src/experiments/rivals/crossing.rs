//! From one core to another in bursts: packets that are allocated and written here and read and freed there, and the ring
//! alone.

use std::cell::RefCell;

use netmem::packet::{Heads, HeadsConfig, Packets};
use netmem::pool::{Pool, PoolConfig};
use netmem::ring::ring;

use super::sides::{Giving, Side, Taking};
use super::target::Target;
use super::{CACHE, FRAME, FRAMES, LINE, Scene, check_dpdk, label, over_first, rows};
use crate::bench::{Bench, Cores, Effort, SetUpError};
use crate::method::clock::Tsc;
use crate::method::poll::{PollSampler, Shape};
use crate::method::round::{Label, Series, Variant};
use crate::method::window::Windows;
use crate::rivals::dpdk::{self, BURST, Dpdk, Passed};

/// Places in a ring: too few for one side to live through a window on what the other one, stopped, had sent before.
const SLOTS: usize = 512;

/// Items in a window, of which every poll passes at most an eighth.
const WINDOW: u64 = 2_048;

/// Looks in vain at the end after which nothing is under way any more.
const LAST_LOOKS: usize = 3;

/// One end, and what it has done since it was made.
struct End<'a> {
    side: Box<dyn Side + 'a>,
    done: Passed,
}

impl<'a> End<'a> {
    fn new(side: impl Side + 'a) -> Self {
        Self { side: Box::new(side), done: Passed::default() }
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
    ends: RefCell<(End<'a>, End<'a>)>,
}

impl<'a> Crossing<'a> {
    fn new(variant: &'static str, gives: impl Side + 'a, takes: impl Side + 'a) -> Self {
        Self { variant, ends: RefCell::new((End::new(gives), End::new(takes))) }
    }

    /// Takes what is still under way, and checks that everything that was sent arrived, in order and whole.
    fn settle(self, bench: &mut Bench<'_>, what: &str) {
        let (gives, mut takes) = self.ends.into_inner();
        let mut looks = 0;
        while looks < LAST_LOOKS {
            looks += usize::from(takes.pass() == 0);
        }
        let (sent, got) = (gives.done, takes.done);
        bench.check(
            &format!("{}, {what}: all arrived, in order and whole", self.variant),
            sent.items > 0 && sent.items == got.items && sent.wrong + got.wrong == 0,
            format!(
                "{} sent, {} arrived, {} refused, {} wrong",
                sent.items, got.items, sent.wrong, got.wrong
            ),
        );
    }
}

/// The pace of both, measured where things arrive; the other end is on another core and never rests.
struct Pace<'p, 'a> {
    label: Label,
    crossing: &'p Crossing<'a>,
    sampler: PollSampler<'p, Tsc>,
    peer_core: usize,
}

impl Variant for Pace<'_, '_> {
    fn label(&self) -> &Label {
        &self.label
    }

    fn round(&mut self, windows: usize) -> Windows {
        let ends = &mut *self.crossing.ends.borrow_mut();
        let (gives, takes) = (&mut ends.0, &mut ends.1);
        let mut give = || _ = gives.pass();
        self.sampler.round(windows, Some(self.peer_core), &mut || takes.pass(), &mut give)
    }
}

/// Measures both kinds of crossing.
pub(super) fn groups(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    peer_core: usize,
) -> Result<Vec<Target>, SetUpError> {
    let (ours, pool) = our_packets(scene)?;
    let mut packets = vec![ours];
    let theirs = scene.dpdk.map(their_packets).transpose().map_err(SetUpError::at("mempool of mbufs"))?;
    let mempool = theirs.map(|(crossing, mempool)| {
        packets.push(crossing);
        mempool
    });
    let crossed = measure(scene, bench, &packets, ("packet", LINE), peer_core);
    packets.into_iter().for_each(|crossing| crossing.settle(bench, "packets"));
    super::super::check_home(bench, "netmem, packets across", &pool);
    if let Some(mempool) = &mempool {
        check_dpdk(bench, "packets across", 0, mempool.out());
    }

    let (sends, receives) = ring::<u64>(SLOTS as u32);
    let mut rings = vec![Crossing::new("netmem", sends, receives)];
    if let Some(dpdk) = scene.dpdk {
        let (sends, receives) = dpdk.ring(SLOTS).map_err(SetUpError::at("ring"))?;
        rings.push(Crossing::new("dpdk", sends, receives));
    }
    let alone = measure(scene, bench, &rings, ("ring", size_of::<u64>()), peer_core);
    rings.into_iter().for_each(|crossing| crossing.settle(bench, "ring"));
    bench.note(format!(
        "across cores: the pace of the pair in bursts of {BURST} through a ring of {SLOTS}, waiting included; both sides \
         look again at once; netmem's arrays of heads are as large as the rival's cache of packets; packets have their 64 bytes written by the first core and their first 8 read by the second"
    ));
    Ok(targets(bench, &crossed, &alone))
}

fn targets(bench: &Bench<'_>, crossed: &[Series], alone: &[Series]) -> Vec<Target> {
    let mut targets = Vec::new();
    if let [ours, theirs] = crossed {
        targets.extend(Target::over_fastest(bench, "packets across cores by 32", 0.5, ours, &[theirs]));
        targets.extend(Target::over_p10("packets across cores by 32", 0.7, ours, theirs));
    }
    if let [ours, theirs] = alone {
        targets.extend(Target::over_fastest(
            bench,
            "the ring alone across cores by 32",
            0.7,
            ours,
            &[theirs],
        ));
    }
    targets
}

fn measure(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    crossings: &[Crossing<'_>],
    (work, bytes): (&str, usize),
    peer_core: usize,
) -> Vec<Series> {
    let shape = Shape { burst: BURST, packets: WINDOW, waits: true };
    let pace = |crossing| -> Box<dyn Variant + '_> {
        let crossing: &Crossing<'_> = crossing;
        let label = label(crossing.variant, work, BURST, "cross", bytes, work == "packet");
        Box::new(Pace { label, crossing, sampler: PollSampler::new(scene.clock, shape), peer_core })
    };
    let mut variants: Vec<Box<dyn Variant + '_>> = crossings.iter().map(pace).collect();
    // Many rounds of few windows: what differs is the regime that a round happens to be in.
    let effort = Effort { windows: bench.effort().windows.div_ceil(4), ..bench.effort() };
    let series = bench.measure_with(&mut variants, &over_first(crossings.len()), Cores::Cross, effort);
    rows(bench, &series);
    series
}

/// netmem's packets, whose pool the giving core owns.
fn our_packets(scene: &Scene<'_>) -> Result<(Crossing<'static>, Pool), SetUpError> {
    let worker = || scene.memory.worker().map_err(SetUpError::at("worker"));
    let mut owner = worker()?;
    let config = PoolConfig {
        name: "crossing".to_owned(),
        frames: FRAMES,
        frame_size: FRAME,
        cache: CACHE,
        ..PoolConfig::default()
    };
    let pool = Pool::new(scene.memory, &mut owner, &config).map_err(SetUpError::at("pool"))?;
    // As many as the rival's cache of packets keeps.
    let config = HeadsConfig {
        size: CACHE,
        refill: CACHE / 2,
        free: CACHE / 2,
        defer_max: CACHE,
        ..HeadsConfig::default()
    };
    let heads = Heads::with(scene.memory, &config).map_err(SetUpError::at("heads"))?;
    let (to_taking, from_giving) = ring(SLOTS as u32);
    let (here, there) = (heads.clone(), heads);
    let gives =
        Giving { worker: owner, pool: pool.clone(), heads: here, packets: Packets::new(), ring: to_taking };
    let takes = Taking { worker: worker()?, heads: there, packets: Packets::new(), ring: from_giving };
    Ok((Crossing::new("netmem", gives, takes), pool))
}

/// DPDK's packets, and the pool that they are of.
fn their_packets(dpdk: Dpdk) -> Result<(Crossing<'static>, dpdk::Packets), String> {
    let packets = dpdk.packets(FRAMES, FRAME, CACHE)?;
    let (sends, receives) = packets.ring(SLOTS)?;
    Ok((Crossing::new("dpdk", sends, receives), packets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;

    fn crossing() -> Crossing<'static> {
        let (sends, receives) = ring::<u64>(SLOTS as u32);
        Crossing::new("netmem", sends, receives)
    }

    #[test]
    fn what_is_still_under_way_at_the_end_is_taken_and_counted() {
        let crossing = crossing();
        assert_eq!(crossing.ends.borrow_mut().0.pass(), 256);
        let report = report_of(false, |bench| crossing.settle(bench, "ring"));
        assert!(report.ok(), "{:?}", report.checks);
    }

    #[test]
    fn an_item_that_is_missing_fails_the_check() {
        let crossing = crossing();
        {
            let ends = &mut *crossing.ends.borrow_mut();
            ends.0.pass();
            ends.1.done.items = 1;
        }
        let report = report_of(false, |bench| crossing.settle(bench, "ring"));
        assert!(!report.ok() && report.checks[0].detail.contains("256 wrong"), "{:?}", report.checks);
    }
}
