//! Objects of caches, of whose values some panic when they are dropped.

use super::Op;
use super::ground::Ground;
use super::value::{Register, Value};
use netmem::page::Memory;
use netmem::slab::{Cache, CacheConfig, DebugOptions, Layer, Object, OnMisuse, WordForm};

/// Objects held at most.
const HELD: usize = 200;

/// What objects hold: a value, with whatever around it.
pub trait Holds: From<Value> + Send + 'static {
    fn value(&self) -> &Value;
    fn value_mut(&mut self) -> &mut Value;
}

impl Holds for Value {
    fn value(&self) -> &Value {
        self
    }
    fn value_mut(&mut self) -> &mut Value {
        self
    }
}

/// A value between padding.
#[repr(align(128))]
pub struct Wide {
    _before: [u64; 9],
    value: Value,
}

impl From<Value> for Wide {
    fn from(value: Value) -> Wide {
        Wide { _before: [u64::MAX; 9], value }
    }
}

impl Holds for Wide {
    fn value(&self) -> &Value {
        &self.value
    }
    fn value_mut(&mut self) -> &mut Value {
        &mut self.value
    }
}

/// A cache's settings, by a byte.
pub fn settings(choice: u8) -> CacheConfig {
    let sanity = choice & 32 == 32;
    let words = [WordForm::Packed, WordForm::Wide, WordForm::Lock, WordForm::Packed];
    CacheConfig {
        layer: if choice & 1 == 0 { Layer::Sheaf } else { Layer::CpuSlab },
        word: words[usize::from(choice >> 1 & 3)],
        sheaf: (choice & 8 == 8).then_some(3),
        min_partial: (choice & 16 == 16).then_some(0),
        debug: DebugOptions {
            sanity,
            red_zone: choice & 96 == 96,
            poison: choice & 160 == 160,
            store_user: sanity,
            on_misuse: OnMisuse::Report,
        },
        ..CacheConfig::default()
    }
}

pub struct Objects<T> {
    held: Vec<Object<T>>,
    /// Of both memories.
    caches: Vec<Cache<T>>,
}

impl<T: Holds> Objects<T> {
    pub fn new(ground: &Ground, config: [u8; 2]) -> Objects<T> {
        let cache = |i: usize, memory: &Memory| Cache::new(memory, &settings(config[i % 2])).unwrap();
        let caches = (0..3).map(|i| cache(i, &ground.memories[i / 2])).collect();
        Objects { held: Vec::new(), caches }
    }

    pub fn step(&mut self, ground: &mut Ground, op: Op) {
        match op.act {
            0..4 => self.alloc(ground, op),
            4..7 => self.free(ground, op),
            7 => self.take(ground, op),
            8 | 9 => self.alloc_bulk(ground, op),
            10 => self.free_bulk(ground, op),
            11 | 12 => self.change(ground, op),
            13 => self.tune(ground, op),
            14 => self.another_cache(ground, op),
            _ => self.one(op).into_iter().filter(|_| op.flag(7)).for_each(|object| ground.forget(object)),
        }
    }

    fn cache(&self, op: Op) -> Cache<T> {
        self.caches[op.pick(self.caches.len())].clone()
    }

    /// One of the objects, as it should be, perhaps armed.
    fn one(&mut self, op: Op) -> Option<Object<T>> {
        let at = usize::from(op.c) * 7 % self.held.len().max(1);
        let mut object = (at < self.held.len()).then(|| self.held.swap_remove(at))?;
        object.value().look();
        object.value_mut().armed = op.flag(0);
        Some(object)
    }

    fn alloc(&mut self, ground: &mut Ground, op: Op) {
        if self.held.len() >= HELD {
            return self.free(ground, op);
        }
        let cache = self.cache(op);
        let (w, register) = ground.both(op);
        let value = register.value();
        let object = register.firing(op.n(), || cache.alloc(w, value.into()));
        self.held.extend(object.and_then(Result::ok));
    }

    /// Frees it through its own cache, through another cache of the same memory or of another, or through none.
    fn free(&mut self, ground: &mut Ground, op: Op) {
        let Some(object) = self.one(op) else { return };
        let cache = self.cache(op);
        let (w, register) = ground.both(op);
        match op.act {
            6 => register.firing(0, || drop(object)),
            _ => register.firing(0, || cache.free(w, object)),
        };
    }

