//! Checks whether frames of a flow come out in the order in which they went in.

/// Number of sequence numbers that a flow's window remembers. For a frame that comes later than that, it is not known
/// whether it came before.
const WINDOW: u64 = 4096;

/// The counts of numbered frames: received, reordered, duplicated and missing. Conservation: numbers `0..=highest` of
/// each flow = `received` − `duplicated` + `missing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OrderStats {
    /// Frames seen.
    pub received: u64,
    /// Frames that came after one with a higher number.
    pub reordered: u64,
    /// Frames whose number had already come, or was more than 4,096 numbers back.
    pub duplicated: u64,
    /// Numbers below the highest that have not come.
    pub missing: u64,
}

/// Checks the order of frames by the numbers that their sender gave them: 0, 1, 2, … in each flow.
///
/// For tests and experiments, not for hot paths.
#[derive(Debug, Clone)]
pub struct OrderChecker {
    flows: Vec<Flow>,
    received: u64,
    reordered: u64,
    duplicated: u64,
}

/// One flow's window.
#[derive(Debug, Clone)]
struct Flow {
    /// The highest number that came, plus one.
    next: u64,
    /// Numbers that came, each once.
    distinct: u64,
    /// One bit for each of the last [`WINDOW`] numbers below `next`, by number modulo [`WINDOW`].
    seen: Box<[u64]>,
}

/// Maximum number of flows of a checker: each takes half a KiB.
const FLOWS_MAX: usize = 1 << 16;

/// The reason why a checker could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// There are too many flows.
    #[error("{flows} flows to follow: give 0 to {FLOWS_MAX}")]
    Flows {
        /// The requested number of flows.
        flows: usize,
    },
}

impl OrderChecker {
    /// Makes a checker for flows numbered from 0.
    ///
    /// # Errors
    /// Returns [`OrderError`] for more than 65,536 flows.
    pub fn new(flows: usize) -> Result<OrderChecker, OrderError> {
        if flows > FLOWS_MAX {
            return Err(OrderError::Flows { flows });
        }
        let flow = Flow { next: 0, distinct: 0, seen: vec![0; (WINDOW / 64) as usize].into() };
        Ok(OrderChecker { flows: vec![flow; flows], received: 0, reordered: 0, duplicated: 0 })
    }

    /// Records a frame. Returns true if it is the next one or a later one, false if it is late or came before.
    ///
    /// # Panics
    /// Panics if there is no such flow.
    pub fn see(&mut self, flow: usize, number: u64) -> bool {
        let flow = &mut self.flows[flow];
        self.received += 1;
        if number >= flow.next {
            flow.advance(number);
        } else if flow.next - number > WINDOW || flow.was_seen(number) {
            self.duplicated += 1;
            return false;
        } else {
            self.reordered += 1;
        }
        let in_order = number.saturating_add(1) == flow.next;
        flow.mark(number);
        in_order
    }

    /// The counts over all flows.
    pub fn counts(&self) -> OrderStats {
        OrderStats {
            received: self.received,
            reordered: self.reordered,
            duplicated: self.duplicated,
            missing: self.flows.iter().map(|flow| flow.next - flow.distinct).sum(),
        }
    }
}

impl Flow {
    /// Makes `number` the highest; the numbers in between are missing for now.
    fn advance(&mut self, number: u64) {
        if number - self.next >= WINDOW - 1 {
            self.seen.fill(0);
        } else {
            (self.next..=number).for_each(|between| *self.word(between).0 &= !self.word(between).1);
        }
        self.next = number.saturating_add(1);
    }

    fn word(&mut self, number: u64) -> (&mut u64, u64) {
        let place = number % WINDOW;
        (&mut self.seen[(place / 64) as usize], 1 << (place % 64))
    }

    fn was_seen(&mut self, number: u64) -> bool {
        let (word, bit) = self.word(number);
        *word & bit != 0
    }

    fn mark(&mut self, number: u64) {
        let (word, bit) = self.word(number);
        *word |= bit;
        self.distinct += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn a_frame_that_comes_late_is_reordered_and_no_longer_missing() {
        let mut order = OrderChecker::new(2).unwrap();
        assert!([0, 1, 3].into_iter().all(|number| order.see(0, number)));
        assert_eq!(order.counts(), OrderStats { received: 3, missing: 1, ..OrderStats::default() });
        assert!(!order.see(0, 2) && !order.see(0, 2));
        assert!(order.see(1, 0), "another flow has numbers of its own");
        let counts = OrderStats { received: 6, reordered: 1, duplicated: 1, missing: 0 };
        assert_eq!(order.counts(), counts);
    }

    proptest! {
        #[test]
        fn counts_are_those_of_the_definition(
            steps in prop::collection::vec((0..2_usize, prop_oneof![0..40_u64, 0..9000_u64]), 0..400),
        ) {
            let mut order = OrderChecker::new(2).unwrap();
            let mut seen = [HashSet::new(), HashSet::new()];
            let (mut highest, mut expect) = ([None::<u64>; 2], OrderStats::default());
            for (flow, number) in steps {
                order.see(flow, number);
                expect.received += 1;
                let top = highest[flow];
                if top.is_some_and(|top| number <= top && top + 1 - number > WINDOW) || !seen[flow].insert(number) {
                    expect.duplicated += 1;
                } else if top.is_some_and(|top| number < top) {
                    expect.reordered += 1;
                }
                highest[flow] = top.max(Some(number));
            }
            for flow in 0..2 {
                expect.missing += highest[flow].map_or(0, |top| top + 1 - seen[flow].len() as u64);
            }
            prop_assert_eq!(order.counts(), expect);
        }
    }
}
