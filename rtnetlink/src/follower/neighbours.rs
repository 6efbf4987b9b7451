//! The kernel's neighbours, and the requests for them.

use super::Follower;
use crate::neighbours::Key;
use crate::translate::{LinkState, NeighbourState};
use netmem_router::route::Resolution;
use std::sync::PoisonError;
use std::time::Instant;

impl Follower {
    /// Handles the kernel's state of a neighbour.
    pub(super) fn neighbour(&mut self, key: Key, state: NeighbourState) {
        let is_foreign = matches!(state, NeighbourState::Unusable | NeighbourState::Awaited);
        self.requests.set_foreign(key, is_foreign);
        let link = match state {
            NeighbourState::Reachable(mac) | NeighbourState::Stale(mac) => {
                self.requests.resolved(key, matches!(state, NeighbourState::Stale(_)));
                Resolution::Known(mac)
            }
            NeighbourState::Failed if self.requests.failed(key, Instant::now()) => {
                self.state().counters.failed_neighbours += 1;
                Resolution::Failed
            }
            NeighbourState::Failed | NeighbourState::Unknown if self.requests.removed(key) => {
                Resolution::Failed
            }
            // Frames go on to the old address until the neighbour answers or fails to answer.
            NeighbourState::Unknown if self.is_known_behind_a_port(key) && self.requests.add_lost(key) => {
                return;
            }
            NeighbourState::Unusable => Resolution::Failed,
            NeighbourState::Failed | NeighbourState::Unknown | NeighbourState::Awaited => Resolution::Unknown,
        };
        self.state().rib.set_neighbour(key.0, key.1, link);
    }

    fn is_known_behind_a_port(&self, (link, address): Key) -> bool {
        let rib = &self.state().rib;
        rib.port(link).is_some() && matches!(rib.neighbour(link, address), Resolution::Known(_))
    }

    /// Asks for the neighbours that frames wait for, gives up on those that do not answer, and refreshes stale
    /// ones.
    pub(super) fn ask_for_neighbours(&mut self) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut to_ask = Vec::new();
        for unresolved in &mut self.unresolved {
            unresolved.read(|neighbour| {
                let key = state.rib.link(neighbour.port).map(|link| (link, neighbour.address));
                // The worker may not have the known address yet. The kernel would report nothing new, as if the
                // neighbour did not answer.
                let key =
                    key.filter(|key| !matches!(state.rib.neighbour(key.0, key.1), Resolution::Known(_)));
                to_ask.extend(key.filter(|key| self.requests.add(*key, now)));
            });
        }
        let is_up =
            |link: u32| self.links.get(&link) == Some(&LinkState::Up) && state.rib.port(link).is_some();
        let lost = self.requests.lost_due(now, is_up);
        lost.gone.iter().for_each(|key| state.rib.set_neighbour(key.0, key.1, Resolution::Unknown));
        state.counters.forgotten += (lost.ask.len() - lost.again) as u64;
        to_ask.extend(lost.ask);
        let due = self.requests.due(now, |link| state.rib.port(link).is_some());
        state.counters.unanswered += (lost.again + due.timed_out.len()) as u64;
        state.counters.failed_neighbours += due.timed_out.len() as u64;
        due.timed_out.iter().for_each(|key| state.rib.set_neighbour(key.0, key.1, Resolution::Failed));
        due.expired.iter().for_each(|key| state.rib.set_neighbour(key.0, key.1, Resolution::Unknown));
        to_ask.extend(due.ask.into_iter().chain(due.refresh));
        drop(state);
        // The kernel's other errors do not matter: a request that it does not carry out is recognised by its silence.
        let ask = |(link, address): &&Key| self.request_socket.use_neighbour(*link, *address).is_ok();
        let made = to_ask.iter().filter(ask).count();
        let mut state = self.state();
        state.counters.neigh_requests += made as u64;
        state.counters.neigh_refused += (to_ask.len() - made) as u64;
    }
}
