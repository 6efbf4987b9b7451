//! Decides which neighbours the kernel is asked for, and when.

mod lost;
mod seen;

use lost::Lost;
pub(crate) use lost::LostDue;
use seen::Seen;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// A neighbour by link and address.
pub(crate) type Key = (u32, IpAddr);

/// The minimum time between two requests for one neighbour (RFC 1122 §2.3.2.1).
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);
/// A neighbour that is not known this long after a request counts as silent, even if the kernel does not report it.
/// The kernel asks three times, a second apart.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which packets for a silent neighbour are dropped before it may be asked for again.
const FAILURE_TIME: Duration = Duration::from_secs(1);
/// The interval at which the kernel gets the request to use stale neighbours, so that it probes them.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of stale neighbours in one interval.
const REFRESH_MAX: usize = 4096;
/// Maximum number of them at once, and the pause between two times. The kernel probes each and sends events about it.
const REFRESH_AT_ONCE: usize = 256;
const REFRESH_PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of neighbours that are asked for at once by all ports together. It is half of the kernel's
/// default table size (`gc_thresh3`).
const REQUESTS_MAX: usize = 512;
/// The bounds of a port's share of these. A scan behind one port must not fill the kernel's table.
const PORT_SHARE: RangeInclusive<usize> = 16..=256;
/// Maximum number of neighbours on one link that wait for a slot.
const POSTPONED_MAX: usize = 1024;
/// Maximum number of those of them that were named again a second later. They are few, so that none waits long.
const REPEATED_MAX: usize = 64;

/// Neighbours that frames wait for, that do not answer, or that may be gone.
#[derive(Debug)]
pub(crate) struct NeighbourRequests {
    /// Maximum number of neighbours on one link that are asked for at once.
    share: usize,
    links: HashMap<u32, LinkRequests>,
    silent: HashMap<Key, Instant>,
    stale: BTreeSet<Key>,
    /// Neighbours that the kernel has forgotten and that may be in use. They are asked for without waiting for a
    /// slot.
    lost: Lost,
    /// Neighbours whose entries in the kernel belong to others. A request would change such an entry.
    pub(crate) foreign: HashSet<Key>,
    /// The names for which there was no slot.
    seen: Seen,
    /// The time at which the interval of stale neighbours began.
    interval_start: Option<Instant>,
    /// Number of stale neighbours that are still to be refreshed in this interval.
    to_refresh: usize,
    /// The time at which stale neighbours were last refreshed.
    last_refresh: Option<Instant>,
    /// The last neighbour whose turn it was.
    last: Option<Key>,
}

/// The neighbours on one link that frames wait for.
#[derive(Debug, Default)]
struct LinkRequests {
    in_progress: HashMap<IpAddr, InProgress>,
    /// The neighbours that are asked for as soon as there is a slot, in this order. Invariant: each is here once, and
    /// none of them is in `in_progress`.
    postponed: VecDeque<IpAddr>,
    /// Those that were named again a second later. Every other slot is theirs. A scan names an address once, and a host
    /// tries again. So a scan excludes no neighbour for long, even if `postponed` stays full. Invariant: none of them is
    /// in `postponed`.
    repeated: VecDeque<IpAddr>,
    /// The last slot was offered to `repeated` first.
    was_repeated: bool,
}

#[derive(Debug)]
struct InProgress {
    first: Instant,
    last: Instant,
}

/// The actions that are due.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// Neighbours that did not answer in time.
    pub(crate) timed_out: Vec<Key>,
    /// Neighbours that were silent long enough. They may be asked for again.
    pub(crate) expired: Vec<Key>,
    /// Neighbours that have a slot now. The kernel is to be asked for them.
    pub(crate) ask: Vec<Key>,
    /// Neighbours that are to be marked as used, so that the kernel probes them.
    pub(crate) refresh: Vec<Key>,
}

impl NeighbourRequests {
    /// Makes an instance for this many ports. Each port has a share of the neighbours that are asked for at once.
    pub(crate) fn new(ports: usize) -> NeighbourRequests {
        let share = (REQUESTS_MAX / ports.max(1)).clamp(*PORT_SHARE.start(), *PORT_SHARE.end());
        let (links, silent) = (HashMap::new(), HashMap::new());
        let (stale, lost, seen) = (BTreeSet::new(), Lost::default(), Seen::new());
        let (interval_start, to_refresh, last_refresh, last) = (None, 0, None, None);
        NeighbourRequests {
            share,
            links,
            silent,
            stale,
            lost,
            foreign: HashSet::new(),
            seen,
            interval_start,
            to_refresh,
            last_refresh,
            last,
        }
    }

