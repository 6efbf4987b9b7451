//! Once a poll round: wakes the peer where it sleeps, and now and then hears what it says.

use super::MemifPort;
use super::error::Fault;
use super::session::Step;
use crate::port::Wake;
use crate::sys::event::Watch;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Rounds between two looks at the socket, with a peer.
const LOOK_ROUNDS: u32 = 4096;
/// And so long after the last look at the latest, as far as the clock is read: where rounds are far apart.
const LOOK_TIME: Duration = Duration::from_millis(500);
/// Rounds between two looks at the clock, with a peer.
const CLOCK_ROUNDS: u32 = 32;
/// The same without one: a look is a system call that is cheap when there is nothing else to do.
const SEEK_ROUNDS: u32 = 64;
/// And so long after the last look at the latest, where rounds are far apart.
const SEEK_TIME: Duration = Duration::from_millis(1);
/// Looks after which packets that a former peer left are given up: where nobody receives, the next peer comes all the same.
const LOOKS: u32 = 64;
/// Messages heard at once at most: more than a sane peer has to say.
const MESSAGES: usize = 1024;

impl Wake for MemifPort {
    /// # Cost
    /// A look at each queue's own memory; a load of shared memory where something was sent, and a system call where the peer
    /// sleeps then. In one round of 32 the clock is read.
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
                self.counters.kicks.add(1);
                // Where it cannot be rung now, it is in the next round.
                rings.unannounced = !self.ringer.raise(&rings.peers_bell);
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
        // A system call stands between the wish and the look: a peer that sent before it saw the wish is seen here. What is
        // said after this is woken for, and what was said before is heard by the next line.
        self.watch.clear();
        self.service();
        if self.active != before {
            // A peer that came has not been told of the wish.
            return true;
        }
        if self.active == 0 {
            // The conversation may have got a connection.
            self.watch_anew();
        }
        let rings = self.pairs.iter_mut().filter_map(|pair| pair.rings.as_mut());
        rings.fold(false, |something, rings| something | rings.rx.has_packets())
    }

    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watch.as_fd())
    }

    /// Asks no more to be woken.
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
    /// Looks at the socket every `rounds` rounds, or if the last look was `time` ago: for a peer, or for its messages.
    #[cold]
    #[inline(never)]
    fn look(&mut self, rounds: u32, time: Duration) {
        if self.rounds.is_multiple_of(rounds) || self.sought.elapsed() >= time {
            self.sought = Instant::now();
            self.service();
        }
    }

    /// Goes on with the conversation as far as that is possible now.
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
                Step::Up(rings, peer) => {
                    self.active = rings.len().min(self.pairs.len());
                    self.receiving = self.active;
                    for (pair, rings) in self.pairs.iter_mut().zip(rings) {
                        let former = pair.join(rings, self.lender);
                        self.counters.completed.add(former as u64);
                    }
                    self.peer = Some(peer);
                    self.watch_anew();
                }
                Step::Down(fault) => return self.fault(&fault),
            }
        }
    }

    /// Watches what a peer may be heard by: the socket, and what it rings.
    #[cold]
    pub(super) fn watch_anew(&mut self) {
        // Out of descriptors, the port is polled when a sleep's time is up.
        let Ok(watch) = Watch::new() else { return };
        self.conversation.sources().for_each(|source| watch.add(source));
        let rings = self.pairs.iter().filter_map(|pair| pair.rings.as_ref());
        rings.for_each(|rings| watch.add(rings.bell.as_fd()));
        self.watch = watch;
    }

    fn want_wakes(&self, wanted: bool) {
        let rings = self.pairs.iter().filter_map(|pair| pair.rings.as_ref());
        rings.for_each(|rings| rings.rx.wake().want(wanted));
    }

    /// Ends the connection because of `fault`. Where the peer ended it, what it sent before that is still received. Frames
    /// that were sent come back by `complete`; those posted for reception stay, for the next peer's packets.
    #[cold]
    #[inline(never)]
    pub(super) fn fault(&mut self, fault: &Fault) {
        // What was read of lost memory made no sense for that reason.
        let lost = self.lost();
        let fault = lost.as_ref().unwrap_or(fault);
        if fault.is_descriptor() {
            self.counters.bad_descriptor.add(1);
        }
        self.conversation.hang_up(fault);
        self.active = 0;
        self.peer = None;
        self.down = fault.to_string();
        self.looks = if fault.is_the_peers() { LOOKS } else { 0 };
        self.has_received_all();
        self.watch_anew();
    }

    /// That memory of the peer is lost, if it is: all queues have the same.
    #[cold]
    fn lost(&self) -> Option<Fault> {
        let rings = self.pairs.first()?.rings.as_ref()?;
        rings.rx.lost().map(Fault::Lost)
    }

    /// Whether `fault` is that a peer that is gone went in the middle of a packet of this queue, which makes it no worse a
    /// peer. The rest of this queue is given up then; what waits in the others is still received.
    #[cold]
    #[inline(never)]
    pub(super) fn ends_within_a_packet(&mut self, queue: usize, fault: &Fault) -> bool {
        let is_so = matches!(fault, Fault::Endless) && self.active == 0 && self.receiving > 0;
        if is_so && let Some(mut rings) = self.pairs[queue].rings.take() {
            self.counters.rx_dropped.add(rings.rx.unread().into());
        }
        is_so
    }

    /// Whether all that the former peer sent has been received, or is given up; then its rings are gone.
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
