//! A variant with all that belongs to it: memory, workers, the mesh between them, and the balance at the end.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use netmem::limits::BATCH_MAX;
use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::port::mem::{MemConfig, wire};
use netmem::stats::{Count, Writer};
use netmem::steer::{Ends, Mesh, MeshConfig};
use netmem::sync::Worker;
use netmem_traffic::Traffic;

use super::core::{Core, FLOWS, Intake, Left, Own, PACKET, flow_of};
use super::plan::{Plan, Way};
use crate::bench::{Bench, SetUpError};
use crate::experiments::check_home;
use crate::method::clock::Tsc;
use crate::method::poll::{PollSampler, Shape};
use crate::method::round::{Label, Variant};
use crate::method::window::Windows;

/// Looks in vain after which the measured worker lets its clock be read.
const LOOKS: usize = 256;

/// Rounds in a row in which nothing moves: then nothing is under way.
const LAST_LOOKS: usize = 3;

/// Bytes of link addresses, which forwarding swaps.
const ADDRESSES: usize = 12;

/// One variant.
pub(super) struct Rig {
    pub(super) plan: Plan,
    label: Label,
    cores: RefCell<Vec<Core>>,
    meshes: Vec<Arc<Mesh>>,
    left: Vec<Arc<Left>>,
    pools: Vec<Pool>,
    _memory: Memory,
}

impl Rig {
    pub(super) fn new(plan: Plan) -> Result<Rig, SetUpError> {
        let bytes = plan.bytes() + plan.bytes() / 4 + (8 << 20);
        let memory = Memory::new(&MemoryConfig { bytes, workers: 4, ..MemoryConfig::default() });
        let memory = memory.map_err(SetUpError::at("memory"))?;
        let mut rig = Rig {
            label: plan.label(),
            plan,
            cores: RefCell::default(),
            meshes: Vec::new(),
            left: Vec::new(),
            pools: Vec::new(),
            _memory: memory.clone(),
        };
        let meshes = if rig.plan.way == Way::Queues { 2 } else { 1 };
        for _ in 0..meshes {
            rig.add_workers(&memory)?;
        }
        Ok(rig)
    }

    /// A mesh with its workers, the first of which receives.
    fn add_workers(&mut self, memory: &Memory) -> Result<(), SetUpError> {
        let plan = &self.plan;
        let (mesh, ends) = mesh(plan)?;
        let left = Arc::new(Left::new());
        let mut pool = None;
        for (outbox, inbox) in ends {
            let mut w = memory.worker().map_err(SetUpError::at("worker"))?;
            let intake = match pool {
                None => Some(intake(plan, pool.insert(filled_pool(plan, memory, &mut w)?))?),
                Some(_) => None,
            };
            let config = MemConfig { ring: 4096, ..MemConfig::default() };
            let out = wire("out", &config).map_err(SetUpError::at("wire"))?;
            let (sums, record, left) = (plan.sums, plan.record, Arc::clone(&left));
            self.cores.get_mut().push(Core { w, outbox, inbox, intake, out, sums, record, left });
        }
        self.pools.extend(pool);
        self.meshes.push(mesh);
        self.left.push(left);
        Ok(())
    }

    /// Packets that left, of each that receives; 0 for the second where there is but one.
    fn left(&self) -> [u64; 2] {
        let mut left = [0; 2];
        left.iter_mut().zip(&self.left).for_each(|(sum, left)| *sum = left.total());
        left
    }

