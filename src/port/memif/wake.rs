//! Wakes a sleeping peer once in each poll round, and now and then reads the socket.

use super::MemifPort;
use super::error::Fault;
use super::pair::Rings;
use super::session::Step;
use crate::port::Wake;
use crate::port::posted::{Posted, free_all};
use crate::sys::errno::of_io;
use crate::sys::event::Watch;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Rounds between two looks at the socket, with a peer.
const LOOK_ROUNDS: u32 = 4096;
/// Longest time between two looks at the socket with a peer, in case rounds are far apart.
const LOOK_TIME: Duration = Duration::from_millis(500);
/// Rounds between two looks at the clock, with a peer.
const CLOCK_ROUNDS: u32 = 32;
/// Rounds between two looks at the socket without a peer. A look is a system call, which is cheap when there is nothing
/// else to do.
const SEEK_ROUNDS: u32 = 64;
/// Longest time between two looks at the socket without a peer, in case rounds are far apart.
const SEEK_TIME: Duration = Duration::from_millis(1);
/// Looks after which packets of a former peer are given up. So the next peer comes although no packets are received.
const LOOKS: u32 = 64;
/// Maximum number of messages that one look reads: more than a correct peer sends.
const MESSAGES: usize = 1024;

impl Wake for MemifPort {
    /// # Cost
    /// Each call looks at each queue's own memory. If packets were sent it loads a word of shared memory, and if the
    /// peer sleeps then it makes a system call. Every 32nd round it reads the clock.
    #[inline]
    fn kick(&mut self) {
        if self.birthplace.is_elsewhere() {
            self.abandon();
            return;
        }
        self.rounds = self.rounds.wrapping_add(1);
        for pair in &mut self.pairs[..self.active] {
            if let Some(rings) = &mut pair.rings
                && std::mem::take(&mut rings.unannounced)
                && rings.tx.wake().is_wanted()
            {
                let is_woken = self.ringer.raise(&rings.peers_bell);
                self.counters.kicks.add(is_woken.into());
                // If it cannot be woken now, the next round tries again.
                rings.unannounced = !is_woken;
            }
        }
        if self.active == 0 {
            self.look(SEEK_ROUNDS, SEEK_TIME);
        } else if self.rounds.is_multiple_of(CLOCK_ROUNDS) {
            self.look(LOOK_ROUNDS, LOOK_TIME);
        }
    }

    /// Asks to be woken from now on.
    #[cold]
    fn arm(&mut self) -> bool {
        if self.birthplace.is_elsewhere() {
            return self.abandon() > 0;
        }
        let before = self.active;
        self.want_wakes(true);
        // A system call stands between the request and the look: packets that a peer sent before it saw the request are
        // found by this look. Messages that arrive later wake us, and earlier ones are read by the next line.
        self.watch.clear();
        self.service();
        if self.active != before {
            // A peer that has just come does not know of the request.
            return true;
        }
        if self.active == 0 || !self.is_watched {
            // The conversation may have a new connection.
            self.watch_anew();
        }
        let rings = self.pairs.iter_mut().filter_map(|pair| pair.rings.as_mut());
        rings.fold(self.conversation.is_mapping(), |something, rings| something | rings.rx.has_packets())
    }

    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        self.is_watched.then(|| self.watch.as_fd())
    }

    /// No longer asks to be woken.
    #[cold]
    fn disarm(&mut self) {
        if self.birthplace.is_elsewhere() {
            self.abandon();
            return;
        }
        self.want_wakes(false);
        self.watch.clear();
        self.service();
    }
}

impl MemifPort {
    /// Reads the socket every `rounds` rounds, or if the last look was `time` ago: for a new peer, or for the peer's
    /// messages.
    #[cold]
    #[inline(never)]
    fn look(&mut self, rounds: u32, time: Duration) {
        if self.rounds.is_multiple_of(rounds) || self.sought.elapsed() >= time {
            self.sought = Instant::now();
            self.service();
        }
    }

    /// Continues the conversation as far as that is possible now.
    #[cold]
    #[inline(never)]
    pub(super) fn service(&mut self) {
        if self.receiving > self.active && !self.has_received_all() {
            return;
        }
        if let Some(lost) = self.lost() {
            return self.fault(&lost);
        }
        for _ in 0..MESSAGES {
            match self.conversation.service() {
                Step::Wait => return,
                Step::Again => {}
                Step::Up(rings, peer) => self.join(rings, peer),
                Step::Down(fault) => return self.fault(&fault),
            }
        }
    }

