//! Frames with several holders, and frames cut into pieces.

use super::Op;
use super::frames::{Frames, HELD};
use super::ground::Ground;
use super::view::View;
use netmem::pool::{Fragment, Fragments, SharedFrame};

pub struct Shares {
    pub shared: Vec<(SharedFrame, View)>,
    pub pieces: Vec<(Fragment, View)>,
    cutters: [Fragments; 2],
}

impl Shares {
    pub fn new(frames: &Frames) -> Shares {
        let cutters = [0, 2].map(|i: usize| Fragments::new(&frames.pools[i]));
        Shares { shared: Vec::new(), pieces: Vec::new(), cutters }
    }

    pub fn step(&mut self, ground: &mut Ground, frames: &mut Frames, op: Op) {
        match op.act {
            0..3 => {
                let one = frames.take(op.n()).filter(|_| self.shared.len() < HELD);
                self.shared.extend(one.map(|(frame, view)| (frame.share(), view)));
            }
            3..5 => self.clone_one(op),
            5 => self.narrow(op),
            6..9 => self.release(ground, frames, op),
            9..12 => self.cut(ground, op),
            12 => self.edit(op),
            13 => match op.b & 3 {
                0 => self.cutters[op.pick(2)] = Fragments::new(&frames.pools[usize::from(op.c) % 3]),
                _ => self.cutters[op.pick(2)].flush(ground.worker(op)),
            },
            _ => self.give_up(ground, frames, op),
        }
    }

    pub fn take_shared(&mut self, n: usize) -> Option<(SharedFrame, View)> {
        let at = n % self.shared.len().max(1);
        (at < self.shared.len()).then(|| self.shared.swap_remove(at))
    }

    pub fn take_piece(&mut self, n: usize) -> Option<(Fragment, View)> {
        let at = n % self.pieces.len().max(1);
        (at < self.pieces.len()).then(|| self.pieces.swap_remove(at))
    }

    fn clone_one(&mut self, op: Op) {
        let at = op.pick(self.shared.len());
        if self.shared.len() < HELD
            && let Some((shared, view)) = self.shared.get(at)
        {
            let another = shared.clone();
            assert!(shared.holders() >= 2 && !another.is_unique());
            self.shared.push((another, *view));
        }
    }

    fn narrow(&mut self, op: Op) {
        let at = op.pick(self.shared.len());
        let Some((shared, view)) = self.shared.get_mut(at) else { return };
        match op.b & 1 {
            0 => assert_eq!(shared.pull(op.n()).is_ok(), view.pull(op.n())),
            _ => assert_eq!(shared.trim(op.n()).is_ok(), view.trim(op.n())),
        }
        view.look(shared.data());
    }

    /// The holder that gets the frame writes it at once: no other holder may have it.
    fn release(&mut self, ground: &mut Ground, frames: &mut Frames, op: Op) {
        let Some((shared, view)) = self.take_shared(op.pick(HELD)) else { return };
        view.look(shared.data());
        let frame = match (op.act, op.b & 3) {
            (6, 0) if op.flag(7) => return ground.forget(shared),
            (6, 0) => return drop(shared),
            (6, _) => return shared.free(ground.worker(op)),
            (7, _) => shared.release(),
            _ => match shared.into_frame() {
                Ok(frame) => Some(frame),
                Err(shared) => return self.shared.push((shared, view)),
            },
        };
        if let Some(mut frame) = frame {
            view.look(frame.data());
            let view = View::write(frame.data_mut());
            frames.held.push((frame, view));
        }
    }

    fn cut(&mut self, ground: &mut Ground, op: Op) {
        if self.pieces.len() >= HELD {
            return drop(self.take_piece(op.n()));
        }
        let bytes = op.n() << (op.act & 3);
        let w = ground.worker(op);
        let Some(mut piece) = self.cutters[op.pick(2)].alloc(w, bytes) else { return };
        assert!(piece.is_empty() && piece.size() >= bytes);
        let n = if op.b & 8 == 0 { piece.tailroom() } else { op.n().min(piece.tailroom()) };
        let view = View::write(piece.put(n).unwrap());
        self.pieces.push((piece, view));
    }

    fn edit(&mut self, op: Op) {
        let at = op.pick(self.pieces.len());
        let Some((piece, view)) = self.pieces.get_mut(at) else { return };
        let n = op.n();
        match op.b & 3 {
            0 => assert_eq!(piece.pull(n).is_ok(), view.pull(n)),
            1 => assert_eq!(piece.trim(n).is_ok(), view.trim(n)),
            2 => {
                let room = piece.headroom();
                assert_eq!(piece.push(n).is_ok(), n <= room);
                *view = View::write(piece.data_mut());
            }
            _ => *view = View::write(piece.data_mut()),
        }
        view.look(piece.data());
    }

    fn give_up(&mut self, ground: &mut Ground, frames: &mut Frames, op: Op) {
        let Some((piece, view)) = self.take_piece(op.pick(HELD)) else { return };
        view.look(piece.data());
        match op.c & 7 {
            0 => drop(piece),
            1 => self.shared.push((piece.share(), view)),
            2 if op.flag(7) => ground.forget(piece),
            3..6 => {
                if let Some(mut frame) = piece.release() {
                    let room = frame.tailroom();
                    let view = View::write(frame.put(room).unwrap());
                    frames.held.push((frame, view));
                }
            }
            _ => piece.free(ground.worker(op)),
        }
    }

    pub fn look(&self) {
        self.shared.iter().for_each(|(shared, view)| view.look(shared.data()));
        self.pieces.iter().for_each(|(piece, view)| view.look(piece.data()));
    }
}
