//! The settings of a memory.

use super::hardening::Hardening;
use super::table::DescriptorSize;
use crate::limits::{LOCAL_ORDER_MAX, ORDER_MAX, PAGE_SIZE, WORKERS_MAX};
use crate::sys::region::{BackingPreference, RegionError};

/// The number of orders that have lists.
pub(super) const ORDERS: usize = LOCAL_ORDER_MAX as usize + 1;
/// Maximum number of blocks that move between a list and a node in one turn. They lie on the stack during the move.
pub(super) const TURN: usize = 128;

/// The settings of a memory.
#[derive(Debug, Clone)]
pub struct MemoryConfig {
    /// Bytes of pages; rounded up to 2 MiB, or to a page if `backing` asks for small pages. Default 64 MiB.
    pub bytes: usize,
    /// Maximum number of workers, 1..=64. Default 4.
    pub workers: usize,
    /// The kind of page to request from the system. Default [`BackingPreference::Huge`], with small pages if there are
    /// no huge ones.
    pub backing: BackingPreference,
    /// Whether netmem counts which node blocks come from, and how often workers visit nodes. This can be switched at run
    /// time. Without the cargo feature `statistics` these counters never count and cost nothing. Blocks given out and
    /// taken back always count. Default true.
    pub statistics: bool,
    /// How many free pages a worker keeps for itself. Default: twice as many as [`Lists::Linux2021`].
    pub lists: Lists,
    /// The distance between page descriptors. Default: the default of [`DescriptorSize`].
    pub descriptor: DescriptorSize,
    /// The number of nodes that the region is split into: 1 (default) or more, at least 4 MiB each. The split is a
    /// division and nothing else. netmem neither asks the system which NUMA nodes there are nor binds memory to one of
    /// them. The code that lends the memory has to do that ([`Lent`](super::Lent)).
    pub nodes: usize,
    /// When pages become scarce, and how many are kept in reserve. Default: never, and none.
    pub watermarks: Watermarks,
    /// The protections against misuse of the memory and of what is made from it. Default: none.
    pub hardening: Hardening,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        MemoryConfig {
            bytes: 64 << 20,
            workers: 4,
            backing: BackingPreference::Huge,
            statistics: true,
            lists: Lists::default(),
            descriptor: DescriptorSize::default(),
            nodes: 1,
            watermarks: Watermarks::default(),
            hardening: Hardening::default(),
        }
    }
}

/// The sizes of a worker's list of single pages: the most pages that it holds (`high`), and the pages that move between
/// it and the node at once (`batch`).
///
/// The lists of orders 1, 2 and 3 have a half, a quarter and an eighth of both numbers, so that each list holds the
/// same number of pages. The lists of orders 4 to 9 keep one or two blocks, as many as allocations did not find in them, and
/// together at most a sixteenth of the worker's share; none if `high` is 0. In every configuration, the lists of all
/// workers together hold half of the memory at most. A move has 128 blocks at most, and at most half of a list that is
/// smaller than these numbers.
///
/// The default is `Fixed { high: 504, batch: 126 }`, twice the numbers of Linux: where one worker frees what another
/// allocates, both meet the node's lock and its lines half as often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lists {
    /// 128, moves of 32: the values that [brouer17-pages] reads off its curve of Linux 4.11-rc1.
    Brouer2017,
    /// 186, moves of 31: Linux in 2017 (`batch` of a large zone, `high = 6 * batch`).
    Linux2017,
    /// 252, moves of 63: the minimum of Linux since 5.14 of 2021 (`high = 4 * batch`), before its self-tuning.
    Linux2021,
    /// These numbers, as far as the worker's share allows. If `high` is a multiple of `batch`, a worker that holds no more
    /// than `high` pages at once stays off its node.
    Fixed {
        /// Maximum number of pages in the list. 0: every page comes from the node and goes back to it.
        high: usize,
        /// Pages moved at once.
        batch: usize,
    },
    /// `high` tunes itself. It grows by a batch with every miss, and with an overflow that follows a miss. It shrinks
    /// by an eighth with [`Memory::decay`](super::Memory::decay). While a worker only frees, its batch doubles up to 32
    /// times.
    Tuned {
        /// Minimum of `high`, and its first value.
        least: usize,
        /// Maximum of `high`.
        most: usize,
    },
}

