//! The conformance test of a port: it checks the promises that every port makes, for any device.
//!
//! [`check`] makes sequences of calls. After each call it compares the port's counters, the frames that stayed, and the
//! ledger of the pool with the calls made. Some of the offered frames are too short for an interface or belong to
//! another memory, and some have 1,400 bytes. The frames that the port transmits must come to its peer, whole and in
//! order. The frames that its peer sends must be received whole and in order. At the end the peer sends frames one at a
//! time, while empty frames are posted: each must be received, or be counted as lost. If the port has a descriptor for
//! sleepers, each must end a sleep, whether it comes before the port is armed or after. After the port is dropped, every
//! frame must be free again. The port's name must begin with its kind. All ports of this crate pass the test, and a port
//! written elsewhere can be checked in the same way:
//!
//! ```
//! use netmem::port::conformance::{Peer, check};
//! use netmem::port::mem::{MemConfig, MemDevice, MemPort};
//!
//! struct Network(MemDevice);
//!
//! impl Peer for Network {
//!     fn deliver(&mut self, frame: &[u8]) {
//!         self.0.deliver(1, |room| {
//!             room[..frame.len()].copy_from_slice(frame);
//!             frame.len()
//!         });
//!     }
//!
//!     fn collect(&mut self) -> Option<Vec<Vec<u8>>> {
//!         let mut sent = Vec::new();
//!         self.0.collect(64, |data| sent.push(data.to_vec()));
//!         Some(sent)
//!     }
//! }
//!
//! check(|_fixture| {
//!     let (port, device) = MemPort::pair("0", &MemConfig { ring: 64, ..Default::default() }).unwrap();
//!     (Box::new(port), Box::new(Network(device)))
//! });
//! ```

mod fixture;
mod peer;

pub use fixture::Fixture;
pub use peer::{Peer, PortPeer};

use super::{Port, PortCounters, PortState};
use crate::pool::Batch;
use crate::sys::event::sleep_until_readable;
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

/// Number of frames of the pool.
const FRAMES: usize = 256;
/// Bytes of most frames, [`HEADER`] included.
const LEN: usize = 60;
/// Bytes of every fourth frame. Every port carries it.
const LONG: usize = 1400;
/// Number of frames that the peer sends one at a time at the end.
const ONE_BY_ONE: usize = 32;
/// Bytes of a frame that some ports do not carry.
const RUNT: usize = 5;
/// Maximum number of rounds in which all transmitted frames are sent.
const ROUNDS: usize = 100_000;
/// The time after which a sleeper is not woken any more.
const PATIENCE: Duration = Duration::from_secs(10);

/// The beginning of each frame that is made: two addresses, and the type for local experiments (IEEE 802).
const HEADER: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];

/// Number of sequences of calls that [`check`] makes, each with a new port.
const SEQUENCES: u64 = 48;
/// Maximum number of calls in a sequence.
const CALLS: u64 = 60;

/// The defect of some of the offered frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadFrame {
    /// They are too short for an interface.
    Short,
    /// They belong to another memory.
    Foreign,
}

/// One call of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The peer sends that many frames.
    Deliver(usize),
    /// [`Fill::refill_to`](super::Fill::refill_to) with that many.
    Refill(usize),
    /// [`Fill::fill`](super::Fill::fill) with that many frames, at most 64. Frames whose bit is set belong to another
    /// memory. Frames that were received before, with their data, are offered first.
    Fill(usize, u64),
    /// [`Rx::rx`](super::Rx::rx)
    Rx,
    /// [`Tx::tx`](super::Tx::tx) with that many frames, at most 64. Frames whose bit is set are bad.
    Tx(usize, BadFrame, u64),
    /// The peer takes the transmitted frames.
    Collect,
    /// [`Complete::complete`](super::Complete::complete)
    Complete,
    /// [`Wake::kick`](super::Wake::kick)
    Kick,
    /// The received frames are freed.
    Free,
}

/// Checks the promises of all ports on the ports that `open` opens, with a new port and peer for each sequence of
/// calls. The sequences are the same in every run.
///
/// # Panics
/// Panics if a promise is broken. The output ends with the sequence.
pub fn check(mut open: impl FnMut(&mut Fixture) -> (Box<dyn Port>, Box<dyn Peer>)) {
    for seed in 0..SEQUENCES {
        let steps = sequence(seed);
        let shown = Shown(&steps);
        let mut fixture = Fixture::new(FRAMES);
        let (port, peer) = open(&mut fixture);
        run(fixture, port, peer, &steps);
        drop(shown);
    }
}

