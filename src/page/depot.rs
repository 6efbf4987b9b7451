//! The depot: batches of single pages on their way from a worker that frees to one that allocates.
//!
//! A batch is an array of numbers in a few cache lines. Through the buddy's lists each of its pages would carry the
//! line of its descriptor from core to core and back, for merging what the next allocation splits again.

use super::config::TURN;

/// Batches in the depot at most: twice what a ring of 1,024 pages between two workers can hold.
const BATCHES: usize = 32;

/// One batch: a number in each word behind the first, so that 63 pages are four cache lines.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Batch {
    len: u32,
    pages: [u32; TURN],
}

/// Batches, newest last. Their pages are out as far as the buddy knows.
#[derive(Debug)]
pub(super) struct Depot {
    batches: Box<[Batch; BATCHES]>,
    len: u32,
    /// Pages over all batches.
    pages: u32,
}

impl Depot {
    pub(super) fn new() -> Self {
        Depot { batches: Box::new([Batch { len: 0, pages: [0; TURN] }; BATCHES]), len: 0, pages: 0 }
    }

    /// Pages inside.
    pub(super) fn pages(&self) -> usize {
        self.pages as usize
    }

    /// Keeps a batch of at most [`TURN`] pages; false when the depot is full or there is nothing to keep.
    pub(super) fn put(&mut self, pages: &[u32]) -> bool {
        let Some(batch) = self.batches.get_mut(self.len as usize) else { return false };
        let Some(places) = batch.pages.get_mut(..pages.len()).filter(|places| !places.is_empty()) else {
            return false;
        };
        places.copy_from_slice(pages);
        batch.len = pages.len() as u32;
        self.len += 1;
        self.pages += batch.len;
        true
    }

    /// The newest batch, or the last `most` pages of it.
    pub(super) fn take(&mut self, most: usize) -> &[u32] {
        let Some(newest) = self.len.checked_sub(1) else { return &[] };
        let batch = &mut self.batches[newest as usize];
        let end = batch.len as usize;
        let begin = end - end.min(most);
        batch.len = begin as u32;
        self.pages -= (end - begin) as u32;
        if begin == 0 {
            self.len = newest;
        }
        &batch.pages[begin..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_come_out_newest_first_and_no_more_go_in_than_there_is_room_for() {
        let mut depot = Depot::new();
        assert!(!depot.put(&[]) && !depot.put(&[0; TURN + 1]));
        assert!(depot.put(&[1, 2, 3]) && depot.put(&[4]));
        assert_eq!(depot.pages(), 4);
        assert_eq!([depot.take(9).to_vec(), depot.take(2).to_vec()], [vec![4], vec![2, 3]]);
        assert_eq!([depot.take(2).to_vec(), depot.take(2).to_vec()], [vec![1], vec![]]);
        assert_eq!((0..100).filter(|_| depot.put(&[7; TURN])).count(), BATCHES);
        assert_eq!(depot.pages(), BATCHES * TURN);
    }
}
