//! Tests with workers in threads, full traffic, and a policy that changes all the time.

use super::*;
use crate::rounds::stride;
use crate::sync::shim::{Mutex, lock};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

const WORKERS: usize = 4;
const FLOWS: u32 = 24;
/// Policies that keep order. The first worker, which receives all frames, is among the targets of some.
const POLICIES: [&str; 8] = [
    "map=rx0:1,rx1:2",
    "map=rx0:2,rx1:1,3",
    "hash=1,2,3",
    "map=rx0:3,rx1:3",
    "flow=1,2",
    "hash",
    "none",
    "map=rx0:2,1,rx1:1",
];

/// Forwards the batch: frames of a worker are in order at the moment when all of them are recorded.
fn forward(order: &Mutex<OrderChecker>, batch: &mut Batch, w: &mut Worker) {
    let numbered = read(batch);
    let mut order = lock(order);
    numbered.into_iter().for_each(|(flow, number)| {
        order.see(flow as usize, number.into());
    });
    drop(order);
    batch.free(w);
}

/// Polls until all frames are sent and nothing waits. Then, or at `leaves`, returns the inbox.
fn serve(at: At, order: &Mutex<OrderChecker>, sent: &AtomicBool, leaves: &AtomicBool) -> At {
    let At { mut w, outbox, mut inbox } = at;
    let mut batch = Batch::new();
    if let Some(inbox) = &mut inbox {
        loop {
            let last = sent.load(Relaxed);
            while inbox.take(&mut w, &mut batch).is_some() {
                forward(order, &mut batch, &mut w);
            }
            if leaves.load(Relaxed) || (last && !inbox.waiting()) {
                break;
            }
            thread::yield_now();
        }
    }
    At { w, outbox, inbox }
}

/// The worker that receives all frames.
struct Receiving<'a> {
    w: Worker,
    outbox: Outbox,
    inbox: Inbox,
    order: &'a Mutex<OrderChecker>,
    /// The next number of each flow.
    numbers: [u32; FLOWS as usize],
    /// The frames of each queue that did not fit.
    stayed: [Batch; 2],
    round: u32,
    steered: u64,
}

impl Receiving<'_> {
    /// A poll round: a batch from each of two queues, and the frames that came back to it.
    fn poll(&mut self, pool: &Pool) {
        let (mut batch, mut own, round) = (Batch::new(), Batch::new(), self.round);
        let numbers = &mut self.numbers;
        for queue in 0..2 {
            let stayed = &mut self.stayed[queue as usize];
            pool.alloc_burst(&mut self.w, &mut batch, stayed.room().min(32));
            batch.put_each(60, |i, line| {
                let flow = (i as u32 * 7 + round) % (FLOWS / 2) * 2 + queue;
                write(line, flow, numbers[flow as usize]);
                numbers[flow as usize] += 1;
            });
            self.steered += batch.len() as u64;
            stayed.append(&mut batch);
            let (offered, source) = (stayed.len(), Source { port: 0, queue: queue as u16 });
            let taken = self.outbox.steer(&mut self.w, source, stayed, &mut own);
            assert_eq!(taken + stayed.len(), offered);
            forward(self.order, &mut own, &mut self.w);
        }
        self.outbox.flush(&mut self.w);
        self.take(&mut batch);
        self.round += 1;
        thread::yield_now();
    }

    /// Steers the frames that did not fit, and takes frames that have come.
    fn offer_again(&mut self) {
        let mut own = Batch::new();
        for (queue, stayed) in (0..).zip(&mut self.stayed) {
            let _taken = self.outbox.steer(&mut self.w, Source { port: 0, queue }, stayed, &mut own);
            forward(self.order, &mut own, &mut self.w);
        }
        self.outbox.flush(&mut self.w);
        self.take(&mut Batch::new());
        thread::yield_now();
    }

    fn take(&mut self, batch: &mut Batch) {
        while self.inbox.take(&mut self.w, batch).is_some() {
            forward(self.order, batch, &mut self.w);
        }
    }

    /// Polls and changes the policy until it was adopted `changes` times. Calls `half` after half of them.
    fn change(&mut self, rig: &Rig, changes: u64, half: impl Fn()) {
        let mut changed_in = 0;
        loop {
            let adopted = rig.mesh.stats()[0].adopted;
            if adopted == u64::from(rig.mesh.generation()) && self.round > changed_in {
                match adopted {
                    adopted if adopted == changes => return,
                    adopted if adopted == changes / 2 => half(),
                    _ => {}
                }
                changed_in = self.round;
                rig.mesh.set_policy(&policy(POLICIES[adopted as usize % POLICIES.len()])).unwrap();
            }
            self.poll(&rig.pool);
        }
    }
}

