//! The cells: what is forwarded, which allocators are below, which packets are kept ready, and which cells are compared.

use netmem::limits::BATCH_MAX;
use netmem::packet::{HeadCacheConfig, HeadCacheMode, Locking, ReadyPackets, Reset};
use netmem::pool::PoolConfig;
use netmem::slab::{CacheConfig, Layer, WordForm};

use crate::bench::Comparison;
use crate::experiments::relay::PACKET_BYTES;
use crate::experiments::router::{Fate, PacketSetup, Setup};
use crate::json::{Published, params};
use crate::method::round::Label;
use crate::metric::Metric;

/// The allocators of heads and frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    /// Heads one by one from slabs whose word is changed under a lock, and no cache of frames, so that each frame passes
    /// the pool's lock. Other layers than in `Free`, and a lock.
    Lock,
    /// The product's defaults: arrays of heads and a cache of frames, without a lock.
    Free,
    /// Heads one by one from slabs as in `Lock`, and the cache of frames of `Free`. The slab's word is changed under a
    /// lock, or without one: these two differ in the lock alone.
    Each { locked: bool },
}

/// One cell: the forwarding, the allocators, and the pairs that are kept ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) full: bool,
    pub(super) below: Below,
    pub(super) max: Max,
    /// One common list of pairs: when its lock is taken, and when a pair is reset. None if each worker has its own
    /// pairs.
    pub(super) list: Option<(Locking, Reset)>,
    /// True if completions are checked in each round, so that they are few at a time.
    pub(super) by_round: bool,
}

/// Pairs that suffice for nearly all packets: as many as the forwarder usually completes at once.
pub(super) const ALL: usize = 4 * BATCH_MAX;

/// The source's number of pairs.
pub(super) const FIFTY: usize = ReadyPackets::MAX;

/// Maximum number of pairs that are kept ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Max {
    Pairs(usize),
    /// As many as the rings have slots.
    Ring,
    /// Alternately 0 and the number of slots, changed at every round.
    Changing,
}

/// The figures of the source: kpps by forwarding and system, without pairs and with 50. Which allocators take locks is
/// netmem's reading: its table names the systems alone.
pub(super) const PUBLISHED: [(bool, Below, f64, f64); 4] = [
    (false, Below::Lock, 276.0, 355.0),
    (false, Below::Free, 365.0, 383.0),
    (true, Below::Lock, 195.0, 227.0),
    (true, Below::Free, 142.0, 146.0),
];

/// The source's own form: under the lock that the driver holds already, and reset as in its mail of July, with 256
/// pairs and with 50. Then with a lock of the pairs' own, and then reset when a pair is put, as in its mail of June.
const LISTS: [(usize, Locking, Reset); 4] = [
    (ALL, Locking::Caller, Reset::AtGet),
    (FIFTY, Locking::Caller, Reset::AtGet),
    (FIFTY, Locking::Each, Reset::AtGet),
    (FIFTY, Locking::Caller, Reset::AtPut),
];

/// The source's four sides without pairs and with 50, completed in each round, and its own form; then the two sides that
/// differ in a lock alone. Then cells of a forwarder that completes 256 packets at once: without pairs, with 256, with
/// 50, with as many as the ring has slots, and with a changing maximum, and one list.
pub(super) fn cells() -> Vec<Side> {
    let of = |full, below, max| Side { full, below, max, list: None, by_round: false };
    let sides = |max| PUBLISHED.map(|(full, below, ..)| of(full, below, max));
    let each = [true, false].map(|locked| of(false, Below::Each { locked }, Max::Pairs(0)));
    let by_round = |max| {
        let sides = sides(max).into_iter().chain(each.map(|side| Side { max, ..side }));
        sides.map(|side| Side { by_round: true, ..side })
    };
    let changing = of(false, Below::Lock, Max::Changing);
    let list =
        |(max, locking, reset)| Side { max: Max::Pairs(max), list: Some((locking, reset)), ..changing };
    let mut cells: Vec<Side> = [0, FIFTY].map(Max::Pairs).into_iter().flat_map(by_round).collect();
    cells.push(Side { by_round: true, ..list(LISTS[1]) });
    cells.extend([Max::Pairs(0), Max::Pairs(ALL), Max::Pairs(FIFTY), Max::Ring].into_iter().flat_map(sides));
    cells.push(changing);
    cells.extend(LISTS.map(list));
    cells
}