    /// Records that frames wait for an unknown neighbour. Returns true if the kernel is to be asked now. If there
    /// is no slot, the neighbour is queued and asked for later. If the queue is full, it has to be named again.
    pub(crate) fn add(&mut self, key: Key, now: Instant) -> bool {
        if self.silent.contains_key(&key) || self.lost.has(&key) || self.foreign.contains(&key) {
            return false;
        }
        let (link, address) = key;
        let of = self.links.entry(link).or_default();
        // Neighbours are asked for in the order in which they came.
        let full = of.in_progress.len() >= self.share || !of.postponed.is_empty() || !of.repeated.is_empty();
        match of.in_progress.get_mut(&address) {
            Some(asked) if now.duration_since(asked.last) < REQUEST_INTERVAL => false,
            Some(asked) => {
                asked.last = now;
                true
            }
            None if full => {
                of.postpone(address, self.seen.note(key, now));
                false
            }
            None => {
                of.in_progress.insert(address, InProgress { first: now, last: now });
                true
            }
        }
    }

    /// Records that a neighbour's MAC address is known, and whether it is stale.
    pub(crate) fn resolved(&mut self, key: Key, stale: bool) {
        if let Some(link) = self.links.get_mut(&key.0) {
            link.in_progress.remove(&key.1);
            link.postponed.retain(|its| *its != key.1);
            link.repeated.retain(|its| *its != key.1);
        }
        self.silent.remove(&key);
        self.lost.remove(&key);
        match stale {
            true => self.stale.insert(key),
            false => self.stale.remove(&key),
        };
    }

    /// Records whether the kernel's entry of a neighbour without a usable MAC address belongs to others. Such a neighbour is not
    /// asked for.
    pub(crate) fn set_foreign(&mut self, key: Key, is_foreign: bool) {
        if is_foreign {
            self.resolved(key, false);
            self.foreign.insert(key);
        } else {
            self.foreign.remove(&key);
        }
    }

    /// Records that a neighbour does not answer. Returns true if it was asked for. The kernel sends the same event
    /// when an administrator removes a neighbour.
    pub(crate) fn failed(&mut self, key: Key, now: Instant) -> bool {
        self.stale.remove(&key);
        let asked = self.links.get_mut(&key.0).is_some_and(|link| link.in_progress.remove(&key.1).is_some());
        let is_silent = self.lost.remove(&key) || asked;
        if is_silent {
            self.silent.insert(key, now);
        }
        is_silent
    }

    /// Records that the kernel knows nothing about a neighbour any more. Returns true if the neighbour still counts
    /// as silent.
    pub(crate) fn removed(&mut self, key: Key) -> bool {
        self.stale.remove(&key);
        self.silent.contains_key(&key)
    }

    /// Records that the kernel has forgotten a known neighbour. The kernel's table has a few hundred entries. A
    /// scan's entries evict a neighbour that has sent nothing for five seconds, even in the middle of a flow
    /// that passes here and not through the kernel. Returns false if too many were forgotten: the neighbour is then
    /// unknown.
    pub(crate) fn add_lost(&mut self, key: Key) -> bool {
        self.lost.add(key)
    }

    /// Whether it is a neighbour that the kernel has forgotten.
    pub(crate) fn is_lost(&self, key: &Key) -> bool {
        self.lost.has(key)
    }

    /// Returns what is due about forgotten neighbours. Each stays as it was known until it answers, or the kernel
    /// reports that it does not ([`failed`](Self::failed)). The kernel refuses requests while its table is full, and
    /// that says nothing about the neighbour.
    pub(crate) fn lost_due(&mut self, now: Instant, is_up: impl Fn(u32) -> bool) -> LostDue {
        self.lost.due(now, is_up)
    }

    /// Returns the actions due at `now`. Only neighbours on links for which `is_port` returns true are refreshed.
    pub(crate) fn due(&mut self, now: Instant, is_port: impl Fn(u32) -> bool) -> Due {
        let mut due = Due::default();
        due.expired.extend(
            self.silent.extract_if(|_, since| is_late(now, *since, FAILURE_TIME)).map(|(key, _)| key),
        );
        for (link, of) in &mut self.links {
            of.due(*link, self.share, now, &mut due);
        }
        self.links.retain(|_, link| !link.in_progress.is_empty());
        self.silent.extend(due.timed_out.iter().map(|key| (*key, now)));
        due.refresh = self.next_stale(now, is_port);
        due
    }