/// Makes the calls of `steps` on `port`, and checks the promises after each call. The port was opened with `fixture`
/// and not used yet.
///
/// # Panics
/// Panics if a promise is broken.
pub fn run(fixture: Fixture, port: Box<dyn Port>, peer: Box<dyn Peer>, steps: &[Step]) {
    let mut walk = Walk::begin(fixture, Fixture::new(64), port, peer);
    steps.iter().for_each(|step| walk.take(step));
    walk.end();
}

/// Prints the calls of a sequence if one of them panics.
struct Shown<'a>(&'a [Step]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the calls were {:?}", self.0);
        }
    }
}

/// Returns the calls of the sequence of that number.
fn sequence(seed: u64) -> Vec<Step> {
    let mut state = seed;
    // SplitMix64: https://prng.di.unimi.it/splitmix64.c
    let mut draw = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    let calls = 1 + draw() % (CALLS - 1);
    let mut step = || {
        let (kind, n, odd) = (draw() % 9, draw(), if draw() % 4 == 0 { draw() } else { 0 });
        match kind {
            0 => Step::Deliver((n % 40) as usize),
            1 => Step::Refill((n % 80) as usize),
            2 => Step::Fill((n % 65) as usize, odd),
            3 => Step::Rx,
            4 => Step::Tx(
                (n % 65) as usize,
                if draw() % 2 == 0 { BadFrame::Short } else { BadFrame::Foreign },
                odd,
            ),
            5 => Step::Collect,
            6 => Step::Complete,
            7 => Step::Kick,
            _ => Step::Free,
        }
    };
    (0..calls).map(|_| step()).collect()
}

/// A port in use.
struct Walk {
    here: Fixture,
    elsewhere: Fixture,
    port: Box<dyn Port>,
    peer: Box<dyn Peer>,
    held: Batch,
    /// Frames received, transmitted, completed, and posted for reception; bytes received and transmitted.
    counted: [usize; 6],
    /// The transmitted frames that every port carries, and how many of them were seen at the other end.
    sent: Vec<Vec<u8>>,
    seen: usize,
    /// Frames made so far.
    made: u32,
    /// The numbers of the frames that may be received next, in order, and whether the peer sent them.
    coming: VecDeque<(u32, bool)>,
    /// Number of received frames that the peer sent.
    come: usize,
    /// The peer sees what is transmitted. Otherwise the port may receive it again itself.
    has_peer: bool,
    /// Frames are broken on purpose ([`fault`](super::fault)), so they are not compared.
    breaks: bool,
}

impl Walk {
    fn begin(here: Fixture, elsewhere: Fixture, port: Box<dyn Port>, mut peer: Box<dyn Peer>) -> Walk {
        let (name, kind) = (port.name(), port.kind());
        assert!(name.starts_with(kind), "the name {name:?} does not begin with the port's kind {kind:?}");
        assert_eq!(port.state(), PortState::Up);
        let counted = counters(&*port);
        let counts = port.wrap_counters().into_iter().flat_map(|wrap| wrap.counts());
        let breaks = counts.into_iter().any(|(name, _)| name.starts_with("fault_"));
        let has_peer = peer.collect().is_some();
        let (held, sent, coming) = (Batch::new(), Vec::new(), VecDeque::new());
        let (seen, made, come) = (0, 0, 0);
        Walk { here, elsewhere, port, peer, held, counted, sent, seen, made, coming, come, has_peer, breaks }
    }

    /// Makes a call, and checks the invariants that hold after each call.
    fn take(&mut self, step: &Step) {
        let Walk { here: Fixture { w, pool, .. }, port, held, .. } = self;
        let [_, _, completed, filled, _, _] = &mut self.counted;
        match *step {
            Step::Deliver(n) => self.deliver(n),
            Step::Refill(most) => *filled += port.refill_to(w, pool, most),
            Step::Fill(n, odd) => self.fill(n, odd),
            Step::Rx => self.receive(),
            Step::Tx(n, kind, odd) => self.transmit(n, kind, odd),
            Step::Collect => drop(self.collect()),
            Step::Complete => *completed += take(held, |frames| port.complete(w, frames)),
            Step::Kick => port.kick(),
            Step::Free => held.free(w),
        }
        assert_eq!(counters(&*self.port), self.counted, "{step:?}");
        assert_eq!(self.counted[1] - self.counted[2], self.port.tx_posted(), "{step:?}");
        if !self.breaks {
            let posted = self.counted[3].checked_sub(self.counted[0]);
            assert_eq!(posted, Some(self.port.rx_posted()), "posted for reception, {step:?}");
        }
        let ledger = self.here.pool.ledger();
        assert!(ledger.balanced(), "{step:?}: {ledger:?}");
    }

    /// Returns bytes that no other frame has, and their number.
    fn bytes(&mut self) -> (u32, Vec<u8>) {
        let number = self.made;
        self.made += 1;
        (number, bytes_of(number))
    }

