//! What every port promises, whatever is behind it, checked after every step of sequences of calls. `tests/promises.rs`
//! holds those to it that need an interface.

use crate::page::{BackingWish, Memory, MemoryConfig};
use crate::pool::{Batch, Pool, PoolConfig};
use crate::port::{Port, PortCounters, PortState};
use crate::sync::Worker;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::num::NonZeroU32;

/// Frames of the pool.
const FRAMES: usize = 256;
/// Bytes of a frame that every port carries, behind two addresses and a type that is nobody's.
const LEN: usize = 60;
/// Bytes of one that some do not.
const RUNT: usize = 5;
/// Rounds in which all that was transmitted is sent.
const ROUNDS: usize = 100_000;

/// A memory with a worker and a pool.
pub struct Ground {
    pub w: Worker,
    pub pool: Pool,
    pub memory: Memory,
}

fn config() -> MemoryConfig {
    MemoryConfig { bytes: 2 << 20, workers: 1, backing: BackingWish::Small, ..MemoryConfig::default() }
}

/// A memory with a pool of so many frames, each with at least 1,518 bytes of room.
pub fn ground(frames: usize) -> Ground {
    over(Memory::new(&config()).unwrap(), frames)
}

/// As [`ground`], where a peer can map the memory.
pub fn shared_ground(frames: usize) -> Ground {
    // SAFETY: both ends of the ports are on this thread, and no frame is read while the other end writes.
    #[allow(unsafe_code)]
    let memory = unsafe { Memory::shared(&config()) };
    over(memory.unwrap(), frames)
}

fn over(memory: Memory, frames: usize) -> Ground {
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames, ..PoolConfig::default() }).unwrap();
    Ground { w, pool, memory }
}

/// Who is at the other end of a port.
pub trait Far {
    /// Sends a frame to the port.
    fn deliver(&mut self, frame: &[u8]);

    /// Takes what the port has transmitted, in order; None where that cannot be seen.
    fn collect(&mut self) -> Option<Vec<Vec<u8>>>;
}

/// Nobody.
impl Far for () {
    fn deliver(&mut self, _frame: &[u8]) {}

    fn collect(&mut self) -> Option<Vec<Vec<u8>>> {
        None
    }
}

/// Another port.
pub struct Station {
    pub port: Box<dyn Port>,
    pub ground: Ground,
}

impl Far for Station {
    fn deliver(&mut self, frame: &[u8]) {
        let Station { port, ground: Ground { w, pool, .. } } = self;
        let (mut sent, mut batch) = (pool.alloc(w).unwrap(), Batch::new());
        sent.put(frame.len()).unwrap().copy_from_slice(frame);
        batch.push(sent).unwrap();
        port.tx(w, &mut batch);
        batch.free(w);
        port.kick();
        port.complete(w, &mut batch);
        batch.free(w);
    }

    fn collect(&mut self) -> Option<Vec<Vec<u8>>> {
        let Station { port, ground: Ground { w, pool, .. } } = self;
        let mut batch = Batch::new();
        port.refill_to(w, pool, FRAMES / 2);
        port.rx(w, &mut batch);
        port.kick();
        let come = batch.iter().map(|frame| frame.data().to_vec()).collect();
        batch.free(w);
        Some(come)
    }
}

/// What is wrong with some of the frames that are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Odd {
    /// They are too short for an interface.
    Short,
    /// They are of another memory.
    Foreign,
}

#[derive(Debug, Clone)]
enum Step {
    Deliver(usize),
    Refill(usize),
    Fill(usize, u64),
    Rx,
    /// So many frames, of which those are odd whose bit is set.
    Tx(usize, Odd, u64),
    Collect,
    Complete,
    Kick,
    Free,
}

fn step() -> impl Strategy<Value = Step> {
    let odd = || prop_oneof![3 => Just(0), 1 => any::<u64>()];
    let kind = prop_oneof![Just(Odd::Short), Just(Odd::Foreign)];
    prop_oneof![
        (0_usize..40).prop_map(Step::Deliver),
        (0_usize..80).prop_map(Step::Refill),
        (0_usize..65, odd()).prop_map(|(n, odd)| Step::Fill(n, odd)),
        Just(Step::Rx),
        (0_usize..65, kind, odd()).prop_map(|(n, kind, odd)| Step::Tx(n, kind, odd)),
        Just(Step::Collect),
        Just(Step::Complete),
        Just(Step::Kick),
        Just(Step::Free),
    ]
}