    /// Lets everything that is under way leave, on this thread, and checks that nothing was lost, late, damaged or leaked.
    /// Returns packets that were late.
    pub(super) fn settle(self, bench: &mut Bench<'_>) -> u64 {
        let (name, plan) = (describe(&self.label), &self.plan);
        let mut cores = self.cores.into_inner();
        let (mut received, mut looks) = (0, 0);
        let intakes: Vec<Intake> = cores.iter_mut().filter_map(|core| core.intake.take()).collect();
        received += intakes.iter().map(|intake| intake.received).sum::<u64>();
        while looks < LAST_LOOKS {
            looks += usize::from(cores.iter_mut().map(Core::poll).sum::<usize>() == 0);
        }
        cores.iter_mut().for_each(Core::complete);
        let left: u64 = self.left.iter().map(|left| left.total()).sum();
        let stats = || self.meshes.iter().flat_map(|mesh| mesh.stats());
        let dropped: u64 = stats().map(|stats| stats.drops.total() + stats.lost).sum();
        let kept: u64 = stats().map(|stats| stats.kept).sum();
        bench.check(
            &format!("{name}: every packet accounted for"),
            received > 0 && received == left + dropped && dropped == 0,
            format!(
                "{received} received, {kept} of them kept by their worker, {left} left, {dropped} dropped"
            ),
        );
        let sum = |of: fn(&Left) -> &[Writer<Own<Count>>; 2]| {
            self.left.iter().flat_map(|left| of(left)).map(|count| count.0.get()).sum::<u64>()
        };
        let (late, damaged) = (sum(|left| &left.late), sum(|left| &left.damaged));
        if plan.keeps_order() {
            bench.check(
                &format!("{name}: order kept within each flow"),
                late == 0,
                format!("{late} of {left} late"),
            );
        }
        let mut w = cores.swap_remove(0).w;
        drop((cores, intakes));
        let changed: usize = self.pools.iter().map(|pool| changed_frames(pool, &mut w)).sum();
        bench.check(
            &format!("{name}: contents intact"),
            damaged == 0 && changed == 0,
            format!("{damaged} sums wrong, {changed} frames changed"),
        );
        self.pools.iter().for_each(|pool| check_home(bench, &name, pool));
        late
    }
}

#[cfg(test)]
impl Rig {
    /// Polls every worker in turn, on this thread.
    pub(super) fn turn(&self, rounds: usize) {
        for _ in 0..rounds {
            self.cores.borrow_mut().iter_mut().for_each(|core| _ = core.poll());
        }
    }

    /// Says of each flow that a packet has left that is to come yet.
    pub(super) fn skip(&self) {
        self.left.iter().for_each(|left| left.skip());
    }
}

/// The variant and what sets it apart in its group.
fn describe(label: &Label) -> String {
    let of = |name: &str| label.params.get(name).and_then(|value| value.as_str()).unwrap_or_default();
    format!("{}, {}", label.variant, of("load"))
}

fn mesh(plan: &Plan) -> Result<(Arc<Mesh>, Ends), SetUpError> {
    let (workers, policy) = match plan.way {
        Way::Handed(policy) => (2, policy),
        Way::One | Way::Queues => (1, "none"),
    };
    let policy = policy.parse().map_err(SetUpError::at("policy"))?;
    let (inbox, record) = (plan.inbox, plan.record);
    let config = MeshConfig { workers, inbox, record, policy, ..MeshConfig::default() };
    Mesh::new(&config).map_err(SetUpError::at("mesh"))
}

fn intake(plan: &Plan, pool: &Pool) -> Result<Intake, SetUpError> {
    let config = MemConfig { ring: plan.ring, ..MemConfig::default() };
    let ports = (0..plan.ports).map(|port| wire(&port.to_string(), &config)).collect::<Result<_, _>>();
    Ok(Intake {
        ports: ports.map_err(SetUpError::at("wire"))?,
        pool: pool.clone(),
        burst: plan.burst,
        lines: plan.lines,
        // A burst comes on top, and what has left counts as waiting until its reader comes back.
        under_way: (plan.inbox as usize).saturating_sub(BATCH_MAX + plan.burst) as u64,
        numbers: vec![0; FLOWS],
        received: 0,
        left: 0,
    })
}

