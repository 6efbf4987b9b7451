//! Numbers that cannot be predicted without the key: SipHash-2-4 (Aumasson and Bernstein, 2012) of a count or of an
//! address.

use crate::sync::shim::AtomicU64;
use crate::sys::random;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

/// A key, and how many numbers were drawn with it. The key is not printed, because every canary follows from it.
pub(crate) struct Random {
    key: [u64; 2],
    drawn: AtomicU64,
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Random").field("drawn", &self.drawn).finish_non_exhaustive()
    }
}

impl Random {
    /// Makes a source with a key from the system, or with a key that follows from `seed`.
    pub(crate) fn new(seed: Option<u64>) -> Random {
        let key = seed.map_or_else(random::words, |seed| [siphash([seed, 0], 0), siphash([seed, 0], 1)]);
        Random { key, drawn: AtomicU64::new(0) }
    }

    /// Draws the next number.
    pub(crate) fn draw(&self) -> u64 {
        siphash(self.key, self.drawn.fetch_add(1, Relaxed))
    }

    /// Derives a separate key for a user that needs one.
    pub(crate) fn derive(&self) -> Random {
        Random { key: [self.draw(), self.draw()], drawn: AtomicU64::new(0) }
    }

    /// The number for a word. It is always the same.
    pub(crate) fn of(&self, word: u64) -> u64 {
        siphash(self.key, word)
    }

    /// Shuffles `items`. Each order has the same chance. It calls nothing else.
    pub(crate) fn shuffle<T>(&self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            // The upper half of the product lies within 0..=last.
            let at = (u128::from(self.draw()) * (last as u128 + 1)) >> 64;
            items.swap(last, at as usize);
        }
    }
}

/// SipHash-2-4 of one word of 8 bytes.
fn siphash([low, high]: [u64; 2], word: u64) -> u64 {
    let mut v = [
        low ^ 0x736f_6d65_7073_6575,
        high ^ 0x646f_7261_6e64_6f6d,
        low ^ 0x6c79_6765_6e65_7261,
        high ^ 0x7465_6462_7974_6573,
    ];
    // The last word holds the length in its upper byte.
    for word in [word, 8 << 56] {
        v[3] ^= word;
        (0..2).for_each(|_| round(&mut v));
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *v;
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    *v = [a, b, c, d];
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_paper() {
        // The ninth of the reference's test vectors: the key 00 to 0f, the input 00 to 07.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(siphash(key, 0x0706_0504_0302_0100), 0x93f5_f579_9a93_2462);
    }

    #[test]
    fn a_key_is_not_in_the_text_of_what_draws_by_it() {
        let random = Random::new(None);
        random.draw();
        let text = format!("{random:?} {random:#?}");
        assert!(text.starts_with("Random { drawn: 1, .. } "), "{text}");
        assert!(!random.key.iter().any(|half| text.contains(&half.to_string())), "{text}");
    }

    #[test]
    fn an_order_holds_each_item_once_and_follows_from_the_seed() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..100).collect();
            Random::new(seed).shuffle(&mut items);
            items
        };
        let mut sorted = shuffled(None);
        assert_ne!(sorted, shuffled(None), "one in 100!");
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..100));
        assert_eq!(shuffled(Some(7)), shuffled(Some(7)));
        assert_ne!(shuffled(Some(7)), shuffled(Some(8)));
    }

    #[test]
    fn every_place_is_as_likely_as_the_others() {
        let random = Random::new(Some(1));
        let mut first = [0; 4];
        for _ in 0..crate::rounds::rounds(4000) {
            let mut items = [0, 1, 2, 3];
            random.shuffle(&mut items);
            first[items[0]] += 1;
        }
        let n: i32 = first.iter().sum();
        assert!(first.iter().all(|&times| (times - n / 4).abs() < n / 5), "{first:?}");
    }
}
