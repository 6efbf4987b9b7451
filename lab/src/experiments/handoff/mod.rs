//! `handoff`: lists of packets that one core receives and another forwards. They are compared with one core that
//! does all the work, and with two cores that each have queues of their own, which the source's thread would
//! prefer.

mod contents;
mod core;
mod cost;
mod findings;
mod forwarder;
mod groups;
mod idle;
mod plan;
mod reading;
mod rig;
mod set_up;
mod turn;

use netmem::limits::CHUNK_SIZE;

use super::Experiment;
use crate::bench::{Bench, Comparison, Cores, Effort, SetUpError};
use crate::method::memory::memory_available;
use crate::method::round::Variant;
use crate::metric::Metric;
use crate::settings::Key;
use crate::sources;
use groups::Group;
use plan::{Plan, Way};
use rig::{Pace, Rig};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "handoff",
    source: sources::HAND_OFF.key,
    question: "Does it pay to hand received packets to another core, and does it beat receive queues on both?",
    seconds: 600,
    keys: KEYS,
    run,
};

const KEYS: &[Key] = &[
    Key { name: "packets", what: "packets per window", min: 256, max: 65_536, full: 2_048, quick: 1_024 },
    Key {
        name: "sums",
        what: "checksums over a packet that make heavy work",
        min: 2,
        max: 64,
        full: 8,
        quick: 8,
    },
    Key {
        name: "rings",
        what: "steps of the frames used in turn: 2, 64, 256, 1024 and 2048 MiB; from 4 steps on the forwarder reads packets too",
        min: 1,
        max: 5,
        full: 5,
        quick: 3,
    },
];

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let Some(&peer_core) = bench.cores.get(1) else {
        bench.check("two cores", false, "handing off needs two".to_owned());
        return Ok(());
    };
    let (sums, rings) = (bench.setting("sums"), rings(bench));
    let (headlines, mut sweeps) = (groups::headlines(sums), groups::sweeps(sums, rings));
    sweeps.extend(groups::forwarder(rings));
    let effort = bench.effort().shared_by((headlines.len() + sweeps.len()) / 3);
    for (group, load) in headlines.into_iter().zip(["light", "heavy"]) {
        // The comparison that names the experiment must be decided.
        measure(bench, group, peer_core, Effort { rounds: 2 * effort.rounds, ..effort })?;
        findings::answer(bench, load);
    }
    for group in sweeps {
        if bench.stopped() {
            break;
        }
        measure(bench, group, peer_core, effort)?;
    }
    cost::measure(bench, peer_core, effort)?;
    if !bench.stopped() {
        bench.once(|bench| idle::measure(bench, peer_core))?;
    }
    if let Some(&ring) = rings.last() {
        findings::notes(bench, &Plan { ring, sums: 1, ..Plan::new("most", Way::One) });
    }
    Ok(())
}

/// Returns the requested steps of the working set, as far as there is memory.
fn rings(bench: &mut Bench<'_>) -> &'static [usize] {
    let asked = &groups::RINGS[..bench.setting("rings") as usize];
    let room = memory_available().map_or(usize::MAX, |bytes| bytes / CHUNK_SIZE);
    // The working set exists once for each variant of a group: one worker, one that hands over, and two with queues
    // together. A rig's memory is a fourth larger than its frames, and other variants need some too.
    let fits = |steps: &usize| asked[*steps - 1] * 3 * 3 / 2 <= room;
    let steps = (1..=asked.len()).rev().find(fits).unwrap_or(1);
    if steps < asked.len() {
        bench
            .note(format!("no working set of {} MiB and more: there is no memory for it", asked[steps] >> 9));
    }
    &asked[..steps]
}

/// Measures a group in the same rounds and settles each of its variants.
fn measure(bench: &mut Bench<'_>, group: Group, peer_core: usize, effort: Effort) -> Result<(), SetUpError> {
    let rigs = group.into_iter().map(Rig::new).collect::<Result<Vec<Rig>, _>>()?;
    let (clock, packets) = (bench.clock, bench.setting("packets"));
    let pace = |rig| -> Box<dyn Variant> { Box::new(Pace::new(rig, &clock, packets, peer_core)) };
    let mut variants: Vec<Box<dyn Variant>> = rigs.iter().map(pace).collect();
    let over_first = |a, b| Comparison { a, b, metric: Metric::Pps };
    let mut comparisons: Vec<Comparison> = (1..variants.len()).map(|a| over_first(a, 0)).collect();
    let queues = (0..rigs.len()).filter(|place| rigs[*place].plan.way == Way::Queues);
    for queues in queues {
        let is_compared = |plan: &Plan| plan.way != Way::Queues && !plan.hashed;
        let others = (1..variants.len()).filter(|other| is_compared(&rigs[*other].plan));
        comparisons.extend(others.map(|other| Comparison { a: other, b: queues, metric: Metric::Pps }));
    }
    let place = |variant| rigs.iter().position(|rig| rig.plan.variant == variant);
    if let (Some(a), Some(b)) = (place(groups::SHARED), place(groups::ONE_HASHED)) {
        comparisons.push(Comparison { a, b, metric: Metric::Pps });
    }
    let series = bench.measure_with(&mut variants, &comparisons, Cores::Cross, effort);
    drop(variants);
    for one in &series {
        bench.row(one, Metric::Pps, findings::published(&one.label));
        bench.row(one, Metric::NsPerPacket, None);
    }
    for (rig, one) in rigs.into_iter().zip(series) {
        if let Some(percent) = rig.generating() {
            let mut label = one.label.clone();
            label.params.insert("of".to_owned(), "the receiving worker's time, in place of a card".into());
            bench.figure(label, Metric::Percent, percent, None);
        }
        let counted = !rig.plan.keeps_order();
        let late = rig.settle(bench);
        if counted {
            let mut label = one.label;
            label.params.insert("counted".to_owned(), "reordered".into());
            bench.figure(label, Metric::Count, late as f64, None);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
