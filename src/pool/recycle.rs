//! What becomes of a page whose frames have all come home.

use super::shared::Shared;
use super::stock::Stock;
use std::collections::VecDeque;

/// What becomes of a page whose frames have all come home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recycle {
    /// It stays in the pool, mapped for the device, and its frames are given out again.
    #[default]
    Pool,
    /// The drivers' older trick, for frames of whole pages: pages stand in a queue (as long as the cache would be) in the
    /// order in which they were given out. An allocation looks at the head: if it is home it is used again, else the pool
    /// gives it up and takes a new page; it is unmapped when it comes home, and until then counts among
    /// the pool's frames: give the pool as many more than the queue is long as may be held. A few pages that are held long cost nothing
    /// but themselves; when all are held for longer than a turn of the queue, nothing is recycled.
    Head,
    /// It is unmapped and goes back to the page stage, and each allocation that needs one takes and maps a new one: what
    /// there is without a page pool.
    Never,
}

/// Tally of a page in the queue that is out.
const OUT: u32 = 0;
/// Tally of a page in the queue that is home.
const HOME: u32 = 1;
/// Tally of a page that is out and was given up.
const GIVEN_UP: u32 = 2;

/// The pages of a pool with [`Recycle::Head`], by their frames' numbers, the one given out longest ago first.
///
/// `resting` of them are home; those are free frames that are not in the stock's list.
#[derive(Debug, Default)]
pub(super) struct Queue {
    frames: VecDeque<u32>,
    pub(super) resting: usize,
}

impl Queue {
    /// Forgets a page that rested here and leaves the pool.
    pub(super) fn forget(&mut self, frame: u32) {
        let before = self.frames.len();
        self.frames.retain(|&other| other != frame);
        self.resting -= before - self.frames.len();
    }
}

impl Shared {
    /// A frame comes home: it rests in the queue, or leaves with its page if that was given up.
    pub(super) fn put_in_queue(&self, stock: &mut Stock, id: u32) {
        let given_up = self.tally(id) == GIVEN_UP;
        self.set_tally(id, HOME);
        if given_up {
            self.push_watched(stock, id);
        } else {
            stock.queue.resting += 1;
        }
        if given_up || stock.has_unwanted() {
            self.let_go(stock, id, |stock, page| given_up || stock.is_unwanted(page));
        }
    }

    /// Takes frames of new pages, and of the head of the queue as long as that is home.
    pub(super) fn take_from_queue(&self, stock: &mut Stock, into: &mut [u32]) -> usize {
        let depth = stock.cache.0.max(1);
        let mut got = 0;
        while got < into.len() && !stock.closed {
            let id = match stock.spare.pop() {
                Some(id) => id,
                None => {
                    let head = (stock.queue.frames.len() >= depth).then(|| stock.queue.frames.pop_front());
                    let Some(id) = head.flatten() else { break };
                    if self.tally(id) != HOME {
                        self.set_tally(id, GIVEN_UP);
                        self.outrun.add(1);
                        break;
                    }
                    stock.queue.resting -= 1;
                    id
                }
            };
            self.give_out(stock, id, &mut into[got]);
            got += 1;
        }
        got
    }

    /// Takes whatever is home, wherever it stands: nothing else is left.
    pub(super) fn take_resting(&self, stock: &mut Stock, into: &mut [u32]) -> usize {
        let mut got = 0;
        while got < into.len()
            && !stock.closed
            && let Some(id) = stock.spare.pop()
        {
            self.give_out(stock, id, &mut into[got]);
            got += 1;
        }
        for _ in 0..stock.queue.frames.len() {
            if got == into.len() || stock.queue.resting == 0 || stock.closed {
                break;
            }
            let Some(id) = stock.queue.frames.pop_front() else { break };
            if self.tally(id) == HOME {
                stock.queue.resting -= 1;
                self.give_out(stock, id, &mut into[got]);
                got += 1;
            } else {
                stock.queue.frames.push_back(id);
            }
        }
        got
    }

    /// Takes note that a frame goes out: to the queue's end.
    fn give_out(&self, stock: &mut Stock, id: u32, place: &mut u32) {
        self.set_tally(id, OUT);
        stock.queue.frames.push_back(id);
        *place = id;
    }

    /// Whether a frame that is not in the stock's list rests in the queue.
    pub(super) fn is_resting(&self, stock: &Stock, id: u32) -> bool {
        stock.recycle == Recycle::Head && self.tally(id) == HOME
    }
}