/// Each cell with pairs over the same without, and the cells that differ in a lock alone over each other. The changing
/// maximum over 50. One list under its caller's lock over a list for each worker without a lock. A lock for each pair, and
/// the other time of the reset, over that list.
pub(super) fn comparisons(cells: &[Side]) -> Vec<Comparison> {
    let place = |wanted: &str| cells.iter().position(|cell| cell.variant().ends_with(wanted));
    let over = |a, b| Comparison { a, b, metric: Metric::Pps };
    let none = |cell: &Side| Side { max: Max::Pairs(0), list: None, ..*cell };
    let gains = cells.iter().enumerate().filter(|(_, cell)| cell.max != Max::Changing);
    let gains = gains.filter_map(|(a, cell)| {
        let b = cells.iter().position(|other| *other == none(cell))?;
        let is_own_form = cell.list == Some((Locking::Caller, Reset::AtGet));
        (a != b && (cell.list.is_none() || is_own_form)).then(|| over(a, b))
    });
    let others = [
        ("/fast-each-lock-0-by-round", "/fast-each-free-0-by-round"),
        ("/fast-lock-changing", "/fast-lock-50"),
        ("/fast-lock-256-list", "/fast-lock-256"),
        ("/fast-lock-50-list", "/fast-lock-50"),
        ("/fast-lock-50-list-locked", "/fast-lock-50-list"),
        ("/fast-lock-50-list-reset-at-put", "/fast-lock-50-list"),
    ];
    let others = others.iter().filter_map(|(a, b)| Some(over(place(a)?, place(b)?)));
    gains.chain(others).collect()
}

impl Below {
    fn name(self) -> &'static str {
        match self {
            Below::Lock => "lock",
            Below::Free => "free",
            Below::Each { locked: true } => "each-lock",
            Below::Each { locked: false } => "each-free",
        }
    }

    fn says(self) -> &'static str {
        match self {
            Below::Lock => "under a lock",
            Below::Free => "without a lock",
            Below::Each { locked: true } => "heads one by one, under a lock",
            Below::Each { locked: false } => "heads one by one, without a lock",
        }
    }
}

impl Side {
    pub(super) fn setup(self, ring: usize, rules: usize) -> Setup {
        let usual = PoolConfig::default();
        let word = match self.below {
            Below::Free => None,
            Below::Lock | Below::Each { locked: true } => Some(WordForm::Lock),
            Below::Each { locked: false } => Some(WordForm::Packed),
        };
        let heads = word.map_or_else(HeadCacheConfig::default, |word| {
            // Each head is allocated by a call of its own, which changes its slab's word.
            let cache = CacheConfig {
                name: self.variant(),
                layer: Layer::CpuSlab,
                word,
                cpu_partial: Some(0),
                merge: false,
                ..CacheConfig::default()
            };
            HeadCacheConfig { cache, mode: HeadCacheMode::Each, ..HeadCacheConfig::default() }
        });
        let max = self.pairs(ring).unwrap_or(ring);
        let packets =
            PacketSetup { heads, rules: self.full.then_some(rules), pairs: Some(max), list: self.list };
        let cache = (self.below != Below::Lock).then_some((usual.cache, usual.refill));
        let by_round = self.by_round;
        Setup { packets: Some(packets), cache, by_round, ..Setup::frames(ring, Fate::Routed) }
    }

    /// Maximum number of kept pairs; `None` if it is changed while packets run.
    fn pairs(self, ring: usize) -> Option<usize> {
        match self.max {
            Max::Pairs(max) => Some(max),
            Max::Ring => Some(ring),
            Max::Changing => None,
        }
    }

    /// `netmem/fast-lock-50-by-round`
    pub(super) fn variant(self) -> String {
        let path = if self.full { "full" } else { "fast" };
        let below = self.below.name();
        let max = match self.max {
            Max::Pairs(max) => max.to_string(),
            Max::Ring => "ring".to_owned(),
            Max::Changing => "changing".to_owned(),
        };
        let list = match self.list {
            None => "",
            Some((Locking::Caller, Reset::AtGet)) => "-list",
            Some((Locking::Caller, Reset::AtPut)) => "-list-reset-at-put",
            Some((Locking::Each, _)) => "-list-locked",
        };
        let by_round = if self.by_round { "-by-round" } else { "" };
        format!("netmem/{path}-{below}-{max}{list}{by_round}")
    }