/// Changes the policy until it was adopted `changes` times. Worker 1 stops half way if `stops`.
fn run_changes(changes: u64, stops: bool) {
    let mut rig = rig(&MeshConfig { inbox: 256, ..steering(WORKERS, POLICIES[0]) });
    let order = Mutex::new(OrderChecker::new(FLOWS as usize).unwrap());
    let [sent, leaves, never, left] = [(); 4].map(|()| AtomicBool::new(false));
    let others: Vec<At> = rig.workers.drain(1..).collect();
    let At { w, outbox, inbox } = rig.workers.remove(0);
    let (inbox, numbers) = (inbox.unwrap(), [0; FLOWS as usize]);
    let mut receiving = Receiving {
        w,
        outbox,
        inbox,
        order: &order,
        numbers,
        stayed: Default::default(),
        round: 0,
        steered: 0,
    };
    thread::scope(|scope| {
        let (order, sent, leaves, never, left) = (&order, &sent, &leaves, &never, &left);
        for (i, at) in others.into_iter().enumerate() {
            scope.spawn(move || {
                let mut at = serve(at, order, sent, if i == 0 { leaves } else { never });
                if i == 0 && stops {
                    at.inbox.take().unwrap().hand_over(2).unwrap();
                    left.store(true, Relaxed);
                }
            });
        }
        receiving.change(&rig, changes, || leaves.store(stops, Relaxed));
        while stops && !left.load(Relaxed) {
            receiving.poll(&rig.pool);
        }
        while receiving.stayed.iter().any(|stayed| !stayed.is_empty()) {
            receiving.offer_again();
        }
        receiving.outbox.flush_all(&mut receiving.w);
        sent.store(true, Relaxed);
        while receiving.inbox.waiting() {
            receiving.take(&mut Batch::new());
        }
    });
    let (counts, stats) = (lock(&order).counts(), rig.mesh.stats());
    assert_eq!((counts.reordered, counts.duplicated, counts.missing), (0, 0, 0), "{counts:?}");
    assert_eq!(counts.received, receiving.steered, "{stats:#?}");
    assert!(stats.iter().all(|stats| stats.waiting == 0 && stats.drops.total() == 0));
    assert!(rig.pool.ledger().all_freed());
}

#[test]
fn a_thousand_changes_of_the_policy_under_full_traffic_lose_and_reorder_nothing() {
    run_changes(1000 / stride(50) as u64, false);
}

#[test]
fn a_worker_that_stops_under_full_traffic_loses_and_reorders_nothing() {
    run_changes(50 / stride(10) as u64, true);
}

#[test]
fn a_worker_that_stands_still_or_is_ten_times_slower_costs_the_flows_of_others_nothing() {
    for every in [usize::MAX, 10] {
        let mut rig = rig(&MeshConfig { inbox: 64, ..steering(3, "map=rx0:1,rx1:2") });
        let (mut slow, mut fast) = (Vec::new(), Vec::new());
        let rounds = 200 / stride(5) as u32;
        let frames = 20 * u64::from(rounds);
        for round in 0..rounds {
            rig.steer(0, run(1, 20 * round, 20));
            rig.steer_from(0, Source { port: 0, queue: 1 }, run(2, 20 * round, 20));
            rig.flush(0);
            fast.extend(rig.take_all(2));
            if (round as usize + 1).is_multiple_of(every) {
                slow.extend(rig.take(1).into_iter().flat_map(|(_, taken)| taken));
            }
        }
        let stats = rig.mesh.stats();
        assert_eq!((fast.len() as u64, stats[2].drops.total()), (frames, 0));
        assert!(slow.is_empty() == (every == usize::MAX) && slow.is_sorted());
        // Frames of a flow that fills more than half of an inbox are dropped for that, or because the inbox is full.
        let drops = stats[1].drops;
        assert_eq!((stats[1].enqueued + drops.total(), drops.inbox_gone), (frames, 0));
        assert_eq!(stats[1].enqueued, stats[1].dequeued + stats[1].waiting);
        assert_eq!((stats[1].dequeued as usize, rig.pool.ledger().queued), (slow.len(), stats[1].waiting));
        assert!(rig.pool.ledger().balanced() && drops.total() > frames / 2, "{stats:#?}");
    }
}
