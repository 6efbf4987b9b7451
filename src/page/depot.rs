//! The depot: batches of single pages between a worker that frees and a worker that allocates.
//!
//! A batch is an array of numbers in a few cache lines. Without the depot, each page would pass through the buddy's
//! lists. Its descriptor's line would move from core to core and back, to merge blocks that the next allocation splits
//! again.

use super::config::TURN;

/// Maximum number of batches in the depot: twice the number that a ring of 1,024 pages between two workers can hold.
const BATCHES: usize = 32;

/// One batch: a number in each word behind the first word, so that 63 pages take four cache lines.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Batch {
    len: u32,
    pages: [u32; TURN],
}

/// The batches, newest last. For the buddy allocator their pages are out.
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

    /// The number of pages inside.
    pub(super) fn pages(&self) -> usize {
        self.pages as usize
    }

    /// Keeps a batch of at most [`TURN`] pages. Returns false if the depot is full or the batch is empty.
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

    /// Takes the newest batch, or its last `most` pages.
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
