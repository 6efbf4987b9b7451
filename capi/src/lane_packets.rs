//! HOT: the packets of a lane.
//!
//! Packets have a ring next to the ring of the frames. Each packet in it is a [`QueuedPacket`], so it is freed even if
//! the ring is dropped. The handle of its heads travels with it, and the heads cannot be closed before it arrives
//! ([`Tally::has_of`]).

use crate::opened::Known;
use crate::registry::HEADS;
use crate::word;
use netmem::limits::BATCH_MAX;
use netmem::packet::QueuedPacket;
use netmem::ring::{Receiver, Sender, try_ring};
use netmem::{HeadCache, Packets, Worker};
use std::collections::TryReserveError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A packet in a lane.
struct Passing {
    packet: QueuedPacket,
    mark: Mark,
}

/// The data that travels with a packet.
#[derive(Clone, Copy, Default)]
pub struct Mark {
    /// The handle of its heads.
    pub heads: u64,
    /// The handle of the pool that the packet was allocated from, as far as tracing recorded it.
    pub pool: u64,
}

/// The marks of a burst.
pub type Marks = [Mark; BATCH_MAX];

/// A number that one thread at a time changes. It has its own cache lines.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// The number of packets that entered and left a lane: all of them, or those of some heads. Each end writes
/// one of the two counts.
#[derive(Default)]
struct Passed {
    sent: Count,
    came: Count,
}

/// The counts of a lane's packets, which both ends write.
#[derive(Default)]
pub struct Tally {
    all: Passed,
    /// By the handle of the heads.
    by_heads: Mutex<Vec<(u64, Arc<Passed>)>>,
}

/// The sending end.
pub struct PacketSender {
    ring: Sender<Passing>,
    /// Maximum number of packets. The ring may have room for more.
    limit: usize,
    passed: Known<Arc<Passed>>,
    /// The marks of the packets that are to be sent.
    pub marks: Marks,
}

/// The receiving end.
pub struct PacketReceiver {
    ring: Receiver<Passing>,
    passed: Known<Arc<Passed>>,
    /// The marks of the packets that arrived last.
    pub marks: Marks,
}

/// Makes both ends of a ring for this number of packets.
///
/// # Errors
/// There is no memory for its slots.
pub fn open(packets: u32) -> Result<(PacketSender, PacketReceiver), TryReserveError> {
    let ((sender, receiver), marks) = (try_ring(packets)?, [Mark::default(); BATCH_MAX]);
    let sender = PacketSender { ring: sender, limit: packets as usize, passed: Known::new(), marks };
    Ok((sender, PacketReceiver { ring: receiver, passed: Known::new(), marks }))
}

impl Count {
    #[inline(always)]
    fn add(&self, n: u64) {
        // Release: pairs with the Acquire in `get`. A thread that sees that packets arrived also sees that
        // they were sent, because their receiver saw it.
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Release);
    }

    #[inline(always)]
    fn get(&self) -> u64 {
        // Acquire: pairs with the Release in `add`.
        self.0.load(Acquire)
    }
}

impl Passed {
    /// Returns the number of packets that were sent and have not arrived.
    fn waiting(&self) -> u64 {
        // Reads the smaller count first. The other one only grows.
        let came = self.came.get();
        self.sent.get().wrapping_sub(came)
    }
}

impl Tally {
    /// Returns the number of packets sent, and of packets received.
    pub fn counts(&self) -> (u64, u64) {
        let came = self.all.came.get();
        (self.all.sent.get(), came)
    }

    /// Whether packets of these heads are in the lane.
    pub fn has_of(&self, heads: u64) -> bool {
        self.by_heads().iter().any(|(word, passed)| *word == heads && passed.waiting() > 0)
    }

    /// Adds the packets of these marks to one of the two counts of their heads. `known` is the end's table of
    /// counts.
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

    /// Returns the counts of these heads, from the end's table of known counts. If the counts are not in the
    /// table, looks them up and adds them.
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
        // Counts that an end still refers to, or that are not equal yet, belong to heads that a call tries to
        // close and that may stay open.
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
    /// Returns the number of packets that the lane has room for, at most `want`.
    #[inline(always)]
    pub fn room(&mut self, want: usize) -> usize {
        let spare = self.ring.capacity() - self.limit;
        self.ring.room(want.saturating_add(spare)).saturating_sub(spare)
    }

    /// Sends packets. There must be room for all of them. Returns the number sent.
    #[inline(always)]
    pub fn send(&mut self, tally: &Tally, w: &Worker, packets: &mut Packets) -> usize {
        let marks = &self.marks[..packets.len()];
        // Counted before the packets can arrive.
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
    /// Receives up to `n` packets into `packets`, which must be empty, oldest first. Returns the number
    /// received. Call [`PacketReceiver::finish`] after the packets have handles.
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

    /// Counts the `n` packets received last as arrived. Call it after they have handles.
    #[inline(always)]
    pub fn finish(&mut self, tally: &Tally, n: usize) {
        tally.add(&mut self.passed, &self.marks[..n], |passed| &passed.came);
        tally.all.came.add(n as u64);
    }

    /// Whether a packet waits.
    pub fn waiting(&mut self) -> bool {
        self.ring.ready(1) > 0
    }

    /// Closes the end and frees the waiting packets to the heads that the worker, one of `memory`, has looked up. Returns
    /// the number of packets freed. They do not count as received.
    #[cold]
    pub fn close(
        mut self,
        tally: &Tally,
        (w, memory): (&mut Worker, u64),
        known: &mut Known<HeadCache>,
        packets: &mut Packets,
    ) -> u64 {
        let mut freed = 0;
        loop {
            let n = self.receive(w, BATCH_MAX, packets);
            if n == 0 {
                return freed;
            }
            for (packet, mark) in packets.drain().zip(&self.marks) {
                match HEADS.of_part(known, memory, mark.heads) {
                    Some(heads) => heads.free(w, packet),
                    // The heads were closed: frees the packet on the slow path.
                    None => drop(packet),
                }
            }
            tally.add(&mut self.passed, &self.marks[..n], |passed| &passed.came);
            freed += n as u64;
        }
    }
}