impl Default for Lists {
    fn default() -> Lists {
        Lists::Fixed { high: 8 * BATCH_2021, batch: 2 * BATCH_2021 }
    }
}

/// Pages moved at once in Linux since 2021: 63.
const BATCH_2021: usize = 63;

/// The sizes of one list, after all limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListSize {
    /// Bounds of `high`. A fixed list has the same value in both.
    pub(super) least: usize,
    pub(super) most: usize,
    pub(super) batch: usize,
}

impl Lists {
    /// Returns lists without pages if pages are cleared when they are freed. Each page then takes the cold path,
    /// because the existing check for room fails.
    pub(super) fn under(self, hardening: Hardening) -> Lists {
        if hardening.clear { Lists::Fixed { high: 0, batch: 0 } } else { self }
    }

    /// The pages that the lists of larger orders keep together, when a worker's share of the memory is `share` pages.
    pub(super) fn large(self, share: usize) -> u32 {
        // What the lists of the lower orders leave of the share. Lists without pages have no larger blocks either.
        if self.size(0, share).most == 0 { 0 } else { u32::try_from(share / 16).unwrap_or(u32::MAX) }
    }

    /// The size of the list of `order`, when a worker's share of the memory is `share` pages.
    pub(super) fn size(self, order: u8, share: usize) -> ListSize {
        let (least, most, batch) = match self {
            Lists::Brouer2017 => (128, 128, 32),
            Lists::Linux2017 => (186, 186, 31),
            Lists::Linux2021 => (4 * BATCH_2021, 4 * BATCH_2021, BATCH_2021),
            Lists::Fixed { high, batch } => (high, high, batch),
            Lists::Tuned { least, most } => (least.min(most), most, BATCH_2021.min(least.max(1))),
        };
        debug_assert!(order <= LOCAL_ORDER_MAX);
        // A half, a quarter, an eighth and a sixteenth of the share: less than all of it.
        let share = share >> (order + 1);
        let is_limited = most > share;
        let [least, most] = [least, most].map(|high| high.min(share) >> order);
        // A list that the share limits still has room for two moves: after one it is neither full nor empty.
        let batch = if is_limited { (batch >> order).min(most / 2) } else { batch >> order };
        ListSize { least, most, batch: batch.clamp(1, most.max(1)) }
    }
}

/// Numbers of free pages at which the memory takes action. They are for the whole memory; each node has its share, rounded up. `min
/// <= low <= high`.
///
/// Free pages are pages on the nodes. Pages in workers' lists are not part of the reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Watermarks {
    /// The reserve: at this number or below, only [`Memory::alloc_with_reserve`](super::Memory::alloc_with_reserve) takes
    /// pages. 0: there is no reserve, and every page may be taken.
    pub min: usize,
    /// Pressure begins when fewer pages are free; see [`Memory::on_pressure`](super::Memory::on_pressure).
    pub low: usize,
    /// Pressure ends when this many pages are free.
    pub high: usize,
}

impl Watermarks {
    /// Checks that they are in order, in a memory of `total` pages.
    pub(super) fn check(self, total: usize) -> Result<(), MemoryError> {
        let Watermarks { min, low, high } = self;
        if min <= low && low <= high && high <= total {
            return Ok(());
        }
        Err(MemoryError::Watermarks { min, low, high, total })
    }

    /// The share of a node with `pages` of `total`, rounded up: a reserve of fewer pages than nodes is one of each.
    pub(super) fn share(self, pages: usize, total: usize) -> Watermarks {
        let share = |mark: usize| (mark * pages).div_ceil(total.max(1));
        Watermarks { min: share(self.min), low: share(self.low), high: share(self.high) }
    }
}

/// Why a memory could not be made, or why its watermarks could not be changed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryError {
    /// The number of workers is out of range.
    #[error("{workers} workers: give 1 to {WORKERS_MAX}")]
    Workers {
        /// The number of workers that was requested.
        workers: usize,
    },
    /// The memory cannot be split into so many nodes.
    #[error("{nodes} nodes: give 1 to {most} for a memory of this size, 4 MiB for each")]
    Nodes {
        /// The number of nodes that was requested.
        nodes: usize,
        /// Maximum number of nodes.
        most: usize,
    },
    /// The watermarks are not in order.
    #[error("watermarks {min}, {low}, {high}: give min <= low <= high <= the memory's {total} pages")]
    Watermarks {
        /// Pages of the reserve.
        min: usize,
        /// Pages at which pressure begins.
        low: usize,
        /// Pages at which pressure ends.
        high: usize,
        /// The number of pages.
        total: usize,
    },
    /// Guard pages were asked for in memory that the caller lends.
    #[error("guard pages in memory that the caller lends: leave guard out, or take a memory from the system")]
    LentGuard,
    /// The system did not provide the region.
    #[error(transparent)]
    Region(#[from] RegionError),
}

