//! The targets of routes, each stored once, with the number by which workers know it.

use super::neighbours::Neighbours;
use super::{Resolution, Target, Via};
use crate::route::{Change, FibEntry, HopId, Path, SourceHint};
use std::collections::HashMap;
use std::net::IpAddr;

/// All targets of routes.
///
/// Invariant: a target is stored while it has users. When the last user is gone, its number becomes free.
#[derive(Debug, Default)]
pub(super) struct Targets {
    places: Vec<Option<FrameState>>,
    numbers: HashMap<Target, HopId>,
    /// The targets with a single path by a neighbour, for whose hop the neighbour's MAC address is needed.
    gateways: HashMap<(u32, IpAddr), Vec<HopId>>,
    /// By number: the last hint about the source of packets to a target that was sent to workers.
    hints: Vec<SourceHint>,
    free: Vec<HopId>,
}

#[derive(Debug)]
struct FrameState {
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
        self.places[id.0 as usize] = Some(FrameState { target: target.clone(), users: 1 });
        self.numbers.insert(target.clone(), id);
        if let Some(gateway) = gateway(target) {
            self.gateways.entry(gateway).or_default().push(id);
        }
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
            if let Some(gateway) = gateway(&place.target)
                && let Some(of) = self.gateways.get_mut(&gateway)
            {
                of.retain(|its| *its != id);
                if of.is_empty() {
                    self.gateways.remove(&gateway);
                }
            }
            self.free.push(id);
        }
    }

    /// Returns the targets with a single path by this neighbour.
    pub(super) fn by_neighbour(&self, link: u32, address: IpAddr) -> Vec<HopId> {
        self.gateways.get(&(link, address)).cloned().unwrap_or_default()
    }

    /// Returns what the source of packets to a target depends on, if another hint was sent to workers about the target
    /// of this number before.
    pub(super) fn new_hint(&mut self, id: HopId) -> Option<SourceHint> {
        let hint = match self.get(id) {
            Some(Target::Paths(paths)) => {
                let of = |first: &Via| SourceHint { preferred: first.source, via: first.address };
                paths.first().map(of).unwrap_or_default()
            }
            _ => SourceHint::default(),
        };
        let at = id.0 as usize;
        if at >= self.hints.len() {
            self.hints.resize(at + 1, SourceHint::default());
        }
        (std::mem::replace(&mut self.hints[at], hint) != hint).then_some(hint)
    }

    fn place(&mut self, id: HopId) -> Option<&mut FrameState> {
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
            Target::Station { port, mac } => FibEntry::station(*port, *mac),
            Target::Local => FibEntry::LOCAL,
            Target::Blackhole => FibEntry::BLACKHOLE,
            Target::Unreachable => FibEntry::UNREACHABLE,
            Target::Prohibit => FibEntry::PROHIBIT,
            Target::Throw => FibEntry::THROW,
            Target::Paths(paths) => match **paths {
                [] => FibEntry::ELSEWHERE,
                [Via { link, address: None, mtu: None, .. }] => {
                    port(link).map_or(FibEntry::ELSEWHERE, FibEntry::on_link)
                }
                [Via { link, address: Some(address), mtu: None, .. }] => {
                    match (port(link), neighbours.get(link, address)) {
                        (None, _) => FibEntry::ELSEWHERE,
                        (Some(port), Resolution::Known(mac)) => FibEntry::station(port, mac),
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

/// Returns the neighbour by which the only path of a target leads.
fn gateway(target: &Target) -> Option<(u32, IpAddr)> {
    let Target::Paths(paths) = target else { return None };
    let [Via { link, address: Some(address), mtu: None, .. }] = paths[..] else { return None };
    Some((link, address))
}
