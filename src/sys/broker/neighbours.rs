//! The neighbours for which the broker lets a process ask: those on its interfaces, and only so many a second.

use rustix::io::Errno;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Maximum number of requests in [`INTERVAL`]. A router asks for some thousands while it learns a network.
const MOST: u32 = 16_384;
const INTERVAL: Duration = Duration::from_secs(1);
/// The minimum time between two looks at which interfaces have the names. A process may name any number.
const LOOK: Duration = Duration::from_millis(100);

/// The limits of a process's requests for neighbours.
#[derive(Debug)]
pub(super) struct Neighbours {
    /// The numbers that interfaces of the given names have had so far. A port stays with its interface if that is
    /// renamed.
    links: BTreeSet<u32>,
    /// The time of the last look at the names.
    looked: Option<Instant>,
    /// The time at which the current interval began, and the requests in it.
    since: Option<Instant>,
    asked: u32,
}

impl Neighbours {
    /// Makes the limits of a process whose interfaces have these numbers now.
    pub(super) fn of(links: impl IntoIterator<Item = u32>) -> Neighbours {
        Neighbours { links: links.into_iter().collect(), looked: None, since: None, asked: 0 }
    }

    /// Admits a request for a neighbour on a link at the time `now`. `current` returns the numbers that the interfaces
    /// have by then.
    ///
    /// # Errors
    /// `ACCESS` for another interface, `AGAIN` if there were too many requests.
    pub(super) fn admit<T: IntoIterator<Item = u32>>(
        &mut self,
        link: u32,
        now: Instant,
        current: impl FnOnce() -> T,
    ) -> Result<(), Errno> {
        let is_late =
            |then: Option<Instant>, limit| then.is_none_or(|then| now.duration_since(then) >= limit);
        if !self.links.contains(&link) && is_late(self.looked, LOOK) {
            self.looked = Some(now);
            self.links.extend(current());
        }
        if !self.links.contains(&link) {
            return Err(Errno::ACCESS);
        }
        if is_late(self.since, INTERVAL) {
            (self.since, self.asked) = (Some(now), 0);
        }
        if self.asked >= MOST {
            return Err(Errno::AGAIN);
        }
        self.asked += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found in a review: a process could make the kernel ask for neighbours on every interface of the host.
    #[test]
    fn a_process_asks_for_neighbours_on_its_interfaces_alone_also_if_these_come_back_or_are_renamed() {
        let (mut neighbours, start) = (Neighbours::of([3]), Instant::now());
        let later = start + LOOK;
        assert_eq!(neighbours.admit(3, start, || panic!("it is known") as [u32; 0]), Ok(()));
        assert_eq!(neighbours.admit(4, start, || [3]), Err(Errno::ACCESS));
        assert_eq!(neighbours.admit(7, start, || panic!("too early") as [u32; 0]), Err(Errno::ACCESS));
        assert_eq!(neighbours.admit(7, later, || [7]), Ok(()), "it came back with another number");
        assert_eq!(neighbours.admit(3, later, || [0; 0]), Ok(()), "its name changed");
    }

    #[test]
    fn there_are_only_so_many_requests_in_an_interval() {
        let (mut neighbours, start) = (Neighbours::of([3]), Instant::now());
        let mut admitted = |now| (0..2 * MOST).filter(|_| neighbours.admit(3, now, || []).is_ok()).count();
        assert_eq!(admitted(start), MOST as usize);
        assert_eq!(admitted(start + INTERVAL / 2), 0);
        assert_eq!(admitted(start + INTERVAL), MOST as usize);
    }
}
