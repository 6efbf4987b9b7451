//! The two ends of a ring through which items pass one at a time, and the waiting of each side.

use netmem::ring::{Receiver, Sender};

/// Items that a side passes between two readings of the clock.
pub(super) const BURST: usize = 256;

/// Number of fruitless checks after which a waiting side lets its caller read the clock.
const LOOKS: usize = 1_024;

/// Pause instructions of one back-off: about a microsecond.
const PAUSES: usize = 32;

/// The action of a side that finds the ring empty or full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// Returns with the work done so far.
    GiveUp,
    /// Checks again at once.
    Spin,
    /// Checks again after about a microsecond, when several items may wait.
    BackOff,
}

/// One end of a passing, on one core.
pub(super) trait Side: Send {
    /// Passes one item. Returns false if the ring is empty or full.
    fn step(&mut self) -> bool;

    /// From now on at most `most` items lie between the sides. This has no effect on the receiving side.
    fn keep_under_way(&mut self, most: usize) {
        let _ = most;
    }

    /// Passes at most [`BURST`] items, one at a time. Returns the number.
    fn pass(&mut self, policy: Policy) -> usize;

    /// Ends this side. The receiving side takes every item in flight.
    fn settle(self: Box<Self>) -> Account;
}

/// The final counts of a side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Items that it passed.
    pub(super) passed: u64,
    /// Items that differ from the sent ones, or failed allocations.
    pub(super) wrong: u64,
}

/// `pass` by means of `step`, compiled for each side.
#[inline(always)]
fn pass(policy: Policy, mut step: impl FnMut() -> bool) -> usize {
    let (mut done, mut looks) = (0, 0);
    while done < BURST && looks < LOOKS {
        if step() {
            done += 1;
            continue;
        }
        match policy {
            Policy::GiveUp => break,
            Policy::Spin => {}
            Policy::BackOff => (0..PAUSES).for_each(|_| std::hint::spin_loop()),
        }
        looks += 1;
    }
    done
}

/// The source of the items.
pub(super) trait Source: Send {
    /// The type of the items.
    type Item: Send;
    /// Makes the `n`-th item.
    fn make(&mut self, n: u64) -> Option<Self::Item>;
}

/// The sink of the items.
pub(super) trait Sink: Send {
    /// The type of the items.
    type Item: Send;
    /// Takes the `n`-th item. Returns false if it differs from the sent one.
    fn take(&mut self, n: u64, item: Self::Item) -> bool;
    /// Ends the sink. Returns false if a held item differs from the sent one.
    fn end(&mut self) -> bool {
        true
    }
}

/// The sending side. It shares no cache line with the other side.
#[repr(align(128))]
pub(super) struct Giving<S: Source> {
    pub(super) source: S,
    pub(super) ring: Sender<S::Item>,
    /// Slots of the ring that stay empty.
    pub(super) spare: usize,
    pub(super) account: Account,
}

impl<S: Source> Side for Giving<S> {
    #[inline(always)]
    fn step(&mut self) -> bool {
        if self.ring.room(self.spare + 1) <= self.spare {
            return false;
        }
        let Some(item) = self.source.make(self.account.passed) else {
            self.account.wrong += 1;
            return false;
        };
        let sent = self.ring.send(item).is_ok();
        self.account.passed += u64::from(sent);
        sent
    }

    fn keep_under_way(&mut self, most: usize) {
        self.spare = self.ring.capacity().saturating_sub(most.max(1));
    }

    #[inline(never)]
    fn pass(&mut self, policy: Policy) -> usize {
        pass(policy, || self.step())
    }

    fn settle(self: Box<Self>) -> Account {
        self.account
    }
}

/// The receiving side. It shares no cache line with the other side.
#[repr(align(128))]
pub(super) struct Taking<S: Sink> {
    pub(super) sink: S,
    pub(super) ring: Receiver<S::Item>,
    pub(super) account: Account,
}

impl<S: Sink> Side for Taking<S> {
    #[inline(always)]
    fn step(&mut self) -> bool {
        let Some(item) = self.ring.recv() else { return false };
        let right = self.sink.take(self.account.passed, item);
        self.account.passed += 1;
        self.account.wrong += u64::from(!right);
        true
    }

    #[inline(never)]
    fn pass(&mut self, policy: Policy) -> usize {
        pass(policy, || self.step())
    }

    fn settle(mut self: Box<Self>) -> Account {
        while self.step() {}
        self.account.wrong += u64::from(!self.sink.end());
        self.account
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::page_cross_worker::items::Numbers;
    use netmem::ring::ring;

    fn numbers() -> (Box<Giving<Numbers>>, Box<Taking<Numbers>>) {
        let (sender, receiver) = ring(64);
        let account = Account::default();
        (
            Box::new(Giving { source: Numbers, ring: sender, spare: 0, account }),
            Box::new(Taking { sink: Numbers, ring: receiver, account }),
        )
    }

    #[test]
    fn a_side_that_gives_up_passes_what_there_is() {
        let (mut a, mut b) = numbers();
        assert_eq!((b.pass(Policy::GiveUp), a.pass(Policy::GiveUp), b.pass(Policy::GiveUp)), (0, 64, 64));
    }

    #[test]
    fn a_side_that_waits_comes_back_when_nothing_comes() {
        let (mut a, b) = numbers();
        assert_eq!((a.pass(Policy::Spin), a.pass(Policy::BackOff)), (64, 0));
        assert_eq!(
            (a.settle(), b.settle()),
            (Account { passed: 64, wrong: 0 }, Account { passed: 64, wrong: 0 })
        );
    }

    #[test]
    fn no_more_lies_between_the_sides_than_may() {
        let (mut a, mut b) = numbers();
        assert_eq!(a.pass(Policy::GiveUp), 64);
        a.keep_under_way(16);
        assert_eq!((a.pass(Policy::GiveUp), b.pass(Policy::GiveUp)), (0, 64));
        assert_eq!((a.pass(Policy::GiveUp), b.pass(Policy::GiveUp)), (16, 16));
    }

    #[test]
    fn a_number_out_of_its_place_is_counted() {
        let (mut a, b) = numbers();
        a.ring.send(7).unwrap();
        assert_eq!(b.settle(), Account { passed: 1, wrong: 1 });
    }
}
