//! Loss, order and duplicates, by the sequence numbers of each flow.

/// Number of past sequence numbers that a flow remembers. An older packet counts as late, not as a duplicate.
pub const REMEMBERED: u64 = u64::BITS as u64;

/// The counts of a sink. `received - corrupt - duplicates` different packets arrived. `missing` more must have been
/// sent before the last packet of their flow that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Frames that arrived, good and corrupt.
    pub received: u64,
    /// Frames with a wrong byte. They are in none of the following counts.
    pub corrupt: u64,
    /// Packets that arrived after a later one of their flow, for the first time: Type-P-Reordered of RFC 4737 §3.3,
    /// for each flow by itself.
    pub reordered: u64,
    /// Packets that arrived again. The count is exact for the last [`REMEMBERED`] sequence numbers of the flow.
    pub duplicates: u64,
    /// Packets that have not arrived although a later one of their flow has.
    pub missing: u64,
}

impl Tally {
    /// Returns the number of different packets that arrived unchanged.
    pub fn distinct(&self) -> u64 {
        self.received - self.corrupt - self.duplicates
    }
}

/// The packets of a flow that have arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flow {
    /// One more than the highest sequence number that arrived.
    next: u64,
    /// Bit `i`: packet `next - 1 - i` has arrived.
    seen: u64,
}

impl Flow {
    /// Records the arrival of packet `seq`.
    #[inline]
    pub(super) fn account(&mut self, seq: u64, tally: &mut Tally) {
        if seq == self.next {
            self.next = seq.wrapping_add(1);
            self.seen = self.seen << 1 | 1;
        } else {
            self.account_out_of_order(seq, tally);
        }
    }

    #[cold]
    fn account_out_of_order(&mut self, seq: u64, tally: &mut Tally) {
        if seq > self.next {
            let gap = seq - self.next;
            tally.missing = tally.missing.wrapping_add(gap);
            self.seen = if gap < REMEMBERED - 1 { self.seen << (gap + 1) | 1 } else { 1 };
            self.next = seq.wrapping_add(1);
            return;
        }
        let back = self.next - 1 - seq;
        let bit = if back < REMEMBERED { 1 << back } else { 0 };
        if self.seen & bit != 0 {
            tally.duplicates += 1;
        } else {
            self.seen |= bit;
            tally.reordered += 1;
            tally.missing = tally.missing.saturating_sub(1);
        }
    }
}
