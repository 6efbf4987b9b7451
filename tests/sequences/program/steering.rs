//! Frames that workers steer to each other.

use super::Op;
use super::frames::Frames;
use super::ground::Ground;
use super::view::View;
use netmem::pool::Batch;
use netmem::steer::{FlowLimitConfig, Inbox, Mesh, MeshConfig, Outbox, Policy, Source};

const POLICIES: [&str; 4] = ["none", "hash", "flow", "round-robin"];

/// Made when a frame is steered, because most programs do not need its descriptors.
pub struct Steering {
    config: [u8; 2],
    made: Option<Made>,
}

struct Made {
    mesh: std::sync::Arc<Mesh>,
    outboxes: Vec<Option<Outbox>>,
    inboxes: Vec<Option<Inbox>>,
}

impl Made {
    fn new([first, second]: [u8; 2]) -> Made {
        let config = MeshConfig {
            inbox: 64 + u32::from(first),
            flow_limit: (second & 1 == 1).then_some(FlowLimitConfig { history: 32, buckets: 8 }),
            flows: 8,
            policy: POLICIES[usize::from(second >> 1) % 4].parse().unwrap(),
            ..MeshConfig::default()
        };
        let (mesh, ends) = Mesh::new(&config).unwrap();
        let (outboxes, inboxes) = ends.into_iter().map(|(out, into)| (Some(out), Some(into))).unzip();
        Made { mesh, outboxes, inboxes }
    }
}

impl Steering {
    pub fn new(config: [u8; 2]) -> Steering {
        Steering { config, made: None }
    }

    pub fn step(&mut self, ground: &mut Ground, frames: &mut Frames, op: Op) {
        let Steering { config, made } = self;
        let made = made.get_or_insert_with(|| Made::new(*config));
        let end = op.pick(2);
        match op.act {
            0..6 => made.send(ground, frames, op, end),
            6..9 => {
                let Some(outbox) = &mut made.outboxes[end] else { return };
                let w = ground.worker(op);
                if op.flag(0) { outbox.flush_all(w) } else { outbox.flush(w) }
            }
            9..14 => made.take(ground, frames, op, end),
            14 => made.change(ground, op, end),
            _ if op.flag(7) => self.made = None,
            _ => {}
        }
    }
}

impl Made {
    fn send(&mut self, ground: &mut Ground, frames: &mut Frames, op: Op, end: usize) {
        let (pool, mut batch) = (frames.pool(op), Batch::new());
        let Some(outbox) = &mut self.outboxes[end] else { return };
        let w = ground.worker(op);
        pool.alloc_burst(w, &mut batch, op.n() / 4);
        batch.put_each(60, |_, bytes| _ = View::write(bytes));
        let from = Source { port: 0, queue: u16::from(op.c & 3) };
        let (all, mut own) = (batch.len(), Batch::new());
        match op.act & 3 {
            0 => {
                let taken = outbox.steer(w, from, &mut batch, &mut own);
                assert_eq!(taken + batch.len(), all);
            }
            1 => {
                let taken = outbox.hand_off(w, 1 - end, from, &mut batch);
                assert_eq!(taken + batch.len(), all);
            }
            2 => outbox.steer_or_drop(w, from, &mut batch),
            _ => outbox.hand_off_or_drop(w, 1 - end, from, &mut batch),
        }
        // What stays, or did not fit.
        batch.append(&mut own);
        batch.iter().for_each(|frame| _ = View::read(frame.data()));
        batch.free(w);
    }

    fn take(&mut self, ground: &mut Ground, frames: &mut Frames, op: Op, end: usize) {
        let Some(inbox) = &mut self.inboxes[end] else { return };
        let (w, mut batch) = (ground.worker(op), Batch::new());
        if op.flag(0) && !inbox.waiting() {
            assert!(inbox.take(w, &mut batch).is_none());
        }
        inbox.take(w, &mut batch);
        for frame in batch.drain() {
            let view = View::read(frame.data());
            assert_eq!(view.len(), 60);
            if frames.held.len() < super::frames::HELD {
                frames.held.push((frame, view));
            }
        }
    }

    fn change(&mut self, ground: &mut Ground, op: Op, end: usize) {
        match op.c & 15 {
            0 => drop(self.inboxes[end].take()),
            1 => drop(self.outboxes[end].take()),
            2 => self.inboxes[end].take().into_iter().for_each(|inbox| ground.forget(inbox)),
            3 => self.outboxes[end].take().into_iter().for_each(|outbox| ground.forget(outbox)),
            4 => {
                let heir = self.inboxes[end].take().map(|inbox| inbox.hand_over(usize::from(op.b) % 3));
                self.inboxes[end] = heir.and_then(Result::err);
            }
            _ => {
                let policy: Policy = POLICIES[usize::from(op.b) % 4].parse().unwrap();
                self.mesh.set_policy(&policy).unwrap();
            }
        }
    }
}
