//! The state of the interface behind a port: whether it exists and is up. It is checked now and then, and
//! whenever a call reports that it is not. After a removal, it is checked whether an interface of the same name exists
//! again.

use super::PortState;
use crate::sys::broker;
use crate::sys::errno::Errno;
use crate::sys::netdev::Netdev;
use std::time::{Duration, Instant};

/// Rounds between two checks.
const LOOK_ROUNDS: u32 = 4096;
/// Longest time between two checks, in case rounds are far apart.
const LOOK_TIME: Duration = Duration::from_millis(500);
/// The same while no frames can be carried.
const DOWN_TIME: Duration = Duration::from_millis(50);
/// Rounds between two looks at the clock.
const CLOCK_ROUNDS: u32 = 32;
/// Time between two searches for an interface by its name. If there is none and the process may load modules
/// (CAP_NET_ADMIN), the kernel runs modprobe(8) and waits for it. A process with a broker may not, and searches every
/// [`DOWN_TIME`].
const SEARCH_TIME: Duration = Duration::from_millis(500);

/// The interface of a port.
#[derive(Debug)]
pub(super) struct Link {
    netdev: Netdev,
    /// Poll rounds, wrapping.
    rounds: u32,
    /// When a check was last due.
    looked: Instant,
    /// It was due when this round ended.
    was_due: bool,
    /// The interface is down, and may come up again.
    is_down: bool,
    /// The interface was removed. Another one of the same name may be made.
    is_gone: bool,
    /// When an interface of its name was last searched for.
    searched: Option<Instant>,
    /// The reason why the port cannot resume with the interface that now has its name, or with its interface in another
    /// place. The text is shown behind the port's name.
    refused: Option<String>,
    /// The reason why the port is down for good.
    failed: Option<String>,
}

impl Link {
    pub(super) fn new(netdev: Netdev) -> Link {
        let mut link = Link {
            netdev,
            rounds: 0,
            looked: Instant::now(),
            was_due: false,
            is_down: false,
            is_gone: false,
            searched: None,
            refused: None,
            failed: None,
        };
        link.look();
        link
    }

    pub(super) fn netdev(&self) -> &Netdev {
        &self.netdev
    }

    /// Returns whether frames can be carried.
    #[inline]
    pub(super) fn is_up(&self) -> bool {
        !self.is_down && !self.is_gone && self.failed.is_none()
    }

    /// Returns whether the port is down for good.
    #[inline]
    pub(super) fn is_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Ends a round. Returns true if the interface was due for a check, which has been made then.
    #[inline]
    pub(super) fn end_round(&mut self) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        self.was_due = (self.rounds.is_multiple_of(CLOCK_ROUNDS) || !self.is_up()) && self.look_if_due();
        self.was_due
    }

    /// Checks the interface before a sleep, unless the end of the same round did: its caller could take nothing between
    /// the two checks. Returns true if it checked.
    #[cold]
    pub(super) fn look_before_sleep(&mut self) -> bool {
        let is_due = !std::mem::take(&mut self.was_due);
        if is_due {
            self.look();
        }
        is_due
    }

    #[cold]
    #[inline(never)]
    fn look_if_due(&mut self) -> bool {
        let time = if self.is_up() { LOOK_TIME } else { DOWN_TIME };
        let is_due = self.rounds.is_multiple_of(LOOK_ROUNDS) || self.looked.elapsed() >= time;
        if is_due {
            self.looked = Instant::now();
            self.look();
        }
        is_due
    }

    /// Checks whether the interface exists and is up.
    #[cold]
    pub(super) fn look(&mut self) {
        if self.is_gone || self.failed.is_some() {
            return;
        }
        match self.netdev.is_up_at_once() {
            Ok(is_up) => self.is_down = !is_up,
            // It is being renamed: the next look tells.
            Err(Errno::AGAIN) => {}
            Err(Errno::NODEV) => self.is_gone = true,
            Err(errno) => self.fail(errno),
        }
    }

    /// Returns whether the interface was removed, or moved to a place where it cannot be checked.
    #[inline]
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone && self.failed.is_none()
    }

    /// After the interface was removed: returns the interface that has its name now and is up, for the port to resume
    /// with. Searches for it twice a second, or more often if a search costs little.
    #[cold]
    pub(super) fn successor(&mut self) -> Option<Netdev> {
        if !self.is_gone || self.failed.is_some() {
            self.refused = None;
            return None;
        }
        let time = search_time(broker::current().is_some(), self.refused.is_some());
        if !is_due(&mut self.searched, Instant::now(), time) {
            return None;
        }
        self.refused = None;
        self.netdev.again().ok().filter(|netdev| netdev.is_up_at_once() == Ok(true))
    }

    /// The port's socket has lost its interface, although an interface of its number exists: another one, or the same
    /// one after it was away.
    #[cold]
    pub(super) fn lose(&mut self) {
        self.is_gone = true;
    }

    /// The port cannot resume with the successor now. The text behind its name is the port's reason until it can.
    #[cold]
    pub(super) fn refuse(&mut self, why: String) {
        self.refused = Some(why);
    }

    /// A call failed with an error that does not concern the frame. The interface is checked, and if it seems well, the
    /// port is down for good. This does not hold for errors that report a downed interface or a socket that lost it;
    /// those are covered by the check.
    #[cold]
    pub(super) fn heed(&mut self, errno: Errno) {
        self.look();
        let passes = matches!(errno, Errno::NETDOWN | Errno::IO | Errno::NXIO | Errno::BADFD);
        if self.is_up() && !passes {
            self.fail(errno);
        }
    }

    fn fail(&mut self, errno: Errno) {
        self.failed.get_or_insert_with(|| format!("interface {}: {errno}", self.netdev.name()));
    }

    pub(super) fn state(&self) -> PortState {
        let name = self.netdev.name();
        match (&self.failed, &self.refused) {
            (Some(reason), _) => PortState::Down(reason.clone()),
            (None, Some(why)) if self.is_gone => PortState::Down(format!("interface {name} {why}")),
            _ if self.is_gone => PortState::Down(format!("interface {name} is gone")),
            _ if self.is_down => PortState::Down(format!("interface {name} is down")),
            _ => PortState::Up,
        }
    }
}

/// Returns the time between two searches. A port that was refused has more to ask for than a name.
fn search_time(has_broker: bool, is_refused: bool) -> Duration {
    if has_broker && !is_refused { DOWN_TIME } else { SEARCH_TIME }
}

/// Returns whether an interface may be searched for now, this long after the last time, and notes it.
fn is_due(searched: &mut Option<Instant>, now: Instant, time: Duration) -> bool {
    let due = searched.is_none_or(|last| now.saturating_duration_since(last) >= time);
    if due {
        *searched = Some(now);
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found in a review: a worker that runs as root spent most of its time in modprobe(8) while an interface was gone.
    #[test]
    fn an_interface_that_is_gone_is_searched_for_at_once_and_then_twice_a_second() {
        let (begun, mut searched) = (Instant::now(), None);
        let at = |ms| begun + Duration::from_millis(ms);
        let searches: Vec<_> =
            (0..1200).filter(|ms| is_due(&mut searched, at(*ms), search_time(false, false))).collect();
        assert_eq!(searches, [0, 500, 1000]);
    }

    /// Seen: a packet port in a sandbox, where no search runs modprobe(8), resumed half a second after its interface was made.
    #[test]
    fn a_process_that_may_load_no_modules_searches_more_often_until_the_interface_is_refused() {
        assert_eq!([search_time(true, false), search_time(true, true)], [DOWN_TIME, SEARCH_TIME]);
    }
}
