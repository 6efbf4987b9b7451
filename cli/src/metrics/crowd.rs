//! The connections of scrapers, of which one that stands in the way is given up for a new one.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of connections from one address. Those at a Unix socket have none.
const OF_ONE_ADDRESS: usize = 4;
/// After this time, a connection without a whole request may be given up for another one.
const SILENT: Duration = Duration::from_millis(100);
/// After this time, so may one whose answer is not read.
const DEAF: Duration = Duration::from_secs(1);

/// The connections that are open.
#[derive(Default)]
pub struct Crowd {
    places: Arc<Mutex<Vec<Place>>>,
}

/// The place of a connection.
struct Place {
    peer: Option<IpAddr>,
    /// The time at which it connected, or had sent its request.
    since: Instant,
    has_asked: bool,
    is_given_up: Arc<AtomicBool>,
}

impl Place {
    /// Returns true if this connection may be given up at that time.
    fn may_go(&self, now: Instant) -> bool {
        let patience = if self.has_asked { DEAF } else { SILENT };
        !self.is_given_up.load(Relaxed) && now.saturating_duration_since(self.since) > patience
    }
}

/// The connection's own handle of its place, which it leaves when this is dropped.
pub struct Ticket {
    places: Arc<Mutex<Vec<Place>>>,
    /// Its address is the name of the place.
    is_given_up: Arc<AtomicBool>,
}

impl Crowd {
    /// Adds a connection.
    pub fn enter(&self, peer: Option<IpAddr>, now: Instant) -> Ticket {
        let is_given_up = Arc::<AtomicBool>::default();
        let peer = peer.map(|address| address.to_canonical());
        let place = Place { peer, since: now, has_asked: false, is_given_up: Arc::clone(&is_given_up) };
        lock(&self.places).push(place);
        Ticket { places: Arc::clone(&self.places), is_given_up }
    }

    /// Returns true if this connection may be served. If all slots are taken, or its address has too many of them, the
    /// oldest connection that does nothing is given up for it.
    pub fn admits(&self, ticket: &Ticket, is_full: bool, now: Instant) -> bool {
        let places = lock(&self.places);
        let peer = places.iter().find(|place| ticket.is_of(place)).and_then(|place| place.peer);
        let others = || places.iter().filter(|place| !ticket.is_of(place));
        let is_its = |place: &&Place| peer.is_some() && place.peer == peer;
        let its = others().filter(is_its).filter(|place| !place.is_given_up.load(Relaxed)).count();
        let has_many = its >= OF_ONE_ADDRESS;
        if !is_full && !has_many {
            return true;
        }
        let may_go = others().filter(|place| (!has_many || is_its(place)) && place.may_go(now));
        let oldest = may_go.min_by_key(|place| (place.has_asked, place.since));
        oldest.map(|place| place.is_given_up.store(true, Relaxed)).is_some()
    }
}

impl Ticket {
    /// The whole request is here.
    pub fn has_asked(&self, now: Instant) {
        let mut places = lock(&self.places);
        let place = places.iter_mut().find(|place| self.is_of(place));
        place.into_iter().for_each(|place| (place.since, place.has_asked) = (now, true));
    }

    /// Returns true if another connection needs the slot.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.load(Relaxed)
    }

    fn is_of(&self, place: &Place) -> bool {
        Arc::ptr_eq(&self.is_given_up, &place.is_given_up)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.places).retain(|place| !self.is_of(place));
    }
}

fn lock(places: &Mutex<Vec<Place>>) -> MutexGuard<'_, Vec<Place>> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found in a review: eight silent connections had every scrape refused.
    #[test]
    fn the_oldest_silent_connection_is_given_up_when_all_slots_are_taken() {
        let (crowd, begun) = (Crowd::default(), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        let silent: Vec<Ticket> = (0..8).map(|ms| crowd.enter(None, at(ms))).collect();
        silent[0].has_asked(at(8));
        let new = crowd.enter(None, at(50));
        assert!(crowd.admits(&new, false, at(50)), "there is room");
        assert!(!crowd.admits(&new, true, at(50)), "none has been silent for long");
        let given_up = || silent.iter().map(Ticket::is_given_up).collect::<Vec<_>>();
        assert_eq!(given_up(), [false; 8]);
        assert!(crowd.admits(&new, true, at(500)));
        assert_eq!(given_up(), [false, true, false, false, false, false, false, false]);
        (2..8).for_each(|_| assert!(crowd.admits(&new, true, at(500))));
        assert!(!crowd.admits(&new, true, at(1008)), "the one with a request gets its answer");
        assert!(crowd.admits(&new, true, at(1009)), "which it does not read");
        assert_eq!(given_up(), [true; 8]);
        assert!(!new.is_given_up());
        drop(silent);
        assert_eq!(lock(&crowd.places).len(), 1);
    }

    #[test]
    fn an_address_has_some_of_the_slots_and_makes_room_among_its_own() {
        let (crowd, begun) = (Crowd::default(), Instant::now());
        let late = begun + Duration::from_secs(1);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().ok());
        let elder = crowd.enter(other, begun);
        let its: Vec<Ticket> = (0..OF_ONE_ADDRESS).map(|_| crowd.enter(one, begun)).collect();
        let mapped = crowd.enter("::ffff:192.0.2.1".parse().ok(), late);
        assert!(!crowd.admits(&mapped, false, begun), "the others are as new");
        assert!(crowd.admits(&mapped, false, late));
        assert_eq!(its.iter().filter(|ticket| ticket.is_given_up()).count(), 1);
        let new = crowd.enter(other, late);
        assert!(crowd.admits(&new, false, late));
        assert!(!elder.is_given_up());
    }
}