    fn deliver(&mut self, n: usize) {
        for _ in 0..n {
            let (number, bytes) = self.bytes();
            self.coming.push_back((number, true));
            self.peer.deliver(&bytes);
        }
    }

    /// Receives frames. Checks that each is one that was sent to the port, whole, and that none comes before an earlier
    /// one, or twice. Frames of others, as an interface has, are left out.
    fn receive(&mut self) {
        let Walk { here: Fixture { w, .. }, port, held, coming, .. } = self;
        let (at_end, before) = (port.rx_finished(), held.len());
        let n = take(held, |frames| port.rx(w, frames));
        assert!(n == 0 || !at_end, "it was at its end");
        self.counted[0] += n;
        self.counted[4] += held[before..].iter().map(|frame| frame.len()).sum::<usize>();
        if self.breaks {
            return;
        }
        for data in held[before..].iter().map(|frame| frame.data()) {
            let shortest = if self.has_peer { HEADER.len() } else { 0 };
            assert!(data.len() >= shortest, "received {} bytes, which nobody sent: {data:x?}", data.len());
            if !is_made(data) {
                continue;
            }
            let number = data.get(HEADER.len()..).and_then(|rest| rest.first_chunk());
            let number = number.map(|number| u32::from_be_bytes(*number));
            let place = coming.iter().position(|coming| Some(coming.0) == number);
            let is_whole = number.is_some_and(|number| data == bytes_of(number));
            assert!(is_whole, "received {} bytes that were not sent so: {data:x?}", data.len());
            let place =
                place.expect("received a frame twice, or before an earlier one, or one that was not sent");
            self.come += coming.drain(..=place).next_back().map_or(0, |(_, is_peers)| usize::from(is_peers));
        }
    }

    /// Has the peer send frames one at a time while empty frames are posted. Checks that each is received or counted as
    /// lost, and that each ends a sleep. Does nothing if the peer sends none, or the port is at the end of its input.
    fn arrive(&mut self) {
        for i in 0..ONE_BY_ONE {
            if self.port.rx_finished() || self.breaks {
                return;
            }
            let (come, lost) = (self.come, self.port.counters().rx_drops());
            let rounds = if self.has_peer || come > 0 { ROUNDS } else { 1 };
            [Step::Refill(FRAMES / 2), Step::Kick].iter().for_each(|step| self.take(step));
            let is_woken = self.deliver_to_sleeper(i % 2 == 0);
            let has_come = |walk: &Walk| walk.come > come || walk.port.counters().rx_drops() > lost;
            for _ in 0..rounds {
                [Step::Rx, Step::Free, Step::Kick].iter().for_each(|step| self.take(step));
                if has_come(self) {
                    break;
                }
            }
            assert!(
                rounds == 1 || has_come(self),
                "a frame that the peer sent is neither received nor counted as lost"
            );
            assert!(
                rounds == 1 || is_woken || self.come == come,
                "a frame came while the port was armed, and its descriptor was not readable"
            );
        }
    }

    /// Has the peer send a frame, before the port is armed or after. Returns whether a worker would have woken.
    fn deliver_to_sleeper(&mut self, is_armed_first: bool) -> bool {
        if !is_armed_first {
            self.take(&Step::Deliver(1));
        }
        let has_frames = self.port.arm();
        if is_armed_first {
            self.take(&Step::Deliver(1));
        }
        let fd = self.port.wakeup_fd();
        let is_woken = has_frames || fd.is_none_or(|fd| sleep_until_readable(&[fd], PATIENCE));
        self.port.disarm();
        is_woken
    }

    /// Offers frames, those that were received before and then new ones, some of another memory.
    fn fill(&mut self, n: usize, odd: u64) {
        let Walk { here, elsewhere, port, held, .. } = self;
        let (mut frames, mut offered) = (Batch::new(), Vec::new());
        for i in 0..n {
            let is_odd = is_odd(odd, i);
            let Fixture { w, pool, .. } = if is_odd { &mut *elsewhere } else { &mut *here };
            let used = if is_odd { None } else { held.pop() };
            let Some(mut frame) = used.or_else(|| pool.alloc(w)) else { break };
            // As by a program that took a header off.
            let _ = frame.pull(14);
            offered.push((frame.id(), is_odd));
            drop(frames.push(frame));
        }
        let n = port.fill(&mut here.w, &mut frames);
        assert_stayed(&offered, &ids(&frames), n);
        self.counted[3] += n;
        frames.free(&mut here.w);
    }

