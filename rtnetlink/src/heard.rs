//! Events that were read and are not taken note of yet.

use crate::socket::Received;
use crate::translate::Event;
use std::io;

/// What was read of the socket of events, in order.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) events: Vec<Event>,
    /// Messages that could not be read.
    pub(crate) unread: u64,
    /// Datagrams of other programs.
    pub(crate) forged: u64,
    /// How often events were lost.
    pub(crate) overruns: u64,
    /// So many of the events were said before some were lost.
    before_loss: usize,
    /// The last read left nothing in the socket.
    pub(crate) all: bool,
}

impl Heard {
    /// Reads datagrams until there is none, `at_most` so many; whether all were read, none was lost, and none said that an
    /// IPv6 route was removed.
    pub(crate) fn read(
        &mut self,
        at_most: usize,
        mut read: impl FnMut(&mut Vec<Event>) -> io::Result<Received>,
    ) -> io::Result<bool> {
        let mut quiet = true;
        self.all = false;
        for _ in 0..at_most {
            match read(&mut self.events)? {
                Received::Nothing => {
                    self.all = true;
                    break;
                }
                Received::Forged => self.forged += 1,
                Received::TooMuch => {
                    (self.overruns, self.before_loss) = (self.overruns + 1, self.events.len());
                    quiet = false;
                }
                Received::Some { unread, removes_ipv6_route } => {
                    self.unread += unread as u64;
                    quiet &= unread == 0 && !removes_ipv6_route;
                }
            }
        }
        Ok(quiet && self.all)
    }

    /// Takes out what was said before events were lost: what undid it may be among those lost, so that it must not be done
    /// to what was told later.
    pub(crate) fn take_before_loss(&mut self) -> Heard {
        let later = self.events.split_off(std::mem::take(&mut self.before_loss));
        Heard { events: std::mem::replace(&mut self.events, later), ..Heard::default() }
    }
}
