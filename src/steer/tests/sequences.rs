//! Sequences of operations: every frame is accounted for after every step, and flows keep their order.
//!
//! Frames that stay with a worker or that it took are recorded as forwarded at the last moment that the contract
//! allows: just before the next call. `NETMEM_STEPS` sets the total number of steps.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const WORKERS: usize = 3;
const FLOWS: u32 = 6;
const STEPS_EACH: usize = 300;

#[derive(Debug, Clone)]
enum Op {
    /// Frames that do not fit stay, and are steered before the next frames of their queue, or are dropped.
    Steer {
        from: usize,
        queue: u16,
        frames: usize,
        drops: bool,
    },
    HandOff {
        from: usize,
        to: usize,
        frames: usize,
    },
    Flush {
        from: usize,
    },
    FlushAll {
        from: usize,
    },
    Take {
        by: usize,
    },
    Waiting {
        by: usize,
    },
    Policy {
        text: usize,
    },
    /// The consumer of an entry's flows runs on this worker, or on none if the number is past the last.
    Consume {
        flow: u32,
        worker: usize,
    },
    HandOver {
        from: usize,
        heir: usize,
    },
    Leave {
        worker: usize,
    },
}

/// The last policy does not keep order.
const POLICIES: [&str; 7] =
    ["none", "map=rx0:1,rx1:0,2", "map=rx0:0,rx1:1", "hash", "hash=2", "flow", "round-robin"];

fn op() -> impl Strategy<Value = Op> {
    let (worker, frames) = (0..WORKERS, 1..=40_usize);
    prop_oneof![
        30 => (worker.clone(), 0..3_u16, frames.clone(), prop::bool::weighted(0.2))
            .prop_map(|(from, queue, frames, drops)| Op::Steer { from, queue, frames, drops }),
        2 => (worker.clone(), worker.clone(), frames)
            .prop_map(|(from, to, frames)| Op::HandOff { from, to, frames }),
        25 => worker.clone().prop_map(|from| Op::Flush { from }),
        2 => worker.clone().prop_map(|from| Op::FlushAll { from }),
        40 => worker.clone().prop_map(|by| Op::Take { by }),
        5 => worker.clone().prop_map(|by| Op::Waiting { by }),
        6 => (0..POLICIES.len()).prop_map(|text| Op::Policy { text }),
        6 => (0..4_u32, 0..=WORKERS).prop_map(|(flow, worker)| Op::Consume { flow, worker }),
        1 => (worker.clone(), worker.clone()).prop_map(|(from, heir)| Op::HandOver { from, heir }),
        1 => worker.prop_map(|worker| Op::Leave { worker }),
    ]
}

fn config() -> impl Strategy<Value = MeshConfig> {
    let limit = prop::option::of(Just(FlowLimitConfig { history: 32, buckets: 8 }));
    (64..200_u32, limit, any::<bool>(), 0..POLICIES.len() - 1).prop_map(
        |(inbox, flow_limit, lingers, text)| MeshConfig {
            inbox,
            flow_limit,
            batch: if lingers { 20 } else { 1 },
            linger: Duration::from_secs(if lingers { 86_400 } else { 0 }),
            flows: 4,
            ..steering(WORKERS, POLICIES[text])
        },
    )
}

/// A rig, and the expected state of its frames.
struct Scene {
    rig: Rig,
    order: OrderChecker,
    /// The next number of each flow of each worker.
    numbers: [[u32; FLOWS as usize]; WORKERS],
    /// Frames that a worker holds: those that it kept, and those that it took.
    kept: [Vec<(u32, u32)>; WORKERS],
    taken: [Vec<(u32, u32)>; WORKERS],
    /// The frames of each of its queues that did not fit.
    stayed: [[Vec<(u32, u32)>; 3]; WORKERS],
    steered: u64,
    forwarded: u64,
    /// Whether all frames steered so far keep their order.
    ordered: bool,
}

impl Scene {
    fn new(config: &MeshConfig) -> Scene {
        let order = OrderChecker::new(WORKERS * FLOWS as usize).unwrap();
        let [kept, taken] = [(); 2].map(|()| Default::default());
        let (numbers, stayed) = Default::default();
        let rig = rig(config);
        Scene { rig, order, numbers, kept, taken, stayed, steered: 0, forwarded: 0, ordered: true }
    }

    /// Records frames as forwarded.
    fn forward(&mut self, frames: Vec<(u32, u32)>) {
        self.forwarded += frames.len() as u64;
        frames.into_iter().for_each(|(flow, number)| {
            self.order.see(flow as usize, number.into());
        });
    }

