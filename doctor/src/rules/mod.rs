//! The rules: which properties of a host keep a dataplane from working, lose its packets, or make it slow. They ask
//! the kernel nothing.

mod advertisements;
mod beside;
mod cores;
mod firewall;
mod interfaces;
mod kernel;
mod neighbours;
mod offloads;
mod peers;
mod privileges;
mod queues;
mod settings;
#[cfg(test)]
mod tests;

use crate::finding::{Finding, Findings};
use crate::host::{Host, Interface};
use crate::wanted::{Device, Wanted};

pub use interfaces::longer_than_frames;

/// Returns all problems, the most harmful first. Returns none if the host meets every requirement.
///
/// # Examples
/// ```
/// # use netmem_doctor::{Host, Wanted, findings};
/// let wanted = Wanted::default();
/// for finding in findings(&Host::read(&wanted), &wanted) {
///     println!("{finding}");
/// }
/// ```
#[must_use]
pub fn findings(host: &Host, wanted: &Wanted) -> Vec<Finding> {
    let mut found = Findings::default();
    let rules = [
        privileges::check,
        kernel::check,
        cores::check,
        interfaces::check,
        queues::check,
        offloads::check,
        beside::check,
        settings::check,
        advertisements::check,
        firewall::check,
        neighbours::check,
        peers::check,
    ];
    for rule in rules {
        rule(host, wanted, &mut found);
    }
    found.sorted()
}

/// Finds cases in which the kernel also handles the packets of `wanted`. The kernel forwards packets that a packet
/// port receives, by a route or a bridge. It also drops packets that come in on another port than the one by which
/// it answers, and takes routes from router advertisements. Also finds filters and NAT of the kernel that packets pass
/// by, interfaces of the kernel, on top of a port's, that get no packets any more, interfaces whose packets can be
/// longer than a frame, and queues that no port takes.
///
/// # Cost
/// A list of the interfaces, some files of /proc, and the number of queues of each `xdp` port's interface. None if no
/// port is on an interface.
#[must_use]
pub fn beside_the_kernel(wanted: &Wanted) -> Vec<Finding> {
    let mut found = Findings::default();
    let has_interface = |device: &Device| device.interface().is_some() || matches!(device, Device::Tap(_));
    if wanted.ports.iter().any(|port| has_interface(&port.device)) {
        let host = Host::with_links(wanted);
        settings::check(&host, wanted, &mut found);
        advertisements::check(&host, wanted, &mut found);
        firewall::check(&host, wanted, &mut found);
        beside::bridges(&host, wanted, &mut found);
        beside::on_top(&host, wanted, &mut found);
        interfaces::lengths(&host, wanted, &mut found);
        queues::left(&host, wanted, &mut found);
    }
    found.sorted()
}

/// Returns the interface with this name, main or alternative, and its main name.
fn interface<'a>(host: &'a Host, name: &str) -> Option<(&'a str, &'a Interface)> {
    host.interface(name)
}

/// Returns true if the interface may carry Ethernet frames, as each port needs. The frames of a loopback interface are some with
/// addresses of zeros, which only xdp ports take.
fn is_ethernet(its: &Interface, device: &Device) -> bool {
    const ETHER: u16 = 1;
    const LOOPBACK: u16 = 772;
    match its.frame_type {
        None | Some(ETHER) => true,
        Some(LOOPBACK) => matches!(device, Device::Xdp(_)),
        Some(_) => false,
    }
}

/// `0, 1 and 5`
fn listed<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match &items[..] {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
