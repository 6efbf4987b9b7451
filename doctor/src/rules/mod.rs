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
use crate::wanted::Wanted;

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

/// The packet ports of `wanted` whose packets the kernel forwards as well.
///
/// # Cost
/// Some files of /proc where there are packet ports; nothing where there are none.
#[must_use]
pub fn forwarded_twice(wanted: &Wanted) -> Vec<Finding> {
    let mut found = Findings::default();
    if wanted.packet().next().is_none() {
        return found.sorted();
    }
    settings::forwarding(&Host::with_settings(wanted), wanted, &mut found);
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