    /// Offers frames, some of them bad. Frames that stay are freed.
    fn transmit(&mut self, n: usize, kind: BadFrame, odd: u64) {
        let (mut frames, mut offered) = (Batch::new(), Vec::new());
        for i in 0..n {
            let (is_odd, (number, bytes)) = (is_odd(odd, i), self.bytes());
            let foreign = is_odd && kind == BadFrame::Foreign;
            let Fixture { w, pool, .. } = if foreign { &mut self.elsewhere } else { &mut self.here };
            let Some(mut frame) = pool.alloc(w) else { break };
            let len = if is_odd && kind == BadFrame::Short { RUNT } else { bytes.len() };
            frame.put_slice(&bytes[..len]).expect("room for a frame");
            offered.push(((frame.id(), is_odd), bytes, len));
            // A port without a peer may be a loop.
            self.coming.extend((!self.has_peer).then_some((number, false)));
            drop(frames.push(frame));
        }
        let n = self.port.tx(&mut self.here.w, &mut frames);
        let stayed = ids(&frames);
        let all: Vec<_> = offered.iter().map(|(frame, ..)| *frame).collect();
        assert_stayed(&all, &stayed, n);
        self.counted[1] += n;
        let sent = offered.iter().filter(|((id, _), ..)| !stayed.contains(id));
        self.counted[5] += sent.map(|(.., len)| *len).sum::<usize>();
        let is_gone =
            |(id, odd): (NonZeroU32, bool)| !stayed.contains(&id) && (!odd || kind == BadFrame::Foreign);
        let taken = offered.into_iter().filter(|(frame, ..)| is_gone(*frame));
        self.sent.extend(taken.map(|(_, bytes, _)| bytes));
        frames.free(&mut self.here.w);
    }

    /// Checks that the other end sees the taken frames, in order, and nothing else. Returns None if they cannot be
    /// seen.
    fn collect(&mut self) -> Option<()> {
        for bytes in self.peer.collect()?.into_iter().filter(|bytes| bytes.len() >= LEN) {
            assert_eq!(Some(&bytes), self.sent.get(self.seen), "the {}-th", self.seen);
            self.seen += 1;
        }
        Some(())
    }

    /// Checks that all transmitted frames are seen, and all that the peer sends received. Then drops the port and checks that
    /// every frame is free.
    fn end(mut self) {
        for _ in 0..ROUNDS {
            self.take(&Step::Kick);
            self.take(&Step::Complete);
            self.take(&Step::Free);
            if self.collect().is_none() || self.seen == self.sent.len() && self.port.tx_posted() == 0 {
                break;
            }
        }
        assert!(self.peer.collect().is_none() || self.seen == self.sent.len(), "{} are seen", self.seen);
        self.arrive();
        let Walk { here, elsewhere, port, peer, held, .. } = self;
        drop((port, held, peer));
        for ledger in [here.pool.ledger(), elsewhere.pool.ledger()] {
            assert!(ledger.all_freed() && ledger.posted == 0 && ledger.owned == 0, "{ledger:?}");
        }
    }
}

/// The port's counts of frames received, transmitted, completed and posted for reception, and of bytes.
fn counters(port: &dyn Port) -> [usize; 6] {
    let PortCounters { rx, tx, completed, filled, rx_bytes, tx_bytes, .. } = &*port.counters();
    [rx, tx, completed, filled, rx_bytes, tx_bytes].map(|count| count.get() as usize)
}

/// Returns the bytes of the frame of that number: each fourth is long. Its bytes differ from those of the next frames, and
/// from each other.
fn bytes_of(number: u32) -> Vec<u8> {
    let len = if number % 4 == 3 { LONG } else { LEN };
    let mut bytes = HEADER.to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((bytes.len()..len).map(|at| (number as usize * 7 + at) as u8));
    bytes
}

/// Whether these bytes contain a frame that the test made, whole or behind other bytes.
fn is_made(bytes: &[u8]) -> bool {
    bytes.windows(HEADER.len()).any(|bytes| bytes == HEADER)
}

fn is_odd(odd: u64, i: usize) -> bool {
    odd >> i & 1 == 1
}

/// Of the offered frames, each with whether it is bad, `n` are taken. They are the first ones, or the first of the good
/// ones; in that case the bad ones stay behind the others.
fn assert_stayed(offered: &[(NonZeroU32, bool)], stayed: &[NonZeroU32], n: usize) {
    let of = |odd| offered.iter().filter(move |frame| frame.1 == odd).map(|frame| frame.0);
    let first: Vec<_> = offered[n..].iter().map(|frame| frame.0).collect();
    let fit: Vec<_> = of(false).skip(n).chain(of(true)).collect();
    assert!(stayed == first || stayed == fit, "{stayed:?} stayed of {offered:?}, and {n} were taken");
}

/// Takes frames and appends them to `held`. Returns their number.
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
