//! Following the router's ends of its links where only given routes are: an interface that is made again, or changed, may have
//! another address and MTU. COLD.

use super::ports::interface_of;
use netmem::forward::ip::Interface;
use netmem::forward::route::{Change, FibControl, OwnAddress, Rib};
use netmem::sys::netdev::Netdev;
use std::sync::{Arc, Mutex, PoisonError};

/// The table of given routes, what changes what workers read of it, and the router's own addresses.
pub type GivenTable = Arc<Mutex<(Rib, FibControl, Vec<OwnAddress>)>>;

/// The interfaces of a router's ports, as its packets are sent by them.
#[derive(Default)]
pub struct Links {
    /// None where nobody asks for them, or the kernel tells of them.
    table: Option<GivenTable>,
    /// Each with its port's place; those that the kernel has.
    known: Vec<(u8, String, Interface)>,
}

impl Links {
    /// Of these ports: the name of the kernel's interface, and how it is now.
    pub fn new<'a>(table: GivenTable, ports: impl Iterator<Item = (Option<&'a str>, Interface)>) -> Links {
        let known = (0..).zip(ports).filter_map(|(place, (name, now))| Some((place, name?.to_owned(), now)));
        Links { table: Some(table), known: known.collect() }
    }

    /// Looks how they are now, and has packets sent so; a line for each that has changed.
    pub fn look(&mut self) -> Vec<String> {
        let Some(table) = &self.table else { return Vec::new() };
        let (mut changes, mut lines) = (Vec::new(), Vec::new());
        for (place, name, known) in &mut self.known {
            // One that is gone is as it was until there is another.
            let Some(now) = Netdev::open(name).ok().and_then(|netdev| interface_of(&netdev).ok()) else {
                continue;
            };
            if now != *known {
                *known = now;
                changes.push(Change::Interface(*place, now));
                lines.push(format!("interface {name} has address {} and MTU {} now", now.mac, now.mtu));
            }
        }
        table.lock().unwrap_or_else(PoisonError::into_inner).1.apply(changes);
        lines
    }
}
