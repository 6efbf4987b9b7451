//! Sequences of all operations on a pool. The ledger is checked after every step.
//!
//! `NETMEM_STEPS` is the total number of steps.

use super::*;
use crate::pool::{Fragment, Fragments, SharedFrame};
use crate::sync::shim::lock;
use proptest::test_runner::{Config, TestRunner};

const WORKERS: usize = 2;
const STEPS_EACH: usize = if cfg!(miri) { 100 } else { 300 };
const CAPACITY: usize = 128;

/// The operations, by worker `w` or on the item that `pick` picks.
#[derive(Debug, Clone)]
enum Step {
    Alloc { w: usize },
    Burst { w: usize, n: usize },
    Free { w: usize, pick: usize },
    FreeMany { w: usize, n: usize },
    Drop { pick: usize },
    Share { pick: usize },
    Clone { pick: usize },
    Release { w: usize, pick: usize },
    Unshare { pick: usize },
    Cut { w: usize, bytes: usize },
    Join { w: usize, pick: usize },
    Move { place: usize, n: usize },
    Fetch { place: usize },
    Resize { frames: usize },
    Cache { cache: usize },
    Node { node: Option<usize> },
    Trace { on: bool },
    Leave { w: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let (w, pick, place) = (0..WORKERS, any::<usize>(), 0..3usize);
    prop_oneof![
        6 => w.clone().prop_map(|w| Step::Alloc { w }),
        4 => (w.clone(), 0..=64usize).prop_map(|(w, n)| Step::Burst { w, n }),
        5 => (w.clone(), pick).prop_map(|(w, pick)| Step::Free { w, pick }),
        4 => (w.clone(), 1..64usize).prop_map(|(w, n)| Step::FreeMany { w, n }),
        1 => pick.prop_map(|pick| Step::Drop { pick }),
        3 => pick.prop_map(|pick| Step::Share { pick }),
        3 => pick.prop_map(|pick| Step::Clone { pick }),
        5 => (w.clone(), pick).prop_map(|(w, pick)| Step::Release { w, pick }),
        2 => pick.prop_map(|pick| Step::Unshare { pick }),
        3 => (w.clone(), 0..2100usize).prop_map(|(w, bytes)| Step::Cut { w, bytes }),
        3 => (w.clone(), pick).prop_map(|(w, pick)| Step::Join { w, pick }),
        2 => (place.clone(), 1..20usize).prop_map(|(place, n)| Step::Move { place, n }),
        2 => place.prop_map(|place| Step::Fetch { place }),
        2 => (1..=CAPACITY).prop_map(|frames| Step::Resize { frames }),
        1 => (0..80usize).prop_map(|cache| Step::Cache { cache }),
        1 => prop::option::of(0..2usize).prop_map(|node| Step::Node { node }),
        1 => any::<bool>().prop_map(|on| Step::Trace { on }),
        1 => w.prop_map(|w| Step::Leave { w }),
    ]
}

/// A pool, its workers, and the expected state of the frames that are out.
struct Model {
    memory: Memory,
    workers: Vec<Worker>,
    pool: Pool,
    held: Vec<Frame>,
    shared: Vec<SharedFrame>,
    fragments: Option<Fragments>,
    pieces: Vec<Fragment>,
    placed: [Vec<Frame>; 3],
}

const PLACES: [FrameState; 3] = [FrameState::Ready, FrameState::Posted, FrameState::Queued];

/// Takes out the item that `pick` picks.
fn pick_of<T>(from: &mut Vec<T>, pick: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(pick % from.len()))
}

