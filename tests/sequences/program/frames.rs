//! Frames with one holder, and their pools.

use super::Op;
use super::ground::Ground;
use super::view::View;
use netmem::page::Memory;
use netmem::pool::{DmaMap, Frame, Pool, PoolConfig};
use netmem::sync::Worker;
use std::time::Duration;

/// Frames held at most.
pub const HELD: usize = 60;
/// Pools that one program makes at most.
const POOLS: usize = 8;

pub struct Frames {
    pub held: Vec<(Frame, View)>,
    /// Of both memories.
    pub pools: Vec<Pool>,
    /// Closed pools. Their frames may be out.
    closed: Vec<Pool>,
}

fn pool(memory: &Memory, w: &mut Worker, choice: u8) -> Option<Pool> {
    let size = [2048, 2048, 4096, 8192][usize::from(choice & 3)];
    let cache = if choice & 16 == 0 { 32 } else { 0 };
    let config = PoolConfig {
        frames: 96,
        capacity: 192,
        cache,
        refill: if cache > 0 { 16 } else { 0 },
        dma: if choice & 32 == 0 { DmaMap::None } else { DmaMap::Umem },
        init_on_alloc: choice >> 2 & 3 == 3,
        urgent: choice & 64 == 64,
        ..PoolConfig::of_frames(size)
    };
    // The owner may be a worker of another memory.
    let pool = Pool::new(memory, w, &config).ok()?;
    pool.trace(choice & 128 == 128);
    Some(pool)
}

impl Frames {
    pub fn new(ground: &mut Ground, config: [u8; 2]) -> Frames {
        let choices = [(0, 0, config[0]), (0, 1, config[1]), (1, 2, config[0].rotate_left(3))];
        let pools = choices.map(|(memory, worker, choice)| {
            pool(&ground.memories[memory], &mut ground.workers[worker], choice).unwrap()
        });
        Frames { held: Vec::new(), pools: pools.into(), closed: Vec::new() }
    }

    /// A pool, of either memory.
    pub fn pool(&self, op: Op) -> Pool {
        self.pools[op.pick(self.pools.len())].clone()
    }

    pub fn step(&mut self, ground: &mut Ground, op: Op) {
        match op.act {
            0..5 => self.alloc(ground, op),
            5..11 => self.edit(op),
            _ => self.free(ground, op),
        }
    }

    fn alloc(&mut self, ground: &mut Ground, op: Op) {
        if self.held.len() >= HELD {
            return self.free(ground, op);
        }
        let pool = self.pool(op);
        let (w, register) = ground.both(op);
        let frame = register.firing(op.n() / 16, || pool.alloc(w));
        let Some(mut frame) = frame.flatten() else { return };
        assert!(frame.is_empty() && frame.size() == pool.frame_size());
        let room = frame.tailroom();
        let n = if op.act == 0 { room } else { op.n().min(room) };
        let view = View::write(frame.put(n).unwrap());
        self.held.push((frame, view));
    }

    /// Takes one out, as it should be.
    pub fn take(&mut self, n: usize) -> Option<(Frame, View)> {
        let at = n % self.held.len().max(1);
        let (frame, view) = (at < self.held.len()).then(|| self.held.swap_remove(at))?;
        view.look(frame.data());
        Some((frame, view))
    }

    fn edit(&mut self, op: Op) {
        let at = op.pick(self.held.len());
        let Some((frame, view)) = self.held.get_mut(at) else { return };
        let n = op.n() << (op.b & 3);
        match op.act {
            5 => {
                let room = frame.headroom();
                assert_eq!(frame.push(n).is_ok(), n <= room);
                if n <= room {
                    view.push(n, &mut frame.data_mut()[..n]);
                }
                let len = view.len();
                view.look(&frame.data()[..len]);
                *view = View::write(frame.data_mut());
            }
            6 => assert_eq!(frame.pull(n).is_ok(), view.pull(n)),
            7 => assert_eq!(frame.trim(n).is_ok(), view.trim(n)),
            8 => {
                let room = frame.tailroom();
                assert_eq!(frame.put(n).is_ok(), n <= room);
                *view = View::write(frame.data_mut());
            }
            _ => *view = View::write(frame.data_mut()),
        }
        view.look(frame.data());
    }

    /// Into its own pool, another one, of the same memory or not, or by the slow way.
    fn free(&mut self, ground: &mut Ground, op: Op) {
        let Some((frame, _)) = self.take(op.n()) else { return };
        match op.act {
            11 => drop(frame),
            12 if op.flag(7) => ground.forget(frame),
            13 => frame.free(ground.worker(op)),
            _ => self.pool(op).free(ground.worker(op), frame),
        }
    }

    /// Pools change their size, close with frames out, and others take their places.
    pub fn pools_step(&mut self, ground: &mut Ground, op: Op) {
        let at = op.pick(self.pools.len());
        match op.act {
            8 => drop(self.pools[at].resize(op.n())),
            9 => drop(self.pools[at].set_cache(op.n() / 4, op.n() / 8)),
            10 => self.pools[at].trace(op.flag(0)),
            _ if self.pools.len() + self.closed.len() < POOLS => {
                let memory = ground.memories[usize::from(op.a >> 7)].clone();
                let Some(new) = pool(&memory, ground.worker(op), op.c) else { return };
                let old = std::mem::replace(&mut self.pools[at], new);
                let home = old.close_and_wait(Duration::ZERO).is_ok();
                assert_eq!(home, old.ledger().out() == 0, "{:?}", old.ledger());
                self.closed.push(old);
            }
            _ => {}
        }
    }

    fn all_pools(&self) -> impl Iterator<Item = &Pool> {
        self.pools.iter().chain(&self.closed)
    }

    pub fn look(&self) {
        self.held.iter().for_each(|(frame, view)| view.look(frame.data()));
        for pool in self.all_pools() {
            let ledger = pool.ledger();
            assert!(ledger.balanced(), "{ledger:?}");
        }
    }

    pub fn drop_held(&mut self) {
        self.held.clear();
    }

    /// All frames are in their pool, except those that were forgotten.
    pub fn end(self, ground: &mut Ground) {
        let out: u64 = self.all_pools().map(|pool| pool.ledger().out()).sum();
        assert_eq!(out, ground.lost, "frames are out");
        for pool in self.all_pools() {
            let ledger = pool.ledger();
            assert!(ledger.all_freed() || ground.lost > 0, "{ledger:?}");
        }
    }
}