/// The packet of each flow, from its first byte that forwarding keeps.
fn packets() -> Result<Vec<[u8; PACKET]>, SetUpError> {
    let mut traffic = Traffic::new(FLOWS, PACKET).map_err(SetUpError::at("traffic"))?;
    let packet = |_| {
        let mut packet = [0; PACKET];
        traffic.write(&mut packet);
        packet
    };
    Ok((0..FLOWS).map(packet).collect())
}

/// A pool in whose every frame the packet of its flow is written.
fn filled_pool(plan: &Plan, memory: &Memory, w: &mut Worker) -> Result<Pool, SetUpError> {
    let config = PoolConfig { name: plan.variant.clone(), frames: plan.frames(), ..PoolConfig::default() };
    let pool = Pool::new(memory, w, &config).map_err(SetUpError::at("pool"))?;
    let packets = packets()?;
    each_frame(&pool, w, |data| data.copy_from_slice(&packets[flow_of(data)]));
    Ok(pool)
}

/// Frames that hold another packet than they did at first, but for what forwarding swaps.
fn changed_frames(pool: &Pool, w: &mut Worker) -> usize {
    let Ok(packets) = packets() else { return pool.frames() };
    let mut changed = 0;
    each_frame(pool, w, |data| {
        changed += usize::from(data[ADDRESSES..] != packets[flow_of(data)][ADDRESSES..]);
    });
    changed
}

/// Calls `f` with the data of every frame that is home.
fn each_frame(pool: &Pool, w: &mut Worker, mut f: impl FnMut(&mut [u8])) {
    let mut all = Vec::new();
    loop {
        let mut frames = Batch::new();
        if pool.alloc_burst(w, &mut frames, BATCH_MAX) == 0 {
            break;
        }
        frames.put_each(PACKET, |_, data| f(data));
        all.push(frames);
    }
    all.iter_mut().for_each(|frames| frames.free(w));
}

/// The pace of a rig, measured where packets leave last.
pub(super) struct Pace<'a> {
    rig: &'a Rig,
    sampler: PollSampler<'a, Tsc>,
    peer_core: usize,
}

impl<'a> Pace<'a> {
    pub(super) fn new(rig: &'a Rig, clock: &'a Tsc, packets: u64, peer_core: usize) -> Pace<'a> {
        let shape = Shape { burst: rig.plan.burst, packets, waits: true };
        Pace { rig, sampler: PollSampler::new(clock, shape), peer_core }
    }
}

fn total(left: &[u64; 2]) -> u64 {
    left.iter().sum()
}

/// Whether fewer than `wanted` packets have left, or of those of one that receives, if it has ever received, less than a
/// fourth of them.
fn is_short(before: &[u64; 2], left: &[u64; 2], wanted: u64) -> bool {
    let behind = |(before, left): (&u64, &u64)| *left > 0 && left - before < wanted / 4;
    total(left) - total(before) < wanted || before.iter().zip(left).any(behind)
}

impl Variant for Pace<'_> {
    fn label(&self) -> &Label {
        &self.rig.label
    }

    fn round(&mut self, windows: usize) -> Windows {
        let cores = &mut *self.rig.cores.borrow_mut();
        let Some((last, others)) = cores.split_last_mut() else { return Windows::default() };
        let rig = self.rig;
        let mut before = rig.left();
        let wanted = (4 * rig.plan.burst) as u64;
        let mut poll = || {
            let (mut looks, mut left) = (0, before);
            // Each of two that receive must have its part: where one is paused, the other's work would pass for both's.
            while looks < LOOKS && is_short(&before, &left, wanted) {
                let idle = last.poll() == 0;
                left = rig.left();
                looks += usize::from(idle || total(&left) - total(&before) >= wanted);
            }
            let done = total(&left) - total(&before);
            before = left;
            done as usize
        };
        let mut peer: Box<dyn FnMut() + Send> = match others {
            [other] => Box::new(|| _ = other.poll()),
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
