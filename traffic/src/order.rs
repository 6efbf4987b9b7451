//! Loss, order and duplicates, by the sequence numbers of each flow.

/// How many sequence numbers back a flow remembers what came. An older packet is taken for late,
/// not for a duplicate.
pub const REMEMBERED: u64 = u64::BITS as u64;

/// What a sink counted. `received - corrupt - duplicates` different packets came, and `missing`
/// more must have been sent before the last that came of their flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Frames that came, good and corrupt.
    pub received: u64,
    /// Frames with a wrong byte; they count in none of the rest.
    pub corrupt: u64,
    /// Packets that came after a later one of their flow, and had not come before: Type-P-Reordered of RFC 4737 §3.3,
    /// each flow by itself.
    pub reordered: u64,
    /// Packets that had come before: exactly those among the last [`REMEMBERED`] sequence numbers of the flow.
    pub duplicates: u64,
    /// Packets that have not come although a later one of their flow has.
    pub missing: u64,
}

impl Tally {
    /// Different packets that came whole.
    pub fn distinct(&self) -> u64 {
        self.received - self.corrupt - self.duplicates
    }
}

/// What has come of a flow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flow {
    /// One more than the highest sequence number that came.
    next: u64,
    /// Bit `i`: packet `next - 1 - i` has come.
    seen: u64,
}

impl Flow {
    /// Notes that packet `seq` has come.
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
