//! Follows the interfaces of ports: their names, their carriers and, if there are only static routes, the router's ends of
//! their links. An interface that is changed, or made again, may have another address and MTU. COLD.

use super::carriers::Carriers;
use super::plan::{Plan, Source};
use crate::args::{RoutesArg, port_interface};
use crate::log::Level;
use netmem::system::netdev::Netdev;
use netmem::wire::MacAddr;
use netmem_doctor::longer_than_frames;
use netmem_router::Interface;
use netmem_router::route::{Change, FibControl, OwnAddress, Rib};
use netmem_rtnetlink::PortInterface;
use std::sync::{Arc, Mutex, PoisonError};

/// The table of static routes, the control that publishes it to workers, and the router's own addresses.
pub type GivenTable = Arc<Mutex<(Rib, FibControl, Vec<OwnAddress>)>>;

/// The interfaces of a run's ports.
pub struct Links {
    /// None if no packets are routed by it, or if the kernel reports interfaces.
    table: Option<GivenTable>,
    /// Packets are routed, so the router's ends of the links matter.
    has_ends: bool,
    /// Bytes of the longest packet that fits into a frame.
    longest: usize,
    /// In the order of the ports.
    ports: Vec<PortLink>,
    carriers: Carriers,
}

/// The interface of a port.
struct PortLink {
    /// The port, as it is written.
    port: String,
    port_interface: PortInterface,
    is_xdp: bool,
    /// The kernel's interface. A port stays with this interface, whatever the name of it or of another becomes.
    netdev: Option<Netdev>,
    /// Its last known name.
    name: String,
    /// Its last known MAC address.
    mac: Option<[u8; 6]>,
    /// Number of the last looks at which both were others.
    looks_at_other: u32,
    /// Its last known MTU, or 0.
    mtu: u32,
    /// The router's end of the link.
    end: Interface,
}

impl Links {
    /// Makes the links of the opened ports, with the router's ends `ends`. `table` is the table of static routes, if packets are routed by one.
    pub fn new(table: Option<GivenTable>, plan: &Plan, ends: Vec<Interface>) -> Links {
        let longest = plan.frame_size.longest();
        let Source::Ports { ports, from, .. } = &plan.source else {
            let (ports, carriers) = (Vec::new(), Carriers::default());
            return Links { table: None, has_ends: false, longest, ports, carriers };
        };
        let link = |(port, end)| {
            let port_interface = port_interface(port);
            let name = port_interface.name().unwrap_or_default().to_owned();
            let netdev = port_interface.name().and_then(|name| Netdev::open(name).ok());
            let mac = netdev.as_ref().and_then(|netdev| netdev.mac().ok());
            let mtu = netdev.as_ref().and_then(|netdev| netdev.mtu().ok()).unwrap_or_default();
            let (port, is_xdp) = (port.to_string(), port.xdp().is_some());
            PortLink { port, port_interface, is_xdp, netdev, name, mac, looks_at_other: 0, mtu, end }
        };
        let has_ends = table.is_some() || *from == RoutesArg::Kernel;
        let ports: Vec<_> = ports.iter().zip(ends).map(link).collect();
        let carriers = Carriers::of(ports.len());
        Links { table, has_ends, longest, ports, carriers }
    }

    /// Returns the carriers of the interfaces, as each look sees them.
    pub fn carriers(&self) -> Carriers {
        self.carriers.clone()
    }

    /// Reads the current state and publishes it to workers. Returns a line for each change. `is_up` says whether the port of a
    /// number is up.
    pub fn look(&mut self, is_up: impl Fn(usize) -> bool) -> Vec<(Level, String)> {
        let (mut changes, mut lines) = (Vec::new(), Vec::new());
        // The numbers come last, because of 255 ports the number after the last one does not exist.
        for (link, place) in self.ports.iter_mut().zip(0..) {
            let is_up = is_up(usize::from(place));
            lines.extend(link.look_at_name(is_up).map(|line| (Level::Warning, line)));
            let names = (&link.port[..], &link.name[..]);
            lines.extend(self.carriers.see(usize::from(place), (link.carrier(), is_up), names));
            let too_long = link.look_at_length(self.longest);
            let end = if self.has_ends { link.look_at_end() } else { None };
            if end.is_some() {
                changes.push(Change::Interface(place, link.end));
            }
            match (end, too_long) {
                (Some(line), Some(why)) => lines.push((Level::Warning, format!("{line}: {why}"))),
                (Some(line), None) => lines.push((Level::Info, line)),
                (None, Some(why)) => {
                    let line = format!("interface {} now has MTU {}: {why}", link.name, link.mtu);
                    lines.push((Level::Warning, line));
                }
                (None, None) => {}
            }
        }
        if let Some(table) = &self.table {
            table.lock().unwrap_or_else(PoisonError::into_inner).1.apply(changes);
        }
        lines
    }

