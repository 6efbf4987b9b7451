//! Wake-ups, once a poll round: a look at two flags, and a system call only if the kernel asked for one.

use super::absence::Presence;
use super::{Binding, Fault, KernelCounts, XdpPort};
use crate::port;
use crate::sys::errno::Errno;
use crate::sys::xdp::Wake;
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};

/// Rounds between two looks at the interface and the kernel's counters.
const LOOK_ROUNDS: u32 = 4096;
/// Rounds between two wake-ups for frames that the kernel took and has not completed.
const COMPLETION_ROUNDS: u32 = 64;
/// Maximum number of sends in a row: kernels before 6.17 take 32 frames at a time.
const SENDS_MAX: u32 = 8;

/// What a wake-up that the kernel refuses is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The program is missing, and is put back.
    Program,
    /// The interface is down.
    Link,
    /// The interface is gone.
    Interface,
    Socket(Errno),
}

impl port::Wake for XdpPort {
    /// # Cost
    /// Without frames in flight, one load of a flag. In copy mode the kernel sends inside this call.
    #[inline]
    fn kick(&mut self) {
        if self.birthplace.is_elsewhere() {
            self.abandon();
            return;
        }
        self.rounds = self.rounds.wrapping_add(1);
        let Some(queues) = &mut self.queues else { return self.look_now_and_then() };
        if self.sent.count() > 0 && !self.link_down && queues.tx.needs_wakeup() {
            // Copy mode always asks, so check whether there is anything to send. Frames that the kernel took are
            // completed without a call by most drivers. Others complete them only with the next send; this is the next
            // send.
            let late = self.rounds.is_multiple_of(COMPLETION_ROUNDS);
            match queues.tx.unsent() {
                Ok(0) if !late => {}
                Ok(unsent) => self.send(unsent),
                Err(corrupt) => self.fault(&Fault::Corrupt("TX", corrupt)),
            }
        }
        if self.queues.as_ref().is_some_and(|queues| queues.fill.needs_wakeup()) {
            self.wake_rx();
        }
        self.look_now_and_then();
    }

    /// Looks at the interface. While the worker sleeps, the check of every so many rounds does not run. A removal wakes
    /// no sleeper: the kernel signals it, but a poll of a socket that is no longer bound does not see the signal
    /// (xsk_poll of Linux 6.18). So every sleep needs a limit.
    #[cold]
    fn arm(&mut self) -> bool {
        if self.birthplace.is_elsewhere() {
            return self.abandon() > 0;
        }
        if let Some(Binding { socket, watch, is_watched, .. }) = &mut self.binding {
            // Only while the worker sleeps: for a watched socket, the kernel takes the watch's lock for each packet
            // that comes.
            *is_watched = watch.add(socket.as_fd()).is_ok();
            watch.clear();
        }
        self.look();
        self.queues.as_mut().is_some_and(|queues| queues.rx.is_ready())
            || self.gather.as_ref().is_some_and(|gather| gather.is_waiting())
    }

    /// The descriptor that watches the socket, while it can be trusted and watched.
    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        self.queues.as_ref()?;
        self.binding.as_ref().filter(|binding| binding.is_watched).map(|binding| binding.watch.as_fd())
    }

    #[cold]
    fn disarm(&mut self) {
        // The watch is shared with the process that opened it.
        if self.birthplace.is_elsewhere() {
            return;
        }
        if let Some(Binding { socket, watch, .. }) = &self.binding {
            watch.remove(socket.as_fd());
        }
    }
}

impl XdpPort {
    /// Whether no event of the socket wakes a sleeper, because it cannot be watched.
    pub(super) fn is_unwatched(&self) -> bool {
        self.binding.as_ref().is_some_and(|binding| !binding.is_watched)
    }

    #[inline]
    fn look_now_and_then(&mut self) {
        if self.rounds.is_multiple_of(LOOK_ROUNDS) {
            self.look();
        }
    }

    /// Makes the kernel send, again while it takes some frames and leaves some.
    fn send(&mut self, mut unsent: u32) {
        for _ in 0..SENDS_MAX {
            let (Some(binding), Some(queues)) = (&self.binding, &mut self.queues) else { return };
            self.counters.kicks.add(1);
            let wake = binding.socket.wake_tx();
            let left = queues.tx.unsent();
            self.heed(wake);
            match left {
                Ok(left) if wake == Wake::Again && 0 < left && left < unsent => unsent = left,
                Ok(_) => return,
                Err(corrupt) => return self.fault(&Fault::Corrupt("TX", corrupt)),
            }
        }
    }

    fn wake_rx(&mut self) {
        let Some(binding) = &self.binding else { return };
        self.counters.kicks.add(1);
        let wake = binding.socket.wake_rx();
        self.heed(wake);
    }

    /// Checks whether the interface still exists and is up, and publishes the kernel's counts.
    #[cold]
    #[inline(never)]
    fn look(&mut self) {
        if self.presence != Presence::Here {
            return self.step();
        }
        let Some(binding) = &self.binding else { return };
        match binding.socket.wake_rx() {
            // Too slow for every round in which the interface is down.
            Wake::Down(Errno::NETDOWN) if self.zero_copy => self.heed_refusal(Errno::NETDOWN),
            wake => self.heed(wake),
        }
        self.publish_statistics();
        self.look_after_health();
    }

    /// Handles the result of a wake-up. An interface that is set down may come up again, one that was removed may be
    /// made again, and a program that was detached is attached again. Other failures are permanent.
    #[inline]
    fn heed(&mut self, wake: Wake) {
        match wake {
            Wake::Done | Wake::Again => self.link_down = self.presence != Presence::Here,
            Wake::Down(Errno::NETDOWN) => self.link_down = true,
            Wake::Down(errno) => self.heed_refusal(errno),
        }
    }

