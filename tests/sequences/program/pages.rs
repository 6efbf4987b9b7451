//! Pages, alone and shared.

use super::Op;
use super::ground::Ground;
use super::value::{Register, fault};
use super::view::View;
use netmem::page::{Owner, OwnerId, Page, SharedPage};
use netmem::sync::Worker;
use std::num::NonZeroU32;
use std::sync::{Mutex, OnceLock};

/// Blocks held at most, of each kind.
const HELD: usize = 24;
/// Bytes that are written at either end of a block.
const ENDS: usize = 16;

/// The word with which a page was shared: what its owner does at the last release. The program's number is above it.
const KEEPS: u64 = 1;
const PANICS: u64 = 2;
const FLAGS: u64 = 3;

/// Pages that their owner kept, by word.
static KEPT: Mutex<Vec<(u64, Page)>> = Mutex::new(Vec::new());

fn owner() -> OwnerId {
    static OWNER: OnceLock<OwnerId> = OnceLock::new();
    *OWNER.get_or_init(|| OwnerId::register(Owner { release, early: Some(early) }).unwrap())
}

fn release(_: Option<&mut Worker>, page: Page, word: u64) -> Option<Page> {
    if page.bytes().len() != 4096 << page.order() {
        fault(format!("{page:?} has {} bytes", page.bytes().len()));
    }
    if word & PANICS != 0 {
        Register::here().into_iter().for_each(Register::tick);
    }
    if word & KEEPS == 0 {
        return Some(page);
    }
    KEPT.lock().unwrap().push((word, page));
    None
}

fn early(_: Option<&mut Worker>, _: NonZeroU32, word: u64) {
    if word & PANICS != 0 {
        Register::here().into_iter().for_each(Register::tick);
    }
}

/// What stands at both ends of a block.
type Ends = [View; 2];

fn write(page: &mut Page) -> Ends {
    let (front, back) = page.bytes_mut().split_at_mut(ENDS);
    let end = back.len() - ENDS;
    [View::write(front), View::write(&mut back[end..])]
}

#[track_caller]
fn look(bytes: &[u8], [front, back]: Ends) {
    front.look(&bytes[..ENDS]);
    back.look(&bytes[bytes.len() - ENDS..]);
}

#[derive(Default)]
pub struct Pages {
    held: Vec<(Page, Ends)>,
    shared: Vec<(SharedPage, Ends)>,
}

impl Pages {
    pub fn step(&mut self, ground: &mut Ground, op: Op) {
        match op.act {
            0..4 => self.alloc(ground, op),
            4..8 => self.free(ground, op),
            8 => self.alloc_bulk(ground, op),
            9 => self.free_bulk(ground, op),
            10 | 11 => self.share(ground, op),
            12 if self.shared.len() < HELD => {
                let another = self.shared.get(op.pick(self.shared.len()));
                let another = another.map(|(page, ends)| (page.clone(), *ends));
                self.shared.extend(another);
            }
            _ => self.release(ground, op),
        }
    }

    fn alloc(&mut self, ground: &mut Ground, op: Op) {
        if self.held.len() >= HELD {
            return self.free(ground, op);
        }
        let memory = ground.memories[op.pick(2)].clone();
        let (w, register) = ground.both(op);
        let order = op.c & 7;
        let page = register.firing(op.n() >> 4, || match op.act {
            0 => memory.alloc_or_single(w, order),
            1 => memory.alloc_with_reserve(w, order),
            _ => memory.alloc(w, order / 2),
        });
        let Some(mut page) = page.flatten() else { return };
        let ends = write(&mut page);
        self.held.push((page, ends));
    }

    fn take(&mut self, op: Op) -> Option<Page> {
        let at = usize::from(op.c) % self.held.len().max(1);
        let (page, ends) = (at < self.held.len()).then(|| self.held.swap_remove(at))?;
        look(page.bytes(), ends);
        Some(page)
    }

    fn free(&mut self, ground: &mut Ground, op: Op) {
        let Some(page) = self.take(op) else { return };
        let memory = ground.memories[op.pick(2)].clone();
        let register = ground.register;
        match op.act {
            4 | 5 => {
                register.firing(1, || memory.free(ground.worker(op), page));
            }
            6 if op.flag(7) => ground.forget(page),
            _ => {
                register.firing(1, || drop(page));
            }
        }
    }

    /// Places are filled that are empty, and those that are not are left alone.
    fn alloc_bulk(&mut self, ground: &mut Ground, op: Op) {
        let memory = ground.memories[op.pick(2)].clone();
        let before = self.take(op);
        let number = before.as_ref().map(Page::number);
        let room = HELD.saturating_sub(self.held.len());
        let mut places: Vec<Option<Page>> = vec![before];
        places.resize_with(1 + room.min(op.n() / 4), || None);
        memory.alloc_bulk(ground.worker(op), &mut places);
        assert!(number.is_none() || places[0].as_ref().map(Page::number) == number);
        for mut page in places.into_iter().flatten() {
            let ends = write(&mut page);
            self.held.push((page, ends));
        }
    }

    fn free_bulk(&mut self, ground: &mut Ground, op: Op) {
        let memory = ground.memories[op.pick(2)].clone();
        let mut places: Vec<Option<Page>> = (0..op.n() / 16).map(|_| self.take(op)).collect();
        memory.free_bulk(ground.worker(op), &mut places);
        assert!(places.iter().all(Option::is_none));
    }

    fn share(&mut self, ground: &Ground, op: Op) {
        let at = op.pick(self.held.len());
        if at < self.held.len() && self.shared.len() < HELD {
            let (page, ends) = self.held.swap_remove(at);
            let word = ground.register.number() << 2 | u64::from(op.c) & FLAGS;
            let shared = page.share(owner(), word);
            assert_eq!((shared.word(), shared.holders()), (word, 1));
            self.shared.push((shared, ends));
        }
    }

    fn release(&mut self, ground: &mut Ground, op: Op) {
        let at = op.pick(self.shared.len());
        if at >= self.shared.len() {
            return;
        }
        let (shared, ends) = self.shared.swap_remove(at);
        look(shared.bytes(), ends);
        let (w, register) = ground.both(op);
        match op.act {
            13 => _ = register.firing(op.n() & 3, || shared.release(w)),
            14 if op.flag(7) => _ = register.firing(op.n() & 3, || drop(shared)),
            14 if op.flag(6) => ground.forget(shared),
            _ => match shared.into_page() {
                Ok(mut page) => {
                    look(page.bytes(), ends);
                    let ends = write(&mut page);
                    self.held.push((page, ends));
                }
                Err(shared) => self.shared.push((shared, ends)),
            },
        }
    }

    pub fn look(&self) {
        self.held.iter().for_each(|(page, ends)| look(page.bytes(), *ends));
        self.shared.iter().for_each(|(page, ends)| look(page.bytes(), *ends));
    }

    pub fn end(mut self, ground: &mut Ground) {
        self.look();
        for (i, (page, _)) in self.held.drain(..).enumerate() {
            let n = ground.workers.len();
            ground.memories[0].clone().free(&mut ground.workers[i % n], page);
        }
        self.shared.clear();
        KEPT.lock().unwrap().retain(|(word, _)| word >> 2 != ground.register.number());
    }
}