    /// Begins with a peer, over these rings. Frames that are posted on queues which the peer does not have, and those
    /// that a queue has beyond the mean, are freed to their pools: they count against the port's share, so the other
    /// queues would get none.
    #[cold]
    fn join(&mut self, rings: Vec<Rings>, peer: String) {
        self.active = rings.len().min(self.pairs.len());
        self.receiving = self.active;
        let (used, unused) = self.pairs.split_at_mut(self.active);
        let mut surplus: Vec<Posted> = unused.iter_mut().flat_map(|pair| pair.filled.split_off(0)).collect();
        let posted: usize = used.iter().map(|pair| pair.filled.len()).sum();
        let mean = posted.div_ceil(used.len().max(1));
        for (pair, rings) in used.iter_mut().zip(rings) {
            surplus.extend(pair.filled.split_off(mean));
            let former = pair.join(rings, self.lender, &mut surplus);
            self.counters.completed.add(former as u64);
        }
        self.peer = Some(peer);
        self.watch_anew();
        // Last: to free a frame may run the caller's code, which may panic.
        free_all(surplus);
    }

    /// Watches the descriptors by which a peer can wake the port: the socket, and the eventfd that the peer writes.
    #[cold]
    pub(super) fn watch_anew(&mut self) {
        // One that waits, and is not accepted, would end each sleep at once.
        let is_awaited = self.active > 0 || self.conversation.accepts();
        self.unwatched = match self.watch_of_all() {
            Ok(watch) => {
                self.watch = watch;
                None
            }
            Err(error) => Some(of_io(error)),
        };
        self.is_watched = is_awaited && self.unwatched.is_none();
    }

    fn watch_of_all(&self) -> io::Result<Watch> {
        let watch = Watch::new()?;
        self.conversation.sources().try_for_each(|source| watch.add(source))?;
        let mut rings = self.pairs.iter().filter_map(|pair| pair.rings.as_ref());
        rings.try_for_each(|rings| watch.add(rings.bell.as_fd()))?;
        Ok(watch)
    }

    fn want_wakes(&self, wanted: bool) {
        let rings = self.pairs.iter().filter_map(|pair| pair.rings.as_ref());
        rings.for_each(|rings| rings.rx.wake().want(wanted));
    }

    /// Ends the connection because of `fault`. If the peer ended it, what it sent before is still received. Frames that
    /// were sent come back by `complete`. Those posted for reception stay, for the next peer's packets.
    #[cold]
    #[inline(never)]
    pub(super) fn fault(&mut self, fault: &Fault) {
        // What was read of lost memory was invalid for that reason.
        let lost = self.lost();
        let fault = lost.as_ref().unwrap_or(fault);
        if fault.is_descriptor() {
            self.counters.bad_descriptor.add(1);
        }
        // Once for each connection: it is active until here.
        if self.active > 0 {
            let unread = self.pairs.iter_mut().map(|pair| pair.unacknowledged() as u64).sum();
            self.counters.tx_left_unread.add(unread);
        }
        self.conversation.disconnect(fault);
        self.active = 0;
        self.peer = None;
        self.down = fault.to_string();
        self.looks = if fault.is_the_peers() { LOOKS } else { 0 };
        self.has_received_all();
        self.watch_anew();
    }

    /// Returns whether memory shared with the peer is lost. All queues have the same memory.
    #[cold]
    fn lost(&self) -> Option<Fault> {
        let rings = self.pairs.first()?.rings.as_ref()?;
        rings.rx.lost().map(Fault::Lost)
    }

    /// Whether `fault` means that a peer which is gone left in the middle of a packet of this queue. That is not a
    /// fault of the peer. The rest of this queue is then given up. The other queues are still received.
    #[cold]
    #[inline(never)]
    pub(super) fn ends_within_a_packet(&mut self, queue: usize, fault: &Fault) -> bool {
        let is_so =
            matches!(fault, Fault::Endless | Fault::Unfinished) && self.active == 0 && self.receiving > 0;
        if is_so && let Some(mut rings) = self.pairs[queue].rings.take() {
            self.counters.rx_dropped.add(rings.rx.unread().into());
        }
        is_so
    }

    /// Whether all packets of the former peer have been received or are given up. If so, its rings are dropped.
    #[cold]
    fn has_received_all(&mut self) -> bool {
        let rings = self.pairs.iter_mut().filter_map(|pair| pair.rings.as_mut());
        let unread = rings.map(|rings| u64::from(rings.rx.unread())).sum();
        if unread > 0 && self.looks > 0 {
            self.looks -= 1;
            return false;
        }
        self.counters.rx_dropped.add(unread);
        self.pairs.iter_mut().for_each(|pair| pair.rings = None);
        self.receiving = 0;
        self.turn = 0;
        true
    }
}
