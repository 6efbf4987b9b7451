//! The targets of routes, each stored once, with the number by which workers know it.

use super::neighbours::Neighbours;
use super::{Link, Target, Via};
use crate::route::{Change, HopId, NextHop, Path};
use std::collections::HashMap;

/// All targets of routes.
///
/// Invariant: a target is stored while it has users. When the last user is gone, its number becomes free.
#[derive(Debug, Default)]
pub(super) struct Targets {
    places: Vec<Option<Place>>,
    numbers: HashMap<Target, HopId>,
    free: Vec<HopId>,
}

#[derive(Debug)]
struct Place {
    target: Target,
    users: u32,
}

impl Targets {
    /// Adds a user of a target. Returns the target's number, and true if the target is new.
    pub(super) fn intern(&mut self, target: &Target) -> (HopId, bool) {
        if let Some(&id) = self.numbers.get(target) {
            self.hold(id);
            return (id, false);
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            HopId((self.places.len() - 1) as u32)
        });
        self.places[id.0 as usize] = Some(Place { target: target.clone(), users: 1 });
        self.numbers.insert(target.clone(), id);
        (id, true)
    }

    /// Adds a user.
    pub(super) fn hold(&mut self, id: HopId) {
        if let Some(place) = self.place(id) {
            place.users += 1;
        }
    }

    /// Removes a user.
    pub(super) fn release(&mut self, id: HopId) {
        let Some(place) = self.place(id) else { return };
        place.users -= 1;
        if place.users == 0
            && let Some(place) = self.places[id.0 as usize].take()
        {
            self.numbers.remove(&place.target);
            self.free.push(id);
        }
    }

    fn place(&mut self, id: HopId) -> Option<&mut Place> {
        self.places.get_mut(id.0 as usize)?.as_mut()
    }

    pub(super) fn find(&self, target: &Target) -> Option<HopId> {
        self.numbers.get(target).copied()
    }

    pub(super) fn get(&self, id: HopId) -> Option<&Target> {
        self.places.get(id.0 as usize)?.as_ref().map(|place| &place.target)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = HopId> + '_ {
        (0..).zip(&self.places).filter_map(|(id, place)| place.as_ref().map(|_| HopId(id)))
    }

    /// Returns what workers need to reach a target.
    pub(super) fn compile(
        &self,
        id: HopId,
        ports: &HashMap<u32, u8>,
        neighbours: &Neighbours,
    ) -> Option<Change> {
        let port = |link: u32| ports.get(&link).copied();
        let hop = match self.get(id)? {
            Target::Station { port, mac } => NextHop::station(*port, *mac),
            Target::Local => NextHop::LOCAL,
            Target::Blackhole => NextHop::BLACKHOLE,
            Target::Unreachable => NextHop::UNREACHABLE,
            Target::Prohibit => NextHop::PROHIBIT,
            Target::Throw => NextHop::THROW,
            Target::Paths(paths) => match **paths {
                [] => NextHop::ELSEWHERE,
                [Via { link, address: None, mtu: None, .. }] => {
                    port(link).map_or(NextHop::ELSEWHERE, NextHop::on_link)
                }
                [Via { link, address: Some(address), mtu: None, .. }] => {
                    match (port(link), neighbours.get(link, address)) {
                        (None, _) => NextHop::ELSEWHERE,
                        (Some(port), Link::Known(mac)) => NextHop::station(port, mac),
                        (Some(port), _) => {
                            let path = Path { port: Some(port), via: Some(address), weight: 1, mtu: None };
                            return Some(Change::Paths(id, [path].into()));
                        }
                    }
                }
                _ => {
                    let path = |via: &Via| Path {
                        port: port(via.link),
                        via: via.address,
                        weight: via.weight,
                        mtu: via.mtu,
                    };
                    return Some(Change::Paths(id, paths.iter().map(path).collect()));
                }
            },
        };
        Some(Change::Hop(id, hop))
    }
}
