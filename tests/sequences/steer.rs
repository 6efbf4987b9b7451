//! Workers that steer frames to each other, with any contents and in any order of actions. Also texts of policies, and
//! headers.

#![allow(clippy::unwrap_used)]

use netmem::page::{BackingPreference, Memory, MemoryConfig};
use netmem::pool::{Batch, Frame, Pool, PoolConfig};
use netmem::steer::{
    DEFAULT_KEY, Ends, FlowKey, FlowLimitConfig, Inbox, InboxStats, Mesh, MeshConfig, OrderChecker, Outbox,
    Policy, Source, Toeplitz,
};
use netmem::sync::Worker;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

/// Receive queues of each worker, and flows of each queue.
const QUEUES: usize = 3;
const FLOWS: usize = 4;
/// Bytes of a frame. The last eight are its flow and its number.
const LEN: usize = 60;
const LABEL: usize = LEN - 8;
/// The last one does not keep order.
const POLICIES: [&str; 7] =
    ["none", "map=rx0:1,rx1:0,2", "map=rx0:0,rx1:1", "hash", "hash=1", "flow", "round-robin"];

/// A frame's flow, and its number in it.
type Label = (usize, u32);

/// Runs the sequence in `bytes`: four for the mesh, then four to a step. After each step every frame is accounted for, and
/// flows that were not handed around by hand are in order.
pub fn run(bytes: &[u8]) {
    forwarded(bytes);
}

/// Does the same as [`run`]. Returns how many frames were forwarded.
pub fn forwarded(bytes: &[u8]) -> u64 {
    policies(&String::from_utf8_lossy(bytes));
    keys(bytes);
    let Some((first, rest)) = bytes.split_first_chunk::<4>() else { return 0 };
    let mut scene = Scene::new(first, bytes);
    for step in rest.as_chunks::<4>().0 {
        scene.step(*step);
        scene.check();
    }
    scene.settle()
}

/// A policy that was read is written as a text with the same meaning.
fn policies(text: &str) {
    for text in text.split('\n') {
        if let Ok(policy) = text.parse::<Policy>() {
            assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy, "{text:?}");
        }
    }
}

/// A frame's flow follows from its bytes alone, whatever they are.
fn keys(bytes: &[u8]) {
    let toeplitz = Toeplitz::new(&DEFAULT_KEY);
    for frame in bytes.chunks(128) {
        let key = FlowKey::of(frame);
        assert!(key.as_ref().is_none_or(|key| key.bytes().len() <= 36), "{frame:?}");
        assert_eq!((key, toeplitz.flow(frame, 1)), (FlowKey::of(frame), toeplitz.flow(frame, 1)));
    }
}

/// A worker, its two ends, and its frames: those that it kept, and those that it took.
struct At {
    w: Worker,
    outbox: Outbox,
    inbox: Option<Inbox>,
    kept: Vec<Label>,
    taken: Vec<Label>,
    /// Frames of each of its queues that did not fit: steered before those that come next.
    stayed: [Batch; QUEUES],
}

struct Scene {
    mesh: Arc<Mesh>,
    pool: Pool,
    workers: Vec<At>,
    /// The first bytes of the frames of each flow.
    headers: Vec<[u8; LABEL]>,
    /// The next number of each flow.
    numbers: Vec<u32>,
    order: OrderChecker,
    steered: u64,
    forwarded: u64,
    /// Whether all that was steered so far keeps its order.
    ordered: bool,
    _memory: Memory,
}

impl Scene {
    fn new(&[workers, policy, inbox, rest]: &[u8; 4], bytes: &[u8]) -> Scene {
        let n = 3 + usize::from(workers) % 2;
        let config = MemoryConfig {
            bytes: 4 << 20,
            workers: n,
            backing: BackingPreference::Small,
            ..MemoryConfig::default()
        };
        let memory = Memory::new(&config).unwrap();
        let policy = POLICIES[usize::from(policy) % POLICIES.len()];
        let lingers = rest & 1 == 1;
        let config = MeshConfig {
            workers: n,
            inbox: 64 + u32::from(inbox),
            flow_limit: (rest & 2 == 2).then_some(FlowLimitConfig { history: 32, buckets: 8 }),
            batch: if lingers { 20 } else { 1 },
            linger: Duration::from_secs(if lingers { 86_400 } else { 0 }),
            flows: 4,
            policy: policy.parse().unwrap(),
            key: DEFAULT_KEY,
            ..MeshConfig::default()
        };
        let (mesh, ends): (Arc<Mesh>, Ends) = Mesh::new(&config).unwrap();
        let at = |(outbox, inbox)| {
            let w = memory.worker().unwrap();
            At {
                w,
                outbox,
                inbox: Some(inbox),
                kept: Vec::new(),
                taken: Vec::new(),
                stayed: Default::default(),
            }
        };
        let mut workers: Vec<At> = ends.into_iter().map(at).collect();
        let config = PoolConfig { frames: 1024, ..PoolConfig::default() };
        let pool = Pool::new(&memory, &mut workers[0].w, &config).unwrap();
        let flows = n * QUEUES * FLOWS;
        // Half of the flows have correct headers, half have any bytes.
        let headers =
            (0..flows).map(|flow| if flow % 2 == 0 { udp(flow) } else { odd(flow, bytes) }).collect();
        let (numbers, order) = (vec![0; flows], OrderChecker::new(flows).unwrap());
        let ordered = policy != "round-robin";
        Scene {
            mesh,
            pool,
            workers,
            headers,
            numbers,
            order,
            steered: 0,
            forwarded: 0,
            ordered,
            _memory: memory,
        }
    }

