//! Neighbours that the kernel has forgotten while they were known. Each is asked for again until it answers or the
//! kernel gives up.

use super::{Key, REQUEST_INTERVAL, REQUEST_TIMEOUT, is_late};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The longest pause between two requests for one neighbour. The first is [`REQUEST_TIMEOUT`]. In that time the kernel reports
/// either result of a request that it carries out. It carries out none while its table is full.
const PAUSE_MAX: Duration = Duration::from_secs(40);
/// Maximum number of neighbours that are asked for at once.
const AT_ONCE: usize = 256;
/// The interval at which the links of all are looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of neighbours. A sender that answers for thousands of addresses must not fill the memory.
const LOST_MAX: usize = 4096;

/// The forgotten neighbours.
#[derive(Debug, Default)]
pub(super) struct Lost {
    all: BTreeMap<Key, Request>,
    /// The time at which all were last looked at. None if one was added since, or if some are still due.
    last_check: Option<Instant>,
}

/// The last request for a neighbour.
#[derive(Debug, Default)]
struct Request {
    /// None before the first.
    last: Option<Instant>,
    /// The pause after it.
    pause: Duration,
    /// The kernel has forgotten the neighbour again since then.
    is_void: bool,
}

/// The actions that are due.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LostDue {
    /// Neighbours that the kernel is to be asked for.
    pub(crate) ask: Vec<Key>,
    /// Number of these about which the kernel reported nothing since the last request.
    pub(crate) again: usize,
    /// Neighbours on links that are not up. They are not asked for any more.
    pub(crate) gone: Vec<Key>,
}

impl Lost {
    /// Adds a neighbour. One that is there already is asked for again soon: its request was void. Returns false if there
    /// are too many.
    pub(super) fn add(&mut self, key: Key) -> bool {
        if let Some(request) = self.all.get_mut(&key) {
            (request.pause, request.is_void) = (REQUEST_INTERVAL, true);
            return true;
        }
        if self.all.len() >= LOST_MAX {
            return false;
        }
        self.all.insert(key, Request::default());
        self.last_check = None;
        true
    }

    /// Removes a neighbour. Returns true if it was there.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        self.all.remove(key).is_some()
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.all.contains_key(key)
    }

    /// Returns the actions due at `now`. Neighbours on links for which `is_up` returns false are removed.
    pub(super) fn due(&mut self, now: Instant, is_up: impl Fn(u32) -> bool) -> LostDue {
        let mut due = LostDue::default();
        if self.last_check.is_some_and(|then| !is_late(now, then, CHECK_INTERVAL)) {
            return due;
        }
        self.all.retain(|key, request| {
            if !is_up(key.0) {
                due.gone.push(*key);
                return false;
            }
            let is_due = request.last.is_none_or(|last| is_late(now, last, request.pause));
            if is_due && due.ask.len() < AT_ONCE {
                due.again += usize::from(request.last.is_some() && !request.is_void);
                due.ask.push(*key);
                let pause = (2 * request.pause).clamp(REQUEST_TIMEOUT, PAUSE_MAX);
                *request = Request { last: Some(now), pause, is_void: false };
            }
            true
        });
        self.last_check = Some(now).filter(|_| due.ask.len() < AT_ONCE);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn key(number: u32) -> Key {
        (1, IpAddr::from(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn the_pause_between_two_requests_doubles_up_to_a_limit() {
        let (mut lost, start) = (Lost::default(), Instant::now());
        assert!(lost.add(key(1)) && lost.add(key(1)));
        let asked = (0..200_u64).filter(|second| {
            let due = lost.due(start + Duration::from_secs(*second), |_| true);
            assert_eq!(due.again, usize::from(*second > 0) * due.ask.len());
            !due.ask.is_empty()
        });
        assert_eq!(asked.collect::<Vec<_>>(), [0, 5, 15, 35, 75, 115, 155, 195]);
    }

    #[test]
    fn a_neighbour_that_is_forgotten_again_is_asked_for_again_a_second_later() {
        let (mut lost, start) = (Lost::default(), Instant::now());
        let asked = (0..8_u64).filter(|half| {
            assert!(lost.add(key(1)));
            let due = lost.due(start + Duration::from_millis(500) * *half as u32, |_| true);
            assert_eq!(due.again, 0);
            !due.ask.is_empty()
        });
        assert_eq!(asked.collect::<Vec<_>>(), [0, 2, 4, 6]);
    }

    #[test]
    fn lost_neighbours_are_limited_in_number_and_only_some_are_asked_for_at_once() {
        let (mut lost, start) = (Lost::default(), Instant::now());
        assert_eq!((0..5_000).filter(|number| lost.add(key(*number))).count(), LOST_MAX);
        let mut asked: Vec<_> =
            (0..LOST_MAX / AT_ONCE).map(|_| lost.due(start, |_| true).ask.len()).collect();
        asked.dedup();
        assert_eq!((asked, lost.due(start, |_| true)), (vec![AT_ONCE], LostDue::default()));
        assert_eq!(lost.due(start + CHECK_INTERVAL, |_| false).gone.len(), LOST_MAX);
        assert!(lost.add(key(9_999)) && !lost.has(&key(1)) && lost.remove(&key(9_999)));
    }
}