    fn take(&mut self, ground: &mut Ground, op: Op) {
        let Some(object) = self.one(op) else { return };
        let (cache, id) = (self.cache(op), object.value().id());
        let (w, register) = ground.both(op);
        let value = if op.flag(1) { object.into_value() } else { cache.take(w, object) };
        value.value().look();
        assert_eq!(value.value().id(), id);
        register.firing(0, || drop(value));
    }

    /// What makes the values may panic at any of them: those that were made are there.
    fn alloc_bulk(&mut self, ground: &mut Ground, op: Op) {
        let n = op.n().min(HELD.saturating_sub(self.held.len()));
        let cache = self.cache(op);
        let (w, register) = ground.both(op);
        let (held, made) = (&mut self.held, register.made());
        let (before, panics_at) = (held.len(), usize::from(op.a / 4));
        let got = register.firing(panics_at, || {
            cache.alloc_bulk(w, n, held, || {
                register.tick();
                register.value().into()
            })
        });
        match got {
            Some(got) => assert_eq!(held.len(), before + if got { n } else { 0 }),
            None => assert_eq!((held.len() - before) as u32, register.made() - made),
        }
    }

    fn free_bulk(&mut self, ground: &mut Ground, op: Op) {
        let n = self.held.len().min(op.n() / 2);
        let mut objects = self.held.split_off(self.held.len() - n);
        objects.iter().for_each(|object| object.value().look());
        if let Some(object) = objects.get_mut(usize::from(op.a / 4)) {
            object.value_mut().armed = true;
        }
        let cache = self.cache(op);
        let (w, register) = ground.both(op);
        let done = register.firing(0, || cache.free_bulk(w, &mut objects));
        assert!(done.is_none() || objects.is_empty());
    }

    /// Values go from object to object, and others take their places.
    fn change(&mut self, ground: &mut Ground, op: Op) {
        let n = self.held.len();
        if n < 2 {
            return;
        }
        let (one, other) = (op.pick(n), op.n() % n);
        if one != other && op.act == 11 {
            let (front, back) = self.held.split_at_mut(one.max(other));
            std::mem::swap(&mut *front[one.min(other)], &mut *back[0]);
        } else {
            let register = ground.register;
            self.held[one].value_mut().armed = op.flag(0);
            register.firing(0, || *self.held[one] = register.value().into());
            self.held[one].value_mut().armed = false;
        }
    }

    fn tune(&mut self, ground: &mut Ground, op: Op) {
        let cache = self.cache(op);
        let names = ["order", "min_partial", "cpu_partial", "sheaf_capacity"];
        let name = names[usize::from(op.b) % 4];
        ground.register.firing(0, || match op.c & 3 {
            0 => drop(cache.set(name, op.n() / 32)),
            1 => cache.shrink(),
            _ => Self::look_at(&cache),
        });
    }

    fn look_at(cache: &Cache<T>) {
        let (found, misuse) = (cache.validate(), cache.found());
        assert!(found.is_empty() && misuse.is_empty(), "{found:?}, {misuse:?}");
    }

    /// A cache goes, of which objects may be out, and another comes.
    fn another_cache(&mut self, ground: &mut Ground, op: Op) {
        let at = op.pick(self.caches.len());
        let memory = &ground.memories[usize::from(op.b) & 1];
        let old = std::mem::replace(&mut self.caches[at], Cache::new(memory, &settings(op.c)).unwrap());
        Self::look_at(&old);
        match op.b & 2 {
            0 => drop(old),
            _ => self.caches[at] = old.destroy().err().map_or(self.caches[at].clone(), |live| live.cache),
        }
    }

    /// Objects to be freed elsewhere, and what to free them by.
    pub fn some(&mut self, n: usize) -> (Vec<Object<T>>, Vec<Cache<T>>) {
        let n = self.held.len().min(n);
        (self.held.split_off(self.held.len() - n), self.caches.clone())
    }

    pub fn look(&self) {
        self.held.iter().for_each(|object| object.value().look());
    }

    pub fn end(mut self, ground: &mut Ground) {
        self.look();
        for (i, object) in self.held.drain(..).enumerate() {
            let n = ground.workers.len();
            self.caches[i % 3].free(&mut ground.workers[i % n], object);
        }
        for cache in self.caches {
            Self::look_at(&cache);
            let live = cache.destroy().err().map_or(0, |live| live.len());
            assert_eq!(live, 0, "objects are out");
        }
    }
}

/// What keeps the compiler's word that values of one register move between threads.
const _: fn() = || {
    fn moves<T: Send>() {}
    moves::<(Object<Value>, Cache<Wide>, &'static Register)>();
};