    pub(super) fn label(self, ring: usize) -> Label {
        let mut params = params([
            ("work", "forward".into()),
            ("burst", BATCH_MAX.into()),
            ("cores", "cross".into()),
            ("bytes", PACKET_BYTES.into()),
            ("touch", true.into()),
            ("frames", (2 * ring).into()),
            ("path", if self.full { "full" } else { "fast" }.into()),
            ("below", self.below.says().into()),
            ("pairs", self.pairs(ring).map_or("changing".into(), Into::into)),
            ("completed", if self.by_round { "in each round" } else { "256 at once" }.into()),
        ]);
        if let Some((locking, reset)) = self.list {
            let lock = if locking == Locking::Caller {
                "the caller's, for a bulk"
            } else {
                "its own, for each pair"
            };
            params.insert("lock of the list".to_owned(), lock.into());
            params
                .insert("reset".to_owned(), if reset == Reset::AtPut { "at put" } else { "at take" }.into());
        }
        Label { variant: self.variant(), params }
    }

    /// Returns the source's figure. The text does not tell how many packets a clean-up returned.
    pub(super) fn published(self) -> Option<Published> {
        if self.list.is_some() || !self.by_round {
            return None;
        }
        let side = |&&(full, below, ..): &&(bool, Below, f64, f64)| (full, below) == (self.full, self.below);
        let &(.., without, with) = PUBLISHED.iter().find(side)?;
        let (kpps, pool) = match self.max {
            Max::Pairs(0) => (without, "without the pool"),
            Max::Pairs(FIFTY) => (with, "with a pool of 50"),
            Max::Pairs(_) | Max::Ring | Max::Changing => return None,
        };
        let system = match self.below {
            Below::Lock => "CURRENT",
            _ => "STABLE with proprietary optimizations and the old ipfw",
        };
        let of = format!(
            "FreeBSD {system}, mail of 2 July 2002, two em cards polled, fastforwarding {}, {pool}",
            u8::from(!self.full)
        );
        Some(Published { value: kpps * 1_000.0, unit: "pps".to_owned(), of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eight_cells_of_the_source_stand_beside_its_figures() {
        let published: Vec<f64> = cells().iter().filter_map(|cell| Some(cell.published()?.value)).collect();
        let with = [355e3, 383e3, 227e3, 146e3];
        assert_eq!(published, [[276e3, 365e3, 195e3, 142e3], with].concat());
        let names: std::collections::BTreeSet<String> = cells().iter().map(|cell| cell.variant()).collect();
        assert_eq!(names.len(), cells().len());
    }

    #[test]
    fn each_cell_with_pairs_is_compared_with_the_same_without_and_two_with_each_other_by_a_lock_alone() {
        let cells = cells();
        let names: Vec<[String; 2]> = comparisons(&cells)
            .iter()
            .map(|pair| [pair.a, pair.b].map(|place| cells[place].variant().replace("netmem/", "")))
            .collect();
        let has = |a: &str, b: &str| names.iter().any(|[x, y]| x == a && y == b);
        for side in ["fast-lock", "fast-free", "full-lock", "full-free"] {
            assert!(has(&format!("{side}-50-by-round"), &format!("{side}-0-by-round")), "{names:?}");
            for max in ["50", "256", "ring"] {
                assert!(has(&format!("{side}-{max}"), &format!("{side}-0")), "{names:?}");
            }
        }
        for (a, b) in [
            ("fast-each-lock-50-by-round", "fast-each-lock-0-by-round"),
            ("fast-each-free-50-by-round", "fast-each-free-0-by-round"),
            ("fast-each-lock-0-by-round", "fast-each-free-0-by-round"),
            ("fast-lock-50-list-by-round", "fast-lock-0-by-round"),
            ("fast-lock-256-list", "fast-lock-0"),
            ("fast-lock-50-list", "fast-lock-0"),
            ("fast-lock-50-list", "fast-lock-50"),
            ("fast-lock-50-list-locked", "fast-lock-50-list"),
            ("fast-lock-50-list-reset-at-put", "fast-lock-50-list"),
            ("fast-lock-changing", "fast-lock-50"),
        ] {
            assert!(has(a, b), "{a} over {b}: {names:?}");
        }
        assert!(names.iter().all(|[a, b]| a != b));
    }
}