    /// The next frames of flows of a queue that worker `from` receives.
    fn next(&mut self, from: usize, queue: u16, n: usize) -> Vec<(u32, u32)> {
        let mut frames = Vec::new();
        for i in 0..n as u32 {
            let flow = (i * 5 % FLOWS) / 3 * 3 + u32::from(queue);
            let number = &mut self.numbers[from][flow as usize];
            frames.push((from as u32 * FLOWS + flow, *number));
            *number += 1;
        }
        self.steered += n as u64;
        frames
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Steer { from, queue, frames, drops } => {
                let kept = std::mem::take(&mut self.kept[from]);
                self.forward(kept);
                let mut offered = std::mem::take(&mut self.stayed[from][usize::from(queue)]);
                offered.extend(self.next(from, queue, frames.min(64 - offered.len())));
                let source = Source { port: 0, queue };
                self.kept[from] = if drops {
                    self.rig.steer_from(from, source, offered)
                } else {
                    let [kept, stayed] = self.rig.offer(from, source, offered);
                    self.stayed[from][usize::from(queue)] = stayed;
                    kept
                };
            }
            Op::HandOff { from, to, frames } => {
                let kept = std::mem::take(&mut self.kept[from]);
                self.forward(kept);
                // A caller that hands off by hand is responsible for the order itself.
                self.ordered = false;
                let frames = self.next(from, 0, frames);
                let room = self.rig.workers[from].outbox.room(to);
                let offered = frames.len();
                let stayed = self.rig.hand_off(from, to, frames);
                assert!(stayed.len() <= offered.saturating_sub(room), "a flow limit makes more room");
                self.forward(stayed);
            }
            Op::Flush { from } | Op::FlushAll { from } => {
                let kept = std::mem::take(&mut self.kept[from]);
                self.forward(kept);
                let At { w, outbox, .. } = &mut self.rig.workers[from];
                if matches!(op, Op::Flush { .. }) { outbox.flush(w) } else { outbox.flush_all(w) }
            }
            Op::Take { by } => self.at_inbox(by, |scene| {
                scene.taken[by] = scene.rig.take(by).map(|(_, taken)| taken).unwrap_or_default();
            }),
            Op::Waiting { by } => self.at_inbox(by, |scene| {
                let waits = scene.rig.workers[by].inbox.as_mut().unwrap().waiting();
                assert!(waits || scene.rig.take(by).is_none());
            }),
            Op::Policy { text } => {
                self.ordered &= POLICIES[text] != "round-robin";
                self.rig.mesh.set_policy(&policy(POLICIES[text])).unwrap();
            }
            Op::Consume { flow, worker: WORKERS } => self.rig.mesh.consumers().clear(flow),
            Op::Consume { flow, worker } => self.rig.mesh.consumers().set(flow, worker),
            Op::HandOver { from, heir } => self.at_inbox(from, |scene| {
                let inbox = scene.rig.workers[from].inbox.take().unwrap();
                scene.rig.workers[from].inbox = inbox.hand_over(heir).err();
            }),
            Op::Leave { worker } => self.at_inbox(worker, |scene| scene.rig.workers[worker].inbox = None),
        }
    }

    /// Runs an action on a worker's inbox, if it has one. The frames it took are forwarded before.
    fn at_inbox(&mut self, worker: usize, act: impl FnOnce(&mut Scene)) {
        if self.rig.workers[worker].inbox.is_some() {
            let taken = std::mem::take(&mut self.taken[worker]);
            self.forward(taken);
            act(self);
        }
    }

    /// Number of frames on lists.
    fn listed(&self) -> u64 {
        self.rig.workers.iter().map(|at| at.outbox.listed_frames() as u64).sum()
    }

    fn check(&self) {
        let (stats, ledger) = (self.rig.mesh.stats(), self.rig.pool.ledger());
        let sum = |of: fn(&InboxStats) -> u64| stats.iter().map(of).sum::<u64>();
        let in_hands = self.kept.iter().chain(&self.taken).chain(self.stayed.iter().flatten());
        let in_hands: usize = in_hands.map(Vec::len).sum();
        assert!(ledger.balanced(), "{ledger:?}");
        assert_eq!(ledger.queued, sum(|stats| stats.waiting), "{stats:#?}");
        assert_eq!(ledger.owned, self.listed());
        let ends = sum(|stats| stats.waiting + stats.lost + stats.drops.total());
        assert_eq!(self.steered, self.forwarded + in_hands as u64 + self.listed() + ends, "{stats:#?}");
        let counts = self.order.counts();
        assert_eq!(counts.duplicated, 0, "{counts:?}");
        assert!(!self.ordered || counts.reordered == 0, "{counts:?}");
    }

    /// A worker steers the frames that did not fit before again.
    fn offer_again(&mut self, from: usize, drops: bool) {
        for queue in 0..3 {
            let stayed = self.stayed[from][usize::from(queue)].len();
            let full = |scene: &Scene| {
                scene.rig.mesh.stats().iter().map(|stats| stats.drops.inbox_full).sum::<u64>()
            };
            let before = full(self);
            self.step(&Op::Steer { from, queue, frames: 0, drops });
            assert!(!drops || full(self) == before, "{stayed} were for workers that read");
        }
    }

    /// Runs until nothing moves: every worker that can takes what there is.
    fn settle(&mut self) {
        for _ in 0..20 {
            for worker in 0..WORKERS {
                self.offer_again(worker, false);
                self.step(&Op::FlushAll { from: worker });
                (0..40).for_each(|_| self.step(&Op::Take { by: worker }));
            }
        }
        // Frames that stay now are for workers without an inbox.
        (0..WORKERS).for_each(|worker| self.offer_again(worker, true));
        self.check();
        let stats = self.rig.mesh.stats();
        assert!(stats.iter().all(|stats| stats.waiting == 0), "something is barred for ever: {stats:#?}");
        assert!(self.rig.pool.ledger().all_freed());
    }
}

#[test]
fn sequences_account_for_every_frame_and_keep_order() {
    let steps =
        std::env::var("NETMEM_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(30_000_usize);
    let cases = (steps / STEPS_EACH).max(1) as u32;
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let sequences = (config(), prop::collection::vec(op(), STEPS_EACH));
    let run = runner.run(&sequences, |(config, ops)| {
        let mut scene = Scene::new(&config);
        for op in &ops {
            scene.step(op);
            scene.check();
        }
        scene.settle();
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{error}"));
}
