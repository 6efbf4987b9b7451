//! The packets in the socket's buffer, by the counts of the kernel and of the port.

use std::cell::Cell;

/// The packets that came into the socket's buffer, and those that the port took out of it.
///
/// The kernel counts a packet when it puts it into the buffer. A packet for which the buffer has no room is counted
/// separately. The removal of the interface leaves the buffer as it is (packet_notifier of net/packet/af_packet.c).
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Packets that came, as far as the kernel was asked.
    come: Cell<u64>,
    taken: u64,
    /// The number of packets at the last [`Backlog::is_over`].
    before: Option<u64>,
}

impl Backlog {
    /// Counts packets that came into the buffer since the kernel was last asked.
    pub(super) fn come(&self, packets: u32) {
        self.come.set(self.come.get() + u64::from(packets));
    }

    /// Counts packets that were taken out of the buffer.
    #[inline]
    pub(super) fn take(&mut self, packets: usize) {
        self.taken += packets as u64;
    }

    /// Number of packets in the buffer.
    pub(super) fn len(&self) -> u64 {
        self.come.get().saturating_sub(self.taken)
    }

    /// Returns whether the buffer is empty, or nothing was taken out of it since the last call.
    pub(super) fn is_over(&mut self) -> bool {
        let len = self.len();
        self.before.replace(len) == Some(len) || len == 0
    }

    /// Takes all packets out of the count. Returns their number.
    pub(super) fn give_up(&mut self) -> u64 {
        let len = self.len();
        self.taken += len;
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_over_when_it_is_empty_or_nothing_is_taken_between_two_looks() {
        let mut backlog = Backlog::default();
        assert!(backlog.is_over(), "nothing came");
        backlog.come(5);
        assert!(!backlog.is_over());
        backlog.take(2);
        assert!(!backlog.is_over(), "some are taken");
        assert_eq!((backlog.len(), backlog.is_over()), (3, true));
        backlog.take(3);
        assert!(backlog.is_over());
        // They are taken before the kernel is asked.
        backlog.take(1);
        assert_eq!(backlog.len(), 0);
        backlog.come(1);
        assert_eq!(backlog.len(), 0);
    }

    #[test]
    fn packets_that_are_given_up_are_counted_once() {
        let mut backlog = Backlog::default();
        backlog.come(5);
        backlog.take(2);
        assert_eq!((backlog.give_up(), backlog.give_up(), backlog.len()), (3, 0, 0));
        backlog.come(1);
        assert_eq!(backlog.give_up(), 1);
    }
}
