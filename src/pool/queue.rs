//! COLD: the queue of a pool with `Recycle::Head`: what rests in it, and what of it is given out again.

use super::depot::Depot;
use super::shared::Shared;

/// Tally of a page in the queue that is out.
const OUT: u32 = 0;
/// Tally of a page in the queue that is home.
const HOME: u32 = 1;
/// Tally of a page that is out and was given up.
const GIVEN_UP: u32 = 2;

impl Shared {
    /// A frame comes home: it rests in the queue, or leaves with its page if that was given up.
    pub(super) fn put_in_queue(&self, depot: &mut Depot, id: u32) {
        let given_up = self.tally(id) == GIVEN_UP;
        self.set_tally(id, HOME);
        if given_up {
            self.push_watched(depot, id);
        } else {
            depot.queue.resting += 1;
        }
        if given_up || depot.has_unwanted() {
            self.let_go(depot, id, |depot, page| given_up || depot.is_unwanted(page));
        }
    }

    /// Takes frames of new pages, and of the head of the queue as long as that is home.
    pub(super) fn take_from_queue(&self, depot: &mut Depot, into: &mut [u32]) -> usize {
        let depth = depot.cache.0.max(1);
        let mut got = 0;
        while got < into.len() && !depot.closed {
            let id = match depot.spare.pop() {
                Some(id) => id,
                None => {
                    let head = (depot.queue.frames.len() >= depth).then(|| depot.queue.frames.pop_front());
                    let Some(id) = head.flatten() else { break };
                    if self.tally(id) != HOME {
                        self.set_tally(id, GIVEN_UP);
                        self.outrun.add(1);
                        break;
                    }
                    depot.queue.resting -= 1;
                    id
                }
            };
            self.give_out(depot, id, &mut into[got]);
            got += 1;
        }
        got
    }

    /// Takes whatever is home, wherever it stands: nothing else is left.
    pub(super) fn take_resting(&self, depot: &mut Depot, into: &mut [u32]) -> usize {
        let mut got = 0;
        while got < into.len()
            && !depot.closed
            && let Some(id) = depot.spare.pop()
        {
            self.give_out(depot, id, &mut into[got]);
            got += 1;
        }
        for _ in 0..depot.queue.frames.len() {
            if got == into.len() || depot.queue.resting == 0 || depot.closed {
                break;
            }
            let Some(id) = depot.queue.frames.pop_front() else { break };
            if self.tally(id) == HOME {
                depot.queue.resting -= 1;
                self.give_out(depot, id, &mut into[got]);
                got += 1;
            } else {
                depot.queue.frames.push_back(id);
            }
        }
        got
    }

    /// Takes note that a frame goes out: to the queue's end.
    fn give_out(&self, depot: &mut Depot, id: u32, place: &mut u32) {
        self.set_tally(id, OUT);
        depot.queue.frames.push_back(id);
        *place = id;
    }

    /// Whether a frame that is not in the depot's list rests in the queue.
    pub(super) fn is_resting(&self, depot: &Depot, id: u32) -> bool {
        depot.recycle.reuses_head() && self.tally(id) == HOME
    }
}