/// Checks the promises on the ports that `open` opens, a new one for each sequence, with who is at its other end.
///
/// # Panics
/// When one is broken.
pub fn are_kept(mut open: impl FnMut(&mut Ground) -> (Box<dyn Port>, Box<dyn Far>)) {
    let mut runner = TestRunner::new(ProptestConfig { cases: 48, ..ProptestConfig::default() });
    let steps = proptest::collection::vec(step(), 1..60);
    // A port may be opened only once at a time, so the cell.
    let open = std::cell::RefCell::new(&mut open);
    runner
        .run(&steps, |steps| {
            let (mut here, elsewhere) = (shared_ground(FRAMES), ground(64));
            let (port, far) = open.borrow_mut()(&mut here);
            let mut walk = Walk::begin(here, elsewhere, port, far);
            steps.iter().for_each(|step| walk.take(step));
            walk.end();
            Ok(())
        })
        .unwrap();
}

/// A port in use.
struct Walk {
    here: Ground,
    elsewhere: Ground,
    port: Box<dyn Port>,
    far: Box<dyn Far>,
    held: Batch,
    /// Frames received, transmitted, completed, and posted for reception; bytes received and transmitted.
    counted: [usize; 6],
    /// What was transmitted that every port carries, and how much of it was seen at the other end.
    sent: Vec<Vec<u8>>,
    seen: usize,
    /// Frames made so far.
    made: u32,
}

impl Walk {
    fn begin(here: Ground, elsewhere: Ground, port: Box<dyn Port>, far: Box<dyn Far>) -> Walk {
        assert!(port.name().starts_with(port.kind()), "{} is no {}", port.name(), port.kind());
        assert_eq!(port.state(), PortState::Up);
        let counted = counters(&*port);
        let (held, sent, seen, made) = (Batch::new(), Vec::new(), 0, 0);
        Walk { here, elsewhere, port, far, held, counted, sent, seen, made }
    }

    /// Makes a call, and checks what holds after each.
    fn take(&mut self, step: &Step) {
        let Walk { here: Ground { w, pool, .. }, port, held, .. } = self;
        let [received, _, completed, filled, bytes, _] = &mut self.counted;
        match *step {
            Step::Deliver(n) => self.deliver(n),
            Step::Refill(most) => *filled += port.refill_to(w, pool, most),
            Step::Fill(n, odd) => self.fill(n, odd),
            Step::Rx => {
                let at_end = port.is_at_end();
                let before = held.len();
                let n = take(held, |frames| port.rx(w, frames));
                assert!(n == 0 || !at_end, "it was at its end");
                *received += n;
                *bytes += held[before..].iter().map(|frame| frame.len()).sum::<usize>();
            }
            Step::Tx(n, kind, odd) => self.transmit(n, kind, odd),
            Step::Collect => drop(self.collect()),
            Step::Complete => *completed += take(held, |frames| port.complete(w, frames)),
            Step::Kick => port.kick(),
            Step::Free => held.free(w),
        }
        assert_eq!(counters(&*self.port), self.counted, "{step:?}");
        assert_eq!(self.counted[1] - self.counted[2], self.port.in_flight(), "{step:?}");
        let ledger = self.here.pool.ledger();
        assert!(ledger.balanced(), "{step:?}: {ledger:?}");
    }

