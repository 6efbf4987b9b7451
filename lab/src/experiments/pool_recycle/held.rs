//! The pages that are out: the oldest of them comes back at each turn, or a share of all pages is kept for long.

use std::collections::VecDeque;

use crate::method::random::Random;

/// The number of pages that are out, and which come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outstanding {
    pub(super) pages: usize,
    /// The share of pages that are kept, in percent. Each takes the place of a random one of those that are out. The others
    /// come back at once. None: the oldest comes back at each turn.
    pub(super) kept_percent: Option<u32>,
}

impl Outstanding {
    /// This number of pages, of which the oldest comes back.
    pub(super) fn in_order(pages: usize) -> Self {
        Self { pages, kept_percent: None }
    }
}

/// Pages that are out.
pub(super) struct Held<T> {
    /// If all come back in order, oldest first.
    pub(super) pages: VecDeque<T>,
    mixed: Option<Mixed>,
}

/// Chooses the pages that are kept, and those that come back for them.
struct Mixed {
    random: Random,
    /// A page is kept if 16 random bits are below this.
    bound: u64,
}

impl<T> Held<T> {
    /// Room for the pages. None is out yet.
    pub(super) fn new(outstanding: Outstanding) -> Self {
        let mixed = |percent| Mixed { random: Random::new(14), bound: u64::from(percent) * (1 << 16) / 100 };
        let pages = VecDeque::with_capacity(outstanding.pages + 1);
        Self { pages, mixed: outstanding.kept_percent.map(mixed) }
    }

    /// Returns true if a page comes back at once.
    #[inline(always)]
    pub(super) fn is_straight(&self) -> bool {
        self.pages.is_empty()
    }

    /// Takes a page that went out. Returns the page that comes back for it.
    #[inline(always)]
    pub(super) fn put(&mut self, one: T) -> Option<T> {
        let Some(Mixed { random, bound }) = &mut self.mixed else {
            self.pages.push_back(one);
            return self.pages.pop_front();
        };
        let bits = random.bits();
        if bits & 0xffff >= *bound {
            return Some(one);
        }
        let place = ((bits >> 32) as usize * self.pages.len()) >> 32;
        match self.pages.get_mut(place) {
            Some(kept) => Some(std::mem::replace(kept, one)),
            None => Some(one),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of 100,000 pages came back at once, and how many different places kept pages have had.
    fn turned(kept_percent: u32) -> (u32, usize) {
        let mut held = Held::new(Outstanding { pages: 64, kept_percent: Some(kept_percent) });
        held.pages.extend(0..64_u32);
        let first: Vec<u32> = held.pages.iter().copied().collect();
        let at_once = (64..100_064).filter(|&one| held.put(one) == Some(one)).count() as u32;
        let replaced = held.pages.iter().zip(&first).filter(|(now, first)| now != first).count();
        assert_eq!(held.pages.len(), 64);
        (at_once, replaced)
    }

    #[test]
    fn the_asked_share_is_kept_and_replaces_pages_of_all_ages() {
        let shares = [1, 10, 50, 100].map(turned);
        for ((at_once, replaced), wanted) in shares.into_iter().zip([99_000, 90_000, 50_000, 0]) {
            assert!(at_once.abs_diff(wanted) < 1_000, "{at_once} at once, not {wanted}");
            assert!(replaced > 60, "{replaced} places");
        }
    }

    #[test]
    fn in_order_the_oldest_comes_back() {
        let mut held = Held::new(Outstanding::in_order(2));
        held.pages.extend([1, 2]);
        assert_eq!([held.put(3), held.put(4), held.put(5)], [Some(1), Some(2), Some(3)]);
    }
}