    fn step(&mut self, [op, who, what, n]: [u8; 4]) {
        let worker = usize::from(who) % self.workers.len();
        match op % 16 {
            0..=1 => self.steer(worker, usize::from(what) % QUEUES, 1 + usize::from(n) % 40, true),
            2..=5 => self.steer(worker, usize::from(what) % QUEUES, 1 + usize::from(n) % 40, false),
            6 if n < 64 => self.hand_off(worker, usize::from(what), 1 + usize::from(n) % 40),
            6 => self.flush(worker, true),
            7..=9 => self.flush(worker, false),
            10..=13 => self.take(worker),
            14 if n < 64 => {
                let policy = POLICIES[usize::from(what) % POLICIES.len()];
                self.ordered &= policy != "round-robin";
                self.mesh.set_policy(&policy.parse().unwrap()).unwrap();
            }
            14 => self.look(worker),
            _ if n < 16 => self.retire(worker, usize::from(what)),
            _ => self.finish(worker),
        }
    }

    /// Frames of a queue's flows with their next numbers, as many as there are.
    fn next(&mut self, from: usize, queue: usize, n: usize) -> Batch {
        let mut batch = Batch::new();
        for i in 0..n {
            let Some(mut frame) = self.pool.alloc(&mut self.workers[0].w) else { break };
            let flow = (from * QUEUES + queue) * FLOWS + i * 3 % FLOWS;
            write(&mut frame, &self.headers[flow], (flow, self.numbers[flow]));
            self.numbers[flow] += 1;
            batch.push(frame).unwrap();
        }
        self.steered += batch.len() as u64;
        batch
    }

    /// The frames that a worker kept must be forwarded before its next call.
    fn forward_kept(&mut self, worker: usize) {
        let kept = take(&mut self.workers[worker].kept);
        self.forward(kept);
    }

    fn forward(&mut self, frames: Vec<Label>) {
        self.forwarded += frames.len() as u64;
        for (flow, number) in frames {
            self.order.see(flow, number.into());
        }
    }

    /// What does not fit stays, or is dropped.
    fn steer(&mut self, from: usize, queue: usize, n: usize, drops: bool) {
        self.forward_kept(from);
        let room = self.workers[from].stayed[queue].room();
        let mut next = self.next(from, queue, n.min(room));
        let At { w, outbox, kept, stayed, .. } = &mut self.workers[from];
        let (frames, source) = (&mut stayed[queue], Source { port: 0, queue: queue as u16 });
        frames.append(&mut next);
        let (mut own, offered) = (Batch::new(), frames.len());
        if drops {
            outbox.steer_or_drop(w, source, frames);
            own.append(frames);
        } else {
            let taken = outbox.steer(w, source, frames, &mut own);
            assert_eq!(taken + frames.len(), offered);
        }
        *kept = read(&own);
        own.free(w);
    }

    fn hand_off(&mut self, from: usize, to: usize, n: usize) {
        self.forward_kept(from);
        // A caller that hands frames off itself is responsible for the order.
        self.ordered = false;
        let mut batch = self.next(from, 0, n);
        let to = to % self.workers.len();
        let At { w, outbox, .. } = &mut self.workers[from];
        let (room, offered) = (outbox.room(to), batch.len());
        let taken = outbox.hand_off(w, to, Source { port: 1, queue: 0 }, &mut batch);
        // A flow limit may make more room.
        assert!(taken >= offered.min(room) && taken + batch.len() == offered);
        let stayed = read(&batch);
        batch.free(w);
        self.forward(stayed);
    }

    fn flush(&mut self, from: usize, all: bool) {
        self.forward_kept(from);
        let At { w, outbox, .. } = &mut self.workers[from];
        if all { outbox.flush_all(w) } else { outbox.flush(w) }
    }