    /// Handles a wake-up that the kernel refuses.
    #[cold]
    #[inline(never)]
    fn heed_refusal(&mut self, errno: Errno) {
        // Whether the program is there is asked last: the kernel answers under its lock of all interfaces.
        let is_down = errno == Errno::NETDOWN && self.netdev.is_up_at_once() != Ok(true);
        let lacks_program = !is_down && self.zero_copy && self.lacks_program();
        match Refusal::of(errno, lacks_program, || self.is_there()) {
            Refusal::Program => self.link_down = self.presence != Presence::Here,
            Refusal::Link => self.link_down = true,
            Refusal::Interface => self.lose(),
            Refusal::Socket(errno) => self.fault(&Fault::Broken(errno)),
        }
    }

    /// Leaves out what the kernel has counted so far: no packet was for this socket. A driver that is zero-copy counts each
    /// look at a FILL ring that is still empty.
    #[cold]
    pub(super) fn skip_statistics(&self) {
        self.published.set(self.kernels_counts().unwrap_or_default());
    }

    /// Returns what the kernel has counted for this socket.
    fn kernels_counts(&self) -> Option<KernelCounts> {
        let kernel = self.binding.as_ref()?.socket.statistics().ok()?;
        let no_frame = kernel.rx_fill_ring_empty_descs.unwrap_or(0);
        // In copy mode the kernel counts a packet without a frame twice: as this and as dropped.
        let twice = if self.zero_copy { 0 } else { no_frame };
        Some(KernelCounts {
            rx_no_frame: no_frame,
            rx_ring_full: kernel.rx_ring_full.unwrap_or(0),
            rx_dropped: kernel.rx_dropped.saturating_sub(twice) + kernel.rx_invalid_descs,
            tx_invalid: kernel.tx_invalid_descs,
        })
    }

    /// Adds to the port's counters what the kernel has counted for this socket since the last call.
    #[cold]
    pub(super) fn publish_statistics(&self) {
        let Some(binding) = &self.binding else { return };
        self.counters.rx_kernel.add(newly_left(&self.left, binding.attachment.left(self.queue)));
        let Some(now) = self.kernels_counts() else { return };
        let published = self.published.replace(now);
        self.counters.rx_no_frame.add(now.rx_no_frame.saturating_sub(published.rx_no_frame));
        self.counters.rx_ring_full.add(now.rx_ring_full.saturating_sub(published.rx_ring_full));
        self.counters.rx_dropped.add(now.rx_dropped.saturating_sub(published.rx_dropped));
        self.counters.tx_invalid.add(now.tx_invalid.saturating_sub(published.tx_invalid));
    }
}

/// Returns by how much a count has grown since it was `last` read. If it could not be read now, the next reading tells.
fn newly_left(last: &Cell<Option<u64>>, now: Option<u64>) -> u64 {
    let Some(now) = now else { return 0 };
    last.replace(Some(now)).map_or(0, |last| now.saturating_sub(last))
}

impl Refusal {
    /// Tells why the kernel refuses with `errno`. A driver refuses the wake-ups of a zero-copy socket while no program is
    /// attached (as ixgbe by ENXIO, i40e by EINVAL, and mlx5 by ENETDOWN). ENXIO also means that the interface is gone,
    /// which takes a program with it that is missing already and can never be put back. ENETDOWN also means that the
    /// interface is down; the caller passes false for `lacks_program` then.
    #[cold]
    fn of(errno: Errno, lacks_program: bool, is_there: impl FnOnce() -> bool) -> Refusal {
        if errno == Errno::NETDOWN && !lacks_program {
            return Refusal::Link;
        }
        if errno == Errno::NXIO && !(lacks_program && is_there()) {
            Refusal::Interface
        } else if lacks_program {
            Refusal::Program
        } else {
            Refusal::Socket(errno)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found in a review: after one failed reading, all packets since the start were counted once more.
    #[test]
    fn packets_left_to_the_kernel_count_once_though_a_reading_of_their_number_fails() {
        let last = Cell::new(Some(0));
        assert_eq!([Some(5), None, Some(9)].map(|now| newly_left(&last, now)), [5, 0, 4]);
        let unknown = Cell::new(None);
        assert_eq!([None, Some(7), Some(8)].map(|now| newly_left(&unknown, now)), [0, 0, 1]);
    }

    fn not_asked() -> bool {
        panic!("the errno says enough")
    }

    /// Found: the port was down for its program, and stayed down when there was an interface of its name again.
    #[test]
    fn a_zero_copy_port_whose_program_could_not_be_put_back_notices_that_its_interface_was_removed() {
        assert_eq!(Refusal::of(Errno::NXIO, true, || false), Refusal::Interface);
        assert_eq!(Refusal::of(Errno::NXIO, true, || true), Refusal::Program);
        assert_eq!(Refusal::of(Errno::NXIO, false, not_asked), Refusal::Interface);
    }

    #[test]
    fn a_driver_that_refuses_for_want_of_a_program_breaks_no_socket() {
        assert_eq!(Refusal::of(Errno::INVAL, true, not_asked), Refusal::Program);
        assert_eq!(Refusal::of(Errno::INVAL, false, not_asked), Refusal::Socket(Errno::INVAL));
    }

    /// Found: mlx5 refuses by ENETDOWN without a program, so the port called its interface down and put no program back.
    #[test]
    fn an_interface_that_is_up_without_its_program_is_not_called_down() {
        assert_eq!(Refusal::of(Errno::NETDOWN, true, not_asked), Refusal::Program);
        assert_eq!(Refusal::of(Errno::NETDOWN, false, not_asked), Refusal::Link);
    }
}