impl Model {
    fn new(clears: bool, frame_size: usize) -> Model {
        let config = MemoryConfig {
            bytes: 8 << 20,
            workers: WORKERS,
            nodes: 2,
            backing: BackingPreference::Small,
            ..MemoryConfig::default()
        };
        let memory = Memory::new(&config).unwrap();
        let mut workers: Vec<Worker> = (0..WORKERS).map(|_| memory.worker().unwrap()).collect();
        let config = PoolConfig {
            frames: 64,
            capacity: CAPACITY,
            frame_size,
            cache: 32,
            refill: 16,
            dma: DmaMap::Umem,
            init_on_alloc: clears,
            ..PoolConfig::default()
        };
        let pool = Pool::new(&memory, &mut workers[0], &config).unwrap();
        let fragments = Some(Fragments::new(&pool));
        let (held, shared, pieces) = (Vec::new(), Vec::new(), Vec::new());
        Model { memory, workers, pool, held, shared, fragments, pieces, placed: Default::default() }
    }

    /// Takes a new frame in. Writes its number at its begin, and checks that no other holder has it.
    fn hold(&mut self, mut frame: Frame) {
        let id = frame.id();
        frame.put(4).unwrap();
        frame.data_mut().copy_from_slice(&id.get().to_ne_bytes());
        assert!(
            self.held.iter().chain(self.placed.iter().flatten()).all(|other| other.id() != id),
            "given twice"
        );
        assert!(self.shared.iter().all(|other| other.id() != id), "given while others read it");
        assert!(self.pieces.iter().all(|other| other.id() != id), "given while it is cut");
        self.held.push(frame);
    }

