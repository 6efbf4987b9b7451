//! Boxes of bytes out of size classes.

use super::Op;
use super::ground::Ground;
use super::objects::settings;
use super::view::View;
use netmem::slab::{CacheConfig, RawCache, SizeClasses, SlabBytes};

const HELD: usize = 40;

pub struct Boxes {
    held: Vec<(SlabBytes, View)>,
    pub sizes: [SizeClasses; 2],
}

impl Boxes {
    pub fn new(ground: &Ground) -> Boxes {
        let sizes = [0, 1].map(|i| SizeClasses::new(&ground.memories[i], &CacheConfig::default()).unwrap());
        Boxes { held: Vec::new(), sizes }
    }

    pub fn step(&mut self, ground: &mut Ground, op: Op) {
        let sizes = self.sizes[op.pick(2)].clone();
        match op.act {
            0..6 if self.held.len() < HELD => {
                let len = op.n() << ((op.act & 1) * 6);
                let Some(mut bytes) = sizes.bytes(ground.worker(op), len) else { return };
                assert!(bytes.len() == len && bytes.iter().all(|&byte| byte == 0));
                let view = View::write(&mut bytes);
                self.held.push((bytes, view));
            }
            6..8 if self.held.len() < HELD => {
                let mut from = vec![0; op.n()];
                let view = View::write(&mut from);
                let bytes = sizes.bytes_from(ground.worker(op), &from);
                self.held.extend(bytes.map(|bytes| (bytes, view)));
            }
            // Objects of a size that no slab has, by whatever is added to it.
            11 => {
                let size = (usize::MAX >> (op.b % 40)) - op.n();
                let cache = RawCache::new(&ground.memories[0], size, 1 << (op.b % 8), &settings(op.a));
                assert!(cache.is_err(), "objects of {size} bytes");
            }
            8 => sizes.classes().iter().for_each(|class| assert!(class.validate().is_empty())),
            _ => self.free(ground, &sizes, op),
        }
    }

    fn free(&mut self, ground: &mut Ground, sizes: &SizeClasses, op: Op) {
        let at = usize::from(op.c) % self.held.len().max(1);
        if at >= self.held.len() {
            return;
        }
        let (bytes, view) = self.held.swap_remove(at);
        view.look(&bytes);
        match op.act {
            9 if op.flag(7) => ground.forget(bytes),
            10 => drop(bytes),
            _ => sizes.free_bytes(ground.worker(op), bytes),
        }
    }

    pub fn look(&self) {
        self.held.iter().for_each(|(bytes, view)| view.look(bytes));
    }

    pub fn end(self, ground: &mut Ground) {
        self.look();
        for (i, (bytes, _)) in self.held.into_iter().enumerate() {
            let n = ground.workers.len();
            self.sizes[i % 2].free_bytes(&mut ground.workers[i % n], bytes);
        }
        for class in self.sizes.iter().flat_map(SizeClasses::classes) {
            assert!(class.validate().is_empty());
        }
    }
}
