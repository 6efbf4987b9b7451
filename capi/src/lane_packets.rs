//! HOT: the packets of a lane.
//!
//! A ring beside the one of the frames. Each packet in it is a [`QueuedPacket`], and so goes home whatever becomes of the ring; with it goes the word of its
//! heads, which are not closed meanwhile ([`Tally::has_of`]).

use crate::opened::Known;
use crate::registry::HEADS;
use crate::word;
use netmem::limits::BATCH_MAX;
use netmem::packet::QueuedPacket;
use netmem::ring::{Receiver, Sender, ring};
use netmem::{HeadCache, Packets, Worker};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A packet on its way.
struct Passing {
    packet: QueuedPacket,
    mark: Mark,
}

/// What goes with a packet.
#[derive(Clone, Copy, Default)]
pub struct Mark {
    /// The word of its heads.
    pub heads: u64,
    /// The word of the pool that it was given out of, as far as that was traced.
    pub pool: u64,
}

/// The marks of a burst.
pub type Marks = [Mark; BATCH_MAX];

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
    ring: Sender<Passing>,
    /// Packets at most, where the ring has room for more.
    limit: usize,
    passed: Known<Arc<Passed>>,
    /// Of the packets that are to be sent.
    pub marks: Marks,
}

/// The end that receives.
pub struct PacketReceiver {
    ring: Receiver<Passing>,
    passed: Known<Arc<Passed>>,
    /// Of the packets that came last.
    pub marks: Marks,
}

/// Both ends, for so many packets.
pub fn open(packets: u32) -> (PacketSender, PacketReceiver) {
    let ((sender, receiver), marks) = (ring(packets), [Mark::default(); BATCH_MAX]);
    let sender = PacketSender { ring: sender, limit: packets as usize, passed: Known::new(), marks };
    (sender, PacketReceiver { ring: receiver, passed: Known::new(), marks })
}

impl Count {
    #[inline(always)]
    fn add(&self, n: u64) {
        // Release: pairs with the Acquire in `get`. Who sees that packets came sees that they were sent, which their receiver has seen.
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Release);
    }

    #[inline(always)]
    fn get(&self) -> u64 {
        // Acquire: pairs with the Release in `add`.
        self.0.load(Acquire)
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

    /// Adds packets, which an end that knows them has, to one of the numbers.
    #[inline(always)]
    fn add(&self, known: &mut Known<Arc<Passed>>, marks: &[Mark], to: fn(&Passed) -> &Count) {
        for run in marks.chunk_by(|one, next| one.heads == next.heads) {
            if let Some(passed) = run.first().and_then(|mark| self.of(known, mark.heads)) {
                to(passed).add(run.len() as u64);
            }
        }
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

    /// Sends packets, for all of which there is room; how many.
    #[inline(always)]
    pub fn send(&mut self, tally: &Tally, w: &Worker, packets: &mut Packets) -> usize {
        let marks = &self.marks[..packets.len()];
        // Before they can come.
        tally.add(&mut self.passed, marks, |passed| &passed.sent);
        tally.all.sent.add(marks.len() as u64);
        let mut marks = marks.iter();
        packets.send_queued(w, &mut self.ring, |packet| Passing {
            packet,
            mark: marks.next().copied().unwrap_or_default(),
        })
    }
}

impl PacketReceiver {
    /// Appends up to `n` packets, oldest first, to none; how many. [`PacketReceiver::finish`] says later that they are somewhere else.
    #[inline(always)]
    pub fn receive(&mut self, w: &Worker, n: usize, packets: &mut Packets) -> usize {
        let mut places = self.marks.iter_mut();
        packets.receive_queued(w, &mut self.ring, n, |Passing { packet, mark }| {
            if let Some(place) = places.next() {
                *place = mark;
            }
            packet
        })
    }

    /// The `n` packets that came last have words.
    #[inline(always)]
    pub fn finish(&mut self, tally: &Tally, n: usize) {
        tally.add(&mut self.passed, &self.marks[..n], |passed| &passed.came);
        tally.all.came.add(n as u64);
    }

    /// Whether one waits.
    pub fn waiting(&mut self) -> bool {
        self.ring.ready(1) > 0
    }

    /// Closes the end: what waits goes home, by those heads that the worker knows. How many packets those were, which do not count as received.
    #[cold]
    pub fn close(
        mut self,
        tally: &Tally,
        w: &mut Worker,
        known: &mut Known<HeadCache>,
        packets: &mut Packets,
    ) -> u64 {
        let mut home = 0;
        loop {
            let n = self.receive(w, BATCH_MAX, packets);
            if n == 0 {
                return home;
            }
            for (packet, mark) in packets.drain().zip(&self.marks) {
                match HEADS.of_part(known, mark.heads) {
                    Some(heads) => heads.free(w, packet),
                    // They were closed meanwhile: by the slow way.
                    None => drop(packet),
                }
            }
            tally.add(&mut self.passed, &self.marks[..n], |passed| &passed.came);
            home += n as u64;
        }
    }
}
