//! The cost of a hand-off on both sides: a fixed number of frames goes back and forth between two workers in bursts
//! of 32, by their inboxes and by two bare rings. The frames are not read or written.

use std::cell::RefCell;

use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{Batch, Frame, Pool, PoolConfig};
use netmem::ring::{Receiver, Sender, ring};
use netmem::steer::{Inbox, Mesh, MeshConfig, Outbox, Source};
use netmem::sync::Worker;

use crate::bench::{Bench, Comparison, Cores, Effort, SetUpError};
use crate::experiments::check_all_freed;
use crate::json::params;
use crate::method::clock::Tsc;
use crate::method::poll::{PollSampler, Shape};
use crate::method::round::{Label, Variant};
use crate::method::window::Windows;
use crate::metric::Metric;

const BURST: usize = 32;

/// Bursts that go back and forth between two cores. On one core it is one, because an inbox returns every waiting
/// frame, and thus a burst.
const BURSTS: usize = 8;

/// Frames between two readings of the clock, and number of fruitless checks after which it is read anyway.
const PASS: usize = 256;
const LOOKS: usize = 1_024;

/// The maximum cost of a hand-off, in bare rings.
const AT_MOST: f64 = 2.0;

const HANDED: &str = "netmem/hand-off";

/// One side: frames from the other side go back to it.
trait End: Send {
    /// Returns the number of frames that came.
    fn pass(&mut self) -> usize;
}

struct Handing {
    w: Worker,
    outbox: Outbox,
    inbox: Inbox,
}

impl End for Handing {
    #[inline(never)]
    fn pass(&mut self) -> usize {
        let mut frames = Batch::new();
        let Some(source) = self.inbox.take(&mut self.w, &mut frames) else { return 0 };
        let came = frames.len();
        self.outbox.hand_off_or_drop(&mut self.w, 1 - self.inbox.worker(), source, &mut frames);
        self.outbox.flush(&mut self.w);
        came
    }
}

struct Ring {
    input: Receiver<Frame>,
    output: Sender<Frame>,
}

impl End for Ring {
    #[inline(never)]
    fn pass(&mut self) -> usize {
        let mut frames = Batch::new();
        let came = self.input.recv_burst(BURST, |frame| {
            // There is room for a burst. Without room the frame would return to its pool.
            let _ = frames.push(frame);
        });
        self.output.send_burst(came, &mut frames.drain());
        came
    }
}

/// The pace of two ends, on one core in turn or on two.
struct Trip<'a> {
    label: Label,
    ends: RefCell<[Box<dyn End>; 2]>,
    sampler: PollSampler<'a, Tsc>,
    /// The other end's core, or None if it is this one.
    peer_core: Option<usize>,
}

impl Variant for Trip<'_> {
    fn label(&self) -> &Label {
        &self.label
    }

    fn round(&mut self, windows: usize) -> Windows {
        let [here, there] = &mut *self.ends.borrow_mut();
        if let Some(core) = self.peer_core {
            let mut poll = || passed(&mut || here.pass());
            return self.sampler.round(windows, Some(core), &mut poll, &mut || _ = there.pass());
        }
        let mut poll = || {
            passed(&mut || {
                let came = here.pass();
                there.pass();
                came
            })
        };
        let polled = self.sampler.sample(windows, &mut poll);
        Windows::without_pauses(&polled.full, 0.0)
    }
}

fn passed(pass: &mut dyn FnMut() -> usize) -> usize {
    let (mut done, mut looks) = (0, 0);
    while done < PASS && looks < LOOKS {
        let came = pass();
        done += came;
        looks += usize::from(came == 0);
    }
    done
}

/// Measures on one core, then across two, and checks the bound.
pub(super) fn measure(bench: &mut Bench<'_>, peer_core: usize, effort: Effort) -> Result<(), SetUpError> {
    let memory = Memory::new(&MemoryConfig::default()).map_err(SetUpError::at("memory"))?;
    let mut owner = memory.worker().map_err(SetUpError::at("worker"))?;
    let config =
        PoolConfig { name: "to and fro".to_owned(), frames: 4 * BURSTS * BURST, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut owner, &config).map_err(SetUpError::at("pool"))?;
    for (cores, peer) in [(Cores::Same, None), (Cores::Cross, Some(peer_core))] {
        let clock = bench.clock;
        let shape = Shape { burst: PASS, packets: 2_048, waits: true };
        let trip = |variant: &str, ends| {
            let sampler = PollSampler::new(&clock, shape);
            Box::new(Trip {
                label: label(variant, cores),
                ends: RefCell::new(ends),
                sampler,
                peer_core: peer,
            })
        };
        let handing = handing(&memory, &mut owner, &pool, bursts_on(cores))?;
        let rings = rings(&mut owner, &pool, bursts_on(cores));
        let mut variants: Vec<Box<dyn Variant>> = vec![trip(HANDED, handing), trip("limit", rings)];
        let comparison = Comparison { a: 0, b: 1, metric: Metric::NsPerPacket };
        let series = bench.measure_with(&mut variants, &[comparison], cores, effort);
        drop(variants);
        series.iter().for_each(|one| bench.row(one, Metric::NsPerPacket, None));
        bound(bench, cores);
    }
    check_all_freed(bench, "hand-off to and fro", &pool);
    Ok(())
}