impl MemoryConfig {
    /// Checks that the numbers fit a memory of `bytes` bytes.
    pub(super) fn check(&self, bytes: usize) -> Result<(), MemoryError> {
        let (workers, nodes) = (self.workers, self.nodes);
        if !(1..=WORKERS_MAX).contains(&workers) {
            return Err(MemoryError::Workers { workers });
        }
        let most = (bytes / (PAGE_SIZE << ORDER_MAX)).max(1);
        if !(1..=most).contains(&nodes) {
            return Err(MemoryError::Nodes { nodes, most });
        }
        self.watermarks.check(bytes / PAGE_SIZE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_lists_are_exactly_as_configured_where_the_memory_is_large_enough() {
        let (share, fixed) = (4096, |high, batch| ListSize { least: high, most: high, batch });
        assert_eq!(Lists::Brouer2017.size(0, share), fixed(128, 32));
        assert_eq!(Lists::Linux2017.size(0, share), fixed(186, 31));
        assert_eq!(Lists::Linux2021.size(0, share), fixed(252, 63));
        assert_eq!(Lists::Fixed { high: 100, batch: 7 }.size(0, share), fixed(100, 7));
        assert_eq!(Lists::Linux2021.size(3, share), fixed(31, 7));
        assert_eq!(Lists::default().size(0, share), fixed(504, 126));
        assert_eq!(Lists::Fixed { high: 0, batch: 0 }.size(0, share), fixed(0, 1));
    }

    #[test]
    fn a_list_that_the_share_limits_has_room_for_two_moves() {
        for (share, most, batch) in [(4096, 504, 126), (256, 128, 64), (10, 5, 2), (2, 1, 1), (0, 0, 1)] {
            assert_eq!(
                Lists::default().size(0, share),
                ListSize { least: most, most, batch },
                "{share} pages"
            );
        }
    }

    #[test]
    fn the_lists_of_a_worker_together_stay_below_its_share() {
        for share in [0, 1, 64, 100, 5000] {
            for lists in [Lists::Linux2021, Lists::default(), Lists::Tuned { least: 63, most: 100_000 }] {
                let pages: usize = (0..=LOCAL_ORDER_MAX).map(|o| lists.size(o, share).most << o).sum();
                let pages = pages + lists.large(share) as usize;
                assert!(pages <= share, "{lists:?}: {pages} of {share}");
            }
        }
    }

    #[test]
    fn a_configuration_that_cannot_be_is_refused_with_what_would_be_right() {
        let check = |change: fn(&mut MemoryConfig)| {
            let mut config = MemoryConfig::default();
            change(&mut config);
            config.check(8 << 20).map_err(|error| error.to_string())
        };
        assert_eq!(check(|_| ()), Ok(()));
        assert_eq!(check(|c| c.nodes = 2), Ok(()));
        assert_eq!(check(|c| c.workers = 65), Err("65 workers: give 1 to 64".into()));
        let nodes = check(|c| c.nodes = 3).unwrap_err();
        assert!(nodes.starts_with("3 nodes: give 1 to 2"), "{nodes}");
        let marks = check(|c| c.watermarks = Watermarks { min: 5, low: 4, high: 9 }).unwrap_err();
        assert!(marks.contains("5, 4, 9: give min <= low <= high <= the memory's 2048 pages"), "{marks}");
    }
    /// Found: with more nodes than pages, no node kept any.
    #[test]
    fn a_small_reserve_is_kept_on_each_node() {
        let share = Watermarks { min: 1, low: 3, high: 4 }.share(1024, 4096);
        assert_eq!(share, Watermarks { min: 1, low: 1, high: 1 });
        let all = Watermarks { min: 5, low: 4096, high: 4096 };
        assert_eq!(all.share(4096, 4096), all);
        assert_eq!(all.share(1024, 4096), Watermarks { min: 2, low: 1024, high: 1024 });
    }
}