    /// Bytes that no other frame has.
    fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
        bytes.extend(self.made.to_be_bytes());
        bytes.resize(LEN, 7);
        self.made += 1;
        bytes
    }

    fn deliver(&mut self, n: usize) {
        for _ in 0..n {
            let bytes = self.bytes();
            self.far.deliver(&bytes);
        }
    }

    /// Offers empty frames, of which some are of another memory.
    fn fill(&mut self, n: usize, odd: u64) {
        let Walk { here, elsewhere, port, .. } = self;
        let (mut frames, mut offered) = (Batch::new(), Vec::new());
        for i in 0..n {
            let Ground { w, pool, .. } = if is_odd(odd, i) { &mut *elsewhere } else { &mut *here };
            let Some(frame) = pool.alloc(w) else { break };
            offered.push((frame.id(), is_odd(odd, i)));
            frames.push(frame).unwrap();
        }
        let n = port.fill(&mut here.w, &mut frames);
        assert_stayed(&offered, &ids(&frames), n);
        self.counted[3] += n;
        frames.free(&mut here.w);
    }

    /// Offers frames, of which some are odd; those that stay go home.
    fn transmit(&mut self, n: usize, kind: Odd, odd: u64) {
        let (mut frames, mut offered) = (Batch::new(), Vec::new());
        for i in 0..n {
            let (is_odd, bytes) = (is_odd(odd, i), self.bytes());
            let foreign = is_odd && kind == Odd::Foreign;
            let Ground { w, pool, .. } = if foreign { &mut self.elsewhere } else { &mut self.here };
            let Some(mut frame) = pool.alloc(w) else { break };
            let len = if is_odd && kind == Odd::Short { RUNT } else { LEN };
            frame.put(len).unwrap().copy_from_slice(&bytes[..len]);
            offered.push(((frame.id(), is_odd), bytes));
            frames.push(frame).unwrap();
        }
        let n = self.port.tx(&mut self.here.w, &mut frames);
        let stayed = ids(&frames);
        let all: Vec<_> = offered.iter().map(|(frame, _)| *frame).collect();
        assert_stayed(&all, &stayed, n);
        self.counted[1] += n;
        let sent = offered.iter().filter(|((id, _), _)| !stayed.contains(id));
        self.counted[5] +=
            sent.map(|((_, odd), _)| if *odd && kind == Odd::Short { RUNT } else { LEN }).sum::<usize>();
        let is_gone = |(id, odd): (NonZeroU32, bool)| !stayed.contains(&id) && (!odd || kind == Odd::Foreign);
        let taken = offered.into_iter().filter(|(frame, _)| is_gone(*frame));
        self.sent.extend(taken.map(|(_, bytes)| bytes));
        frames.free(&mut self.here.w);
    }

    /// Sees at the other end what was taken, in order, and nothing else; None where that cannot be seen.
    fn collect(&mut self) -> Option<()> {
        for bytes in self.far.collect()?.into_iter().filter(|bytes| bytes.len() >= LEN) {
            assert_eq!(Some(&bytes), self.sent.get(self.seen), "the {}-th", self.seen);
            self.seen += 1;
        }
        Some(())
    }

    /// All that was transmitted is seen; then the port is dropped, and every frame is home.
    fn end(mut self) {
        for _ in 0..ROUNDS {
            self.take(&Step::Kick);
            self.take(&Step::Complete);
            self.take(&Step::Free);
            if self.collect().is_none() || self.seen == self.sent.len() && self.port.in_flight() == 0 {
                break;
            }
        }
        assert!(self.far.collect().is_none() || self.seen == self.sent.len(), "{} are seen", self.seen);
        let Walk { here, elsewhere, port, far, held, .. } = self;
        drop((port, held, far));
        for ledger in [here.pool.ledger(), elsewhere.pool.ledger()] {
            assert!(ledger.all_home() && ledger.posted == 0 && ledger.owned == 0, "{ledger:?}");
        }
    }
}

/// What a port counts as received, transmitted, completed and posted for reception, and in bytes.
fn counters(port: &dyn Port) -> [usize; 6] {
    let PortCounters { rx, tx, completed, filled, rx_bytes, tx_bytes, .. } = &*port.counters();
    [rx, tx, completed, filled, rx_bytes, tx_bytes].map(|count| count.get() as usize)
}

fn is_odd(odd: u64, i: usize) -> bool {
    odd >> i & 1 == 1
}

/// Of the frames offered, each with whether it is odd, `n` are taken: the first ones, or the first of those that are not
/// odd, and the odd ones stay behind the others.
fn assert_stayed(offered: &[(NonZeroU32, bool)], stayed: &[NonZeroU32], n: usize) {
    let of = |odd| offered.iter().filter(move |frame| frame.1 == odd).map(|frame| frame.0);
    let first: Vec<_> = offered[n..].iter().map(|frame| frame.0).collect();
    let fit: Vec<_> = of(false).skip(n).chain(of(true)).collect();
    assert!(stayed == first || stayed == fit, "{stayed:?} stayed of {offered:?}, and {n} were taken");
}

/// Takes frames behind those held; returns how many.
fn take(held: &mut Batch, from: impl FnOnce(&mut Batch) -> usize) -> usize {
    let before = ids(held);
    let n = from(held);
    let after = ids(held);
    assert_eq!((&after[..before.len()], after.len() - before.len()), (&before[..], n));
    n
}

fn ids(frames: &Batch) -> Vec<NonZeroU32> {
    frames.iter().map(|frame| frame.id()).collect()
}
