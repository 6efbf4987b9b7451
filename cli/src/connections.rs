//! The connections of a server. If there are too many, one that does nothing is given up for a new one.

use crate::listening::Others;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of connections from one address. Those at a Unix socket have none.
const OF_ONE_ADDRESS: usize = 4;
/// After this time, a connection without a whole request may be given up for another one.
const SILENT: Duration = Duration::from_millis(100);

/// The connections that are open.
pub struct Connections {
    all: Arc<Mutex<Vec<Connection>>>,
    /// After this time, a connection that has sent a request may be given up too. Never if None.
    unread: Option<Duration>,
}

/// One of them.
struct Connection {
    peer: Option<IpAddr>,
    /// The time at which it connected, or had sent its request.
    since: Instant,
    has_asked: bool,
    is_given_up: Arc<AtomicBool>,
}

impl Connection {
    /// Returns true if this connection may be given up at that time.
    fn may_go(&self, now: Instant, unread: Option<Duration>) -> bool {
        let patience = if self.has_asked { unread } else { Some(SILENT) };
        let is_over = |patience| now.saturating_duration_since(self.since) > patience;
        !self.is_given_up.load(Relaxed) && patience.is_some_and(is_over)
    }
}

/// A connection's slot. It is free again when this is dropped.
pub struct Slot {
    all: Arc<Mutex<Vec<Connection>>>,
    /// Its address identifies the connection.
    is_given_up: Arc<AtomicBool>,
}

impl Connections {
    /// Makes the connections of a server, which gives up one that has sent a request after this time, or never.
    pub fn new(unread: Option<Duration>) -> Connections {
        Connections { all: Arc::default(), unread }
    }

    /// Adds a connection, from this address.
    pub fn add(&self, peer: Option<IpAddr>, now: Instant) -> Slot {
        let is_given_up = Arc::<AtomicBool>::default();
        let peer = peer.map(|address| address.to_canonical());
        let connection =
            Connection { peer, since: now, has_asked: false, is_given_up: Arc::clone(&is_given_up) };
        lock(&self.all).push(connection);
        Slot { all: Arc::clone(&self.all), is_given_up }
    }

    /// Returns whether this connection may be served. If all slots are taken, or its address has too many of them, the
    /// oldest connection that does nothing is given up for it.
    ///
    /// # Errors
    /// The connections that are in its way, if each of them has been silent for a short time only.
    pub fn admits(&self, slot: &Slot, is_full: bool, now: Instant) -> Result<(), Others> {
        let all = lock(&self.all);
        let peer = all.iter().find(|one| slot.is_of(one)).and_then(|one| one.peer);
        let others = || all.iter().filter(|one| !slot.is_of(one));
        let is_its = |one: &&Connection| peer.is_some() && one.peer == peer;
        let its = others().filter(is_its).filter(|one| !one.is_given_up.load(Relaxed)).count();
        let has_many = its >= OF_ONE_ADDRESS;
        if !is_full && !has_many {
            return Ok(());
        }
        let may_go = others().filter(|one| (!has_many || is_its(one)) && one.may_go(now, self.unread));
        let oldest = may_go.min_by_key(|one| (one.has_asked, one.since));
        let others = if has_many { Others(OF_ONE_ADDRESS, "clients from this address") } else { Others::ALL };
        oldest.map(|one| one.is_given_up.store(true, Relaxed)).ok_or(others)
    }
}

impl Slot {
    /// The whole request is here. It keeps its slot for that, also if it was given up just now.
    pub fn has_asked(&self, now: Instant) {
        let mut all = lock(&self.all);
        self.is_given_up.store(false, Relaxed);
        let connection = all.iter_mut().find(|connection| self.is_of(connection));
        connection.into_iter().for_each(|connection| (connection.since, connection.has_asked) = (now, true));
    }

    /// Returns true if another connection needs the slot.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.load(Relaxed)
    }

    fn is_of(&self, connection: &Connection) -> bool {
        Arc::ptr_eq(&self.is_given_up, &connection.is_given_up)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.all).retain(|connection| !self.is_of(connection));
    }
}

fn lock(all: &Mutex<Vec<Connection>>) -> MutexGuard<'_, Vec<Connection>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found in a review: a client was given up while its request came. It was answered, and then told that none had come.
    #[test]
    fn a_connection_that_asks_after_it_was_given_up_keeps_its_slot() {
        let (connections, begun) = (Connections::new(None), Instant::now());
        let [late, new] = [0, 1].map(|ms| connections.add(None, begun + Duration::from_millis(ms)));
        assert!(connections.admits(&new, true, begun + 2 * SILENT).is_ok() && late.is_given_up());
        late.has_asked(begun + 2 * SILENT);
        assert!(!late.is_given_up());
        assert!(connections.admits(&new, true, begun + 9 * SILENT).is_err());
    }

    /// Found in a review: eight silent connections had every scrape refused.
    #[test]
    fn the_oldest_silent_connection_is_given_up_when_all_slots_are_taken() {
        let (connections, begun) = (Connections::new(Some(Duration::from_secs(1))), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        let silent: Vec<Slot> = (0..8).map(|ms| connections.add(None, at(ms))).collect();
        silent[0].has_asked(at(8));
        let new = connections.add(None, at(50));
        assert!(connections.admits(&new, false, at(50)).is_ok(), "there is room");
        assert_eq!(connections.admits(&new, true, at(50)), Err(Others::ALL), "none has been silent for long");
        let given_up = || silent.iter().map(Slot::is_given_up).collect::<Vec<_>>();
        assert_eq!(given_up(), [false; 8]);
        assert!(connections.admits(&new, true, at(500)).is_ok());
        assert_eq!(given_up(), [false, true, false, false, false, false, false, false]);
        (2..8).for_each(|_| assert!(connections.admits(&new, true, at(500)).is_ok()));
        assert!(connections.admits(&new, true, at(1008)).is_err(), "the one with a request gets its answer");
        assert!(connections.admits(&new, true, at(1009)).is_ok(), "which it does not read");
        assert_eq!(given_up(), [true; 8]);
        assert!(!new.is_given_up());
        drop(silent);
        assert_eq!(lock(&connections.all).len(), 1);
    }

    /// Seen: the line said that 8 clients were connected, and there were 4.
    #[test]
    fn an_address_has_some_of_the_slots_and_makes_room_among_its_own() {
        let (connections, begun) = (Connections::new(None), Instant::now());
        let late = begun + Duration::from_secs(1);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().ok());
        let elder = connections.add(other, begun);
        let its: Vec<Slot> = (0..OF_ONE_ADDRESS).map(|_| connections.add(one, begun)).collect();
        let mapped = connections.add("::ffff:192.0.2.1".parse().ok(), late);
        let many = Err(Others(OF_ONE_ADDRESS, "clients from this address"));
        assert_eq!(connections.admits(&mapped, false, begun), many, "the others are as new");
        assert!(connections.admits(&mapped, false, late).is_ok());
        assert_eq!(its.iter().filter(|slot| slot.is_given_up()).count(), 1);
        let new = connections.add(other, late);
        assert!(connections.admits(&new, false, late).is_ok());
        assert!(!elder.is_given_up());
    }
}