    /// Returns the stale neighbours on these links that are refreshed at `now`. In an interval each has a turn, up to
    /// [`REFRESH_MAX`].
    fn next_stale(&mut self, now: Instant, is_port: impl Fn(u32) -> bool) -> Vec<Key> {
        if self.interval_start.is_none_or(|then| is_late(now, then, REFRESH_INTERVAL)) {
            self.interval_start = Some(now);
            let ours = self.stale.iter().filter(|(link, _)| is_port(*link));
            self.to_refresh = ours.take(REFRESH_MAX).count();
        }
        let is_paused = self.last_refresh.is_some_and(|then| !is_late(now, then, REFRESH_PAUSE));
        if self.to_refresh == 0 || is_paused {
            return Vec::new();
        }
        self.last_refresh = Some(now);
        let most = self.to_refresh.min(REFRESH_AT_ONCE);
        let refresh = self.stale_in_turn(most, is_port);
        self.to_refresh -= refresh.len();
        self.last = refresh.last().copied().or(self.last);
        refresh
    }

    /// Returns the next stale neighbours on these links, at most `most`, in rotation.
    fn stale_in_turn(&self, most: usize, is_port: impl Fn(u32) -> bool) -> Vec<Key> {
        let behind = self.last.map_or(Unbounded, Excluded);
        let up_to = self.last.into_iter().flat_map(|last| self.stale.range(..=last));
        let ours = self.stale.range((behind, Unbounded)).chain(up_to).filter(|(link, _)| is_port(*link));
        ours.take(most).copied().collect()
    }
}

impl LinkRequests {
    /// Adds the neighbours that did not answer in time, and those that are asked for in their place.
    fn due(&mut self, link: u32, share: usize, now: Instant, due: &mut Due) {
        let late = self.in_progress.extract_if(|_, asked| is_late(now, asked.first, REQUEST_TIMEOUT));
        due.timed_out.extend(late.map(|(address, _)| (link, address)));
        while self.in_progress.len() < share {
            let Some(address) = self.take_next() else { break };
            self.in_progress.insert(address, InProgress { first: now, last: now });
            due.ask.push((link, address));
        }
    }

    /// Queues a neighbour for which there is no slot.
    fn postpone(&mut self, address: IpAddr, is_repeated: bool) {
        if self.repeated.contains(&address) {
            return;
        }
        let is_postponed = self.postponed.contains(&address);
        if is_repeated && self.repeated.len() < REPEATED_MAX {
            if is_postponed {
                self.postponed.retain(|its| *its != address);
            }
            self.repeated.push_back(address);
        } else if !is_postponed && self.postponed.len() < POSTPONED_MAX {
            self.postponed.push_back(address);
        }
    }

    /// Takes the neighbour that has the next slot, from both queues by turns.
    fn take_next(&mut self) -> Option<IpAddr> {
        self.was_repeated = !self.was_repeated;
        let (first, second) = match self.was_repeated {
            true => (&mut self.repeated, &mut self.postponed),
            false => (&mut self.postponed, &mut self.repeated),
        };
        first.pop_front().or_else(|| second.pop_front())
    }
}