    fn take(&mut self, pick: usize) -> Option<Frame> {
        let frame = pick_of(&mut self.held, pick)?;
        assert_eq!(frame.data(), frame.id().get().to_ne_bytes(), "contents intact");
        Some(frame)
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Alloc { w } => {
                let frame = self.pool.alloc(&mut self.workers[w]);
                frame.into_iter().for_each(|frame| self.hold(frame));
            }
            Step::Burst { w, n } => {
                let mut batch = Batch::new();
                self.pool.alloc_burst(&mut self.workers[w], &mut batch, n);
                batch.drain().for_each(|frame| self.hold(frame));
            }
            Step::Free { w, pick } => {
                let frame = self.take(pick);
                frame.into_iter().for_each(|frame| self.pool.free(&mut self.workers[w], frame));
            }
            Step::FreeMany { w, n } => {
                let mut batch = Batch::new();
                (0..n).filter_map(|i| self.take(i * 7)).for_each(|frame| batch.push(frame).unwrap());
                batch.free(&mut self.workers[w]);
            }
            Step::Drop { pick } => drop(self.take(pick)),
            Step::Move { place, n } => {
                let frames: Vec<Frame> = (0..n).filter_map(|pick| self.take(pick)).collect();
                PLACES[place].enter(Some(&self.workers[0]), &frames);
                self.placed[place].extend(frames);
            }
            Step::Fetch { place } => {
                PLACES[place].fetch(Some(&self.workers[1]), &self.placed[place]);
                self.held.append(&mut self.placed[place]);
            }
            Step::Resize { frames } => self.pool.resize(frames).unwrap(),
            Step::Cache { cache } => self.pool.set_cache(cache, cache.div_ceil(2)).unwrap(),
            Step::Node { node } => self.pool.set_node(node),
            Step::Trace { on } => self.pool.trace(on),
            Step::Leave { w } => {
                self.workers.remove(w);
                self.workers.insert(w, self.memory.worker().unwrap());
            }
            _ => self.apply_to_many(step),
        }
    }

    /// Applies a step to frames with several holders.
    fn apply_to_many(&mut self, step: &Step) {
        match *step {
            Step::Share { pick } => {
                let frame = self.take(pick);
                self.shared.extend(frame.map(Frame::share));
            }
            Step::Clone { pick } => {
                let at = pick % self.shared.len().max(1);
                let more = self.shared.get(at).cloned();
                self.shared.extend(more);
            }
            Step::Release { w, pick } => {
                let Some(claim) = pick_of(&mut self.shared, pick) else { return };
                assert_eq!(claim.data(), claim.id().get().to_ne_bytes());
                claim.free(&mut self.workers[w]);
            }
            Step::Unshare { pick } => {
                let Some(claim) = pick_of(&mut self.shared, pick) else { return };
                let others = self.shared.iter().filter(|other| other.id() == claim.id()).count();
                assert_eq!(claim.is_unique(), others == 0);
                match claim.into_frame() {
                    Ok(frame) => self.held.push(frame),
                    Err(claim) => self.shared.push(claim),
                }
            }
            Step::Cut { w, bytes } => {
                let Some(fragments) = &mut self.fragments else { return };
                let Some(mut piece) = fragments.alloc(&mut self.workers[w], bytes) else { return };
                piece.put(piece.tailroom()).unwrap();
                piece.data_mut().fill(self.pieces.len() as u8);
                assert!(self.held.iter().all(|frame| frame.id() != piece.id()));
                self.pieces.push(piece);
            }
            Step::Join { w, pick } => {
                let Some(piece) = pick_of(&mut self.pieces, pick) else { return };
                let stamp = piece.data()[0];
                assert!(piece.data().iter().all(|&byte| byte == stamp), "written by another");
                piece.free(&mut self.workers[w]);
            }
            _ => unreachable!("not a step on one holder's frames: {step:?}"),
        }
    }

    fn check(&self) {
        let ledger = self.pool.ledger();
        assert!(ledger.balanced(), "{ledger:?}");
        let placed = self.placed.each_ref().map(|frames| frames.len() as u64);
        assert_eq!([ledger.ready, ledger.posted, ledger.queued], placed);
        let many: std::collections::BTreeSet<_> =
            self.shared.iter().map(SharedFrame::id).chain(self.pieces.iter().map(Fragment::id)).collect();
        let owned = ledger.owned - self.held.len() as u64 - many.len() as u64;
        assert!(owned <= 1, "and one that is open to be cut: {ledger:?}");
        assert_eq!(ledger.total, self.pool.inflight() as u64);
        // The code that gives a page back unmaps it.
        let size = self.pool.frame_size();
        let leaving = lock(&self.pool.shared.depot).leaving.len() * (size / 4096).max(1);
        assert_eq!(self.pool.mapped_pages() as usize, ledger.total as usize * size / 4096 + leaving);
        let held: u64 = self.pool.holders().iter().map(|holder| holder.frames).sum();
        assert_eq!(held, ledger.out(), "who holds them");
    }

    /// Frees everything. Nothing may be missing, in any order of closing.
    fn end(mut self, close_first: bool) {
        if close_first {
            self.pool.close();
        }
        for (place, frames) in PLACES.iter().zip(&mut self.placed) {
            place.fetch(None, frames);
            frames.clear();
        }
        self.fragments = None;
        self.held.drain(..).for_each(|frame| frame.free(&mut self.workers[1]));
        self.shared.clear();
        self.pieces.drain(..).for_each(|piece| piece.free(&mut self.workers[0]));
        self.pool.close_and_wait(Duration::ZERO).unwrap();
        assert_eq!((self.pool.mapped_pages(), self.pool.inflight()), (0, 0));
        let Model { memory, workers, pool, .. } = self;
        drop((pool, workers));
        assert_eq!(memory.stats().free, memory.stats().total, "all pages back");
    }
}

#[test]
fn whatever_is_done_to_a_pool_no_frame_is_lost_doubled_or_spoilt() {
    let steps = std::env::var("NETMEM_STEPS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000usize);
    let cases = steps.div_ceil(STEPS_EACH) as u32;
    let kinds =
        prop::sample::select(vec![(false, 2048), (false, 4096), (false, 32768), (true, 2048), (true, 8192)]);
    let sequence = (kinds, prop::collection::vec(step(), STEPS_EACH), any::<bool>());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() };
    let played = TestRunner::new(config).run(&sequence, |((clears, frame_size), steps, close_first)| {
        let mut model = Model::new(clears, frame_size);
        for step in &steps {
            model.apply(step);
            model.check();
        }
        model.end(close_first);
        Ok(())
    });
    played.unwrap();
}
