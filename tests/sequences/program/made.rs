//! Objects that are constructed with their slab, by what may panic, and end with it, when they may panic too.

use super::Op;
use super::ground::Ground;
use super::objects::settings;
use super::value::Value;
use netmem::slab::{Constructed, ConstructedCache};

const HELD: usize = 60;

pub struct MadeObjects {
    held: Vec<Constructed<Value>>,
    caches: Vec<ConstructedCache<Value>>,
}

fn cache(ground: &Ground, memory: usize, choice: u8) -> ConstructedCache<Value> {
    let register = ground.register;
    let make = move || {
        register.tick();
        register.value()
    };
    ConstructedCache::new(&ground.memories[memory], &settings(choice), make).unwrap()
}

impl MadeObjects {
    pub fn new(ground: &Ground, config: [u8; 2]) -> MadeObjects {
        let caches = [0, 1].map(|i: usize| cache(ground, i, config[1 - i])).into();
        MadeObjects { held: Vec::new(), caches }
    }

    pub fn step(&mut self, ground: &mut Ground, op: Op) {
        match op.act {
            0..6 => self.alloc(ground, op),
            6..10 => self.free(ground, op),
            10 => {
                let register = ground.register;
                register.firing(0, || self.caches[op.pick(2)].shrink());
            }
            11 => self.change(ground, op),
            12 => {
                let found = self.caches[op.pick(2)].validate();
                assert!(found.is_empty(), "{found:?}");
            }
            13 => {
                let new = cache(ground, usize::from(op.b & 1), op.c);
                let old = std::mem::replace(&mut self.caches[op.pick(2)], new);
                ground.register.firing(0, || drop(old));
            }
            _ => self.one(op).into_iter().filter(|_| op.flag(7)).for_each(|object| ground.forget(object)),
        }
    }

    fn alloc(&mut self, ground: &mut Ground, op: Op) {
        if self.held.len() >= HELD {
            return self.free(ground, op);
        }
        let cache = self.caches[op.pick(2)].clone();
        let (w, register) = ground.both(op);
        let object = register.firing(op.n() / 2, || cache.alloc(w));
        let Some(mut object) = object.flatten() else { return };
        object.look();
        object.armed = false;
        self.held.push(object);
    }

    /// Arms one of the objects. It stays armed until it is dropped, perhaps with its slab.
    fn one(&mut self, op: Op) -> Option<Constructed<Value>> {
        let at = usize::from(op.c) * 7 % self.held.len().max(1);
        let mut object = (at < self.held.len()).then(|| self.held.swap_remove(at))?;
        object.look();
        object.armed = op.flag(0);
        Some(object)
    }

    fn free(&mut self, ground: &mut Ground, op: Op) {
        let Some(object) = self.one(op) else { return };
        let cache = self.caches[op.pick(2)].clone();
        let (w, register) = ground.both(op);
        match op.act {
            9 => register.firing(0, || drop(object)),
            _ => register.firing(0, || cache.free(w, object)),
        };
    }

    /// Another value takes the place of the one that was constructed.
    fn change(&mut self, ground: &Ground, op: Op) {
        let (register, at) = (ground.register, op.pick(self.held.len()));
        if let Some(object) = self.held.get_mut(at) {
            object.armed = op.flag(0);
            register.firing(0, || **object = register.value());
            object.armed = false;
        }
    }

    pub fn some(&mut self, n: usize) -> (Vec<Constructed<Value>>, Vec<ConstructedCache<Value>>) {
        let n = self.held.len().min(n);
        (self.held.split_off(self.held.len() - n), self.caches.clone())
    }

    pub fn look(&self) {
        self.held.iter().for_each(|object| object.look());
    }

    pub fn end(mut self, ground: &mut Ground) {
        self.look();
        for (i, object) in self.held.drain(..).enumerate() {
            let n = ground.workers.len();
            self.caches[i % 2].free(&mut ground.workers[i % n], object);
        }
        for cache in self.caches {
            assert!(cache.validate().is_empty());
            let live = cache.destroy().err().map_or(0, |live| live.len());
            assert_eq!(live, 0, "objects are out");
        }
    }
}
