//! Remembers for two seconds which neighbours were named, in a fixed amount of memory.

use super::Key;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

/// Bits of a generation. 20,000 names set a tenth of them, and then one name of 400 counts as seen that was not.
const BITS: usize = 1 << 19;
const WORDS: usize = BITS / u64::BITS as usize;
/// Each generation covers one second. Names are written to the newest one and looked up in the older ones.
const GENERATIONS: usize = 3;

/// Bloom filters of the names of the last seconds. A set of names would grow with a scan, or lose names to it.
#[derive(Debug)]
pub(super) struct Seen {
    /// The newest first.
    generations: [Vec<u64>; GENERATIONS],
    /// The time at which the newest began.
    since: Option<Instant>,
    /// Its key is drawn at start, so no sender can choose names that count as seen.
    hash: RandomState,
}

impl Seen {
    pub(super) fn new() -> Seen {
        let generations = [(); GENERATIONS].map(|()| vec![0; WORDS]);
        Seen { generations, since: None, hash: RandomState::new() }
    }

    /// Records a name. Returns true if it was recorded in an earlier second, up to two seconds ago.
    pub(super) fn note(&mut self, key: Key, now: Instant) -> bool {
        self.advance(now);
        let hash = self.hash.hash_one(key);
        let bits = [0, 21, 42].map(|shift| (hash >> shift) as usize % BITS);
        let [newest, older @ ..] = &mut self.generations;
        for bit in bits {
            newest[bit / 64] |= 1 << (bit % 64);
        }
        older.iter().any(|words| bits.iter().all(|bit| words[bit / 64] >> (bit % 64) & 1 == 1))
    }

    /// Begins a generation if the newest is a second old.
    fn advance(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let seconds = now.duration_since(since).as_secs().min(GENERATIONS as u64);
        for _ in 0..seconds {
            self.generations.rotate_right(1);
            self.generations[0].fill(0);
        }
        if seconds > 0 {
            self.since = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    fn key(number: u32) -> Key {
        (1, IpAddr::from(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn a_name_counts_as_seen_a_second_later_and_for_two_seconds_and_not_before_nor_afterwards() {
        let (mut seen, start) = (Seen::new(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let named = [(0, false), (999, false), (1_000, true), (3_100, true), (9_000, false), (9_001, false)];
        for (ms, is_seen) in named {
            assert_eq!(seen.note(key(7), at(ms)), is_seen, "{ms}");
        }
    }

    #[test]
    fn few_names_of_a_scan_count_as_seen_and_no_name_that_was_seen_is_forgotten() {
        let (mut seen, start) = (Seen::new(), Instant::now());
        let mut wrong = 0;
        for number in 0..60_000 {
            let now = start + Duration::from_micros(50 * u64::from(number));
            wrong += u32::from(seen.note(key(number), now));
        }
        assert!(wrong < 1_000, "{wrong}");
        let end = start + Duration::from_secs(3);
        assert!((40_000..60_000).all(|number| seen.note(key(number), end)));
    }
}
