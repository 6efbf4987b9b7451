//! Events that were read and have not been applied yet.

use crate::socket::Received;
use crate::translate::Event;
use std::io;

/// The events read from the event socket, in order.
#[derive(Debug, Default)]
pub(crate) struct PendingEvents {
    pub(crate) events: Vec<Event>,
    /// Number of messages that could not be read.
    pub(crate) unread: u64,
    /// Number of datagrams from other programs.
    pub(crate) forged: u64,
    /// The network addresses of the IPv4 routes that were removed.
    pub(crate) removed_ipv4: Vec<u32>,
    /// Number of times that events were lost.
    pub(crate) overruns: u64,
    /// Number of events that came before the last loss.
    before_loss: usize,
    /// The last read left nothing in the socket.
    pub(crate) is_drained: bool,
}

impl PendingEvents {
    /// Reads at most `at_most` datagrams, until there are no more. Returns true if all were read, none was lost,
    /// and none may have removed an IPv6 route.
    pub(crate) fn read(
        &mut self,
        at_most: usize,
        mut read: impl FnMut(&mut Vec<Event>) -> io::Result<Received>,
    ) -> io::Result<bool> {
        let mut quiet = true;
        self.is_drained = false;
        for _ in 0..at_most {
            match read(&mut self.events)? {
                Received::Empty => {
                    self.is_drained = true;
                    break;
                }
                Received::Forged => self.forged += 1,
                Received::Overrun => {
                    (self.overruns, self.before_loss) = (self.overruns + 1, self.events.len());
                    quiet = false;
                }
                Received::Datagram { unread, removes_ipv6_route, mut removed_ipv4 } => {
                    self.removed_ipv4.append(&mut removed_ipv4);
                    self.unread += unread as u64;
                    quiet &= unread == 0 && !removes_ipv6_route;
                }
            }
        }
        Ok(quiet && self.is_drained)
    }

    /// Takes the events that came before events were lost. An event that undid one of them may be among the lost
    /// ones, so they must not be applied to a newer answer.
    pub(crate) fn take_before_loss(&mut self) -> PendingEvents {
        let later = self.events.split_off(std::mem::take(&mut self.before_loss));
        PendingEvents { events: std::mem::replace(&mut self.events, later), ..PendingEvents::default() }
    }
}