    /// The frames that a worker took are forwarded before it takes more.
    fn take(&mut self, by: usize) {
        let taken = take(&mut self.workers[by].taken);
        self.forward(taken);
        let At { w, inbox: Some(inbox), taken, .. } = &mut self.workers[by] else { return };
        let mut batch = Batch::new();
        if inbox.take(w, &mut batch).is_some() {
            *taken = read(&batch);
        }
        batch.free(w);
    }

    fn finish(&mut self, worker: usize) {
        let taken = take(&mut self.workers[worker].taken);
        self.forward(taken);
        self.workers[worker].inbox.iter_mut().for_each(Inbox::finish);
    }

    /// If nothing waits, nothing can be taken.
    fn look(&mut self, worker: usize) {
        self.finish(worker);
        let waits = self.workers[worker].inbox.as_mut().is_some_and(Inbox::waiting);
        self.take(worker);
        assert!(waits || self.workers[worker].taken.is_empty());
    }

    /// A worker hands its inbox over, or drops it.
    fn retire(&mut self, worker: usize, what: usize) {
        self.finish(worker);
        let heir = what / 2 % self.workers.len();
        let at = &mut self.workers[worker];
        if let Some(inbox) = at.inbox.take().filter(|_| what.is_multiple_of(2)) {
            at.inbox = inbox.hand_over(heir).err();
        }
    }

    /// Frames that lie on lists.
    fn listed(&self) -> u64 {
        self.workers.iter().map(|at| at.outbox.listed_frames() as u64).sum()
    }

    /// Frames that did not fit and were not dropped.
    fn stayed(&self) -> u64 {
        self.workers.iter().flat_map(|at| &at.stayed).map(|batch| batch.len() as u64).sum()
    }

    fn check(&self) {
        let (stats, ledger) = (self.mesh.stats(), self.pool.ledger());
        let listed = self.listed() + self.stayed();
        let sum = |of: fn(&InboxStats) -> u64| stats.iter().map(of).sum::<u64>();
        let in_hands: usize = self.workers.iter().map(|at| at.kept.len() + at.taken.len()).sum();
        assert!(ledger.balanced(), "{ledger:?}");
        assert_eq!((ledger.queued, ledger.owned), (sum(|stats| stats.waiting), listed), "{stats:#?}");
        let ends = sum(|stats| stats.waiting + stats.lost + stats.drops.total());
        assert_eq!(self.steered, self.forwarded + in_hands as u64 + listed + ends, "{stats:#?}");
        let counts = self.order.counts();
        assert!(counts.duplicated == 0 && (!self.ordered || counts.reordered == 0), "{counts:?}");
    }

    /// Each worker takes what there is, until nothing moves. Returns how many frames were forwarded.
    fn settle(mut self) -> u64 {
        for _ in 0..20 {
            for worker in 0..self.workers.len() {
                (0..QUEUES).for_each(|queue| self.steer(worker, queue, 0, false));
                self.flush(worker, true);
                (0..40).for_each(|_| self.take(worker));
            }
        }
        let full = |scene: &Scene| scene.mesh.stats().iter().map(|stats| stats.drops.inbox_full).sum::<u64>();
        let before = full(&self);
        for worker in 0..self.workers.len() {
            (0..QUEUES).for_each(|queue| self.steer(worker, queue, 0, true));
        }
        assert_eq!(full(&self), before, "what stayed is for workers without an inbox");
        self.check();
        let stats = self.mesh.stats();
        assert!(stats.iter().all(|stats| stats.waiting == 0), "something is barred for ever: {stats:#?}");
        assert!(self.pool.ledger().all_freed());
        self.forwarded
    }
}

/// The headers of a flow of UDP over IPv4.
fn udp(flow: usize) -> [u8; LABEL] {
    let mut bytes = [0; LABEL];
    bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17]);
    bytes[26..38].copy_from_slice(&[10, 0, 0, 1, 10, 1, 0, flow as u8, 4, 0, 8, 0]);
    bytes
}

/// Bytes of the sequence, from some place on.
fn odd(flow: usize, bytes: &[u8]) -> [u8; LABEL] {
    let mut from = bytes.iter().cycle().skip(5 * flow % bytes.len());
    std::array::from_fn(|_| *from.next().unwrap())
}

fn write(frame: &mut Frame, header: &[u8; LABEL], (flow, number): Label) {
    let bytes = frame.put(LEN).unwrap();
    bytes[..LABEL].copy_from_slice(header);
    bytes[LABEL..LABEL + 4].copy_from_slice(&(flow as u32).to_be_bytes());
    bytes[LABEL + 4..].copy_from_slice(&number.to_be_bytes());
}

fn read(batch: &Batch) -> Vec<Label> {
    let word = |frame: &Frame, at: usize| u32::from_be_bytes(*frame.data()[at..].first_chunk().unwrap());
    batch.iter().map(|frame| (word(frame, LABEL) as usize, word(frame, LABEL + 4))).collect()
}