    /// Returns the description of a port of this number, other than its name. A router's has its MAC address too, for its
    /// neighbours.
    pub fn detail(&self, port: usize, detail: String) -> String {
        match self.ports.get(port).filter(|_| self.has_ends) {
            None => detail,
            Some(link) if detail.is_empty() => format!("address {}", link.end.mac),
            Some(link) => format!("{detail}, address {}", link.end.mac),
        }
    }
}

impl PortLink {
    /// Returns the current name of the interface, or None if it is gone. Its number may belong to another interface by now, whose
    /// name and address are others. So may those of its own be, if the port is still up at the next look.
    fn current(&mut self, is_up: bool) -> Option<String> {
        let netdev = self.netdev.as_ref()?;
        let (name, mac) = (netdev.current_name().ok()?, netdev.mac().ok());
        let is_it = name == self.name || mac == self.mac || (self.looks_at_other > 0 && is_up);
        self.looks_at_other = if is_it { 0 } else { self.looks_at_other.saturating_add(1) };
        is_it.then(|| {
            self.mac = mac;
            name
        })
    }

    /// Reads the current name. Returns a line if it has changed. If the interface is gone, the one that now has its
    /// name takes its place.
    fn look_at_name(&mut self, is_up: bool) -> Option<String> {
        let now = self.current(is_up);
        let written = self.port_interface.name()?;
        let Some(now) = now else {
            self.netdev = match &self.netdev {
                Some(netdev) => netdev.again().ok(),
                None => Netdev::open(written).ok(),
            }
            .or(self.netdev.take());
            written.clone_into(&mut self.name);
            return None;
        };
        if now == self.name {
            return None;
        }
        let (port, before) = (&self.port, std::mem::replace(&mut self.name, now));
        let now = &self.name;
        Some(if now == written {
            format!("port {port}: its interface {before} is called {now} again")
        } else {
            format!(
                "port {port}: its interface {before} is called {now} now; the port keeps this interface, and looks for {written} when the interface goes away: \
                 rename the interface to {written}, or restart netmem with {now}"
            )
        })
    }

    /// Returns whether the interface has a carrier, or None if it is down or gone.
    fn carrier(&self) -> Option<bool> {
        let netdev = self.netdev.as_ref().filter(|_| self.looks_at_other == 0)?;
        netdev.has_carrier().ok()?
    }

    /// Reads the current MTU. Returns what is lost, and the remedy, if it has changed and packets can now be longer than a
    /// frame, which has room for `longest` bytes.
    fn look_at_length(&mut self, longest: usize) -> Option<String> {
        if self.looks_at_other > 0 {
            return None;
        }
        let now = self.netdev.as_ref()?.mtu().ok()?;
        if std::mem::replace(&mut self.mtu, now) == now {
            return None;
        }
        let (what, remedy) = longer_than_frames((&self.name, now), longest, self.is_xdp)?;
        Some(format!("{what}: {remedy}"))
    }

    /// Reads the current end of the link, with the MTU that [`look_at_length`](Self::look_at_length) has read. Returns a line
    /// if it has changed. If the interface is gone, the end stays the same until there is another.
    fn look_at_end(&mut self) -> Option<String> {
        if self.looks_at_other > 0 {
            return None;
        }
        let now = self.port_interface.router_interface(self.end, self.interface()?);
        if now == self.end {
            return None;
        }
        self.end = now;
        let name = &self.name;
        Some(match self.port_interface.router_end() {
            Some(_) => format!("interface {name} now has address {} and MTU {}", now.mac, now.mtu),
            None => format!("interface {name} now has MTU {}", now.mtu),
        })
    }

    /// Returns the kernel's end of the interface, with its MAC address and MTU, or None if it is gone.
    fn interface(&self) -> Option<Interface> {
        let mac = self.netdev.as_ref()?.mac().ok()?;
        Some(Interface { mac: MacAddr::new(mac), mtu: u16::try_from(self.mtu).unwrap_or(u16::MAX) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    /// Seen: a run with 255 ports, as many as there may be, panicked at its first look at their interfaces.
    #[test]
    fn as_many_ports_as_there_may_be_are_looked_at() {
        let ports: Vec<_> = (0..255).map(|n| format!("\"pcap:out=/nonexistent/{n}\"")).collect();
        let text = format!("port = [{}]\nmode = \"reflect\"\n", ports.join(", "));
        let plan = args::forward_of(&text, &[]).and_then(|args| Plan::of(&args)).expect("a plan");
        let end = Interface { mac: MacAddr::new([2, 0, 0, 0, 0, 7]), mtu: 1500 };
        let mut links = Links::new(None, &plan, vec![end; ports.len()]);
        assert_eq!((links.ports.len(), links.look(|_| true).len()), (255, 0));
    }
}
