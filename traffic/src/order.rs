//! Loss, order and duplicates, by the sequence numbers of each flow.

/// Number of past sequence numbers of which a flow remembers each that is missing.
pub const REMEMBERED: u64 = 4096;

/// The counts of a sink. [`distinct`](Tally::distinct) different packets arrived. `missing` more must have been sent
/// before the last packet of their flow that arrived; up to `late` of them arrived after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Frames that arrived, good and corrupt.
    pub received: u64,
    /// Frames with a wrong byte. They are in none of the following counts.
    pub corrupt: u64,
    /// Packets that arrived after a later one of their flow, for the first time: Type-P-Reordered of RFC 4737 §3.3,
    /// for each flow by itself.
    pub reordered: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Packets that arrived more than [`REMEMBERED`] numbers late. Whether for the first time is not known, because a
    /// packet at least as old is missing. They are in neither `reordered` nor `duplicates`.
    pub late: u64,
    /// Packets that have not arrived although a later one of their flow has.
    pub missing: u64,
}

impl Tally {
    /// Returns the number of different packets that are known to have arrived unchanged.
    pub fn distinct(&self) -> u64 {
        self.received - self.corrupt - self.duplicates - self.late
    }
}

/// The packets of a flow that have arrived.
#[derive(Debug, Clone, Default)]
pub(super) struct Flow {
    /// One more than the highest sequence number that arrived.
    next: u64,
    /// The missing packets, from the first on that arrived out of order.
    holes: Option<Box<Holes>>,
}

impl Flow {
    /// Records the arrival of packet `seq`.
    #[inline]
    pub(super) fn account(&mut self, seq: u64, tally: &mut Tally) {
        if seq == self.next {
            self.next = seq.wrapping_add(1);
        } else {
            self.account_out_of_order(seq, tally);
        }
    }

    /// Returns true if a packet of the flow has arrived.
    pub(super) fn is_seen(&self) -> bool {
        self.next > 0
    }

    #[cold]
    fn account_out_of_order(&mut self, seq: u64, tally: &mut Tally) {
        let holes = self.holes.get_or_insert_default();
        holes.extend(self.next, false);
        if seq > self.next {
            tally.missing = tally.missing.wrapping_add(seq - self.next);
            holes.extend(seq, true);
            self.next = seq.wrapping_add(1);
            return;
        }
        match holes.fill(seq) {
            Past::Missing => {
                tally.reordered += 1;
                tally.missing = tally.missing.saturating_sub(1);
            }
            Past::Arrived => tally.duplicates += 1,
            Past::Forgotten => tally.late += 1,
        }
    }
}

/// What is known of a past sequence number.
enum Past {
    Missing,
    Arrived,
    Forgotten,
}

/// The missing ones of the last [`REMEMBERED`] sequence numbers before `end`.
#[derive(Debug, Clone)]
struct Holes {
    end: u64,
    /// One more than the highest number that was still missing when it was forgotten. All that are not remembered and
    /// not below it have arrived.
    forgotten: u64,
    /// One bit for each remembered number, at its remainder.
    missing: [u64; WORDS],
}

const WORDS: usize = REMEMBERED as usize / u64::BITS as usize;

impl Default for Holes {
    fn default() -> Self {
        Holes { end: 0, forgotten: 0, missing: [0; WORDS] }
    }
}

impl Holes {
    /// Appends the numbers up to `end`, all of which are missing or have arrived.
    fn extend(&mut self, end: u64, are_missing: bool) {
        let kept = self.end.max(end.saturating_sub(REMEMBERED));
        for seq in kept..end {
            let (word, bit) = place(seq);
            if self.missing[word] & bit != 0 {
                // The number that has this bit so far.
                let back = (self.end - 1).wrapping_sub(seq) % REMEMBERED;
                self.forgotten = self.forgotten.max(self.end - back);
            }
            self.missing[word] = self.missing[word] & !bit | if are_missing { bit } else { 0 };
        }
        if are_missing && kept > self.end {
            self.forgotten = kept;
        }
        self.end = self.end.max(end);
    }

    /// Records that a packet before `end` arrived. Returns what was known of it.
    fn fill(&mut self, seq: u64) -> Past {
        if self.end - seq > REMEMBERED {
            return if seq < self.forgotten { Past::Forgotten } else { Past::Arrived };
        }
        let (word, bit) = place(seq);
        let was_missing = self.missing[word] & bit != 0;
        self.missing[word] &= !bit;
        if was_missing { Past::Missing } else { Past::Arrived }
    }
}

/// Returns the word of a number's bit, and the bit.
fn place(seq: u64) -> (usize, u64) {
    let at = seq % REMEMBERED;
    ((at / u64::from(u64::BITS)) as usize, 1 << (at % u64::from(u64::BITS)))
}
