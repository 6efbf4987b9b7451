//! Following the router's ends of its links where only given routes are: an interface that is made again, or changed, may have
//! another address and MTU. COLD.

use netmem::system::netdev::Netdev;
use netmem::wire::MacAddr;
use netmem_router::Interface;
use netmem_router::route::{Change, FibControl, OwnAddress, Rib};
use netmem_rtnetlink::Attached;
use std::sync::{Arc, Mutex, PoisonError};

/// The table of given routes, what changes what workers read of it, and the router's own addresses.
pub type GivenTable = Arc<Mutex<(Rib, FibControl, Vec<OwnAddress>)>>;

/// The interfaces of a router's ports, as its packets are sent by them.
#[derive(Default)]
pub struct Links {
    /// None where nobody asks for them, or the kernel tells of them.
    table: Option<GivenTable>,
    /// In the order of the ports: the kernel's interface, and the router's end of the link.
    known: Vec<(Attached, Interface)>,
}

impl Links {
    /// Of these ports: the kernel's interface, and how the router's end of the link is now.
    pub fn new(table: GivenTable, ports: impl Iterator<Item = (Attached, Interface)>) -> Links {
        Links { table: Some(table), known: ports.collect() }
    }

    /// Looks how they are now, and has packets sent so; a line for each that has changed.
    pub fn look(&mut self) -> Vec<String> {
        let Some(table) = &self.table else { return Vec::new() };
        let (mut changes, mut lines) = (Vec::new(), Vec::new());
        for (place, (attached, known)) in (0..).zip(&mut self.known) {
            let Some(name) = attached.name() else { continue };
            // One that is gone is as it was until there is another.
            let Some(kernel) = interface(name) else { continue };
            let now = attached.end(*known, kernel);
            if now != *known {
                *known = now;
                changes.push(Change::Interface(place, now));
                lines.push(match attached.own() {
                    Some(_) => format!("interface {name} has address {} and MTU {} now", now.mac, now.mtu),
                    None => format!("interface {name} has MTU {} now", now.mtu),
                });
            }
        }
        table.lock().unwrap_or_else(PoisonError::into_inner).1.apply(changes);
        lines
    }
}

/// The kernel's end of the interface of that name, with its MAC address and MTU; None where there is none.
fn interface(name: &str) -> Option<Interface> {
    let netdev = Netdev::open(name).ok()?;
    let (mac, mtu) = (netdev.mac().ok()?, netdev.mtu().ok()?);
    Some(Interface { mac: MacAddr::new(mac), mtu: u16::try_from(mtu).unwrap_or(u16::MAX) })
}
