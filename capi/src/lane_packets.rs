//! HOT: the packets of a lane.
//!
//! A ring beside the one of the frames. Each packet in it is a [`QueuedPacket`], and so goes home whatever becomes of the ring; with it goes the word of its
//! heads, which are not closed meanwhile ([`Tally::has_of`]).

use crate::opened::Known;
use crate::registry::HEADS;
use crate::word;
use netmem::packet::QueuedPacket;
use netmem::ring::{Receiver, Sender, ring};
use netmem::{Packet, Worker};
use std::iter;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A packet on its way.
pub struct Passing<P> {
    pub packet: P,
    /// The word of its heads.
    pub heads: u64,
    /// The word of the pool that it was given out of, as far as that was traced.
    pub pool: u64,
}

/// A number that one thread changes at a time. On a line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// What went through a lane, in all or of some heads. Each end writes one of both.
#[derive(Default)]
struct Passed {
    sent: Count,
    came: Count,
}

/// What both ends say of a lane's packets.
#[derive(Default)]
pub struct Tally {
    all: Passed,
    /// By the word of their heads.
    by_heads: Mutex<Vec<(u64, Arc<Passed>)>>,
}

/// The end that sends.
pub struct PacketSender {
    ring: Sender<Passing<QueuedPacket>>,
    /// Packets at most, where the ring has room for more.
    limit: usize,
    passed: Known<Arc<Passed>>,
}

/// The end that receives.
pub struct PacketReceiver {
    ring: Receiver<Passing<QueuedPacket>>,
    passed: Known<Arc<Passed>>,
}

/// Both ends, for so many packets.
pub fn open(packets: u32) -> (PacketSender, PacketReceiver) {
    let (sender, receiver) = ring(packets);
    let sender = PacketSender { ring: sender, limit: packets as usize, passed: Known::new() };
    (sender, PacketReceiver { ring: receiver, passed: Known::new() })
}

impl Count {
    #[inline(always)]
    fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Relaxed);
    }

    #[inline(always)]
    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Passed {
    /// Sent, and not yet come.
    fn waiting(&self) -> u64 {
        // The later number first: it is the smaller one.
        let came = self.came.get();
        self.sent.get().wrapping_sub(came)
    }
}

impl Tally {
    /// Packets that were sent, and that were received.
    pub fn counts(&self) -> (u64, u64) {
        let came = self.all.came.get();
        (self.all.sent.get(), came)
    }

    /// Whether packets of these heads are in the lane.
    pub fn has_of(&self, heads: u64) -> bool {
        self.by_heads().iter().any(|(word, passed)| *word == heads && passed.waiting() > 0)
    }

    fn by_heads(&self) -> MutexGuard<'_, Vec<(u64, Arc<Passed>)>> {
        self.by_heads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of these heads, as an end that knows them finds them; else it gets to know them.
    #[inline(always)]
    fn of<'a>(&self, known: &'a mut Known<Arc<Passed>>, heads: u64) -> Option<&'a Passed> {
        let place = word::place(heads);
        if !matches!(known.get(place), Some(Some((word, _))) if *word == heads) {
            self.get_to_know(known, heads);
        }
        known.get(place)?.as_ref().map(|(_, passed)| &**passed)
    }

    #[cold]
    #[inline(never)]
    fn get_to_know(&self, known: &mut Known<Arc<Passed>>, heads: u64) {
        known.iter_mut().for_each(|known| drop(known.take_if(|(word, _)| !HEADS.is_open(*word))));
        let mut all = self.by_heads();
        // One that an end knows, or that is not done, is one of heads that are about to be closed, and may not be.
        all.retain(|(word, passed)| {
            HEADS.is_open(*word) || Arc::strong_count(passed) > 1 || passed.waiting() > 0
        });
        let found = all.iter().find(|(word, _)| *word == heads).map(|(_, passed)| Arc::clone(passed));
        let passed = found.unwrap_or_else(|| {
            let new = Arc::new(Passed::default());
            all.push((heads, Arc::clone(&new)));
            new
        });
        let place = word::place(heads);
        known.resize_with(known.len().max(place + 1), || None);
        known[place] = Some((heads, passed));
    }
}

impl PacketSender {
    /// Packets that there is room for, at most `want`.
    #[inline(always)]
    pub fn room(&mut self, want: usize) -> usize {
        let spare = self.ring.capacity() - self.limit;
        self.ring.room(want.saturating_add(spare)).saturating_sub(spare)
    }

    /// Sends up to `n` packets, for which there is room, until there is no next one; how many.
    #[inline(always)]
    pub fn send(
        &mut self,
        tally: &Tally,
        w: &Worker,
        n: usize,
        mut next: impl FnMut() -> Option<Passing<Packet>>,
    ) -> usize {
        let PacketSender { ring, passed, .. } = self;
        let mut queued = iter::from_fn(|| {
            let Passing { packet, heads, pool } = next()?;
            // Before it can come.
            tally.all.sent.add(1);
            if let Some(passed) = tally.of(passed, heads) {
                passed.sent.add(1);
            }
            Some(Passing { packet: QueuedPacket::new(packet, w), heads, pool })
        });
        ring.send_burst(n, &mut queued)
    }
}

impl PacketReceiver {
    /// Calls `take` with up to `n` packets, oldest first; how many.
    #[inline(always)]
    pub fn receive(
        &mut self,
        tally: &Tally,
        w: &mut Worker,
        n: usize,
        take: impl FnMut(&mut Worker, Passing<Packet>),
    ) -> usize {
        let came = self.take(tally, w, n, take);
        tally.all.came.add(came as u64);
        came
    }

    /// Whether one waits.
    pub fn waiting(&mut self) -> bool {
        self.ring.ready(1) > 0
    }

    /// Calls `home` with all that wait, which do not count as received; how many.
    #[cold]
    pub fn close(
        mut self,
        tally: &Tally,
        w: &mut Worker,
        home: impl FnMut(&mut Worker, Passing<Packet>),
    ) -> u64 {
        self.take(tally, w, usize::MAX, home) as u64
    }

    #[inline(always)]
    fn take(
        &mut self,
        tally: &Tally,
        w: &mut Worker,
        n: usize,
        mut take: impl FnMut(&mut Worker, Passing<Packet>),
    ) -> usize {
        let PacketReceiver { ring, passed } = self;
        ring.recv_burst(n, |Passing { mut packet, heads, pool }| {
            let Some(packet) = packet.take(w) else { return };
            // It was written on another core.
            packet.prefetch();
            take(w, Passing { packet, heads, pool });
            if let Some(passed) = tally.of(passed, heads) {
                passed.came.add(1);
            }
        })
    }
}
