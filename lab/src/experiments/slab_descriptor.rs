//! `slab-descriptor`: the method that changes a slab's word (a lock, a lock that touches two more cold lines,
//! 128-bit CAS, one packed 64-bit word), and the size of the page descriptor with that word (56, 64 or 32 bytes).

mod axes;
mod counted;
mod findings;
mod form;
mod forwarding;
mod grid;
mod group;
mod overhead;
mod paths;
mod question;
mod scene;
mod simulated;
mod usage;

use super::Experiment;
use crate::bench::{Bench, SetUpError};
use crate::settings::Key;
use crate::sources;
use form::FORMS;
use scene::Scene;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "slab-descriptor",
    source: sources::PAGE.key,
    question: "What do the page descriptor's size and the way a slab's word is changed cost, and where does it show?",
    seconds: 1_100,
    keys: KEYS,
    run,
};

const KEYS: &[Key] = &[
    Key { name: "cold", what: "MiB of objects in a cold working set", min: 1, max: 256, full: 64, quick: 16 },
    Key {
        name: "pairs",
        what: "thousands of pairs that the cache simulator sees",
        min: 0,
        max: 100_000,
        full: 1_000,
        quick: 50,
    },
    Key {
        name: "turn",
        what: "with body: its objects go back in the order of allocation (1) or in a random one (0)",
        min: 0,
        max: 1,
        full: 0,
        quick: 0,
    },
    Key {
        name: "body",
        what: "runs only the loop of one form (1 to 12), untimed, for a simulator to watch; 0 runs everything",
        min: 0,
        max: FORMS.len() as u64,
        full: 0,
        quick: 0,
    },
];

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    if let Some(form) = (bench.setting("body") as usize).checked_sub(1).and_then(|body| FORMS.get(body)) {
        return simulated::body(bench, form);
    }
    let memories = scene::memories(bench.setting("cold") as usize, scene::room())?;
    let scene = Scene::new(bench, &memories)?;
    let found = findings::Found {
        grid: grid::run(&scene, bench)?,
        sizes: grid::sizes(&scene, bench)?,
        axes: axes::run(&scene, bench)?,
    };
    if !bench.stopped() {
        forwarding::run(&scene, bench)?;
    }
    if !bench.stopped() {
        bench.once(|bench| {
            let simulated = simulated::run(bench);
            findings::loads(bench, &simulated);
            counted::run(bench)
        })?;
    }
    overhead::rows(bench, &memories);
    scene.settle(bench);
    findings::notes(bench, &found, &memories);
    Ok(())
}