fn is_late(now: Instant, since: Instant, limit: Duration) -> bool {
    now.duration_since(since) >= limit
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With two ports, the maximum number of neighbours that a link may ask for at once.
    const AT_ONCE: usize = 256;

    #[test]
    fn a_neighbour_is_asked_for_once_a_second_and_silent_after_five_and_may_be_asked_for_again() {
        let (mut requests, start) = (NeighbourRequests::new(2), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let key = (3, IpAddr::from([10, 0, 0, 7]));
        assert!(requests.add(key, at(0)) && !requests.add(key, at(999)) && requests.add(key, at(1_000)));
        assert_eq!(requests.due(at(4_999), |_| true).timed_out, []);
        assert_eq!(requests.due(at(5_000), |_| true).timed_out, [key]);
        assert!(!requests.add(key, at(5_500)));
        assert_eq!(requests.due(at(6_000), |_| true).expired, [key]);
        assert!(requests.add(key, at(6_000)));
        requests.resolved(key, false);
        assert_eq!(
            (requests.due(at(60_000), |_| true), requests.add(key, at(60_000))),
            (Due::default(), true)
        );
    }

    #[test]
    fn a_scan_of_a_network_has_a_limited_number_of_requests_at_once() {
        let (mut requests, start) = (NeighbourRequests::new(2), Instant::now());
        let key = |number: u32| (1, IpAddr::from(std::net::Ipv4Addr::from_bits(0x0a00_0000 + number)));
        assert_eq!((0..5_000).filter(|number| requests.add(key(*number), start)).count(), AT_ONCE);
        let mut now = start;
        for asked in 0..=POSTPONED_MAX / AT_ONCE {
            now += REQUEST_TIMEOUT;
            assert_eq!(requests.due(now, |_| true).timed_out.len(), AT_ONCE, "{asked}");
        }
        assert!(requests.add(key(4_999), now), "and may be named again");
    }

    /// Seen: a name for which there was no slot was forgotten, and its packets were dropped forever.
    #[test]
    fn a_neighbour_for_which_there_was_no_slot_is_asked_for_when_there_is_one() {
        let (mut requests, start) = (NeighbourRequests::new(2), Instant::now());
        let key = |number: u32| (1, IpAddr::from(std::net::Ipv4Addr::from_bits(number)));
        let scanned = AT_ONCE as u32;
        assert!((0..scanned).all(|number| requests.add(key(number), start)));
        let good = key(scanned);
        assert!(!requests.add(good, start) && !requests.add(good, start));
        assert_eq!(requests.due(start, |_| true).ask, []);
        requests.resolved(key(0), false);
        assert!(!requests.add(key(9_999), start), "a later one does not come first");
        assert_eq!(requests.due(start, |_| true).ask, [good]);
        assert_eq!(requests.due(start + REQUEST_TIMEOUT, |_| true).ask, [key(9_999)]);
        let silent = requests.due(start + 2 * REQUEST_TIMEOUT, |_| true).timed_out;
        assert_eq!(silent, [key(9_999)], "and each is asked for once");
    }

    /// Seen: a scan behind one port filled the kernel's table, and neighbours of the other ports were not asked
    /// for.
    #[test]
    fn a_scan_behind_one_port_takes_no_slot_from_the_links_of_others() {
        let start = Instant::now();
        for (ports, share) in [(1, 256), (2, 256), (8, 64), (255, 16)] {
            let mut requests = NeighbourRequests::new(ports);
            let key = |link, number: u32| (link, IpAddr::from(std::net::Ipv4Addr::from_bits(number)));
            assert_eq!((0..20_000).filter(|number| requests.add(key(1, *number), start)).count(), share);
            assert!(requests.add(key(2, 0), start), "of {ports} ports");
        }
    }

    /// Seen: the kernel forgot a neighbour in use during a scan of the network behind its port. The neighbour then
    /// waited behind the scan.
    #[test]
    fn a_neighbour_that_the_kernel_forgot_is_asked_for_without_waiting_for_a_slot() {
        let (mut requests, start) = (NeighbourRequests::new(2), Instant::now());
        let key = |link, number: u32| (link, IpAddr::from(std::net::Ipv4Addr::from_bits(number)));
        assert_eq!((0..5_000).filter(|number| requests.add(key(1, *number), start)).count(), AT_ONCE);
        let (lost, found, down) = (key(1, 9_000), key(1, 9_001), key(2, 9_002));
        assert!([lost, found, down].iter().all(|key| requests.add_lost(*key)));
        requests.resolved(found, true);
        let due = LostDue { ask: vec![lost], again: 0, gone: vec![down] };
        assert_eq!(requests.lost_due(start, |link| link == 1), due);
        assert_eq!(requests.lost_due(start, |_| true), LostDue::default());
        assert!(!requests.add(lost, start), "it was asked for already");
        assert!(requests.failed(lost, start), "and is waited for");
        assert!(!requests.failed(down, start));
    }

    /// Seen: the kernel's table was full and the request refused. Five seconds later the neighbour counted as silent,
    /// and packets to a host that answered were dropped (`neigh_failed`).
    #[test]
    fn a_forgotten_neighbour_is_asked_for_again_and_has_not_failed_while_the_kernels_table_is_full() {
        let (mut requests, start) = (NeighbourRequests::new(2), Instant::now());
        let lost = (1, IpAddr::from([10, 0, 0, 7]));
        assert!(requests.add_lost(lost));
        let mut asked = Vec::new();
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            let due = requests.lost_due(now, |_| true);
            asked.extend(due.ask.iter().map(|_| (second, due.again)));
            assert_eq!(requests.due(now, |_| true), Due::default(), "after {second} s");
        }
        assert_eq!(asked, [(0, 0), (5, 1), (15, 1), (35, 1)]);
        assert!(requests.failed(lost, start + Duration::from_secs(60)), "the kernel has asked it in vain");
        assert_eq!(requests.lost_due(start + Duration::from_secs(99), |_| true), LostDue::default());
    }

    #[test]
    fn a_neighbour_that_is_resolved_while_it_waits_for_a_slot_is_not_asked_for() {
        let (mut requests, start) = (NeighbourRequests::new(2), Instant::now());
        let key = |number: u32| (1, IpAddr::from(std::net::Ipv4Addr::from_bits(number)));
        let found = key(AT_ONCE as u32);
        let asked = (0..=AT_ONCE as u32).filter(|number| requests.add(key(*number), start)).count();
        assert_eq!(asked, AT_ONCE);
        requests.resolved(found, false);
        let due = requests.due(start + REQUEST_TIMEOUT, |_| true);
        assert_eq!((due.ask, due.timed_out.contains(&found)), (vec![], false));
    }

    /// Seen: a scan kept the queue full, and a host behind the same port that tried again and again had no turn.
    #[test]
    fn a_host_that_sends_again_is_asked_for_while_a_scan_behind_the_same_port_keeps_the_queue_full() {
        let (mut requests, mut now) = (NeighbourRequests::new(2), Instant::now());
        let key = |number: u32| (1, IpAddr::from(std::net::Ipv4Addr::from_bits(number)));
        let honest = key(u32::MAX);
        // 2,000 addresses of the scan a second. From the tenth second on, the host tries once a second.
        let asked = (0..400).find(|turn: &u32| {
            now += Duration::from_millis(50);
            let is_asked = requests.due(now, |_| true).ask.contains(&honest);
            for number in turn * 100..(turn + 1) * 100 {
                requests.add(key(number), now);
            }
            if *turn >= 200 && turn.is_multiple_of(20) {
                assert!(!requests.add(honest, now), "there is no slot at once");
            }
            is_asked
        });
        // Slots become free every five seconds, when the scanned addresses count as silent.
        assert!(asked.is_some_and(|turn| turn <= 320), "{asked:?}");
        assert_eq!(requests.links[&1].postponed.len(), POSTPONED_MAX);
    }

    #[test]
    fn stale_neighbours_are_probed_every_interval_until_they_are_reachable_or_gone() {
        let (mut requests, start) = (NeighbourRequests::new(2), Instant::now());
        let keys = [1, 2, 3].map(|last| (1, IpAddr::from([10, 0, 0, last])));
        keys.iter().for_each(|key| requests.resolved(*key, true));
        assert_eq!(requests.due(start, |_| true).refresh.len(), 3);
        assert_eq!(requests.due(start + REFRESH_INTERVAL / 2, |_| true).refresh, []);
        requests.resolved(keys[0], false);
        assert!(!requests.failed(keys[1], start + REFRESH_INTERVAL), "it was not asked for");
        assert_eq!(requests.due(start + REFRESH_INTERVAL, |_| true).refresh, [keys[2]]);
    }

    /// Seen: of 2,560 stale neighbours the last had its turn after 100 seconds.
    #[test]
    fn thousands_of_stale_neighbours_are_probed_within_one_interval_and_only_some_at_once() {
        for (stale, turns) in [(2_560, 2_560), (9_000, REFRESH_MAX)] {
            let (mut requests, start) = (NeighbourRequests::new(2), Instant::now());
            let key = |number: u32| (1, IpAddr::from(std::net::Ipv4Addr::from_bits(number)));
            (0..stale).for_each(|number| requests.resolved(key(number), true));
            let mut used = BTreeSet::new();
            for tenth in 0..100 {
                let due = requests.due(start + tenth * REFRESH_INTERVAL / 100, |_| true).refresh;
                assert!(due.len() <= REFRESH_AT_ONCE);
                used.extend(due);
            }
            assert_eq!(used.len(), turns);
        }
    }

    /// Seen: stale neighbours on links that are not ports took all the turns, and always the same ones.
    #[test]
    fn every_stale_neighbour_on_a_port_is_probed_however_many_there_are_on_other_links() {
        let (mut requests, mut now) = (NeighbourRequests::new(2), Instant::now());
        let key = |link, number: u32| (link, IpAddr::from(std::net::Ipv4Addr::from_bits(number)));
        for number in 0..600 {
            [1, 2, 3].iter().for_each(|link| requests.resolved(key(*link, number), true));
        }
        let mut turns = HashMap::new();
        for _ in 0..3 {
            let due = requests.due(now, |link| link == 2).refresh;
            assert_eq!(due.len(), REFRESH_AT_ONCE);
            due.into_iter().for_each(|key| *turns.entry(key).or_insert(0) += 1);
            now += REFRESH_INTERVAL;
        }
        assert_eq!(turns.len(), 600);
        assert!(turns.iter().all(|((link, _), turns)| *link == 2 && *turns <= 2));
    }
}
