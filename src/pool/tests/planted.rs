//! An error that is planted in one of the two counts of a place, once, when a move is counted.

use crate::page::{Memory, MemoryConfig};
use crate::pool::shared::{PoolLane, Shared};
use crate::pool::{Batch, FrameState, Pool, PoolConfig};
use crate::stats::Count;
use crate::sync::Worker;
use crate::sys::region::BackingPreference;
use std::any::Any;
use std::cell::RefCell;

/// Which of the two counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The code of the place.
    Said,
    /// The code that hands the frames over.
    Handed,
}

/// The value that is counted instead of the true one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// Nothing.
    Nothing,
    /// All frames, twice.
    Twice,
    /// All frames, in the other direction.
    Backwards,
    /// This many frames more, or fewer.
    More(i64),
    /// One of the frames, for another pool.
    OneElsewhere,
    /// All frames, for another pool.
    AllElsewhere,
    /// All frames, at another place.
    OtherPlace(FrameState),
}

impl Mistake {
    const ALL: [Mistake; 11] = [
        Mistake::Nothing,
        Mistake::Twice,
        Mistake::Backwards,
        Mistake::More(1),
        Mistake::More(-1),
        Mistake::More(64),
        Mistake::OneElsewhere,
        Mistake::AllElsewhere,
        Mistake::OtherPlace(FrameState::Ready),
        Mistake::OtherPlace(FrameState::Posted),
        Mistake::OtherPlace(FrameState::Queued),
    ];
}

/// A planted error and its parameters.
struct Planted {
    side: Side,
    place: FrameState,
    mistake: Mistake,
    /// The pool whose frames are miscounted, and the pool that gets those that go elsewhere.
    pool: Pool,
    other: Pool,
}

thread_local! {
    static PLANTED: RefCell<Option<Planted>> = const { RefCell::new(None) };
}

/// Plants an error in this thread's next count of frames of `pool` on this side of this place.
fn plant(side: Side, place: FrameState, mistake: Mistake, pool: &Pool, other: &Pool) {
    let planted = Planted { side, place, mistake, pool: pool.clone(), other: other.clone() };
    PLANTED.with(|mine| *mine.borrow_mut() = Some(planted));
}

/// Removes the error. Returns true if it has not been made.
fn withdraw() -> bool {
    PLANTED.with(|mine| mine.borrow_mut().take()).is_some()
}

/// Makes the error if it is due. The true value must not be counted then.
pub(crate) fn strikes(
    place: FrameState,
    pool: &Shared,
    w: Option<&Worker>,
    n: u64,
    of: impl Fn(&PoolLane) -> &[Count; FrameState::ALL.len()],
) -> bool {
    let probe = PoolLane::default();
    let side = if std::ptr::eq(of(&probe), &raw const probe.said) { Side::Said } else { Side::Handed };
    let is_due = |planted: &mut Planted| {
        (planted.side, planted.place) == (side, place) && std::ptr::eq(&raw const *planted.pool.shared, pool)
    };
    let Some(planted) = PLANTED.with(|mine| mine.borrow_mut().take_if(is_due)) else { return false };
    let add = |pool: &Shared, place: FrameState, n: u64| match w {
        Some(w) => pool.lanes.add(w, n, |lane| &of(lane)[place as usize]),
        None => of(pool.lanes.shared_lane())[place as usize].add_shared(n),
    };
    let one = u64::from(n != 0).wrapping_mul(n.cast_signed().signum().cast_unsigned());
    match planted.mistake {
        Mistake::Nothing => {}
        Mistake::Twice => add(pool, place, n.wrapping_mul(2)),
        Mistake::Backwards => add(pool, place, n.wrapping_neg()),
        Mistake::More(more) => add(pool, place, n.wrapping_add_signed(more)),
        Mistake::OneElsewhere => {
            add(pool, place, n.wrapping_sub(one));
            add(&planted.other.shared, place, one);
        }
        Mistake::AllElsewhere => add(&planted.other.shared, place, n),
        Mistake::OtherPlace(place) => add(pool, place, n),
    }
    true
}

