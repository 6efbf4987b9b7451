//! The rules: what of a host keeps a dataplane from working, loses its packets, or makes it slow. They ask the kernel nothing.

mod beside;
mod cores;
mod interfaces;
mod kernel;
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

/// Everything that is wrong, what does most harm first; none on a host that has all that is wanted.
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
        peers::check,
    ];
    for rule in rules {
        rule(host, wanted, &mut found);
    }
    found.sorted()
}

/// What the kernel does with the packets of `wanted` beside it: it forwards what a packet port receives, by a route or a bridge, or drops
/// what comes by another port than it answers by.
///
/// # Cost
/// A list of the interfaces and some files of /proc; nothing where no port is on an interface.
#[must_use]
pub fn beside_the_kernel(wanted: &Wanted) -> Vec<Finding> {
    let mut found = Findings::default();
    let has_interface = |device: &Device| device.interface().is_some() || matches!(device, Device::Tap(_));
    if wanted.ports.iter().any(|port| has_interface(&port.device)) {
        let host = Host::with_links(wanted);
        settings::check(&host, wanted, &mut found);
        beside::bridges(&host, wanted, &mut found);
    }
    found.sorted()
}

/// The interface of that name, own or other, with its own name.
fn interface<'a>(host: &'a Host, name: &str) -> Option<(&'a str, &'a Interface)> {
    let is_it = |(own, interface): &(&String, &Interface)| {
        *own == name || interface.other_names.iter().any(|other| other == name)
    };
    host.interfaces.iter().find(is_it).map(|(own, interface)| (&own[..], interface))
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
