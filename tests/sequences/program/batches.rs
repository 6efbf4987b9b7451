//! Frames in bulk.

use super::Op;
use super::frames::{Frames, HELD};
use super::ground::Ground;
use super::view::View;
use netmem::pool::{Batch, Frame};

/// Frames in order, and their contents.
#[derive(Default)]
pub struct Known {
    batch: Batch,
    views: Vec<View>,
}

impl Known {
    #[track_caller]
    fn look(&self) {
        assert_eq!(self.batch.len(), self.views.len());
        self.batch.iter().zip(&self.views).for_each(|(frame, view)| view.look(frame.data()));
    }

    /// All frames are written, after something panicked in the middle of it.
    fn write(&mut self) {
        self.views = self.batch.iter_mut().map(|frame| View::write(frame.data_mut())).collect();
    }

    fn push(&mut self, frame: Frame, view: View) {
        if self.batch.push(frame).is_ok() {
            self.views.push(view);
        }
    }
}

#[derive(Default)]
pub struct Batches {
    all: [Known; 3],
}

impl Batches {
    pub fn step(&mut self, ground: &mut Ground, frames: &mut Frames, op: Op) {
        let known = &mut self.all[op.pick(3)];
        match op.act {
            0..4 => alloc(known, ground, frames, op),
            4 => put(known, ground, op),
            5 => change(known, ground, op),
            6 => {
                if let Some((frame, view)) = frames.take(op.n()) {
                    known.push(frame, view);
                }
            }
            7 | 8 => drain(known, frames, op),
            9 => self.append(op),
            10 => self.swap(op),
            11 => {
                let Known { batch, .. } = std::mem::take(known);
                if op.flag(7) { ground.forget(batch) } else { drop(batch) }
            }
            12 if op.c == 255 => lose(known, ground),
            _ => {
                known.look();
                known.batch.free(ground.worker(op));
                known.views.clear();
                assert!(known.batch.is_empty());
            }
        }
    }

    /// What frames outside get into batches and back.
    pub fn between(&mut self, ground: &mut Ground, frames: &mut Frames, op: Op) {
        let known = &mut self.all[op.pick(3)];
        known.look();
        while let Some((frame, view)) = frames.held.pop().filter(|_| known.batch.room() > 0) {
            known.push(frame, view);
        }
        if op.flag(0) {
            known.batch.free(ground.worker(op));
            known.views.clear();
        }
    }

    /// Frames move from the front of one batch to the end of another.
    fn append(&mut self, op: Op) {
        let [one, two, _] = &mut self.all;
        let before = two.batch.len();
        let moved = match op.c & 1 {
            0 => two.batch.append(&mut one.batch),
            _ => one.batch.drain().move_to(&mut two.batch, op.n() / 4),
        };
        assert_eq!(two.batch.len(), before + moved);
        two.views.extend(one.views.drain(..moved));
        one.look();
        two.look();
    }

    /// A batch may know the pool of its frames. Swaps other frames in.
    fn swap(&mut self, op: Op) {
        let [one, two, _] = &mut self.all;
        let (at, to) = (op.pick(one.views.len()), op.n() % two.views.len().max(1));
        if let (Some(a), Some(b)) = (one.batch.get_mut(at), two.batch.get_mut(to)) {
            std::mem::swap(a, b);
            std::mem::swap(&mut one.views[at], &mut two.views[to]);
        }
    }

    pub fn look(&self) {
        self.all.iter().for_each(Known::look);
    }
}

fn alloc(known: &mut Known, ground: &mut Ground, frames: &Frames, op: Op) {
    let (pool, before) = (frames.pool(op), known.batch.len());
    let n = usize::from(op.c) / 4;
    let got = match op.act {
        0 => n * usize::from(pool.alloc_bulk(ground.worker(op), &mut known.batch, n)),
        _ => pool.alloc_burst(ground.worker(op), &mut known.batch, n),
    };
    assert!(got <= n && known.batch.len() == before + got);
    for frame in &mut known.batch[before..] {
        assert!(frame.is_empty());
        let len = usize::from(op.b).min(frame.tailroom());
        known.views.push(View::write(frame.put(len).unwrap()));
    }
}

/// All frames are made longer, by a closure that may panic.
fn put(known: &mut Known, ground: &Ground, op: Op) {
    known.look();
    let (register, Known { batch, .. }) = (ground.register, &mut *known);
    register.firing(op.n() / 4, || {
        batch.put_each(usize::from(op.b) / 4, |_, bytes| {
            View::write(bytes);
            register.tick();
        })
    });
    known.write();
}

fn change(known: &mut Known, ground: &Ground, op: Op) {
    known.look();
    let (register, views) = (ground.register, &mut known.views);
    register.firing(op.n() / 4, || {
        known.batch.each_data_mut(usize::from(op.b) % 9, |i, data| {
            views[i] = View::write(data);
            register.tick();
        });
    });
}

/// Some are taken out, from the front.
fn drain(known: &mut Known, frames: &mut Frames, op: Op) {
    known.look();
    let n = (op.n() / 8).min(known.views.len()).min(HELD.saturating_sub(frames.held.len()));
    let taken: Vec<Frame> = known.batch.drain().take(n).collect();
    assert_eq!(taken.len(), n);
    frames.held.extend(taken.into_iter().zip(known.views.drain(..n)));
    known.look();
}

/// The guard that would move the rest up is forgotten: the frames are lost, and nothing else is.
fn lose(known: &mut Known, ground: &mut Ground) {
    if !ground.may_lose() {
        return;
    }
    ground.lost += known.views.len() as u64;
    std::mem::forget(known.batch.drain());
    known.views.clear();
}