/// Two workers of one memory, and a pool of each.
pub(crate) struct Scene {
    pub(crate) memory: Memory,
    pub(crate) workers: [Worker; 2],
    pub(crate) pools: [Pool; 2],
}

/// Values that are kept until the ledgers have been checked.
pub(crate) type Kept = Box<dyn Any>;

/// Moves the frames that it was made with, once.
type Move = Box<dyn FnOnce(&mut Scene) -> Kept>;

/// Code that moves frames to or from a place.
pub(crate) struct Site {
    pub(crate) name: &'static str,
    pub(crate) place: FrameState,
    /// Prepares the code with the given frames. The result does the move, once.
    pub(crate) prepare: fn(&mut Scene, Batch) -> Move,
}

/// Who has how many frames, in the order in which they lie in the batch.
const BATCHES: [&[(usize, usize)]; 4] = [&[(0, 6)], &[(1, 6)], &[(0, 3), (1, 3), (0, 2)], &[(1, 1), (0, 5)]];

impl Scene {
    pub(crate) fn new() -> Scene {
        let config = MemoryConfig {
            bytes: 4 << 20,
            workers: 2,
            backing: BackingPreference::Small,
            ..MemoryConfig::default()
        };
        let memory = Memory::new(&config).unwrap();
        let mut workers = [memory.worker().unwrap(), memory.worker().unwrap()];
        let config = PoolConfig { frames: 64, cache: 32, refill: 16, ..PoolConfig::default() };
        let pools = workers.each_mut().map(|w| Pool::new(&memory, w, &config).unwrap());
        Scene { memory, workers, pools }
    }

    fn frames(&mut self, of: &[(usize, usize)]) -> Batch {
        let mut batch = Batch::new();
        for &(pool, n) in of {
            assert_eq!(self.pools[pool].alloc_burst(&mut self.workers[0], &mut batch, n), n);
        }
        batch.put_each(60, |_, bytes| bytes.fill(0));
        batch
    }

    fn is_balanced(&self) -> bool {
        self.pools.iter().all(|pool| pool.ledger().balanced())
    }
}

/// Runs a site with every error at both sides, for frames of each pool and of both. Returns the number of detected
/// errors, which are all of them.
pub(crate) fn all_are_seen(sites: &[Site]) -> usize {
    let mut seen = 0;
    for site in sites {
        for of in BATCHES {
            play(site, of, None);
            for side in [Side::Said, Side::Handed] {
                let mistakes =
                    Mistake::ALL.into_iter().filter(|mistake| *mistake != Mistake::OtherPlace(site.place));
                for mistake in mistakes {
                    for pool in [0, 1].into_iter().filter(|pool| of.iter().any(|(of, _)| of == pool)) {
                        play(site, of, Some((side, mistake, pool)));
                        seen += 1;
                    }
                }
            }
        }
    }
    seen
}

/// Runs a site once, with or without an error.
fn play(site: &Site, of: &[(usize, usize)], planted: Option<(Side, Mistake, usize)>) {
    let mut scene = Scene::new();
    // Held all the time, so that a count which is a few off stays within what it can be.
    let held = [0, 1].map(|pool| scene.frames(&[(pool, 20)]));
    let frames = scene.frames(of);
    let step = (site.prepare)(&mut scene, frames);
    assert!(scene.is_balanced(), "{}: {of:?}, before", site.name);
    if let Some((side, mistake, pool)) = planted {
        plant(side, site.place, mistake, &scene.pools[pool], &scene.pools[1 - pool]);
    }
    let kept = step(&mut scene);
    assert!(!withdraw(), "{}: {of:?}: {planted:?} was not made", site.name);
    assert_eq!(scene.is_balanced(), planted.is_none(), "{}: {of:?}: {planted:?}", site.name);
    drop((kept, held));
    let home = scene.pools.iter().all(|pool| pool.ledger().all_freed());
    assert_eq!(home, planted.is_none(), "{}: {of:?}: {planted:?}, at the end", site.name);
}