/// Checks that the ratio on these cores is within its bound, or not certainly beyond it.
fn bound(bench: &mut Bench<'_>, cores: Cores) {
    let of = ("cores", name(cores));
    let Some(ratio) = bench.reported_ratio_with(of, HANDED, "limit") else { return };
    let (ok, too_few) = (ratio.low <= AT_MOST, ratio.too_few);
    let detail = format!("{} ({} to {}) bare rings", ratio.median, ratio.low, ratio.high);
    let place = if cores == Cores::Same { "on one core" } else { "across cores" };
    let what = format!("hand-off costs at most {AT_MOST} bare rings, {place}");
    bench.judge_ratio(&what, too_few, ok, detail);
}

fn bursts_on(cores: Cores) -> usize {
    if cores == Cores::Same { 1 } else { BURSTS }
}

fn handing(
    memory: &Memory,
    owner: &mut Worker,
    pool: &Pool,
    bursts: usize,
) -> Result<[Box<dyn End>; 2], SetUpError> {
    let config = MeshConfig::default();
    let (_, ends) = Mesh::new(&config).map_err(SetUpError::at("mesh"))?;
    let mut sides: Vec<Box<dyn End>> = Vec::new();
    for (mut outbox, inbox) in ends {
        let w = memory.worker().map_err(SetUpError::at("worker"))?;
        if sides.is_empty() {
            send_bursts(owner, pool, bursts, |w, frames| {
                outbox.hand_off_or_drop(w, 1, Source::default(), frames);
                outbox.flush(w);
            });
        }
        sides.push(Box::new(Handing { w, outbox, inbox }));
    }
    sides
        .try_into()
        .map_err(|_| SetUpError { step: "mesh", cause: "it has other than two workers".to_owned() })
}

fn rings(owner: &mut Worker, pool: &Pool, bursts: usize) -> [Box<dyn End>; 2] {
    let ((mut there, input), (back, returned)) = (ring(1_024), ring(1_024));
    send_bursts(owner, pool, bursts, |_, frames| _ = there.send_burst(BURST, &mut frames.drain()));
    [Box::new(Ring { input: returned, output: there }), Box::new(Ring { input, output: back })]
}

/// Passes the frames that go back and forth to `send`.
fn send_bursts(
    owner: &mut Worker,
    pool: &Pool,
    bursts: usize,
    mut send: impl FnMut(&mut Worker, &mut Batch),
) {
    for _ in 0..bursts {
        let mut frames = Batch::new();
        pool.alloc_burst(owner, &mut frames, BURST);
        send(owner, &mut frames);
        frames.free(owner);
    }
}

fn name(cores: Cores) -> &'static str {
    if cores == Cores::Same { "same" } else { "cross" }
}

fn label(variant: &str, cores: Cores) -> Label {
    let frames = bursts_on(cores) * BURST;
    let params = params([
        ("work", "ring".into()),
        ("burst", BURST.into()),
        ("cores", name(cores).into()),
        ("bytes", size_of::<Frame>().into()),
        ("touch", false.into()),
        ("frames", frames.into()),
    ]);
    Label { variant: variant.to_owned(), params }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{ratio, report_of};
    use crate::json::Ratio;

    /// Seen: if no window across cores counted, the ratio on one core was judged once more, as that across cores.
    #[test]
    fn a_bound_is_judged_by_the_ratio_on_its_cores_and_by_no_other() {
        for (cores, checks) in [(Cores::Same, 1), (Cores::Cross, 0)] {
            let report = report_of(false, |bench| {
                let params = label(HANDED, Cores::Same).params;
                bench.report_ratio(Ratio { params, ..ratio(HANDED, "limit", (1.1, 1.2), false) });
                bound(bench, cores);
            });
            assert_eq!(report.checks.len(), checks, "{cores:?}");
        }
    }
}
